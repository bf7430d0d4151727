//! How a level takes part in a hierarchy: demand labels, PFC, exclusive caching.

mod config;

pub use config::{ConfigError, Coordination, Large, Pfc, Scope};
