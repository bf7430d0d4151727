//! Job scripts in, dependent jobs out.
//!
//! A batch script names in `#STAGEIN` and `#STAGEOUT` lines the data that it needs and the destinations of its
//! results. [`directives`] reads them, and [`plan`] makes dependent parts of them: stage-in, compute, stage-out.
//! [`runner`] runs the parts on this machine with first come, first served and EASY backfilling. Each part runs under
//! [`exec`], a small supervisor, as the user who submitted it.

mod account;
pub mod arrivals;
pub mod availability;
mod backend;
mod body;
mod config;
pub mod directives;
pub mod directory;
mod error;
pub mod everywhere;
pub mod exec;
mod job;
pub mod known;
pub mod limit;
mod logs;
mod marks;
pub mod notice;
mod offload;
pub mod plan;
pub mod queue;
pub mod replication;
pub mod request;
pub mod runner;
pub mod scheduler;
pub mod slurm;
pub mod volume;

pub use account::uid_of;
pub use config::{Config, Recogniser, threads};
pub use error::Error;
