//! Stage-in by several nodes: the node with the request (the requester) gives shares of its work to the others.
//!
//! ```text
//!   one file     the requester makes the stub in `staging/` and lays the file out
//!                units of it -- a request --> another node: fetches them, writes them into the same file, syncs
//!                all units there: the requester gives the file its name
//!   many files   a few of them -- a request --> another node: stages each in
//! ```
//! The requester fetches what a helper does not bring. A helper without an answer may still write: the file then begins
//! again with other objects and without help. Credentials are not sent: a stage-in that needs them runs on one node.

use super::fetch::fetch_some;
use super::incoming::Incoming;
use super::progress::Meter;
use super::record;
use super::sources::Sources;
use super::tree::Missing;
use super::{Report, Result, StageError, StageIn, Staged, Stager, Stop, Transfer};
use crate::source::Identity;
use object::workers::side_by_side;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Answer of another node to a request.
pub enum Said {
    /// Results of the share's files, in order; `None` for a failed one. A share of units has none.
    Answer(Vec<Option<Staged>>),
    /// The request is refused: the node does nothing more.
    Refused,
    /// No answer: the node may still be working.
    Nothing,
}

/// The other nodes of a volume, which can fetch shares of a stage-in.
pub trait Others: Send + Sync {
    /// Names of the other nodes.
    fn names(&self) -> Vec<String>;
    /// Requests a share from one node, on behalf of a user: runs [`Stager::bring`] there.
    fn ask(&self, name: &str, uid: u32, gid: u32, share: &Share, stop: &Stop) -> Said;
}

/// Units per request: fetched again if the helper does not answer.
pub(super) const UNITS_AT_ONCE: usize = 4;
/// Minimum number of units for which help pays.
const UNITS_MIN: u64 = 8;
/// Files per request.
const FILES_AT_ONCE: usize = 16;
/// Concurrent requests per helper: it fetches while the answer to another is in transit.
const CALLS_EACH: usize = 2;

/// A share of work in a request.
#[derive(Serialize, Deserialize)]
pub struct Share(Work);

#[derive(Serialize, Deserialize)]
enum Work {
    /// Units of an incoming file.
    Units {
        key: String,
        progress: record::Progress,
        uris: Vec<String>,
        units: Vec<u64>,
    },
    Files {
        files: Vec<StageIn>,
        umask: Option<u32>,
    },
}

/// Helpers of one stage-in.
pub(super) struct Helpers {
    others: Arc<dyn Others>,
    who: Identity,
    /// Names of the helpers.
    pub names: Vec<String>,
    /// One helper gave no answer and may still be working.
    lost: AtomicBool,
    /// Number of requests for units so far.
    units_turn: AtomicUsize,
}

impl Stager {
    /// Sets the nodes that fetch shares of later stage-ins.
    pub fn share(&self, others: Arc<dyn Others>) {
        drop(self.others.set(others));
    }

    /// Fetches a share for another node, on behalf of a user there. Returns the answer, as in [`Said::Answer`].
    pub fn bring(
        &self,
        uid: u32,
        gid: u32,
        Share(work): Share,
        report: Report,
        stop: &Stop,
    ) -> Result<Vec<Option<Staged>>> {
        let umask = if let Work::Files { umask, .. } = &work { *umask } else { None };
        let who = Identity { uid, gid, umask, ..Identity::default() };
        let paced = self.paced(None, uid, stop).transfer(&who, report, stop);
        match work {
            Work::Units { key, progress, uris, units } => {
                paced.bring_units(&key, &progress, &uris, &units)?;
                Ok(Vec::new())
            }
            // The requester tries a failed file again and reports the error.
            Work::Files { files, .. } => {
                let stage = |file: &StageIn| {
                    let staged = paced.stage_in(file);
                    staged.inspect_err(|error| tracing::info!("not staged in for another node: {error}")).ok()
                };
                Ok(files.iter().map(stage).collect())
            }
        }
    }
}

impl Transfer<'_> {
    /// The nodes that can help with a stage-in of this user, if there are any.
    pub(super) fn helpers(&self) -> Option<Helpers> {
        let has_secrets = self.who.credentials_file.is_some() || !self.who.environment.is_empty();
        let others = self.others.get().filter(|_| !has_secrets)?.clone();
        let (names, lost, units_turn) = (others.names(), AtomicBool::new(false), AtomicUsize::new(0));
        (!names.is_empty()).then(|| Helpers { others, who: self.who.clone(), names, lost, units_turn })
    }

    /// Helpers of a file with this many units.
    pub(super) fn helpers_for(&self, units: u64) -> Option<Helpers> {
        let wanted = units >= UNITS_MIN && self.pace.as_ref().is_none_or(|pace| pace.wants_help());
        if wanted { self.helpers() } else { None }
    }

    /// Stages files in, with helpers if there are any. Calls `done` for each file; `missing` collects the failures that
    /// do not stop the others.
    pub(super) fn stage_in_all(
        &self,
        files: Vec<StageIn>,
        done: &(dyn Fn(&Staged) + Sync),
        missing: Option<&Missing>,
    ) -> Result<Staged> {
        // The size of a whole file is unknown here: under a limit, helpers get only parts of files.
        let is_limited = self.pace.as_ref().is_some_and(|pace| pace.own.is_some());
        let helpers = self.helpers().filter(|_| files.len() > 1 && !is_limited);
        let all = Mutex::new(Staged::default());
        let note = |staged: Staged| {
            done(&staged);
            all.lock().add(staged);
        };
        let here = |file: StageIn| match self.stage_in(&file) {
            Err(error) if missing.is_some_and(|missing| missing.takes(&file.path, &error)) => Ok(()),
            staged => staged.map(note),
        };
        let elsewhere = |helpers: &Helpers, name: &str, some: &mut Vec<StageIn>| {
            helpers.bring_files(name, some, &self.stop, &note);
            Ok(())
        };
        work_off(files, 1, helpers.as_ref(), Helpers::files_of, here, elsewhere)?;
        Ok(all.into_inner())
    }

    fn bring_units(&self, key: &str, progress: &record::Progress, uris: &[String], units: &[u64]) -> Result<()> {
        let sources = self.sources(uris)?;
        let incoming = Incoming::join(self, key, progress.clone())?;
        let other_first = sources.list.first().is_none_or(|(place, _)| place.version != progress.version);
        if other_first || progress.changed(&sources).is_some() {
            return Err(StageError::path(&progress.path, "its source differs as read by this node"));
        }
        let meter = Meter::new(self.report, "", 0, 0);
        fetch_some(&incoming, &sources, units, &meter)?;
        sources.check_unchanged()?;
        incoming.leave()
    }
}

