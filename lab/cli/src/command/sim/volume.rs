//! `entrepot-lab sim volume`: a whole volume as its `volume.toml` sets it up, with everything on, for a day.

use super::survey_problem;
use super::traces::{NamedTrace, TraceArgs};
use super::words::{size, span};
use crate::command::executor;
use crate::failure::{Failure, Result};
use crate::table::{self, Answer, Column, Output, column};
use clap::Args;
use engine::volume::{Config, TieringPolicy};
use node::control::Problem;
use policy::Time;
use policy::tier::cost::{Costs, DeviceCost};
use serde_json::json;
use sim::replay::is_request;
use sim::storage::Device;
use sim::trace::{Op, Options};
use sim::volume::{Faults, Figures, HourFigures, Load, Request, Setup, Target, TargetFigures, run};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Nodes of the system for its jobs.
const SYSTEM_NODES: u32 = 128;
/// Least size of a segment, and the size for volumes without a configured one. A guess.
const SEGMENT_BYTES_MIN: u64 = 1 << 20;
/// Default devices, not measured: flash of 100 us and 2 GB/s, a disk of 8 ms and 150 MB/s. Guesses.
const FLASH: (f64, f64) = (1e5, 2e9);
const DISK: (f64, f64) = (8e6, 150e6);

/// A whole volume with every mechanism that its volume.toml switches on: burst buffer, tiers, stripes, replicas, repair
///
/// Jobs come over a day: each reads an input, writes checkpoints and keeps the newest two; readers read files that are
/// hot for some hours, or replay a trace. Targets fail by seed. The promises are checked: nothing acknowledged is lost
/// but what lay on a failed target alone, room is counted to the byte, no write is held for ever, and everything comes
/// to rest.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot-lab sim volume volume.toml
  entrepot-lab sim volume volume.toml --faults 5 --jobs 200 --output json
  entrepot-lab sim volume volume.toml --trace oltp.spc --limit-requests 100000")]
pub struct Volume {
    /// The volume's configuration; its directories need not exist.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    traces: TraceArgs,
    /// Room on each target of the fast tier.
    #[arg(long, default_value = "1TB", value_name = "SIZE", value_parser = size)]
    fast_size: u64,
    /// Room on each target of the slow tier.
    #[arg(long, default_value = "10TB", value_name = "SIZE", value_parser = size)]
    slow_size: u64,
    /// Time during which jobs and readers come.
    #[arg(long, default_value = "24h", value_name = "TIME", value_parser = span)]
    span: Time,
    /// Jobs in that time.
    #[arg(long, default_value_t = 48, value_name = "N")]
    jobs: u32,
    /// Longest time of a job in the queue, after a first minute; whole seconds.
    #[arg(long, default_value = "30min", value_name = "TIME", value_parser = span)]
    queued: Time,
    /// Bytes of a job's input, on average.
    #[arg(long, default_value = "10GB", value_name = "SIZE", value_parser = size)]
    input: u64,
    /// Bytes of one checkpoint.
    #[arg(long, default_value = "40GB", value_name = "SIZE", value_parser = size)]
    checkpoint: u64,
    /// Checkpoints of a job.
    #[arg(long, default_value_t = 6, value_name = "N")]
    checkpoints: u32,
    /// From one checkpoint to the next.
    #[arg(long, default_value = "30min", value_name = "TIME", value_parser = span)]
    interval: Time,
    /// Files that readers read in parts.
    #[arg(long, default_value_t = 64, value_name = "N")]
    files: u32,
    /// Bytes of each.
    #[arg(long, default_value = "1GB", value_name = "SIZE", value_parser = size)]
    file_size: u64,
    /// Reads and writes of them.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    requests: u32,
    /// Bytes of one.
    #[arg(long, default_value = "1MiB", value_name = "SIZE", value_parser = size)]
    request_size: u64,
    /// Share of them that writes, in percent.
    #[arg(long, default_value_t = 10.0, value_name = "PERCENT")]
    writes: f64,
    /// Targets that fail, each with all that is on it.
    #[arg(long, default_value_t = 0, value_name = "N")]
    faults: u32,
    /// Time until an empty device is in its place.
    #[arg(long, default_value = "1h", value_name = "TIME", value_parser = span)]
    replaced_after: Time,
    /// Check the promises after every event and not only at the end; slow.
    #[arg(long)]
    check: bool,
    /// How to write it.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl Volume {
    pub fn answer(&self) -> Result<Answer> {
        let text = std::fs::read_to_string(&self.file).map_err(|error| {
            Problem::wrong(format!("{} cannot be read: {error}", self.file.display()))
                .so("nothing was simulated")
                .try_this("name a volume.toml; `entrepot init` writes one")
        })?;
        let config = Config::parse(&std::path::absolute(&self.file)?, &text)?;
        let figures = [run(self.setup(&config)?)];
        let columns = columns(&figures[0]);
        let version = executor::version()?;
        let hash = blake3::hash(text.as_bytes()).to_hex();
        let json =
            || json!({ "version": version, "seed": self.traces.seed, "volume": hash.as_str(), "figures": figures[0] });
        let sheet = || table::sheet(&columns, &figures[0]) + &targets(&config, &figures[0]) + &hours(&figures[0]);
        Ok(table::answer(self.output, &columns, &figures, sheet, json))
    }

