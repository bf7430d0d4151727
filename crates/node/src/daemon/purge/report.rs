//! Report of a purge or of its preview.

use policy::protect::purge::{Reason, Stats};
use serde::{Deserialize, Serialize};

/// A file that the purge removed, or that a dry run would remove.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Purged {
    /// Its path relative to the mount's root.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Reason of the removal.
    pub reason: String,
    /// The rule that selected the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Location of other copies of its bytes.
    pub elsewhere: String,
    /// Whether its bytes are lost with it.
    pub only_here: bool,
}

/// Sums of one rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RuleSum {
    /// Name of the rule.
    pub name: String,
    /// Number of files.
    pub files: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Number of files whose bytes have no other copy.
    pub only_here_files: u64,
    /// Bytes of the files without another copy.
    pub only_here_bytes: u64,
}

/// Report of a purge or of its preview.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PurgeReport {
    /// Whether nothing was removed.
    pub dry_run: bool,
    /// The files, in the order of their removal.
    pub files: Vec<Purged>,
    /// Sums of each rule, in the order of the file.
    pub rules: Vec<RuleSum>,
    /// Number of files scanned.
    pub seen: u64,
    /// Files kept because of `[purge] keep`.
    pub kept_by_exception: u64,
    /// Files kept because a waiting or running job needs them.
    pub kept_for_jobs: u64,
    /// Files kept because their bytes have no other copy.
    pub kept_unsaved: u64,
    /// Files kept because they are open or being staged.
    pub kept_open: u64,
    /// Files left because they changed between the scan and the removal.
    pub left: u64,
    /// Number of bytes removed.
    pub bytes: u64,
    /// Further remarks for the operator.
    pub notes: Vec<String>,
}

impl PurgeReport {
    /// An empty report.
    pub(super) fn new(dry_run: bool, rules: &[String]) -> PurgeReport {
        let rules = rules.iter().map(|name| RuleSum { name: name.clone(), ..RuleSum::default() }).collect();
        PurgeReport { dry_run, rules, ..PurgeReport::default() }
    }

    /// The name of the rule, if the reason is one.
    pub(super) fn rule(&self, reason: Reason) -> Option<String> {
        match reason {
            Reason::Rule { rule, .. } => self.rules.get(rule).map(|sum| sum.name.clone()),
            _ => None,
        }
    }

    /// Adds a file that was removed, or would be.
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

    /// Applies the counters of the state machine.
    pub(super) fn counted(&mut self, stats: Stats) {
        let Stats { seen, excepted, needed, unsafe_, open, left, removed_bytes, .. } = stats;
        (self.seen, self.kept_by_exception, self.kept_for_jobs) = (seen, excepted, needed);
        (self.kept_unsaved, self.kept_open) = (unsafe_, open);
        (self.left, self.bytes) = (left, removed_bytes);
    }

    /// Reason of a removal, for people.
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
