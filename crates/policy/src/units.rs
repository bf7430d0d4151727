//! Sizes and spans of time in text: `64MiB`, `1.5GB`, `500ms`, `2min`. The one grammar of volume.toml, job scripts,
//! both command lines and grids, and the one format of output.

/// Units of sizes, without regard to case.
const SIZES: [(&str, u64); 14] = [
    ("", 1),
    ("b", 1),
    ("kb", 1000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("t", 1 << 40),
    ("tib", 1 << 40),
];

/// Units of spans, in nanoseconds; a bare number is in seconds.
const SPANS: [(&str, u64); 9] = [
    ("", 1_000_000_000),
    ("ns", 1),
    ("us", 1000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Parses bytes such as `64KiB`, `1.5 GB` or `4096`; `None` if the text is invalid or the number too large.
pub fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text);
    scaled(number, *SIZES.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name)).map(|(_, scale)| scale)?)
}

/// Parses bytes per second such as `100MiB/s` or `100MiB`.
pub fn rate(text: &str) -> Option<u64> {
    let text = text.trim();
    bytes(text.strip_suffix("/s").unwrap_or(text))
}

/// Parses a span such as `500ms`, `2min` or `5` into nanoseconds; `None` if the text is invalid or the number too
/// large.
pub fn span_ns(text: &str) -> Option<u64> {
    let (number, unit) = split(text);
    scaled(number, *SPANS.iter().find(|(name, _)| unit == *name).map(|(_, scale)| scale)?)
}

/// Splits a number from the unit behind it.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// Scales a number: a whole one exactly, a fraction to the nearest.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(scale),
        Err(_) => {
            let value = number.parse::<f64>().ok()? * scale as f64;
            (value < u64::MAX as f64).then_some(value.round() as u64)
        }
    }
}

/// Formats a size with a binary unit and about three digits.
pub fn show_bytes(n: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 || value >= 100.0 {
        format!("{value:.0} {}", UNITS[unit])
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// Formats a number of things: `1 file`, `2 files`.
pub fn show_count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Formats a span in its two largest units; without the second one if that is zero.
pub fn show_span_s(seconds: u64) -> String {
    let (large, unit, small, smaller) = match seconds {
        0..60 => (seconds, "s", 0, ""),
        60..3600 => (seconds / 60, "min", seconds % 60, "s"),
        3600..86_400 => (seconds / 3600, "h", seconds % 3600 / 60, "min"),
        _ => (seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
    };
    if small == 0 { format!("{large} {unit}") } else { format!("{large} {unit} {small} {smaller}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, n) in [("4MiB", 4 << 20), ("64 KiB", 65_536), ("1.5GB", 1_500_000_000), ("4096", 4096), ("0", 0)] {
            assert_eq!(bytes(text), Some(n), "{text}");
        }
        for (text, n) in [("64k", 65_536), ("64kib", 65_536), ("2kB", 2000), ("0.3KiB", 307), ("0.7KiB", 717)] {
            assert_eq!(bytes(text), Some(n), "{text}");
        }
        assert_eq!(
            ["100MiB/s", "5 kB", "0", "/s", "1MiB/h"].map(rate),
            [Some(100 << 20), Some(5000), Some(0), None, None]
        );
        for text in ["", "MiB", "4 bananas", "-1", "99999999999TiB", "1.2.3M", "1e3", "."] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }

    #[test]
    fn spans_are_read() {
        for (text, us) in [("5s", 5_000_000), ("500ms", 500_000), ("2min", 120_000_000), ("2m", 120_000_000)] {
            assert_eq!(span_ns(text), Some(us * 1000), "{text}");
        }
        for (text, s) in [("1h", 3600), ("30d", 2_592_000), ("5", 5), ("0", 0)] {
            assert_eq!(span_ns(text), Some(s * 1_000_000_000), "{text}");
        }
        assert_eq!([span_ns("0.5"), span_ns("0.03ms"), span_ns("7ns")], [Some(500_000_000), Some(30_000), Some(7)]);
        for text in ["", "s", "5 parsecs", "5S", "-1s", "99999999999999d"] {
            assert_eq!(span_ns(text), None, "{text}");
        }
    }

    #[test]
    fn both_read_well_when_shown() {
        let shown = [0, 1023, 1536, 150 << 20].map(show_bytes);
        assert_eq!(shown, ["0 B", "1023 B", "1.5 KiB", "150 MiB"]);
        assert_eq!(show_bytes(u64::MAX), "16.0 EiB");
        assert_eq!([0, 59, 61, 90_000].map(show_span_s), ["0 s", "59 s", "1 min 1 s", "1 d 1 h"]);
        assert_eq!([120, 7200, 172_800].map(show_span_s), ["2 min", "2 h", "2 d"]);
    }
}
