//! Repair: recovers lost objects from another mirror or from the source, in the order of repair, several at once.

use super::look::{Candidate, Found};
use super::{Behalf, CheckOptions, Checker, FindingKind, Outcome, Starts};
use crate::file::File;
use crate::stage::place::open_at;
use crate::stage::progress::Meter;
use crate::stage::{Report, StageError, Stop, work_off_here};
use crate::{Error, Result};
use object::host::fstat;
use parking_lot::Mutex;
use policy::layout::Reason;
use policy::protect::repair_order;
use policy::{FileId, ObjectId, TargetId, Time};
use rustix::fs::{self, OFlags};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Objects repaired at the same time; the sources still have one session each.
const AT_ONCE: usize = 4;

impl Checker {
    pub(super) fn repair(&self, found: &mut Found, options: &CheckOptions, report: Report, stop: &Stop) {
        let candidates = in_order(&found.candidates, options, &self.starts);
        let total_bytes = candidates.iter().filter(|c| c.recoverable).map(|c| c.bytes).sum();
        let meter = Meter::new(report, "repair", total_bytes, 0);
        let outcomes: Mutex<Vec<(usize, Outcome)>> = Mutex::default();
        let todo: Vec<&Candidate> = candidates.iter().filter(|c| c.recoverable).collect();
        let moves: Mutex<BTreeMap<FileId, Arc<Mutex<()>>>> = Mutex::default();
        // Other nodes did not release a file in a minute, or there is no lease: the rest would wait as long each.
        let gave_up: OnceLock<String> = OnceLock::new();
        let repair = |candidate: &Candidate| {
            if stop.is_set() {
                return Err(StageError::Stopped);
            }
            // A file undergoes one move at a time; several objects are fetched from a source at once.
            let file = moves.lock().entry(candidate.file).or_default().clone();
            let _alone = (candidate.proven || candidate.healthy_copies > 0).then(|| file.lock());
            let tried = || match self.repair_one(candidate) {
                Ok(()) => Outcome::Repaired,
                Err(error) => {
                    if matches!(error, Error::Elsewhere(_)) {
                        drop(gave_up.set(format!("it was not tried after the failure of another: {error}")));
                    }
                    Outcome::Failed(error.to_string())
                }
            };
            let outcome = gave_up.get().map_or_else(tried, |why| Outcome::Failed(why.clone()));
            if outcome == Outcome::Repaired {
                meter.add(candidate.bytes);
            }
            outcomes.lock().push((candidate.finding, outcome));
            Ok(())
        };
        // The stop is the only error.
        drop(work_off_here(todo, AT_ONCE, repair));
        for (finding, outcome) in outcomes.into_inner() {
            found.report.findings[finding].outcome = outcome;
        }
        found.report.repaired_bytes = meter.fetched_bytes();
        meter.finish();
    }

    /// Recovers one object. An object that is in order by now needs no work.
    pub(super) fn repair_one(&self, candidate: &Candidate) -> Result<()> {
        let stub = self.open(&candidate.path, OFlags::RDWR)?;
        if let Some(Behalf { who, repairs_readable }) = &self.behalf {
            let owner = fstat(&stub)?.st_uid;
            let reads = || open_at(self.volume.tree(), &candidate.path, OFlags::RDONLY | OFlags::NOFOLLOW, who).is_ok();
            if owner != who.uid && !(*repairs_readable && reads()) {
                return Err(Error::Invalid(format!(
                    "it belongs to user {owner}; only its owner and the operator may repair it"
                )));
            }
        }
        let file = self.files.get_or_open(stub)?;
        let Some(layout) = file.layout().filter(|l| l.file == candidate.file) else {
            return Err(Error::Busy("the file was replaced in between".into()));
        };
        if layout.object(candidate.at).is_none_or(|o| o.id != candidate.object.id) {
            return Ok(()); // repaired by another caller
        }
        let stale = layout.mirrors[candidate.at.mirror].state == policy::layout::MirrorState::Stale;
        if stale {
            self.mover.resync(&file)?;
        } else if candidate.damaged {
            self.repair_damaged(&file, candidate)?;
        } else if candidate.healthy_copies > 0 || !file.is_recoverable() {
            let target = candidate.object.target;
            self.mover.replace_target(&file, target, Reason::FailedOver(target))?;
        } else {
            self.repair.repair(&file, candidate.at)?;
        }
        Ok(())
    }

    /// Copies the right bytes of an object: stripe by stripe where there are checksums, else from another mirror
    /// without damaged objects.
    fn repair_damaged(&self, file: &Arc<File>, candidate: &Candidate) -> Result<()> {
        if candidate.proven {
            return self.mend(file, candidate);
        }
        if candidate.healthy_copies > 0 {
            file.distrust(&file.view(), candidate.at.mirror)?;
            self.mover.resync(file)?;
            return Ok(());
        }
        self.repair.replace(file, candidate.at)
    }

    /// Removes the orphans of the check, which exist only if every name of the volume was seen.
    pub(super) fn sweep(&self, found: &mut Found, options: &CheckOptions) {
        if let Err(error) = self.sweep_all(found, options) {
            tracing::warn!("the removal of all unknown objects cannot be saved: {error}");
        }
    }

    /// Removes objects that no file names.
    pub(super) fn remove(&self, orphans: &[(TargetId, ObjectId)]) -> Result<()> {
        if orphans.is_empty() {
            return Ok(());
        }
        fs::syncfs(self.volume.tree())?; // after a loss of power no name of theirs reappears
        self.files.pool().making.settled(orphans.iter().map(|(_, object)| *object));
        self.mover.sweep(orphans).map(drop)
    }

    fn sweep_all(&self, found: &mut Found, options: &CheckOptions) -> Result<()> {
        let complete = found.report.unseen.is_empty();
        let orphans: Vec<_> = found.orphans.iter().map(|(_, object)| *object).collect();
        let swept = self.remove(&orphans);
        for (finding, _) in &found.orphans {
            found.report.findings[*finding].outcome = match &swept {
                Ok(()) => Outcome::Repaired,
                Err(e) => Outcome::Failed(e.to_string()),
            };
        }
        // No object is left that a file of a later backup could name.
        let all = options.paths.is_empty() && options.before_job.is_empty();
        let mut orphans = found.report.findings.iter().filter(|f| f.kind == FindingKind::Orphan);
        if all && complete && orphans.all(|f| f.outcome == Outcome::Repaired) {
            self.volume.forget_unknown_epochs()?;
        }
        Ok(())
    }
}

/// The candidates in the order of repair.
fn in_order(candidates: &[Candidate], options: &CheckOptions, starts: &Starts) -> Vec<Candidate> {
    let clean = |path: &String| path.split('/').filter(|n| !n.is_empty() && *n != ".").collect::<Vec<_>>().join("/");
    let before_job: Vec<String> = options.before_job.iter().map(clean).collect();
    let of = |c: &Candidate| {
        let path = c.path.join("/");
        let wanted = before_job.iter().any(|p| p.is_empty() || path == *p || path.starts_with(&format!("{p}/")));
        // A job that starts now comes before all waiting jobs.
        c.to_be_ordered(if wanted { Some(Time::ZERO) } else { starts.of(c.file).map(|Time(place)| Time(place + 1)) })
    };
    let mut order: Vec<_> = candidates.iter().map(of).collect();
    repair_order::repair_order(&mut order);
    let by_object: BTreeMap<_, &Candidate> = candidates.iter().map(|c| (c.object.id, c)).collect();
    order.iter().filter_map(|o| by_object.get(&o.object).map(|c| (*c).clone())).collect()
}
