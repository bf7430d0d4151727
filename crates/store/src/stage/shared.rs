//! Staging in by several nodes: the node that is asked gives shares of its work to the others, which bring them as it would.
//!
//! ```text
//!   one file     the node that is asked makes the stub in `staging/` and lays the file out
//!                units of it -- a call --> another node: fetches them, writes them into the same file, syncs
//!                all units there: the node that is asked gives the file its name
//!   many files   a few of them -- a call --> another node: stages each in
//! ```
//! What a node does not bring is brought by the one that is asked. One that gives no answer may still write: then the file is begun anew
//! in other objects, without help. Credentials do not travel: with these one node brings all.

use super::fetch::fetch_some;
use super::incoming::Incoming;
use super::progress::Meter;
use super::record;
use super::sources::Sources;
use super::tree::Missing;
use super::{Report, StageError, StageIn, Staged, Stager, Stop};
use crate::source::Identity;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What another node says to what it was asked for.
pub enum Said {
    /// This.
    Answer(Value),
    /// It does not do it, and does nothing more.
    Refused,
    /// Nothing: it may still be at it.
    Nothing,
}

/// The other nodes of a volume, which bring shares of what is staged in.
pub trait Others: Send + Sync {
    /// Their names.
    fn names(&self) -> Vec<String>;
    /// Has one bring a share, on behalf of a user: its [`Stager::bring`].
    fn ask(&self, name: &str, uid: u32, gid: u32, share: Value, stop: &Stop) -> Said;
}

/// Units that a node is asked for at once: what is fetched again when it does not answer.
pub(super) const UNITS_AT_ONCE: usize = 4;
/// A file of fewer units is not worth the words.
const UNITS_MIN: u64 = 8;
/// Files that a node is asked for at once.
const FILES_AT_ONCE: usize = 16;
/// Calls under way to each node: it fetches while the answer to another travels.
const CALLS_EACH: usize = 2;

/// What a node is asked to bring.
#[derive(Serialize, Deserialize)]
enum Share {
    /// Units of a file on its way in.
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

/// The other nodes that bring shares of something.
pub(super) struct Helpers {
    others: Arc<dyn Others>,
    uid: u32,
    gid: u32,
    umask: Option<u32>,
    /// The names under which they hear.
    pub names: Vec<String>,
    /// One gave no answer, and may still be at it.
    lost: AtomicBool,
}

impl Stager {
    /// From now on other nodes bring a part of what is staged in here.
    pub(crate) fn share(&self, others: Arc<dyn Others>) {
        drop(self.others.set(others));
    }

    /// Brings what another node asks for, on behalf of a user there.
    pub(crate) fn bring(
        &self,
        uid: u32,
        gid: u32,
        share: Value,
        report: Report,
        stop: &Stop,
    ) -> Result<Value, StageError> {
        let share = serde_json::from_value(share).map_err(|error| crate::Error::State(error.to_string()))?;
        let who = |umask| Identity { uid, gid, umask, ..Identity::default() };
        let paced = self.paced(None, uid, stop);
        match share {
            Share::Units { key, progress, uris, units } => {
                paced.bring_units(&key, &progress, &uris, &units, &who(None), report, stop)?;
                Ok(Value::Null)
            }
            // For each file what came of it; nothing for one that was not brought: whoever asked tries it again, and says why it fails.
            Share::Files { files, umask } => {
                let stage = |file: &StageIn| {
                    let staged = paced.stage_in(file, &who(umask), report, stop);
                    staged.inspect_err(|error| tracing::info!("not staged in for another node: {error}")).ok()
                };
                Ok(json!(files.iter().map(stage).collect::<Vec<Option<Staged>>>()))
            }
        }
    }

    /// The nodes that may help whoever asks, if there are any.
    pub(super) fn helpers(&self, who: &Identity) -> Option<Helpers> {
        let has_secrets = who.credentials_file.is_some() || !who.environment.is_empty();
        let others = self.others.get().filter(|_| !has_secrets)?.clone();
        let (names, lost) = (others.names(), AtomicBool::new(false));
        (!names.is_empty()).then(|| Helpers { others, uid: who.uid, gid: who.gid, umask: who.umask, names, lost })
    }

    /// The same for a file of so many units.
    pub(super) fn helpers_for(&self, who: &Identity, units: u64) -> Option<Helpers> {
        let wanted = units >= UNITS_MIN && self.pace.as_ref().is_none_or(|pace| pace.wants_help());
        if wanted { self.helpers(who) } else { None }
    }

