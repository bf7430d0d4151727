//! Replay of a recording over two simulated tiers, and the values of `[tiering]` to search.
//!
//! ```text
//! synchronous clients --- segments --- devices of the fast and of the slow tier
//! ```
//! Clients are those of the cache's replay. The recording has no places of data: data that it reads before it writes
//! them lie where the volume of today puts new ones.

use super::recording::Recording;
use super::replay::{clients, speed};
use super::search::{Axis, quoted};
use crate::failure::{Failure, Result};
use engine::volume::{Config, TargetConfig, TieringPolicy};
use node::control::Problem;
use policy::Time;
use policy::tier::Region;
use policy::tier::cost::Costs;
use sim::tier::{Arrivals, Requests, Scheme, Setup, responses};
use sim::trace::{Op, Record};

/// Policies from simple to complex; the search begins with the last.
const POLICIES: [&str; 4] = ["off", "lfu", "ws-ros", "tuned"];
/// Lengths of the window in requests; the default is the third.
const WINDOWS: [&str; 4] = ["100", "1000", "10000", "100000"];
/// Parts of the slow devices' bandwidth for moves under load, in percent. A guess; the simulator's default is 5.
const BUSY_PERCENTS: [f64; 3] = [0.0, 5.0, 25.0];

/// Devices of a volume's tiers.
pub struct Tiers {
    costs: Costs,
    fast_bytes: u64,
    slow_bytes: u64,
    /// Today's placement of new data.
    today: Scheme,
}

impl Tiers {
    /// The tiers of a volume. Without a size of a target, its file system has it.
    pub fn of(config: &Config, fast_size: Option<u64>, slow_size: Option<u64>) -> Result<Tiers> {
        let refused = |cause: &str, next: &str| Problem::wrong(cause).so("nothing was tuned").try_this(next);
        if config.cache.level.is_some() {
            let cause = "the recording does not show which reads `[cache]` answered, and tiers serve only the others";
            return Err(refused(cause, "record the volume without `[cache]`, and tune that volume.toml").into());
        }
        if config.layout.segment == 0 {
            let cause = "the files of the recording have no segments, the unit that `[tiering]` places and moves";
            return Err(
                refused(cause, "set `[layout] segment`, such as \"4MiB\", write the files again, and record").into()
            );
        }
        let tiering = &config.tiering;
        let [fast, slow] =
            [tiering.fast, tiering.slow].map(|tier| config.targets.iter().filter(move |target| target.tier == tier));
        let [fast_devices, slow_devices] = [&fast, &slow].map(|targets| targets.clone().count() as u32);
        if fast_devices == 0 || slow_devices == 0 {
            let cause = "volume.toml has no two tiers, and `[tiering]` moves data between two";
            return Err(refused(cause, "declare a second tier with targets").into());
        }
        let (fast_bytes, slow_bytes) = (bytes(fast, "fast", fast_size)?, bytes(slow, "slow", slow_size)?);
        let costs = Costs {
            fast: speed(config, tiering.fast)?,
            slow: speed(config, tiering.slow)?,
            fast_devices,
            slow_devices,
        };
        // Without tiering new data go to the targets with most free space, those within an eighth of it in turn.
        let each = |bytes: u64, devices: u32| bytes as f64 / f64::from(devices);
        let takes_turns = each(fast_bytes, fast_devices) >= each(slow_bytes, slow_devices) * 7.0 / 8.0;
        let today = match tiering.policy {
            TieringPolicy::Off if !takes_turns => Scheme::SlowOnly,
            TieringPolicy::Off => Scheme::RoundRobin,
            _ if tiering.proportional => Scheme::Proportional,
            _ => Scheme::RoundRobin,
        };
        Ok(Tiers { costs, fast_bytes, slow_bytes, today })
    }

    /// The values of `[tiering]` to search.
    pub fn axes(&self, segment_bytes: u64) -> Vec<Axis> {
        let segment_s = self.costs.slow.access_ns(Region::Read, segment_bytes as f64) / 1e9;
        let bandwidth = segment_bytes as f64 / segment_s * f64::from(self.costs.slow_devices);
        let rate = |percent: f64| format!("{}MB", (bandwidth * percent / 1e8).ceil());
        vec![
            ("window", WINDOWS.map(str::to_owned).into(), 2),
            ("busy_rate", quoted(BUSY_PERCENTS.map(rate)), 1),
            ("on_access", ["false", "true"].map(str::to_owned).into(), 0),
            ("policy", quoted(POLICIES), POLICIES.len() - 1),
        ]
    }

    /// Replays requests with the `[tiering]` of a configuration; returns the response time of each, in milliseconds.
    pub fn replay(&self, config: &Config, requests: &Requests) -> Vec<f64> {
        let (tiering, block_bytes) = (&config.tiering, config.layout.segment);
        let share = (u128::from(self.fast_bytes) * u128::from(tiering.share_percent) / 100) as u64;
        let scheme = match tiering.policy {
            TieringPolicy::Off => self.today,
            _ => Scheme::Reorganized {
                config: tiering.machine(self.costs, share, block_bytes, config.mover.concurrent.max(1)),
                proportional: tiering.proportional,
            },
        };
        let setup = Setup {
            costs: self.costs,
            fast_bytes: self.fast_bytes,
            fast_share_percent: 100,
            block_bytes,
            arrivals: Arrivals::Thinking,
            warm_up: 0,
            free_moves: false,
            rest: None,
            // Old data are placed before the first request, without time to copy them.
            before: Time(1),
            old: Some(self.today),
            slow_bytes: Some(self.slow_bytes),
            copies_free_percent: tiering.copies_free_percent,
            page_cache: None,
            check: false,
        };
        responses(&setup, &scheme, requests).iter().map(|took| took.0 as f64 / 1e6).collect()
    }
}

/// The first `count` requests of a recording, as pieces of segments.
pub fn requests(recording: &Recording, count: usize, segment_bytes: u64) -> Requests {
    let (of, mut all) = (&recording.requests[..count], Requests::default());
    for request in of {
        let op = if request.write { Op::Write } else { Op::Read };
        let (offset, length, file) = (request.offset, request.bytes as u32, request.file);
        all.add(0, &Record { time_ns: request.at_ns, offset, length, file, op, ..Record::default() }, segment_bytes);
    }
    all.with_clients(&clients(of))
}

/// Bytes of a tier's targets.
fn bytes<'a>(targets: impl Iterator<Item = &'a TargetConfig>, tier: &str, size: Option<u64>) -> Result<u64> {
    let of = |target: &TargetConfig| match (size, target.directory()) {
        (Some(size), _) => Ok(size),
        (None, Some(path)) => {
            let space = rustix::fs::statvfs(path);
            let space = space.map_err(|error| Failure::of_io(&path.display().to_string(), &error.into()));
            space.map(|of| of.f_blocks * of.f_frsize).map_err(|problem| problem.try_this(format!("give --{tier}-size")))
        }
        (None, None) => Err(Problem::wrong(format!("the size of target {} is on a server", target.name))
            .try_this(format!("give --{tier}-size"))),
    };
    let sizes = targets.map(|target| of(target).map_err(|problem| problem.so("nothing was tuned")));
    Ok(sizes.sum::<std::result::Result<u64, Problem>>()?)
}
