//! Contents of the buffer, and the order in which versions leave it: tables shared by demotion and deletion.
//!
//! ```text
//!   E-order   applications with two or more versions in the buffer: their old versions leave first, and are deleted
//!   V-order   applications by MTBF: the one least likely to fail goes next; its copy in the buffer is kept
//!   Clean     versions that are in both places: deleted, oldest first, if space is short; ours: superseded ones first
//! ```
//! R-order, the versions to copy to the replica group, is [`super::replicator`]'s.
//!
//! Reading A-22: an application enters E-order with its second version. A-23: a version is registered after it was
//! written. A-24: the highest MTBF, and so the lowest failure rate, is demoted first.
//!
//! Other orders, for comparison: written first (FIFO), least recently used (LRU), V-order without versions. Under FIFO
//! and LRU demoted data leave the buffer ([`Baselines::Move`]): the thesis calls clean copies BBOS's own.
//!
//! Source: Sung, Table 5.1 and section 5.2; the reference, sections 8.3 and 8.4.

use super::queue::App;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

/// A version of an application's checkpoint; larger numbers are newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The application that wrote it.
    pub app: App,
    /// Number within the application.
    pub number: u64,
}

/// Order of demotion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// E-order, then V-order: the paper's.
    #[default]
    VersionsThenMtbf,
    /// The same, with clean copies deleted in that order, too, instead of oldest first: ours. In long pauses every copy
    /// becomes clean, and then only the order of deletion matters.
    Throughout,
    /// V-order alone, over all versions of an application.
    Mtbf,
    /// The version written first.
    Fifo,
    /// The version used least recently.
    Lru,
}

/// Treatment of demoted data under FIFO and LRU, the orders that BBOS is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Baselines {
    /// They leave the buffer, and both orders go by the time of writing: the published setup.
    #[default]
    Move,
    /// They stay as clean copies, as with BBOS, and a restart counts as a use.
    Keep,
}

/// A copy to the capacity tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demotion {
    /// The version to copy.
    pub version: Version,
    /// Size of the version.
    pub bytes: u64,
    /// Whether the copy in the buffer is deleted afterwards.
    pub delete: bool,
    /// Reason for the demotion.
    pub reason: Reason,
}

/// Reason for the demotion of a version.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// The application has a newer version.
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
            Reason::HighestMtbf { mtbf_s: 0 } => f.write_str("the failure rate of its application is unknown"),
            Reason::HighestMtbf { mtbf_s } => write!(f, "its application fails least, every {mtbf_s} s"),
            Reason::Oldest => f.write_str("it was not used for longest"),
        }
    }
}

/// Failed demotions of a version after which other versions go first. A guess: four attempts take two seconds.
const TRIES: u32 = 4;

#[derive(Clone, Copy, Debug)]
struct Held {
    bytes: u64,
    clean: bool,
    demoting: bool,
    used: u64,
    /// Number of demotions that failed.
    failures: u32,
}

impl Held {
    /// Whether a demotion may begin, if versions with more failures than this must wait.
    fn may_leave(&self, failures: u32) -> bool {
        !self.clean && !self.demoting && self.failures <= failures
    }
}

