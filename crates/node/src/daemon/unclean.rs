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
use engine::events::Kind;
use engine::recovery::Left;
use object::host;
use parking_lot::Mutex;
use policy::maintenance::{Outcome, Task};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Name of the mark in the state directory.
const NAME: &str = "running";

/// The mark of a running daemon, and the leftovers of the previous one.
pub(super) struct Unclean {
    mark: PathBuf,
    /// `None` after a clean end.
    left: Mutex<Option<Leftovers>>,
}

impl Unclean {
    /// Sets the mark. An existing mark proves an unclean end of the previous daemon.
    pub fn begin(state_dir: &Path) -> Unclean {
        let mark = state_dir.join(NAME);
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&mark);
        let left = match made.and_then(|mark| mark.sync_all()) {
            Ok(()) => None,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => due(None),
            // A volume starts even if its state directory is full.
            Err(error) => {
                tracing::warn!(
                    "a later start cannot detect an unclean end of this daemon: {}: {error}",
                    mark.display()
                );
                None
            }
        };
        if let Err(error) = std::fs::File::open(state_dir).and_then(|directory| Ok(host::sync_directory(directory)?)) {
            tracing::debug!("the mark of a running daemon is not durable: {error}");
        }
        Unclean { mark, left: Mutex::new(left) }
    }

    /// Makes a scan due. Call before [`Unclean::start`].
    pub fn search(&self) {
        *self.left.lock() = due(None);
    }

    /// Requests the scan, if one is due.
    pub fn start(&self, core: &Core) {
        let mut left = self.left.lock();
        match *left {
            Some(Leftovers::Due { .. }) if core.nodes.is_some() => *left = None,
            Some(Leftovers::Due { .. }) => core.maintenance.want(Task::Sweep),
            _ => {}
        }
    }

    /// Scans for orphans and removes them.
    pub fn sweep(&self, core: &Core) -> Outcome {
        let stop = core.maintenance.stop_flag();
        match core.checker.remove_left(stop) {
            Ok(left) => {
                *self.left.lock() = Some(Leftovers::Removed(left));
                let Left { objects, bytes } = left;
                tracing::info!(objects, bytes, "objects that no file names after an unclean end were removed");
                if objects > 0 {
                    let what = format!(
                        "{objects} objects with {bytes} bytes that no file names after an unclean end of the daemon were removed"
                    );
                    core.background.news(Kind::Recovery, what);
                }
                Outcome::Done
            }
            Err(error) => {
                if !stop.is_set() {
                    tracing::info!("objects that no file names after an unclean end stay for now: {error}");
                    *self.left.lock() = due(Some(error.to_string()));
                }
                Outcome::Again
            }
        }
    }

    /// Records an orderly end. A due scan stays due at the next start.
    pub fn ended(&self) {
        if !matches!(*self.left.lock(), Some(Leftovers::Due { .. }))
            && let Err(error) = std::fs::remove_file(&self.mark)
        {
            tracing::debug!("the next start treats this end as unclean: {error}");
        }
    }

    /// State for `status`; `None` after a clean end.
    pub fn status(&self) -> Option<Leftovers> {
        self.left.lock().clone()
    }
}

/// A scan is due, or was incomplete, with the reason.
fn due(why: Option<String>) -> Option<Leftovers> {
    Some(Leftovers::Due { due: true, why })
}
