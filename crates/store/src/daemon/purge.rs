//! Purging: looks at every file and removes those that [`policy::protect::purge`] chooses.
//!
//! Between the look and the removal a file gets a name that nobody asks for; then it is looked at once more, and gets its
//! name back if it was opened or written meanwhile. So no write is removed with it. What jobs need is asked for again while files
//! are removed, a second before at most.

mod report;
mod rules;

pub use report::{PurgeReport, Purged, RuleSum};

use super::Core;
use crate::calls::{Answer, Calls, Service};
use crate::control::{Caller, Responder};
use crate::events::{self, Kind};
use crate::file::{File, FileTable};
use crate::stage::{Stager, offloaded};
use crate::stats::Metric;
use crate::{Error, Result};
use policy::machine::Machine;
use policy::protect::purge::{Candidate, Elsewhere, Event, Purge};
use policy::{FileId, Time};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, RenameFlags, StatxFlags, fstat, linkat, renameat, renameat_with, statat, statx, unlinkat,
};
use rustix::io::Errno;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What says which paths below the mount jobs need; an error if that is not known.
pub type Needs = Arc<dyn Fn() -> std::result::Result<Vec<PathBuf>, String> + Send + Sync>;

/// The name of calls that ask whether a node uses a file.
const FILE_IN_USE: &str = "file-in-use";
/// A node that does not answer for so long may have it open.
const ASKED_MAX: Duration = Duration::from_secs(3);
/// What jobs need is asked for again when it was asked so long ago.
const NEEDS_KNOWN_FOR: Duration = Duration::from_secs(1);

/// Says whether this node has a file open, or takes it home.
pub(super) struct InUse {
    pub files: Arc<FileTable>,
    pub stager: Arc<Stager>,
}

impl InUse {
    /// Has it say so to other nodes.
    pub fn serve(self, calls: &Calls) {
        calls.register(FILE_IN_USE, Arc::new(self));
    }
}

impl Service for InUse {
    fn serve(&self, _: &Caller, inode: Value, _: &mut Responder<'_>) -> Answer {
        let used = |inode| {
            self.stager.offloaded().is_being_sent(inode) || self.files.of_inode(inode).iter().any(|file| file.is_open())
        };
        Ok(json!(inode.as_u64().is_none_or(used)))
    }
}

/// A file that was looked at, and may go.
struct Seen {
    inode: u64,
    id: Option<FileId>,
    path: String,
    owner: u32,
    version: (u64, u64),
    elsewhere: String,
    only_here: bool,
}

/// What jobs need, and when that was asked.
struct Needed {
    paths: Vec<PathBuf>,
    asked: Instant,
}

impl Needed {
    fn has(&self, path: &str) -> bool {
        self.paths.iter().any(|needed| Path::new(path).starts_with(needed))
    }
}

impl Core {
    /// Whoever knows which files jobs need says so from now on.
    pub fn add_needs(&self, needs: Needs) {
        self.needs.lock().push(needs);
    }

