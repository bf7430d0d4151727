//! An emulated disk as the kernel sees it. Skipped, with the reason, where users cannot mount.

use emulate::{EmulatedDisk, Options, StartError, measure};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use sim::setup::Setup;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::time::Instant;

/// Pages of a file that is mapped.
const PAGES: u64 = 73;

/// An emulated disk in a temporary directory, taken away at the end.
struct Mounted {
    disk: EmulatedDisk,
    backing: PathBuf,
    _dir: tempfile::TempDir,
}

fn options(disk: &str) -> Options {
    Options {
        setup: Setup { disk: disk.into(), ..Setup::default() },
        capacity_bytes: None,
        queue_depth: 128,
        speedup: 1.0,
        page_cache: false,
        sync: true,
        extent_bytes: 8 << 20,
    }
}

fn mounted(options: Options, prepare: impl FnOnce(&std::path::Path)) -> Option<Mounted> {
    if let Err(error) = File::options().read(true).write(true).open("/dev/fuse") {
        eprintln!("skipped: /dev/fuse: {error}");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let (backing, at) = (dir.path().join("backing"), dir.path().join("mnt"));
    [&backing, &at].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    prepare(&backing);
    match EmulatedDisk::start(&backing, &at, options) {
        Ok(disk) => Some(Mounted { disk, backing, _dir: dir }),
        Err(StartError::Refused { error, .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

impl Mounted {
    fn path(&self, name: &str) -> PathBuf {
        self.disk.path().join(name)
    }

    fn end(&self) -> emulate::figures::Figures {
        self.disk.unmount().unwrap();
        self.disk.wait().unwrap()
    }
}

#[test]
fn it_is_a_file_system_of_the_backing_directory() {
    let Some(mounted) =
        mounted(options("plain:capacity=64MiB"), |backing| fs::write(backing.join("old"), "was here").unwrap())
    else {
        return;
    };
    let path = |name| mounted.path(name);
    assert_eq!(fs::read(path("old")).unwrap(), b"was here");
    fs::create_dir(path("d")).unwrap();
    fs::write(path("d/a"), vec![7; 100_000]).unwrap();
    fs::rename(path("d/a"), path("d/b")).unwrap();
    fs::hard_link(path("d/b"), path("c")).unwrap();
    symlink("d/b", path("s")).unwrap();
    assert_eq!(fs::read(path("s")).unwrap(), vec![7; 100_000]);
    assert_eq!(fs::metadata(path("c")).unwrap().nlink(), 2);
    fs::set_permissions(path("c"), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(fs::metadata(mounted.backing.join("d/b")).unwrap().mode() & 0o777, 0o640);
    rustix::fs::setxattr(path("c"), "user.mine", b"value", rustix::fs::XattrFlags::empty()).unwrap();
    let mut value = [0; 16];
    assert_eq!(rustix::fs::getxattr(path("d/b"), "user.mine", &mut value[..]).unwrap(), 5);
    let mut names: Vec<_> = fs::read_dir(mounted.disk.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["c", "d", "old", "s"], "`.stats` is there for who asks for it by name");

    // A hole, found; what is punched is free again.
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path("sparse")).unwrap();
    file.write_all_at(b"end", 10 << 20).unwrap();
    file.sync_all().unwrap();
    assert_eq!(rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0)).unwrap(), 10 << 20);
    let free = || rustix::fs::statvfs(mounted.disk.path()).unwrap().f_bfree * 4096;
    let before = free();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, 4 << 20).unwrap();
    assert_eq!(free(), before - (4 << 20));
    let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, punch, 0, 4 << 20).unwrap();
    assert_eq!(free(), before);

    // O_DIRECT, O_APPEND, a file without a name.
    let mut direct =
        File::options().read(true).custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32).open(path("c")).unwrap();
    let mut all = Vec::new();
    direct.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 100_000);
    let mut append = File::options().append(true).open(path("old")).unwrap();
    append.write_all(b", and more").unwrap();
    assert_eq!(fs::read(path("old")).unwrap(), b"was here, and more");
    let mut gone = File::options().read(true).write(true).create_new(true).open(path("gone")).unwrap();
    gone.write_all(&[1; 1 << 20]).unwrap();
    fs::remove_file(path("gone")).unwrap();
    gone.seek(SeekFrom::Start(0)).unwrap();
    let mut byte = [0];
    gone.read_exact(&mut byte).unwrap();
    assert_eq!((byte, gone.metadata().unwrap().nlink()), ([1], 0));
    drop((gone, file, direct, append));

    // The device is smaller than the backing file system.
    let full = fs::write(path("large"), vec![1; 80 << 20]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    fs::remove_file(path("large")).unwrap();

    assert!(mounted.disk.unmount().is_ok_and(|()| !path("old").exists()));
    let figures = mounted.disk.wait().unwrap();
    assert!(figures.writes > 3 && figures.reads > 3, "{figures:?}");
    assert_eq!(figures.free_bytes % 4096, 0);
    assert_eq!(fs::read(mounted.backing.join("d/b")).unwrap().len(), 100_000);
}

