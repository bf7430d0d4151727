//! Scheduling: when jobs run, how a script is cut into jobs, and when the staging of their data starts.

pub mod easy;
pub mod just_in_time;
pub mod notices;
pub mod retention;
pub mod staging;
