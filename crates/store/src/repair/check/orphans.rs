//! Orphans: objects that no file names, looked for once every name of the volume was seen.

use super::look::Found;
use super::{CheckOptions, Checker, Finding, FindingKind, Outcome};
use crate::Result;
use crate::file::File;
use crate::target::TargetError;
use policy::{ObjectId, TargetId};
use rustix::fd::BorrowedFd;
use rustix::fs::{self, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashSet;
use std::sync::Arc;

impl Checker {
    /// Objects of files that have no name in the tree: being staged in, or unlinked and still open.
    pub(super) fn look_beside(&self, found: &mut Found) {
        let mut files = self.files.files();
        for (dir, name) in [(self.volume.staging(), "staging"), (self.volume.open_links(), "open")] {
            if let Err(e) = self.stubs_in(dir, &mut files) {
                found.unseen(format!("`{name}` in the namespace"), e);
            }
        }
        let layouts = files.iter().filter_map(|f| f.layout());
        for object in layouts.flat_map(|l| l.objects().map(|(_, o)| o.id).collect::<Vec<_>>()) {
            found.named.entry(object).or_default();
        }
        for object in self.files.pool().kept.objects() {
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

    /// Whether no directory changed since it was read: only then was every name seen.
    pub(super) fn is_unchanged(&self, found: &Found) -> bool {
        found.directories.iter().all(|(names, at)| {
            let stat = self.open(names, OFlags::RDONLY).and_then(|fd| Ok(fs::fstat(fd)?));
            stat.is_ok_and(|s| (s.st_mtime, s.st_mtime_nsec) == *at)
        })
    }

    /// Objects from before this daemon that nobody names. Those that a move under way leaves are named by the journal, or gone by now.
    pub(super) fn find_orphans(&self, found: &mut Found, options: &CheckOptions) -> Result<()> {
        let epoch = u64::from(self.volume.epoch());
        let unnamed = |found: &Found, object: &ObjectId| object.0 >> 32 < epoch && !found.named.contains_key(object);
        let unnamed = |(target, objects): (&TargetId, &HashSet<ObjectId>)| {
            let mut unnamed: Vec<_> = objects.iter().filter(|o| unnamed(found, o)).map(|o| (*target, *o)).collect();
            unnamed.sort();
            unnamed
        };
        let mut orphans: Vec<_> = found.there.iter().flat_map(unnamed).collect();
        if orphans.is_empty() {
            return Ok(());
        }
        let answered_for = self.mover.answered_for()?;
        orphans.retain(|orphan| !answered_for.contains(orphan) && self.is_there(*orphan));
        let unknown = self.volume.unknown_epochs()?.filter(|_| !options.drop_unknown);
        for (target, object) in orphans {
            let known = unknown.as_ref().is_none_or(|epochs| !epochs.contains(&((object.0 >> 32) as u32)));
            let outcome = if known {
                found.orphans.push((found.report.findings.len(), (target, object)));
                Outcome::Repairable
            } else {
                Outcome::Failed(
                    "it is younger than the backup of namespace or state that was put back, and stays: a later backup may name it. \
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
