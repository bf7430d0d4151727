//! One lost object during its recovery: its file, the spare that takes its place, and the sources.

use crate::file::{BeingMade, File};
use crate::source::{Identity, Opener, Place, Record, Result, Source};
use crate::stage::sums::Sums;
use object::target::{Handle, Target};
use parking_lot::Mutex;
use policy::ObjectId;
use policy::layout::{Chunk, Object, Segment, object_len};
use std::sync::{Arc, Weak};

use super::sweep::Sweep;
use super::tally::Tally;
use policy::protect::recovery::Key;

/// A lost object.
pub(super) struct Case {
    /// The file at the last request. After all users closed it, the next open creates another one.
    file: Mutex<Weak<File>>,
    /// Keeps the file in use while work is under way; released when the recovery broke.
    held: Mutex<Option<Arc<File>>>,
    spare: Mutex<Option<Arc<Spare>>>,
    /// Cost of the recovery so far.
    pub tally: Arc<Tally>,
}

impl Case {
    pub fn new(file: &Arc<File>, key: Key) -> Case {
        Case {
            file: Mutex::new(Arc::downgrade(file)),
            held: Mutex::new(Some(file.clone())),
            spare: Mutex::new(None),
            tally: Arc::new(Tally::new(key)),
        }
    }

    /// The file, if it is still in use.
    pub fn file(&self) -> Option<Arc<File>> {
        self.file.lock().upgrade()
    }

    /// Keeps the file in use for a new request.
    pub fn hold(&self, file: &Arc<File>) {
        *self.file.lock() = Arc::downgrade(file);
        *self.held.lock() = Some(file.clone());
    }

    /// Returns the held file when work pauses. The caller drops it without holding a lock.
    pub fn let_go(&self) -> Option<Arc<File>> {
        self.held.lock().take()
    }

    pub fn spare(&self) -> Option<Arc<Spare>> {
        self.spare.lock().clone()
    }

    pub fn set_spare(&self, spare: Arc<Spare>) {
        *self.spare.lock() = Some(spare);
    }

    /// Removes the spare, if it is that object.
    pub fn take_spare(&self, object: ObjectId) -> Option<Arc<Spare>> {
        self.spare.lock().take_if(|spare| spare.new.id == object)
    }
}

/// The object that takes the place of a lost one, and the sources of its bytes.
pub(super) struct Spare {
    pub lost: Object,
    pub new: Object,
    pub target: Arc<Target>,
    pub handle: Arc<dyn Handle>,
    pub segment: Segment,
    pub index: usize,
    pub size: u64,
    pub sums: Option<Sums>,
    /// The spare of an interrupted recovery. Its patched rows were not recorded: a row counts as patched if its
    /// checksum is right.
    pub earlier: Option<(Arc<Target>, Arc<dyn Handle>)>,
    pub sources: Vec<RecordedSource>,
    pub tally: Arc<Tally>,
    pub _making: BeingMade,
}

impl Spare {
    /// Place of a row in the file and in the object; `None` beyond the end.
    pub fn chunk(&self, row: u64) -> Option<Chunk> {
        let object_offset = row * self.segment.stripe_size;
        let file_offset = self.segment.file_offset(self.index, object_offset);
        let end = self.size.min(self.segment.end);
        let len = self.segment.stripe_size.min(end.checked_sub(file_offset)?);
        (len > 0).then_some(Chunk { file_offset, object_offset, len })
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        object_len(&self.segment, self.index, self.size).div_ceil(self.segment.stripe_size)
    }
}

/// One source of the file, opened at its first use.
pub(super) struct RecordedSource {
    pub place: Place,
    who: Identity,
    opened: Mutex<Option<Arc<dyn Source>>>,
    pub sweep: Sweep,
}

impl RecordedSource {
    /// The sources of a record.
    pub fn all(record: &Record) -> Vec<RecordedSource> {
        let source = |place: &Place| RecordedSource {
            place: place.clone(),
            who: record.identity(),
            opened: Mutex::new(None),
            sweep: Sweep::default(),
        };
        record.sources.iter().map(source).collect()
    }

    /// The open source: one session for all rows.
    pub fn open(&self, opener: &dyn Opener) -> Result<Arc<dyn Source>> {
        let mut opened = self.opened.lock();
        if let Some(remote) = &*opened {
            return Ok(remote.clone());
        }
        let remote = opener.open(&self.place.uri, &self.who)?;
        *opened = Some(remote.clone());
        Ok(remote)
    }

    /// Whether the source serves ranges: both the record and a probe now must confirm it.
    pub fn has_ranges(&self, remote: &dyn Source) -> Result<bool> {
        if self.place.ranges { remote.has_ranges() } else { Ok(false) }
    }
}
