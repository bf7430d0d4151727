//! Orphans: objects that no file names, searched once every name of the volume was seen.
//!
//! Part of a shared file system may be away while directories are listed, and be back when the file system is checked.
//! So an orphan is removed only if two whole scans, one after the other, find no name of it. Objects newer than the
//! first scan stay.

use super::look::Found;
use super::{CheckOptions, Checker, Finding, FindingKind, Outcome};
use crate::Result;
use crate::file::File;
use crate::stage::Stop;
use object::host::fstat;
use object::target::TargetError;
use policy::{ObjectId, TargetId};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Dir, OFlags};
use rustix::io::Errno;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// Maximum of rounds in which directories that changed during the scan are read again. A guess.
const ROUNDS_MAX: usize = 4;

/// Longest time for which the kernel's file times may stand still: a tick of 100 Hz. Linux 6.13 and later give each
/// change after a read of the time a time of its own.
const CLOCK_STEP: Duration = Duration::from_millis(10);

pub(super) const NOT_ALL_SEEN: &str = "the check was incomplete, so a file may name it";

/// Objects that are no orphans, as of the time when the targets had listed their objects.
pub(super) struct Before {
    pub making: HashSet<ObjectId>,
    /// Number of slow copies that had returned into layouts.
    pub returned: u64,
}

/// State of knowledge when objects are judged.
pub(super) struct Known<'a> {
    /// Whether every name was seen.
    pub all_names: bool,
    /// Objects that were being created.
    pub making: &'a HashSet<ObjectId>,
    /// Epochs of the nodes that answered; the upper half of an object number is the epoch of its maker.
    pub heard: &'a BTreeSet<u32>,
}

/// Objects that a node answers for, and whether slow copies returned into layouts in between.
pub(super) type Answered = (HashSet<(TargetId, ObjectId)>, bool);

/// Detects changed names in a directory: by its change time, which users cannot set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    changed: (i64, u64),
}

impl Stamp {
    fn now(directory: &OwnedFd) -> Result<Stamp> {
        let stat = fstat(directory)?;
        Ok(Stamp { inode: stat.st_ino, changed: (stat.st_ctime, stat.st_ctime_nsec) })
    }

    /// A stamp that any later change alters: waits while a change could get the same time.
    pub fn before_reading(directory: &OwnedFd) -> Result<Stamp> {
        for _ in 0..2 {
            let stamp = Stamp::now(directory)?;
            let clock = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
            let (seconds, ns) = stamp.changed;
            let age_ns = (i128::from(clock.tv_sec) - i128::from(seconds)) * 1_000_000_000 + i128::from(clock.tv_nsec)
                - i128::from(ns);
            if !(0..CLOCK_STEP.as_nanos() as i128).contains(&age_ns) {
                return Ok(stamp);
            }
            std::thread::sleep(CLOCK_STEP);
        }
        Ok(Stamp { changed: (0, 0), ..Stamp::now(directory)? }) // it never stops changing
    }
}

impl Checker {
    /// Must be called after listing the targets and before reading any layout. With `fences`, the scan also ends
    /// claims of nodes that are over.
    pub(super) fn before_layouts(&self, fences: bool) -> Before {
        let pool = self.files.pool();
        let epoch = pool.cluster.get().filter(|_| fences).map(|cluster| cluster.epoch());
        Before { making: pool.making.objects(epoch), returned: pool.slow_copies.returned() }
    }

    /// Scans objects of files without a name in the tree: being staged in, or unlinked and still open. With `of_all`,
    /// also files that other nodes have open.
    pub(super) fn look_beside(&self, found: &mut Found, of_all: bool) {
        let mut files = self.files.files();
        for (dir, name) in [(self.volume.staging(), "staging"), (self.volume.open_links(), "open")] {
            if !of_all {
                break;
            }
            if let Err(e) = self.stubs_in(dir, &mut files) {
                found.unscanned(format!("`{name}` in the namespace"), e);
            }
        }
        let layouts = files.iter().filter_map(|f| f.layout());
        for object in layouts.flat_map(|l| l.objects().map(|(_, o)| o.id).collect::<Vec<_>>()) {
            found.named.entry(object).or_default();
        }
    }

