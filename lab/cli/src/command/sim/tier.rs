//! `entrepot-lab sim tier`: where data should lie when some devices are fast and some are slow.

mod columns;
mod options;

use super::traces::{NamedTrace, TraceArgs};
use super::words::{Axis, axis, span};
use super::{remark, setup_problem, survey_problem};
use crate::failure::Result;
use crate::table::{self, Answer, Output};
use clap::Args;
use columns::{columns, fit};
use node::control::Problem;
use options::{Devices, Reorganisation, window};
use policy::tier::machine::Window;
use policy::time::Time;
use serde_json::json;
use sim::grid::{self, cross, side_by_side};
use sim::replay::{Cut, Survey};
use sim::setup::{Settable, SetupError, Size};
use sim::tier::{Arrivals, Figures, Requests, Scheme, Setup, working_sets};
use sim::trace::Options;
use std::str::FromStr;

/// All schemes, in the order of the table.
const SCHEMES: [&str; 10] =
    ["slow-only", "fast-only", "round-robin", "proportional", "lru", "lru-around", "lfu", "ws-ros", "tuned", "optimum"];

/// Share of the slow tier that slow copies leave free, in percent. The default of `[tiering] copies_free_percent`.
const COPIES_FREE_PERCENT: u32 = 5;

/// Place and move data between fast and slow devices
///
/// The devices are by default those of the paper (4 SSDs, 4 disks). Every scheme serves the same requests; speed-up is
/// against all devices in turn (round-robin), of optimum against the best placement for each window: by the time that
/// all requests take, or by the mean response with --open. The working set of a window is what it accesses; it fits
/// when the fast tier has room for it.
#[derive(Debug, Args)]
#[command(after_help = "\
SCHEMES (--schemes):
  slow-only, fast-only   one tier alone; fast-only as if everything fitted
  round-robin            all devices in turn
  proportional           all devices, in proportion to their speed
  lru                    the fast tier as a cache of the slow one; a write that misses fetches and caches its block
  lru-around             the same, but a write that misses goes to the slow tier only
  lfu                    on the fast tier what was accessed most often so far
  ws-ros                 working-set reorganisation, the paper's thresholds
  tuned                  working-set reorganisation by expected gain against cost: ours
  optimum                for each window the placement with most hits, known beforehand and free of charge: no bound of time,
                         so tuned can be faster

EXAMPLES:
  entrepot-lab sim tier --generate zipf:theta=1.0
  entrepot-lab sim tier --generate hotspot:shift=20000 --fast-size 10%
  entrepot-lab sim tier --trace volume.load.gz --fast-size 20% --open --speed 10
  entrepot-lab sim tier --trace OLTP.lis --fast-size fits --warm-up 50 --schemes round-robin,ws-ros,tuned,fast-only
  entrepot-lab sim tier --generate queries --schemes ws-ros,tuned --sweep hot=1,2,3,5,8
  entrepot-lab sim tier --generate webserver:scale=0.1 --sweep window=1%,5%,10%,20%
  entrepot-lab sim tier --generate zipf --fast-speed 200/40 --slow-speed 20/10 --fast 2 --slow 2 --output json")]
