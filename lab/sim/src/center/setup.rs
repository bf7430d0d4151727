//! Settings of a simulated centre: command line, grid file and sweep use the same names.

use super::nodes::NODES_MAX;
use crate::setup::{Settable, SetupError, duration, size_bytes};
use policy::protect::replica::{Removal, Share};
use policy::time::Time;
use std::fmt;
use std::str::FromStr;

named! {
    /// Treatment of jobs whose input is on a failed I/O node.
    Recovery {
        /// Jobs fail and go to the tail of the queue.
        None = "none",
        /// Input of waiting jobs is restored before they start; running jobs fail and go to the tail of the queue.
        Offline = "offline",
        /// Running jobs continue, with a small delay.
        OnTheFly = "on-the-fly",
        /// No I/O node ever fails.
        Ideal = "ideal",
    }
}

named! {
    /// Jobs whose input is replicated.
    Replication {
        /// Inputs of no jobs.
        None = "none",
        /// Jobs in the window over the order of arrival.
        Fcfs = "fcfs",
        /// Jobs in that window, and small jobs at once.
        Shortcut = "shortcut",
        /// Inputs of all jobs.
        All = "all",
        /// Jobs in the window over the order of dispatch, known from an earlier run.
        DispatchAware = "dispatch-aware",
    }
}

named! {
    /// Source of the outages.
    FailureModel {
        /// The recorded outages themselves.
        Records = "records",
        /// A renewal process with exponential times between failures.
        Exponential = "exponential",
        /// A renewal process with Weibull times between failures.
        Weibull = "weibull",
    }
}

/// Load of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Multiple of the log's load: submissions come closer together.
    Factor(f64),
    /// Share of the machine's capacity.
    Offered(f64),
}

impl FromStr for Load {
    type Err = SetupError;
    fn from_str(text: &str) -> Result<Load, SetupError> {
        let wrong = || SetupError::new("load", text, "a load is a factor like 1.5, or a part of the machine like 80%");
        let (number, percent) = text.strip_suffix('%').map_or((text, false), |number| (number, true));
        let number: f64 = number.trim().parse().map_err(|_| wrong())?;
        if !(number.is_finite() && number > 0.0 && number <= 10_000.0) {
            return Err(wrong());
        }
        Ok(if percent { Load::Offered(number / 100.0) } else { Load::Factor(number) })
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Load::Factor(factor) => write!(f, "{factor}"),
            Load::Offered(share) => write!(f, "{}%", share * 100.0),
        }
    }
}

/// Settings of a centre.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// I/O nodes over which inputs are striped.
    pub io_nodes: u16,
    /// Stripes of each input.
    pub stripes: u32,
    /// Recovery, see [`Recovery`].
    pub recovery: Recovery,
    /// Replication, see [`Replication`].
    pub replication: Replication,
    /// Eagerness of the window.
    pub alpha: Share,
    /// The shortcut's threshold T.
    pub threshold: Share,
    /// Time at which copies are removed.
    pub removal: Removal,
    /// Load, see [`Load`].
    pub load: Load,
    /// Failure model, see [`FailureModel`].
    pub failure_model: FailureModel,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Share of its run in which a job reads its input, from the start.
    pub reads_for: f64,
    /// Time from the dispatch of a job without its input to its failure.
    pub error_after: Time,
    /// Interval of checks of the input of waiting jobs.
    pub check_every: Time,
    /// Time until a failed target is detected.
    pub detection: Time,
    /// Rate of one stream from a source, in bytes per second.
    pub source_rate: u64,
    /// Maximum of such streams at once.
    pub repair_streams: usize,
    /// Extension of a run by recovery on the fly.
    pub recovery_overhead: Time,
    /// Extension of a run by the failover to a part of a replica.
    pub failover_time: Time,
    /// Rate at which a copy is made, in bytes per second.
    pub copy_rate: u64,
    /// Memory of a processor.
    pub memory: u64,
    /// Size of a job's input as a share of its memory.
    pub input_share: f64,
    /// Whether memory sizes of the log override `memory`.
    pub memory_of_log: bool,
    /// Scratch space in bytes; the default has Jaguar's ratio to the machine's memory.
    pub scratch: Option<u64>,
    /// Samples of queue and copies in the span of the submissions.
    pub snapshots: u32,
    /// Jobs behind the head that EASY considers; 0 is no limit.
    pub scan_max: usize,
}

