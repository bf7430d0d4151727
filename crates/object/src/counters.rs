//! Counters that many threads add to without waiting for each other.
//!
//! Each counter has several shards on separate cache lines; a thread always adds to the same shard. A read sums the
//! shards one after the other, so concurrent additions may be partly included.

mod tally;

pub use tally::Tally;

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Shards of each counter.
pub const SHARDS: usize = 8;

#[derive(Default)]
#[repr(align(64))]
struct Shard(AtomicU64);

/// A monotonic counter.
#[derive(Default)]
pub struct Counter([Shard; SHARDS]);

impl Counter {
    /// Adds to the counter.
    pub fn add(&self, n: u64) {
        self.0[shard()].0.fetch_add(n, Ordering::Relaxed);
    }

    /// Returns the sum of all shards.
    pub fn get(&self) -> u64 {
        self.0.iter().map(|shard| shard.0.load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }
}

/// Buckets of a [`Histogram`], from 1 microsecond to 17 minutes. Bucket `i` counts spans shorter than `2^(i +
/// FIRST_POWER)` nanoseconds that fit no lower bucket; the last one counts the rest.
pub const BUCKETS: usize = 32;
const FIRST_POWER: u32 = 10;

#[repr(align(64))]
#[derive(Default)]
struct HistogramShard([AtomicU64; BUCKETS]);

/// Histogram of durations, in powers of two nanoseconds.
#[derive(Default)]
pub struct Histogram([HistogramShard; SHARDS]);

impl Histogram {
    /// Counts a span.
    pub fn record(&self, span_ns: u64) {
        let power = u64::BITS - span_ns.leading_zeros();
        let bucket = power.saturating_sub(FIRST_POWER).min(BUCKETS as u32 - 1);
        self.0[shard()].0[bucket as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Number of spans in each bucket.
    pub fn buckets(&self) -> [u64; BUCKETS] {
        std::array::from_fn(|i| self.0.iter().map(|shard| shard.0[i].load(Ordering::Relaxed)).sum())
    }

    /// Upper bound of bucket `i` in nanoseconds, exclusive; `None` for the last bucket.
    pub fn bound_ns(bucket: usize) -> Option<u64> {
        (bucket + 1 < BUCKETS).then(|| 1 << (bucket as u32 + FIRST_POWER))
    }
}

/// Durations of operations, and the number of failures.
#[derive(Default)]
pub struct Timed {
    /// Histogram of all operations.
    pub spans: Histogram,
    /// Total duration of the operations in nanoseconds.
    pub total_ns: Counter,
    /// Number of failed operations.
    pub failed: Counter,
}

impl Timed {
    /// Records a finished operation.
    pub fn record(&self, took: Duration, failed: bool) {
        let took_ns = took.as_nanos() as u64;
        self.spans.record(took_ns);
        self.total_ns.add(took_ns);
        if failed {
            self.failed.add(1);
        }
    }

    /// Runs an operation and records it.
    pub fn during<T, E>(&self, op: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let began = Instant::now();
        let done = op();
        self.record(began.elapsed(), done.is_err());
        done
    }
}

/// An upper bound of the given share (0 to 1) of spans, in nanoseconds: the bound of the bucket where it falls.
pub fn quantile_ns(buckets: &[u64; BUCKETS], share: f64) -> u64 {
    let all: u64 = buckets.iter().sum();
    let wanted = (share * all as f64).ceil() as u64;
    let mut seen = 0;
    for (i, count) in buckets.iter().enumerate() {
        seen += count;
        if seen >= wanted && seen > 0 {
            return Histogram::bound_ns(i).unwrap_or(u64::MAX);
        }
    }
    0
}

/// This thread's shard.
pub fn shard() -> usize {
    turn() % SHARDS
}

/// This thread's number among those that asked for one.
pub(crate) fn turn() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static MINE: Cell<usize> = const { Cell::new(usize::MAX) });
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        mine.get()
    })
}
