//! Purging: scans every file and removes those that [`policy::protect::purge`] chooses.
//!
//! During removals, the list of paths that jobs need is at most one second old.

mod look;
mod needed;
mod remove;
mod report;
mod rules;

pub use needed::Needs;
pub use report::{PurgeReport, Purged, RuleSum};

use super::Core;
use crate::calls::Calls;
use crate::{Error, Result};
use engine::events::{self, Kind};
use engine::file::FileTable;
use engine::stage::Stager;
use engine::stats::Metric;
use look::{PurgeScan, ScannedFile};
use policy::machine::Machine;
use policy::protect::purge::{Event, Purge, Remove};
use std::sync::Arc;

/// Name of the calls that query whether a node uses a file.
const FILE_IN_USE: &str = "file-in-use";

/// Answers other nodes whether this node has a file open or stages it out.
pub(super) fn serve(calls: &Calls, files: Arc<FileTable>, stager: Arc<Stager>) {
    calls.register(FILE_IN_USE, move |_, inode: u64, _| {
        let is_open = || files.of_inode(inode).iter().any(|file| file.is_open());
        Ok(stager.offloaded().is_being_sent(inode) || is_open())
    });
}

impl Core {
    /// Removes the files that the settings allow, or lists them with `dry_run`.
    ///
    /// # Errors
    /// The needs of jobs or the time are unknown, or the namespace fails.
    pub fn purge(&self, dry_run: bool) -> Result<PurgeReport> {
        let mut needed = self.needed()?;
        let now = self.clock.now().map_err(Error::Busy)?;
        let settings = &self.volume.config().purge;
        let (config, notes) = rules::machine(settings);
        let names: Vec<String> = settings.rules.iter().map(|rule| rule.name.clone()).collect();
        let mut report = PurgeReport { notes, ..PurgeReport::new(dry_run, &names) };
        let mut machine = Purge::new(config);
        self.volume.targets().measure_now();
        let space = self.volume.targets().space();
        let used = space.total_bytes.saturating_sub(space.free_bytes);
        machine.handle(now, Event::Begin { used, total: space.total_bytes });
        let look = PurgeScan::at_all(self, &needed, now, &mut machine)?;
        machine.handle(now, Event::Scanned);
        if look.unread > 0 {
            report.notes.push(format!("{} names could not be read or are no UTF-8, and were left", look.unread));
        }
        let mounted = remove::mounted(&self.mount_point)?;
        if !dry_run && !look.aside.is_empty() {
            let restored = remove::restore_names(&mounted, &look.aside);
            report.notes.push(format!("{restored} files that an interrupted purge had renamed have their names again"));
        }
        while let Some(remove) = machine.poll() {
            let seen = &look.may_go[remove.id as usize];
            if !dry_run && needed.is_old() {
                match self.needed() {
                    Ok(latest) => needed = latest,
                    Err(error) => {
                        report.notes.push(format!("it ended before all were removed: {error}"));
                        break;
                    }
                }
            }
            let gone = dry_run || !needed.has(&seen.file.path) && self.remove_unused(&mounted, seen);
            let answer = if gone { Event::Removed { id: remove.id } } else { Event::Left { id: remove.id } };
            machine.handle(now, answer);
            if gone {
                self.tell(seen, remove, &mut report);
            }
        }
        // A file that was not scanned may still have a record.
        if !dry_run && look.unread == 0 {
            self.stager.offloaded().keep(&look.known)?;
        }
        report.counted(machine.stats());
        Ok(report)
    }

    fn tell(&self, seen: &ScannedFile, remove: Remove, report: &mut PurgeReport) {
        let (why, file) = (report.why(remove.reason), seen.file.clone());
        if !report.dry_run {
            self.volume.stats().add(Metric::PurgedFiles, 1);
            self.volume.stats().add(Metric::PurgedBytes, file.bytes);
            let what = format!("purged: {} bytes", file.bytes);
            let bytes = format!("its bytes {} {}", if file.only_here { "were" } else { "are at" }, file.elsewhere);
            tracing::info!("purged {:?}: {why}; {bytes}", file.path);
            let (path, owner) = (Some(file.path.clone()), Some(seen.owner));
            let why = Some(format!("{why}; {bytes}"));
            self.pool.events.record(events::Event { path, owner, why, ..events::Event::new(Kind::Purge, what) });
        }
        report.add(Purged { reason: why, rule: report.rule(remove.reason), ..file }, remove.reason);
    }
}
