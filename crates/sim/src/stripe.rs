//! Striped requests on many disks: fork-join in virtual time, under a load that changes, with a width that may follow it.
//!
//! ```text
//!   phases -> Poisson arrivals -> request of D stripes -> D neighbouring disks, first come first served -> the last one ends it
//!                                        ^
//!                 policy::stripe::striper, once per interval; among forks, one choice per request
//! ```
//! The disks are those of the model (seek, rotation and a third term, each uniform), so that the model can be held against the queues, or
//! the simulator's mechanical disks, which know where their arm is.

mod disks;
mod phases;
mod world;

pub use phases::{Asked, Phase, parse_phases};
pub use world::{Drive, FILE, Figures, Kind, Logged, Setup, config, run, run_logged};
