//! Sizes and spans as people write them: `4MiB`, `5s`, or plain numbers of bytes and seconds.

use std::time::Duration;

const SIZES: &[(&str, u64)] = &[
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1000),
    ("KB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
    ("B", 1),
    ("", 1),
];

const SPANS_NS: &[(&str, u64)] = &[
    ("ms", 1_000_000),
    ("us", 1000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("", 1_000_000_000),
];

/// Bytes of a text such as `64KiB`, `1.5 GB` or `4096`.
pub fn parse_size(text: &str) -> Option<u64> {
    scaled(text, SIZES)
}

/// Span of a text such as `500ms`, `2min` or `5`.
pub fn parse_span(text: &str) -> Option<Duration> {
    scaled(text, SPANS_NS).map(Duration::from_nanos)
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let &(_, scale) = units.iter().find(|(name, _)| *name == unit.trim())?;
    match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(scale),
        Err(_) => {
            let value = number.parse::<f64>().ok()? * scale as f64;
            (value < u64::MAX as f64).then_some(value as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [("4MiB", 4 << 20), ("64 KiB", 65_536), ("1.5GB", 1_500_000_000), ("4096", 4096), ("0", 0)]
        {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["", "MiB", "4 bananas", "-1", "99999999999TiB", "1.2.3M"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn spans() {
        for (text, ms) in [("5s", 5000), ("500ms", 500), ("2min", 120_000), ("0.5", 500), ("1h", 3_600_000)] {
            assert_eq!(parse_span(text), Some(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(parse_span("5 parsecs"), None);
    }
}
