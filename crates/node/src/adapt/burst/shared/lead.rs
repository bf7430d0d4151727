//! The part of the leader: holds the followers' writes until they have their turn and room, and accounts for them.

use super::super::open::{Elsewhere, OpenCheckpoint};
use super::super::{Adapt, Burst, Lane, queue};
use super::SERVICE;
use super::request::{By, Granted, Request, Said, Stand};
use crate::calls::{Answer, Reply, To};
use crate::control::Caller;
use crate::{Error, Result};
use policy::burst::admission::Event as AdmissionEvent;
use policy::cluster::Node;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Timeout for other nodes to make their part of a version durable. A guess: enough to write their memory.
const SETTLE_MAX: Duration = Duration::from_secs(60);

impl Burst {
    /// Holds a node's request to write `bytes` bytes until it has its turn and room.
    pub(super) fn hold(&self, adapt: &Adapt, by: &By, stand: &Stand, bytes: u64, reply: Reply) {
        if !self.decides() {
            return;
        }
        let path = &stand.of.path;
        let request = match self.of_other(adapt, by, stand).map(|of| self.begin_writing(adapt, &of)) {
            Ok(Ok(request)) => request,
            // The version that the write overwrites may still be recorded. The other node repeats its request.
            Ok(Err(error)) if !matches!(error, Error::Invalid(_)) => {
                tracing::warn!("a write of {path} on another node waits until its version is begun: {error}");
                return;
            }
            Ok(Err(error)) | Err(error) => {
                tracing::warn!("{path} of a checkpoint on another node is written without admission: {error}");
                return reply.send(&Ok((Said::Go, false)));
            }
        };
        let driver = self.driver.clone();
        let write = self.keep(Box::new(move |verdict: Result<()>| {
            let said = match verdict {
                Ok(()) => Said::Go,
                // Another node will become the leader and answer.
                Err(Error::Busy(_)) => return,
                Err(_) => Said::NoRoom,
            };
            queue(&driver, Lane::Checkpoints, move |burst, _| {
                let direct = burst.admission(|of| of.request(request).is_some_and(|of| of.direct));
                let granted: Granted = (said, direct);
                reply.send(&Ok(granted));
            });
        }));
        self.tell(AdmissionEvent::Hold { request, write, len: bytes });
    }

    /// The entry of a checkpoint's file that another node writes.
    fn of_other(&self, adapt: &Adapt, by: &By, stand: &Stand) -> Result<Arc<OpenCheckpoint>> {
        let gone = || Error::Busy("the file is gone".into());
        let of = &stand.of;
        let file = self.file_at(adapt, &of.path)?.ok_or_else(gone)?;
        let inode = file.stub().inode().ok_or_else(gone)?;
        let new = || OpenCheckpoint::new((of.app.clone(), of.label.clone()), of.path.clone(), file.clone());
        let checkpoint = self.open.write().entry(inode).or_insert_with(|| Arc::new(new())).clone();
        note(&checkpoint, by, stand);
        Ok(checkpoint)
    }

    /// Handles a node's report about the state of a file. Returns whether its version is over; `None` if the node has
    /// to repeat the report.
    pub(super) fn stands(&self, adapt: &Adapt, by: &By, stand: &Stand) -> Option<bool> {
        let of = &stand.of;
        let begun = match self.writes_already(of.app.as_str(), &of.label, &of.path) {
            Some(checkpoint) if checkpoint.named().inode == of.inode => {
                note(&checkpoint, by, stand);
                Ok(checkpoint.request.load(Ordering::Acquire))
            }
            // The sending node has not received the version's end.
            _ if !stand.unasked && self.is_complete_with(of.app.as_str(), &of.label, &of.path) => return Some(true),
            _ => self.of_other(adapt, by, stand).and_then(|checkpoint| self.begin_writing(adapt, &checkpoint)),
        };
        match begun {
            Ok(request) => {
                if !stand.writes {
                    self.closed_writer(request);
                }
                Some(false)
            }
            // The file was removed or renamed, so it belongs to no version.
            Err(Error::Busy(_)) => Some(false),
            Err(error) => {
                tracing::warn!("the report of another node on {} is applied later: {error}", of.path);
                None
            }
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
                for (name, of) in elsewhere.iter_mut().filter(|(_, of)| of.writes && shared.talk().is_over(of.node)) {
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
        let until = Instant::now() + SETTLE_MAX;
        let is_awaited = |name: &str| Instant::now() < until && !shared.talk().is_over(nodes[name]);
        let (names, settle) = (nodes.keys().cloned().collect(), Request::Settle { app, label });
        let answers = shared.calls.call_each(names, SERVICE, &Caller::daemon(), &settle, SETTLE_MAX, &is_awaited);
        let table = self.table.lock();
        let mut silent = Vec::new();
        for (name, answer) in answers {
            let Ok(stands): Answer<Vec<Stand>> = answer else {
                silent.push(name);
                continue;
            };
            let by = By { node: nodes[&name].0, name };
            for stand in &stands {
                let current = table.current.get(&request);
                if let Some(checkpoint) = current.and_then(|current| current.open.get(&stand.of.path)) {
                    note(checkpoint, &by, stand);
                }
            }
        }
        if let Some(name) = silent.iter().find(|name| shared.talk().is_over(nodes[*name])) {
            return Err(Error::Elsewhere(format!("a node that wrote it is over ({name})")));
        }
        match silent.len() {
            0 => Ok(()),
            n => Err(Error::Elsewhere(format!("{n} node(s) did not make their part durable within a minute"))),
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
        let over = Request::Over { app: app.to_owned(), label: label.to_owned() };
        names.into_iter().for_each(|name| shared.notify(&To::Node(name), &over));
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
