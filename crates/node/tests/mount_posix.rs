//! Guarantees that applications rely on, one by one, on a mounted volume.

#[path = "mount/posix_attributes.rs"]
mod attributes;
#[allow(dead_code)]
#[path = "mount/volume.rs"]
mod volume;

use object::target::Order;
use rustix::fs::{FlockOperation, XattrFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// A mounted volume, or nothing where that cannot be had.
fn mounted() -> Option<(volume::Volume, tempfile::TempDir)> {
    if volume::cannot_mount() {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    Some((volume::Volume::start(dir.path(), volume::Wanted::default()), dir))
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: needs root");
    }
    root
}

fn sh_as_nobody(directory: &Path, script: &str) -> bool {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", script]).current_dir(directory);
    command.status().expect("setpriv is there (util-linux)").success()
}

/// How many objects lie on all targets.
fn objects(volume: &volume::Volume) -> usize {
    volume.targets.all().iter().map(|t| t.run(|medium| medium.list()).unwrap().len()).sum()
}

/// Requests a layout for new files of a directory.
fn ask_for(directory: &Path, layout: &str) {
    rustix::fs::setxattr(directory, "user.entrepot.layout", layout.as_bytes(), XattrFlags::empty()).unwrap();
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n % 251) as u8).collect()
}

/// [S-013]
#[test]
fn private_and_shared_mappings_see_what_they_should() {
    let Some((volume, _dir)) = mounted() else { return };
    for len in [9_000, 600_000] {
        let path = volume.at.join(format!("mapped{len}"));
        fs::write(&path, pattern(len)).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: both mappings are used within their length, and the file keeps its size.
        unsafe {
            let map = |flags| rustix::mm::mmap(std::ptr::null_mut(), len, protection, flags, &file, 0).unwrap();
            let (private, shared) = (map(MapFlags::PRIVATE).cast::<u8>(), map(MapFlags::SHARED).cast::<u8>());
            *private.add(5) = 77;
            *shared.add(6) = 88;
            rustix::mm::msync(shared.cast(), len, rustix::mm::MsyncFlags::SYNC).unwrap();
            assert_eq!((*shared.add(5), *private.add(5)), (5, 77), "a private change stays private");
            file.write_all_at(&[99], 7).unwrap();
            rustix::mm::msync(shared.cast(), len, rustix::mm::MsyncFlags::SYNC).unwrap();
            assert_eq!(shared.add(7).read_volatile(), 99, "what is written is in the mapping");
            rustix::mm::munmap(private.cast(), len).unwrap();
            rustix::mm::munmap(shared.cast(), len).unwrap();
        }
        drop(file);
        let bytes = fs::read(&path).unwrap();
        let mut expected = pattern(len);
        (expected[6], expected[7]) = (88, 99);
        assert!(bytes == expected, "a shared change is in the file, {len} bytes");
    }
}

/// [S-012]
#[test]
fn appends_of_many_never_overwrite_each_other() {
    let Some((volume, _dir)) = mounted() else { return };
    let path = volume.at.join("log");
    File::create(&path).unwrap();
    thread::scope(|scope| {
        for writer in 0..4u8 {
            let path = &path;
            scope.spawn(move || {
                let mut file = OpenOptions::new().append(true).open(path).unwrap();
                for _ in 0..200 {
                    file.write_all(&[writer; 1000]).unwrap();
                }
            });
        }
    });
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 800_000);
    let mut counts = [0; 4];
    for record in bytes.chunks(1000) {
        assert!(record.iter().all(|b| *b == record[0]), "records are whole");
        counts[record[0] as usize] += 1;
    }
    assert_eq!(counts, [200; 4]);
}

#[test]
fn direct_io_reads_and_writes_aligned_blocks() {
    let Some((volume, _dir)) = mounted() else { return };
    let path = volume.at.join("direct");
    let direct = |options: &mut OpenOptions| options.custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32).open(&path);
    let file = direct(OpenOptions::new().read(true).write(true).create(true).truncate(true)).unwrap();
    let mut area = vec![0u8; 3 * 65536 + 4096];
    let skip = area.as_ptr().align_offset(4096);
    let block = &mut area[skip..skip + 3 * 65536];
    block.copy_from_slice(&pattern(3 * 65536));
    file.write_all_at(block, 131_072).unwrap();
    block.fill(0);
    file.read_exact_at(block, 131_072).unwrap();
    assert!(*block == pattern(3 * 65536)[..]);
    assert_eq!(fs::read(&path).unwrap()[131_072..], pattern(3 * 65536)[..], "others see it through the page cache");
}

