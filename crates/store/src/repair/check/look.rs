//! Looking: all targets asked in parallel, the tree walked, every object of every layout compared with what is there.

use super::{CheckOptions, Checker, Finding, FindingKind, Outcome, Report};
use crate::file::File;
use crate::origin::{Identity, Record};
use crate::stage::place::{names, open_at};
use crate::stage::sums::Sums;
use crate::stage::{StageError, Stop};
use crate::{Error, Result};
use policy::layout::{Layout, MirrorState, Object, ObjectState, Position, object_len};
use policy::{FileId, ObjectId, TargetId};
use rustix::fd::OwnedFd;
use rustix::fs::{self, Dir, FileType, Mode, OFlags};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

/// What a look found, and what mending needs to know of it.
#[derive(Default)]
pub(super) struct Found {
    pub report: Report,
    /// What can be mended, by the finding's index.
    pub candidates: Vec<Candidate>,
    /// The files with a layout.
    pub files: Vec<FileId>,
    /// All objects that some layout names.
    pub named: HashSet<ObjectId>,
    /// Whether the whole tree was seen and did not change meanwhile.
    pub complete: bool,
    /// What each target that answered has.
    pub there: BTreeMap<TargetId, HashSet<ObjectId>>,
    pub seen: BTreeSet<(u64, u64)>,
    /// The directories that were walked, with their times of change.
    pub directories: Vec<(Vec<String>, (i64, u64))>,
}

/// Something lost of one file.
#[derive(Clone)]
pub(super) struct Candidate {
    pub finding: usize,
    pub path: Vec<String>,
    pub file: FileId,
    pub at: Position,
    pub object: Object,
    pub bytes: u64,
    pub healthy_copies: u32,
    pub recoverable: bool,
}

/// The daemon looks with its own rights; who may ask for a check is decided before.
pub(super) fn daemon() -> Identity {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Identity { uid, gid, ..Identity::default() }
}

impl Checker {
    pub(super) fn look(&self, options: &CheckOptions, stop: &Stop) -> Result<Found> {
        let mut found = Found::default();
        let everything = options.paths.is_empty() && options.before_job.is_empty();
        let mut paths = Vec::new();
        for path in options.before_job.iter().chain(&options.paths) {
            paths.push(names(path).map_err(|e| Error::Invalid(e.to_string()))?);
        }
        self.ask_targets(&mut found, everything || paths.iter().any(|names| self.is_directory(names)));
        if everything {
            self.walk(&[], &mut found, stop)?;
            self.look_beside(&mut found);
            found.complete = !stop.is_set() && self.is_unchanged(&found);
            self.find_orphans(&mut found)?;
        } else {
            for names in &paths {
                self.walk(names, &mut found, stop)?;
            }
        }
        Ok(found)
    }

    fn is_directory(&self, names: &[String]) -> bool {
        self.open(names, OFlags::RDONLY | OFlags::DIRECTORY).is_ok()
    }

    /// Which targets answer, and with `lists` what each of them has; all are asked at the same time. For a few files their
    /// objects are looked for one by one instead: a list is as long as the volume is large.
    pub(super) fn ask_targets(&self, found: &mut Found, lists: bool) {
        let targets = self.volume.targets();
        let unwell: BTreeSet<TargetId> = targets.probe_all().into_iter().collect();
        let all = targets.all();
        let asked: Vec<_> = all
            .iter()
            .map(|t| (t, t.submit(move |medium| if lists { medium.list() } else { Ok(Vec::new()) })))
            .collect();
        for (target, answer) in asked {
            let answer = answer.wait();
            match answer {
                Ok(objects) if target.state().accepts_io() && !unwell.contains(&target.id()) => {
                    found.there.insert(target.id(), objects.into_iter().collect());
                }
                _ => found.report.targets_away.push(target.name().to_string()),
            }
        }
    }

