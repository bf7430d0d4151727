//! What to do about targets that fail: whether one can be trusted, and how lost objects come back.

pub mod health;
pub mod recovery;
pub mod repair_order;
