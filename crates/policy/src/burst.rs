//! A shared burst buffer: rates of checkpoints, demotion, and versions kept for restarts.
//!
//! ```text
//!   checkpoints -> queue (one application's at a time) -> control (write and demotion rates) -> burst buffer
//!   burst buffer -> tables (old versions first, then the highest MTBF) -> demoted, kept as clean copies
//!                                                                      -> deleted when space is short
//! ```
//! Quantities: `S` the buffer's capacity; `DWPP` the data written per period; `DWSF` the data written so far in the
//! period. The buffer is over-subscribed when `DWPP > S`; the difference must leave during checkpoints.
//!
//! Source: Sung (2020), chapters 3.2 and 5 (BBOS); the reference, section 8.

pub mod admission;
pub mod advice;
pub mod buffer;
pub mod control;
pub mod credit;
pub mod pattern;
pub mod predict;
pub mod queue;
pub mod replicator;
pub mod tables;
