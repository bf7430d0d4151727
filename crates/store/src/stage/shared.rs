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
use super::{Report, StageError, StageIn, Staged, Stager, Stop};
use crate::calls::{Answer, Calls, SILENT, Service, To};
use crate::control::{Caller, Problem, Responder, exit};
use crate::source::Identity;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// The names of these calls.
const UNITS: &str = "stage-units";
const FILES: &str = "stage-files";
/// Units that a node is asked for at once: what is fetched again when it does not answer.
pub(super) const UNITS_AT_ONCE: usize = 4;
/// A file of fewer units is not worth the words.
const UNITS_MIN: u64 = 8;
/// Files that a node is asked for at once.
const FILES_AT_ONCE: usize = 16;
/// Calls under way to each node: it fetches while the answer to another travels.
pub(super) const CALLS_EACH: usize = 2;

/// Units of a file on its way in.
#[derive(Clone, Serialize, Deserialize)]
struct Share {
    key: String,
    progress: record::Progress,
    uris: Vec<String>,
    units: Vec<u64>,
    umask: Option<u32>,
}

/// Files to be staged in.
#[derive(Serialize, Deserialize)]
struct Files {
    files: Vec<StageIn>,
    umask: Option<u32>,
}

/// The other nodes that bring shares of something.
pub(super) struct Helpers {
    calls: Arc<Calls>,
    caller: Caller,
    umask: Option<u32>,
    /// The names under which they hear.
    pub names: Vec<String>,
    /// One gave no answer, and may still be at it.
    lost: AtomicBool,
}

impl Stager {
    /// From now on other nodes bring a part of what is staged in here, and the other way round. `may_help` says whether this node takes
    /// work of others.
    pub(crate) fn share(self: &Arc<Self>, calls: &Arc<Calls>, may_help: Arc<dyn Fn() -> bool + Send + Sync>) {
        let (stager, one) = (Arc::downgrade(self), may_help.clone());
        calls.register(UNITS, Arc::new(Serves { stager: stager.clone(), may_help: one, serve: serve_units }));
        calls.register(FILES, Arc::new(Serves { stager, may_help, serve: serve_files }));
        drop(self.others.set(calls.clone()));
    }

    /// The nodes that may help whoever asks, if there are any.
    pub(super) fn helpers(&self, who: &Identity) -> Option<Helpers> {
        let has_secrets = who.credentials_file.is_some() || !who.environment.is_empty();
        let calls = self.others.get().filter(|_| !has_secrets)?;
        let names: Vec<String> = calls.others().into_iter().filter_map(|other| other.own).collect();
        let caller = Caller { uid: who.uid, gid: who.gid, pid: 0 };
        (!names.is_empty()).then(|| Helpers {
            calls: calls.clone(),
            caller,
            umask: who.umask,
            names,
            lost: AtomicBool::new(false),
        })
    }

    /// The same for a file of so many units.
    pub(super) fn helpers_for(&self, who: &Identity, units: u64) -> Option<Helpers> {
        if units < UNITS_MIN { None } else { self.helpers(who) }
    }

    /// Stages files in, by several nodes where there are some. `done` hears of the bytes of each.
    pub(super) fn stage_in_all(
        &self,
        files: Vec<StageIn>,
        who: &Identity,
        report: Report,
        stop: &Stop,
        done: &(dyn Fn(&Staged) + Sync),
    ) -> Result<Staged, StageError> {
        let helpers = self.helpers(who).filter(|_| files.len() > 1);
        let todo = Mutex::new(files.into_iter().collect::<std::collections::VecDeque<_>>());
        let (all, failed) = (Mutex::new(Staged::default()), Mutex::new(None));
        let note = |staged: Staged| {
            done(&staged);
            all.lock().add(staged);
        };
        let here = || {
            while failed.lock().is_none() {
                let Some(file) = ({ todo.lock().pop_front() }) else { return };
                match self.stage_in(&file, who, report, stop) {
                    Ok(staged) => note(staged),
                    Err(error) => drop(failed.lock().get_or_insert(error)),
                }
            }
        };
        std::thread::scope(|scope| {
            for helpers in helpers.iter() {
                for name in &helpers.names {
                    scope.spawn(|| {
                        while failed.lock().is_none() {
                            let mut some: Vec<StageIn> = {
                                let mut todo = todo.lock();
                                let left = todo.len().saturating_sub(FILES_AT_ONCE);
                                todo.split_off(left).into()
                            };
                            if some.is_empty() || !helpers.bring_files(name, &mut some, stop, &note) {
                                todo.lock().extend(some);
                                return;
                            }
                        }
                    });
                }
            }
            here();
        });
        here(); // what others did not bring
        match failed.into_inner() {
            Some(error) => Err(error),
            None => Ok(all.into_inner()),
        }
    }

