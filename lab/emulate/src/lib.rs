//! A directory served with the service times of a simulated disk, in real time.
//!
//! ```text
//! kernel -> serve   names, attributes, bytes: passed on to the backing directory at once
//!             |
//!           extents  which sectors of the emulated device those bytes lie on
//!             |
//!           device   `sim::storage` in virtual time: when would that device be done?
//!             |
//!           spindle  the answer waits until then
//! ```
//! `space`, `extents`, `device` and `pace` are arithmetic: no clock, thread or file. `device` drives the same state
//! machines as the simulator, so the same requests at the same times take the same time in both. `scratch` measures a
//! real device.

pub mod device;
pub mod disk;
pub mod extents;
pub mod figures;
pub mod measure;
mod options;
pub mod pace;
pub mod scratch;
mod serve;
pub mod space;
mod spindle;

pub use disk::{EmulatedDisk, StartError};
pub use options::Options;
