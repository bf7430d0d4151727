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
use needed::Needed;
use policy::Time;
use policy::machine::Machine;
use policy::protect::purge::{Event, Purge, Remove};
use remove::Mounted;
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
        let needed = self.needed()?;
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
        self.remove_all(&mut machine, now, &look.may_go, needed, &mut report)?;
        // A file that was not scanned may still have a record.
        if !dry_run && look.unread == 0 {
            self.stager.offloaded().keep(&look.known)?;
        }
        report.counted(machine.stats());
        Ok(report)
    }

    /// Executes the actions of the machine, one file after the other.
    fn remove_all(
        &self,
        machine: &mut Purge,
        now: Time,
        may_go: &[ScannedFile],
        mut needed: Needed,
        report: &mut PurgeReport,
    ) -> Result<()> {
        let mounted = Mounted::open(&self.mount_point)?;
        while let Some(remove) = machine.poll() {
            let seen = &may_go[remove.id as usize];
            if !report.dry_run && needed.is_old() {
                needed = match self.needed() {
                    Ok(needed) => needed,
                    Err(error) => {
                        report.notes.push(format!("it ended before all were removed: {error}"));
                        return Ok(());
                    }
                };
            }
            let gone = report.dry_run || !needed.has(&seen.path) && self.remove_unused(&mounted, seen);
            let answer = if gone { Event::Removed { id: remove.id } } else { Event::Left { id: remove.id } };
            machine.handle(now, answer);
            if gone {
                self.tell(seen, remove, report);
            }
        }
        Ok(())
    }

    fn tell(&self, seen: &ScannedFile, remove: Remove, report: &mut PurgeReport) {
        let why = report.why(remove.reason);
        if !report.dry_run {
            self.volume.stats().add(Metric::PurgedFiles, 1);
            self.volume.stats().add(Metric::PurgedBytes, seen.version.0);
            let what = format!("purged: {} bytes", seen.version.0);
            let bytes = format!("its bytes {} {}", if seen.only_here { "were" } else { "are at" }, seen.elsewhere);
            tracing::info!("purged {:?}: {why}; {bytes}", seen.path);
            let (path, owner) = (Some(seen.path.clone()), Some(seen.owner));
            let why = Some(format!("{why}; {bytes}"));
            self.pool.events.record(events::Event { path, owner, why, ..events::Event::new(Kind::Purge, what) });
        }
        report.add(seen.purged(why, report.rule(remove.reason)), remove.reason);
    }
}
