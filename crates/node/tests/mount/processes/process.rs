//! One process of the random test: opens and closes, reads and writes in all ways there are, and compares what it reads
//! with what was acknowledged before.

use super::shared::{Kind, SLOTS_BYTES, Shared, TAIL_BYTES_MAX, is_zeros};
use rustix::fs::{Advice, FallocateFlags, Mode, OFlags, fallocate, fstat, ftruncate};
use rustix::io::{Errno, pread, pwrite};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

const PAGE: usize = 4096;
const HANDLES: usize = 6;
/// The pages of a slot that crosses borders, twice for moving to a border in memory.
const AREA_BYTES: usize = 4 * PAGE;

pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// Orders of a process.
pub struct Orders {
    pub path: PathBuf,
    pub kind: Kind,
    pub seed: u64,
    pub steps: u64,
    /// Whether files that were opened for reading may be mapped.
    pub maps_read_only: bool,
    /// It lies: a write is made after it was acknowledged.
    pub late: bool,
}

struct Handle {
    fd: OwnedFd,
    flags: OFlags,
}

impl Handle {
    fn reads(&self) -> bool {
        self.flags & OFlags::RWMODE != OFlags::WRONLY
    }

    fn writes(&self) -> bool {
        self.flags & OFlags::RWMODE != OFlags::RDONLY
    }

    fn has(&self, flag: OFlags) -> bool {
        self.flags.contains(flag)
    }
}

struct Mapping {
    at: *mut u8,
    writes: bool,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: no other reference to it exists.
        unsafe { rustix::mm::munmap(self.at.cast(), SLOTS_BYTES as usize).unwrap() }
    }
}

pub struct Process<'a> {
    orders: Orders,
    shared: &'a Shared,
    random: Random,
    handles: [Option<Handle>; HANDLES],
    mapping: Option<Mapping>,
    area: Vec<u8>,
    late: Option<(usize, u64, Vec<u8>)>,
    step: u64,
}

