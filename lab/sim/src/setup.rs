//! A simulation described in words, for command line and grids, and the world built from it.

mod axis;
mod quantity;
mod storage;

pub use crate::prefetch::prefetch;
pub use policy::words::{coordination, replacement, trigger};
pub use quantity::{Size, duration, size_bytes};

use crate::link::Link;
use crate::prefetch::{Level, LevelConfig};
use crate::replay::{Cut, Streams, Survey};
use crate::storage::Storage;
use crate::world::{Arrival, Config, Placement, Writes};
use policy::cache::CAPACITY_MAX;
use policy::time::Time;
use serde::{Deserialize, Serialize};

/// A simulation as text settings. All except the levels have defaults; times are like `6ms`, sizes like `64KiB`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Setup {
    /// Levels, that of the application first.
    pub levels: Vec<LevelSetup>,
    /// Number of levels that each client has for itself; the others are shared, behind the link.
    pub private_levels: usize,
    /// The device: `none` for instant fetches and no times, `cheetah9lp`, `atlas10k`, `ssd-sata`, `ssd-nvme`, `constant:TIME`, `plain:read=RATE,write=RATE,latency=TIME,capacity=SIZE`, or a file `NAME.toml` ([`crate::disk::devices`]).
    pub disk: String,
    /// Number of devices.
    pub disks: u32,
    /// `0` or `5` for an array.
    pub raid: Option<u8>,
    /// Stripe unit of an array.
    pub stripe_unit: String,
    /// Bandwidth of a mechanical disk's bus in MB/s; the default is that of its measurement.
    pub disk_bus_mb_s: Option<f64>,
    /// Scheduler `noop`, `deadline` or `anticipatory`; with the suffix `:awaited` awaited reads go before prefetches.
    pub scheduler: String,
    /// Fixed part of the link's time.
    pub alpha: String,
    /// Time of the link per block.
    pub beta: String,
    /// Time of a request on the link.
    pub link_request: String,
    /// Whether replies share the link's bandwidth.
    pub link_shared: bool,
    /// Whether requests wait for the previous answer, instead of coming at the times of the trace.
    pub closed: bool,
    /// Think time of a client in a closed loop.
    pub think: String,
    /// Whether requests keep the intervals of the trace, but wait for the previous answer.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub paced: bool,
    /// Time from which on no request comes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Speed relative to the trace, in an open loop.
    pub speed: f64,
    /// Treatment of writes: `cached`, `background` or `dropped`.
    pub writes: String,
    /// Place of blocks under way: `frames` of the cache, or `buffers` beside it.
    pub in_flight: String,
    /// Bytes of a block.
    pub block: String,
    /// Definition of a stream.
    pub streams: Streams,
    /// Whether each client of a trace is a client here, with levels of its own.
    pub client_each: bool,
    /// Limit of the sum of the requests' bytes.
    pub limit_bytes: Option<String>,
    /// Limit of the number of requests.
    pub limit_requests: Option<u64>,
    /// Whether counts are kept per stream.
    pub per_stream: bool,
    /// Whether invariants are checked after every event.
    pub check: bool,
    /// Interval of samples of the inventories.
    pub sample_every: Option<String>,
    /// Whether every answered request is kept.
    pub log: bool,
}

/// A level as text settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LevelSetup {
    /// The prefetcher: `linux`, `sarc:threshold=6` ...
    pub prefetch: String,
    /// Size: `5%` of the footprint for the first level, of the level above for the others; `64MiB`; or blocks, as in
    /// `1000`.
    pub size: String,
    /// Replacement: `lru` or `sarc`; the default depends on the prefetcher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<String>,
    /// Trigger: `native`, `fixed:24`, `ets`, `esf`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    /// Coordinators: `none`, `labels`, `pfc`, `du`, several joined by `+`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordinator: Option<String>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            levels: Vec::new(),
            private_levels: 1,
            disk: "cheetah9lp".into(),
            disks: 1,
            raid: None,
            stripe_unit: "64KiB".into(),
            disk_bus_mb_s: None,
            scheduler: "deadline".into(),
            alpha: "6ms".into(),
            beta: "0.03ms".into(),
            link_request: "0s".into(),
            link_shared: false,
            closed: false,
            think: "0s".into(),
            paced: false,
            until: None,
            speed: 1.0,
            writes: "cached".into(),
            in_flight: "frames".into(),
            block: "4KiB".into(),
            streams: Streams::File,
            client_each: false,
            limit_bytes: None,
            limit_requests: None,
            per_stream: false,
            check: false,
            sample_every: None,
            log: false,
        }
    }
}

/// Error in a setup.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} `{value}`: {why}; nothing was simulated")]
pub struct SetupError {
    /// Name of the setting.
    pub what: &'static str,
    /// Value of the setting.
    pub value: String,
    /// Error in the value, and the valid ones.
    pub why: String,
}

/// A setup with named settings.
pub trait Settable: Clone {
    /// Sets the named setting to the value `word`.
    fn set(&mut self, name: &str, word: &str) -> Result<(), SetupError>;
}