/// [S-005]
#[test]
fn a_hundred_thousand_names_are_listed_once_each() {
    let Some((volume, _dir)) = mounted() else { return };
    let path = volume.at.join("many");
    fs::create_dir(&path).unwrap();
    // Made underneath, which is as good here and faster; the mount has to list what it never looked up.
    let below = volume.dir.join("namespace/tree/many");
    for number in 0..100_000 {
        rustix::fs::mknodat(
            rustix::fs::CWD,
            below.join(format!("{number}")),
            rustix::fs::FileType::RegularFile,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
    }
    let mut seen = HashSet::new();
    for entry in fs::read_dir(&path).unwrap() {
        assert!(seen.insert(entry.unwrap().file_name()), "a name came twice");
    }
    assert_eq!(seen.len(), 100_000);
}

/// [S-011] [S-015]
#[test]
fn a_sparse_file_beyond_four_gib_keeps_its_places() {
    let Some((volume, _dir)) = mounted() else { return };
    let path = volume.at.join("sparse");
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    let places = [0, (4 << 30) - 3, 5 << 30, (9 << 30) + 12_345];
    for (number, place) in places.iter().enumerate() {
        file.write_all_at(&[number as u8 + 1; 7], *place).unwrap();
    }
    file.sync_all().unwrap();
    assert_eq!(file.metadata().unwrap().len(), (9 << 30) + 12_352);
    let mut seven = [0; 7];
    for (number, place) in places.iter().enumerate() {
        file.read_exact_at(&mut seven, *place).unwrap();
        assert_eq!(seven, [number as u8 + 1; 7]);
    }
    file.read_exact_at(&mut seven, 7 << 30).unwrap();
    assert_eq!(seven, [0; 7], "holes are zeros");
    let data = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(6 << 30)).unwrap();
    assert!((6 << 30..=(9 << 30) + 12_345).contains(&data), "data is found at {data}");
}

/// [S-016]
#[test]
fn locks_exclude() {
    let Some((volume, _dir)) = mounted() else { return };
    let path = volume.at.join("locked");
    let first = File::create(&path).unwrap();
    let second = File::open(&path).unwrap();
    rustix::fs::flock(&first, FlockOperation::LockExclusive).unwrap();
    let refused = rustix::fs::flock(&second, FlockOperation::NonBlockingLockShared);
    assert_eq!(refused, Err(Errno::AGAIN));
    drop(first);
    rustix::fs::flock(&second, FlockOperation::NonBlockingLockShared).unwrap();
    // Record locks belong to a process, so another one has to try.
    let writer = OpenOptions::new().write(true).open(&path).unwrap();
    rustix::fs::fcntl_lock(&writer, FlockOperation::LockExclusive).unwrap();
    let script = "import fcntl,sys\ntry:\n fcntl.lockf(open(sys.argv[1],'r+'),fcntl.LOCK_EX|fcntl.LOCK_NB)\nexcept OSError:\n sys.exit(9)";
    match Command::new("python3").args(["-c", script]).arg(&path).status() {
        Ok(status) => assert_eq!(status.code(), Some(9), "the record is locked"),
        Err(error) => eprintln!("skipped the second process: {error}"),
    }
}

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// [S-157]
#[test]
fn holes_take_no_space_and_are_not_counted() {
    let Some((volume, _dir)) = mounted() else { return };
    let path = volume.at.join("sparse");
    let file = File::create(&path).unwrap();
    file.write_all_at(b"end", 1 << 30).unwrap();
    drop(file);
    // The close counts it, and the close is asynchronous.
    let blocks = || path.metadata().unwrap().blocks();
    until("its hole is not counted", || blocks() * 512 < 1 << 20);
    assert!(blocks() > 0);
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&pattern(3 << 20), 1 << 20).unwrap();
    drop(file);
    until("what was written is counted", || (3 << 20..4 << 20).contains(&(blocks() * 512)));
}

/// [S-003]
#[test]
fn an_unlinked_file_lives_until_it_is_closed() {
    let Some((volume, _dir)) = mounted() else { return };
    let path = volume.at.join("gone");
    fs::write(&path, pattern(700_000)).unwrap();
    let mut file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    assert!(objects(&volume) > 0);
    fs::remove_file(&path).unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    file.set_permissions(PermissionsExt::from_mode(0o640)).unwrap();
    file.write_all_at(b"still here", 699_995).unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    assert_eq!((bytes.len(), &bytes[699_995..]), (700_005, &b"still here"[..]));
    drop(file);
    let at = volume.at.clone();
    drop(volume.unmount());
    assert!(!at.join("gone").exists());
    assert_eq!(objects(&volume), 0, "its objects went with the last user");
}