    fn setup(&self, config: &Config) -> Result<Setup> {
        let fast = self.fast_tier(config);
        let costs = costs(config, fast);
        let segment_bytes = config.layout.segment.max(SEGMENT_BYTES_MIN);
        let target = |of: &engine::volume::TargetConfig| {
            let is_fast = Some(of.tier) == fast;
            let cost = if is_fast { &costs.fast } else { &costs.slow };
            Target {
                tier: u8::from(!is_fast),
                bytes: if is_fast { self.fast_size } else { self.slow_size },
                device: Device::of_cost(cost),
            }
        };
        let seed = self.traces.seed;
        let load = Load {
            span: self.span,
            jobs: self.jobs,
            queued: self.queued,
            input_bytes: self.input,
            checkpoint_bytes: self.checkpoint,
            checkpoints: self.checkpoints,
            interval: self.interval,
            files: self.files,
            file_bytes: self.file_size,
            requests: self.requests,
            request_bytes: self.request_size,
            writes: self.writes / 100.0,
            seed,
        };
        Ok(Setup {
            config: self.machine(config, &costs, segment_bytes)?,
            targets: config.targets.iter().map(target).collect(),
            segment_bytes,
            stripe_count: config.placement().stripe_count as u32,
            stripe_bytes: config.placement().stripe_size,
            copies_free_percent: config.tiering.copies_free_percent,
            load,
            requests: self.trace()?,
            faults: Faults { count: self.faults, replaced_after: self.replaced_after, seed },
            rest: Time::from_secs(6 * 3600),
            check: self.check,
            ..Setup::default()
        })
    }

    /// The tier of the burst buffer, or the fast one of `[tiering]`; else the first. `None` if there is one tier only.
    fn fast_tier(&self, config: &Config) -> Option<u8> {
        let tiering = (config.tiering.policy != TieringPolicy::Off).then_some(config.tiering.fast);
        let fast = config.burst.fast.or(tiering).unwrap_or(0);
        config.targets.iter().any(|target| target.tier != fast).then_some(fast)
    }

    fn machine(&self, config: &Config, costs: &Costs, segment_bytes: u64) -> Result<policy::volume::Config> {
        let (fast_bytes, moves) = (self.fast_size * u64::from(costs.fast_devices), config.mover.concurrent.max(1));
        let burst = config.burst.fast.map(|_| config.burst.machine(fast_bytes));
        let share = (u128::from(fast_bytes) * u128::from(config.tiering.share_percent) / 100) as u64;
        let tiers = (config.tiering.policy != TieringPolicy::Off)
            .then(|| config.tiering.machine(*costs, share, segment_bytes, moves));
        let adapts = !matches!(config.stripes.mode, policy::stripe::advice::Mode::Fixed(_));
        let stripes = node::adapt::striping(config)?;
        let stripes = adapts.then_some(stripes);
        let replicas = Some(config.replication.machine(SYSTEM_NODES));
        Ok(policy::volume::Config { burst, tiers, stripes, replicas, changes_max: moves, repairs: true })
    }

    /// The requests of the traces, if any are named.
    fn trace(&self) -> Result<Option<Vec<Request>>> {
        if self.traces.is_empty() {
            return Ok(None);
        }
        let limit = self.traces.limit_requests.map_or(usize::MAX, |limit| limit as usize);
        let (mut all, mut files) = (Vec::new(), BTreeMap::new());
        for (trace, NamedTrace { name, opener }) in self.traces.named(Options::BLOCK_BYTES)?.iter().enumerate() {
            let (mut first_ns, begins) = (None, all.len());
            let mut reader = opener.open().map_err(|error| survey_problem(&error.into()))?;
            for record in reader.by_ref() {
                let record = record.map_err(|error| survey_problem(&error.into()))?;
                if !is_request(&record) {
                    continue;
                }
                if all.len() >= limit {
                    break;
                }
                let next = files.len() as u32;
                let file = *files.entry((trace, record.space())).or_insert(next);
                let at = Time(record.time_ns.saturating_sub(*first_ns.get_or_insert(record.time_ns)));
                let (offset, bytes) = (record.offset, record.length);
                all.push(Request { at, file, offset, bytes: bytes.into(), write: record.op == Op::Write });
            }
            let at_once = all.len() > begins + 1 && all[begins..].iter().all(|request| request.at == all[begins].at);
            if !reader.has_times() || at_once {
                return Err(without_times(name));
            }
        }
        all.sort_by_key(|request| request.at);
        Ok(Some(all))
    }
}

/// A trace cannot be replayed at its times: it has none.
pub(super) fn without_times(name: &str) -> Failure {
    Problem::wrong(format!("{name} has no times of its requests, so they would all come at once"))
        .so("nothing was simulated")
        .try_this("replay it in a closed loop: `sim cache --closed`, or `sim tier` without --open")
        .into()
}

