//! A file of the volume: reads and writes split by its layout, its size, its growth, its mirrors.
//!
//! One [`File`] per inode, shared by all its users: open handles of the mount, mover, repair, staging. [`FileTable`]
//! ensures this. Locks, outermost first:
//!
//! * `io`: writers hold it shared; conversion, growth, truncation, punching and the mover's swap hold it exclusively.
//!   No caller waits for a recovery while holding it. With several nodes, holding it exclusively excludes writers on
//!   all of them: see `nodes`.
//! * `record`: one change of the layout record at a time (a writer marks a mirror stale while it holds `io` shared).
//! * `extend`: the size in memory and in the stub change together.
//! * `view`: the pointer to layout and opened objects; held only to copy or replace it.
//!
//! Readers hold nothing. They take a snapshot, read, and compare it with the file; after a difference they read again.

mod advise;
mod byte_ranges;
mod cached;
mod change;
mod charged;
mod compare;
mod copy;
mod find;
mod grow;
mod habit;
mod held;
mod in_use;
mod inline;
mod lease;
mod load;
mod locks;
mod lost;
mod making;
mod mapped;
mod moving;
mod nodes;
mod numbered;
mod objects;
mod overflow;
mod paged;
mod parallel;
mod passthrough;
mod payer;
mod pool;
mod range;
mod read;
mod rebuild;
mod rollback;
mod seek;
mod share;
mod slow_copy;
mod snapshot;
mod source;
mod summed;
mod sync;
mod table;
mod truncate;
mod usage;
mod view;
mod write;

pub use advise::{Access, Adviser, Happened, Resume};
pub use cached::Reading;
pub use held::{Holds, Port};
pub use inline::{InlineRead, InlineWrite};
pub use load::Load;
pub use locks::{Admitted, InTheWay, Locked, Owner, Wanted};
pub use lost::Lost;
pub use making::Making;
pub use nodes::Cluster;
pub use numbered::Numbered;
pub use paged::Paged;
pub(crate) use parallel::parts;
pub use passthrough::{Backing, FileOpen};
pub use payer::Payer;
pub use pool::{Event, MirrorWrites, Observer, Pool, Recover, Unobserved};
pub use slow_copy::SlowCopies;
pub use sync::SyncCursor;
pub use table::{Creation, FileTable};
pub use usage::{Usage, Used};

pub use object::target::OnDeadline;

pub use byte_ranges::ByteRanges;
pub use grow::{JournalNote, NewObjects, targets_of, targets_of_others};
pub(crate) use making::BeingMade;
pub(crate) use range::object_range;
pub(crate) use seek::Seek;
pub(crate) use slow_copy::{Lies, SlowCopy, lies};
pub(crate) use view::{Slot, View};

use crate::{Error, Result};
use meta::stub::Stub;
use meta::unsynced::Unsynced;
use object::target::TargetError;
use parking_lot::{Mutex, RwLock};
use policy::layout::{Layout, Placement};
use policy::{FileId, TargetId, Time};
use rustix::io::Errno;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Files are no longer than this, as everywhere on Linux.
pub const SIZE_MAX: u64 = i64::MAX as u64;

/// One file. See the module.
pub struct File {
    this: Weak<File>,
    pool: Arc<Pool>,
    stub: Arc<dyn Stub>,
    view: RwLock<Arc<View>>,
    io: Arc<RwLock<()>>,
    record: Mutex<()>,
    extend: Mutex<()>,
    cuts: snapshot::Cuts,
    append: Mutex<()>,
    /// The size, unless the kernel writes the object by itself.
    size: AtomicU64,
    /// No object holds bytes beyond the end of the file.
    tail_clean: AtomicBool,
    /// The stub may hold bytes that were made durable.
    promised: AtomicBool,
    /// Changes of the stub since its last sync.
    stub_unsynced: Unsynced<Errno>,
    /// Bytes in the stub that could not be made durable.
    stub_lost: Lost,
    /// Pending modification time in nanoseconds since 1970; 0: none.
    modified: AtomicU64,
    /// The object's own modification time as last read, while the kernel writes it.
    kernel_modified: AtomicU64,
    placement: Mutex<Option<Placement>>,
    source: source::SourceState,
    /// The stub may have marks of checksums.
    has_sums: AtomicBool,
    sync_errors: Mutex<sync::SyncErrors>,
    claims: Mutex<passthrough::Claims>,
    /// This node removed the last link: the last user of the file here removes the objects.
    lost_its_last_link: AtomicBool,
    /// The objects have been removed; set while `io` is held exclusively. No layout is published from then on.
    removed: AtomicBool,
    /// The kernel writes the object by itself: its length is the size.
    kernel_writes: AtomicBool,
    /// Receiver of writes for the mover.
    watch: RwLock<Option<Arc<ByteRanges>>>,
    /// Number of handles that applications hold.
    handles: AtomicUsize,
    load: Load,
    usage: Arc<Usage>,
    habits: habit::Habits,
    staged_as: OnceLock<Box<str>>,
    /// Payer of its open descriptors.
    payer: Mutex<Option<Weak<dyn Payer>>>,
    /// Holds of this node, where the volume has a table of holders.
    held: held::Held,
    /// Mirrors that missed a change under a hold, which allows no change of the layout.
    missed: Mutex<Vec<write::Missed>>,
    locks: locks::Locks,
    charges: charged::Charges,
}

