//! Upgrade of a namespace to the format of holders, at the first mount by several nodes. No node uses the volume.

use super::namespace::{HOLDERS, read_format, write_format};
use meta::descent::Descent;
use meta::stub::real::FdStub;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use std::path::Path;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Upgrades all stubs, then the format. An interrupted upgrade starts again. `progress` is called for each file.
pub(super) fn upgrade(namespace: &Path, mut progress: impl FnMut()) -> Result<(), String> {
    if read_format(namespace)? >= HOLDERS {
        return Ok(());
    }
    let root = rustix::fs::open(namespace, DIRECTORY, Mode::empty()).map_err(|errno| errno.to_string())?;
    let mut files = 0;
    for part in ["tree", "staging", "open"] {
        let below = match openat(&root, part, DIRECTORY, Mode::empty()) {
            Err(Errno::NOENT) => continue,
            opened => opened.map_err(|errno| format!("{part}: {errno}"))?,
        };
        for met in Descent::new(&below).map_err(|errno| format!("{part}: {errno}"))? {
            let met = met.map_err(|errno| format!("a directory below {part}: {errno}"))?;
            if met.inode.is_none() {
                let shown = || format!("{part}/.../{}", met.name.to_string_lossy());
                let stub = FdStub::met(&met, namespace, true).map_err(|errno| format!("{}: {errno}", shown()))?;
                stub.map_or(Ok(()), |stub| stub.upgrade()).map_err(|error| format!("{}: {error}", shown()))?;
                files += 1;
                progress();
            }
        }
    }
    if files > 0 {
        tracing::info!(files, "the volume's files have the format of this version: older ones cannot open it any more");
    }
    write_format(namespace, HOLDERS).map_err(|error| error.to_string())
}
