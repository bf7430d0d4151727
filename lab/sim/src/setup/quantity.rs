//! Parser of sizes and times: `5%`, `64MiB`, `1000` blocks; `6ms`, `0.03ms`, `1s`.

use super::SetupError;
use policy::time::Time;
use policy::units;
use std::str::FromStr;

/// The size of a level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Size {
    /// Number of blocks.
    Blocks(u64),
    /// Number of bytes.
    Bytes(u64),
    /// A percentage of the footprint (first level) or of the level above.
    Percent(f64),
}

impl Size {
    /// Converts to blocks of `block_bytes`, rounded down, where 100 % is `whole`.
    pub fn blocks(self, whole: u64, block_bytes: u64) -> u64 {
        match self {
            Size::Blocks(blocks) => blocks,
            Size::Bytes(bytes) => bytes / block_bytes,
            // Two decimals of a percent are kept exactly; a floating-point product may fall short of a whole number.
            Size::Percent(percent) => (u128::from(whole) * (percent * 1e6).round() as u128 / 100_000_000) as u64,
        }
    }
}

impl FromStr for Size {
    type Err = SetupError;

    fn from_str(text: &str) -> Result<Size, SetupError> {
        let why = "a size is a percentage like 5%, bytes like 64MiB, or a number of blocks like 1000";
        let wrong = || SetupError::new("size", text, why);
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.trim().parse().map_err(|_| wrong())?;
            let sane = percent.is_finite() && percent > 0.0 && percent <= 1e6;
            return if sane { Ok(Size::Percent(percent)) } else { Err(wrong()) };
        }
        match text.parse::<u64>() {
            Ok(0) => Err(wrong()),
            Ok(blocks) => Ok(Size::Blocks(blocks)),
            Err(_) => size_bytes("size", text).map(Size::Bytes).map_err(|_| wrong()),
        }
    }
}

/// Parses a size in bytes, from one to 10^18.
pub fn size_bytes(what: &'static str, text: &str) -> Result<u64, SetupError> {
    let bytes = units::bytes(text).filter(|bytes| (1..=MOST).contains(bytes));
    bytes.ok_or_else(|| SetupError::new(what, text, "sizes are like 4096, 64KiB, 10GB"))
}

/// Parses a time; the unit is required except for 0.
pub fn duration(what: &'static str, text: &str) -> Result<Time, SetupError> {
    let bare = text.trim().ends_with(|c: char| c.is_ascii_digit() || c == '.') && text.trim() != "0";
    let ns = units::span_ns(text).filter(|ns| !bare && *ns <= MOST);
    let why = "times are like 6ms, 0.03ms, 33us, 1s, 5min, 3.5h, 30d";
    ns.map(Time).ok_or_else(|| SetupError::new(what, text, why))
}

/// Limit of sizes in bytes and times in nanoseconds.
const MOST: u64 = 1_000_000_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_sizes_of_the_published_grid() {
        // Reference, section 5: footprints in MiB, sizes in blocks of 4 KiB.
        let of = |text: &str, whole| text.parse::<Size>().unwrap().blocks(whole, 4096);
        let footprints = [("OLTP", 529u64), ("Web", 8392), ("Multi", 792)];
        let expected = [
            ([6771, 13542, 6771, 677, 338], [1354, 2708, 1354, 135, 67]),
            ([107_417, 214_834, 107_417, 10_741, 5370], [21_483, 42_966, 21_483, 2148, 1074]),
            ([10_137, 20_274, 10_137, 1013, 506], [2027, 4054, 2027, 202, 101]),
        ];
        for ((name, mib), (high, low)) in footprints.into_iter().zip(expected) {
            let blocks = mib * 256;
            for (share, expected) in [("5%", high), ("1%", low)] {
                let upper = of(share, blocks);
                let lower = ["200%", "100%", "10%", "5%"].map(|share| of(share, upper));
                assert_eq!([upper, lower[0], lower[1], lower[2], lower[3]], expected, "{name} {share}");
            }
        }
    }

    #[test]
    fn sizes_and_times_in_words() {
        assert_eq!("64MiB".parse::<Size>().unwrap().blocks(0, 4096), 16_384);
        assert_eq!("1000".parse::<Size>().unwrap(), Size::Blocks(1000));
        assert_eq!(size_bytes("x", "10GB").unwrap(), 10_000_000_000);
        assert_eq!(duration("x", "0.03ms").unwrap(), Time(30_000));
        assert_eq!(duration("x", "0").unwrap(), Time::ZERO);
        for wrong in ["", "-5%", "0%", "5 apples", "0", "1e400%"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
        assert!(duration("x", "5").is_err());
        assert!(duration("x", "-5ms").is_err());
    }
}
