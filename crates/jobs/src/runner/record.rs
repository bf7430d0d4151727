//! A job as the runner remembers it, in memory and in the state store.

use crate::exec::now_ms;
use crate::plan::paths;
use crate::request::*;
use policy::schedule::easy;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// All about one job. Its script and its environment are in the spool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub id: JobId,
    pub owner: Caller,
    pub user: String,
    /// The plan, without the script.
    pub plan: Plan,
    pub cwd: PathBuf,
    /// Where the volume was mounted at submission.
    pub mount: Option<PathBuf>,
    pub submitted_ms: u64,
    pub ended_ms: Option<u64>,
    pub state: JobState,
    pub detail: String,
    pub why: Option<String>,
    /// Somebody wants it gone.
    pub cancelled: bool,
    pub timeline: Vec<Moment>,
    pub parts: Vec<PartRecord>,
    pub sources: Vec<RecordedSource>,
    pub check: Option<CheckReport>,
    pub recoveries: Vec<RecoveryEvent>,
    /// Another scheduler runs its parts.
    #[serde(default)]
    pub external: Option<External>,
    /// Results that left while the script ran.
    #[serde(default)]
    pub early: Vec<Early>,
    /// How its data came, as last seen.
    #[serde(default)]
    pub arrival: Option<Arrival>,
}

/// One part of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PartRecord {
    pub kind: PartKind,
    pub phase: Phase,
    /// When it was dispatched.
    pub dispatched_ms: Option<u64>,
    pub report: Option<PartReport>,
}

/// Where a part stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Phase {
    /// Not dispatched.
    Waiting,
    /// Dispatched; its data are being looked at.
    Checking,
    /// Its supervisor was started.
    Started,
    /// It ended, well or not.
    Ended,
    /// It will never run.
    Dropped,
}

impl Record {
    pub fn part(&self, kind: PartKind) -> Option<&PartRecord> {
        self.parts.iter().find(|part| part.kind == kind)
    }

    pub fn part_mut(&mut self, kind: PartKind) -> Option<&mut PartRecord> {
        self.parts.iter_mut().find(|part| part.kind == kind)
    }

    /// Whether one of its parts holds a place in the machine.
    pub fn is_active(&self) -> bool {
        self.parts.iter().any(|part| matches!(part.phase, Phase::Checking | Phase::Started))
    }

    /// Enters a state; the moment before it ends now.
    pub fn enter(&mut self, state: JobState, detail: impl Into<String>) {
        let (at_ms, detail) = (now_ms(), detail.into());
        if let Some(last) = self.timeline.last_mut() {
            last.lasted_ms = Some(at_ms.saturating_sub(last.at_ms));
        }
        (self.state, self.detail) = (state, detail.clone());
        let lasted_ms = state.is_final().then_some(0);
        self.ended_ms = state.is_final().then_some(at_ms);
        self.timeline.push(Moment { state, detail, at_ms, lasted_ms });
    }

    pub fn summary(&self) -> JobSummary {
        let compute = self.plan.parts.iter().find(|part| part.kind == PartKind::Compute);
        JobSummary {
            id: self.id,
            name: self.plan.name.clone(),
            uid: self.owner.uid,
            user: self.user.clone(),
            state: self.state,
            detail: self.detail.clone(),
            why: self.why.clone(),
            cores: compute.map_or(0, |part| part.cores),
            walltime_s: compute.map_or(0, |part| part.walltime_s),
            submitted_ms: self.submitted_ms,
            started_ms: self.parts.iter().filter_map(|part| part.dispatched_ms).min(),
            ended_ms: self.ended_ms,
            staging: None,
        }
    }

    pub fn detail(&self, log_dir: PathBuf) -> JobDetail {
        JobDetail {
            summary: self.summary(),
            plan: self.plan.clone(),
            cwd: self.cwd.clone(),
            timeline: self.timeline.clone(),
            parts: self.parts.iter().filter_map(|part| part.report.clone()).collect(),
            sources: self.sources.clone(),
            check: self.check.clone(),
            recoveries: self.recoveries.clone(),
            early: self.early.clone(),
            arrival: self.arrival.clone(),
            protection: Vec::new(),
            log_dir,
            external: self.external.clone(),
        }
    }

    /// What its stage-in brings into the volume.
    pub fn staged_paths(&self) -> Vec<PathBuf> {
        paths::staged(&self.plan, &self.cwd, self.mount.as_deref())
    }

    /// What its own stage-out commands take out: the number of the command and the path.
    pub fn results(&self) -> Vec<(usize, PathBuf)> {
        paths::results(&self.plan, &self.cwd, self.mount.as_deref())
    }

    /// The number of its compute part in the queue that it waits in.
    pub fn name_in_queue(&self) -> String {
        let part = self.external.as_ref().and_then(|external| external.parts.get(&PartKind::Compute));
        part.map_or_else(|| self.id.to_string(), |part| part.id.clone())
    }

    /// All that it names in the volume.
    pub fn needed_paths(&self) -> Vec<PathBuf> {
        paths::needed(&self.plan, &self.cwd, self.mount.as_deref())
    }

    /// A path of a directive as an absolute path in the volume, or nothing if it lies outside.
    pub fn in_volume(&self, path: &str) -> Option<PathBuf> {
        paths::in_volume(path, &self.cwd, self.mount.as_deref()?)
    }
}

/// A part's number for the scheduler.
pub(super) fn number(id: JobId, kind: PartKind) -> easy::JobId {
    easy::JobId(id.0 * 4 + kind as u64)
}

/// And back.
pub(super) fn part_of(number: easy::JobId) -> (JobId, PartKind) {
    let kind = match number.0 % 4 {
        0 => PartKind::StageIn,
        1 => PartKind::Compute,
        _ => PartKind::StageOut,
    };
    (JobId(number.0 / 4), kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_numbers_of_their_own() {
        for kind in [PartKind::StageIn, PartKind::Compute, PartKind::StageOut] {
            assert_eq!(part_of(number(JobId(7), kind)), (JobId(7), kind));
        }
    }
}