    /// Looks at a file, or at all files of a directory.
    pub(super) fn walk(&self, names: &[String], found: &mut Found, stop: &Stop) -> Result<()> {
        let mut todo = vec![names.to_vec()];
        while let Some(names) = todo.pop() {
            if stop.is_set() {
                break;
            }
            let fd = match self.open(&names, OFlags::RDONLY) {
                Ok(fd) => fd,
                Err(e) if names.is_empty() => return Err(e),
                Err(_) => continue, // removed meanwhile, a link, or nothing that holds data
            };
            let stat = fs::fstat(&fd)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    found.directories.push((names.clone(), (stat.st_mtime, stat.st_mtime_nsec)));
                    for entry in Dir::new(fd)? {
                        // What is no UTF-8 has no path that could be shown; its objects must still be known.
                        let entry = entry?;
                        let name = entry.file_name().to_string_lossy().into_owned();
                        let plain = entry.file_name().to_str().is_ok() && !name.chars().any(char::is_control);
                        if name == "." || name == ".." {
                            continue;
                        }
                        if !plain {
                            found.directories.push((vec![name], (i64::MIN, 0))); // never unchanged: nothing is swept
                            continue;
                        }
                        let mut inner = names.clone();
                        inner.push(name);
                        todo.push(inner);
                    }
                }
                FileType::RegularFile if found.seen.insert((stat.st_dev, stat.st_ino)) => {
                    self.look_at(fd, &names, found);
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn open(&self, names: &[String], flags: OFlags) -> Result<OwnedFd> {
        let opened = open_at(self.volume.tree(), names, flags | OFlags::NOFOLLOW, &daemon());
        opened.map_err(|e| match e {
            StageError::Store(e) => e,
            other => Error::Invalid(other.to_string()),
        })
    }

    fn look_at(&self, fd: OwnedFd, names: &[String], found: &mut Found) {
        found.report.files += 1;
        match self.files.get_or_open(fd) {
            Ok(file) => {
                if let Some(layout) = file.layout() {
                    self.compare(&file, &layout, names, found);
                }
            }
            Err(_) => {
                let finding = Finding::of(names, FindingKind::BadLayout, Outcome::Lost);
                found.report.findings.push(finding);
                found.directories.push((names.to_vec(), (i64::MIN, 0))); // its objects are not known: nothing is swept
            }
        }
    }

    /// Every object of a layout.
    fn compare(&self, file: &Arc<File>, layout: &Layout, names: &[String], found: &mut Found) {
        found.files.push(layout.file);
        let size = file.size();
        let wrong: Vec<Option<FindingKind>> = layout.objects().map(|(_, o)| self.wrong_with(o, found)).collect();
        let broken = |mirror: usize| {
            layout.mirrors[mirror].state == MirrorState::Stale
                || layout.objects().zip(&wrong).any(|((at, _), w)| at.mirror == mirror && w.is_some())
        };
        let whole: Vec<bool> = (0..layout.mirrors.len()).map(|m| !broken(m)).collect();
        for ((at, object), wrong) in layout.objects().zip(&wrong) {
            found.named.insert(object.id);
            found.report.objects += 1;
            let segment = &layout.mirrors[at.mirror].segments[at.segment];
            let bytes = object_len(segment, at.index, size);
            let stale = layout.mirrors[at.mirror].state == MirrorState::Stale;
            let (Some(kind), false) = (wrong, stale) else { continue };
            let healthy_copies = whole.iter().filter(|w| **w).count() as u32;
            let another = layout.in_sync_count() > 1; // perhaps not whole, but whole where this one is not
            let recoverable = another || file.is_recoverable() || bytes == 0;
            let mut finding = Finding::of(names, *kind, if recoverable { Outcome::Repairable } else { Outcome::Lost });
            finding.object = object.id.to_string();
            finding.target = self.name_of(object.target);
            finding.missing_bytes = if healthy_copies > 0 { 0 } else { bytes };
            let (path, finding_at) = (names.to_vec(), found.report.findings.len());
            found.report.findings.push(finding);
            let (file, object) = (layout.file, *object);
            found.candidates.push(Candidate {
                finding: finding_at,
                path,
                file,
                at,
                object,
                bytes,
                healthy_copies,
                recoverable,
            });
        }
        for (mirror, _) in layout.mirrors.iter().enumerate().filter(|(_, m)| m.state == MirrorState::Stale) {
            let at = Position { mirror, segment: 0, index: 0 };
            let Some(object) = layout.object(at).copied() else { continue };
            let (path, finding, file) = (names.to_vec(), found.report.findings.len(), layout.file);
            found.report.findings.push(Finding::of(names, FindingKind::MirrorStale, Outcome::Repairable));
            found.candidates.push(Candidate {
                finding,
                path,
                file,
                at,
                object,
                bytes: size,
                healthy_copies: 1,
                recoverable: true,
            });
        }
        self.look_for_sums(file, layout, names, found);
    }

    fn wrong_with(&self, object: &Object, found: &Found) -> Option<FindingKind> {
        let Some(there) = found.there.get(&object.target) else { return Some(FindingKind::TargetAway) };
        if !there.contains(&object.id) {
            // It may be younger than the list, or there is none.
            let (id, target) = (object.id, self.volume.targets().get(object.target));
            if target.is_none_or(|t| t.run(move |medium| medium.open(id).map(drop)).is_err()) {
                return Some(FindingKind::ObjectMissing);
            }
        }
        (object.state == ObjectState::Partial).then_some(FindingKind::Partial)
    }

    fn look_for_sums(&self, file: &File, layout: &Layout, names: &[String], found: &mut Found) {
        let record = file.source().ok().flatten().and_then(|text| Record::parse(&text).ok());
        let Some(record) = record.filter(|r| r.stripe_bytes > 0 && !r.modified) else { return };
        let sums = Sums::open(self.volume.side(), layout.file, record.stripe_bytes, record.size());
        if !matches!(sums, Ok(Some(_))) {
            let why = "compute them anew with `entrepot source set --verify`".to_string();
            found.report.findings.push(Finding::of(names, FindingKind::SumsMissing, Outcome::Failed(why)));
        }
    }

    /// Objects of files that have no name in the tree: being staged in, or unlinked and still open.
    fn look_beside(&self, found: &mut Found) {
        let mut files = self.files.files();
        for dir in [self.volume.staging(), self.volume.open_links()] {
            let Ok(entries) = Dir::read_from(dir) else { continue };
            for entry in entries.flatten() {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let Ok(fd) = fs::openat(dir, entry.file_name(), flags, Mode::empty()) else { continue };
                let plain = fs::fstat(&fd).is_ok_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::RegularFile);
                files.extend(plain.then(|| self.files.get_or_open(fd).ok()).flatten());
            }
        }
        let layouts = files.iter().filter_map(|f| f.layout());
        found.named.extend(layouts.flat_map(|l| l.objects().map(|(_, o)| o.id).collect::<Vec<_>>()));
        found.named.extend(self.files.pool().kept.objects());
    }

    /// Whether no directory changed since it was read: only then was every name seen.
    fn is_unchanged(&self, found: &Found) -> bool {
        found.directories.iter().all(|(names, at)| {
            let stat = self.open(names, OFlags::RDONLY).and_then(|fd| Ok(fs::fstat(fd)?));
            stat.is_ok_and(|s| (s.st_mtime, s.st_mtime_nsec) == *at)
        })
    }

    /// Objects from before this daemon that nobody names.
    fn find_orphans(&self, found: &mut Found) -> Result<()> {
        let epoch = self.epoch()?;
        let mut garbage = HashSet::new();
        for target in found.there.keys() {
            garbage.extend(self.volume.state().garbage_of(*target, usize::MAX >> 1)?);
        }
        for (target, objects) in &found.there {
            let mut orphans: Vec<_> = objects
                .iter()
                .filter(|o| o.0 >> 32 < u64::from(epoch) && !found.named.contains(o) && !garbage.contains(o))
                .collect();
            orphans.sort();
            for object in orphans {
                let mut finding = Finding::of(&[], FindingKind::Orphan, Outcome::Repairable);
                (finding.object, finding.target) = (object.to_string(), self.name_of(*target));
                found.report.findings.push(finding);
            }
        }
        Ok(())
    }

    /// The epoch of this daemon: the upper half of every number that it gives.
    pub(super) fn epoch(&self) -> Result<u32> {
        Ok((self.volume.next_id()? >> 32) as u32)
    }

    fn name_of(&self, target: TargetId) -> String {
        self.volume.targets().get(target).map_or_else(|| target.to_string(), |t| t.name().to_string())
    }
}

impl Finding {
    fn of(names: &[String], kind: FindingKind, outcome: Outcome) -> Finding {
        let (object, target) = (String::new(), String::new());
        Finding { path: names.join("/"), kind, object, target, missing_bytes: 0, outcome }
    }
}
