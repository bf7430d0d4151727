//! What is in the buffer, and what leaves first: the tables that the demoter and the deleter share.
//!
//! ```text
//!   E-order   applications with two or more versions in the buffer: their old versions leave first, and are deleted
//!   V-order   applications by MTBF: the one least likely to fail goes next; its copy in the buffer is kept
//!   Clean     versions that are in both places: deleted, oldest first, when space is short
//! ```
//! R-order, the versions to copy to the replica group, is [`super::replicator`]'s.
//!
//! Reading A-22: an application enters E-order with its second version. A-23: a version is registered after it was written. A-24: the highest
//! MTBF, that is the lowest failure rate, is demoted first.
//!
//! Other orders, for comparison: the version written first (FIFO), the one used least recently (LRU); and V-order without knowledge of versions.
//!
//! Source: Sung, Table 5.1 and section 5.2; the reference, sections 8.3 and 8.4.

use super::queue::App;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

/// A version of an application's checkpoint; larger numbers are newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Whose.
    pub app: App,
    /// Which.
    pub number: u64,
}

/// Which order demotion follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// E-order, then V-order: the paper's.
    #[default]
    VersionsThenMtbf,
    /// The same, and clean copies are deleted in that order too, not oldest first: ours. In long pauses everything becomes clean, and then
    /// only the order of deletion matters.
    Throughout,
    /// V-order alone; any version of the application may go.
    Mtbf,
    /// Written first.
    Fifo,
    /// Used least recently.
    Lru,
}

/// What to copy to the capacity tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demotion {
    /// Which version.
    pub version: Version,
    /// Its bytes.
    pub bytes: u64,
    /// Whether the copy in the buffer goes as soon as that is done.
    pub delete: bool,
    /// Why.
    pub reason: Reason,
}

/// Why a version is demoted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// There is a newer one of the application.
    Superseded,
    /// Its application is the least likely to fail.
    HighestMtbf {
        /// The application's mean time between failures, in seconds.
        mtbf_s: u64,
    },
    /// It was written or used longest ago.
    Oldest,
}

