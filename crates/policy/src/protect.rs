//! Protection against failing targets: health of targets, recovery of lost objects, and advance copies of jobs' input.

pub mod availability;
pub mod failover;
pub mod health;
pub mod purge;
pub mod recovery;
pub mod repair_order;
pub mod replica;
pub mod scrub;
pub mod window;
