//! What to do about targets that fail: whether one can be trusted, how lost objects come back, and which job's input is
//! copied beforehand.

pub mod availability;
pub mod failover;
pub mod health;
pub mod purge;
pub mod recovery;
pub mod repair_order;
pub mod replica;
pub mod scrub;
pub mod window;