pub struct Tier {
    #[command(flatten)]
    traces: TraceArgs,
    #[command(flatten)]
    devices: Devices,
    #[command(flatten)]
    reorganisation: Reorganisation,
    /// Clients, each waiting for its answer.
    #[arg(long, default_value_t = 16, value_name = "N")]
    depth: usize,
    /// Think time of a client between answer and request.
    #[arg(long, default_value = "0s", value_name = "TIME", value_parser = span)]
    think: Time,
    /// Requests come at the times of the trace.
    #[arg(long, conflicts_with_all = ["depth", "think"])]
    open: bool,
    /// Times faster than the trace.
    #[arg(long, default_value_t = 1.0, requires = "open")]
    speed: f64,
    /// Play the traces so many times, one after the other.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Rest of the devices before each repetition: time to move hot data.
    #[arg(long, default_value = "0s", value_name = "TIME", value_parser = span)]
    rest: Time,
    /// Age at the first request of data that the trace reads before it writes them; the devices were idle until then
    /// (time to make slow copies).
    #[arg(long, default_value = "10min", value_name = "TIME", value_parser = span)]
    before: Time,
    /// Moves are made at once and cost nothing: what the choice of what to move is worth at most.
    #[arg(long)]
    free_moves: bool,
    /// Part of the requests that is served before anything is counted, in percent: until what is hot has moved.
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT")]
    warm_up: f64,
    /// Schemes to compare.
    #[arg(long, value_delimiter = ',', value_name = "SCHEMES")]
    schemes: Vec<String>,
    /// Vary one parameter of the reorganisation: hot, cold, window, busy-share or fast-size, and its values.
    #[arg(long, value_name = "NAME=VALUES", value_parser = axis)]
    sweep: Option<Axis>,
    /// Runs side by side; without it, as many as there are cores.
    #[arg(long, value_name = "N", value_parser = super::words::threads)]
    threads: Option<usize>,
    /// Check the accounts after every event; slow.
    #[arg(long)]
    check: bool,
    /// How to write it.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

/// Properties of the trace.
struct TraceProperties {
    /// Bytes that it accesses.
    footprint: u64,
    requests: u64,
    /// Bytes of the largest window's working set.
    working_set: u64,
}

/// Settings of one run.
#[derive(Clone)]
struct Case {
    label: String,
    scheme: String,
    reorganisation: Reorganisation,
    fast_size: String,
    warm_up: f64,
}

impl Case {
    /// Whether a parameter affects the results of the scheme.
    fn depends_on(&self, axis: &str) -> bool {
        let scheme = self.scheme.as_str();
        let moves = matches!(scheme, "lfu" | "ws-ros" | "tuned");
        match axis {
            "fast-size" => moves || matches!(scheme, "lru" | "lru-around" | "optimum" | "round-robin" | "proportional"),
            "window" => moves || scheme == "optimum",
            "busy-share" => moves,
            _ => scheme == "ws-ros",
        }
    }
}

impl Settable for Case {
    fn set(&mut self, name: &str, word: &str) -> std::result::Result<(), SetupError> {
        fn number<T: FromStr>(word: &str) -> std::result::Result<T, SetupError> {
            word.parse().map_err(|_| SetupError::new("number", word, "it is none"))
        }
        match name {
            "hot" => self.reorganisation.hot = number(word)?,
            "cold" => self.reorganisation.cold = number(word)?,
            "busy-share" => self.reorganisation.busy_share = number(word)?,
            "window" => word.clone_into(&mut self.reorganisation.window),
            "fast-size" => word.clone_into(&mut self.fast_size),
            _ => return Err(SetupError::new("axis", name, "it does not vary")),
        }
        Ok(())
    }
}

impl Tier {
    fn block_bytes(&self) -> Result<u64> {
        let block_bytes = self.devices.stripe;
        if !(512..=1 << 30).contains(&block_bytes) || !block_bytes.is_multiple_of(512) {
            return Err(Problem::wrong("--stripe is a multiple of 512 bytes, at most 1 GiB").into());
        }
        Ok(block_bytes)
    }

    /// The schemes on the named traces.
    pub fn answer(&self) -> Result<Answer> {
        let block_bytes = self.block_bytes()?;
        let cases = self.cases()?;
        // Options are checked before long traces are read.
        for case in &cases {
            self.world(
                case,
                &TraceProperties { footprint: 1 << 30, requests: 1000, working_set: 1 << 20 },
                block_bytes,
            )?;
        }
        let (requests, footprint) = self.read(block_bytes)?;
        let (known, sets) = known(&requests, footprint, &self.reorganisation.window, block_bytes)?;
        let worlds = cases.iter().map(|case| self.world(case, &known, block_bytes)).collect::<Result<Vec<_>>>()?;
        if let Some((setup, _)) = worlds.first() {
            self.say(&fit(&sets, setup))?;
        }
        let figures = side_by_side(&worlds, self.threads, |(setup, scheme)| sim::tier::run(setup, scheme, &requests));
        let rows: Vec<_> = cases.iter().zip(&figures).collect();
        let columns = columns(&rows, self.open);
        let of = |(case, figures): &(&Case, &Figures)| json!({ "case": case.label, "scheme": case.scheme, "figures": figures });
        let json = || json!({ "cases": rows.iter().map(of).collect::<Vec<_>>() });
        Ok(table::answer(self.output, &columns, &rows, || table::text(&columns, &rows), json))
    }

    /// The schemes, for each value of the sweep.
    fn cases(&self) -> Result<Vec<Case>> {
        let names: Vec<String> =
            if self.schemes.is_empty() { SCHEMES.map(str::to_owned).to_vec() } else { self.schemes.clone() };
        for name in &names {
            if !SCHEMES.contains(&name.as_str()) {
                let problem = Problem::wrong(format!("there is no scheme `{name}`"));
                return Err(problem.try_this(format!("choose from {}", SCHEMES.join(", "))).into());
            }
        }
        let cases = names.iter().map(|name| self.case(name));
        let Some((axis, values)) = &self.sweep else { return Ok(cases.collect()) };
        let wrong = || {
            let problem = Problem::wrong(format!("--sweep {axis} names no values"));
            problem.try_this("vary hot, cold, window, busy-share or fast-size: --sweep hot=1,2,3,5")
        };
        let mut all = Vec::new();
        for case in cases {
            let axes = case.depends_on(axis).then_some((axis.as_str(), &**values));
            for grid::Case { cell, mut setup } in cross(case, axes).map_err(|_| wrong())? {
                cell.iter().for_each(|(axis, value)| setup.label += &format!(" {axis}={value}"));
                all.push(setup);
            }
        }
        Ok(all)
    }

    /// Settings of a case; all except the scheme are those of the command line.
    fn case(&self, scheme: &str) -> Case {
        Case {
            label: scheme.to_owned(),
            scheme: scheme.to_owned(),
            reorganisation: self.reorganisation.clone(),
            fast_size: self.devices.fast_size.clone(),
            warm_up: self.warm_up,
        }
    }

