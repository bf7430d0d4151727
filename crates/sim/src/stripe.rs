//! Striped requests on many disks: fork-join in virtual time, under a load that changes, with a width that may follow it.
//!
//! ```text
//!   phases -> Poisson arrivals -> request of D stripes -> D neighbouring disks, first come first served -> the last one ends it
//!                                        ^
//!                 policy::stripe::controller, once per interval
//! ```
//! The disks are those of the model (seek, rotation and a third term, each uniform), so that the model can be held against the queues, or
//! the simulator's mechanical disks, which know where their arm is.

mod phases;
mod world;

pub use phases::{Phase, parse_phases};
pub use world::{Figures, Kind, Setup, run};
