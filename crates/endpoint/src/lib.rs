//! HTTP endpoint of a daemon: `/metrics` for Prometheus, `/healthz` for a supervisor, and a dashboard for people,
//! which polls `/api/...`.
//!
//! One thread does all of it, so it takes at most one core. No request changes anything.

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

pub use answers::json;
pub use bytes::Bytes;
pub use jobs::{Job, Staging};
pub use server::{Endpoint, Listening};

use node::control::Problem;
use node::daemon::{Health, Users};

/// Interface to the daemon. Slow queries run on a thread of their own, one at a time.
pub trait Watched: Send + Sync + 'static {
    /// All metrics, as OpenMetrics text. May be slow.
    fn metrics(&self) -> String;
    /// Health of the daemon. May be slow.
    fn health(&self) -> Health;
    /// Summary of the volume, as [`json`]; names of files, users and jobs only with `with_names`. May be slow.
    fn at_a_glance(&self, with_names: bool) -> Result<Bytes, Problem>;
    /// All jobs that have not ended. May be slow.
    fn jobs(&self) -> Result<Vec<Job>, Problem>;
    /// Usage per user. Takes a full scan of the names.
    fn space(&self) -> Result<Users, Problem>;
    /// Layout of a file with reasons, as [`json`]. May be slow.
    fn file(&self, path: &str) -> Result<Bytes, Problem>;
}
