//! `entrepot-lab tune`: searches `[cache]` or `[tiering]` for the load of a recording, and predicts the gain.

mod judge;
mod recording;
mod replay;
mod search;
mod tiers;

use crate::failure::Result;
use crate::shown::{self, Output};
use clap::{Args, ValueEnum};
use engine::volume::{Config, Io, Passthrough};
use judge::{Judgement, READS_MIN};
use node::control::Problem;
use recording::Recording;
use search::{Axis, Space};
use serde_json::json;
use std::path::{Path, PathBuf};
use tiers::Tiers;

/// Most requests of a recording: each is a file of its own in the replay without a cache.
const REQUESTS_MAX: usize = 8 << 20;

/// Search better settings of a volume for a recorded load, and predict their gain
///
/// The recording is one of `entrepot trace record`. It is replayed in the simulated volume with today's `[cache]` or
/// `[tiering]` and with others. The first half of the reads chooses, the second half judges. The answer is lines for volume.toml, or
/// the advice to keep today's setting if a gain is not certain (docs/guide/operate/tune.md).
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot-lab tune volume.toml --trace monday.csv
  entrepot-lab tune volume.toml --trace monday.csv --cache-max 8GiB --output json
  entrepot-lab tune volume.toml --trace monday.csv --section tiering --fast-size 1TB --slow-size 10TB")]
pub struct Tune {
    /// The volume's configuration, as it was during the recording.
    #[arg(value_name = "FILE")]
    volume: PathBuf,
    /// Recording of `entrepot trace record`.
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Section to search.
    #[arg(long, value_enum, default_value = "cache")]
    section: Section,
    /// Largest size of a cache.
    #[arg(long, default_value = "256MiB", value_name = "SIZE", value_parser = size)]
    cache_max: u64,
    /// Room on each target of the fast tier; without it, that of its file system.
    #[arg(long, value_name = "SIZE", value_parser = crate::command::sim::size)]
    fast_size: Option<u64>,
    /// Room on each target of the slow tier; without it, that of its file system.
    #[arg(long, value_name = "SIZE", value_parser = crate::command::sim::size)]
    slow_size: Option<u64>,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Section {
    /// `[cache]`: block cache and prefetching of the mount.
    Cache,
    /// `[tiering]`: moves between two tiers.
    Tiering,
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
    lines: String,
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
        let tuned = self.tuned(&recording, &config, &file, &text)?;
        match self.output {
            Output::Json => shown::json(&tuned.json())?,
            Output::Text => shown::text(&tuned.text())?,
        }
        Ok(0)
    }

    /// Replays the recording with the section's simulator.
    fn tuned(&self, recording: &Recording, config: &Config, file: &Path, text: &str) -> Result<Tuned> {
        let all = recording.requests.len();
        if self.section == Section::Tiering {
            let (tiers, segment) = (Tiers::of(config, self.fast_size, self.slow_size)?, config.layout.segment);
            let [first, whole] = [recording.split, all].map(|count| tiers::requests(recording, count, segment));
            let space = space("tiering", tiers.axes(segment), file, text);
            let requests = |count| if count == all { &whole } else { &first };
            return self.tune(recording, config, &space, |count, of| tiers.replay(of, requests(count)));
        }
        let devices = replay::devices(config)?;
        // A device has no state between runs, so each run has its own.
        let storage = || devices.storage().map_err(|error| Problem::wrong(error.to_string()));
        storage()?;
        self.tune(recording, config, &space("cache", replay::axes(self.cache_max), file, text), |count, of| {
            let replay = |storage| replay::replay(recording, count, of.cache.level.as_ref(), storage);
            storage().map(replay).unwrap_or_default()
        })
    }

    /// Searches on the first half of the reads, and judges on the second. `replayed` returns the response times of
    /// that many requests with a configuration.
    fn tune(
        &self,
        recording: &Recording,
        today: &Config,
        space: &Space,
        replayed: impl Fn(usize, &Config) -> Vec<f64>,
    ) -> Result<Tuned> {
        let (all, split) = (recording.requests.len(), recording.split);
        let reads = recording.requests.iter().filter(|request| !request.write).count();
        if reads < READS_MIN || all > REQUESTS_MAX {
            let cause = format!("the recording has {reads} reads on targets, and {all} requests");
            let limits = format!("record longer or shorter: from {READS_MIN} reads to {REQUESTS_MAX} requests");
            return Err(Problem::wrong(cause).so("nothing was tuned").try_this(limits).into());
        }
        let is_read = |n: &usize| !recording.requests[*n].write;
        let found = space.search(|config| {
            let took_ms = replayed(split, config);
            let (sum, count) =
                (0..split).filter(is_read).fold((0.0, 0), |(sum, count), n| (sum + took_ms[n], count + 1));
            sum / f64::from(count)
        });
        let refused = || Problem::failed(format!("no setting of `[{}]` fits this volume.toml", space.section));
        let (keys, tried) = found.ok_or_else(refused)?;
        let best = space.config(&keys).ok_or_else(refused)?;
        let (before, after) = (replayed(all, today), replayed(all, &best));
        let judged: Vec<judge::Read> = (split..all)
            .filter(is_read)
            .map(|n| (recording.requests[n].took_ns as f64 / 1e6, before[n], after[n]))
            .collect();
        let judgement = judge::judge(&judged, self.margin / 100.0, self.seed);
        Ok(Tuned { reads, writes: all - reads, tried, lines: space.lines(&keys), judgement })
    }
}

/// The values of a section to search. Other keys of `[tiering]` stay; those of `[cache]` belong to today's values.
fn space(section: &'static str, axes: Vec<Axis>, file: &Path, text: &str) -> Space {
    let volume: toml::Table = text.parse().unwrap_or_default();
    let mut kept = volume.get(section).and_then(toml::Value::as_table).cloned().unwrap_or_default();
    kept.retain(|key, _| section != "cache" && axes.iter().all(|(searched, ..)| *searched != key));
    Space { file: file.to_owned(), volume, section, kept, axes }
}

impl Tuned {
    fn json(&self) -> serde_json::Value {
        let lines = self.judgement.keep.is_none().then_some(&self.lines);
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
                text += &format!("# with these lines: {predicted_ms:.3} ms a read, {gain}\n{}", self.lines);
            }
            Some(why) => {
                text += &format!(
                    "keep what you have: {why}\nthe best of the others: {predicted_ms:.3} ms a read, {gain}\n"
                );
                self.lines.lines().for_each(|line| text += &format!("  {line}\n"));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests;
