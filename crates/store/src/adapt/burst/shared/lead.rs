//! The part of the leader: holds the followers' writes until they have their turn and room, and accounts for them.

use super::super::open::{Elsewhere, OpenCheckpoint};
use super::super::{Adapt, Burst};
use super::AGAIN;
use super::word::{By, Number, Said, Stand, Word};
use crate::{Error, Result};
use parking_lot::{Condvar, Mutex};
use policy::burst::admission::{Event as Told, Verdict};
use policy::cluster::Node;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Timeout for other nodes to make their part of a version durable. A guess: enough to write their memory.
const SETTLE_MAX: Duration = Duration::from_secs(60);

/// Number of a request and its reply, with whether the file goes straight to the capacity tier.
type Latest = (Number, Option<(Said, bool)>);

/// Requests of other nodes, and the parts that they make durable.
#[derive(Default)]
pub struct Asks {
    /// Number and reply of the latest request, by node and path.
    latest: Mutex<HashMap<(String, String), Latest>>,
    settling: Mutex<HashMap<u64, BTreeMap<String, Vec<Stand>>>>,
    settled: Condvar,
}

impl Asks {
    pub fn forget(&self) {
        self.latest.lock().clear();
    }

    /// Records that a node has made its part of a version durable.
    pub fn settled(&self, name: &str, number: u64, stands: Vec<Stand>) {
        if let Some(told) = self.settling.lock().get_mut(&number) {
            told.insert(name.to_owned(), stands);
            self.settled.notify_all();
        }
    }
}

impl Burst {
    /// Handles a node's request to write `bytes` bytes.
    pub(super) fn asked(&self, adapt: &Adapt, by: &By, stand: &Stand, number: Number, bytes: u64) {
        let Some(shared) = self.shared.get().filter(|_| self.decides()) else { return };
        let path = stand.of.path.clone();
        {
            let mut latest = shared.asks.latest.lock();
            let (known, said) = latest.get(&(by.name.clone(), path.clone())).copied().unwrap_or_default();
            if number <= known {
                let again = match said {
                    Some((said, direct)) => Word::Answer { path, number, said, direct },
                    None => Word::Waits { path, number },
                };
                // Earlier requests have been answered, so only the latest gets its answer again.
                return if number == known {
                    shared.say_to(&by.name, &again)
                };
            }
            latest.insert((by.name.clone(), path.clone()), (number, None));
        }
        let begun = self.of_other(adapt, by, stand).and_then(|checkpoint| self.begin_writing(adapt, &checkpoint));
        let request = match begun {
            Ok(request) => request,
            Err(error) => {
                tracing::warn!("{path} of a checkpoint on another node is written without admission: {error}");
                return self.answer(&by.name, &path, number, Said::Go, false);
            }
        };
        let (jobs, name) = (self.driver.clone(), by.name.clone());
        let write = self.keep(Box::new(move |verdict: Result<()>| {
            let said = match verdict {
                Ok(()) => Verdict::Go,
                Err(Error::Busy(_)) => Verdict::Closed,
                Err(_) => Verdict::NoRoom,
            };
            jobs.jobs.later(super::Lane::Checkpoints, move |adapt| {
                let Some(burst) = adapt.burst() else { return };
                let direct = burst.admission(|of| of.request(request).is_some_and(|of| of.direct));
                burst.answer(&name, &path, number, said.into(), direct);
            });
        }));
        self.tell(Told::Hold { request, write, len: bytes });
    }

    fn answer(&self, name: &str, path: &str, number: Number, said: Said, direct: bool) {
        let Some(shared) = self.shared.get() else { return };
        // Another node will become the leader and answer.
        if said == Said::Closed {
            return;
        }
        if let Some(latest) = shared.asks.latest.lock().get_mut(&(name.to_owned(), path.to_owned()))
            && latest.0 == number
        {
            latest.1 = Some((said, direct));
        }
        shared.say_to(name, &Word::Answer { path: path.to_owned(), number, said, direct });
    }

