//! Requests that wait, findable by sector, by age and by what they could be merged with.
//!
//! A slab with two threads through it per line (awaited reads, prefetches, writes): a list in order of arrival and a vector sorted by sector. Tags of
//! merged requests hang on their request as a chain in a second slab. Nothing is allocated once the slabs have grown.

use super::Merging;
use policy::precedence::Class;
use policy::time::Time;

/// A request for a device: `count` sectors of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// First sector.
    pub sector: u64,
    /// How many.
    pub count: u64,
    /// Whether it writes.
    pub write: bool,
    /// Who asks: a process, a client, a stream; anticipation is per owner.
    pub owner: u32,
    /// Whether somebody waits for it, if it reads.
    pub class: Class,
}

impl Io {
    /// The sector behind the last.
    pub fn end(&self) -> u64 {
        self.sector + self.count
    }
}

/// A request's place in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    io: Io,
    since: Time,
    arrived: u64,
    before: u32,
    after: u32,
    tag_first: u32,
    tag_last: u32,
    waits: bool,
}

#[derive(Clone, Copy, Debug)]
struct Tag {
    tag: u64,
    next: u32,
}

/// Requests of one kind.
#[derive(Debug)]
struct Line {
    first: u32,
    last: u32,
    sorted: Vec<(u64, u32)>,
}

/// All requests of one queue.
#[derive(Debug)]
pub(super) struct Pending {
    entries: Vec<Entry>,
    free: Vec<u32>,
    tags: Vec<Tag>,
    free_tags: Vec<u32>,
    /// Awaited reads, prefetches, writes.
    lines: [Line; 3],
    /// Which line is that of the reads now.
    reads: usize,
    arrivals: u64,
}

const AWAITED: usize = 0;
const PREFETCHES: usize = 1;
const WRITES: usize = 2;

/// Where a request stands.
fn line_of(io: &Io) -> usize {
    match (io.write, io.class) {
        (true, _) => WRITES,
        (false, Class::Awaited) => AWAITED,
        (false, Class::Prefetch) => PREFETCHES,
    }
}