impl Helpers {
    /// Requests units of a file from a helper; returns whether it fetched them.
    pub fn bring_units(
        &self,
        name: &str,
        key: &str,
        progress: &record::Progress,
        sources: &Sources,
        units: &[u64],
        stop: &Stop,
    ) -> bool {
        let uris = sources.list.iter().map(|(place, _)| place.uri.clone()).collect();
        let count = progress.version.size.div_ceil(progress.unit_bytes.max(1));
        let progress = record::Progress { done: record::Units::none(count).to_text(), ..progress.clone() };
        let work = Work::Units { key: key.to_owned(), progress, uris, units: units.to_vec() };
        self.ask(name, work, stop).is_some()
    }

    /// Requests files from a helper; files that it did not stage in stay in the list.
    fn bring_files(&self, name: &str, files: &mut Vec<StageIn>, stop: &Stop, note: &dyn Fn(Staged)) {
        let work = Work::Files { files: files.clone(), umask: self.who.umask };
        let Some(said) = self.ask(name, work, stop) else {
            // The helper may have staged some of them all the same.
            return files.iter_mut().for_each(|file| file.keep |= !file.replace);
        };
        let mut said = said.into_iter();
        files.retain(|_| said.next().flatten().map(note).is_none());
    }

    fn ask(&self, name: &str, work: Work, stop: &Stop) -> Option<Vec<Option<Staged>>> {
        match self.others.ask(name, self.who.uid, self.who.gid, &Share(work), stop) {
            Said::Answer(answer) => return Some(answer),
            Said::Refused => {}
            Said::Nothing => self.lost.store(true, Ordering::Release),
        }
        None
    }

    /// Number of files in the next request. A helper stages one after the other, so that requests get small at the end.
    fn files_of(&self, left: usize) -> usize {
        left.div_ceil(CALLS_EACH * self.names.len()).min(FILES_AT_ONCE)
    }

    /// Number of units in the next request: an even part for each request of a round. A helper fetches all of them at the
    /// same time, so that a unit left over would take as long as they do.
    pub fn units_of(&self, left: usize) -> usize {
        let calls = CALLS_EACH * self.names.len();
        let before = self.units_turn.fetch_add(1, Ordering::Relaxed) % calls;
        left.div_ceil(calls - before).min(UNITS_AT_ONCE)
    }

    /// Whether a helper gave no answer: it may still write its share.
    pub fn lost_one(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}

/// Works off a list with `threads` threads. The first error ends the work.
pub(crate) fn work_off_here<T: Send>(
    list: Vec<T>,
    threads: usize,
    work: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    work_off(list, threads, None, |_, _| 0, work, |_, _, _| Ok(()))
}

/// Works off a list: `threads` threads here from its front, and requests to helpers from its end, of `share` items. A
/// helper that leaves any item gets no more requests. The first error ends the work.
pub(super) fn work_off<T: Send>(
    list: Vec<T>,
    threads: usize,
    helpers: Option<&Helpers>,
    share: impl Fn(&Helpers, usize) -> usize + Sync,
    here: impl Fn(T) -> Result<()> + Sync,
    elsewhere: impl Fn(&Helpers, &str, &mut Vec<T>) -> Result<()> + Sync,
) -> Result<()> {
    let (todo, failed) = (Mutex::new(VecDeque::from(list)), Mutex::new(None));
    let goes_on = |result: Result<()>| {
        let mut failed = failed.lock();
        if let Err(error) = result {
            failed.get_or_insert(error);
        }
        failed.is_none()
    };
    let work_here = || {
        while let Some(one) = { todo.lock().pop_front() }
            && goes_on(here(one))
        {}
    };
    let work_elsewhere = |helpers: &Helpers, name: &str| {
        loop {
            let mut some: Vec<T> = {
                let mut todo = todo.lock();
                let left = todo.len() - share(helpers, todo.len());
                todo.split_off(left).into()
            };
            if some.is_empty() || !goes_on(elsewhere(helpers, name, &mut some)) || !some.is_empty() {
                return todo.lock().extend(some);
            }
        }
    };
    // The second pass does the work that helpers left undone.
    for helpers in [helpers, None] {
        let threads = threads.min(todo.lock().len());
        let calls: Vec<_> =
            helpers.iter().flat_map(|of| of.names.iter().flat_map(|name| [(*of, name); CALLS_EACH])).collect();
        side_by_side(threads + calls.len(), |number| match number.checked_sub(threads) {
            None => work_here(),
            Some(call) => work_elsewhere(calls[call].0, calls[call].1),
        });
        if !goes_on(Ok(())) {
            break;
        }
    }
    failed.into_inner().map_or(Ok(()), Err)
}
