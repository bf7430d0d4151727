//! Options of `sim tier` for the devices and for the reorganisation, and the settings that they stand for.

use crate::command::sim::setup_problem;
use crate::command::sim::words::{pair, size, size_or_none, span};
use crate::failure::Result;
use clap::Args;
use node::control::Problem;
use policy::tier::cost::{Costs, DeviceCost};
use policy::tier::machine::{Config, Planner, Window};
use policy::tier::reorganize::Thresholds;
use policy::time::Time;
use sim::setup::{SetupError, Size, duration};
use sim::tier::{PageCacheSetup, Setup};

/// Options of the devices.
#[derive(Debug, Args)]
pub(super) struct Devices {
    /// Number of fast devices.
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub fast: u32,
    /// Number of slow devices.
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub slow: u32,
    /// Megabytes (10^6) per second that a fast device reads/writes.
    #[arg(long, default_value = "10000/2000", value_name = "READ/WRITE", value_parser = speed)]
    pub fast_speed: (f64, f64),
    /// Megabytes (10^6) per second that a slow device reads/writes.
    #[arg(long, default_value = "1000/500", value_name = "READ/WRITE", value_parser = speed)]
    pub slow_speed: (f64, f64),
    /// Part of a fast device's service time that does not depend on the size.
    #[arg(long, default_value = "0s", value_name = "TIME", value_parser = span)]
    pub fast_latency: Time,
    /// Part of a slow device's service time that does not depend on the size.
    #[arg(long, default_value = "0s", value_name = "TIME", value_parser = span)]
    pub slow_latency: Time,
    /// Room on all fast devices together: bytes, a part of the footprint, or `fits`: as much as the largest window's
    /// working set.
    #[arg(long, default_value = "256GB", value_name = "SIZE")]
    pub fast_size: String,
    /// Part of the fast devices' room that --fast-size is, in percent, as `[tiering] share_percent`: below 100 hot data
    /// have a limit on the tier, at 100 on each device.
    #[arg(long, default_value_t = 100, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub share: u32,
    /// Room on all slow devices together, for slow copies: bytes, or a part of the footprint. Without it they hold
    /// whatever comes.
    #[arg(long, value_name = "SIZE", value_parser = share)]
    pub slow_size: Option<Size>,
    /// Page cache of the kernel below the targets: reads that it holds cost the devices nothing. Without it all reads
    /// reach a device.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub page_cache: Option<u64>,
    /// Largest window of the kernel's read-ahead (`read_ahead_kb` of the devices); 0 reads nothing ahead.
    #[arg(long, default_value = "128KiB", requires = "page_cache", value_name = "SIZE", value_parser = size_or_none)]
    pub read_ahead: u64,
    /// Segments that files are cut into: the objects of each are files of their own to the kernel.
    #[arg(long, default_value = "4MiB", requires = "page_cache", value_name = "SIZE", value_parser = size)]
    pub segment: u64,
    /// Objects that a segment is striped over.
    #[arg(long, default_value_t = 4, requires = "page_cache", value_name = "N")]
    pub width: u64,
    /// Stripe: what is placed and moved as a whole.
    #[arg(long, default_value = "64KiB", value_name = "SIZE", value_parser = size)]
    pub stripe: u64,
}

impl Devices {
    /// The devices and their speeds.
    pub fn costs(&self) -> Costs {
        Costs {
            fast: device(self.fast_speed, self.fast_latency),
            slow: device(self.slow_speed, self.slow_latency),
            fast_devices: self.fast,
            slow_devices: self.slow,
        }
    }

    /// The page cache with that many bytes.
    pub fn page_cache(&self, bytes: u64) -> Result<PageCacheSetup> {
        let Devices { read_ahead: read_ahead_bytes, segment: segment_bytes, width, .. } = *self;
        if bytes < read_ahead_bytes.max(1 << 20) {
            let cause = "--page-cache has room for 1 MiB and for a window of --read-ahead at least";
            return Err(Problem::wrong(cause).into());
        }
        Ok(PageCacheSetup { bytes, read_ahead_bytes, segment_bytes, width })
    }
}