/// Tables of the buffer's versions.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    order: Order,
    baselines: Baselines,
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
    /// Makes empty tables.
    pub fn new(order: Order, baselines: Baselines) -> Tables {
        Tables { order, baselines, ..Tables::default() }
    }

    /// Sets the mean time between failures of an application, in seconds.
    pub fn set_mtbf(&mut self, app: App, mtbf_s: u64) {
        self.mtbf_s.insert(app, mtbf_s);
    }

    /// Adds a version that was written to the buffer completely.
    pub fn written(&mut self, version: Version, bytes: u64) {
        self.clock += 1;
        let others = self.held.range(all_of(version.app)).any(|(at, _)| *at != version);
        self.held.insert(version, Held { bytes, clean: false, demoting: false, used: self.clock, failures: 0 });
        // If two versions are written at the same time, the older may complete last, after the newer has left.
        if self.register(version) || others {
            self.enter_e_order(version.app);
        }
    }

    /// Records the number of a version, and returns whether there is a newer one.
    fn register(&mut self, version: Version) -> bool {
        let newest = self.newest.entry(version.app).or_insert(version.number);
        *newest = (*newest).max(version.number);
        version.number < *newest
    }

    fn enter_e_order(&mut self, app: App) {
        if !self.e_order.contains(&app) {
            self.e_order.push_back(app);
        }
    }

    /// Adds a version written before the driver was restarted. Called in the order of writing.
    pub fn found(&mut self, version: Version, bytes: u64, in_buffer: bool, on_capacity: bool) {
        if in_buffer {
            self.written(version, bytes);
        } else {
            self.register(version);
        }
        if on_capacity {
            self.demoted.insert(version);
        }
        if let Some(held) = self.held.get_mut(&version).filter(|_| on_capacity) {
            held.clean = true;
            self.clean.push_back(version);
        }
    }

    /// Removes a version that a user deleted; returns its bytes in the buffer.
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

    /// Adds a version that was written directly to the capacity tier.
    pub fn written_direct(&mut self, version: Version) {
        self.demoted.insert(version);
        self.register(version);
        if self.held.range(all_of(version.app)).next().is_some() {
            self.enter_e_order(version.app);
        }
    }

    /// Whether a checkpoint should go directly to the capacity tier: the period wrote more than the buffer's size, and
    /// the checkpoint would be demoted next. It would be if no other application with a newest, dirty version in the
    /// buffer fails less often. Clean and superseded versions do not count.
    pub fn goes_direct(&self, app: App, dwsf: f64, capacity: f64) -> bool {
        let mtbf = self.mtbf(app);
        let kept = |(version, held): &(&Version, &Held)| {
            version.app != app && !held.clean && self.newest.get(&version.app) == Some(&version.number)
        };
        dwsf > capacity && self.held.iter().filter(kept).all(|(version, _)| self.mtbf(version.app) <= mtbf)
    }

    /// Returns the next version to demote; it counts as being demoted until [`Tables::demoted`] or [`Tables::failed`].
    pub fn next_demotion(&mut self) -> Option<Demotion> {
        let fewest = self.held.values().filter(|held| held.may_leave(u32::MAX)).map(|held| held.failures).min()?;
        let most = fewest / TRIES * TRIES + TRIES - 1;
        let (version, reason) = match self.order {
            Order::VersionsThenMtbf | Order::Throughout => {
                self.superseded(most).or_else(|| self.least_likely_to_fail(true, most))?
            }
            Order::Mtbf => self.least_likely_to_fail(false, most)?,
            Order::Fifo | Order::Lru => {
                let candidates = self.held.iter().filter(|(_, held)| held.may_leave(most));
                (*candidates.min_by_key(|(_, held)| held.used)?.0, Reason::Oldest)
            }
        };
        let held = self.held.get_mut(&version)?;
        held.demoting = true;
        let delete = reason == Reason::Superseded || (reason == Reason::Oldest && self.baselines == Baselines::Move);
        Some(Demotion { version, bytes: held.bytes, delete, reason })
    }

    /// Completes a demotion; returns the bytes freed at once.
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

    /// Ends a demotion that was given up; the application is unaffected.
    pub fn failed(&mut self, of: &Demotion) {
        if let Some(held) = self.held.get_mut(&of.version) {
            (held.demoting, held.failures) = (false, held.failures + 1);
        }
        if of.reason == Reason::Superseded {
            self.enter_e_order(of.version.app);
        }
    }

    /// Deletes buffer copies that the capacity tier has, too, oldest first, until `bytes` are free; returns them.
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

    /// Returns the newest version, which a restart needs, and whether it is in the buffer. Promotes nothing.
    pub fn restart(&mut self, app: App) -> Option<(Version, bool)> {
        let version = Version { app, number: *self.newest.get(&app)? };
        self.clock += 1;
        let clock = self.clock;
        let held = self.held.get_mut(&version);
        let hit = held.is_some();
        if let (Some(held), Order::Lru, Baselines::Keep) = (held, self.order, self.baselines) {
            held.used = clock;
        }
        Some((version, hit))
    }

    /// Returns the newest version of an application.
    pub fn newest(&self, app: App) -> Option<u64> {
        self.newest.get(&app).copied()
    }

    /// Forgets an ended application; returns its versions in the buffer, which can be deleted.
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

    /// Returns the number of versions in the buffer, and their bytes that are not on the capacity tier.
    pub fn in_buffer(&self) -> (usize, u64) {
        let dirty = self.held.values().filter(|held| !held.clean).map(|held| held.bytes).sum();
        (self.held.len(), dirty)
    }

    /// Whether a version is in the buffer, and whether it is on the capacity tier.
    pub fn places(&self, version: Version) -> (bool, bool) {
        (self.held.contains_key(&version), self.demoted.contains(&version))
    }

    /// Returns the mean time between failures of an application in seconds; 0 if unknown.
    pub fn mtbf(&self, app: App) -> u64 {
        self.mtbf_s.get(&app).copied().unwrap_or(0)
    }

    /// Returns an old version of the first application in E-order. Clean versions need no copy: the deleter drops them.
    fn superseded(&mut self, failures: u32) -> Option<(Version, Reason)> {
        let Tables { held, newest, e_order, .. } = self;
        let old = |app: App, failures: u32| {
            let newest = newest.get(&app).copied().unwrap_or(0);
            let mut old = held.range(all_of(app)).filter(|(version, _)| version.number < newest);
            old.find(|(_, held)| held.may_leave(failures)).map(|(version, _)| *version)
        };
        while e_order.front().is_some_and(|app| old(*app, u32::MAX).is_none()) {
            e_order.pop_front();
        }
        let version = e_order.iter().find_map(|app| old(*app, failures))?;
        Some((version, Reason::Superseded))
    }

    fn least_likely_to_fail(&self, newest_only: bool, failures: u32) -> Option<(Version, Reason)> {
        let candidates = self.held.iter().filter(|(version, held)| {
            let is_newest = self.newest.get(&version.app) == Some(&version.number);
            held.may_leave(failures) && (is_newest || !newest_only)
        });
        // The highest MTBF; at equal MTBF the version written first.
        let best = candidates.max_by_key(|(version, held)| (self.mtbf(version.app), u64::MAX - held.used))?;
        Some((*best.0, Reason::HighestMtbf { mtbf_s: self.mtbf(best.0.app) }))
    }

    /// Returns superseded clean copies first, then the oldest clean ones.
    fn next_clean(&mut self) -> Option<Version> {
        let old = |version: &Version| self.newest.get(&version.app).is_some_and(|newest| version.number < *newest);
        let first = match self.order {
            Order::VersionsThenMtbf => self.clean.iter().position(old),
            Order::Lru => {
                let used = |version: &Version| self.held.get(version).map_or(0, |held| held.used);
                (0..self.clean.len()).min_by_key(|&at| used(&self.clean[at]))
            }
            Order::Throughout => {
                // The first superseded copy, else the application that is least likely to fail.
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
