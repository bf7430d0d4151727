//! Checksums of a file: one per stripe, BLAKE3 truncated to 128 bits, in `side/ID.sums` for a staged file and in
//! `side/ID.closed` for a closed one. The latter begins with the id that the stub has for them.

use crate::source::SUM_BYTES;
use crate::{Error, Result};
use object::host::fstat;
use policy::FileId;
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes of one checksum, for offsets.
pub const SUM_BYTES_U64: u64 = SUM_BYTES as u64;

/// Checksum of one stripe.
pub type Sum = [u8; SUM_BYTES];

/// Computes the checksum of a stripe.
pub fn sum_of(stripe: &[u8]) -> Sum {
    cut(blake3::hash(stripe))
}

/// Truncates a hash to the size of a checksum.
pub fn cut(hash: blake3::Hash) -> Sum {
    let mut sum = [0; SUM_BYTES];
    sum.copy_from_slice(&hash.as_bytes()[..SUM_BYTES]);
    sum
}

/// Name in `side` of a staged file's checksums.
pub fn name_of(file: FileId) -> String {
    format!("{file}.sums")
}

/// Name in `side` of the checksums of a closed file.
pub fn name_of_closed(file: FileId) -> String {
    format!("{file}.closed")
}

/// Name in `side` of such checksums while they are computed.
pub fn name_of_closing(file: FileId, id: &str) -> String {
    format!("{file}.{id}.closing")
}

/// Bytes of the id at the start of the checksums of a closed file.
pub const ID_BYTES: usize = 32;

/// Description of a closed file's checksums, kept in its stub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Closed {
    /// Format number, always 1.
    pub format: u32,
    /// Bytes that one checksum covers.
    pub stripe_bytes: u64,
    /// Bytes of the file that they cover in total.
    pub size: u64,
}

impl Closed {
    /// Describes the checksums of `size` bytes.
    pub fn of(stripe_bytes: u64, size: u64) -> Closed {
        Closed { format: 1, stripe_bytes, size }
    }
}

/// Open checksums of one file.
pub struct Sums {
    file: File,
    stripe_bytes: u64,
    /// Offset of the first checksum.
    start: u64,
}

impl Sums {
    /// Opens the checksums of a staged file; `None` if it has none or they are missing.
    pub fn open(side: impl AsFd, file: FileId, stripe_bytes: u64, size: u64) -> Result<Option<Sums>> {
        if stripe_bytes == 0 {
            return Ok(None);
        }
        let Some(sums) = open_in(side, &name_of(file))? else { return Ok(None) };
        let expected = size.div_ceil(stripe_bytes) * SUM_BYTES_U64;
        if fstat(&sums)?.st_size as u64 != expected {
            return Err(Error::Invalid(format!("the checksums of file {file} have the wrong length")));
        }
        Ok(Some(Sums { file: sums, stripe_bytes, start: 0 }))
    }

    /// Opens the checksums of a closed file that its stub describes; `None` if they are missing or have another id.
    pub fn open_closed(side: impl AsFd, file: FileId, id: &str, of: &Closed) -> Result<Option<Sums>> {
        let Some(file) = open_in(side, &name_of_closed(file))? else { return Ok(None) };
        if of.format != 1 || of.stripe_bytes == 0 {
            return Ok(None);
        }
        let start = ID_BYTES as u64;
        let sums = Sums { file, stripe_bytes: of.stripe_bytes, start };
        let mut made_under = [0; ID_BYTES];
        let expected = start + of.size.div_ceil(of.stripe_bytes) * SUM_BYTES as u64;
        let same = fstat(&sums.file)?.st_size as u64 == expected && id.len() == ID_BYTES;
        Ok((same && sums.fill(0, &mut made_under).is_ok() && made_under == *id.as_bytes()).then_some(sums))
    }

    /// Bytes that one checksum covers.
    pub fn stripe_bytes(&self) -> u64 {
        self.stripe_bytes
    }

    /// Whether the checksum of stripe `number` fits these bytes.
    pub fn matches(&self, number: u64, stripe: &[u8]) -> Result<bool> {
        let mut expected = [0; SUM_BYTES];
        self.fill(self.start + number * SUM_BYTES as u64, &mut expected)?;
        Ok(expected == sum_of(stripe))
    }

    fn fill(&self, at: u64, buf: &mut [u8]) -> Result<()> {
        let read = self.file.read_exact_at(buf, at);
        read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO).into())
    }
}

fn open_in(side: impl AsFd, name: &str) -> Result<Option<File>> {
    match openat(side, name, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT) => Ok(None),
        opened => Ok(Some(opened?.into())),
    }
}
