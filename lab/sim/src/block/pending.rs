//! Waiting requests, indexed by sector, by age and by possible merges.
//!
//! A slab with two orders per line (awaited reads, prefetches, writes): a list by arrival and a tree by sector. Tags
//! of merged requests form a chain in a second slab. So the cost of a request grows with the logarithm of the queue's
//! length, and the slabs are not reallocated once they have grown.

use super::Merging;
use policy::precedence::Class;
use policy::time::Time;
use slab::Slab;
use std::collections::{BTreeMap, BTreeSet};

/// A request for a device: `count` sectors of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io {
    /// First sector of the request.
    pub sector: u64,
    /// Number of sectors.
    pub count: u64,
    /// Whether it is a write.
    pub write: bool,
    /// Process, client or stream of the request; anticipation is per owner.
    pub owner: u32,
    /// Whether a read is awaited or a prefetch.
    pub class: Class,
}

impl Io {
    /// Returns the sector behind the last one.
    pub fn end(&self) -> u64 {
        self.sector + self.count
    }
}

/// Position of a request in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    io: Io,
    since: Time,
    arrived: u64,
    key: Key,
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

/// First sector, and a sequence number among requests with the same one: the latest is last.
type Key = (u64, u64);

/// Requests of one kind.
#[derive(Debug)]
struct Line {
    first: u32,
    last: u32,
    sorted: BTreeMap<Key, u32>,
}

/// All requests of one queue.
#[derive(Debug)]
pub(super) struct Pending {
    entries: Slab<Entry>,
    tags: Slab<Tag>,
    /// Tags of the requests among the prefetches. Pieces of one request of an array share a tag.
    prefetches: BTreeSet<(u64, u32)>,
    /// Lines of awaited reads, prefetches and writes.
    lines: [Line; 3],
    /// Line of reads that the schedulers see now.
    reads: usize,
    arrivals: u64,
    keys: u64,
}

const AWAITED: usize = 0;
const PREFETCHES: usize = 1;
const WRITES: usize = 2;

fn line_of(io: &Io) -> usize {
    match (io.write, io.class) {
        (true, _) => WRITES,
        (false, Class::Awaited) => AWAITED,
        (false, Class::Prefetch) => PREFETCHES,
    }
}

