//! The burst buffer: checkpoints land on the fast tier, are demoted in time, and are read from the faster tier's copy.
//!
//! ```text
//! mount -> Adviser (opened, may write?, hold, closed) -> table (application, version) -> machine (turn, room, speed)
//! machine -> actions -> carriers   release writes, make ready, drop mirrors, set speeds: in order
//!                                  make durable, remember
//!                                  copy to the capacity tier, at the limiter's speed
//!                                  copy to the replica group, at a speed of its own
//! ```
//! [`policy::volume`] decides about copies, drops and retries. A version is complete when all its files that were open
//! for writing are closed, or after `entrepot checkpoint commit`. Locks: `table` before the machine; neither is held
//! while bytes are copied or synced.

mod adviser;
mod app_names;
mod commands;
mod commit;
mod gauges;
mod left_out;
mod limits;
mod marks;
mod mirrors;
mod open;
mod rate_limiter;
mod record;
mod restart;
mod shared;
mod table;
mod tend;
mod versions;

pub use record::{Mark, Marked};
pub use shared::Command;

use super::Adapt;
use super::driver::Driver;
use super::jobs::Lane;
use crate::{Error, Result};
use engine::events::{Event as Happened, Kind};
use engine::file::Resume;
use engine::volume::{Burst as Settings, Volume};
use limits::Limits;
use marks::Marks;
use meta::state::State;
use meta::stub::Inode;
use open::OpenCheckpoint;
use parking_lot::{Mutex, RwLock};
use policy::burst::admission::{Admission, Event as AdmissionEvent, Verdict};
use policy::burst::buffer;
use policy::burst::control::{Device, Plan};
use policy::burst::tables::Version;
use policy::volume::{Action, Event};
use rate_limiter::RateLimiter;
use record::Period;
use rustix::io::Errno;
use shared::Shared;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use table::{CheckpointTable, Session};

/// The burst buffer of a volume.
pub struct Burst {
    volume: Arc<Volume>,
    settings: Settings,
    fast: u8,
    capacity_bytes: u64,
    state: Arc<dyn State>,
    driver: Arc<Driver>,
    table: Mutex<CheckpointTable>,
    /// Continuations of the writes that the machine holds, by their number.
    held: Mutex<HashMap<u64, Resume>>,
    /// The latest number of a request or a held write.
    number: AtomicU64,
    /// Open files that belong to checkpoints, by their inodes.
    open: RwLock<HashMap<Inode, Arc<OpenCheckpoint>>>,
    /// Files that jobs' scripts mark as checkpoints.
    marks: RwLock<Marks>,
    /// Announced versions by application. Not in the table, since every open reads them.
    sessions: RwLock<BTreeMap<String, Session>>,
    closed: AtomicBool,
    limiter: RateLimiter,
    replica_limiter: RateLimiter,
    limits: Limits,
    tended: Mutex<tend::Tended>,
    counts: Counts,
    /// State shared with the other nodes, on a shared volume.
    shared: OnceLock<Shared>,
}

/// Work done since the start that the machine does not count.
#[derive(Default)]
struct Counts {
    committed: AtomicU64,
    failed: AtomicU64,
    trims: AtomicU64,
}

/// Capacity of a volume's burst buffer in bytes.
pub fn capacity_bytes(volume: &Volume) -> u64 {
    let settings = &volume.config().burst;
    volume.targets().measure_now();
    match (settings.size, settings.fast) {
        (0, Some(fast)) => volume.targets().space_on(fast).total_bytes,
        (size, _) => size,
    }
}

/// Queues work for a carrier of a lane, behind its earlier work.
fn queue(driver: &Driver, lane: Lane, work: impl FnOnce(&Burst, &Adapt) + Send + 'static) {
    driver.jobs.later(lane, move |adapt| {
        if let Some(burst) = adapt.burst() {
            work(burst, adapt);
        }
    });
}