#[test]
fn replacing_and_removing_leave_no_objects() {
    let Some((volume, _dir)) = mounted() else { return };
    let (a, b, c) = (volume.at.join("a"), volume.at.join("b"), volume.at.join("c"));
    fs::write(&a, pattern(600_000)).unwrap();
    fs::write(&b, pattern(500_000)).unwrap();
    fs::hard_link(&a, &c).unwrap();
    fs::rename(&b, &a).unwrap();
    assert_eq!(fs::read(&c).unwrap().len(), 600_000, "its other name keeps it");
    fs::remove_file(&c).unwrap();
    fs::remove_file(&a).unwrap();
    volume.unmount().unwrap();
    assert_eq!(objects(&volume), 0);
}

/// [S-154]
#[test]
fn empty_files_keep_no_space_when_they_go() {
    let Some((volume, _dir)) = mounted() else { return };
    let (reserved, emptied, replaced) = (volume.at.join("a"), volume.at.join("b"), volume.at.join("c"));
    for path in [&reserved, &replaced] {
        let file = File::create(path).unwrap();
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, 20 << 20).unwrap();
    }
    fs::write(&emptied, pattern(100_000)).unwrap();
    File::create(&emptied).unwrap();
    let sizes = [&reserved, &emptied, &replaced].map(|path| path.metadata().unwrap().len());
    assert_eq!(sizes, [0; 3]);
    assert!(objects(&volume) > 2);
    fs::remove_file(&reserved).unwrap();
    fs::rename(&emptied, &replaced).unwrap();
    fs::remove_file(&replaced).unwrap();
    volume.unmount().unwrap();
    assert_eq!(objects(&volume), 0);
}

#[test]
fn one_object_files_are_passed_through_and_keep_their_size() {
    let Some((volume, _dir)) = mounted() else { return };
    let directory = volume.at.join("one");
    fs::create_dir(&directory).unwrap();
    ask_for(&directory, "stripe_count=1");
    let path = directory.join("file");
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    file.write_all_at(&pattern(300_000), 0).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 300_000);
    assert_eq!(file.metadata().unwrap().nlink(), 1, "the mark is not seen");
    let again = File::open(&path).unwrap();
    let mut bytes = vec![0; 300_000];
    again.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == pattern(300_000));
    file.set_len(200_000).unwrap();
    drop((file, again));
    assert_eq!(fs::metadata(&path).unwrap().len(), 200_000);
    volume.unmount().unwrap();
    let stub = fs::metadata(volume.dir.join("namespace/tree/one/file")).unwrap();
    assert_eq!((stub.len(), stub.nlink()), (200_000, 1), "size and marks are settled");
}

/// A mount that ends under an open file settles it: the release that the kernel would have sent never comes.
#[test]
fn the_end_closes_what_was_open() {
    let Some((volume, _dir)) = mounted() else { return };
    if !is_root() {
        return;
    }
    ask_for(&volume.at, "stripe_count=1");
    let (kept, gone) = (volume.at.join("kept"), volume.at.join("gone"));
    let open = [&kept, &gone].map(|path| File::create(path).unwrap());
    open.iter().for_each(|file| file.write_all_at(&pattern(300_000), 0).unwrap());
    fs::remove_file(&gone).unwrap();
    volume.mount.abort().unwrap();
    volume.mount.wait().unwrap();
    let stub = fs::metadata(volume.dir.join("namespace/tree/kept")).unwrap();
    assert_eq!((stub.len(), stub.nlink()), (300_000, 1), "size and mark are settled");
    assert_eq!(objects(&volume), 1, "the file without a name lost its object");
}

