//! Answers of `quota.*`.

use crate::control::QuotaOf;
use serde::{Deserialize, Serialize};

/// Quotas and their use.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Quotas {
    pub rows: Vec<Quota>,
    /// Whether usage is being counted.
    pub looking: bool,
}

/// The quota of one subject.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Quota {
    /// `user`, `group` or `directory`.
    pub of: String,
    #[serde(flatten)]
    pub subject: QuotaOf,
    /// Name of the subject, added by the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub grace_s: u64,
    pub bytes: Usage,
    pub files: Usage,
}

/// Use and limits of one resource.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// `None`: not counted yet.
    pub used: Option<u64>,
    pub soft: Option<u64>,
    pub hard: Option<u64>,
    pub state: UsageState,
    pub over_since_ms: Option<u64>,
    pub may_grow_until_ms: Option<u64>,
}

/// State of one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UsageState {
    #[default]
    Unknown,
    Within,
    /// Over the soft limit, within the grace.
    Over,
    /// At the hard limit.
    Full,
    /// Over the soft limit for longer than the grace.
    Expired,
}
