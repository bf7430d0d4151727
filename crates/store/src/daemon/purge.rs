//! Purging: looks at every file and removes those that [`policy::protect::purge`] chooses.
//!
//! Between the look and the removal a file gets a name that nobody asks for; then it is looked at once more, and gets its
//! name back if it was opened or written meanwhile. So no write is removed with it.

use super::Core;
use crate::calls::{Answer, Calls, Service};
use crate::control::{Caller, Responder};
use crate::events::{self, Kind};
use crate::file::{File, FileTable};
use crate::stage::offloaded;
use crate::{Error, Result};
use policy::machine::Machine;
use policy::protect::purge::{Candidate, Config, Elsewhere, Event, Purge, Reason, Stats};
use policy::{FileId, Time};
use rustix::fs::{AtFlags, CWD, RenameFlags, Stat, fstat, linkat, renameat, renameat_with, statat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What says which paths below the mount jobs need; an error if that is not known.
pub type Needs = Arc<dyn Fn() -> std::result::Result<Vec<PathBuf>, String> + Send + Sync>;

/// A file that was removed, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Purged {
    /// Its path relative to the mount's root.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Why.
    pub reason: String,
    /// Where its bytes are.
    pub elsewhere: String,
}

/// What a purge did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeReport {
    /// Whether nothing was removed.
    pub dry_run: bool,
    /// The files, in the order of their removal.
    pub files: Vec<Purged>,
    /// Files looked at.
    pub seen: u64,
    /// Kept because a job that waits or runs needs them.
    pub kept_for_jobs: u64,
    /// Kept because their bytes are nowhere else.
    pub kept_unsaved: u64,
    /// Kept because somebody has them open.
    pub kept_open: u64,
    /// Left because they changed between the look and the removal.
    pub left: u64,
    /// Bytes removed.
    pub bytes: u64,
}

/// The name of calls that ask whether a node has a file open.
const OPEN_FILE: &str = "open-file";
/// A node that does not answer for so long may have it open.
const ASKED_MAX: Duration = Duration::from_secs(3);

/// Says whether this node has a file open.
pub(super) struct OpenFile(pub Arc<FileTable>);

impl OpenFile {
    /// Has it say so to other nodes.
    pub fn serve(self, calls: &Calls) {
        calls.register(OPEN_FILE, Arc::new(self));
    }
}

impl Service for OpenFile {
    fn serve(&self, _: &Caller, args: Value, _: &mut Responder<'_>) -> Answer {
        let id = args.as_u64().map(FileId);
        Ok(json!(self.0.files().iter().any(|file| file.id() == id && file.is_open())))
    }
}