/// State of a file as its stub has it.
#[derive(Default)]
struct Known {
    layout: Option<Layout>,
    source: Option<String>,
    has_sums: bool,
    size: u64,
}

impl File {
    /// Opens the file behind a stub, not shared through a table. Other code uses [`FileTable::get_or_open`].
    pub fn open(stub: Arc<dyn Stub>, pool: Arc<Pool>) -> Result<Arc<File>> {
        if pool.holds.get().is_some() {
            let file = File::made(stub, pool, None);
            file.refresh()?;
            return Ok(file);
        }
        let layout = stub.layout()?;
        if let Some(layout) = &layout {
            layout.check().map_err(Error::BadLayout)?;
        }
        let has_sums = layout.is_some() && stub.has_sums()?;
        let (source, size) = (stub.source()?, stub.size()?);
        check_inline(&*stub, &pool, layout.is_none(), size)?;
        Ok(File::at(stub, pool, Known { layout, source, has_sums, size }, None))
    }

    /// The file behind a stub without attributes, or whose attributes are read with its first hold. `began`: begin of
    /// its creation by this node.
    pub(crate) fn made(stub: Arc<dyn Stub>, pool: Arc<Pool>, began: Option<Time>) -> Arc<File> {
        File::at(stub, pool, Known::default(), began)
    }

    fn at(stub: Arc<dyn Stub>, pool: Arc<Pool>, known: Known, began: Option<Time>) -> Arc<File> {
        let Known { layout, source, has_sums, size } = known;
        let file = Arc::new_cyclic(|this| File {
            this: this.clone(),
            tail_clean: AtomicBool::new(layout.is_none()),
            promised: AtomicBool::new(size > 0),
            view: RwLock::new(Arc::new(View::new(layout, None))),
            size: AtomicU64::new(size),
            pool,
            stub,
            source: source::SourceState::of(source.as_deref()),
            has_sums: AtomicBool::new(has_sums),
            io: Arc::default(),
            record: Mutex::new(()),
            extend: Mutex::default(),
            cuts: snapshot::Cuts::default(),
            append: Mutex::new(()),
            stub_unsynced: Unsynced::unknown(),
            stub_lost: Lost::default(),
            modified: AtomicU64::new(0),
            kernel_modified: AtomicU64::new(0),
            placement: Mutex::new(None),
            sync_errors: Mutex::default(),
            claims: Mutex::default(),
            lost_its_last_link: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            kernel_writes: AtomicBool::new(false),
            watch: RwLock::new(None),
            handles: AtomicUsize::new(0),
            load: Load::default(),
            usage: Arc::default(),
            habits: habit::Habits::default(),
            staged_as: OnceLock::new(),
            payer: Mutex::new(None),
            held: held::Held::default(),
            missed: Mutex::default(),
            locks: locks::Locks::default(),
            charges: charged::Charges::default(),
        });
        if let Some(holds) = file.holds() {
            holds.opened(file.key(), &file.this, began);
        }
        file
    }

    /// State shared by all files.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Records the path below the mount's root under which the file was staged in.
    pub fn say_staged_as(&self, path: &str) {
        let _ = self.staged_as.set(path.into());
    }

    /// Path below `tree`, for messages. Found without a search: the name under which the file was opened or staged in;
    /// `None` if that name is gone.
    pub fn shown_below(&self, tree: &Path) -> Option<String> {
        let opened = self.stub.path().filter(|path| !path.to_string_lossy().ends_with(" (deleted)"));
        let below = opened.and_then(|path| Some(path.strip_prefix(tree).ok()?.to_str()?.to_string()));
        below.or_else(|| self.staged_as.get().map(|path| path.to_string()))
    }

