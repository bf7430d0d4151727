//! The namespace with its stubs and names, the state stores, places of files, quotas, and messages between nodes.

pub mod descent;
pub mod messages;
pub mod namespace;
pub mod places;
pub mod quota;
pub mod records;
pub mod state;
pub mod stub;
pub mod unsynced;

use object::{Error, Result};
