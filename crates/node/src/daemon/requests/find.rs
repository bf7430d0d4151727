//! `find.run`: lists files by owner, size and place. It reads one name at a time, so its memory is the same for any
//! number of files.

use crate::Error;
use crate::control::answers::{File, Search};
use crate::control::{Caller, Find, FindState, Problem, Responder, Result};
use crate::daemon::Core;
use crate::daemon::resolve::open_below;
use meta::descent::{Descent, Met};
use object::stop::Stop;
use object::target::State;
use policy::TargetId;
use policy::layout::{Layout, MirrorState, ObjectState};
use rustix::fs::{AtFlags, OFlags, Stat, statat};
use rustix::io::Errno;
use std::path::Path;

pub fn run(core: &Core, caller: &Caller, what: &Find, out: &mut Responder<'_>) -> Result<Search> {
    let stop = out.stop().clone();
    Scan::new(core, caller, what)?.run(&stop, &mut |found| {
        out.progress(&found.file);
    })
}

/// A file that matches.
pub struct Found {
    pub file: File,
    /// Number of mirrors, if the layout was read; 0 for a file that lies in its stub.
    pub mirrors: u64,
}

/// A scan of all names below a directory.
pub struct Scan<'a> {
    core: &'a Core,
    caller: &'a Caller,
    what: &'a Find,
    target: Option<TargetId>,
    on_tier: Option<Vec<TargetId>>,
    /// Owner of the files; `None`: all users.
    uid: Option<u32>,
    /// Whether to count the mirrors of each file.
    pub with_mirrors: bool,
    /// Start of the scan, in seconds since 1970.
    pub now_s: u64,
}

