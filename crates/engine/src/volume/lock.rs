//! One daemon per volume: exclusive locks on a file in the state directory and on one in the namespace. Both files name
//! their holder.
//!
//! The lock in the state directory keeps a second volume from one state. The lock in the namespace keeps a second
//! daemon from one volume, whatever their state directories are.

use super::problem::{Problem, Problems, Result};
use object::host;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// Upper bound of the text that names the holder of a lock.
const HOLDER_BYTES_MAX: u64 = 4096 + 256;

/// The locks; given back when dropped.
pub struct Lock([File; 2]);

impl Lock {
    /// Gives them back now. A process with a thread that hangs in a device does not end, and keeps its files open.
    pub fn release(&self) {
        for file in &self.0 {
            if let Err(errno) = rustix::fs::flock(file, FlockOperation::Unlock) {
                tracing::warn!("a lock of the volume ends only with this process: {errno}");
            }
        }
    }

    /// Takes both locks, or reports their holder. `shared`: other nodes may have the namespace, but no daemon that
    /// wants it alone.
    pub fn take(state_dir: &Path, namespace: &Path, shared: bool) -> Result<Lock> {
        let holder = format!("{} on {}, with state in {}", std::process::id(), host::name(), state_dir.display());
        let (alone, with_others) = (FlockOperation::NonBlockingLockExclusive, FlockOperation::NonBlockingLockShared);
        let state = lock(&state_dir.join("lock"), &holder, "`state`", alone)?;
        let way = if shared { with_others } else { alone };
        Ok(Lock([state, lock(&namespace.join("lock"), &holder, "`namespace`", way)?]))
    }
}

fn lock(path: &Path, holder: &str, key: &str, way: FlockOperation) -> Result<File> {
    let refused = |cause: String, mend: &str| Problems::one(Problem::new(cause, "the volume is not opened", mend));
    let failed = |errno: Errno| {
        let mend = format!("Put {key} on a file system of yours that has locks (`flock`)");
        refused(format!("{} cannot be locked: {errno}", path.display()), &mend)
    };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?);
    match rustix::fs::flock(&file, way) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let mut text = String::new();
            let _ = (&file).take(HOLDER_BYTES_MAX).read_to_string(&mut text); // without it, the message lacks a number
            let cause = format!("the volume is open already, in process {}", text.trim());
            return Err(refused(cause, "Use that one, or stop it with `entrepot down`"));
        }
        Err(errno) => return Err(failed(errno)),
    }
    let written = file.set_len(0).and_then(|()| writeln!(file, "{holder}"));
    match written {
        // Without the text, a refused daemon's message lacks the holder; a volume with a full namespace must start all
        // the same.
        Err(error) if error.raw_os_error() == Some(Errno::NOSPC.raw_os_error()) => Ok(file),
        Err(error) => Err(failed(error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))),
        Ok(()) => Ok(file),
    }
}