impl<'a> Process<'a> {
    pub fn new(orders: Orders, shared: &'a Shared) -> Process<'a> {
        let random = Random(orders.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let handles = [const { None }; HANDLES];
        Process { orders, shared, random, handles, mapping: None, area: vec![0; AREA_BYTES], late: None, step: 0 }
    }

    /// Carries out the orders; returns the first difference, in words.
    pub fn run(mut self) -> Result<(), String> {
        for step in 0..self.orders.steps {
            self.step = step;
            self.one()?;
        }
        Ok(())
    }

    fn one(&mut self) -> Result<(), String> {
        if let Some((handle, offset, bytes)) = self.late.take()
            && let Some(handle) = &self.handles[handle]
        {
            let _ = pwrite(&handle.fd, &bytes, offset);
        }
        match self.random.below(32) {
            0..=9 => self.write(),
            10..=19 => {
                let slot = self.slot();
                self.read(slot)
            }
            20..=22 => self.read_spliced(),
            23..=24 => {
                self.close();
                Ok(())
            }
            25 => self.map(),
            26 => self.sync(),
            27 => self.forget_pages(),
            28 => self.copy(),
            _ => self.tail(),
        }
    }

    /// Some slot; half the time one of a few.
    fn slot(&mut self) -> usize {
        let all = self.orders.kind.slots() as u64;
        let hot = self.random.below(2) == 0;
        (if hot { all - 1 - self.random.below(12) } else { self.random.below(all) }) as usize
    }

    fn offset(&self, slot: usize) -> u64 {
        (slot * self.orders.kind.bytes()) as u64
    }

    /// An open that `fits`, or a new one with the access that the caller gives.
    fn handle(&mut self, access: OFlags, fits: impl Fn(&Handle) -> bool) -> usize {
        let first = self.random.below(HANDLES as u64) as usize;
        let some = (0..HANDLES).map(|n| (first + n) % HANDLES);
        let fitting = |n: &usize| self.handles[*n].as_ref().is_some_and(&fits);
        if self.random.below(8) > 0
            && let Some(known) = some.clone().find(fitting)
        {
            return known;
        }
        let more = [OFlags::empty(), OFlags::SYNC, dsync(), OFlags::DIRECT, OFlags::DIRECT | dsync(), OFlags::APPEND];
        loop {
            let access = if self.random.below(2) == 0 { OFlags::RDWR } else { access };
            let flags = access | more[self.random.below(more.len() as u64) as usize];
            // No page is written in both ways.
            let mixes = self.orders.kind == Kind::Mapped && flags.contains(OFlags::DIRECT) && access != OFlags::RDONLY;
            if mixes {
                continue;
            }
            let fd = rustix::fs::open(&self.orders.path, flags | OFlags::CLOEXEC, Mode::empty()).unwrap();
            let handle = Handle { fd, flags };
            if fits(&handle) {
                self.handles[first] = Some(handle);
                return first;
            }
        }
    }

    fn writer(&mut self) -> usize {
        self.handle(OFlags::WRONLY, |handle| handle.writes() && !handle.has(OFlags::APPEND))
    }

    fn reader(&mut self) -> usize {
        self.handle(OFlags::RDONLY, Handle::reads)
    }

    fn close(&mut self) {
        let which = self.random.below(HANDLES as u64) as usize;
        self.handles[which] = None;
    }

    fn write(&mut self) -> Result<(), String> {
        let (slot, kind) = (self.slot(), self.orders.kind);
        let Some(writing) = self.shared.take(slot) else { return self.read(slot) };
        let (offset, version) = (self.offset(slot), writing.version);
        let store = kind == Kind::Mapped && self.random.below(3) == 0;
        let mapped = self.mapping.as_ref().filter(|mapping| store && mapping.writes).map(|mapping| mapping.at);
        if let Some(at) = mapped {
            let mut bytes = vec![0; kind.bytes()];
            kind.fill(slot, version, &mut bytes);
            writing.begin();
            // SAFETY: the mapping reaches to the end of the slots, and this process alone writes this one.
            unsafe { at.add(offset as usize).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            writing.acknowledge();
            return self.read_back(slot);
        }
        let which = self.writer();
        let holes = kind == Kind::Direct && is_zeros(version);
        let how = self.random.below(3);
        let skip = self.area.as_ptr().align_offset(PAGE);
        let bytes = &mut self.area[skip..skip + kind.bytes()];
        kind.fill(slot, version, bytes);
        let fd = &self.handles[which].as_ref().expect("just opened").fd;
        writing.begin();
        if self.orders.late && self.step.is_multiple_of(4) {
            self.late = Some((which, offset, bytes.to_vec()));
        } else if holes && how < 2 {
            let zero = |how| fallocate(fd, how | FallocateFlags::KEEP_SIZE, offset, kind.bytes() as u64);
            let zeroed = if how == 0 { zero(FallocateFlags::ZERO_RANGE) } else { Err(Errno::OPNOTSUPP) };
            zeroed.or_else(|_| zero(FallocateFlags::PUNCH_HOLE)).unwrap();
        } else {
            assert_eq!(pwrite(fd, bytes, offset).unwrap(), bytes.len());
        }
        writing.acknowledge();
        self.read_back(slot)
    }

    fn read_back(&mut self, slot: usize) -> Result<(), String> {
        if self.random.below(3) == 0 { self.read(slot) } else { Ok(()) }
    }

    fn read(&mut self, slot: usize) -> Result<(), String> {
        let (offset, len) = (self.offset(slot), self.orders.kind.bytes());
        let mapped = self.mapping.as_ref().map(|mapping| mapping.at);
        if let Some(at) = mapped.filter(|_| self.random.below(3) == 0) {
            let from = self.shared.acknowledged(slot);
            let mut bytes = vec![0u8; len];
            // SAFETY: the mapping reaches to the end of the slots; others may change what is read, byte by byte.
            unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(at.add(offset as usize), len) };
            return self.judge("a mapping", slot, from, &bytes, None);
        }
        let which = self.reader();
        let handle = self.handles[which].as_ref().expect("just opened");
        let direct = handle.has(OFlags::DIRECT);
        let start = if direct { offset / PAGE as u64 * PAGE as u64 } else { offset };
        let end = if direct { (offset + len as u64).next_multiple_of(PAGE as u64) } else { offset + len as u64 };
        let skip = self.area.as_ptr().align_offset(PAGE);
        let buffer = &mut self.area[skip..skip + (end - start) as usize];
        let from = self.shared.acknowledged(slot);
        let got = pread(&handle.fd, &mut *buffer, start).unwrap();
        let inside = (offset - start) as usize;
        if got < inside + len {
            return Err(format!("a read of {len} bytes at {offset} gave {got}, by {:?}", handle.flags));
        }
        let bytes = buffer[inside..inside + len].to_vec();
        self.judge("read", slot, from, &bytes, Some(which))
    }

    /// Without a copy: what comes out of the pipe are the pages themselves.
    fn read_spliced(&mut self) -> Result<(), String> {
        let (slot, which) = (self.slot(), self.reader());
        let handle = self.handles[which].as_ref().expect("just opened");
        if handle.has(OFlags::DIRECT) {
            return self.read(slot);
        }
        let (mut offset, len) = (self.offset(slot), self.orders.kind.bytes());
        let (out, into) = rustix::pipe::pipe().unwrap();
        let (mut bytes, mut got) = (vec![0; len], 0);
        let from = self.shared.acknowledged(slot);
        while got < len {
            let flags = rustix::pipe::SpliceFlags::empty();
            let spliced = rustix::pipe::splice(&handle.fd, Some(&mut offset), &into, None, len - got, flags);
            if handle.has(OFlags::APPEND) && got == 0 && matches!(spliced, Err(Errno::INVAL | Errno::IO)) {
                return self.read(slot); // beside opens that the kernel serves by itself
            }
            let moved = spliced.unwrap();
            if moved == 0 {
                return Err(format!("a splice of {len} bytes at {offset} ended after {got}"));
            }
            let mut left = moved;
            while left > 0 {
                let n = rustix::io::read(&out, &mut bytes[got..got + left]).unwrap();
                (got, left) = (got + n, left - n);
            }
        }
        self.judge("splice", slot, from, &bytes, Some(which))
    }

    fn judge(&self, how: &str, slot: usize, from: u64, bytes: &[u8], which: Option<usize>) -> Result<(), String> {
        let (to, kind) = (self.shared.begun(slot), self.orders.kind);
        let Some(at) = kind.wrong(slot, from, to, bytes) else { return Ok(()) };
        let older = (0..from).rev().find(|version| kind.wrong(slot, *version, *version, bytes).is_none());
        let flags = which.and_then(|which| self.handles[which].as_ref()).map(|handle| handle.flags);
        Err(format!(
            "step {}: byte {at} of slot {slot} ({} at {}) is of none of the versions {from} to {to}, read by {how} \
             {flags:?}; all of it is of version {older:?}",
            self.step,
            bytes[at],
            self.offset(slot)
        ))
    }

    fn map(&mut self) -> Result<(), String> {
        self.mapping = None;
        let read_only = self.orders.maps_read_only;
        let which = self.handle(OFlags::RDWR, |handle| handle.reads() && (read_only || handle.writes()));
        let handle = self.handles[which].as_ref().expect("just opened");
        let writes = handle.writes() && self.orders.kind == Kind::Mapped;
        let access = if writes { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let private = !writes && self.random.below(2) == 0;
        let sharing = if private { MapFlags::PRIVATE } else { MapFlags::SHARED };
        let len = SLOTS_BYTES as usize;
        // SAFETY: a new mapping of what the file always has.
        let at = unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, access, sharing, &handle.fd, 0).unwrap() };
        self.mapping = Some(Mapping { at: at.cast(), writes });
        Ok(())
    }

    fn sync(&mut self) -> Result<(), String> {
        let mapped = self.mapping.as_ref().filter(|mapping| mapping.writes).map(|mapping| mapping.at);
        if let Some(at) = mapped.filter(|_| self.random.below(2) == 0) {
            // SAFETY: mapped with this length.
            unsafe { rustix::mm::msync(at.cast(), SLOTS_BYTES as usize, MsyncFlags::SYNC).unwrap() };
            return Ok(());
        }
        let which = self.writer();
        rustix::fs::fdatasync(&self.handles[which].as_ref().expect("just opened").fd).unwrap();
        Ok(())
    }

    fn forget_pages(&mut self) -> Result<(), String> {
        let which = self.reader();
        let fd = &self.handles[which].as_ref().expect("just opened").fd;
        rustix::fs::fadvise(fd, 0, None, Advice::DontNeed).unwrap();
        Ok(())
    }

    /// Copies one slot over another, inside the file system if that can do it. A slot is copied as it is, so its number
    /// is in it: what is compared is a copy of itself.
    fn copy(&mut self) -> Result<(), String> {
        let slot = self.slot();
        if self.orders.kind != Kind::Direct {
            return self.read(slot);
        }
        let Some(writing) = self.shared.take(slot) else { return self.read(slot) };
        let (len, version) = (self.orders.kind.bytes(), writing.version);
        let aside = self.orders.path.with_extension(format!("{}", std::process::id()));
        let mut bytes = vec![0; len];
        self.orders.kind.fill(slot, version, &mut bytes);
        std::fs::write(&aside, &bytes).unwrap();
        let source = std::fs::File::open(&aside).unwrap();
        let which = self.handle(OFlags::WRONLY, |handle| {
            handle.writes() && !handle.has(OFlags::APPEND) && !handle.has(OFlags::DIRECT)
        });
        let fd = &self.handles[which].as_ref().expect("just opened").fd;
        let (mut from, mut to) = (0, self.offset(slot));
        writing.begin();
        while (from as usize) < len {
            let left = len - from as usize;
            let copied = rustix::fs::copy_file_range(&source, Some(&mut from), fd, Some(&mut to), left).unwrap();
            assert!(copied > 0, "a copy ended early");
        }
        writing.acknowledge();
        std::fs::remove_file(&aside).unwrap();
        self.read_back(slot)
    }

    fn tail(&mut self) -> Result<(), String> {
        let act = self.random.below(4);
        let which = match act {
            0 => self.handle(OFlags::WRONLY, |handle| {
                handle.writes() && handle.has(OFlags::APPEND) && !handle.has(OFlags::DIRECT)
            }),
            1 => self.writer(),
            _ => self.handle(OFlags::RDONLY, |handle| handle.reads() && !handle.has(OFlags::DIRECT)),
        };
        let fd = &self.handles[which].as_ref().expect("just opened").fd;
        let mut tail = self.shared.tail();
        let known = tail.bytes().len();
        match act {
            0 => {
                let bytes = vec![self.random.below(255) as u8 + 1; 1 + self.random.below(3000) as usize];
                if known + bytes.len() <= TAIL_BYTES_MAX as usize {
                    assert_eq!(rustix::io::write(fd, &bytes).unwrap(), bytes.len());
                    tail.append(&bytes);
                }
            }
            1 => {
                let size = self.random.below(TAIL_BYTES_MAX + 1);
                ftruncate(fd, SLOTS_BYTES + size).unwrap();
                tail.resize(size);
            }
            _ => {}
        }
        let size = fstat(fd).unwrap().st_size as u64;
        if size != SLOTS_BYTES + tail.bytes().len() as u64 {
            return Err(format!("step {}: {size} bytes, and a tail of {}", self.step, tail.bytes().len()));
        }
        if act >= 2 {
            let mut bytes = vec![0; tail.bytes().len() + 1];
            let mut got = 0;
            loop {
                match pread(fd, &mut bytes[got..], SLOTS_BYTES + got as u64).unwrap() {
                    0 => break,
                    n => got += n,
                }
            }
            if bytes[..got] != *tail.bytes() {
                let at = bytes[..got].iter().zip(tail.bytes()).position(|(a, b)| a != b);
                return Err(format!("step {}: {got} bytes of tail, first difference {at:?}", self.step));
            }
        }
        Ok(())
    }
}

/// O_DSYNC by the kernel's number; `OFlags::DSYNC` is O_SYNC.
fn dsync() -> OFlags {
    OFlags::from_bits_retain(0o10000)
}
