//! The driver over directories that stand for mounts.

use super::*;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Mounts that are directories; some cannot be made for a while.
struct Directories {
    paths: Vec<PathBuf>,
    mounted: Arc<Mutex<BTreeSet<u16>>>,
    refused: Arc<AtomicU64>,
}

impl Mounts for Directories {
    fn mount(&self, number: u16) -> io::Result<std::os::fd::OwnedFd> {
        if self.refused.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        assert!(self.mounted.lock().insert(number), "connection {number} is mounted twice");
        let path = &self.paths[usize::from(number)];
        Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
    }
    fn take_out(&self, number: u16) {
        self.mounted.lock().remove(&number);
    }
    fn source(&self, number: u16) -> String {
        self.paths[usize::from(number)].display().to_string()
    }
}

fn options(connections: u16) -> SetOptions {
    let link = LinkConfig { backoff_min: Time::from_millis(1), failures_max: 1, ..LinkConfig::default() };
    let (policy, patience) = (Policy::Multiple, Duration::from_secs(60));
    SetOptions { connections, policy, link, patience, bytes_over: BytesOver::Auto, kind: "test".into() }
}

fn directories(paths: Vec<PathBuf>) -> (Box<Directories>, Arc<Mutex<BTreeSet<u16>>>, Arc<AtomicU64>) {
    let (mounted, refused) = (Arc::default(), Arc::default());
    let mounts = Directories { paths, mounted: Arc::clone(&mounted), refused: Arc::clone(&refused) };
    (Box::new(mounts), mounted, refused)
}

#[test]
fn one_that_breaks_is_mounted_again_after_refusals_and_who_waits_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (mounts, mounted, refused) = directories(vec![dir.path().into(); 2]);
    let set = Connections::start(mounts, options(2)).unwrap();
    assert!(set.same_inodes);
    refused.store(u64::MAX, Ordering::Relaxed);
    let file = Mutex::new(set.open(1));
    for number in 0..2 {
        set.failed(&set.root(ConnectionId(number)).unwrap(), Errno::NOTCONN);
    }
    assert_eq!(set.usable(), 0, "both are out");
    refused.store(3, Ordering::Relaxed);
    let request = Request { direction: Direction::Read, bytes: 1, whole: false };
    let choice = set.choose(&file, request, 0).unwrap();
    set.done(Some(&file), Direction::Read, choice.parts[0], Instant::now(), Some(1));
    let until = Instant::now() + Duration::from_secs(60);
    while set.status().connections.iter().any(|c| c.state != "in use") {
        assert!(Instant::now() < until, "{:?}", set.status());
        set.breathe();
    }
    let status = set.status();
    assert_eq!(status.connections.iter().map(|c| (c.failures, c.mounted_again)).collect::<Vec<_>>(), [(1, 1), (1, 1)]);
    assert_eq!(mounted.lock().len(), 2);
    assert_eq!(fs_names(dir.path()), 0, "probe files are gone");
}

#[test]
fn other_directories_are_refused_and_nothing_stays_mounted() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mounts, mounted, _) = directories(vec![a.path().into(), a.path().into(), b.path().into()]);
    let error = Connections::start(mounts, options(3)).err().unwrap().to_string();
    assert!(error.contains("connection 2") && error.contains("does not show the same directory"), "{error}");
    assert!(mounted.lock().is_empty());
    assert_eq!(fs_names(a.path()), 0, "probe files are gone");
}

#[test]
fn the_end_lets_nobody_wait() {
    let dir = tempfile::tempdir().unwrap();
    let (mounts, _, refused) = directories(vec![dir.path().into()]);
    let set = Connections::start(mounts, options(1)).unwrap();
    refused.store(u64::MAX, Ordering::Relaxed);
    set.failed(&set.root(ConnectionId(0)).unwrap(), Errno::NOTCONN);
    let file = Mutex::new(set.open(1));
    std::thread::scope(|scope| {
        let waits =
            scope.spawn(|| set.choose(&file, Request { direction: Direction::Read, bytes: 1, whole: false }, 0));
        set.end();
        assert_eq!(waits.join().unwrap().err(), Some(Errno::NOTCONN));
    });
}

fn fs_names(dir: &std::path::Path) -> usize {
    std::fs::read_dir(dir).unwrap().count()
}
