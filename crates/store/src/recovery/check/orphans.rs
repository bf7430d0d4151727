//! Orphans: objects that no file names, looked for once every name of the volume was seen.

use super::look::Found;
use super::{CheckOptions, Checker, Finding, FindingKind, Outcome};
use crate::Result;
use crate::file::File;
use crate::stage::Stop;
use crate::target::TargetError;
use policy::{ObjectId, TargetId};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{self, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// How often directories that change meanwhile are read again. A guess.
const ROUNDS_MAX: usize = 4;

/// The kernel's times of files may stand still for so long: a tick of 100 Hz. Linux 6.13 and later give each change that was looked at
/// a time of its own.
const CLOCK_STEP: Duration = Duration::from_millis(10);

pub(super) const NOT_ALL_SEEN: &str = "not everything was seen, so that some file may name it";

/// What is no orphan, as it was when the targets had said what they have.
pub(super) struct Before {
    pub making: HashSet<ObjectId>,
    /// How many slow copies had gone back into layouts.
    pub returned: u64,
}

/// What is known when objects are judged.
pub(super) struct Known<'a> {
    /// Every name was seen.
    pub all_names: bool,
    /// Objects that were being made.
    pub making: &'a HashSet<ObjectId>,
    /// The upper halves of the numbers of objects that only nodes make who said so.
    pub heard: &'a BTreeSet<u32>,
}

/// What somebody answers for, and whether slow copies went back into layouts meanwhile.
pub(super) type Answered = (HashSet<(TargetId, ObjectId)>, bool);

/// What tells whether names came or went in a directory. Its time is that of change, which users cannot set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    changed: (i64, u64),
}

impl Stamp {
    fn now(directory: &OwnedFd) -> Result<Stamp> {
        let stat = fs::fstat(directory)?;
        Ok(Stamp { inode: stat.st_ino, changed: (stat.st_ctime, stat.st_ctime_nsec) })
    }

    /// One that a change from now on changes: waits while that could get the same time.
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
    /// To be asked after the targets, and before any layout is read. With `fences` claims of nodes that are over are ended meanwhile.
    pub(super) fn before_layouts(&self, fences: bool) -> Before {
        let pool = self.files.pool();
        let epoch = pool.cluster.get().filter(|_| fences).map(|cluster| cluster.epoch());
        Before { making: pool.making.objects(epoch), returned: pool.slow_copies.returned() }
    }

    /// Objects of files that have no name in the tree: being staged in, or unlinked and still open. Those that other nodes have
    /// open, too, with `of_all`.
    pub(super) fn look_beside(&self, found: &mut Found, of_all: bool) {
        let mut files = self.files.files();
        for (dir, name) in [(self.volume.staging(), "staging"), (self.volume.open_links(), "open")] {
            if !of_all {
                break;
            }
            if let Err(e) = self.stubs_in(dir, &mut files) {
                found.unseen(format!("`{name}` in the namespace"), e);
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
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let fd = match fs::openat(dir, entry.file_name(), flags, Mode::empty()) {
                Err(Errno::NOENT) => continue,
                opened => opened?,
            };
            if FileType::from_raw_mode(fs::fstat(&fd)?.st_mode) == FileType::RegularFile && is_stub(entry.file_name()) {
                files.push(self.files.get_or_open(fd)?);
            }
        }
        Ok(())
    }

    /// Reads again the directories that changed since they were read: a name may have gone from one that was not read yet to one that
    /// was. Whether every name was seen in the end.
    fn catch_up(&self, found: &mut Found, stop: &Stop) -> Result<bool> {
        for _ in 0..ROUNDS_MAX {
            if !self.look_again(found, stop)? {
                return Ok(true);
            }
        }
        Ok(self.changed(found).is_empty())
    }

    /// One such round. Whether there were any.
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

    /// Objects that no file names. To be called when the tree was walked; `before` is from before that.
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

    /// Which of the objects in the lists are nobody's. What is answered for is asked when there are any to be judged.
    pub(super) fn judge(
        &self,
        found: &mut Found,
        known: &Known<'_>,
        options: &CheckOptions,
        answered: impl FnOnce() -> Result<Answered>,
    ) -> Result<()> {
        if !known.all_names {
            found.unseen("the tree".into(), "it changed while it was looked through; check again when it is quiet");
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
            found.unseen(
                "the tiers".into(),
                "a segment went back to its slow copy while they were looked at; check again",
            );
            return Ok(());
        }
        let cluster = self.files.pool().cluster.get();
        let is_heard =
            |epoch: u32| known.heard.contains(&epoch) || cluster.is_none_or(|c| !c.may_be_used_by_another(epoch));
        orphans.retain(|orphan| !answered_for.contains(orphan) && is_heard(orphan.1.epoch()) && self.is_there(*orphan));
        self.note_orphans(found, orphans, options)
    }

    /// Whether all names and all targets are there.
    fn look_whether_whole(&self, found: &mut Found, options: &CheckOptions) -> Result<()> {
        if !options.drop_unknown && !self.volume.namespace_is_whole()? {
            found.unseen(
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
            (finding.object, finding.target) = (object.to_string(), self.name_of(target));
            found.report.findings.push(finding);
        }
        Ok(())
    }

    fn is_there(&self, (target, object): (TargetId, ObjectId)) -> bool {
        let opened = self.volume.targets().get(target).map(|t| t.run(move |medium| medium.open(object).map(drop)));
        !matches!(opened, Some(Err(TargetError::Io(Errno::NOENT))))
    }
}

/// Whether a name in `staging` or `open` is that of a stub.
fn is_stub(name: &std::ffi::CStr) -> bool {
    !name.to_bytes().starts_with(b".") && !name.to_bytes().contains(&b'.')
}