/// Costs of an access on both tiers, from the file where it has them.
fn costs(config: &Config, fast: Option<u8>) -> Costs {
    let of = |is_fast: bool, (latency_ns, rate): (f64, f64)| {
        let mut ours = config.targets.iter().filter(|target| (Some(target.tier) == fast) == is_fast);
        let said =
            ours.clone().find_map(|target| config.tiering.speeds.get(usize::from(target.tier)).copied().flatten());
        let cost = |latency_ns, read, write| DeviceCost {
            read_latency_ns: latency_ns,
            write_latency_ns: latency_ns,
            ..DeviceCost::seconds_per_gb(1e9 / read, 1e9 / write)
        };
        let measured = ours.find_map(|target| target.device);
        let measured = measured.map(|of| cost(of.latency_s * 1e9, of.read_rate, of.write_rate));
        said.or(measured).unwrap_or_else(|| cost(latency_ns, rate, rate))
    };
    let count =
        |is_fast: bool| config.targets.iter().filter(|target| (Some(target.tier) == fast) == is_fast).count() as u32;
    Costs { fast: of(true, FLASH), slow: of(false, DISK), fast_devices: count(true), slow_devices: count(false) }
}

/// A table of the targets' work.
fn targets(config: &Config, of: &Figures) -> String {
    type Row<'a> = (&'a engine::volume::TargetConfig, &'a TargetFigures);
    let rows: Vec<Row<'_>> = config.targets.iter().zip(&of.targets).collect();
    let columns = [
        column("", |(target, _): &Row<'_>| target.name.clone()).shown("target", 0),
        column("", |(_, of): &Row<'_>| if of.tier == 0 { "fast" } else { "slow" }).shown("tier", 0),
        column("", |(_, of): &Row<'_>| of.busy).percent("busy %", 1),
        column("", |(_, of): &Row<'_>| of.read_bytes as f64 / 1e9).shown("GB read", 1),
        column("", |(_, of): &Row<'_>| of.written_bytes as f64 / 1e9).shown("GB written", 1),
    ];
    format!("\n{}", table::text(&columns, &rows))
}

/// A table of the hours.
fn hours(of: &Figures) -> String {
    let rows: Vec<(usize, &HourFigures)> = of.hours.iter().enumerate().collect();
    let columns = [
        column("", |(hour, _): &(usize, &HourFigures)| *hour as u64).shown("hour", 0),
        column("", |(_, of): &(usize, &HourFigures)| of.requests).shown("requests", 0),
        column("", |(_, of): &(usize, &HourFigures)| of.request_ms).shown("mean response ms", 3),
        column("", |(_, of): &(usize, &HourFigures)| of.checkpoints).shown("checkpoints", 0),
        column("", |(_, of): &(usize, &HourFigures)| of.checkpoint_s).shown("latency s", 2),
        column("", |(_, of): &(usize, &HourFigures)| of.copied_bytes as f64 / 1e9).shown("GB copied", 1),
    ];
    format!("\n{}", table::text(&columns, &rows))
}

fn columns(of: &Figures) -> Vec<Column<'static, Figures>> {
    let mut columns = vec![
        column("jobs", |of: &Figures| of.jobs).shown("jobs", 0),
        column("checkpoints", |of: &Figures| of.checkpoints).shown("checkpoints", 0),
        column("given_up", |of: &Figures| of.refused).shown("checkpoints given up", 0),
        column("checkpoint_s", |of: &Figures| of.checkpoint_s).shown("checkpoint latency s", 2),
        column("requests", |of: &Figures| of.requests).shown("requests answered", 0),
        column("requests_failed", |of: &Figures| of.requests_failed).shown("requests failed: file lost", 0),
        column("answered_share", Figures::answered_share).percent("share answered %", 1),
        column("request_ms", |of: &Figures| of.request_ms).shown("mean response ms of that share", 3),
        column("fast_share", |of: &Figures| of.fast_share).percent("served by the fast tier %", 1),
        column("changes", |of: &Figures| of.changes.values().sum::<u64>()).shown("changes of layouts", 0),
    ];
    for mechanism in of.changes.keys() {
        let (count, bytes, delay) = (mechanism.clone(), mechanism.clone(), mechanism.clone());
        let changes = column("", move |of: &Figures| of.changes.get(&count).copied());
        columns.push(changes.shown(format!("  changes by {mechanism}"), 0));
        let copied = column("", move |of: &Figures| of.copied_bytes.get(&bytes).map(|bytes| *bytes as f64 / 1e9));
        columns.push(copied.shown("    GB copied", 1));
        let delay = column("", move |of: &Figures| of.delay_s.get(&delay).copied());
        columns.push(delay.shown("    s that requests waited behind it", 1));
    }
    columns.extend([
        column("copies_gb", |of: &Figures| of.copies_bytes as f64 / 1e9).shown("most room of slow copies GB", 1),
        column("failed", |of: &Figures| of.failed).shown("changes that failed", 0),
        column("undone", |of: &Figures| of.undone).shown("changes taken back by another", 0),
        column("faults", |of: &Figures| of.faults.len() as u64).shown("targets that failed", 0),
        column("lost_files", |of: &Figures| of.lost_files).shown("files whose only copy was there", 0),
    ]);
    columns
}
