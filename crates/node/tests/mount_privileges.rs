//! Effects of changes to a file on its setuid and setgid bits, against a plain directory: at once, as `stat` shows it.

#[allow(dead_code)]
#[path = "mount/volume.rs"]
mod volume;

use rustix::fs::{FallocateFlags, Gid, OFlags, Uid, XattrFlags, fallocate};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

const OWNER: u32 = 12_345;
const HERS: u32 = 23_456;
/// The group of the files.
const THEIRS: u32 = 777;

#[derive(Clone, Copy, Debug)]
enum Act {
    Write(i32),
    Append,
    Cut,
    Open,
    Reserve,
    Punch,
    Zero,
    Copy,
    List,
    Group,
    Nothing,
    Mode,
}

const ACTS: [Act; 14] = [
    Act::Write(0),
    Act::Write(0o40000),
    Act::Write(0o4010000),
    Act::Append,
    Act::Cut,
    Act::Open,
    Act::Reserve,
    Act::Punch,
    Act::Zero,
    Act::Copy,
    Act::List,
    Act::Group,
    Act::Nothing,
    Act::Mode,
];

/// An access control list as the kernel has it: version, then tag, permissions and id of each entry.
fn list() -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] = [(1, 6, !0), (2, 4, 1), (4, 6, !0), (16, 6, !0), (32, 6, !0)];
    let entry =
        |(tag, may, id): (u16, u16, u32)| [&tag.to_le_bytes()[..], &may.to_le_bytes(), &id.to_le_bytes()].concat();
    [2u32.to_le_bytes().to_vec(), entries.into_iter().flat_map(entry).collect()].concat()
}

fn act(act: Act, path: &Path) -> std::io::Result<()> {
    let open = |flags| OpenOptions::new().write(true).custom_flags(flags).open(path);
    let area = [7; 8192];
    let page = &area[area.as_ptr().align_offset(4096)..][..4096];
    match act {
        Act::Write(flags) => open(flags)?.write_all_at(page, 0),
        Act::Append => OpenOptions::new().append(true).open(path)?.write_all(b"more"),
        Act::Cut => open(0)?.set_len(50),
        Act::Open => open(OFlags::TRUNC.bits() as i32).map(drop),
        Act::Reserve => Ok(fallocate(open(0)?, FallocateFlags::empty(), 0, 1 << 20)?),
        Act::Punch => Ok(fallocate(open(0)?, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, 4096)?),
        Act::Zero => Ok(fallocate(open(0)?, FallocateFlags::ZERO_RANGE, 0, 4096)?),
        Act::Copy => {
            let (from, to) = (fs::File::open(path)?, open(0)?);
            rustix::fs::copy_file_range(from, Some(&mut 0), to, Some(&mut 8192), 50)?;
            Ok(())
        }
        Act::List => Ok(rustix::fs::setxattr(path, "system.posix_acl_access", &list(), XattrFlags::empty())?),
        Act::Group => std::os::unix::fs::chown(path, None, Some(HERS)),
        Act::Nothing => std::os::unix::fs::chown(path, None, None),
        Act::Mode => fs::set_permissions(path, PermissionsExt::from_mode(0o6775)),
    }
}

/// Does it as the files' owner, who is of their group or not.
fn as_owner<T: Send>(member: bool, act: impl FnOnce() -> T + Send) -> T {
    let become_her = || {
        let groups = [Gid::from_raw(THEIRS)];
        rustix::thread::set_thread_groups(if member { &groups } else { &[] }).unwrap();
        let (uid, gid) = (Uid::from_raw(OWNER), Gid::from_raw(HERS));
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
    };
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                become_her();
                act()
            })
            .join()
            .unwrap()
    })
}

