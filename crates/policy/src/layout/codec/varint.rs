//! Varints: numbers in seven bits a byte, lowest first, with the top bit set on all but the last byte.
//!
//! Each number has one valid encoding; longer ones are refused, so that equal layouts have equal records. Signed
//! differences are folded to unsigned ones (0, -1, 1, -2, ... become 0, 1, 2, 3, ...).

use super::CodecError;

/// Appends a number to the record.
pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the difference from `from` to `to`, which may wrap around.
pub(super) fn put_delta(out: &mut Vec<u8>, from: u64, to: u64) {
    let delta = to.wrapping_sub(from) as i64;
    put(out, ((delta << 1) ^ (delta >> 63)) as u64);
}

/// Error for an invalid byte in a record whose checksum matches.
pub(super) fn malformed(at: usize) -> CodecError {
    CodecError::Bad(format!("the layout record is not valid at byte {at}"))
}

/// Reads numbers from untrusted bytes.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from position `at` on.
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Reader<'a> {
        Reader { bytes, at }
    }

    /// Returns the error for the last position read.
    pub(super) fn malformed(&self) -> CodecError {
        malformed(self.at)
    }

    pub(super) fn byte(&mut self) -> Result<u8, CodecError> {
        let byte = *self.bytes.get(self.at).ok_or_else(|| self.malformed())?;
        self.at += 1;
        Ok(byte)
    }

    pub(super) fn number(&mut self) -> Result<u64, CodecError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            let overlong = byte == 0 && shift > 0;
            if overlong || (bits << shift) >> shift != bits {
                return Err(self.malformed());
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.malformed())
    }

    /// Reads a number that is stored as a difference from `from`.
    pub(super) fn delta(&mut self, from: u64) -> Result<u64, CodecError> {
        let folded = self.number()?;
        let delta = (folded >> 1) ^ (folded & 1).wrapping_neg();
        Ok(from.wrapping_add(delta))
    }

    /// Reads a count of items, each of at least `bytes_min` bytes. A count that exceeds the record is refused, so that
    /// no record causes allocations beyond a small multiple of its own size.
    pub(super) fn count(&mut self, bytes_min: usize) -> Result<usize, CodecError> {
        let count = self.number()?;
        let left = self.bytes.len() - self.at;
        match usize::try_from(count) {
            Ok(count) if count.saturating_mul(bytes_min) <= left => Ok(count),
            _ => Err(self.malformed()),
        }
    }

    /// Checks that no bytes follow.
    pub(super) fn end(&self) -> Result<(), CodecError> {
        if self.at == self.bytes.len() { Ok(()) } else { Err(self.malformed()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_encodings() {
        for (value, expect) in
            [(0, &[0][..]), (127, &[0x7f]), (128, &[0x80, 1]), (300, &[0xac, 2]), (1 << 20, &[0x80, 0x80, 0x40])]
        {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!(out, expect, "{value}");
        }
        for (from, to, expect) in [(5, 5, 0), (5, 4, 1), (5, 6, 2), (0, u64::MAX, 1)] {
            let mut out = Vec::new();
            put_delta(&mut out, from, to);
            assert_eq!(out, [expect], "{from} to {to}");
        }
    }

    #[test]
    fn overlong_overflowing_and_cut_off_numbers_are_refused() {
        for bytes in [&[0x80, 0][..], &[0xff, 0x80, 0], &[0xff; 11], &[0x80; 3], &[]] {
            assert!(Reader::new(bytes, 0).number().is_err(), "{bytes:?}");
        }
        let over = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2];
        assert!(Reader::new(&over, 0).number().is_err());
    }

    proptest! {
        #[test]
        fn numbers_and_differences_come_back(a in any::<u64>(), shift in 0u32..64, b in any::<u64>()) {
            let a = a >> shift;
            let mut out = Vec::new();
            put(&mut out, a);
            put_delta(&mut out, a, b);
            let mut reader = Reader::new(&out, 0);
            prop_assert_eq!(reader.number(), Ok(a));
            prop_assert_eq!(reader.delta(a), Ok(b));
            prop_assert_eq!(reader.end(), Ok(()));
        }
    }
}
