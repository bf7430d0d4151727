//! Answers of the daemon: it serializes them, and clients [`read`] them.

mod accounting;
mod checkpoint;
mod events;
mod find;
mod layout;
mod nodes;
mod quotas;
mod reports;
mod status;
mod targets;

pub use accounting::{Accounting, JobAccount, JobNumber, UserAccount};
pub use checkpoint::{Abandoned, Application, Begun, Burst, Committed, Restart, Versions};
pub use events::EventLine;
pub use find::{File, Search};
pub use layout::{Change, Explanation, Layout, Merged, Mirror, Object, Segment};
pub use nodes::{Life, Node, Nodes};
pub use quotas::{Quota, Quotas, Usage, UsageState};
pub use reports::{Balance, Check, Dump, Scrub, Source};
pub use status::{
    FilesAway, HotSegment, Leftovers, Mover, Note, QuotaCounts, Repair, Stats, Status, Stripes, Tiering, TieringCounts,
};
pub use targets::{Target, Targets, Tier};

use super::Problem;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An answer in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Text {
    pub text: String,
}

/// An answer without content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {}

/// Parses an answer.
pub fn read<T: DeserializeOwned>(answer: Value) -> Result<T, Problem> {
    serde_json::from_value(answer).map_err(|error| {
        Problem::failed(format!("the daemon's answer is not understood: {error}"))
            .try_this("use the `entrepot` of the same version as the daemon")
    })
}
