//! One event: its time, subject (file, target or job), action and reason.

use policy::named;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Targets named on a side, at most: a wide stripe has hundreds.
const TARGETS_MAX: usize = 16;
/// Bytes of a text, at most.
const TEXT_MAX: usize = 1024;

named! {
    /// Subject of an event.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    Kind {
        /// Bytes of a file lie elsewhere now, or could not be moved.
        Move = "move",
        /// Lost bytes come back, or do not.
        Recovery = "recovery",
        /// A target failed, came back, cannot be written, is drained or empty.
        Target = "target",
        /// A node joined, left, or leads.
        Node = "node",
        /// A checkpoint's turn in the burst buffer.
        Burst = "burst",
        /// A file was purged, or a purge ended.
        Purge = "purge",
        /// A scrub ended.
        Scrub = "scrub",
        /// A user or group passed a limit, or fell below it.
        Quota = "quota",
        /// A job's state changed.
        Job = "job",
    }
}

impl Kind {
    /// Whether there may be thousands in a row.
    pub(super) fn is_common(self) -> bool {
        matches!(self, Kind::Move | Kind::Purge | Kind::Job)
    }
}

/// An action of the volume. Unknown or inapplicable fields are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Ascending in the life of a daemon.
    pub number: u64,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// Subject of the event.
    pub kind: Kind,
    /// The file, below the mount point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The user whose file or job it is.
    #[serde(rename = "uid", skip_serializing_if = "Option::is_none")]
    pub owner: Option<u32>,
    /// Number of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<u64>,
    /// The target that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Targets that bytes left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<String>,
    /// Targets where they lie now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// The mechanism that wanted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Cow<'static, str>>,
    /// Description of the action.
    pub what: String,
    /// Reason for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Visible to all users: it names no file.
    #[serde(skip)]
    pub for_all: bool,
}

impl Event {
    /// An event that only operators and, where a file or job is named, its owner see.
    pub fn new(kind: Kind, what: impl Into<String>) -> Event {
        Event {
            number: 0,
            at_ms: 0,
            kind,
            path: None,
            owner: None,
            job: None,
            target: None,
            from: Vec::new(),
            to: Vec::new(),
            by: None,
            what: what.into(),
            why: None,
            for_all: false,
        }
    }

    /// An event that all users may see.
    pub fn for_all(kind: Kind, what: impl Into<String>) -> Event {
        Event { for_all: true, ..Event::new(kind, what) }
    }

    /// Whether the event names that target.
    pub fn names(&self, target: &str) -> bool {
        self.target.iter().chain(&self.from).chain(&self.to).any(|name| name == target)
    }

    /// Limits the event to a few kilobytes.
    pub(super) fn cut(&mut self) {
        self.from.truncate(TARGETS_MAX);
        self.to.truncate(TARGETS_MAX);
        cut(&mut self.what);
        self.why.iter_mut().for_each(cut);
    }

    /// Approximate size in bytes.
    pub(super) fn bytes(&self) -> usize {
        let lists = self.from.iter().chain(&self.to).map(|name| name.len() + size_of::<String>()).sum::<usize>();
        let texts = [&self.path, &self.target, &self.why].into_iter().flatten().map(String::len).sum::<usize>();
        size_of::<Event>() + lists + texts + self.what.len()
    }
}

fn cut(text: &mut String) {
    if text.len() > TEXT_MAX {
        text.truncate(text.floor_char_boundary(TEXT_MAX));
        text.push('…');
    }
}
