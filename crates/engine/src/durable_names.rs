//! Bound below which the names of objects are durable. After a loss of power it separates lost objects from objects
//! that were never made durable.
//!
//! ```text
//! numbers  ---------------------+---------------------------+--------------->
//!           names are durable   | perhaps not (half a       |  this life's,
//!           (a missing one      | minute's worth): missing  |  since the machine
//!            is lost: EIO)      | ones were never written   |  started
//!                             bound                      next epoch
//! ```
//!
//! Creating an object syncs nothing: a record that names it can be durable before its name is. [`DurableNames::pass`],
//! called periodically, syncs the names on every target and records the bound; creation itself costs nothing extra. If
//! the machine (not only the daemon) went down, numbers between the bound and the next epoch are *rolled back*. A walk
//! over all files then gives each file its empty objects back
//! ([`File::restore_rolled_back`](crate::file::File::restore_rolled_back)). `fsync` makes names durable by itself. So
//! on a disk that keeps synced data, no object of a synced file is ever missing.

use crate::Result;
use crate::file::Pool;
use meta::records;
use meta::state::{NAMES, State};
use object::target::State as TargetState;
use parking_lot::Mutex;
use policy::{ObjectId, TargetId};
use std::collections::BTreeMap;
use std::sync::Arc;

const KEY: &str = "durable";

/// Numbers of objects on one target whose names a loss of power may have taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct RolledBack {
    target: u16,
    from: u64,
    /// End of the range of numbers, exclusive.
    to: u64,
}

/// Content of the record in the state store.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Record {
    /// Identifier of the machine's boot to which the numbers belong.
    boot: String,
    /// First number that may have been given since that boot.
    since: u64,
    /// Bound of each target: all names of smaller numbers are durable.
    durable: BTreeMap<u16, u64>,
    #[serde(rename = "undone")]
    rolled_back: Vec<RolledBack>,
}

/// Maintains the bound. See the module.
pub struct DurableNames {
    state: Arc<dyn State>,
    pool: Arc<Pool>,
    inner: Mutex<Inner>,
}

struct Inner {
    record: Record,
    /// Bound of created objects: each operation that drew a smaller number has created its object since.
    created: u64,
    /// The number drawn last.
    drawn: u64,
}

impl DurableNames {
    /// Loads an earlier daemon's record. Draws the first number of this life, so call it before any other draw.
    pub fn open(state: Arc<dyn State>, pool: Arc<Pool>, boot: &str) -> Result<DurableNames> {
        let first = pool.next_object().0;
        let record = match records::get::<Record>(&*state, NAMES, KEY)? {
            Some(record) if record.boot == boot || boot.is_empty() => record,
            Some(mut old) => {
                for target in pool.targets.all() {
                    let target = target.id().0;
                    let from = old.durable.get(&target).copied().unwrap_or(old.since);
                    if from < first {
                        old.rolled_back.push(RolledBack { target, from, to: first });
                    }
                }
                Record { boot: boot.into(), since: first, durable: BTreeMap::new(), rolled_back: old.rolled_back }
            }
            None => Record { boot: boot.into(), since: first, ..Record::default() },
        };
        let names = DurableNames { state, pool, inner: Mutex::new(Inner { record, created: first, drawn: first }) };
        records::put(&*names.state, NAMES, KEY, &names.inner.lock().record)?;
        Ok(names)
    }

    /// Makes names durable. Afterwards all names created before the previous pass are durable, since the time between
    /// two passes exceeds that of any operation. A target that cannot sync now keeps its bound.
    pub fn pass(&self) -> Result<()> {
        let mut inner = self.inner.lock();
        let drawn = self.pool.next_object().0;
        let idle = drawn == inner.drawn + 1;
        let bound = inner.created;
        inner.drawn = drawn;
        if !idle {
            inner.created = drawn; // the numbers between these two were given to nobody
        }
        let behind = |t: TargetId| inner.record.durable.get(&t.0).is_none_or(|b| *b < bound);
        let behind: Vec<_> = self.pool.targets.all().into_iter().filter(|t| behind(t.id())).collect();
        let mut changed = false;
        for target in behind {
            if target.state() != TargetState::Failed && target.run(|medium| medium.sync_names()).is_ok() {
                inner.record.durable.insert(target.id().0, bound);
                changed = true;
            }
        }
        if changed { records::put(&*self.state, NAMES, KEY, &inner.record) } else { Ok(()) }
    }

    /// Makes all names durable at the clean end, when no more objects are created.
    pub fn finish(&self) -> Result<()> {
        let bound = self.pool.next_object().0;
        self.inner.lock().created = bound;
        self.pass()?;
        let mut inner = self.inner.lock();
        let all = |b: &mut u64| *b = if *b >= bound { next_epoch(bound) } else { *b };
        inner.record.durable.values_mut().for_each(all);
        records::put(&*self.state, NAMES, KEY, &inner.record)
    }

    /// Whether any object may be rolled back.
    pub fn any_rolled_back(&self) -> bool {
        !self.inner.lock().record.rolled_back.is_empty()
    }

    /// Whether a missing object may never have been made durable.
    pub fn is_rolled_back(&self, target: TargetId, object: ObjectId) -> bool {
        let inner = self.inner.lock();
        inner.record.rolled_back.iter().any(|u| u.target == target.0 && (u.from..u.to).contains(&object.0))
    }

    /// Ends the rollback after all files got their objects back: from now on, objects missing on working targets are
    /// lost.
    pub fn made(&self) -> Result<()> {
        let mut inner = self.inner.lock();
        let away = |t: u16| self.pool.targets.get(TargetId(t)).is_some_and(|t| t.state() == TargetState::Failed);
        inner.record.rolled_back.retain(|u| away(u.target));
        records::put(&*self.state, NAMES, KEY, &inner.record)
    }
}

/// The first number of the epoch after that of `number`.
fn next_epoch(number: u64) -> u64 {
    ((number >> 32) + 1) << 32
}
