//! `entrepot-lab sim cache`: a hierarchy of caches over a device, driven by traces.

use super::figures::{self, Done};
use super::traces::{NamedTrace, TraceArgs};
use super::words::threads;
use super::{remark, setup_problem, simulate_problem};
use crate::command::write_file;
use crate::failure::Result;
use crate::table::{Answer, Output};
use clap::{Args, ValueEnum};
use node::control::Problem;
use serde_json::json;
use sim::grid::{Case, Cell, side_by_side};
use sim::replay::Streams;
use sim::setup::{LevelSetup, Settable, Setup};
use sim::simulate::{self, Opener};
use std::path::PathBuf;

/// Replay traces through caches with prefetching and coordination, over a disk
///
/// Before anything is simulated each trace is read once and its census shown: records, what was skipped and why, span,
/// reads, footprint. A trace whose accounts do not close is refused.
#[derive(Debug, Args)]
#[command(after_help = "\
PREFETCHERS (--l1, --l2), with their parameters:
  none   ra:degree=4   linux:min=3,max=32,incl_demand   linux-2.6.18:min=4,max=32   on-demand:max=32
  stream:degree_max=48,distance=24   sarc:degree=8,distance=4,threshold=4   amp:apt=4,degree_max=256,run=1
TRIGGERS (--l1-trigger, --l2-trigger):
  native   fixed:24   ets   esf, both with default=24,min=4,max=48,redistribute
COORDINATORS (--coordinator), joined by +:
  none   labels   du   pfc, which takes bypass, readmore, file, client, prose, text=0.5, queue=0.1, cap=BLOCKS
  pfc:prose, the paper's prose: a hit in the readmore queue counts whatever is cached; the default is the printed code
  pfc:adaptive, our own: streams told apart by address, read more and bypassed as streams of that length did before;
  steps aside for the level's prefetcher where requests wait less under that one
  labels:onward, our own: what goes on where the upper level's prefetch ended counts as demanded
  early, our own: the level above asks for what its application waits for in a request of its own, as mounts
  do; best early+pfc:adaptive; early+pfc takes the prefetch behind such a request for its rest
DISKS (--disk):
  cheetah9lp   atlas10k   ssd-sata   ssd-nvme   constant:5ms   plain:read=71.2MB,write=60MB,latency=1ms
  none: one level whose fetches are done at once, for hit ratios

EXAMPLES:
  entrepot-lab sim cache --trace oltp.spc --l1 linux --l1-size 5% --l2 sarc --l2-size 200% --coordinator pfc
  entrepot-lab sim cache --trace multi.spc --closed --l1 ra --l2 sarc --compare none,labels,pfc,du
  entrepot-lab sim cache --trace a.spc --trace b.spc --l1 amp --l2 amp --disks 5 --raid 5 --output json
  entrepot-lab sim cache --trace vod.csv --l1 stream --l1-trigger ets --timeline inventory.csv
  entrepot-lab sim cache --trace OLTP.lis.zst --disk none --l1 none --compare l1_size=1000,l1_size=5000")]
