//! Bytes over a client library that answers late, refuses, or does not answer at all: a directory stands for the
//! server.

#[path = "../../node/tests/mount/steps.rs"]
mod steps;
#[allow(dead_code)]
mod world;

use connect::aligned::Aligned;
use connect::client::{Client, ClientFile, ReadDone, WriteDone};
use connect::set::BytesOver;
use connect::{Connected, Mounts, Options};
use parking_lot::Mutex;
use policy::connections::Policy;
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, Result, dup, pread, pwrite};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Injected faults of the server.
#[derive(Debug, Default)]
struct Faults {
    /// Fails every n-th operation, as a broken connection does; 0 for none.
    one_of: AtomicU64,
    operations: AtomicU64,
    /// Whether the server answers nothing, and no mount succeeds.
    away: AtomicBool,
    /// Writes wait for it, and so many do.
    gate: Mutex<()>,
    held: AtomicU64,
    /// Its clock stands still: a write leaves the time of the file as it was. Real ones have ticks of milliseconds or
    /// seconds.
    timeless: AtomicBool,
}

/// The server: connections to a directory.
struct Directory {
    path: PathBuf,
    faults: Arc<Faults>,
}

impl Mounts for Directory {
    fn mount(&self, _: u16) -> io::Result<OwnedFd> {
        if self.faults.away.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::HostUnreachable.into());
        }
        Ok(rustix::fs::open(&self.path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
    }
    fn take_out(&self, _: u16) {}
    fn client(&self, _: u16) -> io::Result<Arc<dyn Client>> {
        Ok(Arc::new(Library { shared: Arc::new(Shared { faults: self.faults.clone(), ..Shared::default() }) }))
    }
    fn source(&self, number: u16) -> String {
        format!("server, connection {number}")
    }
}

#[derive(Debug)]
struct Library {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    faults: Arc<Faults>,
    gone: AtomicBool,
    /// Requests that wait for an answer that never comes.
    hang: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.faults.fmt(f)
    }
}

impl Client for Library {
    fn open(&self, mounted: BorrowedFd<'_>, _: OFlags) -> Result<Arc<dyn ClientFile>> {
        Ok(Arc::new(Opened { fd: Arc::new(dup(mounted)?), shared: self.shared.clone() }))
    }
    fn probe(&self) -> Result<()> {
        if self.shared.faults.away.load(Ordering::Relaxed) { Err(Errno::NOTCONN) } else { Ok(()) }
    }
    fn take_out(&self) {
        self.shared.gone.store(true, Ordering::Release);
        let hang = std::mem::take(&mut *self.shared.hang.lock());
        hang.into_iter().for_each(|end| end());
    }
}

#[derive(Debug)]
struct Opened {
    fd: Arc<OwnedFd>,
    shared: Arc<Shared>,
}

impl Opened {
    /// Runs the operation on a separate thread, or never.
    fn begin<T: Send + 'static>(
        &self,
        act: impl FnOnce(&OwnedFd) -> Result<T> + Send + 'static,
        done: Box<dyn FnOnce(Result<T>) + Send>,
    ) {
        let faults = &self.shared.faults;
        let mut hang = self.shared.hang.lock();
        if self.shared.gone.load(Ordering::Acquire) {
            drop(hang);
            return done(Err(Errno::NOTCONN));
        }
        if faults.away.load(Ordering::Relaxed) {
            return hang.push(Box::new(move || done(Err(Errno::NOTCONN))));
        }
        drop(hang);
        let number = faults.operations.fetch_add(1, Ordering::Relaxed) + 1;
        let one_of = faults.one_of.load(Ordering::Relaxed);
        let broken = one_of > 0 && number.is_multiple_of(one_of);
        let fd = self.fd.clone();
        std::thread::spawn(move || done(if broken { Err(Errno::NOTCONN) } else { act(&fd) }));
    }
}

