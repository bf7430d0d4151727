//! `entrepot sim tier`: where data should lie when some devices are fast and some are slow.

use super::cache::Output;
use super::parallel::side_by_side;
use super::traces::TraceArgs;
use super::{grid, setup_problem, survey_problem};
use crate::failure::Result;
use crate::shown;
use clap::Args;
use policy::tier::cost::{Costs, DeviceCost};
use policy::tier::machine::{Config, Planner, Window};
use policy::tier::reorganize::Thresholds;
use policy::tier::tuned;
use policy::time::Time;
use serde_json::json;
use sim::replay::{Cut, Survey};
use sim::setup::{Size, duration, size_bytes};
use sim::tier::{Arrivals, Figures, Requests, Scheme, Setup, working_sets};
use std::fmt::Write as _;
use store::control::Problem;

/// All schemes, in the order of the table.
const SCHEMES: [&str; 9] =
    ["slow-only", "fast-only", "round-robin", "proportional", "lru", "lfu", "ws-ros", "tuned", "optimum"];

/// Panes of the window of the tuned planner.
const PANES: usize = 4;

/// Place and move data between fast and slow devices
///
/// The devices are those of the paper (4 SSDs, 4 disks) unless told otherwise. Every scheme serves the same requests; speed-up is against
/// all devices in turn (round-robin), of optimum against the best placement for each window: by the time that all requests take, or by the mean
/// response with --open. The working set of a window is what it accesses; it fits when the fast tier has room for it.
#[derive(Debug, Args)]
#[command(after_help = "\
SCHEMES (--schemes):
  slow-only, fast-only   one tier alone; fast-only as if everything fitted
  round-robin            all devices in turn
  proportional           all devices, in proportion to their speed
  lru                    the fast tier as a cache of the slow one
  lfu                    on the fast tier what was accessed most often so far
  ws-ros                 working-set reorganisation, the paper's thresholds
  tuned                  working-set reorganisation by expected gain against cost: ours
  optimum                for each window the best placement, known beforehand and free of charge

EXAMPLES:
  entrepot sim tier --generate zipf:theta=1.0
  entrepot sim tier --generate hotspot:shift=20000 --fast-size 10%
  entrepot sim tier --trace volume.load.gz --fast-size 20% --open --speed 10
  entrepot sim tier --trace OLTP.lis --fast-size fits --warm-up 50 --schemes round-robin,ws-ros,tuned,fast-only
  entrepot sim tier --generate queries --schemes ws-ros,tuned --sweep hot=1,2,3,5,8
  entrepot sim tier --generate webserver:scale=0.1 --sweep window=1%,5%,10%,20%
  entrepot sim tier --generate zipf --fast-speed 200/40 --slow-speed 20/10 --fast 2 --slow 2 --output json")]
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
    /// How long a client thinks between answer and request.
    #[arg(long, default_value = "0s", value_name = "TIME")]
    think: String,
    /// Requests come at the times of the trace.
    #[arg(long, conflicts_with_all = ["depth", "think"])]
    open: bool,
    /// Times faster than the trace.
    #[arg(long, default_value_t = 1.0, requires = "open")]
    speed: f64,
    /// Play the traces so many times, one after the other.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// How long the devices rest before each repetition: time to move what is hot.
    #[arg(long, default_value = "0s", value_name = "TIME")]
    rest: String,
    /// Moves are made at once and cost nothing: what the choice of what to move is worth at most.
    #[arg(long)]
    free_moves: bool,
    /// Part of the requests that is served before anything is counted, in percent: until what is hot has moved.
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT")]
    warm_up: f64,
    /// Which schemes to compare.
    #[arg(long, value_delimiter = ',', value_name = "SCHEMES")]
    schemes: Vec<String>,
    /// Vary one parameter of the reorganisation: hot, cold, window, busy-share or fast-size, and its values.
    #[arg(long, value_name = "NAME=VALUES")]
    sweep: Option<String>,
    /// Runs side by side; without it, as many as there are cores.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Check the accounts after every event; slow.
    #[arg(long)]
    check: bool,
    /// How to write it.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