/// Jaguar's memory over its scratch space: 46.8 TB over 600 TB (Zhang, table 4.2).
pub const JAGUAR_MEMORY_TO_SCRATCH: f64 = 46.8 / 600.0;

impl Default for Setup {
    /// Published values: four stripes (90 % of ORNL's files), detection 25 s, source 34.41 MB/s (NFS), overheads of
    /// about a second, 2 GB per core of Jaguar, 300 snapshots. The others are guesses.
    fn default() -> Setup {
        Setup {
            io_nodes: 64,
            stripes: 4,
            recovery: Recovery::None,
            replication: Replication::None,
            alpha: Share::millionths(200_000),
            threshold: Share::millionths(10_000),
            removal: Removal::Eager,
            load: Load::Factor(1.0),
            failure_model: FailureModel::Records,
            seed: 1,
            reads_for: 1.0,
            error_after: Time::from_secs(60),
            check_every: Time::from_secs(300),
            detection: Time::from_secs(25),
            source_rate: 34_410_000,
            repair_streams: 4,
            recovery_overhead: Time::from_secs(1),
            failover_time: Time::from_millis(900),
            copy_rate: 300_000_000,
            memory: 2_000_000_000,
            input_share: 0.1,
            memory_of_log: true,
            scratch: None,
            snapshots: 300,
            scan_max: 0,
        }
    }
}

/// Names of all settings, for messages.
const NAMES: &str = "stripes, recovery, replication, alpha, threshold, removal, load, failure-model, seed, io-nodes, reads-for, \
    error-after, check-every, detection, source-rate, repair-streams, recovery-overhead, failover-time, copy-rate, memory, \
    input-share, memory-of-log, scratch, snapshots, scan-max";

impl Settable for Setup {
    fn set(&mut self, name: &str, value: &str) -> Result<(), SetupError> {
        match name {
            "stripes" => self.stripes = whole("stripes", value, 1, NODES_MAX as u64)? as u32,
            "io-nodes" => self.io_nodes = whole("io-nodes", value, 2, NODES_MAX as u64)? as u16,
            "recovery" => self.recovery = word("recovery", value)?,
            "replication" => self.replication = word("replication", value)?,
            "alpha" => self.alpha = share("alpha", value)?,
            "threshold" => self.threshold = share("threshold", value)?,
            "removal" => {
                self.removal = match value {
                    "eager" => Removal::Eager,
                    "job-end" => Removal::JobEnd,
                    _ => return Err(SetupError::new("removal", value, "choose eager or job-end")),
                }
            }
            "load" => self.load = value.parse()?,
            "failure-model" => self.failure_model = word("failure model", value)?,
            "seed" => self.seed = whole("seed", value, 0, u64::MAX)?,
            "reads-for" => self.reads_for = part("reads-for", value)?,
            "error-after" => self.error_after = positive("error-after", value)?,
            "check-every" => self.check_every = positive("check-every", value)?,
            "detection" => self.detection = duration("detection", value)?,
            "source-rate" => self.source_rate = rate("source-rate", value)?,
            "repair-streams" => self.repair_streams = whole("repair-streams", value, 1, 100_000)? as usize,
            "recovery-overhead" => self.recovery_overhead = duration("recovery-overhead", value)?,
            "failover-time" => self.failover_time = duration("failover-time", value)?,
            "copy-rate" => self.copy_rate = rate("copy-rate", value)?,
            "memory" => self.memory = size_bytes("memory", value)?,
            "input-share" => self.input_share = part("input-share", value)?,
            "memory-of-log" => {
                self.memory_of_log =
                    value.parse().map_err(|_| SetupError::new("memory-of-log", value, "choose true or false"))?;
            }
            "scratch" => self.scratch = if value == "jaguar" { None } else { Some(size_bytes("scratch", value)?) },
            "snapshots" => self.snapshots = whole("snapshots", value, 1, 1_000_000)? as u32,
            "scan-max" => self.scan_max = whole("scan-max", value, 0, u64::MAX)? as usize,
            _ => return Err(SetupError::new("setting", name, format!("settings are {NAMES}"))),
        }
        Ok(())
    }
}

