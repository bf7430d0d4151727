//! Files of a volume: layouts, bytes, mover, recovery, cache and staging. A program opens a volume with this crate alone,
//! without the daemon.

pub mod cache;
pub mod durable_names;
pub mod events;
pub mod file;
pub mod mover;
pub mod recovery;
pub mod rights;
pub mod source;
pub mod stage;
pub mod stats;
pub mod volume;

use object::{Error, Result};
