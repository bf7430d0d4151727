//! Record of a quota in the volume's state: subject, limits, start of an excess, and usage.

use crate::control::QuotaOf;
use crate::{Error, Result};
use policy::Time;
use policy::quota::{Both, Limit, Limits, Resource, Standing};
use serde::{Deserialize, Serialize};

/// Kind of the records.
pub const KIND: &str = "quota";

const NS_PER_MS: u64 = 1_000_000;

/// A quota in its stored form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    bytes_soft: Option<u64>,
    bytes_hard: Option<u64>,
    files_soft: Option<u64>,
    files_hard: Option<u64>,
    grace_s: u64,
    /// Start of the excess, in milliseconds since 1970.
    bytes_over_since_ms: Option<u64>,
    files_over_since_ms: Option<u64>,
    bytes_used: Option<u64>,
    files_used: Option<u64>,
}

impl Record {
    /// A record of these values.
    pub fn new(limits: Limits, standing: Both<Standing>, used: Option<Both<u64>>) -> Record {
        let since = |resource| standing.of(resource).since().map(|since| since.0 / NS_PER_MS);
        let Both { bytes, files } = limits.of;
        Record {
            bytes_soft: bytes.soft,
            bytes_hard: bytes.hard,
            files_soft: files.soft,
            files_hard: files.hard,
            grace_s: limits.grace.0 / 1_000_000_000,
            bytes_over_since_ms: since(Resource::Bytes),
            files_over_since_ms: since(Resource::Files),
            bytes_used: used.map(|used| used.bytes),
            files_used: used.map(|used| used.files),
        }
    }

    /// The recorded limits.
    pub fn limits(&self) -> Limits {
        let bytes = Limit { soft: self.bytes_soft, hard: self.bytes_hard };
        let files = Limit { soft: self.files_soft, hard: self.files_hard };
        Limits { of: Both { bytes, files }, grace: Time::from_secs(self.grace_s) }
    }

    /// Start of the excess over a soft limit.
    pub fn since(&self) -> Both<Option<Time>> {
        let time = |ms: Option<u64>| ms.map(|ms| Time(ms.saturating_mul(NS_PER_MS)));
        Both { bytes: time(self.bytes_over_since_ms), files: time(self.files_over_since_ms) }
    }

    /// Usage at the time of the record.
    pub fn used(&self) -> Option<Both<u64>> {
        self.bytes_used.zip(self.files_used).map(|(bytes, files)| Both { bytes, files })
    }

    /// Serializes the record.
    pub fn to_bytes(self) -> Vec<u8> {
        serde_json::to_vec(&self).expect("numbers")
    }

    /// # Errors
    /// The record is damaged.
    pub fn parse(bytes: &[u8]) -> Result<Record> {
        serde_json::from_slice(bytes).map_err(|error| Error::State(format!("a record of a quota is damaged: {error}")))
    }
}

/// Key of a subject.
pub fn key(of: &QuotaOf) -> String {
    match of {
        QuotaOf::User(uid) => format!("user:{uid}"),
        QuotaOf::Group(gid) => format!("group:{gid}"),
        QuotaOf::Directory(path) => format!("directory:{path}"),
    }
}

/// Parses the key of a subject.
pub fn parse_key(key: &str) -> Result<QuotaOf> {
    let of = match key.split_once(':') {
        Some(("user", uid)) => uid.parse().map(QuotaOf::User).ok(),
        Some(("group", gid)) => gid.parse().map(QuotaOf::Group).ok(),
        Some(("directory", path)) => Some(QuotaOf::Directory(path.into())),
        _ => None,
    };
    of.ok_or_else(|| Error::State(format!("a record of a quota has the key \"{key}\", which is not valid")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let limit = Limit { soft: Some(80), hard: None };
        let limits = Limits { of: Both { bytes: limit, files: Limit::default() }, grace: Time::from_secs(60) };
        let (since, until) = (Time::from_secs(1_700_000_000), Time::from_secs(1_700_000_060));
        let standing = Both { bytes: Standing::Over { since, until }, files: Standing::Within };
        let record = Record::new(limits, standing, Some(Both { bytes: 90, files: 1 }));
        let read = Record::parse(&record.to_bytes()).expect("whole");
        assert_eq!((read.limits(), read.since().bytes), (limits, Some(since)));
        assert_eq!((read.since().files, read.used()), (None, Some(Both { bytes: 90, files: 1 })));
        assert!(Record::parse(b"{").is_err());
        for of in [
            QuotaOf::User(7),
            QuotaOf::Group(8),
            QuotaOf::Directory("a/b: c".into()),
            QuotaOf::Directory(String::new()),
        ] {
            assert_eq!(parse_key(&key(&of)).expect("a name"), of);
        }
        assert!(parse_key("user:x").is_err() && parse_key("world").is_err());
    }
}
