//! Several nodes, one file: who writes it, and who changes how it lies. `policy::cluster::share` decides; here is what is done to the stub.
//!
//! ```text
//!  a writer    writer.ME on the stub, look: does nobody change it? ── writes ... the lease holds? ── acknowledged
//!                                             └── somebody does: writer.ME away, wait
//!  a changer   change.G+1 on the stub, look: who writes? ── rings them, waits until none is left ── changes ── layout.G+1
//!  when rung   writers under way here end ── writer.ME away
//! ```
//! With one node nothing of this happens.
//!
//! Bytes in a stub are written without a word to others. Who wrote looks at the stub once more before it acknowledges: whoever
//! moves them out has said so before it copied.

use super::{File, View};
use crate::stub::marks::Look;
use crate::{Error, Result};
use parking_lot::RwLockWriteGuard;
use policy::cluster::share::{self, Begin, Claim, Created, Enter, Mark, Published, Step, Written};
use policy::cluster::{Node, Standing};
use policy::layout::{Layout, ObjectState, Position};
use policy::{FileId, ObjectId};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long somebody waits for other nodes before the call fails. A node that is gone is found out in less than ten seconds.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// How long a reader waits for what another node recovers.
const RECOVERY_WAIT_MAX: Duration = Duration::from_secs(600);
/// From one look to the next: first, and at most.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);
/// After this long the node whose claim is in the way is asked for it.
const LONG: Duration = Duration::from_secs(1);
/// How long a node that is asked for a file waits for what is under way there before it hears the next.
const LET_GO_MAX: Duration = Duration::from_secs(1);

/// The other nodes of a volume.
pub trait Cluster: Send + Sync {
    /// The number of this node, under a lease that holds; waits a while for one.
    fn me(&self) -> Result<Node>;
    /// How this node stands with its lease under a number.
    fn standing(&self, node: Node) -> Standing;
    /// Whether a node is over for ever, as far as is known.
    fn is_over(&self, node: Node) -> bool;
    /// The upper half of the numbers of this node's objects.
    fn epoch(&self) -> u32;
    /// The node that makes objects of that epoch, if one does.
    fn node_of(&self, epoch: u32) -> Option<Node>;
    /// Whether objects of that epoch may be another node's, which may just be making them.
    fn may_be_used_by_another(&self, epoch: u32) -> bool;
    /// Whether this node changes by itself how files lie: one does.
    fn leads(&self) -> bool;
    /// Asks nodes to let go of a file. May get lost.
    fn ring(&self, nodes: &BTreeSet<Node>, file: FileId);
    /// Tells the node that leads what happens here. May get lost.
    fn report(&self, text: &str);
    /// What others told this node since the last time, as the one that leads.
    fn reports(&self) -> Vec<String>;
}

/// What this node said on the stub.
#[derive(Default)]
pub(super) struct Said {
    /// The node as which it writes the file, 0 if as none, and the number of that entry.
    writer: AtomicU32,
    entry: AtomicU64,
    /// The generation that it claims; 0 if none.
    claim: AtomicU64,
    /// That claim stays between changes, so that other nodes keep out.
    holds: AtomicBool,
    /// The node as which it copies the file.
    copies: AtomicU32,
    /// The generation that its view is of.
    generation: AtomicU64,
    /// Sizes were set by bytes in the stub, which take space.
    grew: AtomicBool,
}

impl Said {
    /// Nothing, of a file opened at that generation.
    pub fn at(generation: u64) -> Said {
        Said { generation: AtomicU64::new(generation), ..Said::default() }
    }
}

/// What became of a layout that was to be published.
enum Outcome {
    Happened,
    /// Nor will it.
    Not(Error),
    /// Nobody knows.
    Unknown(Error),
}

/// Looks again after a while, some time.
struct Patience {
    since: Instant,
    until: Instant,
    pause: Duration,
}

impl Patience {
    fn new() -> Patience {
        Patience::of(WAIT_MAX)
    }

    fn of(span: Duration) -> Patience {
        let since = Instant::now();
        Patience { since, until: since + span, pause: PAUSE }
    }

    fn is_long(&self) -> bool {
        self.since.elapsed() >= LONG
    }

