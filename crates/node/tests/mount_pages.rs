//! The kernel's page cache beside writes, in three programs that once read or lost bytes, and synced writes.

#[path = "mount/held.rs"]
mod held;
#[path = "../../engine/tests/interposed/mod.rs"]
#[allow(dead_code)]
mod interposed;
#[allow(dead_code)]
#[path = "mount/volume.rs"]
mod volume;

use engine::stats::Metric;
use engine::volume::{Io, Passthrough};
use interposed::{Interposed, Interposer, Io as Answer, Op, Verdict};
use rustix::fs::OFlags;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

const DSYNC: i32 = 0o10000;
const PAGE: usize = 4096;

fn in_each_mode(act: impl Fn(Io, &Path)) {
    if volume::cannot_mount() {
        return;
    }
    for io in [Io::Auto, Io::Cached, Io::Direct] {
        let dir = tempfile::tempdir().unwrap();
        let mut wanted = volume::Wanted::default();
        wanted.options.io = io;
        let volume = volume::Volume::start(dir.path(), wanted);
        act(io, &volume.at.join("f"));
    }
}

fn open(path: &Path, access: OFlags, more: i32) -> File {
    let mut options = OpenOptions::new();
    options.read(access != OFlags::WRONLY).write(access != OFlags::RDONLY).custom_flags(more).open(path).unwrap()
}

/// One process opens, reads a little and closes, over and over, while another writes and reads back.
/// [S-140]
#[test]
fn a_neighbour_that_opens_and_closes_brings_no_old_bytes_back() {
    const AT: u64 = 5_506_000;
    in_each_mode(|io, path| {
        fs::write(path, vec![0; 6_000_000]).unwrap();
        let done = AtomicBool::new(false);
        let neighbour = || {
            while !done.load(Ordering::Relaxed) {
                File::open(path).unwrap().read_exact_at(&mut [0; 100], AT - 900).unwrap();
            }
        };
        let stale = thread::scope(|scope| {
            scope.spawn(neighbour);
            let (reader, writer) = (File::open(path).unwrap(), open(path, OFlags::WRONLY, libc_sync()));
            let mut stale = 0;
            for number in 1..200u64 {
                let mut got = [0; 8];
                writer.write_all_at(&number.to_be_bytes(), AT).unwrap();
                reader.read_exact_at(&mut got, AT).unwrap();
                stale += usize::from(got != number.to_be_bytes());
            }
            done.store(true, Ordering::Relaxed);
            stale
        });
        assert_eq!(stale, 0, "{io:?}");
    });
}

fn libc_sync() -> i32 {
    OFlags::SYNC.bits() as i32
}

/// Two writers at blocks of their own, side by side in the same pages, with opens and closes in between.
/// [S-140]
#[test]
fn two_writers_that_open_and_close_read_what_they_wrote() {
    const BLOCK: u64 = 1024;
    const BLOCKS: u64 = 500;
    in_each_mode(|io, path| {
        let wrong = AtomicUsize::new(0);
        for round in 0..8u64 {
            let _ = fs::remove_file(path);
            File::create(path).unwrap().write_all_at(&[0], BLOCK * BLOCKS - 1).unwrap();
            let writer = |which: u64| {
                let flags = [(OFlags::WRONLY, libc_sync()), (OFlags::RDWR, 0), (OFlags::WRONLY, 0)];
                let mut last = vec![0u8; BLOCKS as usize];
                let (mut held, mut reader) = (None, None);
                for step in 0..60u64 {
                    let mixed = (round * 131 + step * 29 + which * 7).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
                    let block =
                        if mixed.is_multiple_of(3) { BLOCKS - 1 - mixed % 8 } else { mixed % BLOCKS } & !1 | which;
                    let (access, more) = flags[(mixed >> 8) as usize % flags.len()];
                    let file = held.take().unwrap_or_else(|| open(path, access, more));
                    let (fill, at) = (step as u8 + 1, block * BLOCK + mixed % 700);
                    file.write_all_at(&[fill; 200], at).unwrap();
                    last[block as usize] = fill;
                    let read = reader.take().unwrap_or_else(|| File::open(path).unwrap());
                    let mut got = [0; 200];
                    read.read_exact_at(&mut got, at).unwrap();
                    wrong.fetch_add(usize::from(got != [fill; 200]), Ordering::Relaxed);
                    held = Some(file).filter(|_| mixed & 64 == 0);
                    reader = Some(read).filter(|_| mixed & 128 == 0);
                }
            };
            thread::scope(|scope| {
                scope.spawn(|| writer(0));
                scope.spawn(|| writer(1));
            });
        }
        assert_eq!(wrong.into_inner(), 0, "{io:?}");
    });
}

