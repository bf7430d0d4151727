//! Requests to the store: one for each command, with its arguments. Both ends of the socket use them.

use super::wire::Command;
use engine::events::Kind;
use engine::source::Identity;
use engine::stage::{Chosen, ManifestIn, StageIn, StageOut, Wanted};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::PathBuf;

/// A command with its arguments. Paths are relative to the mount's root.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "command", content = "args")]
#[expect(missing_docs, reason = "commands and arguments have the names that the command line has, which explains them")]
pub enum Request {
    #[serde(rename = "status.get")]
    Status {},
    #[serde(rename = "stats.get")]
    Stats {},
    #[serde(rename = "top.get")]
    Top {},
    #[serde(rename = "node.list")]
    Nodes {},
    #[serde(rename = "node.drain")]
    DrainNode { node: String, wait: bool },
    #[serde(rename = "node.restore")]
    RestoreNode { node: String },
    #[serde(rename = "node.forget")]
    ForgetNode { node: String },
    #[serde(rename = "target.list")]
    Targets {},
    #[serde(rename = "target.add")]
    AddTarget { name: String, dir: PathBuf, tier: String },
    #[serde(rename = "target.remove")]
    RemoveTarget { name: String, force: bool },
    #[serde(rename = "target.fail")]
    FailTarget { name: String },
    #[serde(rename = "target.restore")]
    RestoreTarget { name: String },
    #[serde(rename = "target.drain")]
    DrainTarget { name: String, wait: bool },
    /// `spread` is the allowed distance of a target from the mean of its tier, in thousandths.
    #[serde(rename = "balance.start")]
    StartBalance { spread: u64 },
    #[serde(rename = "balance.pause")]
    PauseBalance {},
    #[serde(rename = "balance.resume")]
    ResumeBalance {},
    #[serde(rename = "balance.stop")]
    StopBalance {},
    #[serde(rename = "balance.status")]
    Balance {},
    #[serde(rename = "tiering.pause")]
    PauseTiering {},
    #[serde(rename = "tiering.resume")]
    ResumeTiering {},
    #[serde(rename = "layout.get")]
    Layout { path: String },
    #[serde(rename = "layout.explain")]
    Explain { path: String },
    /// Whether the request of the attribute can be met.
    #[serde(rename = "layout.check")]
    CheckLayout { request: String },
    #[serde(rename = "layout.add-mirror")]
    AddMirror { path: String, tier: Option<String>, stripe_count: Option<usize> },
    #[serde(rename = "layout.drop-mirror")]
    DropMirror { path: String, mirror: usize },
    #[serde(rename = "layout.replace")]
    Replace { path: String, from: String, to: Option<String> },
    #[serde(rename = "layout.move")]
    Move { path: String, mirror: usize, segment: usize, to: Vec<String> },
    #[serde(rename = "layout.resync")]
    Resync { path: String },
    #[serde(rename = "layout.merge")]
    Merge(Merge),
    #[serde(rename = "layout.split")]
    Split { path: String },
    #[serde(rename = "stage.in")]
    StageIn {
        what: StageIn,
        /// Bytes per second, at most.
        limit: Option<u64>,
        identity: Identity,
    },
    #[serde(rename = "stage.in-tree")]
    StageInTree {
        what: StageIn,
        #[serde(default)]
        chosen: Chosen,
        limit: Option<u64>,
        identity: Identity,
    },
    #[serde(rename = "stage.in-manifest")]
    StageInManifest {
        what: ManifestIn,
        #[serde(default)]
        chosen: Chosen,
        limit: Option<u64>,
        identity: Identity,
    },
    /// Preview of staging in.
    #[serde(rename = "stage.look")]
    LookAtStageIn { wanted: Wanted, chosen: Chosen, identity: Identity },
    /// Preview of staging out.
    #[serde(rename = "stage.look-out")]
    LookAtStageOut { what: StageOut, identity: Identity },
    #[serde(rename = "stage.out")]
    StageOut { what: StageOut, limit: Option<u64>, identity: Identity },
    #[serde(rename = "source.get")]
    Source { path: String },
    #[serde(rename = "source.set")]
    SetSource { path: String, uris: Vec<String>, verify: bool, identity: Identity },
    #[serde(rename = "check.run")]
    Check(Check),
    #[serde(rename = "find.run")]
    Find(Find),
    /// Space of the files below a directory, by a key.
    #[serde(rename = "space.get")]
    Space { path: String, by: SpaceBy },
    #[serde(rename = "accounting.show")]
    Accounting(Accounting),
    #[serde(rename = "events.show")]
    Events(Events),
    #[serde(rename = "state.dump")]
    DumpState { file: PathBuf },
    #[serde(rename = "purge.run")]
    Purge {
        #[serde(default)]
        dry_run: bool,
    },
    /// Quotas of the caller, or one quota.
    #[serde(rename = "quota.show")]
    ShowQuota { of: Option<QuotaOf> },
    #[serde(rename = "quota.list")]
    Quotas {},
    #[serde(rename = "quota.set")]
    SetQuota(SetQuota),
    #[serde(rename = "quota.remove")]
    RemoveQuota { of: QuotaOf },
    #[serde(rename = "scrub.run")]
    Scrub(Scrub),
    #[serde(rename = "checkpoint.begin")]
    BeginCheckpoint(BeginCheckpoint),
    #[serde(rename = "checkpoint.commit")]
    CommitCheckpoint { app: String, abandon: bool },
    /// Facts about an application from another client than the application.
    #[serde(rename = "checkpoint.about")]
    AboutApplication { app: String, mtbf_s: Option<u64>, nodes: Option<u64> },
    #[serde(rename = "checkpoint.list")]
    Checkpoints { app: Option<String> },
    #[serde(rename = "checkpoint.restart")]
    RestartFrom { app: String },
    /// Facts about an application, and the checkpoint interval derived from them.
    #[serde(rename = "checkpoint.advise")]
    Advise { app: String },
    #[serde(rename = "checkpoint.status")]
    BurstBuffer {},
    #[serde(rename = "trace.record")]
    RecordTrace(RecordTrace),
    #[serde(rename = "daemon.down")]
    Down { force: bool },
}

