//! One daemon per volume: an exclusive lock on a file in the state directory, which says who holds it.

use super::problem::{Problem, Problems};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::io::{Read, Write};
use std::path::Path;

/// The lock; given back when dropped.
pub struct Lock(std::fs::File);

impl Lock {
    /// Gives it back now. A process with a thread that hangs in a device does not end, and keeps its files open.
    pub fn release(&self) {
        if let Err(errno) = rustix::fs::flock(&self.0, FlockOperation::Unlock) {
            tracing::warn!("the lock of the volume ends only with this process: {errno}");
        }
    }

    /// Takes it, or says who has it.
    pub fn take(state_dir: &Path) -> Result<Lock, Problems> {
        let path = state_dir.join("lock");
        let refused = |cause: String, mend: &str| Problems::one(Problem::new(cause, "the volume is not opened", mend));
        let failed = |errno: Errno| {
            refused(
                format!("{} cannot be locked: {errno}", path.display()),
                "Put `state` on a local file system of yours",
            )
        };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut file = std::fs::File::from(rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?);
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                let _ = (&file).take(32).read_to_string(&mut pid); // without it, the message lacks a number
                let cause = format!("the volume is open already, in process {}", pid.trim());
                return Err(refused(cause, "Use that one, or stop it with `entrepot down`"));
            }
            Err(errno) => return Err(failed(errno)),
        }
        let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(|error| failed(error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)))?;
        Ok(Lock(file))
    }
}
