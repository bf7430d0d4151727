//! Size of a file that this node extends, while the stub lags behind.
//!
//! ```text
//!  1st and 2nd extension          written; the stub gets the size; acknowledged
//!  from the 3rd on                grows.ME.K.G on the stub, once; written; acknowledged without further calls
//!  a second later, sync, close    the stub gets the size
//!  a write failed in part         the stub gets the largest end in the objects
//!  request of another node        the stub gets the size, and grows.ME.K.G is removed
//! ```
//! While the mark is set, a node reads the size from the objects, too. So the size survives a killed node.

use super::{Cluster, File, may_be_said};
use crate::file::{Pool, View};
use crate::{Error, Result};
use meta::stub::marks::Look;
use object::target::{Pending, TargetError};
use policy::Time;
use policy::cluster::Standing;
use policy::cluster::share::{self, Mark};
use policy::layout::OPEN_END;
use rustix::io::Errno;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Extensions whose size is published at once; later ones are deferred. A mark, its removal and the size take three
/// calls, so two sizes are cheaper.
const AT_ONCE: u32 = 2;
/// Longest delay of the size in the stub, for readers of a name that open nothing.
const LATER: Time = Time::from_millis(1000);
/// Interval at which deferred sizes of files that are no longer written are published.
pub const SAID_EVERY: Duration = Duration::from_millis(500);

/// State of the size since this node registered as a writer.
#[derive(Default)]
pub(in crate::file) struct Growth {
    /// Number of extensions.
    times: u32,
    /// The `grows` mark that this node set on the stub.
    mark: Option<Mark>,
    /// Whether the size in the stub is smaller than the acknowledged one.
    behind: bool,
    /// Whether the file is in the pool's list `behind`.
    listed: bool,
    /// When the stub last had the size.
    said: Time,
    /// Whether the stub has a `cut` mark: objects may reach beyond the end, with no bytes of the file there.
    pub cut: bool,
}

/// Size of a file as its objects show it.
pub(super) struct Reach {
    bytes: u64,
    /// Whether all objects that hold a part of the file answered.
    whole: bool,
}

impl File {
    /// Called before bytes are written up to `end`: sets the `grows` mark if the size is to be published later.
    pub(in crate::file) fn will_reach(&self, end: u64) {
        let Some(cluster) = self.cluster().filter(|_| self.holds().is_none()) else { return };
        if !self.is_unsaid(end) || self.view().layout.is_none() {
            return;
        }
        let mut growth = self.extend.lock();
        let Some(writer) = self.said.as_writer().filter(|_| growth.mark.is_none() && growth.times >= AT_ONCE) else {
            return;
        };
        // With an exclusive claim, every size is published at once.
        if self.said.claim.load(Ordering::Acquire) != 0 || cluster.standing(writer) != Standing::Held {
            return;
        }
        let entry = self.said.entry.load(Ordering::Acquire);
        let generation = self.said.generation.load(Ordering::Acquire);
        let mark = Mark::Grows { node: writer, entry, generation };
        match self.stub.set_mark(mark) {
            Ok(()) => (growth.mark, growth.said) = (Some(mark), (self.pool.clock)()),
            Err(error) => tracing::debug!("a size is published at once: {error}"),
        }
    }

    /// Whether the stub may have a smaller size. A `grows` mark of another node doesn't count, since it may be removed.
    pub(in crate::file) fn is_unsaid(&self, end: u64) -> bool {
        self.holds().is_none() && end > self.said.size.load(Ordering::Acquire)
    }

    /// Whether a write up to `end` extends the file, in memory or in the stub.
    pub(in crate::file) fn is_longer(&self, end: u64, growth: &Growth) -> bool {
        end > self.size.load(Ordering::Acquire) || (self.is_shared() && growth.mark.is_none() && self.is_unsaid(end))
    }

