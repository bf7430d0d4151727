//! How long a file is that this node makes longer, while the stub does not say so yet.
//!
//! ```text
//!  longer for the 1st, 2nd time   written; the stub gets the size; acknowledged
//!  from the 3rd on                grows.ME.K.G on the stub, once; written; acknowledged without a word more
//!  a second later, sync, close,   the stub gets the size
//!  a write failed in part         the stub gets what the objects reach
//!  another node asks              the stub gets the size, and grows.ME.K.G goes
//! ```
//! While the mark is there, whoever needs the size asks the objects, too. So a node that is killed has lost none of it.

use super::{Cluster, File, may_be_said};
use crate::file::Pool;
use crate::stub::marks::Look;
use crate::target::{Pending, TargetError};
use crate::{Error, Result};
use policy::Time;
use policy::cluster::Standing;
use policy::cluster::share::{self, Mark};
use policy::layout::{MirrorState, OPEN_END};
use rustix::io::Errno;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A file is made longer so often before its size is said later: the mark, its removal and the size are three calls.
const AT_ONCE: u32 = 2;
/// The size is said after so long at most, for those who look at a name and open nothing.
const LATER: Time = Time::from_millis(1000);
/// How often it is looked whether a file that is written no more is due.
pub(crate) const SAID_EVERY: Duration = Duration::from_millis(500);

/// What this node made of the size since it registered as a writer.
#[derive(Default)]
pub(in crate::file) struct Growth {
    /// How often it made the file longer.
    times: u32,
    /// What it said on the stub.
    mark: Option<Mark>,
    /// The stub says less than this node acknowledged.
    behind: bool,
    /// It is among those whose size is to be said.
    listed: bool,
    /// When the stub had the size last.
    said: Time,
    /// The stub says that objects may reach beyond the end, where there is nothing.
    pub cut: bool,
}

/// What the objects of a file say of its size.
pub(super) struct Reach {
    bytes: u64,
    /// All that hold a part of it were asked.
    whole: bool,
}

impl File {
    /// Before bytes are written up to `end`: if the size is said later, the objects answer for it from now on.
    pub(in crate::file) fn will_reach(&self, end: u64) {
        let Some(cluster) = self.cluster() else { return };
        if !self.is_unsaid(end) || self.view().layout.is_none() {
            return;
        }
        let mut growth = self.extend.lock();
        let Some(writer) = self.said.as_writer().filter(|_| growth.mark.is_none() && growth.times >= AT_ONCE) else {
            return;
        };
        // Who has the file alone says everything at once.
        if self.said.claim.load(Ordering::Acquire) != 0 || cluster.standing(writer) != Standing::Held {
            return;
        }
        let entry = self.said.entry.load(Ordering::Acquire);
        let generation = self.said.generation.load(Ordering::Acquire);
        let mark = Mark::Grows { node: writer, entry, generation };
        match self.stub.set_mark(mark) {
            Ok(()) => (growth.mark, growth.said) = (Some(mark), (self.pool.clock)()),
            Err(error) => tracing::debug!("a size is said at once: {error}"),
        }
    }

    /// Whether the stub may say that the file is shorter. What the objects answer for by another node's word does not count: that may go.
    pub(in crate::file) fn is_unsaid(&self, end: u64) -> bool {
        end > self.said.size.load(Ordering::Acquire)
    }

    /// Whether bytes up to `end` make the file longer, here or as the stub has it.
    pub(in crate::file) fn is_longer(&self, end: u64, growth: &Growth) -> bool {
        end > self.size.load(Ordering::Acquire) || (self.is_shared() && growth.mark.is_none() && self.is_unsaid(end))
    }

    /// The stub of a file with a layout gets this size, unless it has a larger one.
    pub(super) fn say(&self, size: u64) -> Result<()> {
        self.stub.grow_to(size).inspect(|()| self.stub_changed())?;
        self.said.size.fetch_max(size, Ordering::AcqRel);
        Ok(())
    }

