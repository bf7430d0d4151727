//! Several connections to one storage server behind one mount point (paper 001, chapter 4).
//!
//! ```text
//!   application -> kernel -> FUSE threads -> serve      names over one connection, bytes over those that the policy chooses
//!                                             |
//!                                           set         policy::connections driven: who is chosen, who is trusted, what is retried
//!                                             |
//!                                         private       n mounts by the file system's own mount command, in a mount namespace
//!                                                       that nobody else sees; a client library's connection beside each, where that is faster
//! ```
//! A target of a volume has the same below [`target`] instead of `serve`: the daemon asks, and there is no mount point.
//!
//! The plain file system is shown as it is: no layouts, nothing stored beside it. What a connection acknowledged is with the server (each
//! is mounted without caches of its own), and what we acknowledged before that stays here until then, so one that breaks takes nothing with it.

pub mod aligned;
pub mod broken;
pub mod client;
mod counts;
mod file;
pub mod gfapi;
pub mod measure;
pub mod mount;
pub mod mounts;
mod names;
pub mod opened;
pub mod options;
pub mod private;
mod readers;
pub mod recipe;
mod serve;
pub mod set;
pub mod status;
pub mod target;
mod writers;

pub use mount::{Connected, StartError};
pub use mounts::{Mounts, Root};
pub use options::Options;
pub use recipe::Recipe;
pub use set::Connections;
pub use status::Status;
pub use target::Servers;
