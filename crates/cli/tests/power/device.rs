//! Block devices with a volatile cache: a write is certain only once a later flush has ended. All of them lose their
//! power at one instant.
//!
//! ```text
//! ext4, xfs -> loop device -> file served here:   image (flushed) <- flush -- versions of each block since then
//!                                                    after the cut: each block from the image, or one of its versions
//! ```

use crate::blocks::now;
use fuser::{
    Config, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, OpenFlags,
    ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, WriteFlags,
};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

/// Unit that a device writes atomically.
const BLOCK: usize = 4096;
/// Longest normal flush, and one in eight that is longer: syncs should often overlap a running flush.
const FLUSH_MS_MAX: u64 = 8;
const LONG_FLUSH_MS: u64 = 60;
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

/// Random numbers from a seed (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Fate of blocks that were written and not flushed.
#[derive(Clone, Copy, Debug)]
pub enum Fate {
    Dropped,
    Kept,
    /// Each block by itself: dropped, or any of its versions.
    Mixed,
}

/// Number of a write, and the block's content after it.
type Version = (u64, Box<[u8; BLOCK]>);

/// A device of the rack.
struct Device {
    image: File,
    bytes: u64,
    /// Every version of each block written since the last flush, with the number of its write.
    unflushed: BTreeMap<u64, Vec<Version>>,
    writes: u64,
    /// A faulty device that acknowledges flushes without effect.
    lies: bool,
}

impl Device {
    fn block(&self, n: u64) -> std::io::Result<Box<[u8; BLOCK]>> {
        if let Some((_, last)) = self.unflushed.get(&n).and_then(|versions| versions.last()) {
            return Ok(last.clone());
        }
        let mut block = Box::new([0; BLOCK]);
        self.image.read_exact_at(&mut *block, n * BLOCK as u64)?;
        Ok(block)
    }

    fn read(&self, offset: u64, len: usize) -> std::io::Result<Vec<u8>> {
        let end = (offset + len as u64).min(self.bytes);
        let mut bytes = vec![0; end.saturating_sub(offset) as usize];
        self.image.read_exact_at(&mut bytes, offset)?;
        let (first, last) = (offset / BLOCK as u64, end.div_ceil(BLOCK as u64));
        for (n, versions) in self.unflushed.range(first..last) {
            let Some((_, block)) = versions.last() else { continue };
            let at = n * BLOCK as u64;
            let (from, to) = (at.max(offset), (at + BLOCK as u64).min(end));
            bytes[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&block[(from - at) as usize..(to - at) as usize]);
        }
        Ok(bytes)
    }

    fn write(&mut self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let (n, within) = (at / BLOCK as u64, (at % BLOCK as u64) as usize);
            let len = (BLOCK - within).min(data.len() - done);
            let mut block = if len == BLOCK { Box::new([0; BLOCK]) } else { self.block(n)? };
            block[within..within + len].copy_from_slice(&data[done..done + len]);
            self.writes += 1;
            self.unflushed.entry(n).or_default().push((self.writes, block));
            done += len;
        }
        Ok(())
    }

    /// Keeps what was written up to that write for certain.
    fn flush(&mut self, up_to: u64) -> std::io::Result<()> {
        for (n, versions) in &mut self.unflushed {
            let flushed = versions.iter().take_while(|(write, _)| *write <= up_to).count();
            if let Some((_, block)) = versions.drain(..flushed).next_back() {
                self.image.write_all_at(&*block, n * BLOCK as u64)?;
            }
        }
        self.unflushed.retain(|_, versions| !versions.is_empty());
        Ok(())
    }
}

/// Devices on one power supply.
pub struct Rack {
    devices: Vec<(String, Mutex<Device>)>,
    /// Whether there is power; accesses hold it for reading.
    on: RwLock<bool>,
    /// Time of the cut.
    cut: OnceLock<Duration>,
    /// The power goes at so many more writes and flushes; 0 is never.
    left: AtomicU64,
    random: Mutex<Random>,
}

impl Rack {
    /// Over these images, which hold a file system each.
    pub fn new(images: &[PathBuf], seed: u64) -> Rack {
        let device = |path: &PathBuf| {
            let image = File::options().read(true).write(true).open(path).expect("image");
            let bytes = image.metadata().expect("image").len();
            let device = Device { image, bytes, unflushed: BTreeMap::new(), writes: 0, lies: false };
            (path.file_name().expect("a name").to_string_lossy().into_owned(), Mutex::new(device))
        };
        let devices = images.iter().map(device).collect();
        Rack {
            devices,
            on: RwLock::new(true),
            cut: OnceLock::new(),
            left: AtomicU64::new(0),
            random: Mutex::new(Random(seed)),
        }
    }

