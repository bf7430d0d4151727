//! The checksums of a file: one per stripe, BLAKE3 cut to 128 bits, one after the other in `side/ID.sums` for a staged file and in
//! `side/ID.closed` for one that was closed. The second begins with the name under which its stub has them.

use crate::source::SUM_BYTES;
use crate::{Error, Result};
use policy::FileId;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags, fstat, openat};
use rustix::io::{Errno, pread};

/// Bytes of one checksum, for offsets.
pub const SUM_BYTES_U64: u64 = SUM_BYTES as u64;

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

/// The name in `side` of checksums that were made when a file was closed.
pub fn name_of_closed(file: FileId) -> String {
    format!("{file}.closed")
}

/// The name in `side` of such checksums while they are made.
pub fn name_of_closing(file: FileId, id: &str) -> String {
    format!("{file}.{id}.closing")
}

/// Bytes of the name under which checksums were made, at the start of those of a closed file.
pub const ID_BYTES: usize = 32;

/// What the stub says of the checksums of a closed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Closed {
    /// 1.
    pub format: u32,
    /// Bytes that one checksum covers.
    pub stripe_bytes: u64,
    /// Of how many bytes they are.
    pub size: u64,
}

impl Closed {
    /// Those of so many bytes.
    pub fn of(stripe_bytes: u64, size: u64) -> Closed {
        Closed { format: 1, stripe_bytes, size }
    }
}

/// The open checksums of one file.
pub struct Sums {
    fd: OwnedFd,
    stripe_bytes: u64,
    /// Where the first is.
    start: u64,
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
        Ok(Some(Sums { fd, stripe_bytes, start: 0 }))
    }

    /// Opens those of a closed file, as its stub has them; `None` if they are gone or of another time.
    pub fn open_closed(side: impl AsFd, file: FileId, id: &str, of: &Closed) -> Result<Option<Sums>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match openat(side, name_of_closed(file), flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        if of.format != 1 || of.stripe_bytes == 0 {
            return Ok(None);
        }
        let start = ID_BYTES as u64;
        let sums = Sums { fd, stripe_bytes: of.stripe_bytes, start };
        let mut made_under = [0; ID_BYTES];
        let expected = start + of.size.div_ceil(of.stripe_bytes) * SUM_BYTES as u64;
        let same = fstat(&sums.fd)?.st_size as u64 == expected && id.len() == ID_BYTES;
        Ok((same && sums.fill(0, &mut made_under).is_ok() && made_under == *id.as_bytes()).then_some(sums))
    }

    /// Bytes that one checksum covers.
    pub fn stripe_bytes(&self) -> u64 {
        self.stripe_bytes
    }

    /// Whether stripe `number` has these bytes.
    pub fn matches(&self, number: u64, stripe: &[u8]) -> Result<bool> {
        let mut expected = [0; SUM_BYTES];
        self.fill(self.start + number * SUM_BYTES as u64, &mut expected)?;
        Ok(expected == sum_of(stripe))
    }

    fn fill(&self, at: u64, buf: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while filled < buf.len() {
            match pread(&self.fd, &mut buf[filled..], at + filled as u64) {
                Ok(0) => return Err(Errno::IO.into()),
                Ok(n) => filled += n,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }
}