fn outcome(path: &Path, what: Act, mode: u32, len: usize, member: bool) -> (Result<(), Option<i32>>, u32) {
    let _ = fs::remove_file(path);
    fs::write(path, vec![3; len]).unwrap();
    std::os::unix::fs::chown(path, Some(OWNER), Some(THEIRS)).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    assert_eq!(fs::metadata(path).unwrap().mode() & 0o7777, mode);
    let done = as_owner(member, || act(what, path).map_err(|error| error.raw_os_error()));
    (done, fs::metadata(path).unwrap().mode() & 0o7777)
}

fn mounted(stripe_count: usize) -> Option<(volume::Volume, tempfile::TempDir)> {
    if volume::cannot_mount() || !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root and /dev/fuse");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let mut wanted = volume::Wanted::default();
    wanted.placement.stripe_count = stripe_count;
    // Long, so that a missing invalidation of the kernel's caches shows.
    (wanted.options.attr_timeout, wanted.options.entry_timeout) = (Duration::from_secs(60), Duration::from_secs(60));
    Some((volume::Volume::start(dir.path(), wanted), dir))
}

/// [S-143]
#[test]
fn they_go_as_in_a_local_directory() {
    for stripe_count in [4, 1] {
        let Some((volume, dir)) = mounted(stripe_count) else { return };
        let (ours, plain) = (volume.at.join("f"), dir.path().join("plain"));
        let mut differences = Vec::new();
        for what in ACTS {
            for mode in [0o4777, 0o2777, 0o2767, 0o6767, 0o2747] {
                for len in [100, 300_000] {
                    for member in [false, true] {
                        let (mine, theirs) =
                            (outcome(&ours, what, mode, len, member), outcome(&plain, what, mode, len, member));
                        if mine != theirs {
                            differences.push(format!(
                                "{what:?} on {mode:o}, {len} bytes, member {member}: {:?} {:o}, and {:?} {:o}",
                                mine.0, mine.1, theirs.0, theirs.1
                            ));
                        }
                    }
                }
            }
        }
        assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
    }
}

/// [S-143] Over and over, since it was once seen to stay.
#[test]
fn an_append_by_another_user_always_takes_setuid_away() {
    for stripe_count in [4, 1] {
        let Some((volume, _dir)) = mounted(stripe_count) else { return };
        let path = volume.at.join("f");
        fs::write(&path, vec![3; 300_000]).unwrap();
        as_owner(false, || {});
        let shown = || fs::metadata(&path).unwrap().mode() & 0o7777;
        let kept = (0..300).filter(|round| {
            fs::set_permissions(&path, PermissionsExt::from_mode(0o4777)).unwrap();
            assert_eq!(shown(), 0o4777, "round {round}");
            as_owner(false, || act(Act::Append, &path).unwrap());
            shown() != 0o777
        });
        assert_eq!(kept.count(), 0);
    }
}

/// The kernel checks no permission of a file opened by its creation. [S-004]
#[test]
fn a_creation_opens_no_file_that_another_user_has_just_made() {
    const ROUNDS: usize = 2000;
    let Some((volume, _dir)) = mounted(4) else { return };
    let (at, beside, begin) = (&volume.at, volume.dir.join("namespace/tree"), Barrier::new(2));
    let make_beside = || {
        for round in 0..ROUNDS {
            begin.wait();
            // At another moment of the other open in each round.
            (0..round % 64 * 40).for_each(|_| std::hint::spin_loop());
            let path = beside.join(round.to_string());
            let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        }
    };
    let create = || {
        let opened = (0..ROUNDS).map(|round| {
            begin.wait();
            let path = at.join(round.to_string());
            let opened = OpenOptions::new().write(true).create(true).truncate(false).open(path);
            opened.and_then(|file| Ok(file.metadata()?.uid())).map_err(|error| error.raw_os_error())
        });
        opened.collect::<Vec<_>>()
    };
    let opened = std::thread::scope(|scope| {
        scope.spawn(make_beside);
        as_owner(false, create)
    });
    let denied = Err(Some(rustix::io::Errno::ACCESS.raw_os_error()));
    let wrong: Vec<_> = opened.iter().filter(|opened| **opened != Ok(OWNER) && **opened != denied).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}
