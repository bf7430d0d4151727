//! The scan: lists all targets in parallel, walks the tree, and compares every object of every layout with the lists.

use super::left::Rests;
use super::orphans::Stamp;
use super::{Behalf, CheckOptions, Checker, Finding, FindingKind, Outcome, Report};
use crate::file::File;
use crate::source::{Identity, Record};
use crate::stage::place::{names, open_at};
use crate::stage::sums::Sums;
use crate::stage::{self, StageError, Stop};
use crate::{Error, Result};
use meta::descent::Descent;
use object::host::{descriptor_path, fstat, remembered};
use object::target::{Reach, own_part};
use policy::cluster::look::part_of;
use policy::layout::{Layout, MirrorState, Object, ObjectState, Position, object_len};
use policy::protect::repair_order;
use policy::{FileId, ObjectId, TargetId, Time};
use rustix::fd::OwnedFd;
use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

/// Result of a scan, with the state that the repair needs.
#[derive(Default)]
pub(super) struct Found {
    pub report: Report,
    /// Repairable findings, by index of the finding.
    pub candidates: Vec<Candidate>,
    /// The files with a layout.
    pub files: Vec<FileId>,
    /// All objects in layouts, each with the inode of a stub that names it; 0 for a file without a name.
    pub named: HashMap<ObjectId, u64>,
    /// The orphans, by index of the finding.
    pub orphans: Vec<(usize, (TargetId, ObjectId))>,
    /// Files to be read and compared, with `compares`.
    pub to_compare: Vec<Vec<String>>,
    /// Whether the bytes of the files are compared after the scan.
    pub compares: bool,
    /// Objects on each target that answered.
    pub there: BTreeMap<TargetId, HashSet<ObjectId>>,
    /// Targets that other nodes reach.
    pub elsewhere: BTreeSet<TargetId>,
    pub seen: BTreeSet<(u64, u64)>,
    /// The directories that were walked.
    pub directories: BTreeMap<Vec<String>, Stamp>,
    /// Parts of the files to scan, and the number of parts; all files, if there are no parts.
    pub parts: (BTreeSet<u32>, u32),
    /// Whether to fence files against nodes that are over: no late write of such a node can name an unnamed object.
    pub fences: bool,
    /// Whether to collect the names of objects without comparing them.
    pub only_left: bool,
    /// Pauses of a scan in the background, at half speed.
    pub rests: bool,
}

impl Found {
    fn is_mine(&self, names: &[String]) -> bool {
        let (mine, of) = &self.parts;
        *of == 0 || mine.contains(&part_of(&names.join("/"), *of))
    }

    /// Records files that were not scanned: there may be findings in them.
    pub(super) fn unscanned(&mut self, what: String, why: impl std::fmt::Display) {
        self.report.unscanned = true;
        self.unseen(what, why);
    }

    /// Records that something was not seen: an object without a name may have one there.
    pub(super) fn unseen(&mut self, what: String, why: impl std::fmt::Display) {
        const SHOWN_MAX: usize = 16;
        let text = format!("{what}: {why}");
        if self.report.unseen.contains(&text) {
            return;
        }
        match self.report.unseen.len() {
            SHOWN_MAX => self.report.unseen.push("and more".into()),
            more if more > SHOWN_MAX => {}
            _ => self.report.unseen.push(text),
        }
    }
}

/// Maximum of comparisons of a file whose layout keeps changing. A guess.
const LAYOUTS_MAX: usize = 8;

/// A lost object or mirror of one file.
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
    /// Whether the object exists with wrong bytes.
    pub damaged: bool,
    /// Whether checksums prove the damage and the right bytes.
    pub proven: bool,
}

impl Candidate {
    /// An object that another mirror or a source has.
    pub fn of(finding: usize, names: &[String], file: FileId, (at, object): (Position, Object)) -> Candidate {
        Candidate {
            finding,
            path: names.to_vec(),
            file,
            at,
            object,
            bytes: 0,
            healthy_copies: 0,
            recoverable: true,
            damaged: false,
            proven: false,
        }
    }

