//! Fields of a text line: split without allocation, numbers without rounding.

use super::Reason;

/// Splits at runs of blanks.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];
    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.0.iter().position(|b| !b.is_ascii_whitespace())?;
        let rest = &self.0[start..];
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        self.0 = &rest[end..];
        Some(&rest[..end])
    }
}

/// Splits at a separator; blanks around a field are removed.
pub struct Separated<'a> {
    rest: Option<&'a [u8]>,
    by: u8,
}

impl<'a> Separated<'a> {
    /// Splits a line into fields.
    pub fn new(line: &'a [u8], by: u8) -> Separated<'a> {
        Separated { rest: Some(line), by }
    }
}

impl<'a> Iterator for Separated<'a> {
    type Item = &'a [u8];
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        // Fields are short: a plain loop is faster than memchr.
        let field = match rest.iter().position(|b| *b == self.by) {
            Some(at) => {
                self.rest = Some(&rest[at + 1..]);
                &rest[..at]
            }
            None => {
                self.rest = None;
                rest
            }
        };
        Some(field.trim_ascii())
    }
}

/// Returns the next field, or an error.
pub fn need<'a>(fields: &mut impl Iterator<Item = &'a [u8]>) -> Result<&'a [u8], Reason> {
    fields.next().ok_or(Reason::FieldsMissing)
}

/// Parses a whole number.
pub fn integer(field: &[u8]) -> Result<u64, Reason> {
    // Any number of so many digits fits.
    const FITS: usize = 19;
    let (head, tail) = field.split_at(field.len().min(FITS));
    let (mut value, mut all_digits) = (0u64, !field.is_empty());
    for byte in head {
        let digit = byte.wrapping_sub(b'0');
        all_digits &= digit <= 9;
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
    }
    if !all_digits || !tail.iter().all(u8::is_ascii_digit) {
        let negative = field.strip_prefix(b"-").is_some_and(|of| !of.is_empty() && of.iter().all(u8::is_ascii_digit));
        return Err(if negative { Reason::OutOfRange } else { Reason::NotANumber });
    }
    let add = |value: u64, byte: &u8| value.checked_mul(10)?.checked_add(u64::from(byte - b'0'));
    tail.iter().try_fold(value, add).ok_or(Reason::OutOfRange)
}

/// Parses a whole number of at most 32 bits.
pub fn integer32(field: &[u8]) -> Result<u32, Reason> {
    u32::try_from(integer(field)?).map_err(|_| Reason::OutOfRange)
}

/// Parses a time as a decimal number of some unit, in nanoseconds; finer digits are truncated.
pub fn time_ns(field: &[u8], unit_ns: u64) -> Result<u64, Reason> {
    let dot = field.iter().position(|b| !b.is_ascii_digit()).unwrap_or(field.len());
    let (whole, fraction) = field.split_at(dot);
    match fraction {
        [] => integer(whole)?.checked_mul(unit_ns).ok_or(Reason::OutOfRange),
        [b'.', digits @ ..] if digits.iter().all(u8::is_ascii_digit) && !(whole.is_empty() && digits.is_empty()) => {
            let whole = if whole.is_empty() { 0 } else { integer(whole)? };
            let (mut part_ns, mut place_ns) = (0, unit_ns);
            for digit in digits {
                if place_ns < 10 {
                    break;
                }
                place_ns /= 10;
                part_ns += u64::from(digit - b'0') * place_ns;
            }
            let whole_ns = whole.checked_mul(unit_ns).ok_or(Reason::OutOfRange)?;
            whole_ns.checked_add(part_ns).ok_or(Reason::OutOfRange)
        }
        _ => scientific_ns(field, unit_ns),
    }
}

/// Parses the rare `1.5e-05` of traces written by scripts.
#[cold]
fn scientific_ns(field: &[u8], unit_ns: u64) -> Result<u64, Reason> {
    let allowed = |b: &u8| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-');
    if !field.iter().all(allowed) {
        return Err(Reason::NotANumber);
    }
    let text = std::str::from_utf8(field).map_err(|_| Reason::NotANumber)?;
    let ns = text.parse::<f64>().map_err(|_| Reason::NotANumber)? * unit_ns as f64;
    if !(0.0..u64::MAX as f64).contains(&ns) {
        return Err(Reason::OutOfRange);
    }
    Ok(ns as u64)
}

/// Converts a number of blocks to bytes, as an offset.
pub fn blocks_offset(blocks: u64, block_bytes: u32) -> Result<u64, Reason> {
    blocks.checked_mul(u64::from(block_bytes)).ok_or(Reason::BeyondEnd)
}

/// Converts a number of blocks to bytes, as a length.
pub fn blocks_length(blocks: u64, block_bytes: u32) -> Result<u32, Reason> {
    let bytes = blocks.checked_mul(u64::from(block_bytes)).ok_or(Reason::OutOfRange)?;
    u32::try_from(bytes).map_err(|_| Reason::OutOfRange)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_split_as_the_formats_mean_it() {
        assert_eq!(Fields(b"  a\tbc  d ").collect::<Vec<_>>(), [&b"a"[..], b"bc", b"d"]);
        assert_eq!(Fields(b" ").next(), None);
        assert_eq!(Separated::new(b" 1, 2 ,,x", b',').collect::<Vec<_>>(), [&b"1"[..], b"2", b"", b"x"]);
    }

    #[test]
    fn whole_numbers_have_their_bounds() {
        assert_eq!(integer(b"18446744073709551615"), Ok(u64::MAX));
        assert_eq!(integer(b"18446744073709551616"), Err(Reason::OutOfRange));
        assert_eq!(integer(b"-5"), Err(Reason::OutOfRange));
        for bad in [&b""[..], b"-", b"--5", b"5x", b"+5", b"1.0"] {
            assert_eq!(integer(bad), Err(Reason::NotANumber), "{}", String::from_utf8_lossy(bad));
        }
        assert_eq!(integer32(b"4294967296"), Err(Reason::OutOfRange));
    }

    #[test]
    fn times_are_exact_to_the_nanosecond() {
        let second = 1_000_000_000;
        assert_eq!(time_ns(b"3601.002824624", second), Ok(3_601_002_824_624));
        assert_eq!(time_ns(b"0.1", second), Ok(100_000_000));
        assert_eq!(time_ns(b".5", second), Ok(500_000_000));
        assert_eq!(time_ns(b"7.", 1_000_000), Ok(7_000_000));
        assert_eq!(time_ns(b"1.9999999999999", 1), Ok(1));
        assert_eq!(time_ns(b"0.0000000019", second), Ok(1));
        assert_eq!(time_ns(b"1.5e-05", second), Ok(15_000));
        assert_eq!(time_ns(b"-1.0", second), Err(Reason::OutOfRange));
        assert_eq!(time_ns(b"99999999999", second), Err(Reason::OutOfRange));
        assert_eq!(time_ns(b"1e400", second), Err(Reason::OutOfRange));
        for bad in [&b""[..], b".", b"1.2.3", b"abc", b"nan", b"inf", b"1,0", b"e"] {
            assert_eq!(time_ns(bad, second), Err(Reason::NotANumber), "{}", String::from_utf8_lossy(bad));
        }
    }
}