/// [S-010] Records of several writers of one file, whose opens and closes come while the others write; a writer that
/// joined passed-through ones once cut what they had written. Then readers through the page cache.
#[test]
fn writers_of_one_file_lose_no_record() {
    const RECORD: usize = 47_008;
    const RECORDS: usize = 1_200;
    let Some((volume, _dir)) = mounted() else { return };
    for request in ["stripe_count=1", "stripe_count=4 single_max=64K"] {
        let dir = volume.at.join(request.replace([' ', '='], "-"));
        fs::create_dir(&dir).unwrap();
        ask_for(&dir, request);
        for round in 0..4 {
            let path = dir.join(format!("shared{round}"));
            File::create(&path).unwrap();
            let each = |act: &(dyn Fn(usize) + Sync)| {
                thread::scope(|scope| (0..4).for_each(|writer| drop(scope.spawn(move || act(writer)))));
            };
            each(&|writer| {
                for first in (writer..RECORDS).step_by(400) {
                    let file = OpenOptions::new().write(true).open(&path).unwrap();
                    for k in (first..RECORDS.min(first + 400)).step_by(4) {
                        file.write_all_at(&[writer as u8 + 1; RECORD], (k * RECORD) as u64).unwrap();
                    }
                }
            });
            each(&|reader| {
                let file = File::open(&path).unwrap();
                let mut record = vec![0; RECORD];
                for k in (reader..RECORDS).step_by(4) {
                    file.read_exact_at(&mut record, (k * RECORD) as u64).unwrap();
                    assert!(record.iter().all(|b| *b == reader as u8 + 1), "{request}: record {k} of round {round}");
                }
            });
            fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn the_virtual_file_shows_and_stays() {
    let Some((volume, _dir)) = mounted() else { return };
    let path = volume.at.join(".stats");
    fs::read_to_string(&path).unwrap();
    assert_eq!(fs::remove_file(&path).unwrap_err().raw_os_error(), Some(Errno::PERM.raw_os_error()));
    assert_eq!(fs::write(&path, "x").unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
    let listed: Vec<_> = fs::read_dir(&volume.at).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(listed.is_empty(), "{listed:?}");
}

/// [S-006]
#[test]
fn space_is_what_the_targets_have() {
    let Some((volume, _dir)) = mounted() else { return };
    let space = || rustix::fs::statvfs(&volume.at).unwrap();
    let (shown, below) = (space(), rustix::fs::statvfs(&volume.dir).unwrap());
    // All targets of this volume lie on one file system, which is counted once.
    assert_eq!(shown.f_blocks, below.f_blocks * below.f_frsize / 4096);
    assert!(0 < shown.f_bavail && shown.f_bavail <= shown.f_blocks);
    assert_eq!(shown.f_namemax, rustix::fs::statvfs(Path::new("/tmp")).unwrap().f_namemax);
    for (order, (blocks, free)) in [(Order::Drain, (shown.f_blocks, 0)), (Order::Fail, (0, 0))] {
        volume.targets.all().iter().for_each(|target| drop(volume.targets.operate(target.id(), order)));
        assert_eq!((space().f_blocks, space().f_bavail), (blocks, free), "{order:?}");
    }
}

/// Names change in every way that there is, without a walk through the tree.
#[test]
fn a_file_is_found_by_its_number_whatever_it_is_called() {
    let Some((volume, _dir)) = mounted() else { return };
    let at = |path: &str| volume.at.join(path);
    fs::create_dir_all(at("a/b")).unwrap();
    fs::create_dir(at("other")).unwrap();
    let made = |path: &str| {
        fs::write(at(path), pattern(700_000)).unwrap();
        let stub = File::open(volume.dir.join("namespace/tree").join(path)).unwrap();
        volume.files.get_or_open(stub.into()).unwrap().id().unwrap()
    };
    let (one, two, gone) = (made("a/b/one"), made("two"), made("a/gone"));
    let is = |id, path: &str| {
        assert_eq!(volume.files.pool().path_of(id).as_deref(), Some(Path::new(path)));
        assert_eq!(volume.files.find(id).unwrap().id(), Some(id));
    };
    is(one, "a/b/one");
    fs::rename(at("a/b/one"), at("other/uno")).unwrap();
    is(one, "other/uno");
    fs::rename(at("other"), at("a/c")).unwrap();
    fs::rename(at("a"), at("z")).unwrap();
    is(one, "z/c/uno");
    let exchange = rustix::fs::RenameFlags::EXCHANGE;
    rustix::fs::renameat_with(rustix::fs::CWD, at("two"), rustix::fs::CWD, at("z/c"), exchange).unwrap();
    is(one, "two/uno");
    is(two, "z/c");
    fs::rename(at("two/uno"), at("z/gone")).unwrap();
    is(one, "z/gone");
    let removed = || volume.files.pool().path_of(gone).is_none();
    while !removed() {
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(volume.places.walks(), 0);
    fs::remove_dir(at("two")).unwrap();
    assert!(volume.files.find(gone).is_none());
    assert_eq!(volume.places.walks(), 1, "it may be that an earlier daemon missed it");
}