/// One thread writes, others store through a shared mapping, each at its own bytes of every page. The file is opened
/// while it is empty.
/// [S-140]
#[test]
fn a_write_beside_a_shared_mapping_of_the_same_page_stays() {
    const PAGES: usize = 73;
    in_each_mode(|io, path| {
        let mut lost = Vec::new();
        for round in 1..=12u8 {
            let _ = fs::remove_file(path);
            let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap();
            let len = PAGES * PAGE;
            file.set_len(len as u64).unwrap();
            // SAFETY: used within its length until it is unmapped below; each thread stores at bytes of its own.
            let map = unsafe {
                let access = ProtFlags::READ | ProtFlags::WRITE;
                rustix::mm::mmap(std::ptr::null_mut(), len, access, MapFlags::SHARED, &file, 0).unwrap()
            };
            let at = map as usize;
            thread::scope(|scope| {
                scope.spawn(|| {
                    (0..PAGES).for_each(|page| file.write_all_at(&[round; 8], (page * PAGE) as u64).unwrap())
                });
                // SAFETY: as above.
                scope.spawn(move || {
                    (0..PAGES).for_each(|page| unsafe { (at as *mut u8).add(page * PAGE + 64).write_volatile(round) });
                });
            });
            // SAFETY: the mapping is not used any more.
            unsafe {
                rustix::mm::msync(map, len, MsyncFlags::SYNC).unwrap();
                rustix::mm::munmap(map, len).unwrap();
            }
            file.sync_all().unwrap();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
            let bytes = fs::read(path).unwrap();
            let there = |page: &usize| bytes[page * PAGE..][..8] == [round; 8] && bytes[page * PAGE + 64] == round;
            lost.extend((0..PAGES).filter(|page| !there(page)).map(|page| (round, page)));
        }
        assert!(lost.is_empty(), "{io:?}: {lost:?}");
    });
}

/// The kernel reads and writes a file of one object by itself; an open to append must join these and comes to us. Pages
/// that it would bring in do not see what the others write, so it gets none. [S-140]
/// [S-196]
#[test]
fn beside_opens_that_the_kernel_serves_nobody_gets_pages_that_they_do_not_change() {
    if volume::cannot_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut wanted = volume::Wanted { targets: 1, ..volume::Wanted::default() };
    wanted.placement.stripe_count = 1;
    let volume = volume::Volume::start(dir.path(), wanted);
    let path = volume.at.join("f");
    fs::write(&path, vec![0; 40 * PAGE]).unwrap();
    let (writer, both) = loop {
        let writer = open(&path, OFlags::RDWR, 0);
        if volume.stats.get(Metric::PassthroughOpens) > 0 {
            break (writer, open(&path, OFlags::RDWR, OFlags::APPEND.bits() as i32));
        }
    };
    let (out, into) = rustix::pipe::pipe().unwrap();
    let spliced = |file: &File| {
        let (mut offset, mut bytes) = (PAGE as u64, [0; 8]);
        rustix::pipe::splice(file, Some(&mut offset), &into, None, 8, rustix::pipe::SpliceFlags::empty())?;
        rustix::io::read(&out, &mut bytes).map(|_| u64::from_be_bytes(bytes))
    };
    for number in 1..50u64 {
        writer.write_all_at(&number.to_be_bytes(), PAGE as u64).unwrap();
        assert_eq!(spliced(&writer), Ok(number));
        let refused = spliced(&both).unwrap_err();
        assert!([rustix::io::Errno::INVAL, rustix::io::Errno::IO].contains(&refused), "{refused}");
        let mut got = [0; 8];
        both.read_exact_at(&mut got, PAGE as u64).unwrap();
        assert_eq!(u64::from_be_bytes(got), number);
    }
    let (mut from, mut copy) = (&both, Vec::new());
    std::io::Seek::rewind(&mut from).unwrap();
    std::io::copy(&mut from, &mut copy).unwrap();
    assert_eq!(copy.len(), 40 * PAGE, "a copy takes another way");
    drop((writer, both));
    assert_eq!(spliced(&open(&path, OFlags::RDONLY, 0)), Ok(49));
}

/// Whether something was written to a target and not synced since.
static UNSYNCED: AtomicBool = AtomicBool::new(false);

struct Watching;

impl Interposer for Watching {
    fn before(&self, op: Op) -> Answer<Verdict> {
        match op {
            Op::Write => UNSYNCED.store(true, Ordering::SeqCst),
            Op::Sync => UNSYNCED.store(false, Ordering::SeqCst),
            _ => {}
        }
        Ok(Verdict::Happens)
    }
}

