//! A shared burst buffer under checkpoints: who waits, who is slowed, what is demoted, what a restart finds.
//!
//! ```text
//!   applications, each with its period, versions, MTBF --> policy::burst::queue --> write --> buffer --> demotion --> capacity tier
//!                                                                 rates: policy::burst::control        policy::burst::tables
//! ```
//! Data flows at rates that are constant for a step (50 ms by default); at the end of a step decisions are made. Writing and demotion
//! share the device along the line of equation 5.1; the capacity tier is never the bottleneck beyond that.

pub mod list;
mod load;
mod world;

pub use load::{Listed, Load, VersionClass};
pub use world::{Figures, Scheme, Setup, run, run_logged, utilisation};
