//! State that all processes of the random test share: the begun and acknowledged version of each slot of the file, and
//! the bytes of its tail.
//!
//! ```text
//! | slot 0 | slot 1 | ... | slot n |            tail            |
//!   one writer at a time, any       one process at a time: appended to,
//!   reader at any time              cut, made longer
//! ```

use rustix::mm::{MapFlags, ProtFlags};
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of all slots: a border of pages, and of stripes.
pub const SLOTS_BYTES: u64 = 640 << 10;
/// Bytes of the tail at most.
pub const TAIL_BYTES_MAX: u64 = 128 << 10;
const SLOTS_MAX: usize = 1024;
/// Bytes of a slot that are alike.
const PART: usize = 64;

#[repr(C)]
struct Slot {
    taken: AtomicBool,
    begun: AtomicU64,
    acknowledged: AtomicU64,
}

#[repr(C)]
struct All {
    slots: [Slot; SLOTS_MAX],
    tail_taken: AtomicBool,
    tail_bytes: AtomicU64,
    tail: [u8; TAIL_BYTES_MAX as usize],
}

/// The shared state, mapped by every process.
pub struct Shared(*mut All);

impl Shared {
    /// Maps the state, made from scratch if `new`.
    pub fn map(path: &Path, new: bool) -> Shared {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(new).open(path).unwrap();
        let bytes = size_of::<All>();
        file.set_len(bytes as u64).unwrap();
        // SAFETY: a new mapping of a file that is as long and stays so; all zeros are a valid state of it.
        let at = unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            rustix::mm::mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, &file, 0).unwrap()
        };
        Shared(at.cast())
    }

    fn all(&self) -> &All {
        // SAFETY: mapped until the end of the process; but for the tail, which its lock guards, all of it is atomic.
        unsafe { &*self.0 }
    }

    /// The right to write a slot, unless it is taken.
    pub fn take(&self, slot: usize) -> Option<Writing<'_>> {
        let state = &self.all().slots[slot];
        let mine = state.taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        mine.then(|| Writing { version: state.acknowledged.load(Ordering::Acquire) + 1, state, done: false })
    }

    /// The version that was acknowledged last.
    pub fn acknowledged(&self, slot: usize) -> u64 {
        self.all().slots[slot].acknowledged.load(Ordering::SeqCst)
    }

    /// The version that was begun last.
    pub fn begun(&self, slot: usize) -> u64 {
        self.all().slots[slot].begun.load(Ordering::SeqCst)
    }

    /// The tail, once no other process has it.
    pub fn tail(&self) -> Tail<'_> {
        let all = self.all();
        while all.tail_taken.compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            std::thread::yield_now();
        }
        Tail { shared: self }
    }
}

/// A slot that this process alone writes.
pub struct Writing<'a> {
    state: &'a Slot,
    /// Version that the write makes.
    pub version: u64,
    done: bool,
}

impl Writing<'_> {
    /// From now on readers may see it.
    pub fn begin(&self) {
        self.state.begun.store(self.version, Ordering::SeqCst);
    }

    /// From now on every reader must see it.
    pub fn acknowledge(mut self) {
        self.state.acknowledged.store(self.version, Ordering::SeqCst);
        self.done = true;
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let done = self.done || self.state.begun.load(Ordering::Relaxed) < self.version;
        assert!(done || std::thread::panicking(), "begun and not done");
        self.state.taken.store(false, Ordering::Release);
    }
}

/// The tail, held.
pub struct Tail<'a> {
    shared: &'a Shared,
}

impl Tail<'_> {
    /// Its bytes as acknowledged.
    pub fn bytes(&self) -> &[u8] {
        let all = self.shared.all();
        &all.tail[..all.tail_bytes.load(Ordering::Relaxed) as usize]
    }

    /// Resizes the tail to `bytes`, with zeros.
    pub fn resize(&mut self, bytes: u64) {
        let before = self.bytes().len();
        if bytes as usize > before {
            self.whole()[before..bytes as usize].fill(0);
        }
        self.shared.all().tail_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Adds bytes at its end.
    pub fn append(&mut self, bytes: &[u8]) {
        let before = self.bytes().len();
        self.whole()[before..before + bytes.len()].copy_from_slice(bytes);
        self.shared.all().tail_bytes.store((before + bytes.len()) as u64, Ordering::Relaxed);
    }

    fn whole(&mut self) -> &mut [u8] {
        // SAFETY: the holder of the tail is alone with it, in all processes.
        unsafe { &mut *std::ptr::addr_of_mut!((*self.shared.0).tail) }
    }
}

impl Drop for Tail<'_> {
    fn drop(&mut self) {
        self.shared.all().tail_taken.store(false, Ordering::Release);
    }
}

/// Cut of the slots, and the ways to write them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Across pages; written by `write` and through mappings.
    Mapped,
    /// A page each; written by `write`, past the page cache, by punching and copying. As everywhere on Linux,
    /// simultaneous writes of a page past the page cache and through a mapping may lose either.
    Direct,
}

impl Kind {
    /// Bytes of a slot.
    pub fn bytes(self) -> usize {
        if self == Kind::Mapped { 1371 } else { 4096 }
    }

    /// How many there are.
    pub fn slots(self) -> usize {
        SLOTS_BYTES as usize / self.bytes()
    }

    /// Fills a slot with a version of it. Every eighth is zeros.
    pub fn fill(self, slot: usize, version: u64, bytes: &mut [u8]) {
        bytes.chunks_mut(PART).enumerate().for_each(|(part, bytes)| bytes.fill(byte_of(slot, version, part)));
    }

    /// The first byte that no version from `from` to `to` has there.
    pub fn wrong(self, slot: usize, from: u64, to: u64, bytes: &[u8]) -> Option<usize> {
        let wrong = |(part, bytes): (usize, &[u8])| {
            let right: Vec<u8> = (from..=to).map(|version| byte_of(slot, version, part)).collect();
            if bytes == &[right[0]; PART][..bytes.len()] {
                return None;
            }
            bytes.iter().position(|byte| !right.contains(byte)).map(|at| part * PART + at)
        };
        bytes.chunks(PART).enumerate().find_map(wrong)
    }
}

/// Whether a version is all zeros.
pub fn is_zeros(version: u64) -> bool {
    version.is_multiple_of(8)
}

/// The byte of which a part of a slot consists.
fn byte_of(slot: usize, version: u64, part: usize) -> u8 {
    if is_zeros(version) {
        return 0;
    }
    let mixed = (version ^ (slot as u64) << 32 ^ (part as u64) << 48).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 56) as u8 | 1
}
