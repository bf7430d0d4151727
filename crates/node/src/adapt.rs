//! The live loop: feeds the events of applications and devices to [`policy::volume`] and carries out its actions.
//!
//! ```text
//!   read, write ──> recorder (bounded) ──.                      other nodes: reports ──> the one that leads
//!   devices: idle, space, times served ──┼─> step ──> Volume ──> actions ──> lanes ──> carriers ──> mover
//!   checkpoints, control, jobs ──────────┴─> tell ──>   ^                                 |
//!                                                       '───── LaidOut, Done, Prepared ───'
//! ```
//! [`Volume`] decides, the same machine that `entrepot-lab sim volume` drives. Threads of applications record accesses
//! and request permission for writes of checkpoints; one thread steps the machine, carriers do its actions. The
//! machine's lock is held for one event, or a batch of recorded ones, and until the resulting actions are queued in
//! their lanes.
//!
//! An access is a request that reaches the daemon; reads served from the kernel's page cache are not counted.
//!
//! The state store records which mirrors are forks or replicas, the speeds of devices, and the checkpoints.
//! Temperatures and loads are learned again after a restart, and a walk through the tree finds what lies on the fast
//! tier.

pub mod burst;
mod carry;
#[cfg(any(test, feature = "doubles"))]
mod doubles;
mod driver;
mod forks;
mod gauges;
mod history;
mod jobs;
mod lies;
mod log;
mod placing;
mod quiet;
mod record;
mod records;
mod replicas;
mod report;
mod reports;
mod run;
mod segments;
mod speed;
mod stripes;
mod tiers;
mod yields;

pub use driver::Clock;
pub use record::Recorder;
pub use replicas::{FileUse, JOB_VARIABLES, Replicas, Uses};
pub use stripes::{Devices, striping};

use crate::Result;
use burst::Burst;
use driver::Driver;
use engine::events::{self, Kind};
use engine::file::{Adviser, FileTable};
use engine::mover::Mover;
use engine::stats::{Metric, Stats};
use engine::volume;
use history::History;
use meta::state::State;
use object::workers::Pool;
use parking_lot::Mutex;
use policy::Time;
use policy::stripe::striper::Striper;
use policy::volume::{self as machine, Event, ReplicasConfig, StripesConfig, Volume};
use reports::Reports;
use std::sync::Arc;
use tiers::Tiers;

/// Configuration of the mechanisms from `volume.toml`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `[tiering]`.
    pub tiering: volume::Tiering,
    /// `[stripes]`; `None`: no requests are counted.
    pub stripes: Option<volume::Stripes>,
    /// `[replication]`, before the size of the system is known.
    pub replicas: ReplicasConfig,
    /// The devices that files are striped over.
    pub devices: stripes::Devices,
    /// Bytes of a segment, from `[layout] segment`.
    pub segment_bytes: u64,
    /// Maximum of concurrent changes of one mechanism, from `[mover] concurrent`.
    pub concurrent: usize,
}

/// The parts of a volume that the loop works on.
pub struct Parts {
    /// Table of all files.
    pub files: Arc<FileTable>,
    /// Makes the changes.
    pub mover: Arc<Mover>,
    /// State store: records forks and the speeds of devices.
    pub state: Arc<dyn State>,
    /// Counters of the daemon.
    pub stats: Arc<Stats>,
    /// The opened volume, if it has a burst buffer.
    pub burst: Option<Arc<volume::Volume>>,
}

/// The mechanisms that adapt a volume to its load.
pub struct Adapt {
    settings: Settings,
    recorder: Arc<Recorder>,
    reports: Reports,
    files: Arc<FileTable>,
    mover: Arc<Mover>,
    state: Arc<dyn State>,
    stats: Arc<Stats>,
    driver: Arc<Driver>,
    burst: Option<Arc<Burst>>,
    replicas: Arc<Replicas>,
    tiers: Tiers,
    served: Mutex<stripes::Sampled>,
    history: History,
    /// Threads of the loop and of the first walk.
    threads: Pool,
    /// Time of the last step with recorded events.
    stirred: Mutex<Time>,
}

