//! `entrepot-lab sim disk`: the disk models by themselves.

use super::said;
use crate::failure::{Failure, Result};
use crate::shown;
use clap::{Args, Subcommand};
use node::control::Problem;
use sim::disk::{Model, devices, validate};
use std::path::{Path, PathBuf};

/// Hold the disk models against measured disks
#[derive(Debug, Args)]
#[command(after_help = "EXAMPLES:\n  entrepot-lab sim disk validate measurements/\n  entrepot-lab sim disk models")]
pub struct Disk {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Compare simulated with measured service times
    ///
    /// Prints mean error and demerit figure (the root mean square distance between the two distributions of service
    /// times) beside the figure that DiskSim's authors report for the same drive.
    #[command(after_help = "\
INPUT:
  A directory with measurements as published with DiskSim, one per drive, called after the model
  (cheetah9lp.trace, atlas10k.trace; also compressed: .gz, .zst; upper case is fine), or one such file.
  A line is: R|W Hit|Miss first-sector sectors service-time-us think-time-us

EXAMPLES:
  entrepot-lab sim disk validate disksim-validation/disks
  entrepot-lab sim disk validate my-disk.trace.gz --model cheetah9lp")]
    Validate {
        /// The directory or file.
        path: PathBuf,
        /// The model, or a file NAME.toml; without it, the one that the file is called after.
        #[arg(long)]
        model: Option<String>,
    },
    /// List the models
    #[command(after_help = "EXAMPLES:\n  entrepot-lab sim disk models")]
    Models,
}

impl Disk {
    pub fn run(self) -> Result<u8> {
        match self.verb {
            Verb::Validate { path, model } => run_validate(&path, model.as_deref()),
            Verb::Models => {
                for (name, file) in devices::built_in() {
                    let gb = |sectors: u64| sectors as f64 * 512.0 / 1e9;
                    let disk = file.disk.as_ref().map(|of| {
                        let speed = of.revolutions_per_minute;
                        format!("mechanical disk, {:.1} GB, {speed} revolutions per minute", gb(of.sectors))
                    });
                    let ssd = file
                        .ssd
                        .as_ref()
                        .map(|of| format!("solid-state drive, {:.0} GB, {} channels", gb(of.sectors), of.channels));
                    shown::text(&format!("{name:<12} {}\n", disk.or(ssd).unwrap_or_default()))?;
                }
                Ok(0)
            }
        }
    }
}

/// The mechanical disk of this name, or of a file.
pub(super) fn mechanical(name: &str) -> Result<&'static Model> {
    let found = devices::find(name).map_err(|why| Problem::wrong(format!("{name}: {why}")))?;
    let names: Vec<_> = devices::built_in().filter(|(_, file)| file.disk.is_some()).map(|(name, _)| name).collect();
    let next = format!("choose {}, or a file NAME.toml with a table [disk]", names.join(", "));
    let problem = || Problem::wrong(format!("`{name}` is no mechanical disk")).try_this(next);
    Ok(found.and_then(|file| file.disk.as_ref()).ok_or_else(problem)?)
}

fn run_validate(path: &Path, model: Option<&str>) -> Result<u8> {
    let model = model.map(mechanical).transpose()?;
    let unreadable = |path: &Path, error: std::io::Error| Failure::of_io(&path.display().to_string(), &error);
    let found = validate::find(path, model).map_err(|error| unreadable(path, error))?;
    if found.is_empty() {
        let problem = Problem::wrong(format!("{} holds no measurement of a disk that is modelled", path.display()));
        return Err(problem
            .try_this("name the file and its model: `entrepot-lab sim disk validate FILE --model cheetah9lp`")
            .into());
    }
    for (at, (model, file)) in found.iter().enumerate() {
        let text = validate::read(file).map_err(|error| unreadable(file, error))?;
        let measured = validate::parse(&text).map_err(|error| said(&error.to_string(), true))?;
        let gap = if at > 0 { "\n" } else { "" };
        let outcome = validate::validate(model, validate::called_after(file), &measured);
        shown::text(&format!("{gap}measurement         {}\n{outcome}\n", file.display()))?;
    }
    Ok(0)
}