impl Eq for Reason {}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Superseded => f.write_str("its application has a newer one"),
            Reason::HighestMtbf { mtbf_s: 0 } => f.write_str("how often its application fails is not known"),
            Reason::HighestMtbf { mtbf_s } => write!(f, "its application fails least, every {mtbf_s} s"),
            Reason::Oldest => f.write_str("it was not used for longest"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Held {
    bytes: u64,
    clean: bool,
    demoting: bool,
    used: u64,
}

/// The tables.
#[derive(Clone, Debug)]
pub struct Tables {
    order: Order,
    mtbf_s: BTreeMap<App, u64>,
    /// Versions in the buffer.
    held: BTreeMap<Version, Held>,
    /// Versions on the capacity tier.
    demoted: BTreeSet<Version>,
    /// The newest version of each application.
    newest: BTreeMap<App, u64>,
    e_order: VecDeque<App>,
    clean: VecDeque<Version>,
    clock: u64,
}

impl Tables {
    /// Empty tables.
    pub fn new(order: Order) -> Tables {
        Tables {
            order,
            mtbf_s: BTreeMap::new(),
            held: BTreeMap::new(),
            demoted: BTreeSet::new(),
            newest: BTreeMap::new(),
            e_order: VecDeque::new(),
            clean: VecDeque::new(),
            clock: 0,
        }
    }

    /// How long an application runs between failures, on average, in seconds.
    pub fn set_mtbf(&mut self, app: App, mtbf_s: u64) {
        self.mtbf_s.insert(app, mtbf_s);
    }

    /// A version was written to the buffer, completely.
    pub fn written(&mut self, version: Version, bytes: u64) {
        self.clock += 1;
        let others = self.held.range(all_of(version.app)).any(|(at, _)| *at != version);
        self.held.insert(version, Held { bytes, clean: false, demoting: false, used: self.clock });
        let newest = self.newest.entry(version.app).or_insert(version.number);
        *newest = (*newest).max(version.number);
        // Of two that are written at once the older may come last, when the newer has left already.
        if (others || version.number < *newest) && !self.e_order.contains(&version.app) {
            self.e_order.push_back(version.app);
        }
    }

    /// A version that was written in an earlier life of the driver: where it is. In the order of writing.
    pub fn found(&mut self, version: Version, bytes: u64, in_buffer: bool, on_capacity: bool) {
        if in_buffer {
            self.written(version, bytes);
        } else {
            let newest = self.newest.entry(version.app).or_insert(version.number);
            *newest = (*newest).max(version.number);
        }
        if on_capacity {
            self.demoted.insert(version);
        }
        if let Some(held) = self.held.get_mut(&version).filter(|_| on_capacity) {
            held.clean = true;
            self.clean.push_back(version);
        }
    }

    /// A version was removed by its owner: the bytes that it had in the buffer.
    pub fn removed(&mut self, version: Version) -> u64 {
        let bytes = self.held.remove(&version).map_or(0, |held| held.bytes);
        self.demoted.remove(&version);
        self.clean.retain(|other| *other != version);
        if self.newest.get(&version.app) == Some(&version.number) {
            let left = self.held.range(all_of(version.app)).map(|(of, _)| of.number);
            let newest = left.chain(self.demoted.range(all_of(version.app)).map(|of| of.number)).max();
            self.newest.remove(&version.app);
            self.newest.extend(newest.map(|number| (version.app, number)));
        }
        bytes
    }

    /// A version was written past the buffer.
    pub fn written_direct(&mut self, version: Version) {
        self.demoted.insert(version);
        let newest = self.newest.entry(version.app).or_insert(version.number);
        *newest = (*newest).max(version.number);
        if self.held.range(all_of(version.app)).next().is_some() && !self.e_order.contains(&version.app) {
            self.e_order.push_back(version.app);
        }
    }

    /// Whether a checkpoint of an application should go straight to the capacity tier: more than the buffer's size was written in this period,
    /// and it would be the next to be demoted: of what the buffer still has to keep, nothing belongs to an application that fails less often. What is
    /// on the capacity tier already, and what is superseded, keeps nobody out.
    pub fn goes_direct(&self, app: App, dwsf: f64, capacity: f64) -> bool {
        let mtbf = self.mtbf(app);
        let kept = |(version, held): &(&Version, &Held)| {
            version.app != app && !held.clean && self.newest.get(&version.app) == Some(&version.number)
        };
        dwsf > capacity && self.held.iter().filter(kept).all(|(version, _)| self.mtbf(version.app) <= mtbf)
    }

    /// The next version to demote; it counts as being demoted until [`Tables::demoted`] or [`Tables::failed`].
    pub fn next_demotion(&mut self) -> Option<Demotion> {
        let (version, reason) = match self.order {
            Order::VersionsThenMtbf | Order::Throughout => {
                self.superseded().or_else(|| self.least_likely_to_fail(true))?
            }
            Order::Mtbf => self.least_likely_to_fail(false)?,
            Order::Fifo | Order::Lru => {
                let candidates = self.held.iter().filter(|(_, held)| !held.clean && !held.demoting);
                (*candidates.min_by_key(|(_, held)| held.used)?.0, Reason::Oldest)
            }
        };
        let held = self.held.get_mut(&version)?;
        held.demoting = true;
        Some(Demotion { version, bytes: held.bytes, delete: reason == Reason::Superseded, reason })
    }

    /// A demotion is complete: the bytes that it freed at once.
    pub fn demoted(&mut self, of: &Demotion) -> u64 {
        self.demoted.insert(of.version);
        if of.delete {
            return self.held.remove(&of.version).map_or(0, |held| held.bytes);
        }
        if let Some(held) = self.held.get_mut(&of.version) {
            held.clean = true;
            held.demoting = false;
            self.clean.push_back(of.version);
        }
        0
    }

    /// A demotion was given up; nothing has changed for the application.
    pub fn failed(&mut self, of: &Demotion) {
        if let Some(held) = self.held.get_mut(&of.version) {
            held.demoting = false;
        }
        if of.reason == Reason::Superseded && !self.e_order.contains(&of.version.app) {
            self.e_order.push_back(of.version.app);
        }
    }

    /// Deletes the copies in the buffer that are on the capacity tier too, oldest first, until `bytes` are free; what was freed.
    pub fn delete_clean(&mut self, bytes: u64) -> Vec<(Version, u64)> {
        let mut freed = Vec::new();
        let mut sum = 0;
        while sum < bytes {
            let Some(version) = self.next_clean() else { break };
            if let Some(held) = self.held.remove(&version) {
                sum += held.bytes;
                freed.push((version, held.bytes));
            }
        }
        freed
    }

    /// An application restarts from its newest version: which, and whether it is in the buffer. Nothing is promoted.
    pub fn restart(&mut self, app: App) -> Option<(Version, bool)> {
        let version = Version { app, number: *self.newest.get(&app)? };
        self.clock += 1;
        let clock = self.clock;
        let held = self.held.get_mut(&version);
        let hit = held.is_some();
        if let (Some(held), Order::Lru) = (held, self.order) {
            held.used = clock;
        }
        Some((version, hit))
    }

    /// The newest version of an application.
    pub fn newest(&self, app: App) -> Option<u64> {
        self.newest.get(&app).copied()
    }

    /// An application has ended: its versions in the buffer, which can go.
    pub fn ended(&mut self, app: App) -> Vec<(Version, u64)> {
        let gone: Vec<_> = self.held.range(all_of(app)).map(|(version, held)| (*version, held.bytes)).collect();
        for (version, _) in &gone {
            self.held.remove(version);
        }
        self.e_order.retain(|other| *other != app);
        self.clean.retain(|version| version.app != app);
        self.newest.remove(&app);
        self.mtbf_s.remove(&app);
        let kept = std::mem::take(&mut self.demoted);
        self.demoted = kept.into_iter().filter(|version| version.app != app).collect();
        gone
    }

    /// Versions in the buffer, and the bytes of them that are not on the capacity tier yet.
    pub fn in_buffer(&self) -> (usize, u64) {
        let dirty = self.held.values().filter(|held| !held.clean).map(|held| held.bytes).sum();
        (self.held.len(), dirty)
    }

    /// Where a version is: in the buffer, on the capacity tier.
    pub fn places(&self, version: Version) -> (bool, bool) {
        (self.held.contains_key(&version), self.demoted.contains(&version))
    }

    /// How long an application runs between failures, in seconds; 0 if nobody knows.
    pub fn mtbf_s(&self, app: App) -> u64 {
        self.mtbf(app)
    }

    fn mtbf(&self, app: App) -> u64 {
        self.mtbf_s.get(&app).copied().unwrap_or(0)
    }

    /// An old version of the first application in E-order. One that is clean already needs no copy: it is dropped by the deleter.
    fn superseded(&mut self) -> Option<(Version, Reason)> {
        while let Some(&app) = self.e_order.front() {
            let newest = self.newest.get(&app).copied().unwrap_or(0);
            let old = self.held.range(all_of(app)).find(|(v, held)| v.number < newest && !held.clean && !held.demoting);
            if let Some((version, _)) = old {
                return Some((*version, Reason::Superseded));
            }
            self.e_order.pop_front();
        }
        None
    }

    fn least_likely_to_fail(&self, newest_only: bool) -> Option<(Version, Reason)> {
        let candidates = self.held.iter().filter(|(version, held)| {
            let is_newest = self.newest.get(&version.app) == Some(&version.number);
            !held.clean && !held.demoting && (is_newest || !newest_only)
        });
        // The highest MTBF; among equals the one written first.
        let best = candidates.max_by_key(|(version, held)| (self.mtbf(version.app), u64::MAX - held.used))?;
        Some((*best.0, Reason::HighestMtbf { mtbf_s: self.mtbf(best.0.app) }))
    }

    /// Superseded clean copies first, then the oldest clean ones.
    fn next_clean(&mut self) -> Option<Version> {
        let old = |version: &Version| self.newest.get(&version.app).is_some_and(|newest| version.number < *newest);
        let first = match self.order {
            Order::VersionsThenMtbf => self.clean.iter().position(old),
            Order::Lru => {
                let used = |version: &Version| self.held.get(version).map_or(0, |held| held.used);
                (0..self.clean.len()).min_by_key(|&at| used(&self.clean[at]))
            }
            Order::Throughout => {
                // The first of the superseded ones, else the least likely to fail.
                let rank = |at: &usize| {
                    let version = &self.clean[*at];
                    (old(version), self.mtbf(version.app), usize::MAX - at)
                };
                (0..self.clean.len()).max_by_key(rank)
            }
            Order::Mtbf | Order::Fifo => None,
        };
        self.clean.remove(first.unwrap_or(0))
    }
}

fn all_of(app: App) -> std::ops::RangeInclusive<Version> {
    Version { app, number: 0 }..=Version { app, number: u64::MAX }
}

#[cfg(test)]
mod tests;