    fn stubs_in(&self, dir: BorrowedFd<'_>, files: &mut Vec<Arc<File>>) -> Result<()> {
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            if is_stub(entry.file_name()) {
                files.extend(self.files.open_at(dir, entry.file_name())?);
            }
        }
        Ok(())
    }

    /// Reads the directories again that changed since they were read: a name may have moved from an unread directory
    /// to one that was read. Returns whether every name was seen in the end.
    fn catch_up(&self, found: &mut Found, stop: &Stop) -> Result<bool> {
        for _ in 0..ROUNDS_MAX {
            if !self.look_again(found, stop)? {
                return Ok(true);
            }
        }
        Ok(self.changed(found).is_empty())
    }

    /// Executes one such round. Returns whether any directory had changed.
    pub(super) fn look_again(&self, found: &mut Found, stop: &Stop) -> Result<bool> {
        let changed = self.changed(found);
        for names in &changed {
            found.directories.remove(names);
            self.walk(names, found, stop)?;
        }
        Ok(!changed.is_empty())
    }

    fn changed(&self, found: &Found) -> Vec<Vec<String>> {
        let is_as_read = |names: &[String], read: &Stamp| {
            self.open(names, OFlags::RDONLY).is_ok_and(|fd| Stamp::now(&fd).is_ok_and(|now| now == *read))
        };
        found
            .directories
            .iter()
            .filter(|(names, read)| !is_as_read(names, read))
            .map(|(names, _)| names.clone())
            .collect()
    }

    /// Finds objects that no file names. Must be called after the walk of the tree; `before` is from before the walk.
    pub(super) fn find_orphans(
        &self,
        found: &mut Found,
        before: &Before,
        options: &CheckOptions,
        stop: &Stop,
    ) -> Result<()> {
        let all_names = self.catch_up(found, stop)?;
        self.look_beside(found, true);
        if stop.is_set() {
            found.unseen("the look".into(), "it was stopped");
        }
        let known = Known { all_names, making: &before.making, heard: &BTreeSet::new() };
        self.judge(found, &known, options, || {
            let answered_for = self.mover.answered_for()?;
            Ok((answered_for, self.files.pool().slow_copies.returned() != before.returned))
        })
    }

    /// Judges which of the listed objects are orphans. `answered` is called only if there are candidates.
    pub(super) fn judge(
        &self,
        found: &mut Found,
        known: &Known<'_>,
        options: &CheckOptions,
        answered: impl FnOnce() -> Result<Answered>,
    ) -> Result<()> {
        if !known.all_names {
            found.unseen("the tree".into(), "it changed during the scan; check again when it is idle");
        }
        self.look_whether_whole(found, options)?;
        let unnamed = |object: &ObjectId| !known.making.contains(object) && !found.named.contains_key(object);
        let unnamed = |(target, objects): (&TargetId, &HashSet<ObjectId>)| {
            let mut unnamed: Vec<_> = objects.iter().filter(|o| unnamed(o)).map(|o| (*target, *o)).collect();
            unnamed.sort();
            unnamed
        };
        let mut orphans: Vec<_> = found.there.iter().flat_map(unnamed).collect();
        if orphans.is_empty() || !known.all_names {
            return Ok(());
        }
        let (answered_for, returned) = answered()?;
        if returned {
            found.unseen("the tiers".into(), "a segment went back to its slow copy during the check; check again");
            return Ok(());
        }
        let cluster = self.files.pool().cluster.get();
        let mut unheard: BTreeSet<u32> = orphans.iter().map(|(_, object)| object.epoch()).collect();
        unheard.retain(|epoch| {
            !known.heard.contains(epoch) && cluster.is_some_and(|cluster| cluster.may_be_used_by_another(*epoch))
        });
        let is_unheard = |object: ObjectId| unheard.contains(&object.epoch());
        orphans.retain(|of| !answered_for.contains(of) && !is_unheard(of.1) && self.is_there(*of));
        self.note_orphans(found, orphans, options)
    }

    /// Checks before and after each scan whether all names and all targets are present.
    pub(super) fn look_whether_whole(&self, found: &mut Found, options: &CheckOptions) -> Result<()> {
        if !options.drop_unknown && !self.volume.namespace_is_whole()? {
            found.unscanned(
                "the namespace".into(),
                "its file system is smaller than it was: a server of it may be away, and the names there are not listed. When all are back, \
                 check again; if it is meant to be smaller, `entrepot check --repair --drop-unknown`",
            );
        }
        for target in found.report.targets_away.clone() {
            found.unseen(format!("target {target}"), "it is away");
        }
        for target in found.report.targets_elsewhere.clone() {
            found.unseen(format!("target {target}"), "this node does not reach it");
        }
        Ok(())
    }

    fn note_orphans(
        &self,
        found: &mut Found,
        orphans: Vec<(TargetId, ObjectId)>,
        options: &CheckOptions,
    ) -> Result<()> {
        let complete = found.report.unseen.is_empty();
        let unknown = self.volume.unknown_epochs()?.filter(|_| !options.drop_unknown);
        for (target, object) in orphans {
            let known = unknown.as_ref().is_none_or(|epochs| !epochs.contains(&object.epoch()));
            let outcome = if !complete {
                Outcome::Failed(NOT_ALL_SEEN.into())
            } else if known {
                found.orphans.push((found.report.findings.len(), (target, object)));
                Outcome::Repairable
            } else {
                Outcome::Failed(
                    "it may be younger than the namespace or state that was put back or rebuilt, and stays: a later backup may name it. \
                     With none, `entrepot check --repair --drop-unknown` removes such objects"
                        .into(),
                )
            };
            let mut finding = Finding::of(&[], FindingKind::Orphan, outcome);
            (finding.object, finding.target) = (object.to_string(), self.volume.targets().name_of(target));
            found.report.findings.push(finding);
        }
        Ok(())
    }

    /// Scans a second time for names of the orphans.
    pub(super) fn confirm(&self, found: &mut Found, options: &CheckOptions, stop: &Stop) -> Result<()> {
        if found.orphans.is_empty() {
            return Ok(());
        }
        let mut second = found.candidates_of_second();
        self.ask_orphans_targets(&mut second);
        let options = options.of_second();
        self.look_whether_whole(&mut second, &options)?;
        let before = self.before_layouts(false);
        self.walk(&[], &mut second, stop)?;
        self.find_orphans(&mut second, &before, &options, stop)?;
        found.confirm(second);
        Ok(())
    }

    /// Checks again which targets answer; the lists stay those of the first scan.
    pub(super) fn ask_orphans_targets(&self, second: &mut Found) {
        let lists = std::mem::take(&mut second.there);
        self.ask_targets(second, false);
        second.there = lists;
    }

    fn is_there(&self, (target, object): (TargetId, ObjectId)) -> bool {
        let opened = self.volume.targets().get(target).map(|t| t.run(move |medium| medium.open(object).map(drop)));
        !matches!(opened, Some(Err(TargetError::Io(Errno::NOENT))))
    }
}

