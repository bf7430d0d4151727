//! The scan of all files: feeds each file to the machine, and collects the facts needed for its removal.

use super::needed::Needed;
use super::remove::is_aside;
use super::report::Purged;
use crate::Result;
use crate::daemon::Core;
use engine::file::File;
use engine::stage::offloaded;
use meta::descent::Descent;
use object::host::{born_ns, fstat};
use policy::machine::Machine;
use policy::protect::purge::{Candidate, Event, Purge};
use policy::{FileId, Time};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, Stat, openat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::sync::Arc;

/// A scanned file that may be removed.
pub(super) struct ScannedFile {
    pub inode: u64,
    pub id: Option<FileId>,
    pub owner: u32,
    /// Size, and time of the last write.
    pub version: (u64, u64),
    /// Time of the last read.
    pub read_ns: u64,
    /// Row of the report, without a reason.
    pub file: Purged,
}

/// Result of a scan.
#[derive(Default)]
pub(super) struct PurgeScan {
    /// Removable files, by the machine's numbers.
    pub may_go: Vec<ScannedFile>,
    /// Numbers of all files.
    pub known: BTreeSet<FileId>,
    /// Paths of files whose names an interrupted purge changed.
    pub aside: Vec<String>,
    /// Number of names that could not be read.
    pub unread: u64,
}

impl PurgeScan {
    /// Feeds every file to the machine.
    pub fn at_all(core: &Core, needed: &Needed, now: Time, machine: &mut Purge) -> Result<PurgeScan> {
        let mut look = PurgeScan::default();
        let tree = core.volume.tree().try_clone_to_owned().map_err(|_| Errno::MFILE)?;
        let mut descent = Descent::new(&tree)?;
        while let Some(met) = descent.next() {
            let met = match met {
                Ok(met) if met.inode.is_some() => continue,
                Ok(met) => met,
                Err(_) => {
                    look.unread += 1;
                    continue;
                }
            };
            let path = descent.path_of(&met.name);
            let found = path.to_str().map(|path| look.at(core, needed, now, path, &met.directory, &met.name));
            match found {
                Some(Ok(Some((seen, _)))) if is_aside(&seen.file.path) => look.aside.push(seen.file.path),
                Some(Ok(Some((seen, candidate)))) => {
                    machine.handle(now, Event::Seen(candidate));
                    if machine.may_go() > look.may_go.len() {
                        look.may_go.push(seen);
                    }
                }
                Some(Ok(None)) => {}
                Some(Err(_)) | None => look.unread += 1,
            }
        }
        Ok(look)
    }

    /// Scans one name; `None` if it is gone, or no longer a file.
    fn at(
        &mut self,
        core: &Core,
        needed: &Needed,
        now: Time,
        path: &str,
        directory: &OwnedFd,
        name: &CStr,
    ) -> Result<Option<(ScannedFile, Candidate)>> {
        let stub = match open(directory, name, OFlags::RDONLY) {
            Ok(stub) => Arc::new(stub),
            Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let stat = fstat(&stub)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        let file = core.files.get_or_share(stub.clone())?;
        self.known.extend(file.id());
        let (version, times) = (offloaded::version(&file, &stub)?, Times::of(&stat, &file, &stub, now)?);
        let offloaded = file.id().map(|id| core.stager.offloaded().get(id)).transpose()?.flatten();
        let (only_here, place) = match offloaded.filter(|o| (o.size, o.modified_ns) == version) {
            Some(there) => (false, there.uri),
            None if file.is_recoverable() => (false, "its source".to_string()),
            None => (true, "nowhere else".to_string()),
        };
        let candidate = Candidate {
            id: self.may_go.len() as u64,
            path: path.to_owned(),
            uid: stat.st_uid,
            gid: stat.st_gid,
            size: version.0,
            bytes: if file.is_in_stub() { 0 } else { version.0 },
            used: Time(times.used),
            written: Time(times.written),
            only_here,
            needed: needed.has(path),
            open: file.is_open() || core.stager.offloaded().is_being_sent(stat.st_ino),
        };
        let (id, inode, owner, read_ns) = (file.id(), stat.st_ino, stat.st_uid, read_ns(&stat));
        let (path, bytes) = (path.to_owned(), version.0);
        let file = Purged { path, bytes, elsewhere: place, only_here, ..Purged::default() };
        Ok(Some((ScannedFile { inode, id, owner, version, read_ns, file }, candidate)))
    }
}

/// Times of use of a file, as far as its user cannot set them.
struct Times {
    used: u64,
    written: u64,
}

impl Times {
    fn of(stat: &Stat, file: &File, stub: &OwnedFd, now: Time) -> Result<Times> {
        let changed = nanoseconds(stat.st_ctime, stat.st_ctime_nsec).min(now.0);
        // A future time, which any user can set, counts as the time of its setting.
        let past = |ns: u64| if ns > now.0 { changed } else { ns };
        // A file copied with its old times is no older here than its name.
        let written = past(offloaded::version(file, stub)?.1).max(past(born_ns(stub).ok().flatten().unwrap_or(0)));
        Ok(Times { used: written.max(past(read_ns(stat))), written })
    }
}

/// Opens a stub in its directory, whatever its present type.
pub(super) fn open(directory: impl AsFd, name: &CStr, mode: OFlags) -> rustix::io::Result<OwnedFd> {
    let calm = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    openat(directory, name, mode | calm, Mode::empty())
}

pub(super) fn read_ns(stat: &Stat) -> u64 {
    nanoseconds(stat.st_atime, stat.st_atime_nsec)
}

fn nanoseconds(seconds: i64, rest: u64) -> u64 {
    u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(rest)
}