    fn bring_units(&self, share: &Share, who: &Identity, report: Report, stop: &Stop) -> Result<(), StageError> {
        let sources = Sources::open(&*self.opener, &share.uris, who, stop)?;
        let incoming = Incoming::join(self, &share.key, share.progress.clone())?;
        if sources.list.first().is_none_or(|(place, _)| place.version != share.progress.version) {
            return Err(StageError::path(&share.progress.path, "its source is another one as seen from here"));
        }
        let meter = Meter::new(report, "", 0, 0);
        fetch_some(&incoming, &sources, &share.units, &meter, stop)?;
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
        let share = Share { key: key.to_owned(), progress, uris, units: units.to_vec(), umask: self.umask };
        self.ask(name, UNITS, json!(share), stop).is_some()
    }

    /// Has a node stage files in; those that it did not bring stay in the list. Whether it is asked again.
    fn bring_files(&self, name: &str, files: &mut Vec<StageIn>, stop: &Stop, note: &dyn Fn(Staged)) -> bool {
        let asked = json!(Files { files: files.clone(), umask: self.umask });
        let said: Option<Vec<Option<Staged>>> =
            self.ask(name, FILES, asked, stop).and_then(|said| serde_json::from_value(said).ok());
        let Some(said) = said else {
            // It may have brought some of them all the same.
            files.iter_mut().for_each(|file| file.keep |= !file.replace);
            return false;
        };
        let mut said = said.into_iter();
        files.retain(|_| said.next().flatten().map(note).is_none());
        files.is_empty()
    }

    fn ask(&self, name: &str, service: &'static str, args: Value, stop: &Stop) -> Option<Value> {
        let mut listens = |_| !stop.is_set();
        let mut out = Responder::new(&mut listens, Arc::new(stop.clone()));
        let to = || To::Node(name.to_owned());
        let said = self.calls.call(&to, service, &self.caller, args, SILENT, &mut out);
        if let Err(error) = &said {
            tracing::info!("another node does not help to stage in: {}", error.cause);
            if error.exit_code == exit::NO_DAEMON {
                self.lost.store(true, Ordering::Release);
            }
        }
        said.ok()
    }

    /// Whether one gave no answer: it may still write what it was asked for.
    pub fn lost_one(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}

/// Serves calls of one of the two names.
struct Serves {
    stager: Weak<Stager>,
    may_help: Arc<dyn Fn() -> bool + Send + Sync>,
    serve: fn(&Stager, &Caller, Value, Report, &Stop) -> Answer,
}

impl Service for Serves {
    fn serve(&self, caller: &Caller, args: Value, out: &mut Responder<'_>) -> Answer {
        let stager = self.stager.upgrade().filter(|_| (self.may_help)());
        let stager = stager.ok_or_else(|| Problem::busy("this node takes no work of others now"))?;
        let stop: Stop = (**out.stop()).clone();
        let out = Mutex::new(out);
        // Whoever waits no more is noticed when it is told how far this is.
        let report = |_: &super::Progress| {
            out.lock().progress(Value::Null);
        };
        (self.serve)(&stager, caller, args, &report, &stop)
    }
}

fn serve_units(stager: &Stager, caller: &Caller, args: Value, report: Report, stop: &Stop) -> Answer {
    let share: Share = read(args)?;
    stager.bring_units(&share, &identity(caller, share.umask), report, stop).map_err(Problem::from)?;
    Ok(Value::Null)
}

/// For each file what came of it; nothing for one that was not brought: whoever asked tries it again, and says why it fails.
fn serve_files(stager: &Stager, caller: &Caller, args: Value, report: Report, stop: &Stop) -> Answer {
    let Files { files, umask } = read(args)?;
    let who = identity(caller, umask);
    let stage = |file: &StageIn| {
        let staged = stager.stage_in(file, &who, report, stop);
        staged.inspect_err(|error| tracing::info!("not staged in for another node: {error}")).ok()
    };
    Ok(json!(files.iter().map(stage).collect::<Vec<Option<Staged>>>()))
}

fn identity(caller: &Caller, umask: Option<u32>) -> Identity {
    Identity { uid: caller.uid, gid: caller.gid, umask, ..Identity::default() }
}

fn read<T: DeserializeOwned>(args: Value) -> Result<T, Problem> {
    serde_json::from_value(args)
        .map_err(|error| Problem::wrong(format!("a call of another node makes no sense: {error}")))
}
