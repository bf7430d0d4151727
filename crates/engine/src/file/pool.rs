//! Shared state of all files of a volume: targets, numbers, defaults, and receivers of deferred work.

use super::{Adviser, Cluster, File, Holds, Lost, Making, Numbered, SlowCopies};
use crate::Result;
use crate::cache::BlockCache;
use crate::events::Events;
use meta::places::Places;
use meta::quota::Quotas;
use meta::state::State;
use object::admission::Admission;
use object::target::Targets;
use parking_lot::Mutex;
use policy::layout::{Placement, Position};
use policy::{FileId, ObjectId, TargetId, Time};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Limit of the contents of small files in memory. A guess.
const CONTENTS_MAX: u64 = 64 << 20;

/// Handling of mirrors in a write to a file with several of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MirrorWrites {
    /// Writes all mirrors; one that cannot take a write is marked stale before the write is acknowledged.
    #[default]
    Sync,
    /// Marks all mirrors but the first stale, writes the first, and leaves the others to a later resync.
    Stale,
}

/// Shared state of all files of a volume.
pub struct Pool {
    /// The targets of the volume.
    pub targets: Arc<Targets>,
    /// Gives numbers for objects and files; never the same twice in the life of a volume.
    pub next_id: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Placement of new segments, unless file or directory has its own.
    pub placement: Placement,
    /// Handling of several mirrors in a write.
    pub mirror_writes: MirrorWrites,
    /// Largest size of a file whose bytes stay in its stub.
    pub inline_bytes_max: u64,
    /// Largest value that `inline_bytes_max` ever had.
    pub inline_bytes_before: u64,
    /// Time (nanoseconds since 1970) until which a stub keeps its bytes when its file gets objects. A running backup of
    /// the namespace may have read the file without objects.
    pub stub_bytes_stay_until: AtomicU64,
    /// Nanoseconds since 1970.
    pub clock: Box<dyn Fn() -> Time + Send + Sync>,
    /// State store that records objects which could not be removed because their target was away; `None`: no record.
    pub garbage: Option<Arc<dyn State>>,
    /// Recovery of lost stripes; empty until repair registers itself.
    pub recovery: OnceLock<Arc<dyn Recover>>,
    /// Receiver of the events of files.
    pub observer: Arc<dyn Observer>,
    /// Log of decisions and changes of state.
    pub events: Arc<Events>,
    /// Admission of contents of small files in memory.
    pub contents: Arc<Admission>,
    /// The block cache, where configured.
    pub cache: OnceLock<Arc<BlockCache>>,
    /// Advisers that adapt the volume to its load; set before it is mounted.
    pub advisers: OnceLock<Vec<Arc<dyn Adviser>>>,
    /// Places of stubs, where recorded; set before the volume is mounted.
    pub places: OnceLock<Arc<Places>>,
    /// The other nodes, of a shared volume; set before any file is opened.
    pub cluster: OnceLock<Arc<dyn Cluster>>,
    /// Holds of this node, where the store has a table of holders; set before any file is opened.
    pub holds: OnceLock<Arc<Holds>>,
    /// Callback for the last close of a file without checksums, where these are wanted; must be quick.
    pub closed: OnceLock<Box<dyn Fn(FileId) + Send + Sync>>,
    /// The files in use that have a number.
    pub numbered: Numbered,
    /// Copies below segments that were moved to a faster tier.
    pub slow_copies: SlowCopies,
    /// Objects under construction, which no layout names so far.
    pub making: Arc<Making>,
    /// Ranges that could not be made durable, by object number.
    pub lost: Arc<Lost>,
    /// Limits of users, groups and directories; none until quotas are switched on.
    pub quotas: Arc<Quotas>,
    /// Counters that rotate the choice among equal targets.
    pub turns: Turns,
}

/// Counters that rotate the choice among equal targets, one for each tier. With a common counter, choices that alternate
/// between two tiers of two targets would always take the same target of each.
#[derive(Debug, Default)]
pub struct Turns(Mutex<BTreeMap<Option<u8>, u64>>);

/// Brings lost stripes back from the source of a file. A *row* is one stripe of one object: its object offset divided
/// by the segment's stripe size.
pub trait Recover: Send + Sync {
    /// Waits until those rows of the object at `at` are readable, under the file's present layout.
    fn recover(&self, file: &Arc<File>, at: Position, rows: Range<u64>) -> Result<()>;
    /// Whether a row of a `Partial` object may be read.
    fn is_patched(&self, file: FileId, object: ObjectId, row: u64) -> bool;
}

/// Event of a file, for statistics and for background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A mirror missed a write; a resync is due.
    MirrorStale,
    /// Mirrors may differ in bytes that were never acknowledged; a resync of all but the first is due.
    MirrorsDiffer,
    /// A piece was read from another mirror than the first choice.
    ReadElsewhere {
        /// Target that did not return the piece.
        target: TargetId,
    },
}

/// Receiver of the events of files, on the thread where they occur; must be quick and must not call back into the file.
pub trait Observer: Send + Sync {
    /// Records an event of `file`.
    fn note(&self, file: &File, event: Event);
}

/// Observer that ignores all events.
pub struct Unobserved;

impl Observer for Unobserved {
    fn note(&self, _file: &File, _event: Event) {}
}

impl Pool {
    /// A pool with the fewest services: synchronous mirrors, no bytes in stubs, a stopped clock, no garbage list, and
    /// neither observer, recovery, cache nor advisers. Add services with
    /// `Pool { garbage, observer, ..Pool::new(targets, next_id, placement) }`.
    pub fn new(targets: Arc<Targets>, next_id: impl Fn() -> u64 + Send + Sync + 'static, placement: Placement) -> Pool {
        Pool {
            targets,
            next_id: Box::new(next_id),
            placement,
            mirror_writes: MirrorWrites::default(),
            inline_bytes_max: 0,
            inline_bytes_before: 0,
            stub_bytes_stay_until: AtomicU64::new(0),
            contents: Admission::new(CONTENTS_MAX, 0),
            clock: Box::new(|| Time(1)),
            garbage: None,
            recovery: OnceLock::new(),
            observer: Arc::new(Unobserved),
            events: Arc::default(),
            cache: OnceLock::new(),
            advisers: OnceLock::new(),
            places: OnceLock::new(),
            cluster: OnceLock::new(),
            holds: OnceLock::new(),
            closed: OnceLock::new(),
            numbered: Numbered::default(),
            slow_copies: SlowCopies::default(),
            making: Arc::default(),
            lost: Arc::default(),
            quotas: Arc::default(),
            turns: Turns::default(),
        }
    }

    /// Next number that rotates the choice among the equal targets of a tier, or among all targets.
    pub(crate) fn next_turn(&self, tier: Option<u8>) -> u64 {
        let mut turns = self.turns.0.lock();
        let next = turns.entry(tier).or_default();
        *next += 1;
        *next - 1
    }

    /// Largest file that may have no layout. A larger stub has a layout or is marked inline.
    pub(crate) fn inline_bytes_ever(&self) -> u64 {
        self.inline_bytes_max.max(self.inline_bytes_before)
    }

    pub(crate) fn stub_bytes_stay(&self) -> bool {
        let until = self.stub_bytes_stay_until.load(Ordering::Relaxed);
        until > 0 && (self.clock)().0 < until
    }

    /// A new object number.
    pub fn next_object(&self) -> ObjectId {
        ObjectId((self.next_id)())
    }
}