/// Options of the reorganisation.
#[derive(Clone, Debug, Args)]
pub(super) struct Reorganisation {
    /// Sliding window: a part of the requests, or a time.
    #[arg(long, default_value = "10%", value_name = "WINDOW")]
    pub window: String,
    /// H: read more often than this within the window is hot (ws-ros).
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub hot: u32,
    /// L: read less often than this is cold (ws-ros).
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub cold: u32,
    /// Cold data leave the fast tier only while it has less free space than this part of it (ws-ros; the paper's 20 of
    /// 256 GB).
    #[arg(long, default_value_t = 7.8125, value_name = "PERCENT")]
    pub free: f64,
    /// Data that are hot in reads and in writes go to the fast tier (ws-ros; the paper has them on the slow one).
    #[arg(long)]
    pub read_wins: bool,
    /// Idle time of both tiers before data are moved.
    #[arg(long, default_value = "0s", value_name = "TIME", value_parser = span)]
    pub idle: Time,
    /// Time without access after which data on the fast tier get a slow copy while the devices are idle (tuned).
    #[arg(long, default_value = "0s", value_name = "TIME", value_parser = span)]
    pub copy_after: Time,
    /// Part of the slow devices' bandwidth that moves may take while devices are busy, in percent; 0 waits for
    /// idleness.
    #[arg(long, default_value_t = 5.0, value_name = "PERCENT")]
    pub busy_share: f64,
    /// Leave parts of `tuned` out: copies (slow copies, kept while they are clean), idle-copies (those of them that
    /// idle devices make; what is promoted keeps its own), on-access (promotion at the access, when the bytes are at
    /// hand).
    #[arg(long, value_delimiter = ',', value_name = "PARTS")]
    pub without: Vec<String>,
}

impl Reorganisation {
    pub fn config(&self, planner: &str, setup: &Setup, window: Window) -> Result<Config> {
        if !(0.0..=100.0).contains(&self.free) || !(0.0..=100.0).contains(&self.busy_share) {
            return Err(Problem::wrong("--free and --busy-share are percentages from 0 to 100").into());
        }
        let thresholds = Thresholds {
            hot: self.hot,
            cold: self.cold,
            free_bytes: (setup.fast_bytes as f64 * self.free / 100.0) as u64,
            read_wins: self.read_wins,
        };
        if let Some(part) =
            self.without.iter().find(|part| !matches!(part.as_str(), "copies" | "idle-copies" | "on-access"))
        {
            let problem = Problem::wrong(format!("tuned has no part `{part}`"));
            return Err(problem.try_this("leave out copies, idle-copies, on-access, or several of them").into());
        }
        let has = |part: &str| planner == "tuned" && self.without.iter().all(|left_out| left_out != part);
        let (keep_copies, on_access) = (has("copies"), has("on-access"));
        let copy_after = has("idle-copies").then_some(self.copy_after);
        let planner = match planner {
            "lfu" => Planner::Frequency,
            "ws-ros" => Planner::WsRos(thresholds),
            _ => Planner::Tuned,
        };
        let slow = &setup.costs.slow;
        let block = setup.block_bytes as f64;
        let bandwidth =
            block * 1e9 / slow.access_ns(policy::tier::Region::Read, block) * f64::from(setup.costs.slow_devices);
        Ok(Config {
            window,
            planner,
            block_bytes: setup.block_bytes,
            fast_bytes: setup.fast_bytes,
            costs: setup.costs,
            idle: self.idle,
            busy_bytes_per_s: (bandwidth * self.busy_share / 100.0) as u64,
            moves_max: setup.costs.slow_devices as usize,
            keep_copies,
            copy_after,
            on_access,
            ..Config::default()
        })
    }
}

/// `1000/500`
fn speed(text: &str) -> std::result::Result<(f64, f64), String> {
    pair(text, '/').ok_or_else(|| "give megabytes per second, reading/writing: 1000/500".to_owned())
}

/// A part of the footprint, or bytes.
fn share(text: &str) -> std::result::Result<Size, String> {
    text.parse().map_err(|error: SetupError| error.why)
}

fn device((read, write): (f64, f64), latency: Time) -> DeviceCost {
    DeviceCost {
        read_latency_ns: latency.0 as f64,
        write_latency_ns: latency.0 as f64,
        ..DeviceCost::seconds_per_gb(1e3 / read, 1e3 / write)
    }
}

/// `10%` of the requests, or `60s`.
pub(super) fn window(text: &str, requests: u64) -> Result<Window> {
    if let Some(percent) = text.strip_suffix('%') {
        let percent = percent.trim().parse::<f64>().ok().filter(|p| p.is_finite() && *p > 0.0 && *p <= 100.0);
        let percent = percent.ok_or_else(|| Problem::wrong(format!("--window {text} is no share of the requests")))?;
        return Ok(Window::Requests(((requests as f64 * percent / 100.0) as u64).max(1)));
    }
    let span = duration("window", text).map_err(|error| setup_problem(&error))?;
    if span == Time::ZERO {
        return Err(Problem::wrong("--window is longer than 0").into());
    }
    Ok(Window::Span(span))
}