    /// Raises the size in the stub of a file with a layout; never lowers it.
    pub(super) fn say(&self, size: u64) -> Result<()> {
        self.stub.grow_to(size).inspect(|()| self.stub_changed())?;
        self.said.size.fetch_max(size, Ordering::AcqRel);
        Ok(())
    }

    /// Records the size that the stub was given under an exclusive claim, or with all bytes in the stub.
    pub(in crate::file) fn set_said(&self, size: u64) {
        self.said.size.store(size, Ordering::Release);
    }

    /// Extends the file to at least `end`, visible to other nodes.
    pub(in crate::file) fn lengthen(&self, growth: &mut Growth, end: u64) -> Result<()> {
        let Some(cluster) = self.cluster() else { return self.stub.set_size(end) };
        if self.view().layout.is_none() {
            // Keep the bytes that other nodes wrote there.
            return if end <= self.stub.size()? { Ok(()) } else { self.stub.grow_to(end) };
        }
        if let Some(holds) = self.holds() {
            self.defer(holds, true, false);
            return Ok(());
        }
        growth.times = growth.times.saturating_add(1);
        if growth.mark.is_some() && (self.pool.clock)().since(growth.said) < LATER {
            growth.behind = true;
            if !std::mem::replace(&mut growth.listed, true) {
                self.pool.behind.lock().push(self.this.clone());
            }
            return Ok(());
        }
        // A size from a node whose lease ended would restore bytes that were cut since.
        let alone = self.said.claim.load(Ordering::Acquire) != 0;
        if !alone && self.said.as_writer().is_none_or(|writer| cluster.standing(writer) != Standing::Held) {
            return Err(Error::Busy("this node has no lease now".into()));
        }
        self.said.grew.store(true, Ordering::Release);
        self.say(end)?;
        (growth.behind, growth.said) = (false, (self.pool.clock)());
        Ok(())
    }

    /// Publishes the deferred sizes of all files of a pool. So a size in a stub is at most about a second old.
    pub fn say_sizes(pool: &Pool) {
        if let Some(holds) = pool.holds.get() {
            return File::settle_sizes(holds);
        }
        let behind = std::mem::take(&mut *pool.behind.lock());
        for file in behind.iter().filter_map(Weak::upgrade) {
            file.extend.lock().listed = false;
            if let Err(error) = file.say_size() {
                tracing::debug!("the size of a file is in its objects, and not in its stub yet: {error}");
            }
        }
    }

    /// Publishes the size that this node acknowledged.
    pub(crate) fn say_size(&self) -> Result<()> {
        if let Some(holds) = self.holds() {
            return self.settle_size_held(holds);
        }
        let Some(cluster) = self.cluster() else { return Ok(()) };
        let _io = self.io.read(); // keeps the registration of this node on the stub
        let mut growth = self.extend.lock();
        if !growth.behind {
            return Ok(());
        }
        // After the lease of the writer ended, other nodes get the size from the objects.
        match self.said.as_writer() {
            Some(writer) if may_be_said(cluster, writer)? => self.say_size_in(&mut growth),
            _ => Ok(()),
        }
    }

    /// As `say_size`; the caller holds the lease and `extend`.
    fn say_size_in(&self, growth: &mut Growth) -> Result<()> {
        if growth.behind {
            self.said.grew.store(true, Ordering::Release);
            self.say(self.size.load(Ordering::Acquire))?;
            (growth.behind, growth.said) = (false, (self.pool.clock)());
        }
        Ok(())
    }

    /// Handles a failed write that left bytes beyond the end. The caller holds `io`.
    pub(in crate::file) fn landed_in_vain(&self) {
        if let Some(holds) = self.holds() {
            self.defer(holds, false, true);
        }
        if !self.takes_what_landed() {
            self.tail_clean.store(false, Ordering::Release);
        }
    }

