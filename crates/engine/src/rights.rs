//! Rights of a user, taken by the threads and child processes of the daemon that work for that user.
//!
//! ```text
//! with_rights_of()  a thread: effective ids and groups of the user; real and saved ids stay root's, against signals
//! command()         a child, for good: all ids, no bounding set, no_new_privs, an environment of four variables
//! take_for_good()   the process of a job's step, which becomes the user's command
//! ```
//!
//! Each of them sets groups, ids, securebits and all capability sets explicitly, reads them back, and fails before the
//! first step that the user controls. Nothing is taken over from the thread that starts it. A daemon of an ordinary user
//! has no privileges to drop, so its children keep what the user has, setuid programs included.

mod child;
mod take;
mod thread;

pub use child::command;
pub use take::{Rights, RightsError};
pub use thread::with_rights_of;