impl Setup {
    /// Returns the input size in bytes of a job with `procs` processors, each with `memory`.
    pub fn input_bytes(&self, procs: u32, memory: Option<u64>) -> u64 {
        let each = memory.filter(|_| self.memory_of_log).unwrap_or(self.memory);
        (each as f64 * f64::from(procs) * self.input_share) as u64
    }

    /// Returns the scratch space of a machine with `procs` processors, in bytes.
    pub fn scratch_bytes(&self, procs: u32) -> f64 {
        self.scratch.map_or(f64::from(procs) * self.memory as f64 / JAGUAR_MEMORY_TO_SCRATCH, |bytes| bytes as f64)
    }
}

fn word<T: FromStr<Err = String>>(what: &'static str, text: &str) -> Result<T, SetupError> {
    text.parse().map_err(|why: String| SetupError::new(what, text, why))
}

fn whole(what: &'static str, text: &str, min: u64, max: u64) -> Result<u64, SetupError> {
    let number = text.parse::<u64>().ok().filter(|n| (min..=max).contains(n));
    number.ok_or_else(|| SetupError::new(what, text, format!("it is a whole number from {min} to {max}")))
}

fn part(what: &'static str, text: &str) -> Result<f64, SetupError> {
    let number = text.parse::<f64>().ok().filter(|n| (0.0..=1.0).contains(n));
    number.ok_or_else(|| SetupError::new(what, text, "it is a number from 0 to 1"))
}

fn share(what: &'static str, text: &str) -> Result<Share, SetupError> {
    text.parse().map_err(|error| SetupError::new(what, text, format!("it is {error}")))
}

fn positive(what: &'static str, text: &str) -> Result<Time, SetupError> {
    let time = duration(what, text)?;
    if time == Time::ZERO { Err(SetupError::new(what, text, "it must be more than nothing")) } else { Ok(time) }
}

/// Parses bytes per second: a size, with or without `/s`.
fn rate(what: &'static str, text: &str) -> Result<u64, SetupError> {
    size_bytes(what, text.strip_suffix("/s").unwrap_or(text))
        .map_err(|_| SetupError::new(what, text, "a rate is like 34.41MB/s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_name() {
        let mut setup = Setup::default();
        for name in NAMES.split(", ") {
            let error = setup.set(name, "?").unwrap_err();
            assert_ne!(error.what, "setting", "{name}");
        }
        assert_eq!(setup, Setup::default(), "what is wrong changes nothing");
        assert!(setup.set("stripe", "4").unwrap_err().to_string().contains("stripes"));
    }

    #[test]
    fn words_are_read_and_written() {
        let mut setup = Setup::default();
        for (name, value) in [("recovery", "on-the-fly"), ("replication", "dispatch-aware"), ("load", "35%")] {
            setup.set(name, value).unwrap();
        }
        assert_eq!((setup.recovery, setup.replication), (Recovery::OnTheFly, Replication::DispatchAware));
        assert_eq!((setup.load, setup.recovery.to_string()), (Load::Offered(0.35), "on-the-fly".to_owned()));
        setup.set("source-rate", "6.31MB/s").unwrap();
        setup.set("alpha", "inf").unwrap();
        setup.set("error-after", "5min").unwrap();
        assert_eq!((setup.source_rate, setup.error_after), (6_310_000, Time::from_secs(300)));
        for (name, value) in
            [("stripes", "0"), ("load", "-1"), ("load", "0%"), ("reads-for", "2"), ("error-after", "0s")]
        {
            assert!(setup.set(name, value).is_err(), "{name}={value}");
        }
    }

    #[test]
    fn scratch_as_jaguar_s() {
        let mut setup = Setup::default();
        let jaguar = setup.scratch_bytes(23_412);
        assert!((jaguar / 600e12 - 1.0).abs() < 0.01, "{jaguar}");
        setup.set("scratch", "600TB").unwrap();
        assert_eq!(setup.scratch_bytes(1), 600e12);
        assert_eq!(setup.input_bytes(10, Some(1000)), 1000);
        assert_eq!(setup.input_bytes(10, None), 2_000_000_000);
    }
}
