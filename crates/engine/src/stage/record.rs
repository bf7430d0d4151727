//! Progress of a staging in the state store: only durable units count as done.

use super::sources::Sources;
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
    /// Versions of the further sources at the start, by URI: fetched units may have their bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<(String, Version)>,
    /// Bytes of one unit: whole stripes.
    pub unit_bytes: u64,
    /// Units that are fetched, written and synced: one bit each, in hexadecimal digits, the first unit lowest.
    pub done: String,
}

impl Progress {
    /// Records the versions of further sources.
    pub fn add(&mut self, sources: &Sources) {
        for (place, _) in &sources.list {
            if self.version_of(&place.uri).is_none() {
                self.others.push((place.uri.clone(), place.version.clone()));
            }
        }
    }

    /// URI of a source whose version differs from the recorded one.
    pub fn changed<'a>(&self, sources: &'a Sources) -> Option<&'a str> {
        let mut places = sources.list.iter().map(|(place, _)| place);
        let changed = places.find(|place| self.version_of(&place.uri).is_some_and(|was| *was != place.version));
        changed.map(|place| place.uri.as_str())
    }

    fn version_of(&self, uri: &str) -> Option<&Version> {
        let others = || self.others.iter().find(|(other, _)| other == uri).map(|(_, version)| version);
        if uri == self.uri { Some(&self.version) } else { others() }
    }
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