impl Request {
    /// The request of a command with its arguments, as they arrive.
    pub(crate) fn of(command: &str, args: Value) -> serde_json::Result<Request> {
        let args = if args.is_null() { Value::Object(Map::new()) } else { args };
        serde_json::from_value(serde_json::to_value(Command { command, args })?)
    }
}

/// Files to be merged, and their new layout.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Merge {
    /// The first file.
    pub path: String,
    /// The files to append.
    pub others: Vec<String>,
    /// Stripe size of the merged file, in bytes.
    pub stripe_size: Option<u64>,
    /// Number of targets to stripe over.
    pub stripe_count: Option<usize>,
    /// Tier of the merged file.
    pub tier: Option<String>,
}

/// Scope of a check, and what it repairs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Check {
    /// Repair the findings.
    pub repair: bool,
    /// The paths are the input of a job.
    pub before_job: bool,
    /// Read every byte.
    pub deep: bool,
    /// Remove objects that no file names, even if they may be younger than a restored backup.
    pub drop_unknown: bool,
    /// Files and directories; everything if there is none.
    pub paths: Vec<String>,
}

/// Search for files. All given conditions must hold.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Find {
    /// The directory to look in.
    pub path: String,
    /// Target that holds a part of the file.
    pub target: Option<String>,
    /// Tier that holds a part of the file.
    pub tier: Option<String>,
    /// User id of the owner.
    pub uid: Option<u32>,
    /// Minimum time since the last use, in seconds.
    pub older_s: Option<u64>,
    /// Maximum time since the last use, in seconds.
    pub newer_s: Option<u64>,
    /// Minimum size, in bytes, exclusive.
    pub larger: Option<u64>,
    /// State of the file's bytes.
    pub state: Option<FindState>,
}

/// Key by which the space of files is summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SpaceBy {
    /// Owner of the files.
    #[default]
    User,
    /// Time since the last use.
    Age,
    /// Directory directly below the given one.
    Dir,
}

/// Selection of accounts. A day is a number of days since 1970, in UTC.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Accounting {
    /// Key of the rows.
    pub by: AccountingBy,
    /// First day of the span.
    pub since_day: Option<u64>,
    /// Last day of the span; today at the latest.
    pub until_day: Option<u64>,
    /// Only the account of this user.
    pub uid: Option<u32>,
}

/// Key by which accounts are summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccountingBy {
    /// A row for each user.
    #[default]
    User,
    /// A row for each job.
    Job,
}

/// State of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FindState {
    /// No mirror in sync lies whole on targets that serve.
    Away,
    /// A mirror missed a write.
    Stale,
    /// An object is being recovered.
    Partial,
    /// Fewer than two mirrors are in sync.
    Unmirrored,
}

/// Selection of events of the volume. All conditions must hold.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Events {
    /// Continue with new events.
    pub follow: bool,
    /// Start, in milliseconds since 1970.
    pub from_ms: Option<u64>,
    /// Only events that name this target.
    pub target: Option<String>,
    /// Only events of these kinds; all kinds if empty.
    pub kinds: Vec<Kind>,
    /// Resume point: the daemon of the last answer, and the number of its last event.
    pub after: Option<(u64, u64)>,
}

/// Limits of a recording of reads and writes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RecordTrace {
    /// Duration, in seconds.
    pub seconds: u64,
    /// Size of the recording, in bytes.
    pub bytes_max: u64,
}

/// A pass over all files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Scrub {
    /// Start at the first file, even if an earlier pass was stopped.
    pub anew: bool,
    /// Maximum rate in bytes per second, instead of `[scrub] rate`; 0: no limit.
    pub rate: Option<u64>,
    /// Report the last pass or the progress of the running one, and do nothing else.
    pub status: bool,
}

/// Start of a checkpoint version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BeginCheckpoint {
    /// Name of the application.
    pub app: String,
    /// The version's name.
    pub label: String,
    /// Files at or below these belong to it.
    pub paths: Vec<String>,
    /// Expected bytes; 0 if unknown.
    pub bytes: u64,
    /// Mean time between failures of the application, in seconds.
    pub mtbf_s: Option<u64>,
    /// Number of nodes that the application uses.
    pub nodes: Option<u64>,
}

/// Subject of a quota.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuotaOf {
    /// A user, by id.
    User(u32),
    /// A group, by id.
    Group(u32),
    /// All files below a directory, by its path.
    Directory(String),
}

/// Change of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NewLimit {
    /// The new limit.
    At(u64),
    /// No limit any more.
    Off,
}

/// Limits to set; what is not named stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetQuota {
    /// Subject of the limits.
    pub of: QuotaOf,
    /// Soft limit of bytes.
    pub soft: Option<NewLimit>,
    /// Hard limit of bytes.
    pub hard: Option<NewLimit>,
    /// Soft limit of files.
    pub files_soft: Option<NewLimit>,
    /// Hard limit of files.
    pub files_hard: Option<NewLimit>,
    /// Time for which a soft limit may be exceeded.
    pub grace_s: Option<u64>,
}