    /// Inode of the file in the namespace.
    pub fn stub(&self) -> &Arc<dyn Stub> {
        &self.stub
    }

    /// The layout; `None` while the bytes are in the stub.
    pub fn layout(&self) -> Option<Arc<Layout>> {
        self.view.read().layout.clone()
    }

    /// Whether the bytes are in the stub, since there is no layout.
    pub fn is_in_stub(&self) -> bool {
        self.view.read().layout.is_none()
    }

    /// The file's number; `None` while it has no layout.
    pub fn id(&self) -> Option<FileId> {
        self.view.read().layout.as_ref().map(|l| l.file)
    }

    /// Size in bytes. While the kernel writes the object by itself, the object's length.
    pub fn size(&self) -> u64 {
        self.size_and_modified_ns().0
    }

    /// Counts a handle of an application.
    pub fn opened(&self) {
        self.handles.fetch_add(1, Ordering::AcqRel);
    }

    /// Releases a handle of an application.
    pub fn closed(&self) {
        let was_last = self.handles.fetch_sub(1, Ordering::AcqRel) == 1;
        if let Some(closed) = self.pool.closed.get().filter(|_| was_last && !self.is_guarded())
            && let Some(id) = self.id()
        {
            closed(id);
        }
    }

    /// Whether an application has the file open.
    pub fn is_open(&self) -> bool {
        self.handles() > 0
    }

    /// Number of handles that applications hold.
    pub fn handles(&self) -> usize {
        self.handles.load(Ordering::Acquire)
    }

    /// Modification time in nanoseconds since 1970 where it is not yet in the stub.
    pub fn modified_ns(&self) -> Option<u64> {
        self.size_and_modified_ns().1
    }

    /// Size and modification time, with one look at the object where one is needed.
    pub fn size_and_modified_ns(&self) -> (u64, Option<u64>) {
        let (size, kernel) = match self.passthrough_state() {
            Ok(Some((size, modified))) => (size, modified),
            _ => (self.size.load(Ordering::Acquire), 0),
        };
        let modified = kernel.max(self.modified.load(Ordering::Relaxed));
        (size, (modified != 0).then_some(modified))
    }

    /// Sets the layout for future growth, inherited from the directory. Not stored on disk.
    pub fn set_placement(&self, placement: Placement) {
        *self.placement.lock() = Some(placement);
    }

    fn placement(&self) -> Placement {
        self.placement.lock().clone().unwrap_or_else(|| self.pool.placement.clone())
    }

    pub(crate) fn view(&self) -> Arc<View> {
        self.view.read().clone()
    }

    pub(crate) fn same_view(&self, view: &Arc<View>) -> bool {
        Arc::ptr_eq(&self.view.read(), view)
    }

    fn note(&self, event: Event) {
        self.pool.observer.note(self, event);
    }

    fn was_modified(&self) {
        self.modified.store((self.pool.clock)().0, Ordering::Relaxed);
    }

    fn check_range(offset: u64, len: u64) -> Result<u64> {
        match offset.checked_add(len) {
            Some(end) if end <= SIZE_MAX => Ok(end),
            _ => Err(Error::Namespace(Errno::FBIG)),
        }
    }
}

/// Largest `inline_max` that a volume may have.
const INLINE_BYTES_MAX: usize = 1 << 20;

/// Refuses a stub that has lost its attributes.
fn check_inline(stub: &dyn Stub, pool: &Pool, is_in_stub: bool, size: u64) -> Result<()> {
    if is_in_stub && size > pool.inline_bytes_ever() && !stub.is_marked_inline()? && !holds_bytes(stub)? {
        let why = "there is none, and the file is larger than what is kept in the namespace: its attributes were lost";
        return Err(Error::BadLayout(why.into()));
    }
    Ok(())
}

/// Whether a stub has any nonzero byte in the range of inline bytes.
fn holds_bytes(stub: &dyn Stub) -> Result<bool> {
    let mut bytes = vec![0; INLINE_BYTES_MAX];
    let read = stub.read_at(0, &mut bytes)?;
    Ok(bytes[..read].iter().any(|byte| *byte != 0))
}

fn target_error(target: TargetId, error: TargetError) -> Error {
    Error::Target { target, error }
}

#[cfg(test)]
mod tests;