impl Burst {
    /// Opens the buffer of a volume with `[burst]`, with an earlier daemon's records of checkpoints.
    pub(super) fn open(volume: Arc<Volume>, capacity_bytes: u64, driver: Arc<Driver>) -> Result<Arc<Burst>> {
        let (settings, state) = (volume.config().burst.clone(), volume.state().clone());
        let fast = settings.fast.ok_or_else(|| Error::Invalid("the volume has no burst buffer".into()))?;
        let of_tier = volume.config().targets.iter().filter(|target| target.tier == fast);
        let paths: Vec<PathBuf> = of_tier.filter_map(|target| target.directory()).map(Into::into).collect();
        // On a shared volume, only the deciding node loads the records.
        let alone = !volume.config().is_shared();
        if let Some(period) = Period::recorded(&*state)?.filter(|_| alone) {
            driver.tell(Event::Checkpoint(AdmissionEvent::Buffer(period.resumed())));
        }
        let table = if alone { CheckpointTable::open(&*state)? } else { CheckpointTable::default() };
        let marks = Marks::open(&*state)?;
        let device = Device { capacity: capacity_bytes as f64, ..settings.admission().buffer.device };
        if settings.is_limited() && !Plan::new(&device, settings.period_bytes as f64).feasible {
            let (asked, most) = (settings.period_bytes, device.dwpp_max());
            tracing::warn!(
                "[burst] period_bytes is {asked}, and a buffer of {capacity_bytes} bytes with these rates takes \
                 {most:.0} in a period; checkpoints will wait; raise size, or lower period_bytes"
            );
        }
        Ok(Arc::new(Burst {
            limits: Limits::new(&paths, settings.cgroups && settings.is_limited()),
            volume,
            settings,
            fast,
            capacity_bytes,
            state,
            driver,
            table: Mutex::new(table),
            held: Mutex::default(),
            number: AtomicU64::new(0),
            open: RwLock::default(),
            marks: RwLock::new(marks),
            sessions: RwLock::default(),
            closed: AtomicBool::new(false),
            limiter: RateLimiter::default(),
            replica_limiter: RateLimiter::default(),
            tended: Mutex::default(),
            counts: Counts::default(),
            shared: OnceLock::new(),
        }))
    }

    /// Whether checkpoints are copied to a replica group.
    pub(super) fn has_replicas(&self) -> bool {
        self.settings.replicas.is_some()
    }

    /// Closes the buffer at the end of the daemon: copies end, and held writes fail.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.limiter.stop();
        self.replica_limiter.stop();
        self.tell(AdmissionEvent::Close);
    }

    pub(super) fn clear_limits(&self) {
        self.limits.clear();
    }

    /// Carries out an action of the machine other than a change of a layout.
    pub(super) fn act(&self, action: Action) {
        match action {
            Action::Release { write, verdict } => self.release(write, verdict),
            Action::Prepare { request, .. } => self.tell(AdmissionEvent::Prepared { request }),
            Action::SetReplicaRate(rate) => self.replica_limiter.set(rate),
            Action::SetRates(rates) => {
                self.limiter.set(rates.demote);
                self.limits.set(rates.write);
            }
            Action::LookAtSpace => self.look_at_space(),
            // These actions belong to other mechanisms.
            Action::Change(_) | Action::Place { .. } | Action::Prefer { .. } => {}
        }
    }

    /// Event that a version may be written now; `None` if it was reported before.
    pub(super) fn turn(&self, request: u64, direct: bool) -> Option<Happened> {
        let mut table = self.table.lock();
        let current = table.current.get_mut(&request).filter(|current| !current.turn_is_reported)?;
        current.turn_is_reported = true;
        let to = if direct { "straight to the capacity tier" } else { "to the burst buffer" };
        let what = format!(
            "checkpoint {} of {} has its turn and is written {to}",
            current.label,
            app_names::short(&current.app)
        );
        let path = current.open.keys().next().cloned();
        Some(Happened { path, by: Some("burst".into()), ..Happened::new(Kind::Burst, what) })
    }

    fn release(&self, write: u64, verdict: Verdict) {
        let Some(resume) = self.held.lock().remove(&write) else { return };
        resume(match verdict {
            Verdict::Go => Ok(()),
            Verdict::NoRoom => Err(Errno::NOSPC.into()),
            Verdict::Closed => Err(Error::Busy("the volume is going down".into())),
        });
    }

    /// Sends the machine an event of a checkpoint.
    fn tell(&self, event: AdmissionEvent) {
        self.driver.tell(Event::Checkpoint(event));
    }

    /// Sends the machine an event of the buffer.
    fn tell_buffer(&self, event: buffer::Event) {
        self.tell(AdmissionEvent::Buffer(event));
    }

    /// Reads the state of admission.
    fn admission<T>(&self, ask: impl FnOnce(&Admission) -> T) -> T {
        ask(self.driver.machine().admission().expect("the machine has a burst buffer"))
    }

    /// Queues work for the carrier of checkpoints, behind its earlier work.
    fn later(&self, work: impl FnOnce(&Burst, &Adapt) + Send + 'static) {
        queue(&self.driver, Lane::Checkpoints, work);
    }

    /// Stores the continuation of a held write; returns the write's number.
    fn keep(&self, resume: Resume) -> u64 {
        let write = self.next_number();
        self.held.lock().insert(write, resume);
        write
    }

    fn next_number(&self) -> u64 {
        self.number.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The version that a request writes.
    fn version_of(&self, request: u64) -> Option<Version> {
        self.admission(|admission| admission.request(request).and_then(|of| of.version))
    }
}