impl Pending {
    pub(super) fn new() -> Pending {
        let line = || Line { first: NONE, last: NONE, sorted: BTreeMap::new() };
        Pending {
            entries: Slab::new(),
            tags: Slab::new(),
            prefetches: BTreeSet::new(),
            lines: [line(), line(), line()],
            reads: AWAITED,
            arrivals: 0,
            keys: 0,
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.lines.iter().map(|line| line.sorted.len()).sum()
    }

    /// Selects the class of reads that the schedulers see from now on.
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

    /// Returns whether awaited reads wait, and the arrival of the oldest prefetch.
    pub(super) fn classes(&self) -> (bool, Option<Time>) {
        let first = self.lines[PREFETCHES].first;
        let oldest = (first != NONE).then(|| self.entries[first as usize].since);
        (self.lines[AWAITED].first != NONE, oldest)
    }

    /// Number of waiting awaited reads.
    pub(super) fn awaited(&self) -> usize {
        self.lines[AWAITED].sorted.len()
    }

    pub(super) fn prefetch_at(&self, sector: u64) -> Option<Slot> {
        let next = self.lines[PREFETCHES].from(sector)?;
        (next.0 == sector).then_some(Slot(next.1))
    }

    /// Marks `tag` as awaited: moves its prefetch requests, with all that were merged with them, to the awaited
    /// reads.
    pub(super) fn raise(&mut self, tag: u64) {
        while let Some(&(_, at)) = self.prefetches.range((tag, 0)..=(tag, NONE)).next() {
            self.unlink(at);
            self.entries[at as usize].io.class = Class::Awaited;
            self.link(at);
        }
    }

    /// Returns the oldest request of one direction, and its arrival.
    pub(super) fn oldest(&self, write: bool) -> Option<(Slot, Time)> {
        let first = self.lines[self.line(write)].first;
        (first != NONE).then(|| (Slot(first), self.entries[first as usize].since))
    }

    /// Returns the oldest request of both directions.
    pub(super) fn first(&self) -> Option<Slot> {
        let heads = [self.reads, WRITES].map(|line| self.lines[line].first).into_iter().filter(|&first| first != NONE);
        heads.min_by_key(|&first| self.entries[first as usize].arrived).map(Slot)
    }

    /// Returns the first request at or after `sector`.
    pub(super) fn at_or_after(&self, write: bool, sector: u64) -> Option<Slot> {
        self.lines[self.line(write)].from(sector).map(|(_, slot)| Slot(slot))
    }

    /// Returns the last request before `sector`.
    pub(super) fn before(&self, write: bool, sector: u64) -> Option<Slot> {
        self.lines[self.line(write)].sorted.range(..(sector, 0)).next_back().map(|(_, &slot)| Slot(slot))
    }

    pub(super) fn io(&self, slot: Slot) -> &Io {
        &self.entries[slot.0 as usize].io
    }

    pub(super) fn add(&mut self, now: Time, io: Io, tag: u64) {
        let tag = self.new_tag(tag);
        let entry = Entry {
            io,
            since: now,
            arrived: 0,
            key: (0, 0),
            before: NONE,
            after: NONE,
            tag_first: tag,
            tag_last: tag,
            waits: true,
        };
        let slot = self.entries.insert(entry);
        self.link(slot as u32);
    }

    /// Appends a request to its line.
    fn link(&mut self, slot: u32) {
        self.arrivals += 1;
        let io = self.entries[slot as usize].io;
        let line = &mut self.lines[line_of(&io)];
        let last = std::mem::replace(&mut line.last, slot);
        match last {
            NONE => line.first = slot,
            last => self.entries[last as usize].after = slot,
        }
        let entry = &mut self.entries[slot as usize];
        (entry.arrived, entry.before, entry.after) = (self.arrivals, last, NONE);
        self.sort_in(slot);
        if line_of(&io) == PREFETCHES {
            let Pending { entries, tags, prefetches, .. } = self;
            prefetches.extend(chain(tags, entries[slot as usize].tag_first).map(|tag| (tag, slot)));
        }
    }

    /// Adds a request to its line's tree, behind those with the same start.
    fn sort_in(&mut self, slot: u32) {
        self.keys += 1;
        let entry = &mut self.entries[slot as usize];
        entry.key = (entry.io.sector, self.keys);
        self.lines[line_of(&entry.io)].sorted.insert(entry.key, slot);
    }

    /// Removes a request from its line.
    fn unlink(&mut self, slot: u32) {
        let entry = self.entries[slot as usize];
        let line = &mut self.lines[line_of(&entry.io)];
        assert_eq!(line.sorted.remove(&entry.key), Some(slot), "a request that waits is not in the tree");
        match entry.before {
            NONE => line.first = entry.after,
            before => self.entries[before as usize].after = entry.after,
        }
        match entry.after {
            NONE => line.last = entry.before,
            after => self.entries[after as usize].before = entry.before,
        }
        if line_of(&entry.io) == PREFETCHES {
            for tag in chain(&self.tags, entry.tag_first) {
                self.prefetches.remove(&(tag, slot));
            }
        }
    }

    /// Merges `io` with an adjacent request of its line. Returns whether there was one.
    pub(super) fn merge(&mut self, io: &Io, tag: u64, merging: Merging) -> bool {
        let line = &self.lines[line_of(io)];
        let fits = |slot: u32| self.entries[slot as usize].io.count + io.count <= merging.sectors_max;
        let behind = line.sorted.range(..(io.sector + 1, 0)).next_back().map(|(_, &slot)| slot);
        if let Some(slot) = behind.filter(|&slot| self.entries[slot as usize].io.end() == io.sector)
            && merging.back
            && fits(slot)
        {
            self.entries[slot as usize].io.count += io.count;
            self.append_tag(slot, tag);
            return true;
        }
        let ahead = line.from(io.sector + 1).map(|(_, slot)| slot);
        if let Some(slot) = ahead.filter(|&slot| self.entries[slot as usize].io.sector == io.end())
            && merging.front
            && fits(slot)
        {
            let entry = &mut self.entries[slot as usize];
            entry.io.sector = io.sector;
            entry.io.count += io.count;
            let key = entry.key;
            self.lines[line_of(io)].sorted.remove(&key);
            self.sort_in(slot);
            self.append_tag(slot, tag);
            return true;
        }
        false
    }

    /// Removes `slot` from the waiting requests; returns its arrival.
    pub(super) fn take(&mut self, slot: Slot) -> (Io, Time) {
        let entry = self.entries[slot.0 as usize];
        assert!(entry.waits, "a request is started twice");
        self.entries[slot.0 as usize].waits = false;
        self.unlink(slot.0);
        (entry.io, entry.since)
    }

    /// Removes `slot`, which was taken, and calls `tag` for each of its tags.
    pub(super) fn finish(&mut self, slot: Slot, mut tag: impl FnMut(u64)) -> Io {
        let entry = self.entries.remove(slot.0 as usize);
        assert!(!entry.waits, "a request is done that was not started");
        let mut at = entry.tag_first;
        while at != NONE {
            let Tag { tag: name, next } = self.tags.remove(at as usize);
            tag(name);
            at = next;
        }
        entry.io
    }

    fn new_tag(&mut self, tag: u64) -> u32 {
        self.tags.insert(Tag { tag, next: NONE }) as u32
    }

    fn append_tag(&mut self, slot: u32, tag: u64) {
        let at = self.new_tag(tag);
        let entry = &mut self.entries[slot as usize];
        let last = std::mem::replace(&mut entry.tag_last, at);
        self.tags[last as usize].next = at;
        if line_of(&entry.io) == PREFETCHES {
            self.prefetches.insert((tag, slot));
        }
    }

    pub(super) fn check(&self) {
        let mut prefetched = BTreeSet::new();
        for (number, line) in self.lines.iter().enumerate() {
            let (mut at, mut before, mut count, mut arrived) = (line.first, NONE, 0, 0);
            while at != NONE {
                let entry = &self.entries[at as usize];
                assert!(entry.waits && line_of(&entry.io) == number && entry.before == before);
                assert!(entry.arrived > arrived, "the list of arrivals is out of order");
                assert_eq!((entry.key.0, line.sorted.get(&entry.key)), (entry.io.sector, Some(&at)), "it is elsewhere");
                if number == PREFETCHES {
                    prefetched.extend(chain(&self.tags, entry.tag_first).map(|tag| (tag, at)));
                }
                (arrived, before, at, count) = (entry.arrived, at, entry.after, count + 1);
            }
            assert_eq!((line.last, line.sorted.len()), (before, count));
        }
        assert_eq!(self.prefetches, prefetched, "the tags of the prefetches that wait");
    }
}

/// Returns the tags of a chain from `at` on.
fn chain(tags: &Slab<Tag>, at: u32) -> impl Iterator<Item = u64> {
    let tag = move |at: u32| (at != NONE).then(|| tags[at as usize]);
    std::iter::successors(tag(at), move |before| tag(before.next)).map(|tag| tag.tag)
}

impl Line {
    /// Returns the start and slot of the first request at or after `sector`.
    fn from(&self, sector: u64) -> Option<(u64, u32)> {
        self.sorted.range((sector, 0)..).next().map(|(&(start, _), &slot)| (start, slot))
    }
}