    /// The entry of a checkpoint's file that another node writes.
    fn of_other(&self, adapt: &Adapt, by: &By, stand: &Stand) -> Result<Arc<OpenCheckpoint>> {
        let gone = || Error::Busy("the file is gone".into());
        let of = &stand.of;
        let file = self.file_at(adapt, &of.path).ok_or_else(gone)?;
        let inode = file.stub().inode().ok_or_else(gone)?;
        let new = || OpenCheckpoint::new((of.app.clone(), of.label.clone()), of.path.clone(), file.clone());
        let checkpoint = self.open.write().entry(inode).or_insert_with(|| Arc::new(new())).clone();
        note(&checkpoint, by, stand);
        Ok(checkpoint)
    }

    /// Handles a node's report about the state of a file.
    pub(super) fn stands(&self, adapt: &Adapt, by: &By, stand: &Stand) {
        let Some(shared) = self.shared.get().filter(|_| self.decides()) else { return };
        let of = &stand.of;
        let begun = match self.writes_already(of.app.as_str(), &of.label, &of.path) {
            Some(checkpoint) if checkpoint.named().inode == of.inode => {
                note(&checkpoint, by, stand);
                Ok(checkpoint.request.load(Ordering::Acquire))
            }
            // The sending node has not received the version's end.
            _ if self.is_complete_with(of.app.as_str(), &of.label, &of.path) => {
                return shared.say_to(&by.name, &Word::Over { app: of.app.clone(), label: of.label.clone() });
            }
            _ => self.of_other(adapt, by, stand).and_then(|checkpoint| self.begin_writing(adapt, &checkpoint)),
        };
        match begun {
            Ok(request) => {
                shared.say_to(&by.name, &Word::Known { path: of.path.clone(), number: stand.number });
                if !stand.writes {
                    self.closed_writer(request);
                }
            }
            Err(Error::Busy(_)) => {
                // The file was removed or renamed, so it belongs to no version.
                shared.say_to(&by.name, &Word::Known { path: of.path.clone(), number: stand.number });
            }
            Err(error) => tracing::warn!("what another node says of {} is heard later: {error}", of.path),
        }
    }

    fn writes_already(&self, app: &str, label: &str, path: &str) -> Option<Arc<OpenCheckpoint>> {
        let table = self.table.lock();
        let request = table.writing(app, label)?;
        table.current.get(&request)?.open.get(path).cloned()
    }

    fn is_complete_with(&self, app: &str, label: &str, path: &str) -> bool {
        let table = self.table.lock();
        let version = table.version_at(path).and_then(|key| table.complete.get(&key));
        version.is_some_and(|version| version.app == app && version.label == label)
    }

    /// Marks the writes of ended nodes as incomplete; after the grace period, checks all versions for completeness.
    pub(super) fn tend_others(&self) {
        let Some(shared) = self.shared.get() else { return };
        let mut ended = BTreeSet::new();
        for (request, current) in &self.table.lock().current {
            for checkpoint in current.open.values() {
                let mut elsewhere = checkpoint.elsewhere.lock();
                for (name, of) in elsewhere.iter_mut().filter(|(_, of)| of.writes && shared.talk.is_over(of.node)) {
                    tracing::warn!("{} of a checkpoint was being written on a node that is over ({name})", current.app);
                    (of.writes, of.missing) = (false, vec![Range { start: 0, end: u64::MAX }]);
                    ended.insert(*request);
                }
            }
        }
        if !self.is_in_grace() && shared.since.lock().take().is_some() {
            ended.extend(self.table.lock().current.keys());
        }
        ended.into_iter().for_each(|request| self.closed_writer(request));
    }