/// The devices.
#[derive(Debug, Args)]
struct Devices {
    /// Fast devices.
    #[arg(long, default_value_t = 4, value_name = "N")]
    fast: u32,
    /// Slow devices.
    #[arg(long, default_value_t = 4, value_name = "N")]
    slow: u32,
    /// Megabytes (10^6) per second that a fast device reads/writes.
    #[arg(long, default_value = "10000/2000", value_name = "READ/WRITE")]
    fast_speed: String,
    /// The same of a slow device.
    #[arg(long, default_value = "1000/500", value_name = "READ/WRITE")]
    slow_speed: String,
    /// Part of a fast device's service time that does not depend on the size.
    #[arg(long, default_value = "0s", value_name = "TIME")]
    fast_latency: String,
    /// The same of a slow device.
    #[arg(long, default_value = "0s", value_name = "TIME")]
    slow_latency: String,
    /// Room on all fast devices together: bytes, a part of the footprint, or `fits`: as much as the largest window's working set.
    #[arg(long, default_value = "256GB", value_name = "SIZE")]
    fast_size: String,
    /// Stripe: what is placed and moved as a whole.
    #[arg(long, default_value = "64KiB", value_name = "SIZE")]
    stripe: String,
}

/// The reorganisation.
#[derive(Clone, Debug, Args)]
struct Reorganisation {
    /// Sliding window: a part of the requests, or a time.
    #[arg(long, default_value = "10%", value_name = "WINDOW")]
    window: String,
    /// H: read more often than this within the window is hot (ws-ros).
    #[arg(long, default_value_t = 3, value_name = "N")]
    hot: u32,
    /// L: read less often than this is cold (ws-ros).
    #[arg(long, default_value_t = 2, value_name = "N")]
    cold: u32,
    /// Cold data leave the fast tier only while it has less free space than this part of it (ws-ros; the paper's 20 of 256 GB).
    #[arg(long, default_value_t = 7.8125, value_name = "PERCENT")]
    free: f64,
    /// What is hot in reads and in writes goes to the fast tier (ws-ros; the paper has it on the slow one).
    #[arg(long)]
    read_wins: bool,
    /// How long both tiers must be idle before something is moved.
    #[arg(long, default_value = "0s", value_name = "TIME")]
    idle: String,
    /// Part of the slow devices' bandwidth that moves may take while devices are busy, in percent; 0 waits for idleness.
    #[arg(long, default_value_t = 5.0, value_name = "PERCENT")]
    busy_share: f64,
    /// Leave parts of `tuned` out: copies (slow copies of what is promoted are kept while they are clean), on-access (promotion at the
    /// access, when the bytes are at hand).
    #[arg(long, value_delimiter = ',', value_name = "PARTS")]
    without: Vec<String>,
}

/// What is known of the trace.
struct Known {
    /// Bytes that it accesses.
    footprint: u64,
    requests: u64,
    /// Bytes of the largest window's working set.
    working_set: u64,
}

/// One run.
struct Case {
    label: String,
    scheme: String,
    reorganisation: Reorganisation,
    fast_size: String,
}

