//! Coordination of a level with its hierarchy: demand labels, PFC, exclusive caching.

pub(crate) mod adaptive;
mod config;
pub(crate) mod du;
pub(crate) mod labels;
pub(crate) mod pfc;
pub(crate) mod trial;

pub use config::{Coordination, Labels, Large, Pfc, Scope};
