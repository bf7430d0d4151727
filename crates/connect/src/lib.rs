//! Several connections to one storage server behind one mount point (Sung, chapter 4).
//!
//! ```text
//!   application -> kernel -> FUSE threads -> serve      names over one connection, bytes by policy
//!                                             |
//!                                           set         driver of policy::connections: choice, trust, retries
//!                                             |
//!                                         private       n mounts by the file system's own mount command, in a
//!                                                       private mount namespace; beside each, where faster, a
//!                                                       connection of the client library
//! ```
//! A target of a volume has the same below [`target`] instead of `serve`: the daemon sends the requests, and there is
//! no mount point.
//!
//! The plain file system is shown as it is: no layouts, nothing stored beside it. Bytes that a connection
//! acknowledged are on the server, since each is mounted without caches of its own. Bytes that we acknowledged
//! earlier stay here until then, so a broken connection loses nothing.

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

pub use mount::Connected;
pub use mounts::{Mounts, Root};
pub use options::Options;
pub use recipe::Recipe;
pub use set::Connections;
pub use status::Status;
pub use target::Servers;
