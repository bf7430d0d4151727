//! Counts of each user's operations on the mount: a table of fixed size, filled without locks and without allocation.
//!
//! ```text
//! keys       uid + 1, or 0 for a free slot        read by all, written once per user
//! counters   [shard][slot], one cache line each  a thread adds to its own shard, see `object::counters`
//! ```
//!
//! A user keeps their slot until the daemon ends. If no slot near the hash is free, the user is counted in the overflow
//! slot.

use super::Op;
use object::counters::{SHARDS, shard};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of users that are counted separately. A guess: more than have accounts on most machines.
pub const USERS_MAX: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 10;

/// Slots that are tried for a user, so that a full table costs no walk through it. A guess.
const PROBES_MAX: usize = 32;

/// Slot of the users without a slot of their own.
const OTHERS: usize = USERS_MAX;

#[derive(Default)]
#[repr(align(64))]
struct Line {
    ops: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    total_ns: AtomicU64,
}

/// Counts of each user's operations since the daemon started.
pub struct Users {
    keys: Box<[AtomicU64]>,
    lines: Box<[Line]>,
}

/// Counts of one user's operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserCounts {
    /// The user; `None`: all users without a slot of their own.
    pub uid: Option<u32>,
    /// Name of the user, where the command line looked it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Operations that were answered.
    pub ops: u64,
    /// Bytes of files that they read.
    pub read_bytes: u64,
    /// Bytes of files that they wrote.
    pub written_bytes: u64,
    /// Total nanoseconds of the answered operations.
    pub total_ns: u64,
}

impl Default for Users {
    fn default() -> Users {
        Users {
            keys: (0..USERS_MAX).map(|_| AtomicU64::new(0)).collect(),
            lines: (0..SHARDS * (USERS_MAX + 1)).map(|_| Line::default()).collect(),
        }
    }
}

impl Users {
    /// Counts an operation of a user. A copy inside the mount reads as many bytes as it writes.
    pub fn count(&self, uid: u32, op: Op, bytes: u64, took_ns: u64) {
        let line = &self.lines[shard() * (USERS_MAX + 1) + self.slot(uid)];
        line.ops.fetch_add(1, Ordering::Relaxed);
        line.total_ns.fetch_add(took_ns, Ordering::Relaxed);
        if bytes > 0 && matches!(op, Op::Read | Op::Copy) {
            line.read_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
        if bytes > 0 && matches!(op, Op::Write | Op::Copy) {
            line.written_bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Returns the counts of all active users by their numbers; last the overflow slot, if it is used.
    pub fn counts(&self) -> Vec<UserCounts> {
        let mut known: Vec<_> = (0..USERS_MAX)
            .filter_map(|slot| {
                Some(self.sum(slot, Some(u32::try_from(self.keys[slot].load(Ordering::Acquire).checked_sub(1)?).ok()?)))
            })
            .collect();
        known.sort_unstable_by_key(|counts| counts.uid);
        known.extend(Some(self.sum(OTHERS, None)).filter(|others| others.ops > 0));
        known
    }

    /// The slot of a user, assigned on first use.
    fn slot(&self, uid: u32) -> usize {
        let key = u64::from(uid) + 1;
        // Fibonacci hashing (Knuth, volume 3, section 6.4): numbers in a row lie far apart.
        let first = (uid.wrapping_mul(0x9E37_79B9) >> (u32::BITS - SLOT_BITS)) as usize;
        for slot in (0..PROBES_MAX).map(|step| (first + step) % USERS_MAX) {
            let mut there = self.keys[slot].load(Ordering::Acquire);
            if there == 0 {
                let taken = self.keys[slot].compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire);
                there = taken.map_or_else(|other| other, |_| key);
            }
            if there == key {
                return slot;
            }
        }
        OTHERS
    }

    fn sum(&self, slot: usize, uid: Option<u32>) -> UserCounts {
        let mut counts = UserCounts { uid, ..UserCounts::default() };
        for line in (0..SHARDS).map(|shard| &self.lines[shard * (USERS_MAX + 1) + slot]) {
            counts.ops += line.ops.load(Ordering::Relaxed);
            counts.read_bytes += line.read_bytes.load(Ordering::Relaxed);
            counts.written_bytes += line.written_bytes.load(Ordering::Relaxed);
            counts.total_ns += line.total_ns.load(Ordering::Relaxed);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICRO: u64 = 1000;

    #[test]
    fn each_user_has_their_own_numbers() {
        let users = Users::default();
        assert_eq!(users.counts(), []);
        users.count(1000, Op::Write, 10, MICRO);
        users.count(0, Op::Read, 7, MICRO);
        users.count(1000, Op::Read, 5, 2 * MICRO);
        users.count(1000, Op::Copy, 100, MICRO);
        users.count(u32::MAX, Op::Lookup, 0, MICRO);
        let counts = |uid, ops, read_bytes, written_bytes, total_ns| UserCounts {
            uid: Some(uid),
            ops,
            read_bytes,
            written_bytes,
            total_ns,
            user: None,
        };
        let expected = [counts(0, 1, 7, 0, 1000), counts(1000, 3, 105, 110, 4000), counts(u32::MAX, 1, 0, 0, 1000)];
        assert_eq!(users.counts(), expected);
    }

    #[test]
    fn nothing_is_lost_when_users_come_from_many_threads_at_once() {
        let users = Users::default();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let users = &users;
                scope.spawn(move || (0..2000).for_each(|n| users.count((n + thread) % 100, Op::Write, 3, MICRO)));
            }
        });
        let counts = users.counts();
        assert_eq!(counts.iter().map(|user| user.uid).collect::<Vec<_>>(), (0..100).map(Some).collect::<Vec<_>>());
        assert!(counts.iter().all(|user| (user.ops, user.written_bytes) == (160, 480)), "{counts:?}");
    }

    /// [S-281]
    #[test]
    fn whoever_finds_no_room_is_counted_with_the_others() {
        let users = Users::default();
        let all = 3 * USERS_MAX as u32;
        for uid in (0..all).chain(0..all) {
            users.count(uid, Op::Write, 1, MICRO);
        }
        let counts = users.counts();
        let (others, known) = counts.split_last().expect("some");
        assert_eq!(others.uid, None);
        assert!(known.len() > USERS_MAX * 9 / 10 && known.len() <= USERS_MAX, "{}", known.len());
        assert!(known.iter().all(|user| (user.ops, user.written_bytes) == (2, 2)), "a slot stays its user's");
        let numbers_in_a_row = known.iter().filter(|user| user.uid < Some(USERS_MAX as u32 / 2)).count();
        assert_eq!(numbers_in_a_row, USERS_MAX / 2, "the first half of a table never overflows");
        assert_eq!(known.iter().map(|user| user.ops).sum::<u64>() + others.ops, 2 * u64::from(all));
    }
}
