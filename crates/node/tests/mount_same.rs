//! The mount against a plain local directory: the same random operations on both must give the same answers and the
//! same tree. The seed is printed; `ENTREPOT_SEED` repeats one, `ENTREPOT_STEPS` makes it longer.

#[path = "mount/races.rs"]
mod races;
#[path = "mount/steps.rs"]
mod steps;
#[allow(dead_code)]
#[path = "mount/volume.rs"]
mod volume;

use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

fn same(seed: u64, steps: usize, wanted: volume::Wanted) {
    let dir = tempfile::tempdir().unwrap();
    let volume = volume::Volume::start(dir.path(), wanted);
    steps::same_as_local(seed, steps, &volume.at);
}

fn seeds() -> Vec<u64> {
    match std::env::var("ENTREPOT_SEED") {
        Ok(seed) => vec![seed.parse().expect("ENTREPOT_SEED is a number")],
        Err(_) => vec![1, 2, 3],
    }
}

fn steps() -> usize {
    std::env::var("ENTREPOT_STEPS").map_or(600, |steps| steps.parse().expect("ENTREPOT_STEPS is a number"))
}

/// [S-001] [S-007] [S-010]
#[test]
fn the_mount_is_like_a_local_directory() {
    if volume::cannot_mount() {
        return;
    }
    for seed in seeds() {
        same(seed, steps(), volume::Wanted::default());
    }
}

/// [S-010]
#[test]
fn it_is_with_the_page_cache_and_without_passthrough() {
    if volume::cannot_mount() {
        return;
    }
    let mut wanted = volume::Wanted::default();
    wanted.options.io = engine::volume::Io::Cached;
    wanted.options.passthrough = engine::volume::Passthrough::Off;
    same(11, steps(), wanted);
}

/// [S-010]
#[test]
fn it_is_with_two_mirrors() {
    if volume::cannot_mount() {
        return;
    }
    let mut wanted = volume::Wanted::default();
    wanted.placement.mirrors = 2;
    wanted.placement.stripe_count = 2;
    same(21, steps(), wanted);
}

/// [S-010]
#[test]
fn it_is_with_one_object_per_file() {
    if volume::cannot_mount() {
        return;
    }
    let mut wanted = volume::Wanted::default();
    wanted.placement.stripe_count = 1;
    same(31, steps(), wanted);
}

/// [S-352]
#[test]
fn a_name_that_cannot_be_examined_is_listed_and_its_error_comes_at_the_name() {
    if volume::cannot_mount() || !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: needs root and FUSE");
    }
    let dir = tempfile::tempdir().unwrap();
    let volume = volume::Volume::start(dir.path(), volume::Wanted::default());
    let directory = volume.at.join("d");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("file"), b"ten bytes.").unwrap();
    // The daemon of this mount is gone, so each look at the name fails.
    let daemon = fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").unwrap();
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", daemon.as_raw_fd());
    let options = std::ffi::CString::new(options).unwrap();
    let over = volume.dir.join("namespace/tree/d/dead");
    // Made behind the mount, so that no cache has it.
    fs::create_dir(&over).unwrap();
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("dead", &over, "fuse", flags, Some(options.as_c_str())).unwrap();
    drop(daemon);
    let names = || {
        let read = fs::read_dir(&directory)?.map(|entry| Ok(entry?.file_name().into_string().unwrap()));
        read.collect::<std::io::Result<HashSet<String>>>()
    };
    let seen = [names(), names()];
    let (dead, file) = (fs::symlink_metadata(directory.join("dead")), fs::read(directory.join("file")));
    rustix::mount::unmount(&over, rustix::mount::UnmountFlags::DETACH).unwrap();
    let expected = HashSet::from(["dead".to_owned(), "file".to_owned()]);
    for names in seen {
        assert_eq!(names.unwrap(), expected);
    }
    assert!(dead.is_err() && file.unwrap() == b"ten bytes.", "{dead:?}");
    fs::symlink_metadata(directory.join("dead")).unwrap();
}

/// [S-355]
#[test]
fn times_before_1970_keep_their_fractions() {
    if volume::cannot_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let volume = volume::Volume::start(dir.path(), volume::Wanted::default());
    let file = fs::File::create(volume.at.join("old")).unwrap();
    let before = UNIX_EPOCH - Duration::from_millis(1750);
    file.set_times(fs::FileTimes::new().set_modified(before).set_accessed(before)).unwrap();
    let is = fs::metadata(volume.at.join("old")).unwrap();
    assert_eq!((is.mtime(), is.mtime_nsec()), (-2, 250_000_000));
    assert_eq!(is.modified().unwrap(), before);
}

/// A replacement by rename never makes the name absent, neither for an open nor for `stat`. [S-428]
#[test]
fn a_name_that_is_only_replaced_is_always_there() {
    if volume::cannot_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let volume = volume::Volume::start(dir.path(), volume::Wanted::default());
    let (new, name) = (volume.at.join("new"), volume.at.join("name"));
    fs::write(&name, "first").unwrap();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reads = || {
            while !ends.load(Ordering::Relaxed) {
                assert!(!fs::read(&name).unwrap().is_empty())
            }
        };
        let looks = || {
            while !ends.load(Ordering::Relaxed) {
                assert!(fs::metadata(&name).unwrap().len() > 0)
            }
        };
        let readers = [scope.spawn(reads), scope.spawn(looks)];
        for n in 0..300 {
            fs::write(&new, n.to_string()).unwrap();
            fs::rename(&new, &name).unwrap();
            if readers.iter().any(|reader| reader.is_finished()) {
                break;
            }
        }
        ends.store(true, Ordering::Relaxed);
    });
}

/// A file that is opened while its last name is removed is whole, or absent. [S-003]
#[test]
fn a_file_that_is_opened_beside_its_removal_is_whole_or_absent() {
    if volume::cannot_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let volume = volume::Volume::start(dir.path(), volume::Wanted::default());
    let (new, name, content) = (volume.at.join("new"), volume.at.join("name"), vec![7; 100_000]);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reads = || {
            while !ends.load(Ordering::Relaxed) {
                match fs::read(&name) {
                    Ok(read) => assert_eq!(read.len(), content.len()),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
                }
            }
        };
        let readers = [scope.spawn(reads), scope.spawn(reads), scope.spawn(reads)];
        for _ in 0..2000 {
            fs::write(&new, &content).unwrap();
            fs::rename(&new, &name).unwrap();
            fs::remove_file(&name).unwrap();
            if readers.iter().any(|reader| reader.is_finished()) {
                break;
            }
        }
        ends.store(true, Ordering::Relaxed);
    });
}
