//! A shared burst buffer under checkpoints: waits, slowdowns, demotions, and the versions that a restart finds.
//!
//! ```text
//!   applications, each with its period, versions, MTBF --> crate::volume, with nothing but a burst buffer --> figures
//! ```
//! An application writes a checkpoint piece by piece; `policy::volume` holds each piece until its turn, its space and
//! its share of the bandwidth are available. Writing and demotion share the device along the line of equation 5.1;
//! the capacity tier is never the bottleneck beyond that.

pub mod list;
mod load;
mod world;

pub use load::{Listed, Load, VersionClass};
pub use world::{Figures, Scheme, Setup, run, run_logged, utilisation};
