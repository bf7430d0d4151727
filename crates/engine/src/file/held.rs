//! A file under holds: each operation has a right, and is acknowledged only if the right is valid after it.
//!
//! ```text
//!   right() ── begin? ── yes ──> follow(): layout, size and marks of that hold ──> operation ──> is_acknowledged()
//!                 '──── no: Want, wait for Ready
//! ```
//! Readers are not waited for: a hold that is lowered beside a read makes its result invalid. All else runs with `io`
//! held, so that `Drain` waits for it. The size reaches the stub later: at a recall, sync, close, or after a second.
//!
//! Under a mode that caches, size and layout are those of memory. Under `Write` stub and objects show the size together.

mod change;
mod content;
mod driver;
mod port;
mod sizes;
mod steps;

pub(super) use change::Turn;
pub use driver::Holds;
pub use port::Port;

use super::{File, View, check_inline, nodes, target_error};
use crate::{Error, Result};
use change::Change;
use meta::stub::{Pointer, Record};
use object::target::TargetError;
use parking_lot::{Condvar, Mutex};
use policy::TargetId;
use policy::cluster::Node;
use policy::cluster::share::Created;
use policy::holders::node::{Event, Permit, Use};
use policy::layout::Layout;
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longest wait for other nodes before a call fails. It exceeds the wait for a provisional hold without the store.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Longest wait for the settlement of a file in a scan. A guess: longer than a dead node's lease.
const SETTLE_MAX: Duration = Duration::from_secs(15);

/// Right to one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Right {
    /// Number of this node at the time.
    pub node: Node,
    pub permit: Permit,
}

/// Hold to which the state in memory belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Basis {
    node: Node,
    number: u64,
    generation: u64,
}

impl Right {
    fn basis(&self) -> Basis {
        Basis { node: self.node, number: self.permit.number, generation: self.permit.generation }
    }
}

/// State of a file's holds.
#[derive(Default)]
pub(super) struct Held {
    state: Mutex<State>,
    changed: Condvar,
    /// One change of the layout at a time.
    turn: Mutex<()>,
    /// Whether the machine counts the file as closed, although it is in memory.
    rests: AtomicBool,
    content: Mutex<Option<content::Content>>,
}

#[derive(Default)]
struct State {
    /// Number of wake-ups so far.
    woken: u64,
    basis: Option<Basis>,
    /// Generation and stamp of the view; `None`: not loaded.
    loaded: Option<(u64, u64)>,
    /// Record that was read last, with its generation.
    looked: Option<(u64, Record)>,
    /// Record from a time of one node, as the pointer step found it.
    plain: Option<Layout>,
    /// Whether the newest generation was searched since the last load: another node may have changed the file.
    searched: bool,
    /// Whether the inode is gone, so that no newer layout comes than the loaded one.
    removed: bool,
    /// Number of settlements that this node left to others, and the failed target of the last one.
    unsettled: (u64, Option<TargetId>),
    /// Size of the stub when this node last read or set it.
    in_stub: u64,
    /// Acknowledged end of this node's writes that the stub lacks.
    behind: Option<u64>,
    /// Whether a failed write left bytes beyond the end.
    dirty: bool,
    /// Number of this node under which a truncation failed and may have left its mark, which another node would finish.
    stale_cut: Option<Node>,
    /// Whether the stub had the mark of a truncation, and of one that did not cut it. Under a hold no other comes.
    marked: bool,
    uncut: bool,
    /// Whether the file is in the list of those with something of this to be settled.
    listed: bool,
    change: Change,
    sealed: Option<steps::Sealed>,
}

impl State {
    /// Under a new number of the node: other nodes have settled the size of the lost one.
    fn drop_what_others_settled(&mut self, node: Node) {
        if self.basis.is_some_and(|basis| basis.node < node) {
            (self.behind, self.dirty) = (None, false);
        }
    }

