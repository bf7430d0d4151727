//! Record of a quota in the volume's state: subject, limits, start of an excess, and usage.

use crate::Result;
use crate::control::QuotaOf;
use meta::records;
use meta::state::State;
use policy::Time;
use policy::quota::{Both, Limit, Limits, Resource, Standing};
use serde::{Deserialize, Serialize};

/// Kind of the records.
const KIND: &str = "quota";

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
}

/// All recorded quotas. A volume that lacks one is better than no volume: a damaged one is logged and left out.
pub fn all(state: &dyn State) -> Result<Vec<(QuotaOf, Record)>> {
    let named = |(key, record): (String, Record)| {
        let of = parse_key(&key);
        if of.is_none() {
            tracing::error!("a quota with the key \"{key}\", which is not valid, is not enforced");
        }
        Some((of?, record))
    };
    Ok(records::all(state, KIND)?.into_iter().filter_map(named).collect())
}

/// Writes the record of a quota.
pub fn put(state: &dyn State, of: &QuotaOf, record: &Record) -> Result<()> {
    records::put(state, KIND, &key(of), record)
}

/// Removes the record of a quota.
pub fn remove(state: &dyn State, of: &QuotaOf) -> Result<()> {
    state.record_remove(KIND, &key(of)).map(drop)
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
pub fn parse_key(key: &str) -> Option<QuotaOf> {
    match key.split_once(':')? {
        ("user", uid) => uid.parse().map(QuotaOf::User).ok(),
        ("group", gid) => gid.parse().map(QuotaOf::Group).ok(),
        ("directory", path) => Some(QuotaOf::Directory(path.into())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meta::state::SqliteState;
    use std::collections::BTreeSet;

    #[test]
    fn what_is_written_is_read_again() {
        let limit = Limit { soft: Some(80), hard: None };
        let limits = Limits { of: Both { bytes: limit, files: Limit::default() }, grace: Time::from_secs(60) };
        let (since, until) = (Time::from_secs(1_700_000_000), Time::from_secs(1_700_000_060));
        let standing = Both { bytes: Standing::Over { since, until }, files: Standing::Within };
        let record = Record::new(limits, standing, Some(Both { bytes: 90, files: 1 }));
        let state = SqliteState::in_memory().expect("memory");
        let subjects = [
            QuotaOf::User(7),
            QuotaOf::Group(8),
            QuotaOf::Directory("a/b: c".into()),
            QuotaOf::Directory(String::new()),
        ];
        subjects.iter().for_each(|of| put(&state, of, &record).expect("written"));
        state.record_put(KIND, "user:8", b"{").expect("written");
        state.record_put(KIND, "world", b"{}").expect("written");
        let (named, read): (BTreeSet<_>, Vec<_>) = all(&state).expect("read").into_iter().unzip();
        assert_eq!(named, BTreeSet::from(subjects.clone()));
        let read = read[0];
        assert_eq!((read.limits(), read.since().bytes), (limits, Some(since)));
        assert_eq!((read.since().files, read.used()), (None, Some(Both { bytes: 90, files: 1 })));
        subjects.iter().for_each(|of| remove(&state, of).expect("removed"));
        assert!(all(&state).expect("read").is_empty() && parse_key("user:x").is_none());
    }
}