/// A file that was looked at.
struct Seen {
    id: FileId,
    path: String,
    owner: u32,
    version: (u64, u64),
    elsewhere: String,
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
        let mut needed = Vec::new();
        for needs in self.needs.lock().clone() {
            let paths = needs().map_err(|e| Error::Busy(format!("it is not known what jobs need: {e}")))?;
            needed.extend(paths.iter().filter_map(|p| Some(p.strip_prefix(&self.mount_point).ok()?.to_path_buf())));
        }
        let settings = &self.volume.config().purge;
        let mut machine = Purge::new(Config {
            age: (!settings.age.is_zero()).then_some(Time(settings.age.as_nanos() as u64)),
            high_percent: settings.high_percent,
            low_percent: settings.low_percent,
        });
        self.volume.targets().measure_now();
        let space = self.volume.targets().space();
        let used = space.total_bytes.saturating_sub(space.free_bytes);
        let now = Time(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64));
        machine.handle(now, Event::Begin { used, total: space.total_bytes });
        let mut all = Vec::new();
        for (id, path) in self.checker.files_below("") {
            if let Some((seen, candidate)) = self.look(all.len() as u64, id, path, &needed) {
                all.push(seen);
                machine.handle(now, Event::Seen(candidate));
            }
        }
        machine.handle(now, Event::Scanned);
        let mut report = PurgeReport { dry_run, ..PurgeReport::default() };
        while let Some(remove) = machine.poll() {
            let seen = &all[remove.id as usize];
            let gone = dry_run || self.remove_unused(seen);
            let answer = if gone { Event::Removed { id: remove.id } } else { Event::Left { id: remove.id } };
            machine.handle(now, answer);
            if gone && !dry_run {
                let what = format!("purged: {} bytes", seen.version.0);
                let why = format!("{}; its bytes are at {}", text(remove.reason), seen.elsewhere);
                let (path, owner) = (Some(seen.path.clone()), Some(seen.owner));
                let told = events::Event { path, owner, why: Some(why), ..events::Event::new(Kind::Purge, what) };
                self.pool.events.record(told);
            }
            if gone {
                let (path, bytes, elsewhere) = (seen.path.clone(), seen.version.0, seen.elsewhere.clone());
                report.files.push(Purged { path, bytes, reason: text(remove.reason), elsewhere });
            }
        }
        if !dry_run {
            self.stager.offloaded().keep(&all.iter().map(|seen| seen.id).collect::<BTreeSet<_>>())?;
        }
        let Stats { seen, needed, unsafe_, open, left, removed_bytes, .. } = machine.stats();
        (report.seen, report.kept_for_jobs, report.kept_unsaved, report.kept_open) = (seen, needed, unsafe_, open);
        (report.left, report.bytes) = (left, removed_bytes);
        Ok(report)
    }

    fn look(&self, number: u64, id: FileId, path: String, needed: &[PathBuf]) -> Option<(Seen, Candidate)> {
        let (file, stat) = self.stub_at(&path)?;
        let version = offloaded::version(&file, file_stub(self, &path)?).ok()?;
        let offloaded = self.stager.offloaded().get(id).ok().flatten();
        let (elsewhere, place) = match offloaded.filter(|o| (o.size, o.modified_ns) == version) {
            Some(there) => (Elsewhere::Offloaded, there.uri),
            None if file.is_recoverable() => (Elsewhere::Source, "its source".to_string()),
            None => (Elsewhere::No, String::new()),
        };
        let candidate = Candidate {
            id: number,
            bytes: version.0,
            used: Time(version.1.max(nanoseconds(stat.st_atime, stat.st_atime_nsec))),
            elsewhere,
            needed: needed.iter().any(|n| Path::new(&path).starts_with(n)),
            open: file.is_open(),
        };
        Some((Seen { id, path, owner: stat.st_uid, version, elsewhere: place }, candidate))
    }

    /// Removes a file if it still is what was seen. Whether it is gone.
    fn remove_unused(&self, seen: &Seen) -> bool {
        let there = self.mount_point.join(&seen.path);
        let mut aside = there.clone();
        aside.set_file_name(format!(".entrepot-purged-{}", seen.id));
        if let Err(error) = set_aside(&there, &aside) {
            tracing::info!("{} is not purged: {error}", seen.path);
            return false;
        }
        let hidden = aside.strip_prefix(&self.mount_point).ok().and_then(Path::to_str).unwrap_or_default().to_string();
        let same = self.stub_at(&hidden).zip(file_stub(self, &hidden)).is_some_and(|((file, _), stub)| {
            let unchanged = offloaded::version(&file, stub).is_ok_and(|version| version == seen.version);
            file.id() == Some(seen.id) && !file.is_open() && unchanged
        });
        let same = same && self.is_open_nowhere_else(seen);
        if same && std::fs::remove_file(&aside).is_ok() {
            tracing::info!("purged {}: its bytes are at {}", seen.path, seen.elsewhere);
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

    /// Whether all other nodes say that they have it not open. Its name is nobody's meanwhile, so that none can open it.
    fn is_open_nowhere_else(&self, seen: &Seen) -> bool {
        let Some(calls) = &self.calls else { return true };
        let others = calls.others();
        let names: Option<Vec<String>> = others.iter().map(|other| other.own.clone()).collect();
        let Some(names) = names else { return false };
        let who = Caller { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw(), pid: 0 };
        let said = calls.call_each(names, OPEN_FILE, &who, &json!(seen.id.0), ASKED_MAX);
        let is_open = said.iter().find(|(_, answer)| *answer != Ok(json!(false)));
        if let Some((_, answer)) = is_open {
            let why =
                answer.as_ref().err().map_or("it is open on another node".into(), |problem| problem.cause.clone());
            tracing::info!("{} is not purged: {why}", seen.path);
        }
        is_open.is_none()
    }

    fn stub_at(&self, path: &str) -> Option<(Arc<File>, Stat)> {
        let file = self.checker.file_at(path)?;
        Some((file, fstat(file_stub(self, path)?).ok()?))
    }
}

/// The stub of a file, for its times.
fn file_stub(core: &Core, path: &str) -> Option<rustix::fd::OwnedFd> {
    core.checker.stub_at(path)
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

fn text(reason: Reason) -> String {
    match reason {
        Reason::Age(unused) => format!("unused for {}", policy::units::show_span_s(unused.0 / 1_000_000_000)),
        Reason::Space(percent) => format!("{percent} % of the space are used"),
    }
}