    /// Whether nothing is left to be set or cut later.
    fn is_settled(&self) -> bool {
        !(self.behind.is_some() || self.dirty || self.stale_cut.is_some())
    }

    /// Whether the state was loaded under this number of the node.
    fn was_used_by(&self, node: Node) -> bool {
        self.basis.is_some_and(|basis| basis.node == node)
    }
}

impl Held {
    /// Records that the file has no inode any more. Unless memory `keeps` the layout, operations fail that need more than
    /// the present hold. Whether a record was created before is unknown, unless the inode is `surely` gone.
    fn note_removal(&self, keeps: bool, surely: bool) {
        let mut state = self.state.lock();
        (state.removed, state.loaded) = (true, state.loaded.filter(|_| keeps));
        state.change.outcome.get_or_insert(surely.then_some(Created::Exists { mine: false }));
        drop(state);
        self.wake();
    }

    /// Records that this node left the file unsettled.
    fn note_unsettled(&self, error: &Error) {
        let failed = match error {
            Error::Target { target, error: TargetError::Failed } => Some(*target),
            _ => None,
        };
        let mut state = self.state.lock();
        state.unsettled = (state.unsettled.0 + 1, failed);
        drop(state);
        self.wake();
    }

    /// Whether the mark of a truncation that did not cut the stub may be there.
    pub fn has_stale_cut(&self) -> bool {
        let state = self.state.lock();
        state.uncut || state.stale_cut.is_some()
    }

    /// Records that no bytes lie beyond the end, and no mark of a truncation is there.
    pub fn cleaned(&self) {
        let mut state = self.state.lock();
        (state.dirty, state.stale_cut, state.uncut) = (false, None, false);
    }

    /// Records the size that this node has set in the stub.
    pub fn set_in_stub(&self, size: u64) {
        self.state.lock().in_stub = size;
    }

    /// Lets waiting operations try again.
    pub fn wake(&self) {
        self.state.lock().woken += 1;
        self.changed.notify_all();
    }

    /// Number of settlements that this node left to others.
    fn unsettled(&self) -> u64 {
        self.state.lock().unsettled.0
    }

    /// Fails if the inode is gone, with the layout, or if a failed target kept this node from a settlement since the one
    /// of that number.
    fn check(&self, unsettled: u64) -> Result<()> {
        let state = self.state.lock();
        match state.unsettled {
            _ if state.removed && state.loaded.is_none() => Err(Errno::STALE.into()),
            (number, Some(target)) if number > unsettled => Err(target_error(target, TargetError::Failed)),
            _ => Ok(()),
        }
    }

    /// Waits for a wake-up after the `woken`-th. Returns false after the timeout.
    fn wait(&self, woken: u64, until: Instant) -> bool {
        let mut state = self.state.lock();
        !self.changed.wait_while_until(&mut state, |state| state.woken == woken, until).timed_out()
    }
}

impl File {
    /// Key of the file in the table of holders.
    pub(super) fn key(&self) -> u64 {
        self.stub.inode().map_or(0, |(_, inode)| inode)
    }

    /// Right to an operation, with the state in memory up to date. Waits for other nodes; the caller holds no lock.
    pub(super) fn right(&self, holds: &Holds, usage: Use) -> Result<Right> {
        self.right_within(WAIT_MAX, holds, usage)
    }