impl ClientFile for Opened {
    fn begin_read(&self, length: usize, offset: u64, done: ReadDone) {
        let read = move |fd: &OwnedFd| {
            let mut bytes = Aligned::room(length);
            let n = pread(fd, &mut bytes[..], offset)?;
            bytes.truncate(n);
            Ok(bytes)
        };
        self.begin(read, done);
    }
    fn begin_write(&self, data: &[u8], offset: u64, done: WriteDone) {
        let (data, faults) = (data.to_vec(), self.shared.faults.clone());
        let write = move |fd: &OwnedFd| {
            faults.held.fetch_add(1, Ordering::Relaxed);
            let through = faults.gate.lock();
            faults.held.fetch_sub(1, Ordering::Relaxed);
            drop(through);
            let file = File::from(fd.try_clone().map_err(|_| Errno::IO)?);
            let before = file.metadata().and_then(|of| of.modified()).map_err(|_| Errno::IO)?;
            let written = pwrite(fd, &data, offset)?;
            if faults.timeless.load(Ordering::Relaxed) {
                file.set_modified(before).map_err(|_| Errno::IO)?;
            }
            Ok(written)
        };
        self.begin(write, done);
    }
}

/// The mount point, the server's faults, and the directory.
struct Behind {
    connected: Connected,
    faults: Arc<Faults>,
    dir: tempfile::TempDir,
}

impl Behind {
    fn start(connections: u16, policy: Policy) -> Option<Behind> {
        Behind::start_with(world::options(connections, policy, "directory"))
    }

    fn start_with(mut options: Options) -> Option<Behind> {
        if !rustix::process::geteuid().is_root() || File::options().read(true).write(true).open("/dev/fuse").is_err() {
            eprintln!("skipped: root and /dev/fuse are needed");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let (path, at, faults) = (dir.path().join("server"), dir.path().join("mnt"), Arc::new(Faults::default()));
        [&path, &at].into_iter().for_each(|path| std::fs::create_dir(path).unwrap());
        options.set.bytes_over = BytesOver::Library;
        let mounts = Box::new(Directory { path, faults: faults.clone() });
        let connected = Connected::start_over(mounts, &at, options).unwrap();
        Some(Behind { connected, faults, dir })
    }

    fn open(&self, name: &str, flags: i32) -> File {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).custom_flags(flags);
        options.open(self.connected.path().join(name)).unwrap()
    }

    fn usable(&self) -> usize {
        self.connected.status().connections.iter().filter(|c| c.state == "in use").count()
    }

