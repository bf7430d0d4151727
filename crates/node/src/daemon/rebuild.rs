//! Automatic rebuild: objects of failed targets are rebuilt elsewhere from another mirror, and stale mirrors are
//! resynced.
//!
//! One pass walks the whole tree, and then rebuilds the damaged files in the order of repair. It keeps only the keys of
//! the order, and opens each file when its turn comes. Files without a healthy mirror are skipped: a read or a check
//! recovers them from their source. For the input of waiting jobs, `jobs::availability` does so.

use super::walk::walk;
use crate::control::answers::FilesAway;
use crate::{Error, Result};
use engine::durable_names::DurableNames;
use engine::file::{File, FileTable, targets_of};
use engine::mover::{Mover, said};
use engine::recovery::Starts;
use engine::volume::Volume;
use object::target::Targets;
use policy::TargetId;
use policy::layout::{Layout, Mirror, MirrorState, Position, Reason, object_len};
use policy::protect::repair_order::{Candidate, RepairQueue};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum of damaged files of a pass; the least urgent are left to the next pass. A guess: some 60 MB of memory.
const DAMAGED_MAX: usize = 1_000_000;

/// Progress of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rebuilt {
    /// Number of files rebuilt.
    pub files: u64,
    /// Files in use in a way that excludes a move.
    pub busy: u64,
    /// Files that could not be rebuilt now.
    pub failed: u64,
    /// Reason of the first failure.
    pub why: Option<String>,
    /// Files that cannot be read while their targets are away.
    pub away: FilesAway,
    /// Files that are left to the next pass, because the more urgent ones reached the maximum of a pass.
    pub left_out: u64,
}

impl Rebuilt {
    /// Whether no work is left.
    pub fn is_complete(&self) -> bool {
        self.busy + self.failed + self.left_out == 0
    }

    fn fails(&mut self, why: String) {
        self.failed += 1;
        self.why.get_or_insert(why);
    }

    /// Progress, a line for people; `None` if nothing was to be rebuilt.
    pub fn line(&self, is_running: bool) -> Option<String> {
        let left = match (&self.why, self.busy + self.failed) {
            (_, 0) if self.files == 0 => return None,
            (_, 0) => String::new(),
            (None, n) => format!(", {n} in use: tried again"),
            (Some(why), n) => format!(", {n} cannot be rebuilt now ({why}): tried again"),
        };
        let what = if is_running { "looking for files to rebuild" } else { "files rebuilt" };
        Some(format!("{what}: {} made whole{left}", self.files))
    }
}

/// One pass over all files. `go_on` receives the progress before each file and returns whether to go on.
pub(super) fn pass(
    volume: &Volume,
    files: &FileTable,
    mover: &Mover,
    names: &DurableNames,
    starts: &Starts,
    mut go_on: impl FnMut(&Rebuilt) -> bool,
) -> Result<Rebuilt> {
    let (mut rebuilt, mut queue) = (Rebuilt::default(), RepairQueue::new(DAMAGED_MAX));
    let targets = volume.targets();
    let mut edition = starts.edition();
    for file in walk(volume, files)? {
        if !go_on(&rebuilt) {
            return Ok(rebuilt);
        }
        let file = match file {
            Ok(file) => file,
            Err(error) => {
                rebuilt.fails(error.to_string());
                continue;
            }
        };
        if names.any_rolled_back() {
            give_back(&file, names, &mut rebuilt);
        }
        if is_away(&file, targets) {
            rebuilt.away.files += 1;
            rebuilt.away.bytes += file.size();
        }
        match damage(&file, targets, starts) {
            Some(candidate) if file.note_place(candidate.file) => queue.add(&candidate),
            // A file that is being staged in has no path in the tree by which it could be opened again.
            Some(_) => rebuild(&file, targets, mover, &mut rebuilt),
            None => {}
        }
    }
    rebuilt.left_out = queue.left_out();
    loop {
        if starts.edition() != edition {
            edition = starts.edition();
            queue.sort(|file| starts.of(file));
        }
        let Some(id) = queue.pop() else { return Ok(rebuilt) };
        if !go_on(&rebuilt) {
            return Ok(rebuilt);
        }
        match files.noted(id) {
            Some(file) if damage(&file, targets, starts).is_some() => rebuild(&file, targets, mover, &mut rebuilt),
            Some(_) => {}
            None => rebuilt.busy += 1, // renamed or removed: the next pass shows it
        }
    }
}

/// Restores objects that a loss of power removed before they were durable.
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
        Err(error) => rebuilt.fails(error.to_string()),
    }
}

/// Rebuilds a file and counts the result.
fn rebuild(file: &Arc<File>, targets: &Targets, mover: &Mover, rebuilt: &mut Rebuilt) {
    match make_whole(file, targets, mover) {
        Ok(()) => rebuilt.files += 1,
        Err(Error::Busy(_)) => rebuilt.busy += 1,
        Err(error) => {
            let name = file.id().map_or_else(String::new, |id| file.pool().name_of(id));
            rebuilt.fails(format!("{name}: {}", said(targets, &error)));
        }
    }
}

/// The candidate for the rebuild of a file, if it needs one and has a source for it.
fn damage(file: &File, targets: &Targets, starts: &Starts) -> Option<Candidate> {
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
    // Two mirrors that each lost a part may together still have all bytes.
    if healthy_copies == 0 && layout.in_sync_count() < 2 {
        return None;
    }
    let size = file.size();
    let mut lost = layout
        .objects()
        .filter(|(at, o)| failed.contains(&o.target) || layout.mirrors[at.mirror].state == MirrorState::Stale);
    let bytes = |at: Position| object_len(&layout.mirrors[at.mirror].segments[at.segment], at.index, size);
    let (first, object) = lost.next()?;
    Some(Candidate {
        file: layout.file,
        object: object.id,
        job_start: starts.of(layout.file),
        healthy_copies,
        bytes: bytes(first) + lost.map(|(at, _)| bytes(at)).sum::<u64>(),
    })
}

fn is_away(file: &File, targets: &Targets) -> bool {
    let Some(layout) = file.layout() else { return false };
    let failed = failed_targets(&layout, targets);
    let is_whole = |mirror: &Mirror| targets_of(mirror).all(|target| !failed.contains(&target));
    let mut in_sync = layout.mirrors.iter().filter(|mirror| mirror.state == MirrorState::InSync);
    file.size() > 0 && !failed.is_empty() && !file.is_recoverable() && !in_sync.any(is_whole)
}

fn failed_targets(layout: &Layout, targets: &Targets) -> BTreeSet<TargetId> {
    let is_failed = |id: &TargetId| targets.get(*id).is_none_or(|t| t.is_given_up());
    layout.objects().map(|(_, o)| o.target).filter(is_failed).collect()
}

fn make_whole(file: &Arc<File>, targets: &Targets, mover: &Mover) -> Result<()> {
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
