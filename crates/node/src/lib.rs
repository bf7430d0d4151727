//! The daemon: it drives the machines of `policy` in real time, serves the mount and the control socket, and talks to
//! other nodes.

pub mod adapt;
pub mod calls;
pub mod control;
pub mod daemon;
pub mod mount;
pub mod nodes;
pub mod renewal;

use object::{Error, Result};