    fn right_within(&self, span: Duration, holds: &Holds, usage: Use) -> Result<Right> {
        let (until, unsettled) = (Instant::now() + span, self.held.unsettled());
        let mut forgotten = false;
        loop {
            let node = holds.node()?;
            if self.rests() {
                holds.set_rest(self, false);
            }
            let woken = self.held.state.lock().woken;
            if let Some(right) = holds.begin(self.key(), usage) {
                match self.follow(&right, usage) {
                    Ok(()) => return Ok(right),
                    // The hold may be that of a removed file whose inode number this one has.
                    Err(Error::BadLayout(_)) if self.is_settled() && !std::mem::replace(&mut forgotten, true) => {
                        holds.feed(node, Event::Gone(self.key()));
                    }
                    Err(error) if self.is_acknowledged(holds, &right)? => return Err(error),
                    Err(_) => {}
                }
                continue;
            }
            self.held.check(unsettled)?;
            holds.feed(node, Event::Want(self.key(), usage));
            // A lost number shows without a wake-up.
            let step = Instant::now() + Duration::from_secs(1);
            if !self.held.wait(woken, step.min(until)) && Instant::now() >= until {
                return Err(Error::Elsewhere("other nodes use the file and do not release it".into()));
            }
        }
    }

    /// As `right`, without waiting and without a call to the stub.
    pub(super) fn right_now(&self, holds: &Holds, usage: Use) -> Option<Right> {
        let right = holds.begin(self.key(), usage)?;
        (self.held.state.lock().basis == Some(right.basis())).then_some(right)
    }

    /// Lets the hold go at a recall as that of a closed file, until the next operation. Its state stays in memory.
    pub fn rest(&self) {
        self.holds().iter().for_each(|holds| holds.set_rest(self, true));
    }

    /// Whether nothing is left to be set or cut later.
    fn is_settled(&self) -> bool {
        self.held.state.lock().is_settled()
    }

    /// Whether the file is only kept in memory. Another node may have moved it since its last use.
    pub(super) fn rests(&self) -> bool {
        self.held.rests.load(Ordering::Acquire)
    }

    /// Whether the file rests, and nothing is left to be waited for or settled.
    fn is_idle(&self) -> bool {
        let is_settled = || self.held.state.try_lock().is_some_and(|state| state.is_settled());
        self.rests() && is_settled() && self.io.try_write().is_some()
    }

    /// Node and number of the present hold, if no other node changes the content under it.
    pub fn caching_hold(&self) -> Option<(Node, u64)> {
        let right = self.right_now(self.holds()?, Use::Read)?;
        right.permit.mode.caches().then_some((right.node, right.permit.number))
    }

    /// Whether the result of an operation may be acknowledged; otherwise it must be repeated. Waits while the lease may
    /// still be renewed.
    pub(super) fn is_acknowledged(&self, holds: &Holds, right: &Right) -> Result<bool> {
        nodes::is_acknowledged(|| holds.finish(self.key(), right))
    }

    /// Loads the state in memory for a right, unless it belongs to the same hold already. One of a later hold or
    /// generation stays: the right was overtaken.
    fn follow(&self, right: &Right, usage: Use) -> Result<()> {
        let _record = self.record.lock();
        if self.held.state.lock().basis >= Some(right.basis()) {
            return Ok(());
        }
        let is_new = self.holds().is_some_and(|holds| holds.take_new(self.key()));
        match is_new && self.layout().is_none() {
            // The state in memory is that of an empty file.
            true => self.held.state.lock().loaded = Some((0, 0)),
            false => {
                let reads = right.permit.mode.caches() && usage == Use::Read;
                let reader = reads.then_some((right.node, right.permit.number));
                self.load_generation(right.node, right.permit.generation, true, reader)?;
            }
        }
        self.held.state.lock().basis = Some(right.basis());
        Ok(())
    }

    /// Record of a generation that is the newest, under a hold or claim.
    fn base(&self, generation: u64) -> Result<Record> {
        let (looked, plain) = {
            let state = self.held.state.lock();
            (state.looked.clone(), state.plain.clone())
        };
        if generation == 0 {
            return Ok(Record { stamp: 0, layout: None });
        }
        if let Some((_, record)) = looked.filter(|(of, _)| *of == generation) {
            return Ok(record);
        }
        if let Some(record) = self.loaded_record(generation) {
            return Ok(record);
        }
        if let Some(layout) = plain.filter(|layout| layout.generation == generation) {
            return Ok(Record { stamp: 0, layout: Some(layout) });
        }
        let plain = || match self.stub.pointer() {
            Ok(Pointer::Plain(layout)) if layout.generation == generation => {
                Some(Record { stamp: 0, layout: Some(*layout) })
            }
            _ => None,
        };
        let lost = || Error::BadLayout(format!("the record of generation {generation} is gone"));
        self.stub.record(generation)?.or_else(plain).ok_or_else(lost)
    }