    fn wait(&mut self, why: impl FnOnce() -> String) -> Result<()> {
        if Instant::now() >= self.until {
            return Err(Error::Elsewhere(why()));
        }
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        Ok(())
    }
}

fn changes(claim: Claim) -> String {
    format!("{} changes how the file lies and does not come to an end", claim.node)
}

/// Nobody else writes the file or changes how it lies, on any node, until this is dropped.
pub(crate) struct Exclusive<'a> {
    file: &'a File,
    io: Option<RwLockWriteGuard<'a, ()>>,
    as_node: Option<Node>,
}

impl Exclusive<'_> {
    /// Whether it was so until now, so that what was done may be acknowledged.
    pub(super) fn holds(&self) -> Result<bool> {
        let (Some(cluster), Some(node)) = (self.file.cluster(), self.as_node) else { return Ok(true) };
        may_be_said(cluster, node)
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        if !self.file.said.holds.load(Ordering::Acquire) {
            self.file.give_claim_up();
        }
        drop(self.io.take());
    }
}

/// Whether a write under a lease may be acknowledged; waits for one that may be renewed yet.
fn may_be_said(cluster: &Arc<dyn Cluster>, node: Node) -> Result<bool> {
    let mut patience = Patience::new();
    loop {
        match share::written(cluster.standing(node), false) {
            Written::Acknowledge => return Ok(true),
            Written::Again => return Ok(false),
            Written::Wait => patience.wait(|| "the namespace does not answer, so this node has no lease".into())?,
        }
    }
}

impl File {
    fn cluster(&self) -> Option<&Arc<dyn Cluster>> {
        self.pool.cluster.get()
    }

    /// Whether other nodes may use the file.
    pub(crate) fn is_shared(&self) -> bool {
        self.cluster().is_some()
    }

