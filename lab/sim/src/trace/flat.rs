//! A trace of files as one of a device: each file gets extents of doubling size, in the order of first use.
//!
//! ```text
//!   file:    | 64 KiB | 64 KiB |   128 KiB   |        256 KiB        | ... 64 MiB | 64 MiB | ...
//! ```
//! So small files take little space, large ones have few pieces, and no size must be known in advance.

use super::{Reason, Record};
use std::collections::HashMap;

const FIRST_BYTES: u64 = 64 << 10;
const LARGEST_BYTES: u64 = 64 << 20;

/// Extents of the doubling part: 64 Ki, 64 Ki, 128 Ki, ... 32 Mi; they end at `LARGEST_BYTES`.
const DOUBLING: u64 = (LARGEST_BYTES / FIRST_BYTES).ilog2() as u64 + 1;

/// Maximum of extents, as a bound of memory.
const EXTENTS_MAX: usize = 16 << 20;

/// Assigns addresses on one device to files.
#[derive(Debug, Default)]
pub struct Flat {
    /// Starts of extents by address space and number of the extent.
    extents: HashMap<(u64, u64), u64>,
    end: u64,
}

impl Flat {
    /// Creates an empty device.
    pub fn new() -> Flat {
        Flat::default()
    }

    /// Converts a record to one or more on device 0, without a file, and passes them on. Records without a file keep
    /// their device and address, so they overlap with files placed on the same device.
    pub fn place(&mut self, record: &Record, mut give: impl FnMut(Record)) -> Result<(), Reason> {
        if record.file == 0 || record.length == 0 {
            give(Record { file: 0, ..*record });
            return Ok(());
        }
        let (mut offset, end) = (record.offset, record.end());
        while offset < end {
            let (number, start, size) = extent_of(offset);
            let base = self.extent((record.space(), number), size)?;
            let upto = end.min(start.saturating_add(size));
            let length = (upto - offset) as u32;
            give(Record { offset: base + (offset - start), length, file: 0, device: 0, ..*record });
            offset = upto;
        }
        Ok(())
    }

    fn extent(&mut self, key: (u64, u64), size: u64) -> Result<u64, Reason> {
        if let Some(base) = self.extents.get(&key) {
            return Ok(*base);
        }
        if self.extents.len() >= EXTENTS_MAX {
            return Err(Reason::TooManyNames);
        }
        let base = self.end;
        self.end = base.checked_add(size).ok_or(Reason::BeyondEnd)?;
        self.extents.insert(key, base);
        Ok(base)
    }

    /// Bytes of the device that are assigned to files.
    pub fn end(&self) -> u64 {
        self.end
    }
}

/// Returns the extent of an offset: its number, its start in the file, its size.
fn extent_of(offset: u64) -> (u64, u64, u64) {
    if offset < FIRST_BYTES {
        return (0, 0, FIRST_BYTES);
    }
    if offset < LARGEST_BYTES {
        let number = u64::from((offset / FIRST_BYTES).ilog2()) + 1;
        let size = FIRST_BYTES << (number - 1);
        return (number, size, size);
    }
    let beyond = (offset - LARGEST_BYTES) / LARGEST_BYTES;
    (DOUBLING + beyond, LARGEST_BYTES + beyond * LARGEST_BYTES, LARGEST_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(flat: &mut Flat, file: u32, offset: u64, length: u32) -> Vec<(u64, u32)> {
        let mut seen = Vec::new();
        let r = Record { file, offset, length, ..Record::default() };
        flat.place(&r, |r| seen.push((r.offset, r.length))).unwrap();
        seen
    }

    #[test]
    fn extents_tile_a_file_without_gap() {
        let (mut next, mut number) = (0, 0);
        while next < 4 * LARGEST_BYTES {
            let (n, start, size) = extent_of(next);
            assert_eq!((n, start), (number, next));
            assert_eq!(extent_of(next + size - 1), (n, start, size));
            (next, number) = (next + size, number + 1);
        }
        assert!(extent_of(u64::MAX).1 > 1 << 63);
    }

    #[test]
    fn small_files_lie_side_by_side_and_a_request_over_two_extents_is_cut() {
        let mut flat = Flat::new();
        assert_eq!(placed(&mut flat, 1, 0, 100), [(0, 100)]);
        assert_eq!(placed(&mut flat, 2, 0, 100), [(65_536, 100)]);
        assert_eq!(placed(&mut flat, 1, 65_000, 1000), [(65_000, 536), (131_072, 464)]);
        assert_eq!(placed(&mut flat, 1, 4096, 8), [(4096, 8)]);
        assert_eq!(flat.end(), 3 * 65_536);
    }

    #[test]
    fn no_two_bytes_share_an_address() {
        let mut flat = Flat::new();
        let mut taken = std::collections::BTreeMap::new();
        for file in 1..4u32 {
            for offset in (0..300_000u64).step_by(10_000) {
                for (base, length) in placed(&mut flat, file, offset, 10_000) {
                    for byte in (base..base + u64::from(length)).step_by(997) {
                        assert_eq!(*taken.entry(byte).or_insert(file), file);
                    }
                }
            }
        }
    }
}
