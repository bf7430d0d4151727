//! Striped requests on many disks: the simulated volume ([`crate::volume`]) with one file, under a changing load,
//! with a fixed or adaptive width.
//!
//! ```text
//!   phases -> Poisson arrivals -> requests of one file -> its layout -> neighbouring disks, first come first served
//!                                                           ^
//!                                      policy::volume, with stripes alone
//! ```
//! The disks are those of the model (seek, rotation and a third term, each uniform), so that the model can be
//! compared with queues. Alternatively they are the simulator's mechanical disks, which track their arm.

mod closed;
mod phases;
mod world;

pub use closed::{Closed, Loop, closed};
pub use phases::{Phase, RequestClass, parse_phases};
pub use world::{Drive, Figures, Setup, run, run_logged};
