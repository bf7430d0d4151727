//! What a purge did, or would do.

use policy::protect::purge::{Reason, Stats};
use serde::{Deserialize, Serialize};

/// A file that was removed, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Purged {
    /// Its path relative to the mount's root.
    pub path: String,
    /// Its size.
    pub bytes: u64,
    /// Why.
    pub reason: String,
    /// The rule that takes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Where its bytes are.
    pub elsewhere: String,
    /// Its bytes are lost with it.
    pub only_here: bool,
}

/// What one rule takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleSum {
    /// The rule.
    pub name: String,
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of these, files whose bytes are nowhere else.
    pub only_here_files: u64,
    /// Their bytes.
    pub only_here_bytes: u64,
}

/// What a purge did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PurgeReport {
    /// Whether nothing was removed.
    pub dry_run: bool,
    /// The files, in the order of their removal.
    pub files: Vec<Purged>,
    /// What each rule takes, in the order of the file.
    pub rules: Vec<RuleSum>,
    /// Files looked at.
    pub seen: u64,
    /// Kept because `[purge] keep` says so.
    pub kept_by_exception: u64,
    /// Kept because a job that waits or runs needs them.
    pub kept_for_jobs: u64,
    /// Kept because their bytes are nowhere else.
    pub kept_unsaved: u64,
    /// Kept because somebody has them open, or they are being staged.
    pub kept_open: u64,
    /// Left because they changed between the look and the removal.
    pub left: u64,
    /// Bytes removed.
    pub bytes: u64,
    /// What else is to be known.
    pub notes: Vec<String>,
}

impl PurgeReport {
    /// Nothing yet.
    pub(super) fn new(dry_run: bool, rules: &[String]) -> PurgeReport {
        let rules = rules.iter().map(|name| RuleSum { name: name.clone(), ..RuleSum::default() }).collect();
        PurgeReport { dry_run, rules, ..PurgeReport::default() }
    }

    /// The name of the rule, where it is one.
    pub(super) fn rule(&self, reason: Reason) -> Option<String> {
        match reason {
            Reason::Rule { rule, .. } => self.rules.get(rule).map(|sum| sum.name.clone()),
            _ => None,
        }
    }

    /// A file went, or would.
    pub(super) fn add(&mut self, file: Purged, reason: Reason) {
        if let Reason::Rule { rule, .. } = reason
            && let Some(sum) = self.rules.get_mut(rule)
        {
            let lost = u64::from(file.only_here);
            (sum.files, sum.bytes) = (sum.files + 1, sum.bytes + file.bytes);
            (sum.only_here_files, sum.only_here_bytes) =
                (sum.only_here_files + lost, sum.only_here_bytes + lost * file.bytes);
        }
        self.files.push(file);
    }

    /// What the machine counted.
    pub(super) fn counted(&mut self, stats: Stats) {
        let Stats { seen, excepted, needed, unsafe_, open, left, removed_bytes, .. } = stats;
        (self.seen, self.kept_by_exception, self.kept_for_jobs) = (seen, excepted, needed);
        (self.kept_unsaved, self.kept_open) = (unsafe_, open);
        (self.left, self.bytes) = (left, removed_bytes);
    }

    /// Why a file goes, for people.
    pub(super) fn why(&self, reason: Reason) -> String {
        let unused =
            |unused: policy::Time| format!("unused for {}", policy::units::show_span_s(unused.0 / 1_000_000_000));
        match reason {
            Reason::Rule { unused: span, .. } => {
                format!("rule {}: {}", self.rule(reason).unwrap_or_default(), unused(span))
            }
            Reason::Age(span) => unused(span),
            Reason::Space(percent) => format!("{percent} % of the space are used"),
        }
    }
}
