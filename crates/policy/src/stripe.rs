//! Width of striping: a queueing model of striped requests, a fuzzy controller over it, and classification of request
//! patterns.
//!
//! ```text
//!   load, device, request size --> model (fork-join M/G/1) --> response time, optimal width, largest stable width
//!   load, its pattern, device performance --> advice (fuzzy rules, editable) --> width, copies online or offline
//!   both, per file --> striper --> striping unit, forks, and when to change them
//! ```
//! Source: H. Simitci, D. A. Reed, "Adaptive Disk Striping for Parallel Input/Output" (1999); the reference, sections 9
//! and 10.

pub mod advice;
pub mod device;
pub mod forks;
pub mod fuzzy;
pub mod model;
pub mod performance;
pub mod profile;
pub mod rules;
pub mod striper;
