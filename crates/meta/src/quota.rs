//! Usage of users, groups and directories, counted as files grow, shrink and end. Growth beyond a limit is refused.
//!
//! ```text
//!   file grows ── payers ──> accounts of its owner, its group, the directories above ── take ──> counted, or EDQUOT
//! ```
//! The daemon's quota task sets the ceilings (`policy::quota`). Only subjects with a limit have an account. Without any
//! limit a count costs one read of a flag. An account is a few atomic counters, so that no file waits for another.

mod account;
mod payers;

pub use account::{Account, Changed};
pub use payers::{Payers, Reserved};

use object::error::Refused;
use parking_lot::RwLock;
use policy::quota::Subject;
use rustix::fs::{FileType, Stat};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Decides about an account again, after a refused growth.
type Judge = Box<dyn Fn(&Account) + Send + Sync>;

/// All accounts of a volume.
#[derive(Default)]
pub struct Quotas {
    is_on: AtomicBool,
    /// Number of changes of the table.
    edition: AtomicU64,
    table: RwLock<Arc<Table>>,
    /// Path of the tree of all names.
    tree: OnceLock<PathBuf>,
    judge: OnceLock<Judge>,
    refused: AtomicU64,
    /// Number of renamed directories.
    trees_moved: AtomicU64,
}

/// Accounts of all subjects.
#[derive(Clone, Default)]
struct Table {
    /// Accounts of users and groups.
    owners: HashMap<Subject, Arc<Account>>,
    /// By their paths below the tree.
    directories: HashMap<PathBuf, Arc<Account>>,
}

impl Quotas {
    /// Whether anything has a limit.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Sets the root of the tree of names, and the function that judges an account again after a refusal.
    pub fn begin(&self, tree: PathBuf, judge: impl Fn(&Account) + Send + Sync + 'static) {
        drop(self.tree.set(tree));
        drop(self.judge.set(Box::new(judge)));
    }

    /// Number of refusals.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Edition of the table, which grows with each change: holders of payers then look these up again.
    pub fn edition(&self) -> u64 {
        self.edition.load(Ordering::Acquire)
    }

    /// Adds accounts; those of directories with their paths below the tree.
    pub fn add(&self, accounts: impl IntoIterator<Item = (Arc<Account>, Option<PathBuf>)>) {
        self.change(|table| {
            for (account, path) in accounts {
                match (account.subject(), path) {
                    (owner @ (Subject::User(_) | Subject::Group(_)), _) => drop(table.owners.insert(owner, account)),
                    (Subject::Directory(_), Some(path)) => drop(table.directories.insert(path, account)),
                    (Subject::Directory(_), None) => {}
                }
            }
        });
    }

    /// Removes an account.
    pub fn remove(&self, subject: Subject) {
        self.change(|table| {
            table.owners.remove(&subject);
            table.directories.retain(|_, account| account.subject() != subject);
        });
    }

    fn change(&self, change: impl FnOnce(&mut Table)) {
        let mut table = self.table.write();
        let mut new = Table::clone(&table);
        change(&mut new);
        let any = !(new.owners.is_empty() && new.directories.is_empty());
        *table = Arc::new(new);
        self.edition.fetch_add(1, Ordering::AcqRel);
        self.is_on.store(any, Ordering::Release);
    }

    /// Accounts that pay for a file of a user and a group in a directory below the tree.
    pub fn payers(&self, uid: u32, gid: u32, directory: &Path) -> Payers {
        let table = self.table.read().clone();
        let mut all = table.owners(Some(uid), Some(gid));
        all.extend(table.above(directory));
        Payers::of(all)
    }

    /// Accounts that pay for an owner's files, in any directory.
    pub fn owners(&self, uid: Option<u32>, gid: Option<u32>) -> Payers {
        Payers::of(self.table.read().owners(uid, gid))
    }

