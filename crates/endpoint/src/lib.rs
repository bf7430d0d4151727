//! What a daemon shows by HTTP to whoever watches it: `/metrics` for Prometheus, `/healthz` for whoever starts it again.
//!
//! One thread does all of it, so it takes at most one core. Nothing that is asked changes anything.

mod access;
mod answers;
mod places;
mod server;
#[cfg(test)]
mod tests;

pub use server::{Endpoint, Listening};

use store::daemon::{Core, Health};

/// What is watched.
pub trait Watched: Send + Sync + 'static {
    /// All metrics, as OpenMetrics text. Waits for nothing.
    fn metrics(&self) -> String;
    /// Whether it is well. May take its time.
    fn health(&self) -> Health;
}

impl Watched for Core {
    fn metrics(&self) -> String {
        self.open_metrics()
    }

    fn health(&self) -> Health {
        Core::health(self)
    }
}
