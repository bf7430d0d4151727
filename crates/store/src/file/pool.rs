//! What all files of a volume share: targets, numbers, defaults, and the sinks for what they cannot do themselves.

use super::{Adviser, Cluster, File, Lost, Making, Numbered, SlowCopies};
use crate::Result;
use crate::cache::BlockCache;
use crate::events::Events;
use crate::places::Places;
use crate::quota::Quotas;
use crate::target::Targets;
use parking_lot::Mutex;
use policy::layout::{Placement, Position};
use policy::{FileId, ObjectId, TargetId, Time};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// What a write to a file with several mirrors does with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MirrorWrites {
    /// Writes all of them; one that cannot take a write is marked stale before the write is acknowledged.
    #[default]
    Sync,
    /// Marks all but the first stale, writes that one, and leaves the rest to a later resync.
    Stale,
}

/// What all files of a volume share.
pub struct Pool {
    /// The targets of the volume.
    pub targets: Arc<Targets>,
    /// Gives numbers for objects and files; never the same twice in the life of a volume.
    pub next_id: Box<dyn Fn() -> u64 + Send + Sync>,
    /// How new segments are made where neither file nor directory says otherwise.
    pub placement: Placement,
    /// What a write does with several mirrors.
    pub mirror_writes: MirrorWrites,
    /// Up to this size a file's bytes stay in its stub.
    pub inline_bytes_max: u64,
    /// The largest size up to which it ever was so.
    pub inline_bytes_before: u64,
    /// Until then (nanoseconds since 1970) a stub keeps its bytes when its file gets objects: somebody may be copying the namespace, and
    /// have seen the file without them.
    pub stub_bytes_stay_until: AtomicU64,
    /// Nanoseconds since 1970.
    pub clock: Box<dyn Fn() -> Time + Send + Sync>,
    /// Where objects are noted that could not be removed because their target was away.
    pub garbage: Arc<dyn Garbage>,
    /// What brings lost stripes back; nothing until repair registered itself.
    pub recovery: OnceLock<Arc<dyn Recover>>,
    /// What wants to know what happens to files.
    pub observer: Arc<dyn Observer>,
    /// Where decisions and changes of state are told.
    pub events: Arc<Events>,
    /// The block cache, if the volume has one.
    pub cache: OnceLock<Arc<BlockCache>>,
    /// What adapts the volume to its load; set before it is mounted.
    pub advisers: OnceLock<Vec<Arc<dyn Adviser>>>,
    /// Where stubs are, if the volume notes that; set before it is mounted.
    pub places: OnceLock<Arc<Places>>,
    /// The other nodes, where several have the volume; set before any file is opened.
    pub cluster: OnceLock<Arc<dyn Cluster>>,
    /// Hears of files without checksums that nobody has open any more, if any are to have some; must be quick.
    pub closed: OnceLock<Box<dyn Fn(FileId) + Send + Sync>>,
    /// The files in use that have a number.
    pub numbered: Numbered,
    /// Files that this node made longer than their stubs say.
    pub behind: Mutex<Vec<Weak<File>>>,
    /// Copies below segments that were moved to a faster tier.
    pub slow_copies: SlowCopies,
    /// Objects that no layout names yet.
    pub making: Arc<Making>,
    /// What could not be made durable, by the numbers of objects.
    pub lost: Arc<Lost>,
    /// Who may have how much; nobody has a limit until something keeps them.
    pub quotas: Arc<Quotas>,
    /// Turns among equal targets; starts anywhere.
    pub turn: AtomicU64,
}

/// Remembers objects that must be removed when their target is back.
pub trait Garbage: Send + Sync {
    /// Notes one object, durably.
    fn remember(&self, target: TargetId, object: ObjectId) -> Result<()>;
}

/// Brings lost stripes back from the source of a file. A *row* is one stripe of one object: its object offset divided
/// by the segment's stripe size.
pub trait Recover: Send + Sync {
    /// Blocks until those rows of the object at `at` are readable, under the file's layout of then.
    fn recover(&self, file: &Arc<File>, at: Position, rows: Range<u64>) -> Result<()>;
    /// Whether a row of a `Partial` object may be read.
    fn is_patched(&self, file: FileId, object: ObjectId, row: u64) -> bool;
}

/// What happened to a file, for statistics and for background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The file outgrew its stub.
    Converted,
    /// Segments were added.
    Grown,
    /// A mirror missed a write; a resync is due.
    MirrorStale {
        /// Its index.
        mirror: usize,
    },
    /// Mirrors may differ in bytes that were never acknowledged; a resync of all but the first is due.
    MirrorsDiffer,
    /// A piece was read from another mirror than the first choice.
    ReadElsewhere {
        /// Which target did not give it.
        target: TargetId,
    },
    /// A reader waits for a lost stripe.
    RecoveryAsked {
        /// Which target lost it.
        target: TargetId,
    },
    /// A stripe was lost for good: the reader got an error.
    ReadFailed {
        /// Which target lost it.
        target: TargetId,
    },
}

/// Told what happens to files, on the thread where it happens; must be quick and must not call back into the file.
pub trait Observer: Send + Sync {
    /// Something happened.
    fn note(&self, file: &File, event: Event);
}

/// Does nothing with what it is told.
pub struct Unobserved;

impl Observer for Unobserved {
    fn note(&self, _file: &File, _event: Event) {}
}

/// Garbage that nothing removes.
struct Forgotten;

impl Garbage for Forgotten {
    fn remember(&self, _target: TargetId, _object: ObjectId) -> Result<()> {
        Ok(())
    }
}

impl Pool {
    /// A pool with the least around it: mirrors are written together, no bytes stay in stubs, the clock stands, garbage is
    /// forgotten, and nothing observes, recovers, caches or advises. Who has more says so, as in
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
            clock: Box::new(|| Time(1)),
            garbage: Arc::new(Forgotten),
            recovery: OnceLock::new(),
            observer: Arc::new(Unobserved),
            events: Arc::default(),
            cache: OnceLock::new(),
            advisers: OnceLock::new(),
            places: OnceLock::new(),
            cluster: OnceLock::new(),
            closed: OnceLock::new(),
            numbered: Numbered::default(),
            behind: Mutex::default(),
            slow_copies: SlowCopies::default(),
            making: Arc::default(),
            lost: Arc::default(),
            quotas: Arc::default(),
            turn: AtomicU64::new(0),
        }
    }

    /// The next number that shifts the choice among equal targets.
    pub(crate) fn next_turn(&self) -> u64 {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }

    /// A stub that is larger has a layout or says why not.
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