impl<'a> Scan<'a> {
    pub fn new(core: &'a Core, caller: &'a Caller, what: &'a Find) -> Result<Scan<'a>> {
        core.may_see(caller, &what.path)?;
        let targets = core.volume.targets();
        let unknown = |what: &str, name: &str| {
            Problem::not_found(format!("there is no {what} \"{name}\"")).try_this("`entrepot target list` shows them")
        };
        let target = what
            .target
            .as_ref()
            .map(|name| targets.by_name(name).map(|t| t.id()).ok_or_else(|| unknown("target", name)));
        let on_tier = what.tier.as_ref().map(|name| {
            let tier = core.volume.config().tiers.iter().position(|tier| tier == name);
            let tier = tier.ok_or_else(|| unknown("tier", name))?;
            Ok::<_, Problem>(
                targets.all().iter().filter(|t| usize::from(t.tier()) == tier).map(|t| t.id()).collect::<Vec<_>>(),
            )
        });
        let uid = if caller.is_operator() { what.uid } else { Some(caller.uid) };
        if !caller.is_operator() && what.uid.is_some_and(|uid| uid != caller.uid) {
            return Err(Problem::denied("you may look for your own files only").try_this("leave `--user` out"));
        }
        let now_s = object::since_1970().as_secs();
        let (target, on_tier) = (target.transpose()?, on_tier.transpose()?);
        Ok(Scan { core, caller, what, target, on_tier, uid, with_mirrors: false, now_s })
    }

    /// Passes each file that matches to `each`.
    pub fn run(&self, stop: &Stop, each: &mut dyn FnMut(Found)) -> Result<Search> {
        // A scan of the names loads the shared file system as a check does.
        let _held = self.core.look_for(self.caller)?;
        let failed = |error: Errno| Problem::failed(format!("{}: {error}", self.what.path));
        let (mut files, mut bytes, mut unread) = (0u64, 0u64, 0u64);
        let start = Path::new(&self.what.path);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let root = open_below(self.core.volume.tree(), start, flags).map_err(|error| match error {
            Errno::NOTDIR => Problem::wrong(format!("{} is no directory", self.what.path))
                .try_this("name a directory; `entrepot layout FILE` shows a file"),
            _ => failed(error),
        })?;
        let mut descent = Descent::new(&root).map_err(failed)?;
        while let Some(met) = descent.next() {
            if stop.is_set() {
                return Err(Problem::failed("the search was stopped"));
            }
            let found = met.map_err(Error::from).and_then(|met| self.file(&descent, &met));
            match found {
                Ok(Some(found)) => {
                    files += 1;
                    bytes += found.file.bytes;
                    each(found);
                }
                Ok(None) => {}
                Err(_) => unread += 1,
            }
        }
        let unread = if self.caller.is_operator() { unread } else { 0 };
        Ok(Search { files, bytes, unread })
    }

    /// Returns a file that matches, if the caller may see it.
    fn file(&self, descent: &Descent, met: &Met) -> Result<Option<Found>, Error> {
        if met.inode.is_some() {
            return Ok(None);
        }
        let stat = match statat(&met.directory, &met.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if self.attributes_match(&stat) => stat,
            Ok(_) | Err(Errno::NOENT) => return Ok(None), // or removed in between
            Err(error) => return Err(error.into()),
        };
        let below = Path::new(&self.what.path).join(descent.path_of(&met.name));
        let path = below.into_os_string().into_string().map_err(|_| Errno::ILSEQ)?;
        let reads_layout = self.is_narrowed() || self.with_mirrors;
        let layout = match reads_layout.then(|| self.core.files.layout_at(&met.directory, &met.name)).transpose()? {
            Some(Some(layout)) => layout,
            Some(None) => return Ok(None),
            None => None,
        };
        // A file of the user may lie in a directory closed to the user.
        let hidden = || !self.caller.is_operator() && self.core.may_see(self.caller, &path).is_err();
        if !self.layout_matches(layout.as_ref()) || hidden() {
            return Ok(None);
        }
        let mirrors = layout.map_or(0, |layout| layout.mirrors.len() as u64);
        let file = File { path, bytes: stat.st_size as u64, uid: stat.st_uid, used_s: used_s(&stat) };
        Ok(Some(Found { file, mirrors }))
    }

    fn attributes_match(&self, stat: &Stat) -> bool {
        let age = self.now_s.saturating_sub(used_s(stat));
        self.uid.is_none_or(|uid| uid == stat.st_uid)
            && self.what.larger.is_none_or(|bytes| stat.st_size as u64 > bytes)
            && self.what.older_s.is_none_or(|span| age > span)
            && self.what.newer_s.is_none_or(|span| age <= span)
    }

    /// Whether the conditions depend on the layout.
    fn is_narrowed(&self) -> bool {
        self.target.is_some() || self.on_tier.is_some() || self.what.state.is_some()
    }

    /// Whether the layout matches. A file that lies in its stub is on no target.
    fn layout_matches(&self, layout: Option<&Layout>) -> bool {
        if !self.is_narrowed() {
            return true;
        }
        let Some(layout) = layout else { return false };
        let objects = || layout.mirrors.iter().flat_map(|m| &m.segments).flat_map(|s| &s.objects);
        let serves = |id: TargetId| {
            let target = self.core.volume.targets().get(id);
            target.is_some_and(|target| !matches!(target.state(), State::Failed | State::Suspect))
        };
        let in_sync = || layout.mirrors.iter().filter(|mirror| mirror.state == MirrorState::InSync);
        self.target.is_none_or(|id| objects().any(|object| object.target == id))
            && self.on_tier.as_ref().is_none_or(|ids| objects().any(|object| ids.contains(&object.target)))
            && match self.what.state {
                None => true,
                Some(FindState::Stale) => layout.mirrors.iter().any(|mirror| mirror.state != MirrorState::InSync),
                Some(FindState::Partial) => objects().any(|object| object.state == ObjectState::Partial),
                Some(FindState::Unmirrored) => in_sync().count() < 2,
                Some(FindState::Away) => !in_sync()
                    .any(|mirror| mirror.segments.iter().flat_map(|s| &s.objects).all(|object| serves(object.target))),
            }
    }
}

/// Time of the last read or write, as recorded by the namespace's file system.
fn used_s(stat: &Stat) -> u64 {
    u64::try_from(stat.st_atime.max(stat.st_mtime)).unwrap_or(0)
}