pub struct Cache {
    #[command(flatten)]
    traces: TraceArgs,
    /// Prefetcher of the first level, that of the application.
    #[arg(long, default_value = "linux", value_name = "PREFETCHER")]
    l1: String,
    /// Size of the first level: part of the footprint, bytes, or blocks.
    #[arg(long, default_value = "5%", value_name = "SIZE")]
    l1_size: String,
    /// Replacement of the first level: lru, sarc; without it, what goes with the prefetcher.
    #[arg(long, value_name = "REPLACEMENT")]
    l1_replacement: Option<String>,
    /// Control of the trigger distances of the first level.
    #[arg(long, value_name = "TRIGGER")]
    l1_trigger: Option<String>,
    /// Prefetcher of the second level; without it there is one level.
    #[arg(long, value_name = "PREFETCHER")]
    l2: Option<String>,
    /// Size of the second level: part of the first, bytes, or blocks.
    #[arg(long, default_value = "200%", value_name = "SIZE")]
    l2_size: String,
    /// Replacement of the second level.
    #[arg(long, value_name = "REPLACEMENT")]
    l2_replacement: Option<String>,
    /// Control of the trigger distances of the second level.
    #[arg(long, value_name = "TRIGGER")]
    l2_trigger: Option<String>,
    /// One more level below: "PREFETCHER size=SIZE trigger=... coordinator=... replacement=...".
    #[arg(long, value_name = "WORDS")]
    level: Vec<String>,
    /// Coordination of the levels below the first with the one above.
    #[arg(long, default_value = "none")]
    coordinator: String,
    /// Number of levels that each client has for itself.
    #[arg(long, default_value_t = 1, value_name = "N")]
    private_levels: usize,
    #[command(flatten)]
    world: WorldArgs,
    /// Several policies side by side: coordinators, triggers, prefetchers for all levels, or AXIS=VALUE, separated by
    /// commas (by semicolons if one has parameters).
    #[arg(long, value_name = "POLICIES")]
    compare: Option<String>,
    /// Cases that run side by side; without it, as many as there are cores.
    #[arg(long, value_name = "N", value_parser = threads)]
    threads: Option<usize>,
    /// Write samples of the streams' read-ahead inventories to this file, as comma-separated values.
    #[arg(long, value_name = "FILE", conflicts_with = "compare")]
    timeline: Option<PathBuf>,
    /// Time between two samples.
    #[arg(long, default_value = "100ms", value_name = "TIME")]
    timeline_every: String,
    /// Write every answered request to this file, as comma-separated values.
    #[arg(long, value_name = "FILE", conflicts_with = "compare")]
    log: Option<PathBuf>,
    /// How to write it.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

/// The world around the levels.
#[derive(Debug, Args)]
struct WorldArgs {
    /// Model of the device, or a file NAME.toml with a device or an array of them (docs/guide/simulator.md).
    #[arg(long, default_value = "cheetah9lp")]
    disk: String,
    /// Number of devices.
    #[arg(long, default_value_t = 1)]
    disks: u32,
    /// An array of them: 0 or 5.
    #[arg(long)]
    raid: Option<u8>,
    /// Stripe unit of the array.
    #[arg(long, default_value = "64KiB", value_name = "SIZE")]
    stripe_unit: String,
    /// Bus of a mechanical disk in MB/s, if not the one it was measured on.
    #[arg(long, value_name = "MB/S")]
    disk_bus: Option<f64>,
    /// Scheduler of the block layer: noop, deadline, anticipatory; with `:awaited` behind it requests with a waiting
    /// client go before prefetches.
    #[arg(long, default_value = "deadline")]
    scheduler: String,
    /// Part of the link's time that does not depend on the size.
    #[arg(long, default_value = "6ms", value_name = "TIME")]
    alpha: String,
    /// The link's time per block.
    #[arg(long, default_value = "0.03ms", value_name = "TIME")]
    beta: String,
    /// The link's time for a request.
    #[arg(long, default_value = "0s", value_name = "TIME")]
    link_request: String,
    /// Replies share the link's bandwidth.
    #[arg(long)]
    link_shared: bool,
    /// Each request waits for the answer to the one before, instead of coming at its time.
    #[arg(long)]
    closed: bool,
    /// Think time of a client between answer and request.
    #[arg(long, default_value = "0s", value_name = "TIME", requires = "closed")]
    think: String,
    /// Requests come as long after the one before as in the trace, but not before its answer: clients with a pace of
    /// their own.
    #[arg(long, conflicts_with_all = ["closed", "speed"])]
    paced: bool,
    /// No request comes at this time or later: what clients get done until then.
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Times faster than the trace.
    #[arg(long, default_value_t = 1.0, conflicts_with = "closed")]
    speed: f64,
    /// Treatment of writes: cached (no device time), background, dropped.
    #[arg(long, default_value = "cached")]
    writes: String,
    /// Size of a block.
    #[arg(long, default_value = "4KiB", value_name = "SIZE")]
    block: String,
    /// Place of blocks in transit: frames of the cache, or buffers beside it.
    #[arg(long, default_value = "frames", value_name = "frames|buffers")]
    in_flight: String,
    /// Definition of a sequential stream.
    #[arg(long, value_enum, default_value = "file")]
    streams: StreamsArg,
    /// Each client of a trace is one of the world, with levels of its own.
    #[arg(long)]
    client_each: bool,
    /// End before the requests' bytes would exceed this.
    #[arg(long, value_name = "SIZE")]
    limit_bytes: Option<String>,
    /// Show each stream.
    #[arg(long)]
    per_stream: bool,
    /// Check all invariants after every event; slow.
    #[arg(long)]
    check: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StreamsArg {
    /// Each file or device is one.
    File,
    /// Each client of the trace is one.
    Client,
    /// All requests are one stream.
    All,
    /// Runs of neighbouring addresses, for traces that name no files.
    Address,
}

impl Cache {
    /// One world, or the compared policies, on the named traces.
    pub fn answer(&self) -> Result<Answer> {
        let setup = self.setup()?;
        let cut = setup.cut().map_err(|error| setup_problem(&error))?;
        let named = self.traces.named(cut.block_bytes)?;
        let traces: Vec<&dyn Opener> = named.iter().map(|trace| &*trace.opener).collect();
        // Options are checked before long traces are read.
        simulate::check(&setup).map_err(|error| setup_problem(&error))?;
        let policies = self.policies(&setup)?;
        let survey = simulate::survey(&setup, &traces).map_err(|error| simulate_problem(&error))?;
        for (NamedTrace { name, .. }, trace) in named.iter().zip(survey.traces()) {
            remark(self.output, &format!("trace      {name}\n{trace}\n\n"))?;
        }
        if !policies.is_empty() {
            let done = side_by_side(&policies, self.threads, |Case { cell, setup }| {
                let report = simulate::run(setup, &survey, &traces).map_err(|error| simulate_problem(&error))?.report;
                Ok(Done { cell: cell.clone(), setup: setup.clone(), report })
            });
            return Ok(figures::compared(&done.into_iter().collect::<Result<Vec<_>>>()?, self.output));
        }
        // A wrong path is reported before the work.
        for path in self.timeline.iter().chain(&self.log) {
            write_file(path, "")?;
        }
        let start = std::time::Instant::now();
        let outcome = simulate::run(&setup, &survey, &traces).map_err(|error| simulate_problem(&error))?;
        let (took, requests) = (start.elapsed().as_secs_f64(), outcome.report.reads.count + outcome.report.writes);
        let speed = requests as f64 / took / 1e6;
        remark(
            Output::Json,
            &format!("replayed   {requests} requests in {took:.3} s: {speed:.2} million per second\n"),
        )?;
        if let Some(path) = &self.timeline {
            figures::timeline(path, &outcome.samples)?;
        }
        if let Some(path) = &self.log {
            figures::log(path, &outcome.answered)?;
        }
        Ok(match self.output {
            Output::Text => Answer::Text(figures::text(&setup, &outcome.report)),
            Output::Csv => Answer::Text(figures::csv_of_one(&setup, &outcome.report)),
            Output::Json => {
                let census: Vec<_> = survey.traces().iter().map(|trace| json!(trace.report)).collect();
                Answer::Json(json!({ "setup": setup, "census": census, "report": outcome.report }))
            }
        })
    }