impl Adapt {
    /// Creates the mechanisms over these parts, with the striper that [`striping`] set up. They are idle until
    /// `Adapt::start` or [`Adapt::step`] is called; tiers begin with [`Adapt::set_costs`].
    ///
    /// # Errors
    /// The state store cannot read the records of forks, replicas or checkpoints.
    pub fn new(settings: Settings, stripes: Option<StripesConfig>, parts: Parts, clock: Clock) -> Result<Arc<Adapt>> {
        let Parts { files, mover, state, stats, burst } = parts;
        let burst = burst.map(|volume| (burst::capacity_bytes(&volume), volume));
        let config = machine::Config {
            burst: burst.as_ref().map(|(capacity_bytes, volume)| volume.config().burst.machine(*capacity_bytes)),
            tiers: None,
            stripes,
            replicas: Some(settings.replicas.clone()),
            changes_max: settings.concurrent,
            repairs: false,
        };
        let forks = forks::Forks::open(state.clone())?;
        let targets = files.pool().targets.clone();
        let driver = Driver::new(Volume::new(config, clock()), clock);
        let recorder = Recorder::new(&settings, driver.clone(), forks, targets);
        let open = |(capacity_bytes, volume)| Burst::open(volume, capacity_bytes, driver.clone());
        Ok(Arc::new(Adapt {
            burst: burst.map(open).transpose()?,
            replicas: Replicas::open(state.clone(), driver.clone())?,
            stirred: Mutex::new(driver.now()),
            driver,
            tiers: Tiers::default(),
            served: Mutex::default(),
            history: History::default(),
            threads: Pool::new("adapt", 1),
            settings,
            recorder,
            reports: Reports::default(),
            files,
            mover,
            state,
            stats,
        }))
    }

    /// The burst buffer, if there is one.
    pub fn burst(&self) -> Option<&Arc<Burst>> {
        self.burst.as_ref()
    }

    /// The replicas of jobs' input.
    pub fn replicas(&self) -> &Arc<Replicas> {
        &self.replicas
    }

    /// Observers of applications' accesses, for `engine::file::Pool::advisers`.
    pub fn advisers(&self) -> Vec<Arc<dyn Adviser>> {
        let burst = self.burst.iter().map(|burst| burst.clone() as Arc<dyn Adviser>);
        burst.chain([self.recorder.clone() as Arc<dyn Adviser>]).collect()
    }

    /// Records an event for the operator.
    fn news(&self, kind: Kind, text: String) {
        self.files.pool().events.record(events::Event::new(kind, text));
    }

    /// Whether segments are moved between tiers.
    pub fn has_tiers(&self) -> bool {
        self.settings.tiering.policy != volume::TieringPolicy::Off
    }

    /// Pauses or resumes moves between tiers; running moves continue to their end.
    pub fn pause(&self, paused: bool) {
        self.tiers.pause(paused);
        self.driver.tell(Event::Tiers(policy::tier::machine::Event::Paused(paused)));
    }

    /// Runs `ask` on the striper; `None` without one.
    fn striper<T>(&self, ask: impl FnOnce(&mut Striper) -> T) -> Option<T> {
        self.driver.machine().striper().map(ask)
    }

    /// Raises a metric to a number that a machine counts. The caller excludes others that raise the same.
    fn raise(&self, metric: Metric, now: u64) {
        self.stats.add(metric, now.saturating_sub(self.stats.get(metric)));
    }

    /// Adds the work of the tiers since the last call to the metrics.
    fn count(&self) {
        let now = self.driver.machine().tiers().map(|tiers| tiers.stats());
        let Some(now) = now else { return };
        for (metric, now) in [
            (Metric::TieringAccesses, now.accesses),
            (Metric::TieringFastAccesses, now.fast_accesses),
            (Metric::TieringPromoted, now.promoted),
            (Metric::TieringDemoted, now.demoted),
            (Metric::TieringFailed, now.failed),
            (Metric::TieringCopied, now.copied),
            (Metric::TieringCopiesFailed, now.copies_failed),
        ] {
            self.raise(metric, now);
        }
    }
}
