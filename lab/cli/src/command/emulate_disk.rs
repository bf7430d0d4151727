//! `entrepot-lab emulate-disk`: a directory with the service times of a disk.

use crate::failure::{Failure, Result};
use crate::log;
use crate::served;
use crate::shown::{self, Output};
use clap::Args;
use emulate::figures::Figures;
use emulate::{EmulatedDisk, Options, StartError, measure};
use node::control::Problem;
use serde_json::json;
use sim::setup::{Setup, size_bytes};
use std::path::PathBuf;
use std::sync::Arc;

/// Serve a directory with the service times of a disk
///
/// MOUNTPOINT shows everything in BACKING. Reads and writes of bytes take as long as on the emulated device, by its
/// model, in real time. It needs no device, and root only for a mount that others may use too. MOUNTPOINT/.stats shows
/// what the device did, as JSON; the same is printed at the end. Ends with Ctrl-C or by unmounting.
#[derive(Debug, Args)]
#[command(after_help = "\
MODELS:
  cheetah9lp, atlas10k      mechanical disks, validated against measurements (`entrepot-lab sim disk validate`)
  ssd-sata, ssd-nvme, ssd   solid-state drives of their class; `ssd` is ssd-sata
  plain                     one request at a time: --latency, then its bytes at --read-bandwidth or --write-bandwidth

EXAMPLES:
  entrepot-lab emulate-disk /srv/data /mnt/disk
  entrepot-lab emulate-disk --model cheetah9lp --disks 6 --raid 5 --scheduler anticipatory /srv/data /mnt/array
  entrepot-lab emulate-disk --model plain --read-bandwidth 71.2MB --write-bandwidth 60MB --latency 1ms /srv/fast /mnt/fast --detach
  entrepot-lab emulate-disk --speedup 20 /srv/data /mnt/disk           the same in a twentieth of the time
  entrepot-lab emulate-disk --check --seed 1 /srv/empty /mnt/disk      measure, and compare with the simulator
  cat /mnt/disk/.stats; fusermount3 -u /mnt/disk")]
pub struct EmulateDisk {
    /// The directory with the files; no other program may change it at the same time.
    backing: PathBuf,
    /// Mount point: an existing directory, not in BACKING nor around it.
    mountpoint: PathBuf,
    /// Model of the device.
    #[arg(long, default_value = "cheetah9lp")]
    model: String,
    /// Number of devices.
    #[arg(long, default_value_t = 1, value_name = "N")]
    disks: u32,
    /// How several are joined: 0 or 5.
    #[arg(long, value_name = "LEVEL")]
    raid: Option<u8>,
    /// Stripe unit of an array.
    #[arg(long, default_value = "64KiB", value_name = "SIZE")]
    stripe_unit: String,
    /// Scheduler of requests: noop, deadline or anticipatory.
    #[arg(long, default_value = "deadline")]
    scheduler: String,
    /// Requests that the scheduler chooses among; others wait in front of it.
    #[arg(long, default_value_t = 128, value_name = "N")]
    queue_depth: usize,
    /// Speed of the device as a multiple of real time.
    #[arg(long, default_value_t = 1.0, value_name = "N")]
    speedup: f64,
    /// Size of the device, if less than the model has.
    #[arg(long, value_name = "SIZE")]
    capacity: Option<String>,
    /// Bus of a mechanical disk in MB/s, if not that of its measurement (4.9).
    #[arg(long, value_name = "MB/S")]
    disk_bus: Option<f64>,
    /// Bytes per second that `plain` reads; without it, no limit.
    #[arg(long, value_name = "RATE")]
    read_bandwidth: Option<String>,
    /// Bytes per second that `plain` writes; without it, no limit.
    #[arg(long, value_name = "RATE")]
    write_bandwidth: Option<String>,
    /// Time that `plain` takes for a request beside its bytes; without it, none.
    #[arg(long, value_name = "TIME")]
    latency: Option<String>,
    /// Minimum reservation of a growing file on the device, so that files that grow side by side stay in one piece
    /// each.
    #[arg(long, default_value = "8MiB", value_name = "SIZE")]
    extent: String,
    /// Let the kernel's page cache hide the device.
    #[arg(long)]
    page_cache: bool,
    /// Do not pass `fsync` on to BACKING: quicker, and lost with the machine.
    #[arg(long)]
    no_sync: bool,
    /// Measure response times on a file of its own, compare with the simulator, and end.
    #[arg(long, conflicts_with_all = ["detach", "page_cache"])]
    check: bool,
    /// Requests of each kind in a check.
    #[arg(long, default_value_t = 300, value_name = "N", requires = "check")]
    requests: u64,
    /// Seed of a check.
    #[arg(long, default_value_t = 1, requires = "check")]
    seed: u64,
    /// How figures are written.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
    /// Go to the background when it is mounted.
    #[arg(long)]
    detach: bool,
    /// Start as the process in the background: its first line of output is the result of the start.
    #[arg(long, hide = true)]
    in_background: bool,
}