impl Tier {
    pub fn run(self) -> Result<u8> {
        let block_bytes = size_bytes("stripe", &self.devices.stripe).map_err(|error| setup_problem(&error))?;
        if !(512..=1 << 30).contains(&block_bytes) || !block_bytes.is_multiple_of(512) {
            return Err(Problem::wrong("--stripe is a multiple of 512 bytes, at most 1 GiB").into());
        }
        let cases = self.cases()?;
        // Words are checked before long traces are read.
        for case in &cases {
            self.world(case, &Known { footprint: 1 << 30, requests: 1000, working_set: 1 << 20 }, block_bytes)?;
        }
        let (once, footprint) = self.read(block_bytes)?;
        let requests = once.repeated(self.repeat as usize);
        let sets = working_sets(&requests, window(&self.reorganisation.window, requests.len() as u64)?);
        let working_set = sets.iter().max().copied().unwrap_or(0) * block_bytes;
        let known = Known { footprint, requests: requests.len() as u64, working_set };
        let worlds = cases.iter().map(|case| self.world(case, &known, block_bytes)).collect::<Result<Vec<_>>>()?;
        if let Some((setup, _)) = worlds.first() {
            self.say(&fit(&sets, setup))?;
        }
        let figures = side_by_side(&worlds, self.threads, |(setup, scheme)| sim::tier::run(setup, scheme, &requests));
        match self.output {
            Output::Text => shown::text(&table(&cases, &figures, self.open))?,
            Output::Csv => shown::text(&csv(&cases, &figures))?,
            Output::Json => {
                let rows = cases.iter().zip(&figures);
                let rows: Vec<_> = rows
                    .map(|(case, figures)| json!({ "case": case.label, "scheme": case.scheme, "figures": figures }))
                    .collect();
                shown::json(&json!({ "cases": rows }))?;
            }
        }
        Ok(0)
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
        let case = |label: String, scheme: &str| Case {
            label,
            scheme: scheme.to_owned(),
            reorganisation: self.reorganisation.clone(),
            fast_size: self.devices.fast_size.clone(),
        };
        let Some(sweep) = &self.sweep else {
            return Ok(names.iter().map(|name| case(name.clone(), name)).collect());
        };
        let wrong = || {
            let problem = Problem::wrong(format!("--sweep {sweep} does not say what to vary"));
            problem.try_this("vary hot, cold, window, busy-share or fast-size: --sweep hot=1,2,3,5")
        };
        let (name, values) = sweep.split_once('=').ok_or_else(wrong)?;
        let mut cases = Vec::new();
        for scheme in &names {
            let moves = matches!(scheme.as_str(), "lfu" | "ws-ros" | "tuned");
            let varies = match name {
                "fast-size" => moves || matches!(scheme.as_str(), "lru" | "optimum" | "round-robin" | "proportional"),
                "window" => moves || scheme == "optimum",
                "busy-share" => moves,
                _ => scheme == "ws-ros",
            };
            if !varies {
                cases.push(case(scheme.clone(), scheme));
                continue;
            }
            for value in values.split(',').map(str::trim) {
                let mut one = case(format!("{scheme} {name}={value}"), scheme);
                match name {
                    "hot" => one.reorganisation.hot = value.parse().map_err(|_| wrong())?,
                    "cold" => one.reorganisation.cold = value.parse().map_err(|_| wrong())?,
                    "busy-share" => one.reorganisation.busy_share = value.parse().map_err(|_| wrong())?,
                    "window" => value.clone_into(&mut one.reorganisation.window),
                    "fast-size" => value.clone_into(&mut one.fast_size),
                    _ => return Err(wrong().into()),
                }
                cases.push(one);
            }
        }
        Ok(cases)
    }

    /// Reads the traces twice: for the census, then for the requests.
    fn read(&self, block_bytes: u64) -> Result<(Requests, u64)> {
        let cut = Cut { block_bytes: block_bytes as u32, requests_max: self.traces.limit_requests, ..Cut::default() };
        let (mut survey, mut requests) = (Survey::default(), Requests::default());
        for (trace, wish) in self.traces.wishes()?.iter().enumerate() {
            let opener = grid::opener(wish, "".as_ref())?;
            let opened = || opener.open().map_err(|error| survey_problem(&error.into()));
            survey.add(opened()?, &cut).map_err(|error| survey_problem(&error))?;
            self.say(&format!("trace      {}\n{}\n\n", wish.name, survey.traces()[trace]))?;
            let limit = self.traces.limit_requests.map_or(usize::MAX, |n| requests.len().saturating_add(n as usize));
            for record in opened()? {
                let record = record.map_err(|error| survey_problem(&error.into()))?;
                if requests.len() >= limit {
                    break;
                }
                requests.add(trace, &record, block_bytes);
            }
        }
        Ok((requests, survey.footprint_blocks() * block_bytes))
    }

    /// What is told beside the figures.
    fn say(&self, text: &str) -> Result<()> {
        if self.output == Output::Text {
            shown::text(text)?
        } else {
            eprint!("{text}")
        }
        Ok(())
    }

