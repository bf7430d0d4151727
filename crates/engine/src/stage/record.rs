//! Progress of a staging in the state store: only durable units count as done.

use crate::source::Version;

/// Progress of one file, stored under the key of its staging.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Progress {
    /// Destination in the mount.
    pub path: String,
    /// The source that the version is of.
    pub uri: String,
    /// Version of the source at the start.
    pub version: Version,
    /// Bytes of one unit: whole stripes.
    pub unit_bytes: u64,
    /// Units that are fetched, written and synced: one bit each, in hexadecimal digits, the first unit lowest.
    pub done: String,
}

/// A set of units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Units(Vec<u8>);

impl Units {
    pub fn none(count: u64) -> Units {
        Units(vec![0; count.div_ceil(8) as usize])
    }

    pub fn contains(&self, unit: u64) -> bool {
        self.0.get((unit / 8) as usize).is_some_and(|byte| byte >> (unit % 8) & 1 == 1)
    }

    pub fn insert(&mut self, unit: u64) {
        self.0[(unit / 8) as usize] |= 1 << (unit % 8);
    }

    pub fn to_text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Parses a set of `count` units; `None` if the text is malformed.
    pub fn parse(text: &str, count: u64) -> Option<Units> {
        let digits = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(digits).collect();
        bytes.filter(|bytes| bytes.len() as u64 == count.div_ceil(8)).map(Units)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let mut units = Units::none(19);
        [0, 7, 8, 18].into_iter().for_each(|unit| units.insert(unit));
        assert_eq!(Units::parse(&units.to_text(), 19), Some(units.clone()));
        assert!((0..19).all(|u| units.contains(u) == [0, 7, 8, 18].contains(&u)));
        for bad in ["zz0000", "0000", "00000", "é0000"] {
            assert_eq!(Units::parse(bad, 19), None, "{bad}");
        }
    }
}
