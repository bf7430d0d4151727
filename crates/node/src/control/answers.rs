//! Answers of the daemon: it serializes them, and clients [`read`] them.

mod accounting;
mod checkpoint;
mod events;
mod find;
mod layout;
mod nodes;
mod quotas;
mod reports;
mod space;
mod status;
mod targets;
mod trace;

pub use accounting::{Accounting, JobAccount, JobFacts, JobNumber, Used, UserAccount};
pub use checkpoint::{Abandoned, Application, Begun, Burst, Committed, MtbfFrom, Restart, Row, Versions};
pub use events::EventLine;
pub use find::{File, Search};
pub use layout::{Change, Explanation, Heat, Layout, Merged, Mirror, Object, Segment, SegmentHeat};
pub use nodes::{Life, Node, Nodes};
pub use quotas::{Quota, Quotas, Usage, UsageState};
pub use reports::{Balance, BalanceOutcome, BalanceRun, Check, Dump, Pass, Scrub, Source};
pub use space::{Space, SpaceRow, Sum};
pub use status::{
    Facts, FilesAway, HotSegment, Leftovers, Mover, MoverCounts, Note, QuotaCounts, Repair, Stats, Status, Stripes,
    Tiering, TieringCounts,
};
pub use targets::{Target, Targets, Tier};
pub use trace::{RecordEnd, TraceLines, TraceRecord};

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

/// Serializes an answer.
pub fn write(answer: &(impl Serialize + ?Sized)) -> Value {
    serde_json::to_value(answer).expect("names are texts")
}

/// Parses an answer.
pub fn read<T: DeserializeOwned>(answer: Value) -> Result<T, Problem> {
    serde_json::from_value(answer).map_err(|error| {
        Problem::failed(format!("the daemon's answer is not valid: {error}"))
            .try_this("use the `entrepot` of the same version as the daemon")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::QuotaOf;
    use engine::recovery::Left;
    use serde_json::json;

    /// The same JSON after it was read, and the value that was read.
    fn again<T: Serialize + DeserializeOwned>(json: Value) -> T {
        let value: T = read(json.clone()).expect("an answer");
        assert_eq!(json!(value), json);
        value
    }

    #[test]
    fn parts_without_a_fixed_form_keep_their_json() {
        let usage = json!(Usage::default());
        let quota = json!({"of": "group", "group": 7, "grace_s": 1, "bytes": usage, "files": usage});
        assert_eq!(again::<Quota>(quota).subject, QuotaOf::Group(7));
        let dead = json!({"node": 3, "host": "n3", "mount_point": "/m", "since_ms": 5, "state": "dead"});
        assert!(again::<Node>(dead).life.is_none());
        let left = again::<Leftovers>(json!({"objects": 2, "bytes": 9}));
        assert!(matches!(left, Leftovers::Removed(Left { objects: 2, bytes: 9 })));
        assert!(matches!(again::<Leftovers>(json!({"due": true, "why": null})), Leftovers::Due { why: None, .. }));
        assert!(again::<Tiering>(json!({"policy": "lru", "measuring": true})).counts.is_none());
        let user = json!({"uid": null, "operations": 1, "read_bytes": 2, "written_bytes": 3, "staged_in_bytes": 4,
            "staged_out_bytes": 5, "jobs": 6});
        assert_eq!(again::<UserAccount>(user).used.jobs, 6);
        assert_eq!(again::<JobNumber>(json!("7_1")), JobNumber::Name("7_1".into()));
    }

    #[test]
    fn a_status_has_no_parts_that_its_volume_lacks() {
        let status = json!(Status::default());
        assert!(["nodes", "dead_nodes", "cache", "burst", "left", "file"].iter().all(|key| status.get(key).is_none()));
        assert!(read::<Status>(status).expect("an answer").nodes.is_none());
        let silent = json!(Status { burst: Some(None), ..Status::default() });
        assert_eq!(silent.get("burst"), Some(&Value::Null), "the leader does not answer");
    }
}