impl EmulateDisk {
    pub fn run(self) -> Result<u8> {
        let options = self.options()?;
        if self.detach {
            return served::in_the_background(&[&self.backing, &self.mountpoint], HELP);
        }
        if !self.in_background {
            log::to_stderr()?;
        }
        // Set before the threads are started, which inherit it. Only root may set it; without it answers are late on a
        // busy machine.
        if let Err(error) = rustix::process::setpriority_process(None, PRIORITY) {
            tracing::debug!(%error, "no precedence over other processes");
        }
        let started = EmulatedDisk::start(&self.backing, &self.mountpoint, options);
        let started = started.map_err(|error| problem(&error));
        if self.check {
            return self.check(&started?);
        }
        let disk = Arc::new(served::announce(started, EmulatedDisk::path, self.in_background)?);
        served::end_on_signal(&disk, EmulatedDisk::unmount, EmulatedDisk::detach)?;
        let figures = disk.wait()?;
        if !self.in_background {
            self.show(&figures)?;
        }
        Ok(0)
    }

    fn show(&self, figures: &Figures) -> Result<()> {
        match self.output {
            Output::Text => shown::text(&figures.text())?,
            Output::Json => shown::json(&serde_json::to_value(figures).map_err(std::io::Error::from)?)?,
        }
        Ok(())
    }

    fn check(&self, disk: &EmulatedDisk) -> Result<u8> {
        let phases = measure::against_simulator(disk, self.requests, self.seed).map_err(|error| problem(&error));
        disk.unmount().or_else(|_| disk.detach())?;
        let figures = disk.wait()?;
        let phases = phases?;
        let apart: u64 = phases.iter().map(|phase| phase.apart).sum();
        if self.output == Output::Json {
            shown::json(&json!({"seed": self.seed, "phases": phases, "figures": figures}))?;
            return Ok(u8::from(apart > 0));
        }
        let mut text = format!(
            "{:<36} {:>8} {:>13} {:>13} {:>8} {:>13} {:>13}\n",
            "mean response", "requests", "simulated", "measured", "error", "least late", "median late"
        );
        for phase in &phases {
            text += &format!(
                "{:<36} {:>8} {:>10.3} ms {:>10.3} ms {:>+6.1} % {:>10.3} ms {:>10.3} ms\n",
                phase.what,
                phase.requests,
                phase.simulated_ms,
                phase.measured_ms,
                phase.error * 100.0,
                phase.late_least_ms,
                phase.late_median_ms
            );
        }
        text += &match apart {
            0 => "the emulated device was done with every request when the simulated one was\n".to_owned(),
            _ => format!(
                "the emulated device was done with {apart} requests at another time than the simulated one: one of them is wrong\n"
            ),
        };
        shown::text(&text)?;
        self.show(&figures)?;
        Ok(0)
    }

    /// Converts the options for the emulator. Wrong ones are refused before any change.
    fn options(&self) -> Result<Options> {
        let size = |what, text: &str| size_bytes(what, text).map_err(|error| problem(&StartError::Setup(error)));
        let plain = [
            ("read", self.read_bandwidth.as_ref()),
            ("write", self.write_bandwidth.as_ref()),
            ("latency", self.latency.as_ref()),
        ];
        let said: Vec<_> = plain.into_iter().filter_map(|(key, value)| Some(format!("{key}={}", value?))).collect();
        let disk = match self.model.as_str() {
            "ssd" => "ssd-sata".into(),
            "plain" => format!("plain:{}", said.join(",")),
            model => model.to_owned(),
        };
        if !said.is_empty() && self.model != "plain" {
            return Err(Problem::wrong(format!("{} has bandwidth and latency of its own", self.model))
                .so("nothing was mounted")
                .try_this("leave --read-bandwidth, --write-bandwidth and --latency out, or give --model plain")
                .into());
        }
        let setup = Setup {
            disk,
            disks: self.disks,
            raid: self.raid,
            stripe_unit: self.stripe_unit.clone(),
            disk_bus_mb_s: self.disk_bus,
            scheduler: self.scheduler.clone(),
            ..Setup::default()
        };
        setup.storage().map_err(|error| problem(&StartError::Setup(error)))?;
        Ok(Options {
            setup,
            capacity_bytes: self.capacity.as_deref().map(|text| size("capacity", text)).transpose()?,
            queue_depth: self.queue_depth,
            speedup: self.speedup,
            page_cache: self.page_cache,
            sync: !self.no_sync,
            extent_bytes: size("extent", &self.extent)?,
        })
    }
}

/// Nice value of the device, ahead of its waiting clients.
const PRIORITY: i32 = -20;
const HELP: &str = "see `entrepot-lab emulate-disk --help`";

fn problem(error: &StartError) -> Failure {
    let message = error.to_string();
    let (cause, so, next) = served::parts(&message, HELP);
    let wrong = !matches!(error, StartError::Refused { .. });
    let problem = if wrong { Problem::wrong(cause) } else { Problem::failed(cause) };
    problem.so(so).try_this(next).into()
}