impl SetupError {
    /// Creates the error of an invalid value; `why` lists the valid ones.
    pub fn new(what: &'static str, value: impl Into<String>, why: impl Into<String>) -> SetupError {
        SetupError { what, value: value.into(), why: why.into() }
    }
}

fn parsed<T>(what: &'static str, text: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, SetupError> {
    parse(text).map_err(|why| SetupError::new(what, text, why))
}

impl Setup {
    /// Returns the limits and block size of traces.
    pub fn cut(&self) -> Result<Cut, SetupError> {
        let block_bytes = size_bytes("block", &self.block)?;
        if block_bytes % 512 != 0 || !(512..=1 << 24).contains(&block_bytes) {
            return Err(SetupError::new("block", &self.block, "a block is a multiple of 512 bytes up to 16 MiB"));
        }
        let bytes_max = self.limit_bytes.as_deref().map(|limit| size_bytes("limit-bytes", limit)).transpose()?;
        Ok(Cut { block_bytes: block_bytes as u32, bytes_max, requests_max: self.limit_requests, streams: self.streams })
    }

    /// Returns the world's configuration for a trace with this footprint.
    pub fn config(&self, footprint_blocks: u64) -> Result<Config, SetupError> {
        if self.private_levels == 0 || self.private_levels > self.levels.len() {
            let why =
                format!("a client needs at least one level of its own, and there are {} levels", self.levels.len());
            return Err(SetupError::new("private levels", self.private_levels.to_string(), why));
        }
        if !(self.speed.is_finite() && self.speed > 0.0) {
            return Err(SetupError::new("speed", self.speed.to_string(), "a speed is a number above 0"));
        }
        let mut levels = self.level_configs(footprint_blocks)?;
        let shared = levels.split_off(self.private_levels);
        let link = Link {
            alpha: duration("alpha", &self.alpha)?,
            beta: duration("beta", &self.beta)?,
            request: duration("link-request", &self.link_request)?,
            shared: self.link_shared,
        };
        let arrival = if self.paced {
            Arrival::Paced
        } else if self.closed {
            Arrival::Closed { think: duration("think", &self.think)? }
        } else {
            Arrival::Open { speed: self.speed }
        };
        let writes = match self.writes.as_str() {
            "cached" => Writes::Cached,
            "background" => Writes::Background,
            "dropped" => Writes::Dropped,
            other => return Err(SetupError::new("writes", other, "choose cached, background or dropped")),
        };
        let sample_every = self.sample_every.as_deref().map(|every| duration("timeline", every)).transpose()?;
        if sample_every == Some(Time::ZERO) {
            return Err(SetupError::new("timeline", "0s", "samples need a time between them, like 100ms"));
        }
        let until = self.until.as_deref().map(|until| duration("until", until)).transpose()?;
        let per_stream = self.per_stream;
        Ok(Config {
            private: levels,
            shared,
            link,
            arrival,
            until,
            writes,
            check: self.check,
            per_stream,
            sample_every,
            log: self.log,
        })
    }

    fn level_configs(&self, footprint_blocks: u64) -> Result<Vec<LevelConfig>, SetupError> {
        let block_bytes = u64::from(self.cut()?.block_bytes);
        let buffers = match self.in_flight.as_str() {
            "frames" => false,
            "buffers" => true,
            other => return Err(SetupError::new("in-flight", other, "choose frames or buffers")),
        };
        let mut above = footprint_blocks;
        let mut configs = Vec::new();
        for level in &self.levels {
            let size: Size = level.size.parse()?;
            let blocks = size.blocks(above, block_bytes).clamp(1, u64::from(CAPACITY_MAX));
            above = blocks;
            let mut config = LevelConfig::new(blocks as u32, parsed("prefetcher", &level.prefetch, prefetch)?);
            config.buffers = buffers;
            if let Some(text) = &level.replacement {
                config.replacement = parsed("replacement", text, replacement)?;
            }
            if let Some(text) = &level.trigger {
                config.trigger = parsed("trigger", text, trigger)?;
            }
            if let Some(text) = &level.coordinator {
                config.coordination = parsed("coordinator", text, coordination)?;
            }
            config.per_stream = self.per_stream || self.sample_every.is_some();
            Level::new(config.clone()).map_err(|error| SetupError::new("level", &level.prefetch, error.to_string()))?;
            configs.push(config);
        }
        for at in 1..configs.len() {
            configs[at - 1].join = !configs[at].coordination.early;
        }
        Ok(configs)
    }

    /// Returns whether fetches take no time: one level, no device.
    pub fn has_no_device(&self) -> bool {
        self.disk == "none"
    }

    /// Builds the storage.
    pub fn storage(&self) -> Result<Storage, SetupError> {
        storage::build(self)
    }

    /// Returns the location of the surveyed files on `storage`.
    pub fn placement(&self, survey: &Survey, storage: &Storage) -> Result<Placement, SetupError> {
        Ok(Placement::new(survey.file_blocks(), u64::from(self.cut()?.block_bytes) / 512, storage.sectors()))
    }
}