    /// The stub was given this size, by one that has the file alone or all of it in the stub.
    pub(in crate::file) fn set_said(&self, size: u64) {
        self.said.size.store(size, Ordering::Release);
    }

    /// Makes the file reach to `end` at least, as others see it.
    pub(in crate::file) fn lengthen(&self, growth: &mut Growth, end: u64) -> Result<()> {
        let Some(cluster) = self.cluster() else { return self.stub.set_size(end) };
        if self.view().layout.is_none() {
            // What others wrote there is read.
            return if end <= self.stub.size()? { Ok(()) } else { self.stub.grow_to(end) };
        }
        growth.times = growth.times.saturating_add(1);
        if growth.mark.is_some() && (self.pool.clock)().since(growth.said) < LATER {
            growth.behind = true;
            if !std::mem::replace(&mut growth.listed, true) {
                self.pool.behind.lock().push(self.this.clone());
            }
            return Ok(());
        }
        // What a node that is over says of the size would bring back what was cut since.
        let alone = self.said.claim.load(Ordering::Acquire) != 0;
        if !alone && self.said.as_writer().is_none_or(|writer| cluster.standing(writer) != Standing::Held) {
            return Err(Error::Busy("this node has no lease now".into()));
        }
        self.said.grew.store(true, Ordering::Release);
        self.say(end)?;
        (growth.behind, growth.said) = (false, (self.pool.clock)());
        Ok(())
    }

    /// The stubs get the sizes of all files of a pool that are behind: whoever looks at a name sees sizes that are a second old at most.
    pub(crate) fn say_sizes(pool: &Pool) {
        let behind = std::mem::take(&mut *pool.behind.lock());
        for file in behind.iter().filter_map(Weak::upgrade) {
            file.extend.lock().listed = false;
            if let Err(error) = file.say_size() {
                tracing::debug!("how long a file is, its objects say, and its stub not yet: {error}");
            }
        }
    }

    /// The stub gets the size that this node acknowledged.
    pub(crate) fn say_size(&self) -> Result<()> {
        let Some(cluster) = self.cluster() else { return Ok(()) };
        let _io = self.io.read(); // keeps this node's word on the stub
        let mut growth = self.extend.lock();
        if !growth.behind {
            return Ok(());
        }
        // Of a writer that is over the objects answer for the size, and others know it.
        match self.said.as_writer() {
            Some(writer) if may_be_said(cluster, writer)? => self.say_size_in(&mut growth),
            _ => Ok(()),
        }
    }

    /// The same; the caller holds the lease and `extend`.
    fn say_size_in(&self, growth: &mut Growth) -> Result<()> {
        if growth.behind {
            self.said.grew.store(true, Ordering::Release);
            self.say(self.size.load(Ordering::Acquire))?;
            (growth.behind, growth.said) = (false, (self.pool.clock)());
        }
        Ok(())
    }

    /// A write failed, and bytes of it lie beyond the end. The caller holds `io`.
    pub(in crate::file) fn landed_in_vain(&self) {
        if !self.takes_what_landed() {
            self.tail_clean.store(false, Ordering::Release);
        }
    }

    /// While the objects answer for the size, what is there now is the end of the file, or it would show in a hole that somebody leaves
    /// later. Not known, where an object cannot be asked.
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

    /// The objects answer for the size no more: the stub has it. Without a lease they go on. The caller holds `io`.
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

    /// This node writes no more. Whether the objects answer for the size from now on, so that the registration stays, too: the lease may be
    /// over. The caller holds `io` exclusively.
    pub(super) fn leave_growth(&self) -> Result<bool> {
        let ended = self.end_growth();
        let mut growth = self.extend.lock();
        (growth.times, growth.behind) = (0, false);
        let stays = growth.mark.take().is_some();
        ended.map(|()| stays)
    }