    /// Serves them as files in a directory, on threads that end with the process.
    pub fn serve(self: &Arc<Rack>, at: &Path) -> std::io::Result<()> {
        let mut config = Config::default();
        // Flushes that take their time hold a thread each.
        config.n_threads = Some(self.devices.len() * 3);
        std::mem::forget(Session::new(Server(self.clone()), at, &config)?.spawn()?);
        Ok(())
    }

    /// From now on these say that they have flushed and have not.
    pub fn lie(&self, names: &[&str]) {
        let lying = self.devices.iter().filter(|(name, _)| names.contains(&name.as_str()));
        lying.for_each(|(_, device)| device.lock().unwrap_or_else(PoisonError::into_inner).lies = true);
    }

    /// The power goes after so many more writes and flushes of all devices together.
    pub fn cut_after(&self, requests: u64) {
        self.left.store(requests, Ordering::SeqCst);
    }

    /// Time at which the power went.
    pub fn cut_at(&self) -> Option<Duration> {
        self.cut.get().copied()
    }

    pub fn is_cut(&self) -> bool {
        !*self.on.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request down; the one at which the count ends takes the power from all devices.
    fn count(&self) {
        let down = |left: u64| left.checked_sub(1);
        if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, down) == Ok(1) {
            let mut on = self.on.write().unwrap_or_else(PoisonError::into_inner);
            *on = false;
            let _ = self.cut.set(now());
        }
    }

    /// Does something with a device while there is power.
    fn at<T>(&self, ino: u64, act: impl FnOnce(&mut Device) -> std::io::Result<T>) -> Result<T, fuser::Errno> {
        let on = self.on.read().unwrap_or_else(PoisonError::into_inner);
        let device = self.devices.get((ino as usize).wrapping_sub(2)).filter(|_| *on).ok_or(fuser::Errno::EIO)?;
        act(&mut device.1.lock().unwrap_or_else(PoisonError::into_inner)).map_err(|_| fuser::Errno::EIO)
    }

    fn flush_time(&self) -> Duration {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let long = random.below(8) == 0;
        Duration::from_millis(if long { LONG_FLUSH_MS } else { random.below(FLUSH_MS_MAX) })
    }

    fn flush(&self, ino: u64) -> Result<(), fuser::Errno> {
        self.count();
        let up_to = self.at(ino, |device| Ok(device.writes))?;
        std::thread::sleep(self.flush_time());
        self.at(ino, |device| if device.lies { Ok(()) } else { device.flush(up_to) })
    }

    /// Writes the images as they are when the power returns. Returns the number of unflushed blocks.
    pub fn settle(&self, fate: Fate) -> usize {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let mut unflushed = 0;
        for (_, device) in &self.devices {
            let mut device = device.lock().unwrap_or_else(PoisonError::into_inner);
            for (n, versions) in std::mem::take(&mut device.unflushed) {
                unflushed += 1;
                let chosen = match fate {
                    Fate::Dropped => 0,
                    Fate::Kept => versions.len(),
                    Fate::Mixed => random.below(versions.len() as u64 + 1) as usize,
                };
                if let Some((_, block)) = chosen.checked_sub(1).and_then(|k| versions.get(k)) {
                    device.image.write_all_at(&**block, n * BLOCK as u64).expect("image");
                }
            }
        }
        unflushed
    }
}

/// The devices as files: inode 1 is the directory, 2 the first device.
struct Server(Arc<Rack>);

impl Server {
    fn attr(&self, ino: u64) -> Option<FileAttr> {
        let size = match ino {
            1 => 0,
            _ => self.0.devices.get(ino as usize - 2)?.1.lock().unwrap_or_else(PoisonError::into_inner).bytes,
        };
        let (kind, perm) = if ino == 1 { (FileType::Directory, 0o700) } else { (FileType::RegularFile, 0o600) };
        let epoch = SystemTime::UNIX_EPOCH;
        Some(FileAttr {
            ino: INodeNo(ino),
            size,
            blocks: size / 512,
            atime: epoch,
            mtime: epoch,
            ctime: epoch,
            crtime: epoch,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: BLOCK as u32,
            flags: 0,
        })
    }
}

impl Filesystem for Server {
    fn lookup(&self, _request: &Request, _parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.0.devices.iter().position(|(device, _)| name == device.as_str());
        match found.and_then(|n| self.attr(n as u64 + 2)) {
            Some(attr) => reply.entry(&FOR_EVER, &attr, Generation(0)),
            None => reply.error(fuser::Errno::ENOENT),
        }
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        match self.attr(ino.0) {
            Some(attr) => reply.attr(&FOR_EVER, &attr),
            None => reply.error(fuser::Errno::ENOENT),
        }
    }

    fn open(&self, _request: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.0.at(ino.0, |device| device.read(offset, size as usize)) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.0.count();
        match self.0.at(ino.0, |device| device.write(offset, data)) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn fsync(&self, _request: &Request, ino: INodeNo, _handle: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        match self.0.flush(ino.0) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }
}