    /// Accounts that pay for a file at a path of this machine; none if the path is not in the tree.
    pub fn payers_at(&self, (uid, gid): (u32, u32), place: &Path) -> Payers {
        let below = self.tree.get().and_then(|tree| place.strip_prefix(tree).ok());
        below.and_then(Path::parent).map_or_else(Payers::default, |directory| self.payers(uid, gid, directory))
    }

    /// Accounts that pay for a file whose path is unknown: the kernel shows none that is longer than 4095 bytes. If any
    /// directory has a limit, the file cannot grow.
    pub fn payers_anywhere(&self, (uid, gid): (u32, u32)) -> Payers {
        let table = self.table.read().clone();
        let directory = table.directories.values().map(|account| account.subject()).min();
        Payers::of(table.owners(Some(uid), Some(gid))).and_perhaps(directory)
    }

    /// Whether two directories below the tree are under the same limits.
    pub fn is_one_tree(&self, one: &Path, other: &Path) -> bool {
        let table = self.table.read().clone();
        let of = |path| table.above(path).map(|account| account.subject()).collect::<Vec<_>>();
        of(one) == of(other)
    }

    /// Whether a directory below the tree has limits, or one in it has.
    pub fn holds_tree(&self, path: &Path) -> bool {
        self.table.read().directories.keys().any(|limited| limited.starts_with(path))
    }

    /// Counts a rename or link of an inode in a directory, before it takes effect: a running scan may see both names or
    /// none.
    pub fn moves(&self, stat: &Stat, directory: impl FnOnce() -> rustix::io::Result<PathBuf>) {
        if !self.is_on() {
            return;
        }
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            // The amount of its content is unknown.
            self.trees_moved.fetch_add(1, Ordering::AcqRel);
        }
        let (uid, gid) = (stat.st_uid, stat.st_gid);
        let payers =
            directory().map_or_else(|_| self.owners(Some(uid), Some(gid)), |path| self.payers(uid, gid, &path));
        payers.moves(counts(stat));
    }

    /// Number of renamed directories.
    pub fn trees_moved(&self) -> u64 {
        self.trees_moved.load(Ordering::Acquire)
    }

    /// Charges an increase to all payers, or to none.
    pub fn take(&self, payers: &Payers, more: Changed) -> Result<(), Refused> {
        self.twice(payers, || payers.take(more))
    }

    /// Whether `more` fits within all limits now.
    pub fn admit(&self, payers: &Payers, more: Changed) -> Result<(), Refused> {
        self.twice(payers, || payers.admit(more))
    }

    fn twice(&self, payers: &Payers, ask: impl Fn() -> Result<(), Refused>) -> Result<(), Refused> {
        if ask().is_ok() {
            return Ok(());
        }
        // Their usage may just have fallen below a soft limit.
        if let Some(judge) = self.judge.get() {
            payers.each(|account| judge(account));
        }
        ask().inspect_err(|_| {
            self.refused.fetch_add(1, Ordering::Relaxed);
        })
    }

    /// Charges an increase until the reservation is dropped.
    pub fn reserve(&self, payers: Payers, more: Changed) -> Result<Reserved, Refused> {
        self.take(&payers, more)?;
        Ok(Reserved::new(payers, more))
    }
}

impl Table {
    fn owners(&self, uid: Option<u32>, gid: Option<u32>) -> Vec<Arc<Account>> {
        let owners = uid.map(Subject::User).into_iter().chain(gid.map(Subject::Group));
        owners.filter_map(|owner| self.owners.get(&owner)).cloned().collect()
    }

    fn above<'a>(&'a self, directory: &'a Path) -> impl Iterator<Item = Arc<Account>> + 'a {
        directory.ancestors().filter_map(|path| self.directories.get(path)).cloned()
    }
}

/// Usage of an inode: its length, if it is a file that has one, and one file.
pub fn counts(stat: &Stat) -> Changed {
    use rustix::fs::FileType;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    Changed { bytes: if is_file { u64::try_from(stat.st_size).unwrap_or(0) } else { 0 }, files: 1 }
}

#[cfg(test)]
mod tests;
