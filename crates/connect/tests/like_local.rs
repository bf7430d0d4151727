//! A directory over several connections is like a local directory, under every policy.

#[path = "../../node/tests/mount/steps.rs"]
mod steps;
#[allow(dead_code)]
mod world;

use policy::connections::Policy;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use world::Behind;

fn same(policy: Policy, seed: u64) {
    let Some(behind) = Behind::bind(4, policy) else { return };
    steps::same_as_local(seed, 400, behind.at());
    let used = behind.status().connections.iter().filter(|c| c.bytes_read + c.bytes_written > 0).count();
    assert!(used > 1 || policy == Policy::Single, "{policy} used {used} connections");
}

#[test]
fn it_is_by_load() {
    same(Policy::Load, 41);
}

#[test]
fn it_is_with_every_operation_on_another_connection() {
    same(Policy::Multiple, 42);
}

#[test]
fn it_is_when_the_kernel_passes_files_through() {
    same(Policy::Single, 43);
}

#[test]
fn it_is_when_only_reads_take_turns() {
    same(Policy::Automatic, 44);
}

/// The later one's private namespace must not keep the earlier one's mount point alive.
#[test]
fn one_ends_while_another_that_came_later_goes_on() {
    let (Some(first), Some(second)) = (Behind::bind(2, Policy::Load), Behind::bind(2, Policy::Load)) else { return };
    let (tell, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        drop(first);
        let _ = tell.send(());
    });
    ended.recv_timeout(std::time::Duration::from_secs(60)).expect("it does not end while the other one is there");
    fs::write(second.at().join("file"), "still here").unwrap();
}

#[test]
fn appends_of_many_never_overwrite_each_other() {
    let Some(behind) = Behind::bind(4, Policy::Multiple) else { return };
    let path = behind.at().join("log");
    File::create(&path).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4u8 {
            let path = &path;
            scope.spawn(move || {
                let mut file = OpenOptions::new().append(true).open(path).unwrap();
                (0..100).for_each(|_| std::io::Write::write_all(&mut file, &[writer; 1000]).unwrap());
            });
        }
    });
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 400_000);
    assert!(bytes.chunks(1000).all(|record| record.iter().all(|b| *b == record[0])), "records are whole");
}

#[test]
fn one_of_many_creates_what_must_not_be_there() {
    let Some(behind) = Behind::bind(4, Policy::Multiple) else { return };
    for round in 0..20 {
        let path = behind.at().join(format!("lock{round}"));
        let create = || OpenOptions::new().write(true).create_new(true).open(&path).is_ok();
        let won = std::thread::scope(|scope| {
            let all: Vec<_> = (0..4).map(|_| scope.spawn(create)).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).filter(|won| *won).count()
        });
        assert_eq!(won, 1);
    }
}

/// Writes, truncations and renames over one connection are visible at once over every other.
#[test]
fn open_files_follow_truncation_renaming_and_removal() {
    let Some(behind) = Behind::bind(4, Policy::Multiple) else { return };
    let (a, b) = (behind.at().join("a"), behind.at().join("b"));
    fs::write(&a, vec![7; 1 << 20]).unwrap();
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(&a).unwrap();
    fs::rename(&a, &b).unwrap();
    let mut block = [0u8; 4096];
    for k in 0..8 {
        file.write_all_at(&[k as u8; 4096], k * 4096).unwrap();
        file.read_exact_at(&mut block, k * 4096).unwrap();
        assert_eq!(block, [k as u8; 4096]);
    }
    drop(OpenOptions::new().write(true).truncate(true).open(&b).unwrap());
    assert_eq!(file.metadata().unwrap().len(), 0);
    assert_eq!(file.read_at(&mut block, 0).unwrap(), 0);
    file.write_all_at(b"still", 0).unwrap();
    fs::remove_file(&b).unwrap();
    assert_eq!(file.read_at(&mut block, 0).unwrap(), 5, "it lives until it is closed");
    file.sync_all().unwrap();
}

/// Unmounts a small file system whatever the test did.
struct Small(tempfile::TempDir);

impl Small {
    fn new() -> Option<Small> {
        let dir = tempfile::tempdir().unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=1m", "tmpfs"];
        let mounted = std::process::Command::new("mount").args(mount).arg(dir.path()).output().unwrap();
        if !mounted.status.success() {
            eprintln!("skipped: a small file system needs root");
            return None;
        }
        Some(Small(dir))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        drop(std::process::Command::new("umount").arg("-l").arg(self.0.path()).status());
    }
}

