//! How a level takes part in a hierarchy: demand labels, PFC, exclusive caching.

mod config;
pub(crate) mod du;
pub(crate) mod labels;
pub(crate) mod pfc;

pub use config::{ConfigError, Coordination, Large, Pfc, Scope};