    /// Takes the file for oneself, here and on all nodes; knows then how it lies and how long it is.
    pub(crate) fn exclusive(&self) -> Result<Exclusive<'_>> {
        let Some(cluster) = self.cluster() else {
            return Ok(Exclusive { file: self, io: Some(self.io.write()), as_node: None });
        };
        let mut patience = Patience::new();
        loop {
            let me = cluster.me()?;
            let io = self.io.write();
            let look = self.stub.look()?;
            if let Some(alone) = self.held(me, &look) {
                self.take_over(&look)?;
                return Ok(Exclusive { file: self, io: Some(io), as_node: Some(alone) });
            }
            match share::begin(me, true, &look.marks, |node| cluster.is_over(node)) {
                Begin::Claim(claim) => {
                    if !self.stub.claim(claim)? {
                        continue;
                    }
                    self.said.claim.store(claim.generation, Ordering::Release);
                    let exclusive = Exclusive { file: self, io: Some(io), as_node: Some(me) };
                    if self.drained(cluster, &claim, &mut patience)? {
                        return Ok(exclusive);
                    }
                }
                Begin::End(claim) => drop(self.end(me, claim)?),
                Begin::Wait(claim) => {
                    self.stop_writing()?;
                    drop(io);
                    self.wait_for(cluster, claim, &mut patience)?;
                }
            }
        }
    }

    /// This node, if it keeps the others out already. The caller holds `io` exclusively.
    fn held(&self, me: Node, look: &Look) -> Option<Node> {
        if !self.said.holds.load(Ordering::Acquire) {
            return None;
        }
        let claimed = self.said.claim.load(Ordering::Acquire);
        let stands = look.marks.claim.is_some_and(|claim| claim.node == me && claim.generation == claimed);
        if !stands {
            self.said.holds.store(false, Ordering::Release);
            self.said.claim.store(0, Ordering::Release);
        }
        stands.then_some(me)
    }

    /// Keeps other nodes from writing the file, and from changing how it lies, until [`File::let_others_in`].
    pub(crate) fn keep_others_out(&self) -> Result<()> {
        let alone = self.exclusive()?;
        self.said.holds.store(self.is_shared(), Ordering::Release);
        drop(alone);
        Ok(())
    }

    /// Ends that.
    pub(crate) fn let_others_in(&self) {
        if self.is_shared() {
            let _io = self.io.write();
            if self.said.holds.swap(false, Ordering::AcqRel) {
                self.give_claim_up();
            }
        }
    }

    /// A claim ends with its generation, as the layout is: no claim is made twice under one name, so that no removal of one that comes
    /// late hits another's.
    fn give_claim_up(&self) {
        let generation = self.said.claim.swap(0, Ordering::AcqRel);
        let Some(cluster) = self.cluster().filter(|_| generation > 0) else { return };
        let given_up = cluster.me().and_then(|node| self.end(node, Claim { node, generation, drains: true }));
        match given_up {
            // Nobody else made it, so it is as the view.
            Ok(true) => self.said.generation.store(generation, Ordering::Release),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!("a claim on a file stays until this node changes it again, or is over: {error}");
            }
        }
    }

    /// Waits a little for the end of a claim; of one that stays for long its node may know nothing.
    fn wait_for(&self, cluster: &Arc<dyn Cluster>, claim: Claim, patience: &mut Patience) -> Result<()> {
        if let Some(id) = self.id().filter(|_| patience.is_long()) {
            cluster.ring(&BTreeSet::from([claim.node]), id);
        }
        patience.wait(|| changes(claim))
    }

    /// Waits until no other node writes the file. No if somebody was faster.
    fn drained(&self, cluster: &Arc<dyn Cluster>, claim: &Claim, patience: &mut Patience) -> Result<bool> {
        loop {
            let look = self.stub.look()?;
            match share::step(claim, &look.marks, |node| cluster.is_over(node)) {
                Step::Retry => return Ok(false),
                Step::Go => {
                    self.spoil(&look, claim.node)?;
                    self.take_over(&look)?;
                    return Ok(true);
                }
                Step::Drain(nodes) => {
                    self.take_over(&look)?; // the file may have got its number elsewhere
                    if let Some(id) = self.id() {
                        cluster.ring(&nodes, id);
                    }
                    let shown = nodes.first().copied().unwrap_or(claim.node);
                    patience.wait(|| format!("{shown} writes the file and does not let go of it"))?;
                }
            }
        }
    }

    /// Others that copy the file copy something old.
    fn spoil(&self, look: &Look, me: Node) -> Result<()> {
        look.copies.iter().filter(|node| **node != me).try_for_each(|node| self.stub.set_copy(*node, false).map(drop))
    }

    /// Ends a claim that nobody will end: whatever is still done to this generation comes too late from now on.
    /// Whether this node made that generation.
    fn end(&self, me: Node, claim: Claim) -> Result<bool> {
        let (generation, layout) = self.stub.newest()?;
        let layout = layout.map(|layout| Layout { generation: claim.generation, ..layout });
        let made = generation + 1 == claim.generation && self.stub.publish(me, claim.generation, layout.as_ref())?;
        self.tidy(&self.stub.look()?);
        Ok(made)
    }

    /// Removes what is over.
    fn tidy(&self, look: &Look) {
        let Some(cluster) = self.cluster() else { return };
        for mark in share::litter(&look.listed, |node| cluster.is_over(node)) {
            if let Err(error) = self.stub.remove(mark) {
                tracing::debug!("{mark} stays on a stub for now: {error}");
            }
        }
    }

    /// Brings what is known of the file up to date with a look at its stub.
    fn take_over(&self, look: &Look) -> Result<()> {
        let _record = self.record.lock();
        if look.marks.generation != self.said.generation.load(Ordering::Acquire) {
            let (generation, layout) = self.stub.newest()?;
            if let Some(layout) = &layout {
                layout.check()?;
                self.pool.making.named(layout.objects().map(|(_, object)| object.id));
            }
            let old = self.view();
            *self.view.write() = Arc::new(View::new(layout, Some(&old)));
            self.said.generation.store(generation, Ordering::Release);
            self.forget_all();
            self.tell_objects();
        }
        self.source.take_over(self.stub.source()?.as_deref());
        let _extend = self.extend.lock();
        self.size.store(self.stub.size()?, Ordering::Release);
        Ok(())
    }

    /// Looks at the stub: other nodes may have changed the file. Whether it lies in another way now.
    pub(crate) fn refresh(self: &Arc<Self>) -> Result<bool> {
        if !self.is_shared() {
            return Ok(false);
        }
        let (view, had_number) = (self.view(), self.id().is_some());
        self.take_over(&self.stub.look()?)?;
        if !had_number && let Some(id) = self.id() {
            self.has_number(id);
        }
        Ok(!self.same_view(&view))
    }

    /// At an open: what other nodes wrote before is seen from now on.
    pub(crate) fn forget_what_others_changed(self: &Arc<Self>) -> Result<()> {
        if self.is_shared() {
            self.refresh()?;
            self.forget_all();
        }
        Ok(())
    }

    /// Whether this node may write the objects of the view.
    pub(super) fn may_write(&self, view: &View) -> bool {
        let Some(cluster) = self.cluster() else { return true };
        let writer = self.said.writer.load(Ordering::Acquire);
        view.layout.is_none() || (writer != 0 && cluster.standing(Node(writer)) == Standing::Held)
    }

    /// Says on the stub that this node writes the file, and waits while another changes it. The caller holds no lock.
    pub(super) fn begin_writing(self: &Arc<Self>) -> Result<()> {
        let Some(cluster) = self.cluster() else { return Ok(()) };
        if self.may_write(&self.view()) {
            return Ok(());
        }
        let mut patience = Patience::new();
        loop {
            match self.enter(cluster)? {
                None => return Ok(()),
                Some(claim) => self.wait_for(cluster, claim, &mut patience)?,
            }
        }
    }

    /// The same without waiting; gives the claim that stands in the way.
    fn enter(&self, cluster: &Arc<dyn Cluster>) -> Result<Option<Claim>> {
        let me = cluster.me()?;
        let _io = self.io.write();
        if self.may_write(&self.view()) {
            return Ok(None);
        }
        self.stop_writing()?;
        let entry = self.said.entry.fetch_add(1, Ordering::AcqRel) + 1;
        self.stub.set_writer(me, entry, true)?;
        self.said.writer.store(me.0, Ordering::Release);
        loop {
            let look = self.stub.look()?;
            let loaded = Some(self.said.generation.load(Ordering::Acquire));
            match share::enter(loaded, &look.marks, |node| cluster.is_over(node)) {
                Enter::Load(_) => self.take_over(&look)?,
                Enter::End(claim) => {
                    self.stop_writing()?;
                    self.end(me, claim)?;
                    return Ok(Some(claim));
                }
                Enter::Wait(claim) if self.held(me, &look).is_none() => {
                    return self.stop_writing().map(|()| Some(claim));
                }
                // Whoever copies the file here hears of what is written here.
                Enter::Go | Enter::Wait(_) => {
                    self.spoil(&look, me)?;
                    return self.take_over(&look).map(|()| None);
                }
            }
        }
    }

    /// Whether what was just written under a view may be acknowledged; else it is to be written again.
    pub(super) fn may_acknowledge(self: &Arc<Self>, view: &View) -> Result<bool> {
        let Some(cluster) = self.cluster() else { return Ok(true) };
        if view.layout.is_some() {
            // Held shared, `io` keeps this node's word on the stub.
            return may_be_said(cluster, Node(self.said.writer.load(Ordering::Acquire)));
        }
        let look = self.stub.look()?;
        let unchanged = look.marks.generation == self.said.generation.load(Ordering::Acquire);
        Ok(unchanged && look.marks.claim.is_none())
    }

    /// After a write that another node's change came in between of: waits for its end. The caller holds no lock.
    pub(super) fn catch_up(self: &Arc<Self>) -> Result<()> {
        let Some(cluster) = self.cluster() else { return Ok(()) };
        let mut patience = Patience::new();
        loop {
            let me = cluster.me()?;
            let look = self.stub.look()?;
            match look.marks.claim {
                None => return self.refresh().map(drop),
                // This node's own ends by itself.
                Some(claim) if claim.node != me && cluster.is_over(claim.node) => drop(self.end(me, claim)?),
                Some(claim) => self.wait_for(cluster, claim, &mut patience)?,
            }
        }
    }

    /// Writes no more until it says so again: writers under way end first. Another node asked, or the file is closed.
    pub(crate) fn end_writing(&self) -> Result<()> {
        let _io = self.io.write();
        self.stop_writing()
    }

    /// The same; the caller holds `io` exclusively.
    fn stop_writing(&self) -> Result<()> {
        let writer = self.said.writer.swap(0, Ordering::AcqRel);
        if writer == 0 {
            return Ok(());
        }
        if self.said.grew.swap(false, Ordering::AcqRel) {
            self.stub.free();
        }
        self.stub.set_writer(Node(writer), self.said.entry.load(Ordering::Acquire), false)
    }

    /// Another node waits for the file: writers under way end first, and what this node left on the stub goes: words of
    /// earlier openings, and claims and words whose removal failed. A file that is in use for long is asked for again.
    pub(crate) fn let_go(&self, node: Node) -> Result<()> {
        let Some(_io) = self.io.try_write_for(LET_GO_MAX) else { return Ok(()) };
        self.stop_writing()?;
        let look = self.stub.look()?;
        let left = |mark: &&Mark| matches!(mark, Mark::Writer { node: of, .. } if *of == node);
        look.listed.iter().filter(left).try_for_each(|mark| self.stub.remove(*mark))?;
        let holds = self.said.holds.load(Ordering::Acquire);
        match look.marks.claim.filter(|claim| claim.node == node && !holds) {
            Some(claim) => self.end(node, claim).map(drop),
            None => Ok(()),
        }
    }

    /// Puts a layout into the stub as the next generation. The caller holds `record`.
    pub(super) fn publish(&self, new: &mut Layout) -> Result<()> {
        let Some(cluster) = self.cluster() else { return self.stub.set_layout(new) };
        let me = cluster.me()?;
        let alone = self.said.claim.load(Ordering::Acquire);
        let generation = self.said.generation.load(Ordering::Acquire) + 1;
        // An object of an earlier number of this node may be taken for garbage by others.
        let view = self.view();
        let epoch = cluster.epoch();
        let is_old = |id: ObjectId| id.epoch() != epoch && view.all().all(|slot| slot.id != id);
        if new.objects().any(|(_, object)| is_old(object.id)) {
            return Err(Error::Elsewhere("this node lost its lease while it made objects".into()));
        }
        if alone == 0 {
            let claim = Claim { node: me, generation, drains: false };
            let look = self.stub.look()?;
            if look.marks.generation + 1 != generation || !self.stub.claim(claim)? {
                return Err(Error::Busy("another node changes how the file lies".into()));
            }
        }
        new.generation = generation;
        // Who keeps others out, does so beyond this change.
        let keeps = alone != 0
            && self.said.holds.load(Ordering::Acquire)
            && self.stub.claim(Claim { node: me, generation: generation + 1, drains: true })?;
        let answer = self.stub.publish(me, generation, Some(new));
        let outcome = self.outcome(cluster, me, new, answer);
        if let Outcome::Unknown(error) = outcome {
            let is_new = |id: &ObjectId| view.all().all(|slot| slot.id != *id);
            new.objects().map(|(_, object)| object.id).filter(is_new).for_each(|id| self.pool.making.doubt(id));
            return Err(error);
        }
        self.said.generation.store(generation, Ordering::Release);
        if alone != 0 {
            self.said.claim.store(if keeps { generation + 1 } else { 0 }, Ordering::Release);
        }
        if let Outcome::Not(error) = outcome {
            return Err(error);
        }
        match self.stub.look() {
            Ok(look) => self.tidy(&look),
            Err(error) => tracing::debug!("older layouts stay on a stub for now: {error}"),
        }
        Ok(())
    }

    /// What became of a layout that was to be published.
    fn outcome(&self, cluster: &Arc<dyn Cluster>, me: Node, new: &Layout, answer: Result<bool>) -> Outcome {
        let elsewhere = |why: &str| Error::Elsewhere(why.into());
        let (created, error) = match answer {
            Ok(true) => (Some(Created::Yes), None),
            Ok(false) => (self.created(new), None),
            // It may have been done all the same, or be done yet, unless the generation is made as the layout was.
            Err(error) => match self.end(me, Claim { node: me, generation: new.generation, drains: true }) {
                // Without a lease it may have been made, and have gone, before that.
                Ok(true) if cluster.standing(me) == Standing::Held => return Outcome::Not(error),
                Ok(true) => (None, Some(error)),
                _ => (self.created(new), Some(error)),
            },
        };
        let Some(created) = created else {
            return Outcome::Unknown(error.unwrap_or_else(|| elsewhere("another node changed how the file lies")));
        };
        let mut patience = Patience::new();
        loop {
            match share::published(created, cluster.standing(me)) {
                Published::Happened => return Outcome::Happened,
                Published::Not => return Outcome::Not(elsewhere("another node took this one for dead")),
                Published::Unknown => {
                    return Outcome::Unknown(elsewhere("this node lost its lease while it changed how the file lies"));
                }
                Published::Wait => {
                    let why = || "the namespace does not answer, so this node has no lease".into();
                    if let Err(error) = patience.wait(why) {
                        return Outcome::Unknown(error);
                    }
                }
            }
        }
    }

    /// Whose the generation of a layout is that is there; `None` if nobody can say any more.
    fn created(&self, new: &Layout) -> Option<Created> {
        let (generation, layout) = self.stub.newest().ok()?;
        (generation == new.generation).then(|| Created::Exists { mine: layout.as_ref() == Some(new) })
    }

    /// Whether objects that were made for a layout may be removed when it was not taken: not by one that was taken for dead meanwhile.
    pub(crate) fn may_discard(pool: &super::Pool, object: ObjectId) -> bool {
        pool.cluster.get().is_none_or(|cluster| cluster.me().is_ok() && cluster.epoch() == object.epoch())
    }

    /// Whether another node made the object at a position anew: then this waited for it, and the layout is to be looked at again.
    pub(crate) fn is_recovered_elsewhere(self: &Arc<Self>, at: Position) -> Result<bool> {
        let Some(cluster) = self.cluster() else { return Ok(false) };
        let standing = || self.layout().and_then(|layout| layout.object(at).copied());
        let Some(first) = standing().filter(|object| object.state == ObjectState::Partial) else { return Ok(false) };
        let mut patience = Patience::of(RECOVERY_WAIT_MAX);
        while standing() == Some(first) {
            // One of a node that is over is made anew here, in an object of this node's.
            let me = cluster.me()?;
            let Some(node) = cluster.node_of(first.id.epoch()).filter(|node| *node != me) else { return Ok(false) };
            patience.wait(|| format!("{node} recovers a part of the file and does not come to an end"))?;
            self.refresh()?;
        }
        Ok(true)
    }

    /// Copies of what the file holds now are good until somebody else writes it. The caller has it alone.
    pub(super) fn begin_copy(&self) -> Result<()> {
        let Some(cluster) = self.cluster() else { return Ok(()) };
        let me = cluster.me()?;
        self.stub.set_copy(me, true)?;
        self.said.copies.store(me.0, Ordering::Release);
        Ok(())
    }

    /// Whether nobody else wrote the file since. The caller has it alone.
    pub(super) fn is_copy_good(&self) -> Result<bool> {
        let copies = self.said.copies.load(Ordering::Acquire);
        Ok(!self.is_shared() || (copies != 0 && self.stub.look()?.copies.contains(&Node(copies))))
    }

    /// The copy is used, or given up.
    pub(super) fn end_copy(&self) {
        let copies = self.said.copies.swap(0, Ordering::AcqRel);
        if copies != 0
            && let Err(error) = self.stub.set_copy(Node(copies), false)
        {
            tracing::debug!("a file goes on saying that this node copies it: {error}");
        }
    }

    /// Makes the stub reach to `end` at least.
    pub(super) fn lengthen(&self, end: u64) -> Result<()> {
        if !self.is_shared() {
            return self.stub.set_size(end);
        }
        if self.view().layout.is_some() {
            self.said.grew.store(true, Ordering::Release);
        }
        self.stub.grow_to(end)
    }

    /// Whether an object that a reader did not find may lie elsewhere by now.
    pub(super) fn may_have_moved(self: &Arc<Self>, error: &Error) -> bool {
        let gone = |errno| matches!(errno, Errno::NOENT | Errno::STALE | Errno::IO | Errno::BADF);
        let Error::Target { error: crate::target::TargetError::Io(errno), .. } = error else { return false };
        self.is_shared() && gone(*errno) && self.refresh().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests;
