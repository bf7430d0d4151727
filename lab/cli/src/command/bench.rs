//! `entrepot-lab bench`: measures the devices below a volume.

use crate::failure::{Failure, Result};
use crate::shown::{self, Output};
use clap::{Args, Subcommand};
use emulate::scratch::{self, Options, Pair, Report};
use engine::volume::{Config, set_device};
use node::control::Problem;
use policy::units;
use serde_json::json;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// Measure the devices below a volume
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot-lab bench device /mnt/disk0
  entrepot-lab bench device fast0 fast1 --dry-run
  entrepot-lab bench device --volume scratch/volume.toml")]
pub struct Bench {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Measure how fast devices find, read and write, for the model of stripe widths
    ///
    /// Writes a scratch file without a name, reads it at random offsets past the page cache, one at a time and many at
    /// once, and removes it. The results are written as `device = "..."` into the targets' blocks of volume.toml; the
    /// daemon reads it at its next start. Directories that are no targets are only measured. The devices should have no
    /// other load during the measurement.
    #[command(after_help = "\
EXAMPLES:
  entrepot-lab bench device /mnt/disk0                              any directory; nothing is written but the scratch file
  entrepot-lab bench device --volume scratch/volume.toml            all targets of the volume, one after the other
  entrepot-lab bench device --volume scratch/volume.toml fast0 --dry-run
  entrepot-lab bench device --pair /mnt/nvme /mnt/lustre            speeds of a burst buffer: `[burst]`, and `sim burst`")]
    Device(Device),
}

