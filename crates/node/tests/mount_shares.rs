//! Users who open as much as they can: each is refused at a share, and nobody else notices.

#[allow(dead_code)]
#[path = "mount/volume.rs"]
mod volume;

use engine::file::{Access, Adviser, File, Resume};
use node::mount::Options;
use object::target::State;
use parking_lot::Mutex;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use volume::{Volume, Wanted};

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

fn create(dir: &Path, name: &str) -> Result<OwnedFd, Errno> {
    openat(CWD, dir.join(name), OFlags::CREATE | OFlags::RDWR, Mode::RUSR | Mode::WUSR)
}

/// Opens files until that is refused.
fn open_all(dir: &Path, uid: u32) -> (Vec<OwnedFd>, Errno) {
    as_user(uid, || {
        let mut open = Vec::new();
        loop {
            match create(dir, &format!("{uid}-{}", open.len())) {
                Ok(fd) => open.push(fd),
                Err(errno) => return (open, errno),
            }
        }
    })
}

const HELD: u64 = 4096;

/// Holds each write of that length until the end.
struct Holds {
    held: Mutex<Vec<Resume>>,
    tell: Sender<()>,
}

impl Adviser for Holds {
    fn watches(&self, _: &File) -> bool {
        true
    }
    fn may_write(&self, _: &File, access: Access) -> bool {
        access.len != HELD
    }
    fn hold(&self, _: &Arc<File>, _: Access, _: Option<Duration>, resume: Resume) {
        self.held.lock().push(resume);
        self.tell.send(()).unwrap();
    }
}

/// [S-170]
#[test]
fn writes_that_are_held_take_a_share_of_memory_and_the_next_user_finds_some() {
    if volume::cannot_mount() || !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs /dev/fuse, and root to act as other users");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let options = Options { held_bytes_max: 8 * HELD, ..Wanted::default().options };
    let (tell, told) = channel();
    let holds = Arc::new(Holds { held: Mutex::default(), tell });
    let volume = Volume::start(dir.path(), Wanted { options, adviser: Some(holds.clone()), ..Wanted::default() });
    for path in [dir.path(), &dir.path().join("mnt")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::set_permissions(&volume.at, fs::Permissions::from_mode(0o1777)).unwrap();
    let write = |uid: u32, name: &str| {
        as_user(uid, || fs::File::from(create(&volume.at, name).unwrap()).write_all_at(&[7; HELD as usize], 0))
    };
    std::thread::scope(|scope| {
        for name in ["a", "b", "c"] {
            let write = &write;
            scope.spawn(move || write(1001, name).expect("held, and written in the end"));
        }
        (0..3).for_each(|_| told.recv().unwrap());
        let refused = write(1001, "d").unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(Errno::NOSPC.raw_os_error()), "of seven parts one user has three");
        scope.spawn(|| write(1002, "e").expect("another user's is held, too"));
        told.recv().unwrap();
        holds.held.lock().drain(..).for_each(|resume| resume(Ok(())));
    });
    for name in ["a", "b", "c", "e"] {
        assert_eq!(fs::read(volume.at.join(name)).unwrap(), [7; HELD as usize], "{name}");
    }
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// [S-170] [S-171]
#[test]
fn who_opens_all_that_can_be_opened_stops_nobody_else() {
    if volume::cannot_mount() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root to act as other users");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let options = Options { descriptors_max: 1024, ..Wanted::default().options };
    let volume = Volume::start(dir.path(), Wanted { options, ..Wanted::default() });
    for path in [dir.path(), &dir.path().join("mnt")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let shared = volume.at.join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    let large = fs::File::create(shared.join("large")).unwrap();
    large.write_all_at(&[7; 1 << 20], 0).unwrap();
    drop(large);

    let before = descriptors();
    let (mut mine, refused) = open_all(&shared, 1001);
    assert_eq!(refused, Errno::NFILE, "as where the system has no more open files");
    // Half of the rest of 1024, less 256 for directories, 192 for the daemon and 72 for the operator.
    assert_eq!(mine.len(), 252);
    let more = descriptors().saturating_sub(before); // some may be closed late
    assert!(more <= 2 * mine.len() + 8, "one of this program, one of the daemon: {more}");
    let name = format!("1001-{}", mine.len());
    assert!(!shared.join(name).exists(), "what was refused was not made");
    as_user(1001, || {
        assert_eq!(create(&shared, "1001-0").map(drop), Err(Errno::NFILE));
        assert_eq!(fs::read_dir(&shared).map(drop).unwrap_err().raw_os_error(), Some(Errno::NFILE.raw_os_error()));
        assert!(fs::metadata(shared.join("1001-7")).is_ok(), "what needs nothing is done");
    });

    let (others, refused) = open_all(&shared, 1002);
    assert_eq!((others.len(), refused), (126, Errno::NFILE), "half of what is left");
    drop(others);
    as_user(1003, || {
        assert_eq!(fs::read(shared.join("large")).unwrap(), [7; 1 << 20]);
        assert!(fs::read_dir(&shared).unwrap().count() > 252);
    });
    assert!((0..252).all(|n| create(&shared, &format!("root-{n}")).is_ok()), "nor the operator");

    // A file that outgrows its stub needs a descriptor for each of its objects.
    mine.pop();
    let last = as_user(1001, || create(&shared, "grows")).map(fs::File::from).unwrap();
    last.write_all_at(&[1; 1000], 0).unwrap();
    let grown = last.write_all_at(&[2; 1 << 20], 1000).unwrap_err();
    assert_eq!(grown.raw_os_error(), Some(Errno::NFILE.raw_os_error()));
    // The kernel may write in pieces: those that the stub has room for are there.
    let kept = fs::metadata(shared.join("grows")).unwrap().len();
    assert!((1000..=16 << 10).contains(&kept), "{kept}");
    mine.truncate(200);
    last.write_all_at(&[2; 1 << 20], 1000).unwrap();
    let bytes = fs::read(shared.join("grows")).unwrap();
    assert!(bytes.len() == 1000 + (1 << 20) && bytes[..1000] == [1; 1000] && bytes[1000..].iter().all(|b| *b == 2));
    drop(last);

    for target in volume.targets.all() {
        assert_eq!((target.state(), volume.targets.probe_one(target.id())), (State::Ok, Ok(())));
    }
    drop(mine);
    let (again, _) = open_all(&shared, 1001);
    assert_eq!(again.len(), 252, "what is closed can be opened anew");
}