    /// Record of the layout in memory, if it is that of the generation.
    fn loaded_record(&self, generation: u64) -> Option<Record> {
        let (_, stamp) = self.held.state.lock().loaded.filter(|(of, _)| *of == generation)?;
        Some(Record { stamp, layout: self.layout().map(|layout| Layout::clone(&layout)) })
    }

    /// Loads layout, size and marks. `whole`: not only what other holders may have changed beside this node's hold.
    /// `reader`: a hold under which the content is read next. The caller holds `record`, or the file alone.
    fn load_generation(&self, node: Node, generation: u64, whole: bool, reader: Option<(Node, u64)>) -> Result<()> {
        let mut loaded = self.held.state.lock().loaded;
        let is_new = whole || loaded.is_none_or(|(of, _)| of != generation);
        if !is_new && self.holds().is_some_and(|holds| holds.is_exclusive(self.key())) {
            return Ok(()); // other nodes change nothing beside such a hold
        }
        if is_new {
            let Record { stamp, layout } = self.base(generation)?;
            if loaded != Some((generation, stamp)) {
                tracing::trace!(key = self.key(), generation, stamp, ?loaded, "layout loaded");
                self.install(layout)?;
                loaded = Some((generation, stamp));
            }
            self.source.forget();
            self.has_sums.store(self.layout().is_some() && self.stub.has_sums()?, Ordering::Release);
            self.forget_all();
        }
        // Without objects there is nothing that a truncation could have left.
        let cut = if self.layout().is_some() { self.stub.cut_to()? } else { None };
        // A settlement or a write between the size of the stub and that of memory would be undone.
        let _extend = self.extend.lock();
        let layout = self.layout();
        let reader = reader.filter(|_| layout.is_none());
        let size = reader.map_or_else(|| self.stub.size(), |hold| self.size_with_content(hold))?;
        check_inline(&*self.stub, &self.pool, layout.is_none(), size)?;
        let mut state = self.held.state.lock();
        state.drop_what_others_settled(node);
        let clean = cut.is_none() && !state.dirty && loaded.is_some_and(|(_, stamp)| stamp != 0);
        let behind = state.behind;
        (state.loaded, state.searched) = (loaded, false);
        state.in_stub = size;
        (state.marked, state.uncut) = (cut.is_some(), cut.is_some_and(|cut| cut < size));
        drop(state);
        self.tail_clean.store(clean || layout.is_none(), Ordering::Release);
        let known = self.size.load(Ordering::Acquire);
        let size = size.max(behind.unwrap_or(0));
        let _cut = (size < known).then(|| self.cuts.begin());
        self.set_known_size(size);
        Ok(())
    }

    /// Makes a layout the view of this node.
    pub(super) fn install(&self, layout: Option<Layout>) -> Result<()> {
        if let Some(layout) = &layout {
            layout.check().map_err(Error::BadLayout)?;
            self.pool.making.settled(layout.objects().map(|(_, object)| object.id));
        }
        let old = self.view();
        *self.view.write() = Arc::new(View::new(layout, Some(&old)));
        self.tell_objects();
        if let (Some(id), Some(this)) = (self.id(), self.this.upgrade()) {
            this.has_number(id);
        }
        Ok(())
    }