    /// Removes what the settings allow, or, `dry_run`, says what that would be.
    ///
    /// # Errors
    /// If nobody can say what jobs need; and what the namespace says.
    pub fn purge(&self, dry_run: bool) -> Result<PurgeReport> {
        let needed = self.needed()?;
        let settings = &self.volume.config().purge;
        let (config, notes) = rules::machine(settings);
        let names: Vec<String> = settings.rules.iter().map(|rule| rule.name.clone()).collect();
        let mut report = PurgeReport { notes, ..PurgeReport::new(dry_run, &names) };
        let mut machine = Purge::new(config);
        self.volume.targets().measure_now();
        let space = self.volume.targets().space();
        let used = space.total_bytes.saturating_sub(space.free_bytes);
        let now = Time(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64));
        machine.handle(now, Event::Begin { used, total: space.total_bytes });
        let (mut may_go, mut known) = (Vec::new(), BTreeSet::new());
        self.checker.each_file_below("", &mut |path, file, stub| {
            known.extend(file.id());
            let Some((seen, candidate)) = self.look(may_go.len() as u64, path, &file, &stub, &needed) else { return };
            machine.handle(now, Event::Seen(candidate));
            if machine.may_go() > may_go.len() {
                may_go.push(seen);
            }
        });
        machine.handle(now, Event::Scanned);
        self.remove_all(&mut machine, now, &may_go, needed, &mut report);
        if !dry_run {
            self.stager.offloaded().keep(&known)?;
        }
        report.counted(machine.stats());
        Ok(report)
    }

    /// What the machine says, one file after the other.
    fn remove_all(
        &self,
        machine: &mut Purge,
        now: Time,
        may_go: &[Seen],
        mut needed: Needed,
        report: &mut PurgeReport,
    ) {
        while let Some(remove) = machine.poll() {
            let seen = &may_go[remove.id as usize];
            if !report.dry_run && needed.asked.elapsed() > NEEDS_KNOWN_FOR {
                needed = match self.needed() {
                    Ok(needed) => needed,
                    Err(error) => {
                        report.notes.push(format!("it ended before all were removed: {error}"));
                        return;
                    }
                };
            }
            let why = report.why(remove.reason);
            let gone = report.dry_run || !needed.has(&seen.path) && self.remove_unused(seen, &why);
            let answer = if gone { Event::Removed { id: remove.id } } else { Event::Left { id: remove.id } };
            machine.handle(now, answer);
            if gone {
                if !report.dry_run {
                    self.tell_purged(seen, &why);
                }
                report.add(purged(seen, why, report.rule(remove.reason)), remove.reason);
            }
        }
    }

    fn tell_purged(&self, seen: &Seen, why: &str) {
        self.volume.stats().add(Metric::PurgedFiles, 1);
        self.volume.stats().add(Metric::PurgedBytes, seen.version.0);
        let what = format!("purged: {} bytes", seen.version.0);
        let why = format!("{why}; its bytes {} {}", if seen.only_here { "were" } else { "are at" }, seen.elsewhere);
        let (path, owner) = (Some(seen.path.clone()), Some(seen.owner));
        let told = events::Event { path, owner, why: Some(why), ..events::Event::new(Kind::Purge, what) };
        self.pool.events.record(told);
    }

    fn needed(&self) -> Result<Needed> {
        let mut needed = Needed { paths: Vec::new(), asked: Instant::now() };
        for needs in self.needs.lock().clone() {
            let paths = needs().map_err(|e| Error::Busy(format!("it is not known what jobs need: {e}")))?;
            needed
                .paths
                .extend(paths.iter().filter_map(|p| Some(p.strip_prefix(&self.mount_point).ok()?.to_path_buf())));
        }
        Ok(needed)
    }

    fn look(
        &self,
        number: u64,
        path: String,
        file: &File,
        stub: &OwnedFd,
        needed: &Needed,
    ) -> Option<(Seen, Candidate)> {
        let (stat, born) = (fstat(stub).ok()?, born_ns(stub));
        let version = offloaded::version(file, stub).ok()?;
        let offloaded = file.id().and_then(|id| self.stager.offloaded().get(id).ok().flatten());
        let (elsewhere, place) = match offloaded.filter(|o| (o.size, o.modified_ns) == version) {
            Some(there) => (Elsewhere::Offloaded, there.uri),
            None if file.is_recoverable() => (Elsewhere::Source, "its source".to_string()),
            None => (Elsewhere::No, "nowhere else".to_string()),
        };
        // What was copied with its old times is no older here than its name.
        let written = version.1.max(born);
        let candidate = Candidate {
            id: number,
            path: path.clone(),
            uid: stat.st_uid,
            gid: stat.st_gid,
            size: version.0,
            bytes: if file.is_in_stub() { 0 } else { version.0 },
            used: Time(written.max(nanoseconds(stat.st_atime, stat.st_atime_nsec))),
            written: Time(written),
            elsewhere,
            needed: needed.has(&path),
            open: file.is_open() || self.stager.offloaded().is_being_sent(stat.st_ino),
        };
        let only_here = elsewhere == Elsewhere::No;
        let (id, inode, owner) = (file.id(), stat.st_ino, stat.st_uid);
        Some((Seen { inode, id, path, owner, version, elsewhere: place, only_here }, candidate))
    }

    /// Removes a file if it still is what was seen. Whether it is gone.
    fn remove_unused(&self, seen: &Seen, why: &str) -> bool {
        let there = self.mount_point.join(&seen.path);
        let mut aside = there.clone();
        aside.set_file_name(format!(".entrepot-purged-{}", seen.inode));
        if let Err(error) = set_aside(&there, &aside) {
            tracing::info!("{} is not purged: {error}", seen.path);
            return false;
        }
        let hidden = aside.strip_prefix(&self.mount_point).ok().and_then(Path::to_str).unwrap_or_default().to_string();
        let same = self.checker.stub_at(&hidden).is_some_and(|stub| self.is_unused(seen, &stub));
        let same = same && self.is_used_nowhere_else(seen);
        if same && std::fs::remove_file(&aside).is_ok() {
            tracing::info!(
                "purged {}: {why}; its bytes {} {}",
                seen.path,
                if seen.only_here { "were" } else { "are at" },
                seen.elsewhere
            );
            return true;
        }
        if let Err(error) = put_back(&aside, &there) {
            tracing::error!(
                "{} is now called {}: it was in use again, and its name was taken: {error}",
                seen.path,
                hidden
            );
        }
        false
    }

    /// Whether what has the name now is what was seen, and nobody uses it here.
    fn is_unused(&self, seen: &Seen, stub: &OwnedFd) -> bool {
        let same = fstat(stub).is_ok_and(|stat| stat.st_ino == seen.inode);
        let file = stub.try_clone().ok().and_then(|stub| self.files.get_or_open(stub).ok());
        same && !self.stager.offloaded().is_being_sent(seen.inode)
            && file.is_some_and(|file| {
                let unchanged = offloaded::version(&file, stub).is_ok_and(|version| version == seen.version);
                file.id() == seen.id && !file.is_open() && unchanged
            })
    }

    /// Whether all other nodes say that they do not use it. Its name is nobody's meanwhile, so that none can open it.
    fn is_used_nowhere_else(&self, seen: &Seen) -> bool {
        let Some(calls) = &self.calls else { return true };
        let others = calls.others();
        let names: Option<Vec<String>> = others.iter().map(|other| other.own.clone()).collect();
        let Some(names) = names else { return false };
        let who = Caller { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw(), pid: 0 };
        let said = calls.call_each(names, FILE_IN_USE, &who, &json!(seen.inode), ASKED_MAX);
        let is_open = said.iter().find(|(_, answer)| *answer != Ok(json!(false)));
        if let Some((_, answer)) = is_open {
            let why = answer.as_ref().err().map_or("another node uses it".into(), |problem| problem.cause.clone());
            tracing::info!("{} is not purged: {why}", seen.path);
        }
        is_open.is_none()
    }
}

