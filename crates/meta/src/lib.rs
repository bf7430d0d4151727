//! The namespace: stubs, names, the state stores and what is kept in them, quotas.

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