    fn until(&self, mut wanted: impl FnMut(&Behind) -> bool) {
        let until = Instant::now() + Duration::from_secs(60);
        while !wanted(self) {
            assert!(Instant::now() < until, "{:?}", self.connected.status());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        self.faults.away.store(false, Ordering::Relaxed);
        self.connected.unmount().or_else(|_| self.connected.detach()).unwrap();
        self.connected.wait().unwrap();
    }
}

#[test]
fn a_directory_is_the_same_while_operations_fail() {
    for (seed, policy) in [(61, Policy::Load), (62, Policy::Multiple)] {
        let Some(behind) = Behind::start(3, policy) else { return };
        assert_eq!(behind.connected.status().bytes_over, "library");
        behind.faults.one_of.store(7, Ordering::Relaxed);
        steps::same_as_local(seed, 200, behind.connected.path());
        assert!(behind.faults.operations.load(Ordering::Relaxed) > 50, "bytes go over the library");
        assert!(behind.connected.status().connections.iter().map(|c| c.failures).sum::<u64>() > 0);
    }
}

/// Readers and writers of blocks past the page cache, many at once, over a server that goes away for a while in the
/// middle.
#[test]
fn nothing_is_lost_by_a_server_that_goes_away_and_comes_back() {
    const BLOCK: usize = 64 << 10;
    let Some(behind) = Behind::start(2, Policy::Load) else { return };
    let block = |file: usize, number: usize| vec![(file * 50 + number) as u8 + 1; BLOCK];
    let each = |act: &(dyn Fn(usize, &File) + Sync)| {
        std::thread::scope(|scope| {
            for file in 0..3 {
                let behind = &behind;
                scope.spawn(move || act(file, &behind.open(&format!("file{file}"), libc::O_DIRECT)));
            }
            std::thread::sleep(Duration::from_millis(5));
            behind.faults.away.store(true, Ordering::Relaxed);
            behind.until(|behind| behind.usable() == 0);
            behind.faults.away.store(false, Ordering::Relaxed);
        });
        behind.until(|behind| behind.usable() == 2);
    };
    each(&|file, open| (0..40).for_each(|n| open.write_all_at(&block(file, n), (n * BLOCK) as u64).unwrap()));
    each(&|file, open| {
        let mut found = vec![0; BLOCK];
        for n in 0..40 {
            open.read_exact_at(&mut found, (n * BLOCK) as u64).unwrap();
            assert!(found == block(file, n), "block {n} of file {file}");
        }
    });
}

/// A started program closes the files that it does not inherit. It starts even if no server takes their bytes.
#[test]
fn a_program_that_is_started_does_not_wait_for_what_its_parent_wrote() {
    let Some(behind) = Behind::start(2, Policy::Load) else { return };
    let file = behind.open("file", 0);
    file.write_all_at(&[1; 4096], 0).unwrap();
    file.sync_all().unwrap();
    behind.faults.away.store(true, Ordering::Relaxed);
    behind.until(|behind| behind.usable() == 0);
    file.write_all_at(&[2; 4096], 0).unwrap();
    let began = Instant::now();
    let mut child = Command::new("true").spawn().unwrap();
    behind.until(|_| child.try_wait().unwrap().is_some());
    assert!(began.elapsed() < Duration::from_secs(30), "it waited until nobody had any more patience");
    assert_eq!(behind.usable(), 0, "no server came back");
    behind.faults.away.store(false, Ordering::Relaxed);
    file.sync_all().unwrap();
    let mut found = [0; 4096];
    file.read_exact_at(&mut found, 0).unwrap();
    assert_eq!(found, [2; 4096]);
}

/// A page changed by a write is dropped and read again while the write is still in transit: a read must not return old
/// bytes after the acknowledgement.
#[test]
fn nothing_brings_back_what_a_write_under_way_changes() {
    const PAGE: usize = 4096;
    let options = Options { write_behind_bytes: 0, ..world::options(2, Policy::Load, "directory") };
    let Some(behind) = Behind::start_with(options) else { return };
    behind.faults.timeless.store(true, Ordering::Relaxed);
    let at = behind.connected.path().join("f");
    let page = |file: &File| {
        let mut page = [0; PAGE];
        file.read_exact_at(&mut page, 0).unwrap();
        page[PAGE / 2]
    };
    let opens = || {
        page(&behind.open("f", 0));
    };
    let reads_attributes = || {
        let touched = std::time::SystemTime::now() - Duration::from_secs(1000);
        File::options().write(true).open(behind.dir.path().join("server/f")).unwrap().set_modified(touched).unwrap();
        behind.until(|_| at.metadata().unwrap().modified().unwrap() == touched);
    };
    let cases: [(&str, i32, &dyn Fn()); 3] = [
        ("an open", 0, &opens),
        ("attributes", 0, &reads_attributes),
        ("a write past the page cache", libc::O_DIRECT, &|| {}),
    ];
    for (what, flags, meanwhile) in cases {
        behind.open("f", 0).write_all_at(&[1; PAGE], 0).unwrap();
        let (reader, writer) = (behind.open("f", 0), behind.open("f", flags));
        assert_eq!(page(&reader), 1);
        let gate = behind.faults.gate.lock();
        std::thread::scope(|scope| {
            let written = scope.spawn(|| writer.write_all_at(&[2; PAGE], 0));
            behind.until(|behind| behind.faults.held.load(Ordering::Relaxed) == 1);
            meanwhile();
            page(&reader);
            drop(gate);
            written.join().unwrap().unwrap();
        });
        assert_eq!(page(&reader), 2, "{what}");
    }
}
