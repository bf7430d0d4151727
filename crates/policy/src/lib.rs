//! Every decision of Entrepot, as state machines without clock, thread, file or hidden randomness.
//!
//! All have one contract, [`machine::Machine`]. The live file system drives them in real time and the simulator in
//! virtual time. So the simulated code is the code that runs.

pub mod advice;
pub mod balance;
mod block;
pub mod burst;
pub mod cache;
pub mod cluster;
pub mod connections;
pub mod coordinate;
pub mod glob;
pub mod holders;
pub mod ids;
pub mod layout;
pub mod machine;
pub mod maintenance;
mod named;
pub mod pattern;
pub mod precedence;
pub mod prefetch;
pub mod protect;
pub mod quota;
pub mod ranges;
pub mod schedule;
pub mod shares;
pub mod streams;
pub mod stripe;
pub mod throttle;
pub mod tier;
pub mod time;
pub mod units;
pub mod volume;
pub mod words;

pub use ids::{FileId, ObjectId, TargetId};
pub use time::Time;
