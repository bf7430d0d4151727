//! Detection of an unclean end of the daemon, and cleanup of the orphans after it.
//!
//! ```text
//!  start: the mark is there? ---no---> make it                        clean end: remove it, unless a scan is due
//!                            ---yes--> scan in the background, remove the objects, report them; no scan is due any more
//! ```
//!
//! A removed file waits in memory for the removal of its objects, so a killed daemon leaves them behind. With several
//! nodes, the leader searches for them (`left`).

use super::Core;
use crate::control::answers::Leftovers;
use crate::events::Kind;
use crate::recovery::Left;
use crate::stage::Stop;
use crate::workers::Workers;
use parking_lot::{Condvar, Mutex};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Name of the mark in the state directory.
const NAME: &str = "running";

/// Delay before the first scan, and between two incomplete ones. A scan of a large tree is expensive.
const FIRST: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// Knowledge of the previous daemon's end.
enum PreviousEnd {
    /// Nothing is left: the daemon ended in order, or all orphans were removed.
    Nothing(Option<Left>),
    /// A scan is due, or was incomplete, with the reason.
    Due(Option<String>),
}

/// The mark of a running daemon, and the leftovers of the previous one.
pub(super) struct Unclean {
    mark: PathBuf,
    known: Mutex<PreviousEnd>,
    stop: Stop,
    woken: Condvar,
    workers: Workers,
}

impl Unclean {
    /// Sets the mark. An existing mark proves an unclean end of the previous daemon.
    pub fn begin(state_dir: &Path) -> Unclean {
        let mark = state_dir.join(NAME);
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&mark);
        let known = match made.and_then(|mark| mark.sync_all()) {
            Ok(()) => PreviousEnd::Nothing(None),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => PreviousEnd::Due(None),
            // A volume starts even if its state directory is full.
            Err(error) => {
                tracing::warn!(
                    "a later start will not see whether this daemon ends in order: {}: {error}",
                    mark.display()
                );
                PreviousEnd::Nothing(None)
            }
        };
        if let Err(error) = std::fs::File::open(state_dir).and_then(|directory| directory.sync_all()) {
            tracing::debug!("the mark of a running daemon is not durable: {error}");
        }
        let workers = Workers::of("the scan after an unclean end");
        Unclean { mark, known: Mutex::new(known), stop: Stop::default(), woken: Condvar::new(), workers }
    }

    /// Makes a scan due. Call before [`Unclean::start`].
    pub fn search(&self) {
        *self.known.lock() = PreviousEnd::Due(None);
    }

    /// Starts the scan, if one is due.
    pub fn start(self: &Arc<Unclean>, core: &Arc<Core>) {
        let mut known = self.known.lock();
        if matches!(*known, PreviousEnd::Nothing(_)) {
            return;
        }
        if core.nodes.is_some() {
            *known = PreviousEnd::Nothing(None);
            return;
        }
        let (this, core) = (self.clone(), Arc::downgrade(core));
        self.workers.start("unclean", move || this.work(&core));
    }

    fn work(&self, core: &Weak<Core>) {
        let mut wait = FIRST;
        while self.goes_on_after(wait) {
            let Some(core) = core.upgrade() else { return };
            match core.checker.remove_left(&self.stop) {
                Ok(left) => {
                    *self.known.lock() = PreviousEnd::Nothing(Some(left));
                    let Left { objects, bytes } = left;
                    tracing::info!(objects, bytes, "objects that no file names after an unclean end were removed");
                    if objects > 0 {
                        let what = format!(
                            "{objects} objects with {bytes} bytes that no file names after an unclean end of the daemon were removed"
                        );
                        core.background.news(Kind::Recovery, what);
                    }
                    return;
                }
                Err(error) if !self.stop.is_set() => {
                    tracing::info!("objects that no file names after an unclean end stay for now: {error}");
                    *self.known.lock() = PreviousEnd::Due(Some(error.to_string()));
                }
                Err(_) => return,
            }
            wait = (wait * 2).min(WAIT_MAX);
        }
    }

    /// Waits. Returns whether the daemon goes on.
    fn goes_on_after(&self, wait: Duration) -> bool {
        let until = Instant::now() + wait;
        let mut known = self.known.lock();
        while !self.stop.is_set() && !self.woken.wait_until(&mut known, until).timed_out() {}
        !self.stop.is_set()
    }

    /// Ends the scan.
    pub fn stop(&self) {
        {
            let _known = self.known.lock();
            self.stop.set();
        }
        self.woken.notify_all();
        self.workers.stop();
    }

    /// Records an orderly end. A due scan stays due at the next start.
    pub fn ended(&self) {
        if matches!(*self.known.lock(), PreviousEnd::Nothing(_))
            && let Err(error) = std::fs::remove_file(&self.mark)
        {
            tracing::debug!("the next start takes this end for an unclean one: {error}");
        }
    }

    /// State for `status`; `None` after a clean end.
    pub fn status(&self) -> Option<Leftovers> {
        match &*self.known.lock() {
            PreviousEnd::Nothing(left) => left.map(Leftovers::Removed),
            PreviousEnd::Due(why) => Some(Leftovers::Due { due: true, why: why.clone() }),
        }
    }
}