    /// The devices and the scheme of a case, for such a trace.
    fn world(&self, case: &Case, known: &Known, block_bytes: u64) -> Result<(Setup, Scheme)> {
        let Known { footprint, requests, working_set } = *known;
        let rest = duration("rest", &self.rest).map_err(|error| setup_problem(&error))?;
        let rest = (self.repeat > 1).then_some(((requests / u64::from(self.repeat)).max(1) as usize, rest));
        let devices = &self.devices;
        let costs = Costs {
            fast: device("--fast-speed", &devices.fast_speed, &devices.fast_latency)?,
            slow: device("--slow-speed", &devices.slow_speed, &devices.slow_latency)?,
            fast_devices: devices.fast,
            slow_devices: devices.slow,
        };
        if devices.fast == 0 || devices.slow == 0 || self.depth == 0 {
            return Err(Problem::wrong("--fast, --slow and --depth are at least 1").into());
        }
        if !(self.speed.is_finite() && self.speed > 0.0) {
            return Err(Problem::wrong("--speed is above 0").into());
        }
        if !(0.0..100.0).contains(&self.warm_up) {
            return Err(Problem::wrong("--warm-up is a percentage from 0 to below 100").into());
        }
        let fast_bytes = if case.fast_size == "fits" {
            working_set
        } else {
            let size: Size = case.fast_size.parse().map_err(|error| setup_problem(&error))?;
            size.blocks(footprint / block_bytes, block_bytes) * block_bytes
        };
        let think = duration("think time", &self.think).map_err(|error| setup_problem(&error))?;
        let arrivals = if self.open {
            Arrivals::Open { speed: self.speed }
        } else {
            Arrivals::Closed { depth: self.depth, think }
        };
        let warm_up = (requests as f64 * self.warm_up / 100.0) as u64;
        let setup = Setup {
            costs,
            fast_bytes,
            block_bytes,
            arrivals,
            warm_up,
            free_moves: self.free_moves,
            rest,
            check: self.check,
        };
        let window = window(&case.reorganisation.window, requests)?;
        let scheme = match case.scheme.as_str() {
            "slow-only" => Scheme::SlowOnly,
            "fast-only" => Scheme::FastOnly,
            "round-robin" => Scheme::RoundRobin,
            "proportional" => Scheme::Proportional,
            "lru" => Scheme::Lru,
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

impl Reorganisation {
    fn config(&self, planner: &str, setup: &Setup, window: Window) -> Result<Config> {
        if !(0.0..=100.0).contains(&self.free) || !(0.0..=100.0).contains(&self.busy_share) {
            return Err(Problem::wrong("--free and --busy-share are percentages from 0 to 100").into());
        }
        let thresholds = Thresholds {
            hot: self.hot,
            cold: self.cold,
            free_bytes: (setup.fast_bytes as f64 * self.free / 100.0) as u64,
            read_wins: self.read_wins,
        };
        if let Some(part) = self.without.iter().find(|part| !matches!(part.as_str(), "copies" | "on-access")) {
            let problem = Problem::wrong(format!("tuned has no part `{part}`"));
            return Err(problem.try_this("leave out copies, on-access, or both").into());
        }
        let has = |part: &str| planner == "tuned" && self.without.iter().all(|left_out| left_out != part);
        let (keep_copies, on_access) = (has("copies"), has("on-access"));
        let (planner, panes) = match planner {
            "lfu" => (Planner::Frequency, 1),
            "ws-ros" => (Planner::WsRos(thresholds), 1),
            _ => (Planner::Tuned(tuned::Config::default()), PANES),
        };
        let slow = &setup.costs.slow;
        let block = setup.block_bytes as f64;
        let bandwidth =
            block * 1e9 / slow.access_ns(policy::tier::Region::Read, block) * f64::from(setup.costs.slow_devices);
        Ok(Config {
            window,
            panes,
            planner,
            block_bytes: setup.block_bytes,
            fast_bytes: setup.fast_bytes,
            costs: setup.costs,
            idle: duration("idle time", &self.idle).map_err(|error| setup_problem(&error))?,
            busy_bytes_per_s: (bandwidth * self.busy_share / 100.0) as u64,
            moves_max: setup.costs.slow_devices as usize,
            keep_copies,
            on_access,
            ..Config::default()
        })
    }
}

/// `1000/500` and a latency.
fn device(option: &str, speed: &str, latency: &str) -> Result<DeviceCost> {
    let wrong = || {
        let problem = Problem::wrong(format!("{option} {speed} is no speed of a device"));
        problem.try_this("give megabytes per second, reading/writing: 1000/500")
    };
    let (read, write) = speed.split_once('/').ok_or_else(wrong)?;
    let number = |text: &str| {
        let n = text.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
        n.map(|mb_s| 1e3 / mb_s).ok_or_else(wrong)
    };
    let latency_ns = duration("latency", latency).map_err(|error| setup_problem(&error))?.0 as f64;
    Ok(DeviceCost {
        read_latency_ns: latency_ns,
        write_latency_ns: latency_ns,
        read_ns_per_byte: number(read)?,
        write_ns_per_byte: number(write)?,
    })
}

/// `10%` of the requests, or `60s`.
fn window(text: &str, requests: u64) -> Result<Window> {
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

/// Whether the working set of the windows fits the fast tier.
fn fit(sets: &[u64], setup: &Setup) -> String {
    let mib = |locations: f64| locations * setup.block_bytes as f64 / f64::from(1 << 20);
    let room = setup.fast_bytes / setup.block_bytes;
    let mean = sets.iter().sum::<u64>() as f64 / sets.len().max(1) as f64;
    let most = sets.iter().max().copied().unwrap_or(0);
    format!(
        "working set of a window {:.1} MiB on average, {:.1} at most; the fast tier has room for {:.1} MiB: it fits in {} of {} windows\n\n",
        mib(mean),
        mib(most as f64),
        mib(room as f64),
        sets.iter().filter(|set| **set <= room).count(),
        sets.len()
    )
}

/// At the times of the trace a faster tier shows in the response times; clients that wait are done earlier.
fn table(cases: &[Case], figures: &[Figures], open: bool) -> String {
    let time = |of: &Figures| if open { of.mean_ms } else { of.span_s };
    let of = |scheme: &str| cases.iter().position(|case| case.scheme == scheme).map(|at| time(&figures[at]));
    let (plain, best) = (of("round-robin"), of("optimum"));
    let ratio = |a: Option<f64>, b: f64| a.map_or("-".to_owned(), |a| format!("{:.2}", a / b.max(1e-12)));
    let width = cases.iter().map(|case| case.label.len()).max().unwrap_or(0).max(6);
    let longest = figures.iter().map(|of| of.span_s).fold(0.0, f64::max);
    let mut text = format!(
        "{:<width$}      time s  speed-up  of optimum    mean ms     p95 ms  fast %  busy fast/slow %  promoted  demoted  moved MiB  H  time\n",
        "scheme"
    );
    for (case, of) in cases.iter().zip(figures) {
        let bar = "#".repeat((of.span_s / longest.max(1e-12) * 30.0).round() as usize);
        let threshold = of.threshold.map_or("-".to_owned(), |h| h.to_string());
        let _ = writeln!(
            text,
            "{:<width$}  {:>10.4}  {:>8}  {:>10}  {:>9.4}  {:>9.4}  {:>6.1}  {:>8.1}/{:<7.1}  {:>8}  {:>7}  {:>9.1}  {threshold}  {bar}",
            case.label,
            of.span_s,
            ratio(plain, time(of)),
            ratio(best, time(of)),
            of.mean_ms,
            of.p95_ms,
            of.fast_share * 100.0,
            of.fast_busy * 100.0,
            of.slow_busy * 100.0,
            of.promoted,
            of.demoted,
            of.moved_mib,
        );
    }
    text
}

fn csv(cases: &[Case], figures: &[Figures]) -> String {
    let mut text = String::from(
        "case,scheme,requests,span_s,mean_ms,p95_ms,fast_share,fast_busy,slow_busy,promoted,demoted,failed,moved_mib\n",
    );
    for (case, of) in cases.iter().zip(figures) {
        let _ = writeln!(
            text,
            "{},{},{},{:.6},{:.6},{:.6},{:.6},{:.6},{:.6},{},{},{},{:.3}",
            case.label,
            case.scheme,
            of.requests,
            of.span_s,
            of.mean_ms,
            of.p95_ms,
            of.fast_share,
            of.fast_busy,
            of.slow_busy,
            of.promoted,
            of.demoted,
            of.failed,
            of.moved_mib
        );
    }
    text
}
