//! Directories as targets: their content on disk, and their identity.

use super::*;
use crate::volume_id::VolumeId;
use policy::TargetId;
use policy::advice::Advice;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const ID: ObjectId = ObjectId(0x1_0000_002a);

fn identity(number: u16) -> Identity {
    Identity { volume: VolumeId(0xfeed), target: TargetId(number), name: format!("t{number}") }
}

fn formatted() -> (tempfile::TempDir, DirectoryMedium) {
    let dir = tempfile::tempdir().unwrap();
    DirectoryMedium::format(dir.path(), &identity(1)).unwrap();
    let medium = DirectoryMedium::new(dir.path(), identity(1));
    medium.probe().unwrap();
    (dir, medium)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn objects_are_plain_private_files() {
    let (dir, medium) = formatted();
    let handle = medium.create(ID).unwrap();
    handle.write_at(3, b"abc").unwrap();
    handle.sync().unwrap();
    medium.sync_names().unwrap();
    let path = dir.path().join("objects/2a/000000010000002a");
    assert_eq!(fs::read(&path).unwrap(), b"\0\0\0abc");
    assert_eq!((mode(&path), mode(&dir.path().join("objects")), mode(path.parent().unwrap())), (0o600, 0o700, 0o700));
    assert_eq!(medium.list().unwrap(), [ID]);
    let mut buf = [9; 8];
    assert_eq!(medium.open(ID).unwrap().read_at(1, &mut buf).unwrap(), 5, "fewer only at the end");
    assert_eq!(medium.create(ID).err(), Some(Errno::EXIST), "what is there is somebody's");
    assert_eq!(medium.open(ID).unwrap().len(), Ok(6));
    medium.remove(ID).unwrap();
    medium.remove(ID).expect("gone is gone");
    assert!(matches!(medium.open(ID).err(), Some(Errno::NOENT)));
}

#[test]
fn an_object_with_two_names_is_there_until_both_are_gone() {
    const OTHER: ObjectId = ObjectId(0x1_0000_00ff);
    let (dir, medium) = formatted();
    medium.create(ID).unwrap().write_at(0, b"abc").unwrap();
    let other = medium.link(ID, OTHER).unwrap();
    other.write_at(3, b"def").unwrap();
    medium.sync_names().unwrap();
    assert_eq!(fs::read(dir.path().join("objects/2a/000000010000002a")).unwrap(), b"abcdef");
    assert_eq!((other.names(), medium.link(ID, OTHER).err()), (Ok(2), Some(Errno::EXIST)));
    medium.remove(ID).unwrap();
    assert_eq!((medium.list().unwrap(), other.names(), other.len()), (vec![OTHER], Ok(1), Ok(6)));
    assert_eq!(medium.link(ID, OTHER).err(), Some(Errno::NOENT));
}

#[test]
fn holes_space_and_lengths() {
    let (_dir, medium) = formatted();
    let handle = medium.create(ID).unwrap();
    handle.write_at(0, &[1; 65_536]).unwrap();
    handle.punch(0, 32_768).unwrap();
    let mut buf = [9; 4];
    handle.read_at(32_766, &mut buf).unwrap();
    assert_eq!(buf, [0, 0, 1, 1]);
    handle.set_len(100_000).unwrap();
    assert_eq!((handle.len(), handle.seek_data(100_000)), (Ok(100_000), Err(Errno::NXIO)));
    let data = handle.seek_data(0).unwrap();
    assert!(data == 32_768 || data == 0, "a file system may not tell holes: {data}");
    handle.allocate(0, 200_000).unwrap();
    assert_eq!(handle.len(), Ok(200_000));
    assert!(handle.allocated().unwrap() > 0 && handle.fd().is_some());
    let space = medium.space().unwrap();
    assert!(space.free_bytes <= space.total_bytes && space.device.is_some());
}

#[test]
fn an_object_that_is_a_link_is_not_followed() {
    let (dir, medium) = formatted();
    let outside = dir.path().join("outside");
    fs::write(&outside, "secret").unwrap();
    std::os::unix::fs::symlink(&outside, dir.path().join("objects/2a/000000010000002a")).unwrap();
    assert!(matches!(medium.open(ID).err(), Some(Errno::LOOP)));
    assert!(matches!(medium.create(ID).err(), Some(Errno::EXIST)));
    assert_eq!(fs::read(&outside).unwrap(), b"secret");
}

/// [S-031]
#[test]
fn what_is_not_ours_is_gone_not_empty() {
    let (dir, medium) = formatted();
    let before = DirectoryMedium::new(dir.path(), identity(1));
    assert!(matches!(before.open(ID).err(), Some(Errno::NODEV)), "nothing is believed before a probe");
    assert_eq!(DirectoryMedium::new(dir.path(), identity(2)).probe(), Err(Errno::NODEV));
    let theirs = Identity { volume: VolumeId(1), ..identity(1) };
    assert_eq!(DirectoryMedium::new(dir.path(), theirs.clone()).probe(), Err(Errno::NODEV));
    assert_eq!(
        DirectoryMedium::format(dir.path(), &theirs),
        Err(IdentityError::Foreign { found: Box::new(identity(1)) })
    );
    DirectoryMedium::format(dir.path(), &identity(1)).expect("the same again does no harm");
    fs::remove_file(dir.path().join("target.id")).unwrap();
    assert_eq!(medium.probe(), Err(Errno::NODEV));
    assert_eq!(DirectoryMedium::new(&dir.path().join("nowhere"), identity(1)).probe(), Err(Errno::NODEV));
}

#[test]
fn a_medium_moves_to_what_is_mounted_at_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("t"), dir.path().join("copy"));
    for place in [&path, &copy] {
        fs::create_dir(place).unwrap();
        DirectoryMedium::format(place, &identity(1)).unwrap();
    }
    let medium = DirectoryMedium::new(&path, identity(1));
    medium.probe().unwrap();
    medium.create(ID).unwrap();
    fs::rename(&path, dir.path().join("old")).unwrap();
    assert_eq!(medium.probe(), Err(Errno::NODEV));
    fs::rename(&copy, &path).unwrap();
    medium.probe().unwrap();
    assert_eq!(medium.list().unwrap(), []);
    medium.disown().unwrap();
    assert_eq!(Identity::read(&path), Err(IdentityError::Missing));
}