    /// Reads the traces twice: for the census, then for the requests, as often as they are played. With their
    /// footprint.
    fn read(&self, block_bytes: u64) -> Result<(Requests, u64)> {
        let limit_requests = self.traces.limit_requests;
        let cut = Cut { block_bytes: block_bytes as u32, requests_max: limit_requests, ..Cut::default() };
        let (mut survey, mut requests) = (Survey::default(), Requests::default());
        for (trace, NamedTrace { name, opener }) in self.traces.named(Options::BLOCK_BYTES)?.iter().enumerate() {
            let opened = || opener.open().map_err(|error| survey_problem(&error.into()));
            survey.add(opened()?, &cut).map_err(|error| survey_problem(&error))?;
            self.say(&format!("trace      {name}\n{}\n\n", survey.traces()[trace]))?;
            if self.open && !survey.traces()[trace].has_times {
                return Err(super::volume::without_times(name));
            }
            requests.begin(survey.start_ns(trace));
            let limit = limit_requests.map_or(usize::MAX, |n| requests.len().saturating_add(n as usize));
            for record in opened()? {
                let record = record.map_err(|error| survey_problem(&error.into()))?;
                if requests.len() >= limit {
                    break;
                }
                requests.add(trace, &record, block_bytes);
            }
        }
        Ok((requests.repeated(self.repeat as usize), survey.footprint_blocks() * block_bytes))
    }

    /// Prints a remark beside the figures.
    fn say(&self, text: &str) -> Result<()> {
        remark(self.output, text)
    }

    /// The devices and the scheme of a case, for such a trace.
    fn world(&self, case: &Case, known: &TraceProperties, block_bytes: u64) -> Result<(Setup, Scheme)> {
        let TraceProperties { footprint, requests, working_set } = *known;
        let rest = (self.repeat > 1).then_some(((requests / u64::from(self.repeat)).max(1) as usize, self.rest));
        let devices = &self.devices;
        if devices.fast == 0 || devices.slow == 0 || self.depth == 0 {
            return Err(Problem::wrong("--fast, --slow and --depth are at least 1").into());
        }
        if !(self.speed.is_finite() && self.speed > 0.0) {
            return Err(Problem::wrong("--speed is above 0").into());
        }
        if !(0.0..100.0).contains(&case.warm_up) {
            return Err(Problem::wrong("--warm-up is a percentage from 0 to below 100").into());
        }
        let size = |size: Size| size.blocks(footprint / block_bytes, block_bytes) * block_bytes;
        let fast_bytes = match case.fast_size.as_str() {
            "fits" => working_set,
            words => size(words.parse().map_err(|error| setup_problem(&error))?),
        };
        let arrivals = if self.open {
            Arrivals::Open { speed: self.speed }
        } else {
            Arrivals::Closed { depth: self.depth, think: self.think }
        };
        let page_cache = devices.page_cache.map(|bytes| devices.page_cache(bytes)).transpose()?;
        let warm_up = (requests as f64 * case.warm_up / 100.0) as u64;
        let setup = Setup {
            costs: devices.costs(),
            fast_bytes,
            fast_share_percent: self.devices.share,
            block_bytes,
            arrivals,
            warm_up,
            free_moves: self.free_moves,
            rest,
            before: self.before,
            old: None,
            slow_bytes: devices.slow_size.map(size),
            copies_free_percent: COPIES_FREE_PERCENT,
            page_cache,
            check: self.check,
        };
        let window = window(&case.reorganisation.window, requests)?;
        let scheme = match case.scheme.as_str() {
            "slow-only" => Scheme::SlowOnly,
            "fast-only" => Scheme::FastOnly,
            "round-robin" => Scheme::RoundRobin,
            "proportional" => Scheme::Proportional,
            "lru" | "lru-around" => Scheme::Lru { around: case.scheme == "lru-around" },
            "optimum" => match window {
                Window::Requests(window) => Scheme::Optimum { window },
                Window::Span(_) => {
                    let problem = Problem::wrong("the optimum looks ahead by requests, and --window is a time");
                    return Err(problem.try_this("give --window as a percentage, or leave the optimum out").into());
                }
            },
            name => {
                let mut config = case.reorganisation.config(name, &setup, window)?;
                if self.free_moves {
                    (config.busy_bytes_per_s, config.moves_max) = (u64::MAX, usize::MAX);
                }
                // WS-ROS is the paper's over the plain hybrid; ours places new data by speed as well.
                Scheme::Reorganized { config, proportional: name == "tuned" }
            }
        };
        Ok((setup, scheme))
    }
}

/// Properties of these requests, and the working set of each window in locations.
fn known(requests: &Requests, footprint: u64, window: &str, block_bytes: u64) -> Result<(TraceProperties, Vec<u64>)> {
    let sets = working_sets(requests, self::window(window, requests.len() as u64)?);
    let working_set = sets.iter().max().copied().unwrap_or(0) * block_bytes;
    Ok((TraceProperties { footprint, requests: requests.len() as u64, working_set }, sets))
}