    /// Takes the size from the objects while a `grows` mark is set; otherwise the bytes would show in a later hole.
    /// Returns false if an object does not answer.
    fn takes_what_landed(&self) -> bool {
        let (Some(cluster), Some(writer)) = (self.cluster(), self.said.as_writer()) else { return false };
        if self.extend.lock().mark.is_none() {
            return false;
        }
        let reach = self.reach();
        let mut growth = self.extend.lock();
        let before = self.size.fetch_max(reach.bytes, Ordering::AcqRel);
        self.was_charged_late(before, before.max(reach.bytes));
        growth.behind = true;
        reach.whole && cluster.standing(writer) == Standing::Held && self.say_size_in(&mut growth).is_ok()
    }

    /// Publishes the size and removes the `grows` mark. Without a lease the mark stays. The caller holds `io`.
    pub(in crate::file) fn end_growth(&self) -> Result<()> {
        let (Some(cluster), Some(writer)) = (self.cluster(), self.said.as_writer()) else { return Ok(()) };
        let mut growth = self.extend.lock();
        let Some(mark) = growth.mark else { return Ok(()) };
        if cluster.standing(writer) != Standing::Held {
            return Ok(());
        }
        self.say_size_in(&mut growth)?;
        self.stub.remove(mark)?;
        growth.mark = None;
        Ok(())
    }

    /// Ends this node's extensions. Returns whether the mark stays because the lease may be over; then the registration
    /// must stay, too. The caller holds `io` exclusively.
    pub(super) fn leave_growth(&self) -> Result<bool> {
        let ended = self.end_growth();
        let mut growth = self.extend.lock();
        (growth.times, growth.behind) = (0, false);
        let stays = growth.mark.take().is_some();
        ended.map(|()| stays)
    }

    /// Applies the size as of a look at the stub. `said`: the size in the stub, if it was read after the look.
    pub(in crate::file) fn take_size_over(&self, look: &Look, said: Option<u64>) -> Result<()> {
        let cut = look.listed.iter().any(|mark| matches!(mark, Mark::Cut(_)));
        let (objects, mut growth) = loop {
            let cuts = self.cuts.count();
            let objects = self.asks_objects(look).then(|| self.reach());
            let growth = self.extend.lock();
            // A size read from the objects before a truncation would undo it.
            if objects.is_none() || self.cuts.count() == cuts {
                break (objects, growth);
            }
        };
        // The stub is read after the objects: a size from a mark may have been published in between.
        let said = said.filter(|_| objects.is_none()).map_or_else(|| self.stub.size(), Ok)?;
        self.set_said(said);
        let mut size = said.max(objects.map_or(0, |reach| reach.bytes));
        let known = self.size.load(Ordering::Acquire);
        if growth.behind {
            size = size.max(known);
        }
        growth.cut = cut;
        // Another node cut the file, and may not have finished.
        if (cut || size < known) && self.view().layout.is_some() {
            self.tail_clean.store(false, Ordering::Release);
        }
        let _cut = (size < known).then(|| self.cuts.begin());
        self.size.store(size, Ordering::Release);
        Ok(())
    }

    /// Whether another registration may have extended the file beyond the size in the stub.
    fn asks_objects(&self, look: &Look) -> bool {
        let own = self.said.as_writer().map(|node| (node, self.said.entry.load(Ordering::Acquire)));
        share::growers(&look.listed).iter().any(|grower| Some(*grower) != own)
    }

    /// Largest end of the bytes that objects hold.
    fn reach(&self) -> Reach {
        let view = self.view();
        let of_each = view.in_sync().map(|mirror| self.reach_of(&view, mirror));
        let both =
            |one: Reach, other: Reach| Reach { bytes: one.bytes.max(other.bytes), whole: one.whole && other.whole };
        of_each.reduce(both).unwrap_or(Reach { bytes: 0, whole: true })
    }

    /// Largest end of the bytes that objects of a view hold; `None` if no mirror in sync answers completely.
    pub(in crate::file) fn reach_of_any(&self, view: &View) -> Option<u64> {
        let of_each: Vec<Reach> = view.in_sync().map(|mirror| self.reach_of(view, mirror)).collect();
        of_each.iter().any(|reach| reach.whole).then(|| of_each.iter().map(|reach| reach.bytes).max().unwrap_or(0))
    }

