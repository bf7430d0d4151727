//! Rebuild by itself: what a failed target held of files with another mirror is made anew elsewhere, and stale mirrors
//! are resynced.
//!
//! One pass walks the whole tree, a batch of files at a time; within a batch the order of repair decides. Files without
//! a healthy mirror are left alone: they are recovered from their source when somebody reads them or asks for a check, and
//! the input of waiting jobs by `jobs::availability`.

use super::walk::walk;
use crate::durable_names::DurableNames;
use crate::file::{File, FileTable};
use crate::mover::Mover;
use crate::recovery::Starts;
use crate::target::Targets;
use crate::volume::Volume;
use crate::{Error, Result};
use policy::TargetId;
use policy::layout::{Layout, MirrorState, Position, Reason, object_len};
use policy::protect::repair_order::{self, repair_order};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Files looked at before the most urgent of them is rebuilt. Each is open meanwhile.
const BATCH: usize = 128;

/// How far a pass is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rebuilt {
    /// Files rebuilt.
    pub files: u64,
    /// Files in use in a way that excludes a move.
    pub busy: u64,
    /// Files that could not be rebuilt now.
    pub failed: u64,
    /// Why the first of them could not.
    pub why: Option<String>,
}

impl Rebuilt {
    /// Whether nothing is left to be done.
    pub fn is_complete(&self) -> bool {
        self.busy + self.failed == 0
    }
}

/// One pass over all files. `go_on` is told how far it is before each file and says whether to go on.
pub(super) fn pass(
    volume: &Volume,
    files: &FileTable,
    mover: &Mover,
    names: &DurableNames,
    starts: &Starts,
    mut go_on: impl FnMut(&Rebuilt) -> bool,
) -> Result<Rebuilt> {
    let mut rebuilt = Rebuilt::default();
    let mut batch: Vec<(repair_order::Candidate, Arc<File>)> = Vec::new();
    for file in walk(volume, files)? {
        match file {
            Ok(file) => {
                if names.any_rolled_back() {
                    give_back(&file, names, &mut rebuilt);
                }
                batch.extend(due(&file, volume.targets(), starts).map(|candidate| (candidate, file)));
            }
            Err(error) => {
                rebuilt.failed += 1;
                rebuilt.why.get_or_insert(error.to_string());
            }
        }
        if batch.len() >= BATCH && !rebuild_all(&mut batch, volume.targets(), mover, &mut rebuilt, &mut go_on) {
            return Ok(rebuilt);
        }
    }
    rebuild_all(&mut batch, volume.targets(), mover, &mut rebuilt, &mut go_on);
    Ok(rebuilt)
}

/// Gives a file the objects back that a loss of power took before they were durable.
fn give_back(file: &Arc<File>, names: &DurableNames, rebuilt: &mut Rebuilt) {
    match file.restore_rolled_back(|target, object| names.is_rolled_back(target, object)) {
        Ok(0) => {}
        Ok(objects) => {
            tracing::info!(
                file = file.id().map(|id| id.to_string()),
                "{objects} objects that were lost with the power before any sync are there again, empty"
            );
            rebuilt.files += 1;
        }
        Err(error) => {
            rebuilt.failed += 1;
            rebuilt.why.get_or_insert(error.to_string());
        }
    }
}

/// Mends a batch in the order of repair; whether to go on.
fn rebuild_all(
    batch: &mut Vec<(repair_order::Candidate, Arc<File>)>,
    targets: &Targets,
    mover: &Mover,
    rebuilt: &mut Rebuilt,
    go_on: &mut impl FnMut(&Rebuilt) -> bool,
) -> bool {
    let mut order: Vec<_> = batch.iter().map(|(candidate, _)| *candidate).collect();
    repair_order(&mut order);
    for candidate in order {
        if !go_on(rebuilt) {
            return false;
        }
        let Some(at) = batch.iter().position(|(c, _)| *c == candidate) else { continue };
        let (_, file) = batch.swap_remove(at);
        match rebuild(&file, targets, mover) {
            Ok(()) => rebuilt.files += 1,
            Err(Error::Busy(_)) => rebuilt.busy += 1,
            Err(error) => {
                rebuilt.failed += 1;
                rebuilt.why.get_or_insert(format!("{}: {error}", file.pool().name_of(candidate.file)));
            }
        }
    }
    batch.clear();
    true
}

/// What is to be rebuilt of a file, if anything is and something is there to rebuild it from.
fn due(file: &File, targets: &Targets, starts: &Starts) -> Option<repair_order::Candidate> {
    let layout = file.layout()?;
    let failed = failed_targets(&layout, targets);
    let stale = layout.mirrors.iter().any(|m| m.state == MirrorState::Stale);
    if failed.is_empty() && !stale {
        return None;
    }
    let is_whole = |m: usize| {
        let mut objects = layout.objects().filter(|(at, _)| at.mirror == m);
        layout.mirrors[m].state == MirrorState::InSync && objects.all(|(_, o)| !failed.contains(&o.target))
    };
    let healthy_copies = (0..layout.mirrors.len()).filter(|m| is_whole(*m)).count() as u32;
    // Two mirrors that each lost something may still have everything between them.
    if healthy_copies == 0 && layout.in_sync_count() < 2 {
        return None;
    }
    let size = file.size();
    let mut lost = layout
        .objects()
        .filter(|(at, o)| failed.contains(&o.target) || layout.mirrors[at.mirror].state == MirrorState::Stale);
    let bytes = |at: Position| object_len(&layout.mirrors[at.mirror].segments[at.segment], at.index, size);
    let (first, object) = lost.next()?;
    Some(repair_order::Candidate {
        file: layout.file,
        object: object.id,
        job_start: starts.of(layout.file),
        healthy_copies,
        bytes: bytes(first) + lost.map(|(at, _)| bytes(at)).sum::<u64>(),
    })
}

fn failed_targets(layout: &Layout, targets: &Targets) -> BTreeSet<TargetId> {
    let is_failed = |id: &TargetId| targets.get(*id).is_none_or(|t| t.is_given_up());
    layout.objects().map(|(_, o)| o.target).filter(is_failed).collect()
}

fn rebuild(file: &Arc<File>, targets: &Targets, mover: &Mover) -> Result<()> {
    let Some(layout) = file.layout() else { return Ok(()) };
    for target in failed_targets(&layout, targets) {
        mover.replace_target(file, target, Reason::FailedOver(target))?;
    }
    match file.layout() {
        Some(layout) if layout.mirrors.iter().any(|m| m.state == MirrorState::Stale) => mover.resync(file).map(drop),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
