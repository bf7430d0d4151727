//! The checksums of a staged file: one per stripe, BLAKE3 cut to 128 bits, one after the other in `side/ID.sums`.

use crate::source::SUM_BYTES;
use crate::{Error, Result};
use policy::FileId;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, fstat, openat};
use rustix::io::{Errno, pread};

/// Bytes of one checksum, for offsets.
pub(super) const SUM_BYTES_U64: u64 = SUM_BYTES as u64;

/// One checksum.
pub type Sum = [u8; SUM_BYTES];

/// The checksum of a stripe.
pub fn sum_of(stripe: &[u8]) -> Sum {
    cut(blake3::hash(stripe))
}

/// The first bits of a hash.
pub fn cut(hash: blake3::Hash) -> Sum {
    let mut sum = [0; SUM_BYTES];
    sum.copy_from_slice(&hash.as_bytes()[..SUM_BYTES]);
    sum
}

/// The name of a file's checksums in `side`.
pub fn name_of(file: FileId) -> String {
    format!("{file}.sums")
}

/// The open checksums of one file.
pub struct Sums {
    fd: OwnedFd,
    stripe_bytes: u64,
}

impl Sums {
    /// Opens them; `None` if the file has none or they are gone.
    pub fn open(side: impl AsFd, file: FileId, stripe_bytes: u64, size: u64) -> Result<Option<Sums>> {
        if stripe_bytes == 0 {
            return Ok(None);
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match openat(side, name_of(file), flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let expected = size.div_ceil(stripe_bytes) * SUM_BYTES as u64;
        if fstat(&fd)?.st_size as u64 != expected {
            return Err(Error::Invalid(format!("the checksums of file {file} have the wrong length")));
        }
        Ok(Some(Sums { fd, stripe_bytes }))
    }

    /// Bytes that one checksum covers.
    pub fn stripe_bytes(&self) -> u64 {
        self.stripe_bytes
    }

    /// Whether stripe `number` has these bytes.
    pub fn matches(&self, number: u64, stripe: &[u8]) -> Result<bool> {
        let mut expected = [0; SUM_BYTES];
        let mut filled = 0;
        while filled < SUM_BYTES {
            let at = number * SUM_BYTES as u64 + filled as u64;
            match pread(&self.fd, &mut expected[filled..], at) {
                Ok(0) => return Err(Errno::IO.into()),
                Ok(n) => filled += n,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(expected == sum_of(stripe))
    }
}