    fn reach_of(&self, view: &View, m: usize) -> Reach {
        let mut reach = Reach { bytes: 0, whole: true };
        let Some(layout) = &view.layout else { return reach };
        let mut pending = Vec::new();
        for (segment, slots) in layout.mirrors[m].segments.iter().zip(&view.slots[m]) {
            for (index, slot) in slots.iter().enumerate() {
                pending.push((segment, index, slot.submit(&self.pool, |h| h.len())));
            }
        }
        for (segment, index, asked) in pending {
            match asked.and_then(Pending::wait) {
                Ok(0) => {}
                Ok(len) => {
                    let end = segment.file_offset(index, len - 1).saturating_add(1);
                    let end = if segment.end == OPEN_END { end } else { end.min(segment.end) };
                    reach.bytes = reach.bytes.max(end);
                }
                // The object holds nothing.
                Err(TargetError::Io(Errno::NOENT)) => {}
                Err(error) => {
                    tracing::debug!("the size of a file is not fully known: {error}");
                    reach.whole = false;
                }
            }
        }
        reach
    }

    /// Publishes the sizes of nodes whose lease ended; they would be lost once the file is moved or cut. The caller has
    /// an exclusive claim and has applied the look. Returns false if the lease is lost.
    pub(super) fn settle_growth(&self, cluster: &Arc<dyn Cluster>, look: &Look) -> Result<bool> {
        let own = self.extend.lock().mark;
        self.end_growth()?;
        let marks: Vec<Mark> = share::settled(&look.listed).into_iter().filter(|mark| Some(*mark) != own).collect();
        if marks.is_empty() {
            return Ok(true);
        }
        // The size on an absent target is settled once that target is back.
        if self.asks_objects(look) && !self.reach().whole {
            return Ok(true);
        }
        if !may_be_said(cluster, cluster.me()?)? {
            return Ok(false);
        }
        if self.view().layout.is_some() {
            self.say(self.size.load(Ordering::Acquire))?;
        }
        marks.into_iter().try_for_each(|mark| self.stub.remove(mark))?;
        Ok(true)
    }

    /// Sets a `cut` mark before a truncation under an exclusive claim: until the objects are cut, bytes beyond the end
    /// don't count.
    pub(in crate::file) fn begin_cut(&self, size: u64) -> Result<()> {
        if let Some(holds) = self.holds()
            && self.view().layout.is_some()
        {
            // The mark ends the settlement of the size from the objects.
            self.settle_size_alone(holds)?;
            return self.stub.set_cut_to(Some(size));
        }
        let generation = self.said.claim.load(Ordering::Acquire);
        if generation != 0 && self.view().layout.is_some() {
            self.stub.set_mark(Mark::Cut(generation))?;
            self.extend.lock().cut = true;
        }
        Ok(())
    }

    /// Removes the `cut` marks: no object holds bytes beyond the end.
    pub(in crate::file) fn end_cut(&self) {
        self.tail_clean.store(true, Ordering::Release);
        if self.holds().is_some() {
            if let Err(error) = self.stub.set_cut_to(None) {
                tracing::debug!("the mark of a truncation stays on a stub: {error}");
            }
            return;
        }
        // A held claim may cut the file again under the same mark.
        if !self.is_shared() || !self.extend.lock().cut || self.said.holds.load(Ordering::Acquire) {
            return;
        }
        let cuts = |look: Look| look.listed.into_iter().filter(|mark| matches!(mark, Mark::Cut(_)));
        let removed = self.stub.look().and_then(|look| cuts(look).try_for_each(|mark| self.stub.remove(mark)));
        match removed {
            Ok(()) => self.extend.lock().cut = false,
            Err(error) => tracing::debug!("the mark of a truncation stays on a stub: {error}"),
        }
    }
}