#[derive(Debug, Args)]
struct Device {
    /// Targets of the volume, or directories; without any, all targets.
    #[arg(value_name = "TARGET|DIR")]
    what: Vec<String>,
    /// The file of the volume whose targets are measured.
    #[arg(long, value_name = "VOLUME.TOML", env = "ENTREPOT_VOLUME", hide_env_values = true)]
    volume: Option<PathBuf>,
    /// Size of the scratch file: larger than the device's own cache, if that is to count for nothing.
    #[arg(long, default_value = "256MiB")]
    size: String,
    /// Approximate time limit for one device, once the file is written.
    #[arg(long, default_value = "10s", value_name = "TIME")]
    time: String,
    /// Seed of the offsets.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Instead: a fast and a slow one as the two sides of a burst buffer. Writing alone and beside copying from the one
    /// to the other, and copying alone; prints the lines for `[burst]` in volume.toml and the options for `entrepot-lab
    /// sim burst`.
    #[arg(long)]
    pair: bool,
    /// Leave volume.toml as it is.
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// How to write it.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

/// A directory to measure: its name in the table, its path, and whether it is a target.
struct Subject {
    name: String,
    dir: PathBuf,
    target: bool,
}

impl Bench {
    pub fn run(self) -> Result<u8> {
        match self.verb {
            Verb::Device(args) => device(&args),
        }
    }
}

/// Loads the volume's file that the options name.
fn config(args: &Device) -> Result<Config> {
    let Some(file) = &args.volume else {
        let cause = "targets are measured, and no volume is named";
        return Err(Problem::wrong(cause).try_this("name its file with --volume, or give a directory").into());
    };
    Ok(Config::load(file)?)
}

fn subjects(args: &Device) -> Result<(Vec<Subject>, Option<Config>)> {
    let is_dir = |what: &String| what.contains('/') || PathBuf::from(what).is_dir();
    if !args.what.is_empty() && args.what.iter().all(is_dir) {
        let subject = |dir: &String| Subject { name: dir.clone(), dir: dir.into(), target: false };
        return Ok((args.what.iter().map(subject).collect(), None));
    }
    let config = config(args)?;
    let mut all = Vec::new();
    for target in &config.targets {
        let named = args.what.contains(&target.name);
        match target.directory() {
            Some(dir) if named || args.what.is_empty() => {
                all.push(Subject { name: target.name.clone(), dir: dir.into(), target: true });
            }
            None if named => {
                return Err(Problem::wrong(format!("{} is no directory: it lies on file servers", target.name))
                    .so("nothing was measured")
                    .try_this("mount what they export, or `entrepot connect`, and measure that directory")
                    .into());
            }
            _ => {}
        }
    }
    for what in &args.what {
        let known = config.targets.iter().any(|target| target.name == *what);
        if !known && is_dir(what) {
            all.push(Subject { name: what.clone(), dir: what.into(), target: false });
        } else if !known {
            let names: Vec<_> = config.targets.iter().map(|target| target.name.as_str()).collect();
            return Err(Problem::not_found(format!("{what} is neither a target nor a directory"))
                .try_this(format!("targets are {}", names.join(", ")))
                .into());
        }
    }
    Ok((all, Some(config)))
}

fn device(args: &Device) -> Result<u8> {
    let bytes = units::bytes(&args.size).filter(|bytes| (16 << 20..=1 << 40).contains(bytes));
    let bytes = bytes.ok_or_else(|| Problem::wrong("--size is from 16MiB to 1TiB"))?;
    let time = units::span_ns(&args.time).map(Duration::from_nanos).filter(|time| *time >= Duration::from_millis(100));
    let time = time.ok_or_else(|| Problem::wrong("--time is at least 100ms, such as 10s"))?;
    let (subjects, config) = subjects(args)?;
    if args.pair {
        return pair(args, &subjects, Options { bytes, time, seed: args.seed });
    }
    let mut reports = Vec::new();
    for subject in &subjects {
        let options = Options { bytes, time, seed: args.seed };
        let report = scratch::device(&subject.dir, options).map_err(|error| {
            Failure::of_io(&format!("{} cannot be measured", subject.dir.display()), &error)
                .so("nothing was written to volume.toml")
                .try_this("check the space for the scratch file (--size) and the permissions of the directory")
        })?;
        if args.output == Output::Text {
            shown::text(&text(subject, &report))?;
        }
        reports.push(report);
    }
    let mut written = 0;
    if let Some(config) = config.filter(|_| !args.dry_run) {
        for (subject, report) in subjects.iter().zip(&reports).filter(|(subject, _)| subject.target) {
            set_device(&config.file, &subject.name, &report.measured)
                .map_err(|problems| Problem::failed(problems.to_string()))?;
            written += 1;
        }
        if args.output == Output::Text && written > 0 {
            let file = config.file.display();
            shown::text(&format!(
                "written to {written} targets in {file}; a daemon that is up reads it at its next start\n"
            ))?;
        }
    }
    if args.output == Output::Json {
        let all: Vec<_> = subjects.iter().zip(&reports).map(|(subject, report)| as_json(subject, report)).collect();
        shown::json(&json!({ "devices": all, "written": written }))?;
    }
    Ok(0)
}

fn text(subject: &Subject, report: &Report) -> String {
    let ms = |(mean, spread): (f64, f64)| format!("{:.3} ms (standard deviation {:.3})", mean * 1e3, spread * 1e3);
    let mut text = format!("{}\n", subject.name);
    let _ = writeln!(text, "  read 4 KiB    {}", ms(report.small_read_s));
    let _ = writeln!(text, "  read 1 MiB    {}", ms(report.large_read_s));
    let _ = writeln!(text, "  write 1 MiB   {}", ms(report.large_write_s));
    let rates: Vec<_> = report.parallel.iter().map(|(n, rate)| format!("{n}: {rate:.0}/s")).collect();
    let _ = writeln!(text, "  4 KiB reads, so many at once   {}", rates.join(", "));
    if !report.direct {
        text += "  note: this file system has no O_DIRECT; its cache may have answered some of the reads\n";
    }
    let _ = writeln!(text, "  device = \"{}\"", report.measured);
    text
}

fn as_json(subject: &Subject, report: &Report) -> serde_json::Value {
    json!({
        "name": subject.name,
        "path": subject.dir,
        "device": report.measured.to_string(),
        "direct": report.direct,
        "read_4k_s": report.small_read_s.0,
        "read_1m_s": report.large_read_s.0,
        "write_1m_s": report.large_write_s.0,
        "parallel": report.parallel,
    })
}

/// Measures two devices as the sides of a burst buffer.
fn pair(args: &Device, subjects: &[Subject], options: Options) -> Result<u8> {
    let named = |what: &String| subjects.iter().find(|subject| subject.name == *what);
    let (Some(fast), Some(slow)) = (args.what.first().and_then(named), args.what.get(1).and_then(named)) else {
        return Err(Problem::wrong("--pair takes a fast and a slow one")
            .try_this("give two targets or directories")
            .into());
    };
    if args.what.len() > 2 {
        return Err(Problem::wrong("--pair takes two, no more").into());
    }
    let found = scratch::pair(&fast.dir, &slow.dir, options).map_err(|error| {
        Problem::failed(format!("{} and {} cannot be measured: {error}", fast.dir.display(), slow.dir.display()))
    })?;
    let Pair { write_max, write_min, demote_max, demote_min, demote_idle, direct } = found;
    if matches!(args.output, Output::Json) {
        shown::json(&json!({"fast": fast.name, "slow": slow.name, "write_max": write_max, "write_min": write_min,
            "demote_max": demote_max, "demote_min": demote_min, "demote_idle": demote_idle, "direct": direct}))?;
        return Ok(0);
    }
    let mut text = format!("{} with {} below it\n\nfor `[burst]` in volume.toml:\n", fast.name, slow.name);
    let lines = [
        ("write_max", write_max),
        ("write_min", write_min),
        ("demote_max", demote_max),
        ("demote_min", demote_min),
        ("demote_idle", demote_idle),
    ];
    for (key, rate) in lines {
        let _ = writeln!(text, "  {key} = \"{:.1}MB\"", rate / 1e6);
    }
    let gb = |rate: f64| format!("{:.4}", rate / 1e9);
    let _ = writeln!(
        text,
        "for the simulator:\n  entrepot-lab sim burst --write {}-{} --demote {}-{} --demote-idle {}",
        gb(write_max),
        gb(write_min),
        gb(demote_max),
        gb(demote_min),
        gb(demote_idle)
    );
    if !direct {
        text += "The page cache could not be bypassed on both; written data were synced instead.\n";
    }
    shown::text(&text)?;
    Ok(0)
}
