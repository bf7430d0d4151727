//! Requests to a mount as they are counted: by the user of the process, also where the kernel names none.

#[allow(dead_code)]
#[path = "mount/volume.rs"]
mod volume;

use engine::stats::UserCounts;
use engine::volume::{Io, Passthrough};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
use rustix::process::{Gid, Uid};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};
use volume::{Volume, Wanted};

const WRITER: u32 = 2001;
const READER: u32 = 2002;
const PAGE: usize = 4096;

/// Runs `act` as an ordinary user: on a thread of its own, which the kernel then takes for the user's.
fn as_user<T: Send>(uid: u32, act: impl FnOnce() -> T + Send) -> T {
    let run = || {
        rustix::thread::set_thread_groups(&[]).unwrap();
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(uid));
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        act()
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}

/// A volume that is read past the page cache, and of which the kernel reads nothing by itself: each read is a request.
fn start(dir: &Path) -> Volume {
    let mut wanted = Wanted::default();
    wanted.options.io = Io::Direct;
    wanted.options.passthrough = Passthrough::Off;
    wanted.options.allow_other = Some(true);
    let volume = Volume::start(dir, wanted);
    fs::set_permissions(&volume.at, fs::Permissions::from_mode(0o1777)).unwrap();
    volume
}

fn cannot_run() -> bool {
    if volume::cannot_mount() || !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs /dev/fuse, and root to act as other users");
        return true;
    }
    false
}

/// The kernel sends a close later than the process closes, and a file's counters end when its request has ended, too.
fn wait_until_closed(volume: &Volume) {
    let until = Instant::now() + Duration::from_secs(60);
    while !volume.files.files().is_empty() {
        assert!(Instant::now() < until, "closed files stay open");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn of(volume: &Volume, uid: u32) -> UserCounts {
    let counts = volume.stats.users().counts();
    counts.into_iter().find(|user| user.uid == Some(uid)).unwrap_or_default()
}

/// [S-281]
#[test]
fn bytes_and_operations_are_counted_for_whose_process_asks() {
    if cannot_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let volume = start(dir.path());
    let path = volume.at.join("f");
    // Beyond what the stub takes, so that bytes of objects count as well.
    let (small, large) = (vec![1; 1000], vec![2; 300_000]);
    as_user(WRITER, || {
        fs::write(&path, &small).unwrap();
        OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&large, 1000).unwrap();
    });
    // As long as it is open for writing, it is read from the page cache.
    wait_until_closed(&volume);
    as_user(READER, || {
        let file = fs::File::open(&path).unwrap();
        file.read_exact_at(&mut [0; 700], 200_000).unwrap();
        file.write_all_at(b"x", 0).unwrap_err();
        fs::File::open(volume.at.join("g")).unwrap_err();
    });
    wait_until_closed(&volume);
    let open = fs::File::open(&path).unwrap();
    let used = volume.files.files().into_iter().find(|file| file.is_open()).map(|file| file.usage().now()).unwrap();
    assert_eq!((used.reads, used.writes), (0, 0), "its numbers went with the last who had it open");
    as_user(READER, || fs::File::open(&path).unwrap().read_exact_at(&mut [0; 300], 0).unwrap());
    open.read_exact_at(&mut [0; 11], 299_000).unwrap();
    let used = volume.files.files().into_iter().find(|file| file.is_open()).map(|file| file.usage().now()).unwrap();
    assert_eq!((used.reads, used.read_bytes, used.writes), (2, 311, 0));
    assert!(used.total_ns > 0);
    let (writer, reader) = (of(&volume, WRITER), of(&volume, READER));
    assert_eq!((writer.read_bytes, writer.written_bytes), (0, 301_000));
    assert_eq!((reader.read_bytes, reader.written_bytes), (1000, 0));
    assert!(writer.ops >= 4 && writer.total_ns > 0, "create, write, open, write: {writer:?}");
    assert!(reader.ops >= 3 && reader.total_ns > 0, "open, read, look-up: {reader:?}");
    assert_eq!((of(&volume, 0).read_bytes, of(&volume, 0).written_bytes), (11, 0));
}

/// [S-281]
#[test]
fn pages_that_the_kernel_writes_back_count_for_who_opened_the_file() {
    if cannot_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let volume = start(dir.path());
    let path = volume.at.join("f");
    as_user(WRITER, || {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        file.set_len(4 * PAGE as u64).unwrap();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, unmapped below.
        unsafe {
            let map = rustix::mm::mmap(std::ptr::null_mut(), 4 * PAGE, access, MapFlags::SHARED, &file, 0).unwrap();
            (0..4).for_each(|page| map.cast::<u8>().add(page * PAGE).write_volatile(7));
            rustix::mm::msync(map, 4 * PAGE, MsyncFlags::SYNC).unwrap();
            rustix::mm::munmap(map, 4 * PAGE).unwrap();
        }
    });
    assert_eq!(fs::read(&path).unwrap()[PAGE], 7);
    assert_eq!((of(&volume, WRITER).written_bytes, of(&volume, 0).written_bytes), (4 * PAGE as u64, 0));
}
