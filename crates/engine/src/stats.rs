//! Numbers about the mount: one table of all metrics, counted without locks.

mod exposition;
mod recorder;
mod snapshot;
mod staged;
mod table;
mod users;

pub use exposition::{Gauge, OPEN_METRICS};
pub use recorder::{Position, Recorded, Recorder, Recording};
pub use snapshot::{OpCounts, Snapshot, StateCounts, TargetCounts};
pub use staged::{Staged, StagedBytes};
pub use table::{Level, Metric, Op};
pub use users::{USERS_MAX, UserCounts, Users};

use crate::cache::BlockCache;
use meta::state::State;
use object::counters::{Counter, Timed};
use object::target::{Target, Targets};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// All metrics of a volume.
pub struct Stats {
    started: Instant,
    ops: Vec<OpCounters>,
    numbers: Vec<Counter>,
    users: Users,
    staged: Staged,
    recorder: Recorder,
    targets: OnceLock<Weak<Targets>>,
    state: OnceLock<Weak<dyn State>>,
    cache: OnceLock<Weak<BlockCache>>,
}

#[derive(Default)]
struct OpCounters {
    timed: Timed,
    bytes: Counter,
}

impl Default for Stats {
    fn default() -> Stats {
        Stats {
            started: Instant::now(),
            ops: Op::ALL.iter().map(|_| OpCounters::default()).collect(),
            numbers: Metric::ALL.iter().map(|_| Counter::default()).collect(),
            users: Users::default(),
            staged: Staged::default(),
            recorder: Recorder::default(),
            targets: OnceLock::new(),
            state: OnceLock::new(),
            cache: OnceLock::new(),
        }
    }
}

impl Stats {
    /// Returns metrics that are all zero.
    pub fn new() -> Stats {
        Stats::default()
    }

    /// Shows these targets too. Only the first call counts.
    pub fn attach(&self, targets: &Arc<Targets>) {
        let _ = self.targets.set(Arc::downgrade(targets));
    }

    /// Shows this store of the state too. Only the first call counts.
    pub fn attach_state(&self, state: &Arc<dyn State>) {
        let _ = self.state.set(Arc::downgrade(state));
    }

    /// Shows this block cache too. Only the first call counts.
    pub fn attach_cache(&self, cache: &Arc<BlockCache>) {
        let _ = self.cache.set(Arc::downgrade(cache));
    }

    /// An operation ended.
    pub fn op(&self, op: Op, bytes: u64, took: Duration, failed: bool) {
        let counters = &self.ops[op as usize];
        counters.timed.record(took, failed);
        if bytes > 0 {
            counters.bytes.add(bytes);
        }
    }

    /// Bytes that calls of that kind moved.
    pub fn bytes(&self, op: Op) -> u64 {
        self.ops[op as usize].bytes.get()
    }

    /// Returns the counts of each user's operations.
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// Returns the bytes staged for each user.
    pub fn staged(&self) -> &Staged {
        &self.staged
    }

    /// Returns the recorder of reads and writes.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Adds to a number.
    pub fn add(&self, metric: Metric, n: u64) {
        self.numbers[metric as usize].add(n);
    }

    /// A number now.
    pub fn get(&self, metric: Metric) -> u64 {
        self.numbers[metric as usize].get()
    }

    /// Returns all numbers now.
    pub fn snapshot(&self) -> Snapshot {
        let op = |op: &Op| {
            let counters = &self.ops[*op as usize];
            let buckets = counters.timed.spans.buckets().to_vec();
            OpCounts {
                op: op.name().to_owned(),
                count: buckets.iter().sum(),
                failed: counters.timed.failed.get(),
                bytes: counters.bytes.get(),
                total_ns: counters.timed.total_ns.get(),
                buckets,
            }
        };
        let targets = self.targets.get().and_then(Weak::upgrade).map_or_else(Vec::new, |targets| targets.all());
        Snapshot {
            uptime_ns: self.started.elapsed().as_nanos() as u64,
            ops: Op::ALL.iter().map(op).collect(),
            targets: targets.iter().map(|target| target_counts(target)).collect(),
            numbers: Metric::ALL.iter().map(|metric| (metric.name().to_owned(), self.get(*metric))).collect(),
            state: self.state.get().and_then(Weak::upgrade).and_then(|state| Some(state_counts(state.timed()?))),
            cache: self.cache.get().and_then(Weak::upgrade).map(|cache| cache.counts()),
        }
    }

    /// Text of all metrics for people.
    pub fn render_text(&self) -> String {
        self.snapshot().text()
    }
}

fn target_counts(target: &Target) -> TargetCounts {
    let (counters, space) = (target.counters(), target.space());
    TargetCounts {
        id: target.id().0,
        name: target.name().to_owned(),
        tier: target.tier(),
        state: target.state().to_string(),
        total_bytes: space.total_bytes,
        free_bytes: space.free_bytes,
        ops: counters.ops.get(),
        errors: counters.errors.get(),
        deadline_misses: counters.deadline_misses.get(),
        read_bytes: counters.read_bytes.get(),
        written_bytes: counters.written_bytes.get(),
        timed_ns: counters.served().took_ns,
        timed: counters.spans().to_vec(),
    }
}

fn state_counts(timed: &Timed) -> StateCounts {
    StateCounts { failed: timed.failed.get(), total_ns: timed.total_ns.get(), buckets: timed.spans.buckets().to_vec() }
}

#[cfg(test)]
mod tests;
