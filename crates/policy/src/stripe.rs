//! How wide to stripe: a queueing model of striped requests, a fuzzy controller over it, and what a file's requests look like.
//!
//! ```text
//!   load, device, request size --> model (fork-join M/G/1)            --> response time, optimal width, largest stable width
//!   load, what it looks like, how devices do --> advice (fuzzy rules that the operator may edit) --> width, copies online or offline
//!   both, per file --> striper                                        --> striping unit, forks, and when to change them
//! ```
//! Source: H. Simitci, D. A. Reed, "Adaptive Disk Striping for Parallel Input/Output" (1999); the reference, sections 9 and 10.

pub mod advice;
pub mod device;
pub mod forks;
pub mod fuzzy;
pub mod model;
pub mod performance;
pub mod profile;
pub mod rules;
pub mod striper;