#[test]
fn names_that_are_no_objects_are_not_listed() {
    let (dir, medium) = formatted();
    for name in ["objects/2a/readme", "objects/2b/000000010000002a", "objects/2a/zz0000010000002a"] {
        fs::write(dir.path().join(name), "").unwrap();
    }
    assert_eq!(medium.list().unwrap(), []);
}

/// Bytes that this thread read from devices; `None` if the kernel does not count them.
fn asked_of_devices() -> Option<u64> {
    let io = fs::read_to_string("/proc/thread-self/io").ok()?;
    io.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok())
}

#[test]
fn of_random_reads_the_kernel_reads_nothing_ahead() {
    const LEN: usize = 8 << 20;
    let (dir, medium) = formatted();
    let handle = medium.create(ID).unwrap();
    handle.write_at(0, &vec![7; LEN]).unwrap();
    handle.sync().unwrap();
    rustix::fs::fadvise(handle.fd().unwrap(), 0, None, rustix::fs::Advice::DontNeed).unwrap();
    // Sequential reads, which a kernel reads ahead of, each at another place.
    let read = |advice: Advice, from: u64| {
        let before = asked_of_devices()?;
        handle.advise(advice);
        (0..4).for_each(|n| assert_eq!(handle.read_at(from + n * 4096, &mut [0; 4096]), Ok(4096)));
        Some(asked_of_devices()? - before)
    };
    let ahead = read(Advice::Ahead, 0);
    if ahead.is_none_or(|ahead| ahead <= 4 * 4096) {
        return eprintln!(
            "skipped: what lies in {} is kept in memory, or nothing is read ahead there: {ahead:?}",
            dir.path().display()
        );
    }
    let page = rustix::param::page_size() as u64;
    let random = read(Advice::Random, 4 << 20);
    assert!(random <= Some(4 * page), "{random:?}");
    // Some bytes may still be in memory.
    let again: Vec<_> = (5..8).map(|mib| read(Advice::Ahead, mib << 20)).collect();
    assert!(again.iter().any(|read| *read > Some(4 * page)), "{again:?}");
}

/// [S-153]
#[test]
fn a_directory_that_can_only_be_read_is_read() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root to mount");
        return;
    }
    let (dir, medium) = formatted();
    medium.create(ID).unwrap().write_at(0, b"abc").unwrap();
    let mount = |args: &[&str]| {
        let done = std::process::Command::new("mount").args(args).arg(dir.path()).status().unwrap();
        assert!(done.success(), "mount {args:?}");
    };
    let here = dir.path().to_str().unwrap();
    mount(&["--bind", here]);
    mount(&["-o", "remount,bind,ro"]);
    let found = std::panic::catch_unwind(|| {
        let medium = DirectoryMedium::new(dir.path(), identity(1));
        let probes = (medium.probe(), medium.probe_durable());
        let handle = medium.open(ID).unwrap();
        let mut buf = [0; 3];
        let read = handle.read_at(0, &mut buf).map(|_| buf);
        let refused = [handle.write_at(0, b"x"), handle.set_len(0), handle.punch(0, 1), handle.allocate(0, 9)];
        (probes, read, handle.is_read_only(), refused, medium.create(ObjectId(ID.0 + 256)).err())
    });
    assert!(std::process::Command::new("umount").arg("-l").arg(dir.path()).status().unwrap().success());
    let no = Err(Errno::ROFS);
    assert_eq!(found.unwrap(), ((no, no), Ok(*b"abc"), true, [no; 4], Some(Errno::ROFS)));
    assert!(!medium.open(ID).unwrap().is_read_only());
}

#[test]
fn the_last_epoch_is_remembered_on_the_target_and_a_damaged_one_is_not_believed() {
    let (dir, medium) = formatted();
    assert_eq!(medium.epoch(), Ok(None));
    for epoch in [9, 10] {
        medium.set_epoch(epoch).unwrap();
        assert_eq!(medium.epoch(), Ok(Some(epoch)));
    }
    assert_eq!(mode(&dir.path().join("epoch")), 0o600);
    fs::write(dir.path().join("epoch"), b"\0\0\xff").unwrap();
    assert_eq!(medium.epoch(), Ok(None));
}

#[test]
fn network_file_systems_are_told_by_their_type() {
    for network in [0x6969, 0xff53_4d42, 0xffff_ffff_ff53_4d42, 0x00c3_6400, 0x0bd0_0bd0] {
        assert!(super::is_network(network), "{network:#x}");
    }
    // ext4, XFS, tmpfs, FUSE.
    for local in [0xef53, 0x5846_5342, 0x0102_1994, 0x6573_5546] {
        assert!(!super::is_network(local), "{local:#x}");
    }
}
