//! How wide to stripe: a queueing model of striped requests, a fuzzy controller over it, and what a file's requests look like.
//!
//! ```text
//!   load, device, request size --> model (fork-join M/G/1)  --> response time, optimal width, largest stable width
//!   sensors --> fuzzy (rules that the operator may edit)    --> width, striping unit, replication online or offline
//!   requests --> classify (window of requests)              --> read/write mix, sequential/strided/random, uniform/variable
//! ```
//! Source: H. Simitci, D. A. Reed, "Adaptive Disk Striping for Parallel Input/Output" (1999); the reference, sections 9 and 10.

pub mod controller;
pub mod device;
pub mod forks;
pub mod fuzzy;
pub mod model;
pub mod profile;
pub mod rules;
pub mod sensor;
pub mod striper;
