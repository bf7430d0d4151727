//! Read-ahead from a target that lies on another Entrepot mount. A second handle, opened with `O_NOATIME`, marks its
//! reads as prefetches for the volume below. It needs no protocol, and has no effect elsewhere.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use std::io::IoSliceMut;
use std::sync::OnceLock;

/// Limit of buffers of one system call.
const IOV_MAX: usize = 1024;

/// Second handle of an object, opened with the first prefetch.
pub struct Second(OnceLock<Option<OwnedFd>>);

impl Second {
    /// Starts unopened; never opens unless the object lies on an Entrepot mount.
    pub fn new(on_entrepot: bool) -> Second {
        Second(if on_entrepot { OnceLock::new() } else { OnceLock::from(None) })
    }

    /// The second handle; `None` where it makes no difference or the open failed (`EPERM`: not the owner).
    fn fd(&self, first: BorrowedFd<'_>) -> Option<BorrowedFd<'_>> {
        let open = || {
            let flags = OFlags::RDONLY | OFlags::NOATIME | OFlags::CLOEXEC;
            let path = crate::host::descriptor_path(first);
            let opened = rustix::fs::openat(CWD, path, flags, Mode::empty());
            opened.inspect_err(|error| tracing::debug!(%error, "prefetches of an object are not marked")).ok()
        };
        self.0.get_or_init(open).as_ref().map(AsFd::as_fd)
    }

    /// Reads into all buffers, those behind the first `demand_bytes` through the second handle. Returns the bytes read,
    /// fewer only at the end of the object.
    pub fn read(
        &self,
        first: BorrowedFd<'_>,
        offset: u64,
        buffers: &mut [IoSliceMut<'_>],
        demand_bytes: usize,
    ) -> Result<usize, Errno> {
        let mut demanded = 0;
        let ahead = buffers.iter().position(|buffer| {
            demanded += buffer.len();
            demanded > demand_bytes
        });
        let Some(second) = ahead.and_then(|_| self.fd(first)) else { return read_all(first, offset, buffers) };
        let (front, back) = buffers.split_at_mut(ahead.unwrap_or(0));
        let wanted: usize = front.iter().map(|buffer| buffer.len()).sum();
        let read = if wanted > 0 { read_all(first, offset, front)? } else { 0 };
        if read < wanted {
            return Ok(read);
        }
        Ok(read + read_all(second, offset + read as u64, back)?)
    }
}

fn read_all(fd: BorrowedFd<'_>, offset: u64, mut buffers: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
    let mut done = 0;
    loop {
        IoSliceMut::advance_slices(&mut buffers, 0); // empty buffers request nothing
        if buffers.is_empty() {
            return Ok(done);
        }
        let some = buffers.len().min(IOV_MAX);
        match retry_on_intr(|| rustix::io::preadv(fd, &mut buffers[..some], offset + done as u64))? {
            0 => return Ok(done),
            read => {
                done += read;
                IoSliceMut::advance_slices(&mut buffers, read);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_handles_together_read_what_one_would() {
        let dir = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..10_000u32).map(|n| n as u8).collect();
        std::fs::write(dir.path().join("o"), &bytes).unwrap();
        let file = std::fs::File::open(dir.path().join("o")).unwrap();
        for second in [Second::new(false), Second::new(true)] {
            for demand_bytes in [0, 1, 100, 250, 300, 5000, usize::MAX] {
                for offset in [0, 7, 9_900, 20_000] {
                    let mut parts = [[0u8; 100], [0u8; 100], [0u8; 100]];
                    let mut buffers: Vec<IoSliceMut<'_>> = parts.iter_mut().map(|p| IoSliceMut::new(p)).collect();
                    buffers.insert(1, IoSliceMut::new(&mut []));
                    let read = second.read(file.as_fd(), offset, &mut buffers, demand_bytes).unwrap();
                    let end = (offset as usize + 300).min(bytes.len());
                    assert_eq!(
                        parts.concat()[..read],
                        bytes[(offset as usize).min(end)..end],
                        "{offset} {demand_bytes}"
                    );
                }
            }
        }
    }
}
