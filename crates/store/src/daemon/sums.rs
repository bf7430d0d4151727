//! Checksums of closed files, computed one after the other in the background.

use super::Core;
use crate::Error;
use crate::stage::Stop;
use crate::stats::Metric;
use crate::volume::Summed;
use crate::workers::Workers;
use parking_lot::{Condvar, Mutex};
use policy::FileId;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Delay after the close of a file: if it is opened and written at once, its checksums would be void.
const REST: Duration = Duration::from_secs(2);
/// Delay before a retry for a file that is being moved.
const AGAIN: Duration = Duration::from_secs(20);
/// Maximum of tries for one file; the next scrub is another.
const TRIES: u32 = 4;
/// Maximum of waiting files; those beyond get checksums in the next scrub.
const WAITING_MAX: usize = 10_000;

#[derive(Default)]
struct Waiting {
    ends: bool,
    /// Earliest time for each file, and the number of tries.
    files: BTreeMap<FileId, (Instant, u32)>,
}

/// Files that wait for their checksums.
pub(super) struct ToSum {
    waiting: Mutex<Waiting>,
    woken: Condvar,
    stop: Stop,
    workers: Workers,
}

impl ToSum {
    pub fn new() -> Arc<ToSum> {
        let (waiting, woken, workers) = (Mutex::default(), Condvar::new(), Workers::of("checksums"));
        Arc::new(ToSum { waiting, woken, stop: Stop::default(), workers })
    }

    /// Subscribes to closed files, if `volume.toml` requests checksums for them.
    pub fn start(self: &Arc<ToSum>, core: &Arc<Core>) {
        if core.volume.config().checksums.files != Summed::Closed {
            return;
        }
        let hears = self.clone();
        drop(core.pool.closed.set(Box::new(move |file| hears.add(file, REST, 0))));
        let (this, core) = (self.clone(), Arc::downgrade(core));
        self.workers.start("checksums", move || this.work(&core));
    }

    /// Stops the thread; the current file gets no checksums.
    pub fn stop(&self) {
        self.waiting.lock().ends = true;
        self.stop.set();
        self.woken.notify_all();
        self.workers.stop();
    }

    fn add(&self, file: FileId, after: Duration, tries: u32) {
        let mut waiting = self.waiting.lock();
        if waiting.files.len() < WAITING_MAX {
            waiting.files.insert(file, (Instant::now() + after, tries));
            self.woken.notify_all();
        }
    }

    fn work(&self, core: &Weak<Core>) {
        while let Some((file, tries)) = self.next() {
            let Some(core) = core.upgrade() else { return };
            let Some(open) = core.files.noted(file) else { continue }; // the file is gone
            match core.checker.sum(&open, &|bytes| core.mover.throttle(bytes), &self.stop) {
                Ok(true) => {}
                Err(Error::Busy(_)) if tries < TRIES => self.add(file, AGAIN, tries + 1),
                Ok(false) => core.volume.stats().add(Metric::SumsLeft, 1),
                Err(error) => {
                    core.volume.stats().add(Metric::SumsLeft, 1);
                    tracing::info!("{} gets no checksums now: {error}", core.pool.name_of(file));
                }
            }
        }
    }

    /// The file that is due first, once it is due; `None` at the end.
    fn next(&self) -> Option<(FileId, u32)> {
        let mut waiting = self.waiting.lock();
        loop {
            if waiting.ends {
                return None;
            }
            let first =
                waiting.files.iter().min_by_key(|(_, (at, _))| *at).map(|(file, (at, tries))| (*file, *at, *tries));
            match first {
                Some((file, at, tries)) if at <= Instant::now() => {
                    waiting.files.remove(&file);
                    return Some((file, tries));
                }
                Some((_, at, _)) => drop(self.woken.wait_until(&mut waiting, at)),
                None => self.woken.wait(&mut waiting),
            }
        }
    }
}