    fn setup(&self) -> Result<Setup> {
        let world = &self.world;
        let first = LevelSetup {
            replacement: self.l1_replacement.clone(),
            trigger: self.l1_trigger.clone(),
            ..LevelSetup::new(&self.l1, &self.l1_size)
        };
        let second = self.l2.as_ref().map(|l2| LevelSetup {
            replacement: self.l2_replacement.clone(),
            trigger: self.l2_trigger.clone(),
            coordinator: Some(self.coordinator.clone()),
            ..LevelSetup::new(l2, &self.l2_size)
        });
        if second.is_none() && self.coordinator != "none" && self.level.is_empty() {
            let problem = Problem::wrong("--coordinator has nothing to coordinate: there is one level");
            return Err(problem.try_this("add a second level with --l2").into());
        }
        let mut levels: Vec<_> = std::iter::once(first).chain(second).collect();
        for words in &self.level {
            let mut level = LevelSetup::parse(words).map_err(|error| setup_problem(&error))?;
            level.coordinator.get_or_insert_with(|| self.coordinator.clone());
            levels.push(level);
        }
        Ok(Setup {
            levels,
            private_levels: self.private_levels,
            disk: world.disk.clone(),
            disks: world.disks,
            raid: world.raid,
            stripe_unit: world.stripe_unit.clone(),
            disk_bus_mb_s: world.disk_bus,
            scheduler: world.scheduler.clone(),
            alpha: world.alpha.clone(),
            beta: world.beta.clone(),
            link_request: world.link_request.clone(),
            link_shared: world.link_shared,
            closed: world.closed,
            think: world.think.clone(),
            paced: world.paced,
            until: world.until.clone(),
            speed: world.speed,
            writes: world.writes.clone(),
            in_flight: world.in_flight.clone(),
            block: world.block.clone(),
            streams: match world.streams {
                StreamsArg::File => Streams::File,
                StreamsArg::Client => Streams::Client,
                StreamsArg::All => Streams::All,
                StreamsArg::Address => Streams::Address,
            },
            client_each: world.client_each,
            limit_bytes: world.limit_bytes.clone(),
            limit_requests: self.traces.limit_requests,
            per_stream: world.per_stream,
            check: world.check,
            sample_every: self.timeline.as_ref().map(|_| self.timeline_every.clone()),
            log: self.log.is_some(),
        })
    }

    /// The setups that are put side by side.
    fn policies(&self, setup: &Setup) -> Result<Vec<Case<Setup>>> {
        let Some(names) = &self.compare else { return Ok(Vec::new()) };
        let separator = if names.contains(';') { ';' } else { ',' };
        let names = names.split(separator).map(str::trim).filter(|name| !name.is_empty());
        let cases = names.map(|name| {
            let (axis, value) = Setup::axis_of(name)?;
            let mut setup = setup.clone();
            setup.set(&axis, &value)?;
            simulate::check(&setup)?;
            let cell = Cell::from([("policy".to_owned(), name.to_owned())]);
            Ok(Case { cell, setup })
        });
        let cases: std::result::Result<_, _> = cases.collect();
        Ok(cases.map_err(|error| setup_problem(&error))?)
    }
}
