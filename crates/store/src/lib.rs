//! The live world: targets, stubs, layouts, files, mover, repair, control socket and the FUSE mount.
//!
//! It drives the machines of `policy` in real time and does all the I/O. All decisions are theirs.

pub mod adapt;
pub mod admission;
pub mod cache;
pub mod calls;
pub mod control;
mod counters;
pub mod daemon;
mod descent;
pub mod descriptors;
pub mod durable_names;
pub mod error;
pub mod events;
pub mod exit;
pub mod file;
pub mod host;
pub mod losses;
pub mod measure;
mod messages;
pub mod mount;
pub mod mover;
pub mod namespace;
mod newer;
pub mod nodes;
pub mod places;
pub mod quota;
pub mod recovery;
pub mod renewal;
pub mod rights;
pub mod source;
pub mod stage;
pub mod state;
pub mod stats;
mod stop;
pub mod stub;
pub mod target;
mod unsynced;
pub mod volume;
mod volume_id;
pub mod workers;

pub use error::{Error, Result};