impl Pending {
    pub(super) fn new() -> Pending {
        let line = || Line { first: NONE, last: NONE, sorted: Vec::new() };
        Pending {
            entries: Vec::new(),
            free: Vec::new(),
            tags: Vec::new(),
            free_tags: Vec::new(),
            lines: [line(), line(), line()],
            reads: AWAITED,
            arrivals: 0,
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.lines.iter().map(|line| line.sorted.len()).sum()
    }

    /// The reads that the schedulers see from now on: those of this class.
    pub(super) fn serve(&mut self, class: Class) {
        self.reads = match class {
            Class::Awaited => AWAITED,
            Class::Prefetch => PREFETCHES,
        };
    }

    fn line(&self, write: bool) -> usize {
        if write { WRITES } else { self.reads }
    }

    pub(super) fn waiting_of(&self, write: bool) -> usize {
        self.lines[self.line(write)].sorted.len()
    }

    /// Whether awaited reads wait, and since when the oldest prefetch does.
    pub(super) fn classes(&self) -> (bool, Option<Time>) {
        let first = self.lines[PREFETCHES].first;
        let oldest = (first != NONE).then(|| self.entries[first as usize].since);
        (self.lines[AWAITED].first != NONE, oldest)
    }

    /// Awaited reads that wait.
    pub(super) fn awaited(&self) -> usize {
        self.lines[AWAITED].sorted.len()
    }

    /// The prefetch that begins at `sector`.
    pub(super) fn prefetch_at(&self, sector: u64) -> Option<Slot> {
        let sorted = &self.lines[PREFETCHES].sorted;
        let at = sorted.partition_point(|&(start, _)| start < sector);
        sorted.get(at).filter(|&&(start, _)| start == sector).map(|&(_, slot)| Slot(slot))
    }

    /// Somebody waits for `tag`: if its request waits among the prefetches it stands among the awaited reads from now on, with all that it
    /// was merged with.
    pub(super) fn raise(&mut self, tag: u64) {
        let mut at = self.lines[PREFETCHES].first;
        while at != NONE && !self.has_tag(at, tag) {
            at = self.entries[at as usize].after;
        }
        if at == NONE {
            return;
        }
        self.unlink(at);
        self.entries[at as usize].io.class = Class::Awaited;
        self.link(at);
    }

    fn has_tag(&self, slot: u32, tag: u64) -> bool {
        let mut at = self.entries[slot as usize].tag_first;
        while at != NONE && self.tags[at as usize].tag != tag {
            at = self.tags[at as usize].next;
        }
        at != NONE
    }

    /// The oldest of one direction, and since when it waits.
    pub(super) fn oldest(&self, write: bool) -> Option<(Slot, Time)> {
        let first = self.lines[self.line(write)].first;
        (first != NONE).then(|| (Slot(first), self.entries[first as usize].since))
    }

    /// The oldest of both directions.
    pub(super) fn first(&self) -> Option<Slot> {
        let heads = [self.reads, WRITES].map(|line| self.lines[line].first).into_iter().filter(|&first| first != NONE);
        heads.min_by_key(|&first| self.entries[first as usize].arrived).map(Slot)
    }

    /// The first at `sector` or beyond.
    pub(super) fn at_or_after(&self, write: bool, sector: u64) -> Option<Slot> {
        let sorted = &self.lines[self.line(write)].sorted;
        sorted.get(sorted.partition_point(|&(start, _)| start < sector)).map(|&(_, slot)| Slot(slot))
    }

    /// The last before `sector`.
    pub(super) fn before(&self, write: bool, sector: u64) -> Option<Slot> {
        let sorted = &self.lines[self.line(write)].sorted;
        sorted.partition_point(|&(start, _)| start < sector).checked_sub(1).map(|at| Slot(sorted[at].1))
    }

    pub(super) fn io(&self, slot: Slot) -> &Io {
        &self.entries[slot.0 as usize].io
    }

    pub(super) fn add(&mut self, now: Time, io: Io, tag: u64) {
        let tag = self.new_tag(tag);
        let entry =
            Entry { io, since: now, arrived: 0, before: NONE, after: NONE, tag_first: tag, tag_last: tag, waits: true };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot as usize] = entry;
                slot
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.link(slot);
    }

    /// Puts a request at the end of its line.
    fn link(&mut self, slot: u32) {
        self.arrivals += 1;
        let io = self.entries[slot as usize].io;
        let line = &mut self.lines[line_of(&io)];
        let last = std::mem::replace(&mut line.last, slot);
        match last {
            NONE => line.first = slot,
            last => self.entries[last as usize].after = slot,
        }
        line.insert(io.sector, slot);
        let entry = &mut self.entries[slot as usize];
        (entry.arrived, entry.before, entry.after) = (self.arrivals, last, NONE);
    }

    /// Takes a request out of its line.
    fn unlink(&mut self, slot: u32) {
        let entry = self.entries[slot as usize];
        let line = &mut self.lines[line_of(&entry.io)];
        line.remove(entry.io.sector, slot);
        match entry.before {
            NONE => line.first = entry.after,
            before => self.entries[before as usize].after = entry.after,
        }
        match entry.after {
            NONE => line.last = entry.before,
            after => self.entries[after as usize].before = entry.before,
        }
    }

