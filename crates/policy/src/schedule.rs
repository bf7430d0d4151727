//! When jobs run, into which jobs a script is cut, and when their data start on their way.

pub mod easy;
pub mod just_in_time;
pub mod notices;
pub mod staging;
