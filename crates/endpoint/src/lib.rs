//! What a daemon shows by HTTP to whoever watches it: `/metrics` for Prometheus, `/healthz` for whoever starts it again, and a
//! dashboard for people, which asks `/api/...` in turn.
//!
//! One thread does all of it, so it takes at most one core. Nothing that is asked changes anything.

mod access;
mod answers;
mod jobs;
mod look;
mod page;
mod places;
mod server;
mod space;
#[cfg(test)]
mod tests;

pub use jobs::{Job, Staging};
pub use server::{Endpoint, Listening};

use serde_json::Value;
use store::control::Problem;
use store::daemon::Health;

/// What is watched. What may take its time is asked on a thread of its own, one at a time.
pub trait Watched: Send + Sync + 'static {
    /// All metrics, as OpenMetrics text. Waits for nothing.
    fn metrics(&self) -> String;
    /// Whether it is well. May take its time.
    fn health(&self) -> Health;
    /// The volume at a glance: of files, users and jobs nothing but with their names. May take its time.
    fn at_a_glance(&self, with_names: bool) -> Result<Value, Problem>;
    /// All jobs that are not over. May take its time.
    fn jobs(&self) -> Result<Vec<Job>, Problem>;
    /// Whose files take how much room: `users` with `user`, `files`, `bytes` and `on_targets_bytes`. Takes as long as a look at all names.
    fn space(&self) -> Result<Value, Problem>;
    /// How a file lies, and why. May take its time.
    fn file(&self, path: &str) -> Result<Value, Problem>;
}
