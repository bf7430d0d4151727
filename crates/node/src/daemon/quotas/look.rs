//! A scan of all names: sums up the usage of each owner, group and limited directory. It pauses as long as it works. So
//! it takes at most half of one thread, and loads the file system less than an ordinary user. A scan that a new limit
//! waits for does not pause; any other yields to it.

use super::{Keeper, LOOK_SOON};
use crate::Result;
use crate::daemon::Core;
use meta::descent::Descent;
use meta::quota::{Account, Changed, Payers, counts};
use policy::Time;
use policy::quota::count::{ScanResult, corrected, rest, yields};
use policy::quota::{Both, Resource, Subject};
use rustix::fs::{AtFlags, FileType, statat};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time in which a change takes effect and is counted, in either order. A guess.
const TAKES_EFFECT: Duration = Duration::from_millis(200);
/// Names scanned between two pauses.
const NAMES_AT_ONCE: u64 = 256;
/// Maximum of files with several names that are recorded, so that each counts once: 8 MiB. Beyond it, each name counts.
const LINKED_MAX: usize = 1 << 20;

/// Counters of an account at the start of the scan.
struct Begun {
    account: Arc<Account>,
    grown: Both<u64>,
    shrunk: Both<u64>,
    found: Changed,
}

/// Scans all names and corrects the accounts that existed at the start.
pub(super) fn look(core: &Core, keeper: &Keeper) -> Result<()> {
    let begun = |account: &Arc<Account>| {
        let (grown, shrunk) = account.changes();
        Begun { account: account.clone(), grown, shrunk, found: Changed::default() }
    };
    let entries = keeper.book.lock().entries.iter().map(|(s, entry)| (*s, begun(&entry.account))).collect();
    let entries: BTreeMap<Subject, Begun> = entries;
    let count_trees = || (core.pool.quotas.trees_moved(), keeper.book.lock().trees_moved.clone());
    let trees_moved = count_trees();
    let is_awaited = entries.values().any(|begun| begun.account.used().is_none());
    keeper.looks.lock().is_awaited = is_awaited;
    // A new limit is not kept waiting.
    let settle = || is_awaited || core.maintenance.rests(TAKES_EFFECT);
    settle();
    let mut sums = Sums { core, entries, is_awaited, linked: HashSet::new(), unread: 0, last: None };
    if !sums.add_all_names(keeper)? {
        return Ok(()); // the daemon ends, another node leads, or another scan is due
    }
    sums.add_what_has_no_name();
    if !(settle() && (core.calls.is_none() || core.maintenance.rests(LOOK_SOON)) && keeper.book.lock().decides) {
        return Ok(()); // the daemon ends, or another node leads by now
    }
    let counted: Vec<_> = sums.entries.values().map(|begun| begun.account.counted()).collect();
    settle();
    if sums.unread > 0 {
        tracing::warn!("{} names could not be read, so quotas may count too little", sums.unread);
    }
    // Content of unknown size was met twice, or never.
    let is_unsure = count_trees() != trees_moved;
    for (Begun { account, grown, shrunk, found }, counted) in sums.entries.into_values().zip(counted) {
        if is_awaited && account.used().is_some() {
            // Changes under way would make a right count wrong, so another scan follows.
            keeper.looks.lock().again = true;
            continue;
        }
        account.correct(counted, |resource, counted| {
            let (now_grown, now_shrunk) = account.changes();
            let more = now_grown.of(resource).saturating_sub(*grown.of(resource));
            let less = now_shrunk.of(resource).saturating_sub(*shrunk.of(resource));
            let look = ScanResult {
                found: *found.of(resource),
                grown: if is_unsure || sums.unread > 0 { u64::MAX } else { more },
                shrunk: if is_unsure { u64::MAX } else { less },
            };
            corrected(counted, look)
        });
        keeper.judge(&account);
    }
    Ok(())
}

struct Sums<'a> {
    core: &'a Core,
    entries: BTreeMap<Subject, Begun>,
    /// Whether limits wait for the result.
    is_awaited: bool,
    /// Inodes with several names that were scanned.
    linked: HashSet<u64>,
    unread: u64,
    /// Accounts of the directory that was scanned last.
    last: Option<Last>,
}

struct Last {
    above: u64,
    owner: (u32, u32),
    path: PathBuf,
    payers: Payers,
}

impl Sums<'_> {
    /// Returns `false` if the scan ends early.
    fn add_all_names(&mut self, keeper: &Keeper) -> Result<bool> {
        let tree = self.core.volume.tree().try_clone_to_owned().map_err(|_| Errno::MFILE)?;
        let mut descent = Descent::new(&tree)?.and_others();
        let (mut names, mut began) = (0u64, Instant::now());
        while let Some(met) = descent.next() {
            names += 1;
            if names.is_multiple_of(NAMES_AT_ONCE) {
                let pause = rest(Time(began.elapsed().as_nanos() as u64), self.is_awaited);
                self.core.maintenance.rests(Duration::from_nanos(pause.0));
                began = Instant::now();
                if self.is_superseded(keeper) {
                    return Ok(false);
                }
            }
            if self.core.maintenance.stop_flag().is_set() {
                return Ok(false);
            }
            let Ok(met) = met else {
                self.unread += 1;
                continue;
            };
            let stat = match statat(&met.directory, &*met.name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue, // removed in between
                Err(_) => {
                    self.unread += 1;
                    continue;
                }
            };
            let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
            let is_met = is_file && stat.st_nlink > 1 && !self.is_new(stat.st_ino);
            if is_met {
                continue;
            }
            let mut all = counts(&stat);
            if let Some(file) = self.core.files.get(stat.st_dev, stat.st_ino).filter(|_| is_file) {
                all.bytes = file.size();
            }
            let owner = (stat.st_uid, stat.st_gid);
            let last = self.last.take().filter(|last| last.above == met.above);
            let last = match last {
                Some(last) if last.owner == owner => last,
                last => {
                    let path = last.map_or_else(|| descent.above(&met), |last| last.path);
                    let payers = self.core.pool.quotas.payers(owner.0, owner.1, &path);
                    Last { above: met.above, owner, path, payers }
                }
            };
            self.add(&last.payers, all);
            self.last = Some(last);
        }
        Ok(true)
    }

    /// Whether the result is useless, or a new limit needs another scan.
    fn is_superseded(&self, keeper: &Keeper) -> bool {
        let book = keeper.book.lock();
        if !book.decides {
            return true;
        }
        let is_new = |(subject, entry): (&Subject, &super::Entry)| {
            entry.account.used().is_none() && !self.entries.contains_key(subject)
        };
        yields(self.is_awaited, book.entries.iter().any(is_new))
    }

    /// Adds files without a name: they count while they are open.
    fn add_what_has_no_name(&mut self) {
        for file in self.core.files.files() {
            if let Some((payers, all)) = file.counts_without_name() {
                self.add(&payers, all);
            }
        }
    }

    fn is_new(&mut self, inode: u64) -> bool {
        self.linked.len() >= LINKED_MAX || self.linked.insert(inode)
    }

    fn add(&mut self, payers: &Payers, all: Changed) {
        payers.each(|account| {
            // A subject limited after the start was not scanned as a whole.
            if let Some(begun) = self.entries.get_mut(&account.subject()).filter(|b| Arc::ptr_eq(&b.account, account)) {
                let sum = |resource| begun.found.of(resource).saturating_add(*all.of(resource));
                begun.found = Both { bytes: sum(Resource::Bytes), files: sum(Resource::Files) };
            }
        });
    }
}