    /// Requests that the other nodes make their part of a declared version durable, and waits for them.
    pub(in crate::adapt::burst) fn settle_others(&self, request: u64) -> Result<()> {
        let Some(shared) = self.shared.get() else { return Ok(()) };
        let (app, label, nodes) = {
            let table = self.table.lock();
            let Some(current) = table.current.get(&request) else { return Ok(()) };
            let mut nodes = BTreeMap::new();
            for checkpoint in current.open.values() {
                nodes.extend(checkpoint.elsewhere.lock().iter().map(|(name, of)| (name.clone(), of.node)));
            }
            (current.app.clone(), current.label.clone(), nodes)
        };
        let number = self.next_number();
        shared.asks.settling.lock().insert(number, BTreeMap::new());
        let settle = Word::Settle { by: shared.by(), number, app, label };
        let done = self.wait_until_settled(number, &nodes, &settle);
        let stands = shared.asks.settling.lock().remove(&number).unwrap_or_default();
        let table = self.table.lock();
        for (name, stand) in stands.iter().flat_map(|(name, stands)| stands.iter().map(move |stand| (name, stand))) {
            let of = table.current.get(&request).and_then(|current| current.open.get(&stand.of.path));
            if let (Some(checkpoint), Some(node)) = (of, nodes.get(name)) {
                note(checkpoint, &By { name: name.clone(), node: node.0 }, stand);
            }
        }
        done
    }

    fn wait_until_settled(&self, number: u64, nodes: &BTreeMap<String, Node>, settle: &Word) -> Result<()> {
        let Some(shared) = self.shared.get() else { return Ok(()) };
        let until = Instant::now() + SETTLE_MAX;
        loop {
            let mut settling = shared.asks.settling.lock();
            let left = |told: &BTreeMap<String, Vec<Stand>>| -> Vec<String> {
                nodes.keys().filter(|name| !told.contains_key(*name)).cloned().collect()
            };
            let missing = settling.get(&number).map(left).unwrap_or_default();
            if missing.is_empty() {
                return Ok(());
            }
            if let Some(name) = missing.iter().find(|name| shared.talk.is_over(nodes[*name])) {
                return Err(Error::Elsewhere(format!("a node that wrote it is over ({name})")));
            }
            if Instant::now() >= until {
                let why = format!("{} node(s) did not make their part durable within a minute", missing.len());
                return Err(Error::Elsewhere(why));
            }
            parking_lot::MutexGuard::unlocked(&mut settling, || {
                missing.iter().for_each(|name| shared.say_to(name, settle));
            });
            shared.asks.settled.wait_for(&mut settling, AGAIN);
        }
    }

    /// Informs the writing nodes that a version is complete or abandoned, so that they drop its state.
    pub(in crate::adapt::burst) fn tell_of_end(
        &self,
        app: &str,
        label: &str,
        open: &BTreeMap<String, Arc<OpenCheckpoint>>,
    ) {
        let Some(shared) = self.shared.get() else { return };
        let mut names = BTreeSet::new();
        for checkpoint in open.values() {
            names.extend(std::mem::take(&mut *checkpoint.elsewhere.lock()).into_keys());
            if checkpoint.is_unused()
                && let Some(inode) = checkpoint.file.stub().inode()
            {
                let mut open = self.open.write();
                if open.get(&inode).is_some_and(|there| Arc::ptr_eq(there, checkpoint) && there.is_unused()) {
                    open.remove(&inode);
                }
            }
        }
        let over = Word::Over { app: app.to_owned(), label: label.to_owned() };
        names.iter().for_each(|name| shared.say_to(name, &over));
        shared.asks.latest.lock().retain(|(_, path), (_, said)| said.is_none() || !open.contains_key(path));
    }
}

/// Records the state of a file on a node; a state older than the latest is late and ignored.
fn note(checkpoint: &OpenCheckpoint, by: &By, stand: &Stand) {
    if checkpoint.elsewhere.lock().get(&by.name).is_some_and(|known| known.number > stand.number) {
        return;
    }
    if stand.emptied && !checkpoint.emptied.swap(true, Ordering::AcqRel) {
        checkpoint.missing.remove(0, u64::MAX);
    }
    let missing = stand.missing.iter().map(|(from, to)| *from..*to).collect();
    let here = Elsewhere { node: Node(by.node), number: stand.number, writes: stand.writes, missing };
    checkpoint.elsewhere.lock().insert(by.name.clone(), here);
}