    /// Input for the order of repair.
    pub fn to_be_ordered(&self, job_start: Option<Time>) -> repair_order::Candidate {
        let Candidate { file, object, healthy_copies, bytes, .. } = *self;
        repair_order::Candidate { file, object: object.id, job_start, healthy_copies, bytes }
    }
}

/// Path of the directory that a walk below `names` is in.
fn shown(names: &[String], walk: &Descent) -> String {
    let below = walk.directory();
    let path: PathBuf = names.iter().map(OsStr::new).chain(below.iter()).collect();
    path.display().to_string()
}

/// Whether a name can be shown.
pub(super) fn is_plain(name: &str) -> bool {
    !name.chars().any(char::is_control)
}

/// Identity of the daemon, for scans with its own rights; permission for a check is decided earlier.
pub(super) fn daemon() -> Identity {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Identity { uid, gid, ..Identity::default() }
}

impl Checker {
    pub(super) fn look(&self, options: &CheckOptions, report: stage::Report, stop: &Stop) -> Result<Found> {
        let (only_left, rests) = (options.only_left, options.only_left);
        let mut found = Found { only_left, rests, compares: options.deep, ..Found::default() };
        let everything = options.paths.is_empty() && options.before_job.is_empty();
        let mut paths = Vec::new();
        for path in options.before_job.iter().chain(&options.paths) {
            paths.push(names(path).map_err(|e| Error::Invalid(e.to_string()))?);
        }
        self.ask_targets(&mut found, everything || paths.iter().any(|names| self.is_directory(names)));
        if everything {
            self.look_whether_whole(&mut found, options)?;
            let before = self.before_layouts(false);
            self.walk(&[], &mut found, stop)?;
            self.find_orphans(&mut found, &before, options, stop)?;
        } else {
            for names in &paths {
                self.walk(names, &mut found, stop)?;
            }
        }
        if options.deep {
            self.compare_bytes(&mut found, report, stop);
        }
        Ok(found)
    }

    fn is_directory(&self, names: &[String]) -> bool {
        self.open(names, OFlags::RDONLY | OFlags::DIRECTORY).is_ok()
    }

