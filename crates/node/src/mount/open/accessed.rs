//! Times of access: a file that is read gets one at the close, at most once a day. Without it, the purge would remove
//! files that are only read.
//!
//! The kernel reads its own pages and passed-through objects without the daemon. So an open for reading counts as a
//! read, except with `O_NOATIME`. A time that a user sets while the file is open stays.
//!
//! Where the namespace's file system records reads, one read of the stub sets the time and leaves the time of change as
//! it is, on which incremental backups rely.

use super::Open;
use crate::mount::Server;
use meta::namespace::times::SetTime;
use object::host::{descriptor_path, remembered};
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::UNIX_EPOCH;

/// Least age of a time of access that a read replaces, in seconds; as with `relatime`.
const AGE_S: i64 = 86_400;

/// Latest known time of access, in seconds since 1970.
#[derive(Default)]
pub struct Accessed(AtomicI64);

/// Whether a handle with these flags counts as a reader.
pub fn is_reading(flags: OFlags) -> bool {
    !flags.intersects(OFlags::WRONLY | OFlags::NOATIME)
}

fn now_s() -> i64 {
    UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs() as i64)
}

/// Reads a byte of the stub through a descriptor without `O_NOATIME`.
fn read_stub(open: &Open) {
    let stub = openat(CWD, descriptor_path(open.stub()), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let read = stub.and_then(|stub| rustix::io::pread(stub, &mut [0; 1], 0));
    if let Err(error) = read {
        tracing::debug!(%error, node = open.id, "the stub is not read");
    }
}

impl Open {
    /// Records that a user has set the time of access.
    pub fn access_time_is_set(&self) {
        self.accessed.0.store(now_s(), Ordering::Relaxed);
    }
}

impl Server {
    /// Sets the time of access of a file that was read, if the present one is older than a day.
    pub(super) fn was_read(&self, open: &Open) {
        let now = now_s();
        let is_recent = |accessed: i64| now - accessed < AGE_S;
        if is_recent(open.accessed.0.load(Ordering::Relaxed)) {
            return;
        }
        // The kernel's copy, since a shared file system would be asked at each close.
        let known = || remembered(open.stub()).map_or(now, |stat| stat.st_atime);
        let mut accessed = known();
        if !is_recent(accessed) && !open.file.is_shared() {
            read_stub(open);
            accessed = known();
        }
        if !is_recent(accessed) {
            let _changing = self.parts.namespace.changing_of(open.id);
            let held = self.parts.namespace.hold(open.id, Some(open.stub()));
            if let Err(error) = held.and_then(|held| held.set_times(Some(SetTime::Now), None)) {
                tracing::debug!(%error, node = open.id, "the time of access is not set");
            }
            accessed = now;
        }
        open.accessed.0.store(accessed, Ordering::Relaxed);
    }
}
