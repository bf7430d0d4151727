//! Worlds in virtual time: traces, devices, links and caches, driven by the machines of `policy`.
//!
//! Time is `policy::time::Time`, nanoseconds in a u64. Nothing here reads a clock, starts a thread (except `grid`,
//! which runs independent worlds in parallel) or draws an unseeded random number. The same inputs give the same bytes
//! on any machine.

#[macro_use]
mod named;

pub mod block;
pub mod burst;
pub mod center;
pub mod cluster;
pub mod connections;
pub mod disk;
pub mod event;
pub mod generate;
pub mod grid;
pub mod latency;
pub mod link;
pub mod patterns;
pub mod prefetch;
pub mod recovery;
pub mod replacement;
pub mod replay;
mod rounded;
pub mod setup;
pub mod simulate;
pub mod ssd;
mod steps;
pub mod storage;
pub mod stripe;
pub mod tier;
pub mod trace;
pub mod volume;
pub mod widths;
pub mod world;
