//! Nodes that open one volume: one after the other, so that what is new is formatted once, and a number that one is about to write down
//! is not taken for one that was lost.

use crate::{Error, Result};
use rustix::fd::OwnedFd;
use rustix::fs::{self, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::path::Path;
use std::time::{Duration, Instant};

const DIRECTORY: &str = "nodes";
const LOCK: &str = "join";
/// How long to wait for others that open it. A guess: several start at once, and each takes seconds.
const WAIT: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);

/// Whether several nodes ever had the volume of a namespace.
pub fn had_nodes(namespace: &Path) -> bool {
    namespace.join(DIRECTORY).is_dir()
}

/// Where the leases of nodes are.
pub fn nodes_directory(namespace: &Path) -> Result<OwnedFd> {
    let path = namespace.join(DIRECTORY);
    match fs::mkdir(&path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    Ok(fs::open(&path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Keeps other nodes from opening the volume until it is dropped.
pub fn join(namespace: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let file = fs::openat(nodes_directory(namespace)?, LOCK, flags, Mode::RUSR | Mode::WUSR)?;
    let until = Instant::now() + WAIT;
    loop {
        match fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK) if Instant::now() < until => std::thread::sleep(LOOK),
            Err(Errno::WOULDBLOCK) => {
                return Err(Error::Elsewhere("it opens the volume and does not come to an end".into()));
            }
            Err(errno) => return Err(errno.into()),
        }
    }
}