/// Gives a file a name that nobody asks for. Where the file system cannot refuse one that is taken (GlusterFS), that is looked at before:
/// whatever has it is what an earlier purge left of the same file.
fn set_aside(there: &Path, aside: &Path) -> rustix::io::Result<()> {
    match renameat_with(CWD, there, CWD, aside, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS)
            if matches!(statat(CWD, aside, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT)) =>
        {
            renameat(CWD, there, CWD, aside)
        }
        renamed => renamed,
    }
}

/// Gives a file its name back, unless that was given to another.
fn put_back(aside: &Path, there: &Path) -> rustix::io::Result<()> {
    match renameat_with(CWD, aside, CWD, there, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => {
            linkat(CWD, aside, CWD, there, AtFlags::empty())?;
            unlinkat(CWD, aside, AtFlags::empty())
        }
        renamed => renamed,
    }
}

fn nanoseconds(seconds: i64, rest: u64) -> u64 {
    (seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(rest)
}

/// When the stub was made; 0 where its file system does not say.
fn born_ns(stub: impl AsFd) -> u64 {
    let told = statx(stub, c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME);
    let told = told.ok().filter(|told| StatxFlags::from_bits_retain(told.stx_mask).contains(StatxFlags::BTIME));
    told.map_or(0, |told| nanoseconds(told.stx_btime.tv_sec, told.stx_btime.tv_nsec.into()))
}

fn purged(seen: &Seen, reason: String, rule: Option<String>) -> Purged {
    let (path, elsewhere) = (seen.path.clone(), seen.elsewhere.clone());
    Purged { path, bytes: seen.version.0, reason, rule, elsewhere, only_here: seen.only_here }
}
