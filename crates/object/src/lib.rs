//! Targets: directories on existing file systems that hold objects as plain files, with media, deadlines and counters.
//!
//! The lowest of the four crates of the live world; all other crates name errors of the outside world by [`Error`].

pub mod admission;
pub mod counters;
pub mod descriptors;
pub mod errno;
pub mod error;
pub mod exit;
mod forward;
pub mod host;
pub mod mounts;
pub mod newer;
pub mod stop;
pub mod target;
pub mod users;
pub mod volume_id;
pub mod workers;

pub use error::{Error, Result};

/// Time since 1970, by the system's clock; zero if the clock is set to an earlier time.
pub fn since_1970() -> std::time::Duration {
    std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}

/// Milliseconds since 1970, by the system's clock.
pub fn now_ms() -> u64 {
    since_1970().as_millis() as u64
}