/// Writes are acknowledged before the server has them: a later failure is still reported, once, to the writer, and
/// reads return the bytes that are there.
#[test]
fn what_was_acknowledged_and_cannot_be_written_is_told() {
    let Some(small) = Small::new() else { return };
    let recipe = connect::Recipe {
        kind: "bind".into(),
        servers: vec![small.0.path().display().to_string()],
        options: Vec::new(),
    };
    let options = world::options(2, Policy::Load, "bind");
    let Some(behind) = Behind::start(tempfile::tempdir().unwrap(), recipe, options) else { return };
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(behind.at().join("full")).unwrap();
    file.write_all_at(&[5; 256 << 10], 0).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 256 << 10, "attributes are those after what is on its way");
    let written = (1..32u64).try_for_each(|k| file.write_all_at(&[6; 256 << 10], k * (256 << 10)));
    let error = written.and_then(|()| file.sync_all()).expect_err("there is no room for it");
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    drop(file.sync_all()); // pieces that were still on their way then
    file.sync_all().expect("it was told already");
    let mut first = [0; 4096];
    file.read_exact_at(&mut first, 0).unwrap();
    assert_eq!(first, [5; 4096]);
}

/// A program that closes a file finds its bytes with the server, and its last error in the answer.
#[test]
fn after_a_close_the_server_has_everything() {
    let backing = tempfile::tempdir().unwrap();
    let recipe = connect::Recipe {
        kind: "bind".into(),
        servers: vec![backing.path().display().to_string()],
        options: Vec::new(),
    };
    let options = world::options(3, Policy::Multiple, "bind");
    let Some(behind) = Behind::start(tempfile::tempdir().unwrap(), recipe, options) else { return };
    for round in 0..20u8 {
        let name = format!("file{round}");
        let mut file = File::create(behind.at().join(&name)).unwrap();
        for small in 0..200u32 {
            std::io::Write::write_all(&mut file, &small.to_le_bytes()).unwrap();
        }
        std::io::Write::write_all(&mut file, &vec![round; 3 << 20]).unwrap();
        drop(file);
        let there = fs::read(backing.path().join(&name)).unwrap();
        let small: Vec<u8> = (0..200u32).flat_map(u32::to_le_bytes).collect();
        assert_eq!(there.len(), 800 + (3 << 20));
        assert!(there[..800] == small && there[800..].iter().all(|b| *b == round), "file {round}");
    }
}

/// A handle can lose `O_APPEND` after its open; pages written back through it keep their offsets.
#[test]
fn a_handle_for_appending_writes_elsewhere_when_it_is_told_to() {
    use rustix::fs::OFlags;
    use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
    for policy in [Policy::Multiple, Policy::Single] {
        let Some(behind) = Behind::bind(2, policy) else { return };
        let path = behind.at().join("f");
        fs::write(&path, [1; 10_000]).unwrap();
        let file = OpenOptions::new().read(true).append(true).open(&path).unwrap();
        // SAFETY: used within its length until it is unmapped.
        unsafe {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            let map = rustix::mm::mmap(std::ptr::null_mut(), 10_000, access, MapFlags::SHARED, &file, 0).unwrap();
            map.cast::<u8>().add(5).write_volatile(2);
            rustix::mm::msync(map, 10_000, MsyncFlags::SYNC).unwrap();
            rustix::mm::munmap(map, 10_000).unwrap();
        }
        file.write_all_at(&[3; 10], 0).unwrap();
        let flags = rustix::fs::fcntl_getfl(&file).unwrap();
        rustix::fs::fcntl_setfl(&file, flags & !OFlags::APPEND).unwrap();
        file.write_all_at(&[4; 10], 100).unwrap();
        rustix::fs::fcntl_setfl(&file, flags).unwrap();
        file.write_all_at(&[5; 10], 200).unwrap();
        file.sync_all().unwrap();
        drop(file);
        let mut wanted = vec![1; 10_020];
        wanted[5] = 2;
        wanted[100..110].fill(4);
        wanted[10_000..10_010].fill(3);
        wanted[10_010..].fill(5);
        let bytes = fs::read(&path).unwrap();
        let first = bytes.iter().zip(&wanted).position(|(a, b)| a != b);
        assert!(bytes == wanted, "{policy}: {} bytes, first difference at {first:?}", bytes.len());
    }
}

/// Another node writes while no process here has the file open.
#[test]
fn what_changed_on_the_server_is_seen_by_the_next_open() {
    let Some(behind) = Behind::bind(2, Policy::Load) else { return };
    let path = behind.at().join("f");
    fs::write(behind.backing().join("f"), [1; 8192]).unwrap();
    for number in 2..20u8 {
        fs::read(&path).unwrap();
        fs::write(behind.backing().join("f"), [number; 8192]).unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        // The kernel sends the release of the file after `close` has returned.
        while fs::read(&path).unwrap() != [number; 8192] {
            assert!(std::time::Instant::now() < until, "change {number} is never seen");
            std::thread::yield_now();
        }
    }
}