#[test]
fn requests_take_the_devices_time_and_holes_take_none() {
    let Some(mounted) = mounted(options("plain:latency=20ms"), |_| ()) else { return };
    let file = File::options().read(true).write(true).create_new(true).open(mounted.path("f")).unwrap();
    let timed = |act: &dyn Fn()| {
        let begun = Instant::now();
        act();
        begun.elapsed().as_millis()
    };
    assert!(timed(&|| file.write_all_at(&[1; 4096], 1 << 20).unwrap()) >= 20);
    for _ in 0..2 {
        assert!(timed(&|| file.read_exact_at(&mut [0; 4096], 1 << 20).unwrap()) >= 20, "no cache hides the device");
    }
    file.read_exact_at(&mut [0; 4096], 0).unwrap();
    drop(file);
    let stats: serde_json::Value = serde_json::from_slice(&fs::read(mounted.path(".stats")).unwrap()).unwrap();
    assert_eq!((stats["reads"].as_u64(), stats["writes"].as_u64()), (Some(2), Some(1)), "{stats}");
    let figures = mounted.end();
    assert_eq!((figures.reads, figures.writes, figures.service_ms), (2, 1, 20.0));
    assert_eq!(figures.busy_s, 0.06);
}

#[test]
fn live_requests_are_answered_when_the_simulators_disk_would_be_done() {
    let Some(mounted) = mounted(options("cheetah9lp"), |_| ()) else { return };
    let phases = measure::against_simulator(&mounted.disk, 40, 1).unwrap();
    assert_eq!(phases.len(), 4);
    for phase in &phases {
        assert!(phase.requests == 40 && phase.simulated_ms > 0.0, "{phase:?}");
        assert_eq!(phase.apart, 0, "every request is done when the simulator's disk is: {phase:?}");
        // Never early, not one of them. How late is the machine's affair, but for the most prompt answer.
        assert!((0.0..3.0).contains(&phase.late_least_ms) && phase.error >= 0.0, "{phase:?}");
    }
    assert!(phases[3].simulated_ms > 2.0 * phases[0].simulated_ms, "four at a time wait for each other: {phases:?}");
    assert!(fs::read_dir(mounted.disk.path()).unwrap().next().is_none(), "the file to measure on is gone");
    mounted.end();
}

#[test]
fn wrong_words_mount_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (backing, at) = (dir.path().join("backing"), dir.path().join("mnt"));
    [&backing, &at].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    fs::write(backing.join("large"), vec![1; 100_000]).unwrap();
    let start = |at: &std::path::Path, options| EmulatedDisk::start(&backing, at, options).err().unwrap().to_string();
    assert!(start(&at, options("floppy")).contains("cheetah9lp"));
    assert!(start(&at, Options { speedup: 0.0, ..options("cheetah9lp") }).contains("speedup"));
    assert!(start(&at, Options { capacity_bytes: Some(1 << 50), ..options("cheetah9lp") }).contains("capacity"));
    assert!(start(&at, Options { capacity_bytes: Some(8192), ..options("cheetah9lp") }).contains("need 102400 bytes"));
    assert!(start(&backing, options("cheetah9lp")).contains("lie in each other"));
    assert!(start(&dir.path().join("missing"), options("cheetah9lp")).contains("missing"));
}

/// Every write goes past the page cache, and would be written over by the pages of a shared mapping; so there is none.
#[test]
fn a_file_past_the_page_cache_has_no_shared_mappings() {
    let plain = || options("plain:capacity=64MiB");
    for page_cache in [false, true] {
        let Some(mounted) = mounted(Options { page_cache, speedup: 1e6, ..plain() }, |_| {}) else { return };
        let file = File::options().read(true).write(true).create_new(true).open(mounted.path("f")).unwrap();
        file.set_len(PAGES * 4096).unwrap();
        let map = |how| {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: used within its length until it is unmapped below, if at all.
            unsafe { mmap(std::ptr::null_mut(), PAGES as usize * 4096, access, how, &file, 0) }
        };
        map(MapFlags::PRIVATE).expect("programs are run so");
        if !page_cache {
            assert_eq!(map(MapFlags::SHARED).unwrap_err(), rustix::io::Errno::NODEV);
            continue;
        }
        let at = map(MapFlags::SHARED).unwrap() as usize;
        std::thread::scope(|scope| {
            scope.spawn(|| (0..PAGES).for_each(|page| file.write_all_at(&[1; 8], page * 4096).unwrap()));
            // SAFETY: as above; each thread stores at bytes of its own.
            scope.spawn(|| {
                (0..PAGES).for_each(|page| unsafe { (at as *mut u8).add(page as usize * 4096 + 64).write(2) })
            });
        });
        // Before it is unmapped: the kernel writes back what a mapping left while no thread of its process, and so none
        // that serves the disk, gets memory.
        file.sync_all().unwrap();
        // SAFETY: as above; the mapping is used no more.
        unsafe { munmap(at as *mut _, PAGES as usize * 4096).unwrap() };
        let bytes = fs::read(mounted.path("f")).unwrap();
        assert!(bytes.chunks(4096).all(|page| page[..8] == [1; 8] && page[64] == 2));
    }
}