    /// Join `io` with a request of its line that waits next to it. Says whether it could.
    pub(super) fn merge(&mut self, io: &Io, tag: u64, merging: Merging) -> bool {
        let line = &self.lines[line_of(io)];
        if line.sorted.is_empty() {
            return false;
        }
        let at = line.sorted.partition_point(|&(start, _)| start <= io.sector);
        let fits = |slot: u32| self.entries[slot as usize].io.count + io.count <= merging.sectors_max;
        let behind = at.checked_sub(1).map(|at| line.sorted[at].1);
        if let Some(slot) = behind.filter(|&slot| self.entries[slot as usize].io.end() == io.sector)
            && merging.back
            && fits(slot)
        {
            self.entries[slot as usize].io.count += io.count;
            self.append_tag(slot, tag);
            return true;
        }
        let ahead = line.sorted.get(at).map(|&(_, slot)| slot);
        if let Some(slot) = ahead.filter(|&slot| self.entries[slot as usize].io.sector == io.end())
            && merging.front
            && fits(slot)
        {
            let entry = &mut self.entries[slot as usize].io;
            entry.sector = io.sector;
            entry.count += io.count;
            // Nothing lies between the two starts, so the order of the vector holds.
            self.lines[line_of(io)].sorted[at].0 = io.sector;
            self.append_tag(slot, tag);
            return true;
        }
        false
    }

    /// Take `slot` out of the waiting ones; since when it waited.
    pub(super) fn take(&mut self, slot: Slot) -> (Io, Time) {
        let entry = self.entries[slot.0 as usize];
        assert!(entry.waits, "a request is started twice");
        self.entries[slot.0 as usize].waits = false;
        self.unlink(slot.0);
        (entry.io, entry.since)
    }

    /// Forget `slot`, which was taken, and call `tag` for each of its tags.
    pub(super) fn finish(&mut self, slot: Slot, mut tag: impl FnMut(u64)) -> Io {
        let entry = self.entries[slot.0 as usize];
        assert!(!entry.waits, "a request is done that was not started");
        let mut at = entry.tag_first;
        while at != NONE {
            let Tag { tag: name, next } = self.tags[at as usize];
            tag(name);
            self.free_tags.push(at);
            at = next;
        }
        self.free.push(slot.0);
        entry.io
    }

    fn new_tag(&mut self, tag: u64) -> u32 {
        let entry = Tag { tag, next: NONE };
        match self.free_tags.pop() {
            Some(at) => {
                self.tags[at as usize] = entry;
                at
            }
            None => {
                self.tags.push(entry);
                (self.tags.len() - 1) as u32
            }
        }
    }

    fn append_tag(&mut self, slot: u32, tag: u64) {
        let at = self.new_tag(tag);
        let last = std::mem::replace(&mut self.entries[slot as usize].tag_last, at);
        self.tags[last as usize].next = at;
    }

    pub(super) fn check(&self) {
        for (number, line) in self.lines.iter().enumerate() {
            assert!(line.sorted.is_sorted_by_key(|&(start, _)| start), "requests out of order: {:?}", line.sorted);
            let (mut at, mut before, mut count, mut arrived) = (line.first, NONE, 0, 0);
            while at != NONE {
                let entry = &self.entries[at as usize];
                assert!(entry.waits && line_of(&entry.io) == number && entry.before == before);
                assert!(entry.arrived > arrived, "the list of arrivals is out of order");
                assert!(line.sorted.contains(&(entry.io.sector, at)), "a request is in the list only");
                (arrived, before, at, count) = (entry.arrived, at, entry.after, count + 1);
            }
            assert_eq!((line.last, line.sorted.len()), (before, count));
        }
    }
}

impl Line {
    fn insert(&mut self, sector: u64, slot: u32) {
        let at = self.sorted.partition_point(|&(start, _)| start <= sector);
        self.sorted.insert(at, (sector, slot));
    }

    /// Requests with the same start stand side by side in no particular order: merging at the front may put them so.
    fn remove(&mut self, sector: u64, slot: u32) {
        let first = self.sorted.partition_point(|&(start, _)| start < sector);
        let beside = self.sorted[first..].iter().position(|&entry| entry == (sector, slot));
        self.sorted.remove(first + beside.expect("a request that waits is in the vector"));
    }
}
