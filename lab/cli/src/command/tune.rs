//! `entrepot-lab tune`: searches `[cache]` for the load of a recording, and predicts the gain.

mod judge;
mod recording;
mod replay;
mod search;

use crate::failure::Result;
use crate::shown::{self, Output};
use clap::Args;
use engine::volume::{Config, Io, Passthrough};
use judge::{Judgement, READS_MIN};
use node::control::Problem;
use policy::cache::LevelConfig;
use recording::Recording;
use search::Keys;
use serde_json::json;
use sim::setup::Setup;
use std::path::PathBuf;

/// Most requests of a recording: each is a file of its own in the replay without a cache.
const REQUESTS_MAX: usize = 8 << 20;

/// Search better settings of a volume for a recorded load, and predict their gain
///
/// The recording is one of `entrepot trace record`. It is replayed in the simulated volume with today's `[cache]` and
/// with others. The first half of the reads chooses, the second half judges. The answer is lines for volume.toml, or
/// the advice to keep today's setting if a gain is not certain (docs/guide/operate/tune.md).
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot-lab tune volume.toml --trace monday.csv
  entrepot-lab tune volume.toml --trace monday.csv --cache-max 8GiB --output json")]
pub struct Tune {
    /// The volume's configuration, as it was during the recording.
    #[arg(value_name = "FILE")]
    volume: PathBuf,
    /// Recording of `entrepot trace record`.
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Largest size of a cache.
    #[arg(long, default_value = "256MiB", value_name = "SIZE", value_parser = size)]
    cache_max: u64,
    /// Least gain that justifies a change, in percent.
    #[arg(long, default_value_t = 5.0, value_name = "PERCENT")]
    margin: f64,
    /// Seed of the interval.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How to write it.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

fn size(text: &str) -> std::result::Result<u64, &'static str> {
    let size = policy::units::bytes(text).filter(|size| (1 << 20..=1 << 42).contains(size));
    size.ok_or("give a size from 1MiB to 4TiB, such as `256MiB`")
}

/// Result of a tuning.
struct Tuned {
    reads: usize,
    writes: usize,
    /// Settings that were simulated.
    tried: usize,
    keys: Keys,
    judgement: Judgement,
}

impl Tune {
    pub fn run(self) -> Result<u8> {
        let text = std::fs::read_to_string(&self.volume).map_err(|error| {
            Problem::wrong(format!("{} cannot be read: {error}", self.volume.display()))
                .so("nothing was tuned")
                .try_this("name the volume.toml of the recorded volume")
        })?;
        let file = std::path::absolute(&self.volume)?;
        let config = Config::parse(&file, &text)?;
        let mount = &config.mount;
        // A volume with a cache passes no file through, and its reads bypass the page cache unless that is requested.
        let sees_all = match config.cache.level {
            Some(_) => mount.io != Io::Cached,
            None => mount.io == Io::Direct && mount.passthrough == Passthrough::Off,
        };
        if !sees_all {
            return Err(Problem::wrong("the kernel answers reads of this volume by itself")
                .so("nothing was tuned: the recording lacks these reads")
                .try_this(
                    "set `io = \"direct\"` and `passthrough = \"off\"` in `[mount]`, restart it, and record again",
                )
                .into());
        }
        let recording = Recording::open(&self.trace, config.layout.inline_max)?;
        let devices = replay::devices(&config)?;
        let tuned = self.tune(&recording, &devices, config.cache.level.as_ref(), |keys| {
            keys.level(&file, &text.parse().unwrap_or_default())
        })?;
        match self.output {
            Output::Json => shown::json(&tuned.json())?,
            Output::Text => shown::text(&tuned.text())?,
        }
        Ok(0)
    }

    /// Searches on the first half of the reads, and judges on the second.
    fn tune(
        &self,
        recording: &Recording,
        devices: &Setup,
        today: Option<&LevelConfig>,
        level: impl Fn(&Keys) -> Option<LevelConfig>,
    ) -> Result<Tuned> {
        let (all, split) = (recording.requests.len(), recording.split);
        let reads = recording.requests.iter().filter(|request| !request.write).count();
        if reads < READS_MIN || all > REQUESTS_MAX {
            let cause = format!("the recording has {reads} reads on targets, and {all} requests");
            let limits = format!("record longer or shorter: from {READS_MIN} reads to {REQUESTS_MAX} requests");
            return Err(Problem::wrong(cause).so("nothing was tuned").try_this(limits).into());
        }
        // A device has no state between runs, so each run has its own.
        let storage = || devices.storage().map_err(|error| Problem::wrong(error.to_string()));
        storage()?;
        let replayed = |count, level: Option<&LevelConfig>| {
            storage().map(|storage| replay::replay(recording, count, level, storage)).unwrap_or_default()
        };
        let is_read = |n: &usize| !recording.requests[*n].write;
        let found = search::search(self.cache_max, |keys| {
            let took_ms = replayed(split, Some(&level(keys)?));
            let (sum, count) =
                (0..split).filter(is_read).fold((0.0, 0), |(sum, count), n| (sum + took_ms[n], count + 1));
            Some(sum / f64::from(count))
        });
        let (keys, tried) = found.ok_or_else(|| Problem::failed("no setting of `[cache]` fits this volume.toml"))?;
        let (before, after) = (replayed(all, today), replayed(all, level(&keys).as_ref()));
        let judged: Vec<judge::Read> = (split..all)
            .filter(is_read)
            .map(|n| (recording.requests[n].took_ns as f64 / 1e6, before[n], after[n]))
            .collect();
        let judgement = judge::judge(&judged, self.margin / 100.0, self.seed);
        Ok(Tuned { reads, writes: all - reads, tried, keys, judgement })
    }
}

impl Tuned {
    fn json(&self) -> serde_json::Value {
        let lines = self.judgement.keep.is_none().then(|| self.keys.lines());
        let Tuned { reads, writes, tried, .. } = self;
        json!({ "reads": reads, "writes": writes, "tried": tried, "lines": lines, "judgement": self.judgement })
    }

    fn text(&self) -> String {
        let Judgement { recorded_ms, simulated_ms, predicted_ms, gain, gain_low, gain_high, keep } = &self.judgement;
        let percent = |share: &f64| format!("{:.1}", share * 100.0);
        let mut text = format!(
            "# {} reads, {} writes; the first half of the reads chose among {} settings, the second half judges\n\
             # today: {recorded_ms:.3} ms a read, simulated {simulated_ms:.3} ms\n",
            self.reads, self.writes, self.tried
        );
        let gain = format!("{} % less (95 %: {} to {} %)", percent(gain), percent(gain_low), percent(gain_high));
        match keep {
            None => {
                text += &format!("# with these lines: {predicted_ms:.3} ms a read, {gain}\n{}", self.keys.lines());
            }
            Some(why) => {
                text += &format!(
                    "keep what you have: {why}\nthe best of the others: {predicted_ms:.3} ms a read, {gain}\n"
                );
                self.keys.lines().lines().for_each(|line| text += &format!("  {line}\n"));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests;
