//! Settings of the buffer.

use crate::burst::control::Device;
use crate::burst::tables::{Baselines, Order};
use crate::time::Time;
use std::fmt;

/// Scheme that sets the rates of writing and demotion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scheme {
    /// Room for the application's life, no turns, no demotion: at most `S` per period.
    DataWarp,
    /// Harmonia's MaxEff: always demote at full speed.
    MaxEff,
    /// Harmonia's MaxBW: never demote beside writing.
    MaxBw,
    /// Demotes beside writing once this share of the buffer is used.
    Static(f64),
    /// BBOS: the throttler's plan.
    Bbos,
    /// BBOS with predicted checkpoints: ours.
    Predicted,
}

/// Formats the scheme as in a configuration.
impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheme::DataWarp => f.write_str("datawarp"),
            Scheme::MaxEff => f.write_str("maxeff"),
            Scheme::MaxBw => f.write_str("maxbw"),
            Scheme::Static(share) => write!(f, "static:{share}"),
            Scheme::Bbos => f.write_str("bbos"),
            Scheme::Predicted => f.write_str("predicted"),
        }
    }
}

/// Settings of the buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Size and rates of the buffer.
    pub device: Device,
    /// Scheme that sets the rates.
    pub scheme: Scheme,
    /// Order in which versions leave.
    pub order: Order,
    /// Treatment of demoted data under the orders FIFO and LRU.
    pub baselines: Baselines,
    /// Whether cold checkpoints go directly to the capacity tier.
    pub direct: bool,
    /// Whether applications write one at a time.
    pub turns: bool,
    /// Longest time that an application waits while the one with the turn writes further checkpoints.
    pub wait_max: Option<Time>,
    /// Length of a period.
    pub period: Time,
    /// Bytes that the first period is expected to write.
    pub dwpp: f64,
    /// Whether a replica group exists.
    pub replicas: bool,
}

impl Config {
    /// One turn at a time, one order of demotion and deletion. Nothing is written directly to the capacity tier, no
    /// replica group exists, and periods are an hour long, of unknown load.
    pub fn new(device: Device, scheme: Scheme) -> Config {
        Config {
            device,
            scheme,
            order: Order::Throughout,
            baselines: Baselines::default(),
            direct: false,
            turns: true,
            wait_max: None,
            period: Time::from_secs(3600),
            dwpp: 0.0,
            replicas: false,
        }
    }
}