    /// Updates the size beside other writers, for a use up to `end`. They only make the file longer, and set the size of
    /// the stub later.
    fn take_longer_size(&self, holds: &Holds, right: &Right, end: u64) -> Result<()> {
        if right.permit.mode.caches() || end <= self.size.load(Ordering::Acquire) {
            return Ok(());
        }
        let in_stub = self.stub.size()?;
        self.size.fetch_max(in_stub, Ordering::AcqRel);
        let marked = {
            let mut state = self.held.state.lock();
            state.in_stub = state.in_stub.max(in_stub);
            state.marked
        };
        // Bytes beyond the end of a truncation do not count.
        if self.layout().is_some() && !(marked && self.stub.cut_to()?.is_some()) {
            self.size.fetch_max(self.size_of_objects(holds)?, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Waits for the right to read up to `end`; `None` with one node.
    pub(super) fn begin_reading(&self, end: u64) -> Result<Option<Right>> {
        let Some(holds) = self.holds() else { return Ok(None) };
        let right = self.right(holds, Use::Read)?;
        self.take_longer_size(holds, &right, end)?;
        Ok(Some(right))
    }

    /// Waits for the right to write up to `end`. The caller holds no lock.
    pub(super) fn begin_writing(&self, end: u64) -> Result<()> {
        let Some(holds) = self.holds() else { return Ok(()) };
        let right = self.right(holds, Use::Write)?;
        // Elsewhere a write beyond the known size is growth, although another node may have written there.
        if !right.permit.grows || self.has_payers() {
            self.take_longer_size(holds, &right, end)?;
        }
        self.right(holds, self.usage_up_to(end)).map(drop)
    }

    /// Right to write up to `end`, without a wait; the inner `None`: there is one node.
    pub(super) fn may_write(&self, end: u64) -> Option<Option<Right>> {
        match self.holds() {
            Some(holds) => self.right_now(holds, self.usage_up_to(end)).map(Some),
            None => Some(None),
        }
    }

    /// Whether an operation may be acknowledged; otherwise it must be repeated.
    pub(super) fn may_acknowledge(&self, right: &Option<Right>) -> Result<bool> {
        match (self.holds(), right) {
            (Some(holds), Some(right)) => self.is_acknowledged(holds, right),
            _ => Ok(true),
        }
    }

    /// Known size under the present hold: at least that of the stub, which gets it later. 0 without a hold.
    pub fn held_size(&self) -> u64 {
        self.holds().and_then(|holds| self.right_now(holds, Use::Read)).map_or(0, |_| self.size())
    }

    /// Purpose of a write up to `end`.
    fn usage_up_to(&self, end: u64) -> Use {
        if end > self.size.load(Ordering::Acquire) { Use::Grow } else { Use::Write }
    }

    /// Updates the state in memory, as for an open.
    pub(super) fn refresh_held(&self, holds: &Holds, usage: Use) -> Result<()> {
        let right = self.right(holds, usage)?;
        match self.take_longer_size(holds, &right, u64::MAX) {
            Err(error @ (Error::Busy(_) | Error::Target { .. })) => {
                tracing::debug!("a file may be longer than it seems: {error}");
            }
            taken => taken?,
        }
        if !right.permit.mode.caches() {
            self.forget_all();
        }
        Ok(())
    }

    /// Whether another node has the file open, or may have it. Nodes that have closed it release it within the wait.
    /// The caller has removed its last name.
    pub fn is_held_elsewhere(&self, wait: Duration) -> bool {
        self.holds().is_some_and(|holds| holds.has_other_holders(self.key(), wait))
    }

    /// Settles the file if a node that is over has left a claim or a size: an exclusive hold is granted only then.
    pub(crate) fn settle_left(&self) -> Result<()> {
        self.holds().map_or(Ok(()), |holds| self.right_within(SETTLE_MAX, holds, Use::Alone).map(drop))
    }

    /// Whether a mirror in sync is the only one.
    fn has_one_mirror(&self) -> bool {
        self.layout().is_none_or(|layout| layout.in_sync_count() == 1)
    }
}

#[cfg(test)]
pub(super) mod tests;