    /// Stages files in, by several nodes where there are some. `done` hears of the bytes of each, `missing` of those that
    /// keep no other back.
    pub(super) fn stage_in_all(
        &self,
        files: Vec<StageIn>,
        who: &Identity,
        report: Report,
        stop: &Stop,
        done: &(dyn Fn(&Staged) + Sync),
        missing: Option<&Missing>,
    ) -> Result<Staged, StageError> {
        // How large a whole file is nobody knows before: with a limit only parts of a file are given to others.
        let is_limited = self.pace.as_ref().is_some_and(|pace| pace.own.is_some());
        let helpers = self.helpers(who).filter(|_| files.len() > 1 && !is_limited);
        let all = Mutex::new(Staged::default());
        let note = |staged: Staged| {
            done(&staged);
            all.lock().add(staged);
        };
        let here = |file: StageIn| match self.stage_in(&file, who, report, stop) {
            Err(error) if missing.is_some_and(|missing| missing.takes(&file.path, &error)) => Ok(()),
            staged => staged.map(note),
        };
        let elsewhere = |helpers: &Helpers, name: &str, some: &mut Vec<StageIn>| {
            helpers.bring_files(name, some, stop, &note);
            Ok(())
        };
        work_off(files, 1, helpers.as_ref(), FILES_AT_ONCE, here, elsewhere)?;
        Ok(all.into_inner())
    }

    #[allow(clippy::too_many_arguments)] // one call site; a struct for it would only repeat the names
    fn bring_units(
        &self,
        key: &str,
        progress: &record::Progress,
        uris: &[String],
        units: &[u64],
        who: &Identity,
        report: Report,
        stop: &Stop,
    ) -> Result<(), StageError> {
        let sources = Sources::open(&*self.opener, uris, who, stop)?;
        let incoming = Incoming::join(self, key, progress.clone())?;
        if sources.list.first().is_none_or(|(place, _)| place.version != progress.version) {
            return Err(StageError::path(&progress.path, "its source is another one as seen from here"));
        }
        let meter = Meter::new(report, "", 0, 0);
        fetch_some(&incoming, &sources, units, &meter, stop)?;
        incoming.leave()
    }
}

impl Helpers {
    /// Has a node bring units of a file. Whether it did.
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
        let share = Share::Units { key: key.to_owned(), progress, uris, units: units.to_vec() };
        self.ask(name, &share, stop).is_some()
    }

    /// Has a node stage files in; those that it did not bring stay in the list.
    fn bring_files(&self, name: &str, files: &mut Vec<StageIn>, stop: &Stop, note: &dyn Fn(Staged)) {
        let share = Share::Files { files: files.clone(), umask: self.umask };
        let said = self.ask(name, &share, stop);
        let said: Option<Vec<Option<Staged>>> = said.and_then(|said| serde_json::from_value(said).ok());
        let Some(said) = said else {
            // It may have brought some of them all the same.
            return files.iter_mut().for_each(|file| file.keep |= !file.replace);
        };
        let mut said = said.into_iter();
        files.retain(|_| said.next().flatten().map(note).is_none());
    }

    fn ask(&self, name: &str, share: &Share, stop: &Stop) -> Option<Value> {
        match self.others.ask(name, self.uid, self.gid, json!(share), stop) {
            Said::Answer(answer) => return Some(answer),
            Said::Refused => {}
            Said::Nothing => self.lost.store(true, Ordering::Release),
        }
        None
    }

    /// How many of those that are left one is asked for at once: its part, few at the end. The node that was asked has begun some by then.
    fn share_of(&self, left: usize, most: usize) -> usize {
        left.div_ceil(CALLS_EACH * self.names.len()).min(most)
    }

    /// Whether one gave no answer: it may still write what it was asked for.
    pub fn lost_one(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}

/// Works off a list: so many threads here, from its front, and calls to the helpers, from its end, for some things at once. A helper that
/// leaves anything of what it was asked for is asked no more. The first error ends all of it.
pub(super) fn work_off<T: Send>(
    list: Vec<T>,
    threads: usize,
    helpers: Option<&Helpers>,
    most: usize,
    here: impl Fn(T) -> Result<(), StageError> + Sync,
    elsewhere: impl Fn(&Helpers, &str, &mut Vec<T>) -> Result<(), StageError> + Sync,
) -> Result<(), StageError> {
    let (todo, failed) = (Mutex::new(VecDeque::from(list)), Mutex::new(None));
    let goes_on = |result: Result<(), StageError>| {
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
                let left = todo.len() - helpers.share_of(todo.len(), most);
                todo.split_off(left).into()
            };
            if some.is_empty() || !goes_on(elsewhere(helpers, name, &mut some)) || !some.is_empty() {
                return todo.lock().extend(some);
            }
        }
    };
    // The second time for what the helpers did not bring.
    for helpers in [helpers, None] {
        let threads = threads.min(todo.lock().len());
        std::thread::scope(|scope| {
            (0..threads).for_each(|_| drop(scope.spawn(work_here)));
            for name in helpers.iter().flat_map(|helpers| &helpers.names).flat_map(|name| [name; CALLS_EACH]) {
                scope.spawn(|| helpers.map(|helpers| work_elsewhere(helpers, name)));
            }
        });
        if !goes_on(Ok(())) {
            break;
        }
    }
    failed.into_inner().map_or(Ok(()), Err)
}