impl CheckOptions {
    /// Options of the second scan, which searches only for names of orphans.
    pub(super) fn of_second(&self) -> CheckOptions {
        CheckOptions { only_left: true, drop_unknown: self.drop_unknown, ..CheckOptions::default() }
    }
}

impl Found {
    /// The start of a second scan, whose objects are the orphans of this one.
    pub fn candidates_of_second(&self) -> Found {
        let mut second = Found { only_left: true, rests: self.rests, ..Found::default() };
        for (_, (target, object)) in &self.orphans {
            second.there.entry(*target).or_default().insert(*object);
        }
        second
    }

    /// Keeps the orphans that the second scan confirms; none if either scan was incomplete.
    pub fn confirm(&mut self, second: Found) {
        if self.orphans.iter().any(|(_, (_, object))| second.named.contains_key(object)) {
            let why = "files were listed in the second scan and not in the first; check again when all servers of its file system are there";
            self.unseen("the namespace".into(), why);
        }
        for why in second.report.unseen {
            if !self.report.unseen.contains(&why) {
                self.report.unseen.push(why);
            }
        }
        let complete = self.report.unseen.is_empty();
        let confirmed: HashSet<_> = second.orphans.into_iter().map(|(_, orphan)| orphan).collect();
        for (finding, orphan) in std::mem::take(&mut self.orphans) {
            match (complete, confirmed.contains(&orphan)) {
                (true, true) => self.orphans.push((finding, orphan)),
                // The object was being removed during the first scan, or a node answers for it by now.
                (true, false) => self.report.findings[finding].outcome = Outcome::Repaired,
                (false, _) => self.report.findings[finding].outcome = Outcome::Failed(NOT_ALL_SEEN.into()),
            }
        }
    }
}

/// Whether a name in `staging` or `open` is that of a stub.
fn is_stub(name: &std::ffi::CStr) -> bool {
    !name.to_bytes().starts_with(b".") && !name.to_bytes().contains(&b'.')
}