    /// Checks at the same time which targets answer. With `lists` also lists their objects. For a few files each object
    /// is looked up instead, since a list grows with the volume.
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
                _ if target.reach() == Reach::Elsewhere && !target.is_given_up() => {
                    found.elsewhere.insert(target.id());
                    found.report.targets_elsewhere.push(target.name().to_string());
                }
                _ => found.report.targets_away.push(target.name().to_string()),
            }
        }
    }

    /// Scans a file, or all files of a directory.
    pub(super) fn walk(&self, names: &[String], found: &mut Found, stop: &Stop) -> Result<()> {
        let Some(top) = self.look_at_name(names, found)? else { return Ok(()) };
        let (mut walk, mut rests) = (Descent::at(top, false)?, Rests::of(found.rests));
        while let Some(entry) = walk.entry() {
            rests.step();
            if stop.is_set() {
                break;
            }
            let (name, kind) = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    found.unscanned(shown(names, &walk), error);
                    continue;
                }
            };
            // A name that is not UTF-8 has no printable path. It counts as unseen: its objects stay.
            let Some(below) = walk.names_of(&name).filter(|names| names.iter().all(|name| is_plain(name))) else {
                let why = format!("the name {:?} in it is not checked", name.to_string_lossy());
                found.unseen(shown(names, &walk), why);
                continue;
            };
            let names = [names, &below].concat();
            if (kind != FileType::RegularFile || found.is_mine(&names))
                && let Some(directory) = self.look_at_name(&names, found)?
            {
                walk.enter(&name, directory)?;
            }
        }
        Ok(())
    }

    /// Scans a file. Returns a directory, unless it was read before and is as it was.
    fn look_at_name(&self, names: &[String], found: &mut Found) -> Result<Option<OwnedFd>> {
        let fd = match self.open(names, OFlags::RDONLY) {
            Ok(fd) => fd,
            Err(e) if names.is_empty() => return Err(e),
            Err(e) => {
                // A user must not learn about files out of the user's reach.
                if self.behalf.is_none() && self.may_hold_data(names) {
                    found.unscanned(names.join("/"), e);
                }
                return Ok(None);
            }
        };
        let stat = fstat(&fd)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let stamp = Stamp::before_reading(&fd)?;
                let is_known = found.directories.insert(names.to_vec(), stamp) == Some(stamp);
                return Ok((!is_known).then_some(fd));
            }
            FileType::RegularFile if found.is_mine(names) && found.seen.insert((stat.st_dev, stat.st_ino)) => {
                self.look_at(fd, stat.st_ino, names, found)?;
            }
            _ => {}
        }
        Ok(None)
    }

    /// Opens a file or a directory. On behalf of a user: files that the user may reach, and directories that the user
    /// may read. The bytes of files are read by the daemon and never shown.
    pub(super) fn open(&self, names: &[String], flags: OFlags) -> Result<OwnedFd> {
        let open = |flags, who: &Identity| open_at(self.volume.tree(), names, flags | OFlags::NOFOLLOW, who);
        let opened = match &self.behalf {
            None => open(flags, &daemon()),
            Some(Behalf { who, .. }) => open(OFlags::PATH, who).and_then(|reached| {
                match FileType::from_raw_mode(remembered(&reached)?.st_mode) {
                    FileType::RegularFile => {
                        let again = descriptor_path(&reached);
                        Ok(fs::open(again, flags | OFlags::CLOEXEC, Mode::empty())?)
                    }
                    _ => open(flags, who),
                }
            }),
        };
        opened.map_err(|e| match e {
            StageError::Store(e) => e,
            other => Error::Invalid(other.to_string()),
        })
    }

    /// Whether an unopened name may be a file or a directory: not a removed one, a link, a socket or a device.
    fn may_hold_data(&self, names: &[String]) -> bool {
        match fs::statat(self.volume.tree(), names.join("/"), fs::AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::Directory)
            }
            Err(Errno::NOENT | Errno::NOTDIR) => false,
            Err(_) => true,
        }
    }

    fn look_at(&self, fd: OwnedFd, inode: u64, names: &[String], found: &mut Found) -> Result<()> {
        found.report.files += 1;
        match self.files.get_or_open(fd) {
            Ok(file) => {
                if let Err(error) = if found.fences { file.settle_left() } else { Ok(()) } {
                    self.check_lease()?;
                    found.unscanned(
                        names.join("/"),
                        format!("a change by a node that is over cannot be ended: {error}"),
                    );
                    // No object is removed now, so the other files need not be settled. Each of them might wait.
                    found.fences = false;
                }
                if found.only_left {
                    let layout = file.layout();
                    found.named.extend(layout.iter().flat_map(|l| l.objects()).map(|(_, object)| (object.id, inode)));
                } else if let Some((layout, wrong)) = self.wrong_with_all(&file, inode, names, found) {
                    self.compare(&file, inode, &layout, wrong, names, found);
                }
            }
            Err(error @ (Error::Elsewhere(_) | Error::Busy(_))) => {
                self.check_lease()?;
                found.unscanned(names.join("/"), error);
            }
            Err(error) => {
                let why = match error {
                    Error::Newer(_) => error.to_string(),
                    _ => format!("{error}; put its stub back from a backup that keeps attributes, or remove it"),
                };
                found.report.findings.push(Finding::of(names, FindingKind::BadLayout, Outcome::Failed(why)));
                found.unseen(names.join("/"), "its objects are unknown");
            }
        }
        Ok(())
    }

    /// Fails if this node has no lease now: each further file would wait for one.
    pub(super) fn check_lease(&self) -> Result<()> {
        let Some(cluster) = self.files.pool().cluster.get() else { return Ok(()) };
        match cluster.has_lease() {
            true => Ok(()),
            false => Err(Error::Elsewhere("this node has no lease, so the check ends here: try again later".into())),
        }
    }

    /// Compares every object of a layout.
    fn compare(
        &self,
        file: &Arc<File>,
        inode: u64,
        layout: &Layout,
        wrong: Vec<Option<FindingKind>>,
        names: &[String],
        found: &mut Found,
    ) {
        found.files.push(layout.file);
        let size = file.size();
        let staged = file.is_recoverable();
        if found.compares {
            found.to_compare.push(names.to_vec());
        }
        let broken = |mirror: usize| {
            layout.mirrors[mirror].state == MirrorState::Stale
                || layout.objects().zip(&wrong).any(|((at, _), w)| at.mirror == mirror && w.is_some())
        };
        let whole: Vec<bool> = (0..layout.mirrors.len()).map(|m| !broken(m)).collect();
        for ((at, object), wrong) in layout.objects().zip(&wrong) {
            found.report.objects += 1;
            if let Some(other) = found.named.insert(object.id, inode).filter(|other| *other != inode) {
                let target = self.volume.targets().name_of(object.target);
                found.report.findings.push(Finding::named_twice(names, object.id, target, other));
            }
            let segment = &layout.mirrors[at.mirror].segments[at.segment];
            let bytes = object_len(segment, at.index, size);
            let stale = layout.mirrors[at.mirror].state == MirrorState::Stale;
            let (Some(kind), false) = (wrong, stale) else { continue };
            let healthy_copies = whole.iter().filter(|w| **w).count() as u32;
            let another = layout.in_sync_count() > 1; // perhaps incomplete, but complete where this one is not
            let damaged = *kind == FindingKind::ObjectShort;
            let recoverable = another || staged || bytes == 0;
            // A target that the volume has forgotten does not return.
            let is_away = *kind == FindingKind::TargetAway && self.volume.targets().get(object.target).is_some();
            let outcome = match (recoverable, is_away) {
                (true, _) => Outcome::Repairable,
                (false, true) => Outcome::Away,
                (false, false) => Outcome::Lost,
            };
            let mut finding = Finding::of(names, *kind, outcome);
            finding.object = object.id.to_string();
            finding.target = self.volume.targets().name_of(object.target);
            finding.missing_bytes = if healthy_copies > 0 { 0 } else { bytes };
            let candidate = Candidate::of(found.report.findings.len(), names, layout.file, (at, *object));
            found.report.findings.push(finding);
            let proven = damaged;
            found.candidates.push(Candidate { bytes, healthy_copies, recoverable, damaged, proven, ..candidate });
        }
        for (mirror, _) in layout.mirrors.iter().enumerate().filter(|(_, m)| m.state == MirrorState::Stale) {
            let at = Position { mirror, segment: 0, index: 0 };
            let Some(object) = layout.object(at).copied() else { continue };
            let candidate = Candidate::of(found.report.findings.len(), names, layout.file, (at, object));
            found.report.findings.push(Finding::of(names, FindingKind::MirrorStale, Outcome::Repairable));
            found.candidates.push(Candidate { bytes: size, healthy_copies: 1, ..candidate });
        }
        self.look_for_sums(file, layout, names, found);
    }

    /// The file's layout, and the problem of each object, if any. An object that a move or a removal took away during
    /// the scan has no problem.
    pub(super) fn wrong_with_all(
        &self,
        file: &Arc<File>,
        inode: u64,
        names: &[String],
        found: &Found,
    ) -> Option<(Arc<Layout>, Vec<Option<FindingKind>>)> {
        let mut layout = file.layout()?;
        let mut wrong = self.wrong_with_each(file, &layout, found);
        for _ in 0..LAYOUTS_MAX {
            let now = file.layout()?;
            if wrong.iter().all(Option::is_none) || Arc::ptr_eq(&layout, &now) {
                break;
            }
            wrong = self.wrong_with_each(file, &now, found);
            layout = now;
        }
        if wrong.contains(&Some(FindingKind::ObjectMissing)) && !self.leads_to(names, inode) {
            wrong.fill(None);
        }
        Some((layout, wrong))
    }

    /// Whether the path still leads to the inode.
    fn leads_to(&self, names: &[String], inode: u64) -> bool {
        let stat = self.open(names, OFlags::RDONLY).and_then(|fd| Ok(remembered(fd)?));
        stat.is_ok_and(|stat| stat.st_ino == inode)
    }

    fn wrong_with_each(&self, file: &Arc<File>, layout: &Layout, found: &Found) -> Vec<Option<FindingKind>> {
        let (size, staged) = (file.size(), file.is_recoverable());
        let wrong = |(at, object): (Position, &Object)| {
            let segment = &layout.mirrors[at.mirror].segments[at.segment];
            // Every byte of a staged object was written; in other files a part may never have been written.
            let bytes = if staged { object_len(segment, at.index, size) } else { 0 };
            self.wrong_with(object, bytes, found)
        };
        let mut wrong: Vec<Option<FindingKind>> = layout.objects().map(wrong).collect();
        for ((at, _), wrong) in layout.objects().zip(&mut wrong) {
            if *wrong == Some(FindingKind::ObjectShort) && !self.lacks_bytes(file, at).unwrap_or(false) {
                *wrong = None; // a hole that was there before the file got a source
            }
        }
        wrong
    }

    /// Problem of an object that must have `bytes` bytes.
    fn wrong_with(&self, object: &Object, bytes: u64, found: &Found) -> Option<FindingKind> {
        if found.elsewhere.contains(&object.target) {
            return None;
        }
        let Some(there) = found.there.get(&object.target) else { return Some(FindingKind::TargetAway) };
        // The object may be newer than the list, or there is no list.
        if bytes > 0 || !there.contains(&object.id) {
            let (id, merged, target) = (object.id, object.merged, self.volume.targets().get(object.target));
            let len = target.map(|t| t.run(move |medium| own_part(medium.open(id)?, merged).len()));
            match len {
                Some(Ok(len)) if len < bytes && object.state == ObjectState::Complete => {
                    return Some(FindingKind::ObjectShort);
                }
                Some(Ok(_)) => {}
                // The shared file system may hide its name.
                Some(Err(_)) if !self.volume.namespace_is_whole().unwrap_or(false) => {
                    return Some(FindingKind::TargetAway);
                }
                Some(Err(_)) | None => return Some(FindingKind::ObjectMissing),
            }
        }
        (object.state == ObjectState::Partial).then_some(FindingKind::Partial)
    }

    fn look_for_sums(&self, file: &File, layout: &Layout, names: &[String], found: &mut Found) {
        let record = file.source().ok().flatten().and_then(|text| Record::parse(&text).ok());
        let Some(record) = record.filter(|r| r.stripe_bytes > 0 && !r.modified) else { return };
        let sums = Sums::open(self.volume.side(), layout.file, record.stripe_bytes, record.size());
        if !matches!(sums, Ok(Some(_))) {
            let why = "compute them again with `entrepot source set --verify`".to_string();
            found.report.findings.push(Finding::of(names, FindingKind::SumsMissing, Outcome::Failed(why)));
        }
    }
}

impl Finding {
    /// Finding for an object that the file of another inode names, too.
    pub(super) fn named_twice(names: &[String], object: ObjectId, target: String, other: u64) -> Finding {
        let why = "copy both files, then remove both: a change of one harms the other".to_string();
        let finding = Finding::of(names, FindingKind::NamedTwice, Outcome::Failed(why));
        Finding { object: object.to_string(), target, inode: other, ..finding }
    }

    pub(super) fn of(names: &[String], kind: FindingKind, outcome: Outcome) -> Finding {
        let (object, target) = (String::new(), String::new());
        let (path, found_by) = (names.join("/"), String::new());
        Finding { path, inode: 0, kind, object, target, range: None, missing_bytes: 0, found_by, outcome }
    }
}
