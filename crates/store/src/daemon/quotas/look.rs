//! A look at all names: what each owner, group and limited directory has. It rests as long as it works, so that it takes at most
//! half of one thread, and of what the file system of the names can do less than an ordinary user.

use super::{Keeper, LOOK_SOON};
use crate::Result;
use crate::daemon::Core;
use crate::descent::Descent;
use crate::quota::{Account, Changed, Payers, counts};
use policy::quota::count::{Look, corrected};
use policy::quota::{Both, Resource, Subject};
use rustix::fs::{AtFlags, FileType, statat};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Names that are looked at between two rests.
const NAMES_AT_ONCE: u64 = 256;
/// Files with several names that are remembered, so that each counts once: 8 MiB. Beyond, each name counts.
const LINKED_MAX: usize = 1 << 20;

/// What was there of an account when the look began.
struct Begun {
    account: Arc<Account>,
    grown: Both<u64>,
    shrunk: Both<u64>,
    found: Changed,
}

/// Looks at all names and puts all accounts right that there were when it began.
pub(super) fn look(core: &Core, keeper: &Keeper) -> Result<()> {
    let begun = |account: &Arc<Account>| {
        let (grown, shrunk) = account.changes();
        Begun { account: account.clone(), grown, shrunk, found: Changed::default() }
    };
    let entries = keeper.book.lock().entries.iter().map(|(s, entry)| (*s, begun(&entry.account))).collect();
    let mut sums = Sums { core, entries, linked: HashSet::new(), unread: 0, last: None };
    if !sums.add_all_names(keeper)? {
        return Ok(()); // the daemon ends
    }
    sums.add_what_has_no_name();
    if core.calls.is_some() && !(keeper.rests(LOOK_SOON) && keeper.book.lock().decides) {
        return Ok(()); // another node leads by now
    }
    if sums.unread > 0 {
        tracing::warn!("{} names could not be looked at, so quotas may count less than is there", sums.unread);
    }
    for Begun { account, grown, shrunk, found } in sums.entries.into_values() {
        account.correct(|resource, counted| {
            let (now_grown, now_shrunk) = account.changes();
            let more = now_grown.of(resource).saturating_sub(*grown.of(resource));
            let look = Look {
                found: *found.of(resource),
                grown: if sums.unread > 0 { u64::MAX } else { more },
                shrunk: now_shrunk.of(resource).saturating_sub(*shrunk.of(resource)),
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
    /// Inodes with several names that were met.
    linked: HashSet<u64>,
    unread: u64,
    /// Who pays in the directory that was looked at last.
    last: Option<Last>,
}

struct Last {
    above: u64,
    owner: (u32, u32),
    path: PathBuf,
    payers: Payers,
}

impl Sums<'_> {
    /// No if the daemon ends.
    fn add_all_names(&mut self, keeper: &Keeper) -> Result<bool> {
        let tree = self.core.volume.tree().try_clone_to_owned().map_err(|_| Errno::MFILE)?;
        let mut descent = Descent::new(&tree)?.and_others();
        let (mut names, mut began) = (0u64, Instant::now());
        while let Some(met) = descent.next() {
            names += 1;
            if names.is_multiple_of(NAMES_AT_ONCE) {
                keeper.rests(began.elapsed());
                began = Instant::now();
            }
            if keeper.is_over.load(Ordering::Acquire) {
                return Ok(false);
            }
            let Ok(met) = met else {
                self.unread += 1;
                continue;
            };
            let stat = match statat(&met.directory, &*met.name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue, // gone meanwhile
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

    /// Files that lost their last name count as long as somebody has them open.
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
            // One that got its limit since is not looked at as a whole.
            if let Some(begun) = self.entries.get_mut(&account.subject()).filter(|b| Arc::ptr_eq(&b.account, account)) {
                let sum = |resource| begun.found.of(resource).saturating_add(*all.of(resource));
                begun.found = Both { bytes: sum(Resource::Bytes), files: sum(Resource::Files) };
            }
        });
    }
}