/// [S-141]
#[test]
fn a_synced_write_is_synced_before_it_is_acknowledged() {
    if volume::cannot_mount() {
        return;
    }
    for io in [Io::Auto, Io::Cached, Io::Direct] {
        let dir = tempfile::tempdir().unwrap();
        let mut wanted = volume::Wanted::default();
        (wanted.options.io, wanted.options.passthrough) = (io, Passthrough::Off);
        wanted.wrap = |_, medium| Arc::new(Interposed::new(medium, Arc::new(Watching)));
        let volume = volume::Volume::start(dir.path(), wanted);
        let path = volume.at.join("f");
        fs::write(&path, vec![1; 600_000]).unwrap();
        let area = vec![2u8; 3 * PAGE];
        let skip = area.as_ptr().align_offset(PAGE);
        let page = &area[skip..skip + PAGE];
        let direct = OFlags::DIRECT.bits() as i32;
        for (flags, synced) in [
            (0, false),
            (direct, false),
            (DSYNC, true),
            (libc_sync(), true),
            (direct | DSYNC, true),
            (direct | libc_sync(), true),
        ] {
            for access in [OFlags::WRONLY, OFlags::RDWR] {
                let file = open(&path, access, flags);
                UNSYNCED.store(false, Ordering::SeqCst);
                file.write_all_at(page, 300 * 1024).unwrap();
                assert_eq!(UNSYNCED.load(Ordering::SeqCst), !synced, "{io:?}, {access:?}, flags {flags:o}");
            }
            // Asked for with the write alone.
            let (file, how) = (open(&path, OFlags::WRONLY, flags), rustix::io::ReadWriteFlags::DSYNC);
            let how = how & rustix::io::ReadWriteFlags::from_bits_retain(2);
            rustix::io::pwritev2(&file, &[std::io::IoSlice::new(page)], 300 * 1024, how).unwrap();
            assert!(!UNSYNCED.load(Ordering::SeqCst), "{io:?}, RWF_DSYNC, flags {flags:o}");
        }
    }
}

/// The daemon also removes and makes files past the mount. A new file under a number that the kernel knows is not
/// taken for the old one.
/// [S-140]
#[test]
fn an_inode_number_that_is_used_again_shows_no_old_pages() {
    if volume::cannot_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut wanted = volume::Wanted::default();
    (wanted.options.entry_timeout, wanted.options.attr_timeout) = Default::default();
    let volume = volume::Volume::start(dir.path(), wanted);
    let (shown, stub) = (volume.at.join("f"), dir.path().join("namespace/tree/f"));
    let mut again = 0;
    for round in 0..8u8 {
        fs::write(&shown, [round; 5000]).unwrap();
        assert!(fs::read(&shown).unwrap() == [round; 5000]);
        let number = fs::metadata(&stub).unwrap().ino();
        // As purging and staging do, with a size and times that tell nothing.
        let times = fs::metadata(&stub).unwrap().modified().unwrap();
        fs::remove_file(&stub).unwrap();
        fs::write(&stub, [round + 100; 5000]).unwrap();
        File::options().write(true).open(&stub).unwrap().set_modified(times).unwrap();
        again += usize::from(fs::metadata(&stub).unwrap().ino() == number);
        assert!(fs::read(&shown).unwrap() == [round + 100; 5000], "round {round}");
        fs::remove_file(&shown).unwrap();
    }
    eprintln!("a number was used again {again} times of 8");
}

/// [S-351]
#[test]
fn a_copy_of_a_file_with_stores_through_a_mapping_has_them() {
    in_each_mode(|io, path| [12_000, 200_000, 1_000_000].iter().for_each(|len| copied_with_stores(io, path, *len)));
}

fn copied_with_stores(io: Io, path: &Path, len: usize) {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path).unwrap();
    file.set_len(len as u64).unwrap();
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the mapping is used within its length, and the file keeps its size.
    unsafe {
        let at = rustix::mm::mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, &file, 0).unwrap();
        *at.cast::<u8>().add(len / 2) = 7;
        let reader = File::open(path).unwrap();
        let data = rustix::fs::seek(&reader, rustix::fs::SeekFrom::Data(0));
        let copy = tempfile::NamedTempFile::new().unwrap();
        let copied = std::process::Command::new("cp").arg("--sparse=auto").arg(path).arg(copy.path()).status().unwrap();
        // This process serves the mount too, so nothing may be left to be sent within the removal of the mapping.
        rustix::mm::msync(at, len, MsyncFlags::SYNC).unwrap();
        rustix::mm::munmap(at, len).unwrap();
        assert!(data.is_ok_and(|data| data <= len as u64 / 2), "{io:?} {len}: {data:?}");
        assert!(copied.success() && fs::read(copy.path()).unwrap()[len / 2] == 7, "{io:?} {len}: zeros were copied");
    }
    drop(file);
    let closed = File::open(path).unwrap();
    assert!(rustix::fs::seek(&closed, rustix::fs::SeekFrom::Data(0)).unwrap() <= len as u64 / 2);
}
