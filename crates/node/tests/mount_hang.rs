//! A target that stops answering: other targets are read and written, names are served, operations on it get an error.

#[allow(dead_code)]
#[path = "mount/volume.rs"]
mod volume;

use engine::stats::Op;
use object::target::{Handle, Medium, Space, State};
use parking_lot::{Condvar, Mutex};
use policy::{ObjectId, TargetId};
use rustix::fd::BorrowedFd;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Closed, everything that comes to target 0 waits.
static GATE: (Mutex<bool>, Condvar) = (Mutex::new(true), Condvar::new());

fn pass() {
    let mut open = GATE.0.lock();
    while !*open {
        GATE.1.wait(&mut open);
    }
}

fn set_gate(open: bool) {
    *GATE.0.lock() = open;
    GATE.1.notify_all();
}

/// Opens the gate whatever the test does, so that no thread waits behind it for ever.
struct OpenAtEnd;

impl Drop for OpenAtEnd {
    fn drop(&mut self) {
        set_gate(true);
    }
}

struct Gated<T: ?Sized>(Arc<T>);

impl Medium for Gated<dyn Medium> {
    fn create(&self, id: ObjectId) -> Result<Arc<dyn Handle>, Errno> {
        pass();
        Ok(Arc::new(Gated(self.0.create(id)?)))
    }
    fn open(&self, id: ObjectId) -> Result<Arc<dyn Handle>, Errno> {
        pass();
        Ok(Arc::new(Gated(self.0.open(id)?)))
    }
    fn remove(&self, id: ObjectId) -> Result<(), Errno> {
        pass();
        self.0.remove(id)
    }
    fn sync_names(&self) -> Result<(), Errno> {
        pass();
        self.0.sync_names()
    }
    fn list(&self) -> Result<Vec<ObjectId>, Errno> {
        pass();
        self.0.list()
    }
    fn probe(&self) -> Result<(), Errno> {
        pass();
        self.0.probe()
    }
    fn space(&self) -> Result<Space, Errno> {
        pass();
        self.0.space()
    }
}

impl Handle for Gated<dyn Handle> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Errno> {
        pass();
        self.0.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        pass();
        self.0.write_at(offset, data)
    }
    fn set_len(&self, len: u64) -> Result<(), Errno> {
        pass();
        self.0.set_len(len)
    }
    fn punch(&self, offset: u64, len: u64) -> Result<(), Errno> {
        pass();
        self.0.punch(offset, len)
    }
    fn allocate(&self, offset: u64, len: u64) -> Result<(), Errno> {
        pass();
        self.0.allocate(offset, len)
    }
    fn reserve(&self, offset: u64, len: u64) -> Result<(), Errno> {
        pass();
        self.0.reserve(offset, len)
    }
    fn seek_data(&self, offset: u64) -> Result<u64, Errno> {
        pass();
        self.0.seek_data(offset)
    }
    fn seek_hole(&self, offset: u64) -> Result<u64, Errno> {
        pass();
        self.0.seek_hole(offset)
    }
    fn len(&self) -> Result<u64, Errno> {
        pass();
        self.0.len()
    }
    fn allocated(&self) -> Result<u64, Errno> {
        pass();
        self.0.allocated()
    }
    fn sync(&self) -> Result<(), Errno> {
        pass();
        self.0.sync()
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// [S-030]
#[test]
fn a_hung_target_does_not_hang_the_mount() {
    if volume::cannot_mount() {
        return;
    }
    let _open = OpenAtEnd;
    let dir = tempfile::tempdir().unwrap();
    let deadline = Duration::from_millis(200);
    let mut wanted = volume::Wanted { targets: 2, deadline, ..Default::default() };
    wanted.wrap = |number, medium| if number == 0 { Arc::new(Gated(medium)) } else { medium };
    wanted.options.io = engine::volume::Io::Direct; // what the kernel remembers asks no target
    wanted.placement.single_bytes_max = 0;
    wanted.placement.stripe_count = 2;
    let volume = volume::Volume::start(dir.path(), wanted);
    let bytes = vec![7u8; 512 << 10];
    fs::write(volume.at.join("both"), &bytes).unwrap();
    fs::write(volume.at.join("small"), b"small").unwrap();
    // The kernel releases it after `close`; beside a writer it would be read from pages.
    while volume.files.files().into_iter().any(|file| file.layout().is_some() && file.is_open()) {
        thread::yield_now();
    }
    let file = File::open(volume.at.join("both")).unwrap();
    let layout = volume.files.files().into_iter().find_map(|file| file.layout()).unwrap();
    let hung = layout.mirrors[0].segments[0].objects.iter().position(|o| o.target == TargetId(0)).unwrap() as u64;
    let stripe = layout.mirrors[0].segments[0].stripe_size;
    // Read once, so that the object is open and the next read runs on the thread that the kernel asked.
    file.read_at(&mut [0; 4096], hung * stripe).unwrap();
    set_gate(false);
    // More readers of the hung target than there are FUSE threads.
    thread::scope(|scope| {
        let (file, volume) = (&file, &volume);
        let readers: Vec<_> = (0..12)
            .map(|_| scope.spawn(move || file.read_at(&mut [0; 4096], hung * stripe).map_err(|e| e.raw_os_error())))
            .collect();
        let mut block = [0; 4096];
        assert_eq!(file.read_at(&mut block, (1 - hung) * stripe).unwrap(), 4096, "the other target is read");
        assert_eq!(fs::read(volume.at.join("small")).unwrap(), b"small");
        assert_eq!(fs::read_dir(&volume.at).unwrap().count(), 2, "names are served");
        fs::write(volume.at.join("new"), b"new").unwrap();
        rustix::fs::setxattr(volume.at.join("new"), "user.colour", b"blue", XattrFlags::empty()).unwrap();
        for reader in readers {
            assert_eq!(reader.join().unwrap(), Err(Some(Errno::IO.raw_os_error())), "a read that needs it fails");
        }
    });
    assert_ne!(volume.targets.get(TargetId(0)).unwrap().state(), State::Ok);
    // Waiting operations waited on other threads than those that took them, and are counted by their results.
    let read = volume.stats.snapshot().ops.swap_remove(Op::Read as usize);
    assert_eq!((read.failed, read.bytes), (12, 4096 + 4096 + 5), "{read:?}");
    assert!(read.total_ns >= deadline.as_nanos() as u64, "{read:?}");
    drop(file);
    volume.unmount().expect("unmounting needs no target");
}
