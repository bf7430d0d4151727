//! Copying a range from one file to another (or within one), holes as zeros.

use super::File;
use crate::{Error, Result};
use rustix::io::Errno;
use std::sync::Arc;

/// Bytes per step. A guess: large enough to stripe, small enough to keep.
const STEP_BYTES: u64 = 1 << 20;

impl File {
    /// Copies up to `len` bytes; returns the number, smaller only at the end of `from`. An error after some bytes
    /// returns their number, as the system call does.
    pub fn copy_range(self: &Arc<Self>, from: &Arc<File>, off_in: u64, off_out: u64, len: u64) -> Result<u64> {
        Self::check_range(off_in, len)?;
        Self::check_range(off_out, len)?;
        let overlaps = off_in < off_out.saturating_add(len) && off_out < off_in.saturating_add(len);
        if Arc::ptr_eq(self, from) && overlaps && len > 0 {
            return Err(Error::Namespace(Errno::INVAL));
        }
        // Bytes that this call adds to the same file are not copied, so its end is read now.
        let len = len.min(from.size().saturating_sub(off_in));
        let mut buf = vec![0; STEP_BYTES.min(len) as usize];
        let mut done = 0;
        while done < len {
            let step = STEP_BYTES.min(len - done) as usize;
            let read = match from.read(off_in + done, &mut buf[..step]) {
                Ok(0) => break,
                Ok(read) => read,
                Err(_) if done > 0 => break,
                Err(e) => return Err(e),
            };
            match self.write(off_out + done, &buf[..read]) {
                Ok(()) => done += read as u64,
                Err(_) if done > 0 => break,
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }
}
