//! Striped requests on many disks: the simulated volume ([`crate::volume`]) with one file, under a load that changes and
//! with a width that may follow it.
//!
//! ```text
//!   phases -> Poisson arrivals -> requests of one file -> its layout -> neighbouring disks, first come first served
//!                                                           ^
//!                                      policy::volume, with stripes alone
//! ```
//! The disks are those of the model (seek, rotation and a third term, each uniform), so that the model can be held against
//! the queues, or the simulator's mechanical disks, which know where their arm is.

mod phases;
mod world;

pub use phases::{Asked, Phase, parse_phases};
pub use world::{Drive, Figures, Setup, run, run_logged};
