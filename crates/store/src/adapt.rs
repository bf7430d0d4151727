//! The live loop: what applications and devices do goes into [`policy::volume`], and what it says is carried out.
//!
//! ```text
//!   read, write ──> recorder (bounded) ──.
//!   devices: idle, space, times served ──┼─> step ──> Volume ──> changes ──> carriers ──> mover
//!   control, jobs ───────────────────────┴─> tell ──>   ^                       |
//!                                                       '── LaidOut, Done ──────'
//! ```
//! [`Volume`] decides, the same that `entrepot-lab sim volume` drives. Threads of applications only record what they
//! do; one thread steps, some carry. Locks: the machine's is held for one event, or some of those recorded, and no
//! other is taken meanwhile; its actions are done when it is free again.
//!
//! An access is what reaches the daemon: what the kernel's page cache answers costs no device anything and is none.
//!
//! On disk there are only the files' own layouts, and which mirrors are forks: temperatures and loads are learned
//! again after a restart, and a walk through the tree finds what lies on the fast tier.

mod carry;
mod forks;
mod history;
mod lies;
mod log;
mod placing;
mod quiet;
mod record;
mod report;
mod run;
mod segments;
mod speed;
mod stripes;
mod tiers;
mod yields;

pub use record::{Clock, Recorder};
pub use report::Report;
pub use stripes::{Devices, striping};

use crate::Result;
use crate::file::FileTable;
use crate::mover::Mover;
use crate::state::State;
use crate::stats::{Metric, Stats};
use crate::volume;
use crate::workers::Workers;
use carry::Queue;
use history::History;
use parking_lot::{Condvar, Mutex};
use policy::machine::Machine;
use policy::stripe::striper::Striper;
use policy::volume::{Action, Event, StripesConfig, Verb, Volume};
use policy::{Time, volume as machine};
use run::Alarm;
use std::sync::Arc;
use tiers::Tiers;

/// What `volume.toml` says of the mechanisms.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `[tiering]`.
    pub tiering: volume::Tiering,
    /// `[stripes]`; `None`: nothing is counted.
    pub stripes: Option<volume::Stripes>,
    /// The devices that files are striped over.
    pub devices: stripes::Devices,
    /// Bytes of a segment, from `[layout] segment`.
    pub segment_bytes: u64,
    /// Changes of one mechanism at the same time, from `[mover] concurrent`.
    pub concurrent: usize,
}

/// The parts of a volume that the loop works on.
pub struct Parts {
    /// All files.
    pub files: Arc<FileTable>,
    /// Makes the changes.
    pub mover: Arc<Mover>,
    /// Remembers forks and the speed of devices.
    pub state: Arc<dyn State>,
    /// What is counted.
    pub stats: Arc<Stats>,
}

/// The mechanisms that adapt a volume to its load.
pub struct Adapt {
    settings: Settings,
    recorder: Arc<Recorder>,
    files: Arc<FileTable>,
    mover: Arc<Mover>,
    state: Arc<dyn State>,
    stats: Arc<Stats>,
    tiers: Tiers,
    served: Mutex<stripes::Sampled>,
    history: History,
    queue: Mutex<Queue>,
    queued: Condvar,
    alarm: Alarm,
    workers: Workers,
}

impl Adapt {
    /// Over these parts, with the striper that [`striping`] set up. Nothing happens before `Adapt::start` or
    /// [`Adapt::step`]. Tiers begin with [`Adapt::set_costs`].
    ///
    /// # Errors
    /// The state store does not say which mirrors are forks.
    pub fn new(settings: Settings, stripes: Option<StripesConfig>, parts: Parts, clock: Clock) -> Result<Arc<Adapt>> {
        let config = machine::Config {
            burst: None,
            tiers: None,
            stripes,
            replicas: None,
            changes_max: settings.concurrent,
            repairs: false,
        };
        let Parts { files, mover, state, stats } = parts;
        let forks = forks::Forks::open(state.clone())?;
        let targets = files.pool().targets.clone();
        let machine = Volume::new(config, clock());
        let recorder = Recorder::new(&settings, machine, forks, targets, clock);
        Ok(Arc::new(Adapt {
            tiers: Tiers::default(),
            served: Mutex::default(),
            history: History::default(),
            queue: Mutex::default(),
            queued: Condvar::new(),
            alarm: Alarm::default(),
            workers: Workers::of("the adapting mechanisms"),
            settings,
            recorder,
            files,
            mover,
            state,
            stats,
        }))
    }

    /// Records accesses and places new segments, for `crate::file::Pool::advisers`.
    pub fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    /// Whether segments are moved between tiers.
    pub fn has_tiers(&self) -> bool {
        self.settings.tiering.policy != volume::TieringPolicy::Off
    }

    pub(super) fn now(&self) -> Time {
        self.recorder.now()
    }

    /// Tells the machine what happened, and does what it says.
    pub(crate) fn tell(&self, event: Event) {
        self.tell_all([event]);
    }

    /// The same of several events, with nothing in between.
    fn tell_all(&self, events: impl IntoIterator<Item = Event>) {
        let (actions, deadline) = {
            let (now, mut machine) = (self.now(), self.recorder.machine());
            events.into_iter().for_each(|event| machine.handle(now, event));
            (machine.drain().collect::<Vec<_>>(), machine.next_deadline())
        };
        self.act(actions, deadline);
    }

    /// Does what the machine said.
    fn act(&self, actions: Vec<Action>, deadline: Option<Time>) {
        for action in actions {
            match action {
                Action::Change(change) => {
                    if !matches!(change.verb, Verb::MoveSegment { .. } | Verb::CopySegment { .. }) {
                        self.history.decided(&change, self.files.pool());
                    }
                    self.queue.lock().push(change);
                    self.queued.notify_one();
                }
                Action::Place { shape, why } => self.history.placed(&shape, &why),
                Action::Prefer { file, by } => {
                    if let Some(file) = self.files.noted(file) {
                        file.load().set_chooser(Some(*by));
                    }
                }
                // Of the burst buffer, which is not one of the mechanisms here.
                Action::Release { .. } | Action::Prepare { .. } | Action::SetRates(_) => {}
                Action::SetReplicaRate(_) | Action::LookAtSpace => {}
            }
        }
        self.alarm.set(deadline);
    }

    /// Moves nothing more between tiers until told otherwise, or goes on; what is under way ends.
    pub fn pause(&self, paused: bool) {
        self.tiers.pause(paused);
        self.tell(Event::Tiers(policy::tier::machine::Event::Paused(paused)));
    }

    /// Asks the striper.
    fn striper<T>(&self, ask: impl FnOnce(&mut Striper) -> T) -> Option<T> {
        self.recorder.machine().striper().map(ask)
    }

    /// Tells the metrics what tiers did since the last time.
    fn count(&self) {
        let now = self.recorder.machine().tiers().map(|tiers| tiers.stats());
        let Some(now) = now else { return };
        let told = self.tiers.counted(now);
        for (metric, now, told) in [
            (Metric::TieringAccesses, now.accesses, told.accesses),
            (Metric::TieringFastAccesses, now.fast_accesses, told.fast_accesses),
            (Metric::TieringPromoted, now.promoted, told.promoted),
            (Metric::TieringDemoted, now.demoted, told.demoted),
            (Metric::TieringFailed, now.failed, told.failed),
            (Metric::TieringCopied, now.copied, told.copied),
            (Metric::TieringCopiesFailed, now.copies_failed, told.copies_failed),
        ] {
            self.stats.add(metric, now - told);
        }
        self.stats.add(Metric::TieringLost, self.recorder.take_lost());
    }
}