    /// Takes the size over, as of a look at the stub, of which `said` is known since if it was asked for.
    pub(in crate::file) fn take_size_over(&self, look: &Look, said: Option<u64>) -> Result<()> {
        let objects = self.asks_objects(look).then(|| self.reach());
        let cut = look.listed.iter().any(|mark| matches!(mark, Mark::Cut(_)));
        let mut growth = self.extend.lock();
        // After the objects: what they answered for before may be said by now.
        let said = said.filter(|_| objects.is_none()).map_or_else(|| self.stub.size(), Ok)?;
        self.set_said(said);
        let mut size = said.max(objects.map_or(0, |reach| reach.bytes));
        let known = self.size.load(Ordering::Acquire);
        if growth.behind {
            size = size.max(known);
        }
        growth.cut = cut;
        // Another node cut it, and may not have come to its end.
        if (cut || size < known) && self.view().layout.is_some() {
            self.tail_clean.store(false, Ordering::Release);
        }
        self.size.store(size, Ordering::Release);
        Ok(())
    }

    /// Whether another registration made the file longer than the stub may say.
    fn asks_objects(&self, look: &Look) -> bool {
        let own = self.said.as_writer().map(|node| (node, self.said.entry.load(Ordering::Acquire)));
        share::growers(&look.listed).iter().any(|grower| Some(*grower) != own)
    }

    /// Up to where objects hold bytes of the file.
    fn reach(&self) -> Reach {
        let view = self.view();
        let mut reach = Reach { bytes: 0, whole: true };
        let Some(layout) = &view.layout else { return reach };
        let mut pending = Vec::new();
        for (m, mirror) in layout.mirrors.iter().enumerate().filter(|(_, mirror)| mirror.state == MirrorState::InSync) {
            for (segment, slots) in mirror.segments.iter().zip(&view.slots[m]) {
                for (index, slot) in slots.iter().enumerate() {
                    pending.push((segment, index, slot.submit(&self.pool, |h| h.len())));
                }
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
                // It holds nothing.
                Err(TargetError::Io(Errno::NOENT)) => {}
                Err(error) => {
                    tracing::debug!("how far a file reaches is not known in full: {error}");
                    reach.whole = false;
                }
            }
        }
        reach
    }

    /// What nodes that are over made of the size comes into the stub: nothing else says it once the file lies elsewhere or is cut. The
    /// caller has the file alone, and has taken the look over. No if the lease is lost.
    pub(super) fn settle_growth(&self, cluster: &Arc<dyn Cluster>, look: &Look) -> Result<bool> {
        let own = self.extend.lock().mark;
        self.end_growth()?;
        let marks: Vec<Mark> = share::settled(&look.listed).into_iter().filter(|mark| Some(*mark) != own).collect();
        if marks.is_empty() {
            return Ok(true);
        }
        // What a target has that is away is known once it is back.
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

    /// Before the file is made shorter, by one that has it alone: until the objects are cut, what they hold beyond the end is gone.
    pub(in crate::file) fn begin_cut(&self) -> Result<()> {
        let generation = self.said.claim.load(Ordering::Acquire);
        if generation != 0 && self.view().layout.is_some() {
            self.stub.set_mark(Mark::Cut(generation))?;
            self.extend.lock().cut = true;
        }
        Ok(())
    }

    /// No object holds bytes beyond the end.
    pub(in crate::file) fn end_cut(&self) {
        self.tail_clean.store(true, Ordering::Release);
        // One that keeps the others out may cut it again under the same name.
        if !self.is_shared() || !self.extend.lock().cut || self.said.holds.load(Ordering::Acquire) {
            return;
        }
        let cuts = |look: Look| look.listed.into_iter().filter(|mark| matches!(mark, Mark::Cut(_)));
        let removed = self.stub.look().and_then(|look| cuts(look).try_for_each(|mark| self.stub.remove(mark)));
        match removed {
            Ok(()) => self.extend.lock().cut = false,
            Err(error) => tracing::debug!("a stub goes on saying that its file is being cut: {error}"),
        }
    }
}
