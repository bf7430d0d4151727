//! What is asked of the store: one request for each command, with its arguments. Both ends of the socket use it.

use crate::events::Kind;
use crate::source::Identity;
use crate::stage::{Chosen, ManifestIn, StageIn, StageOut, Wanted};
use serde::{Deserialize, Serialize};
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
    /// `spread` is how far a target may be from its tier's mean, in thousandths.
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
    /// Whether what the attribute would ask for can be met.
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
        #[serde(default)]
        limit: Option<u64>,
        identity: Identity,
    },
    #[serde(rename = "stage.in-tree")]
    StageInTree {
        what: StageIn,
        #[serde(default)]
        chosen: Chosen,
        #[serde(default)]
        limit: Option<u64>,
        identity: Identity,
    },
    #[serde(rename = "stage.in-manifest")]
    StageInManifest {
        what: ManifestIn,
        #[serde(default)]
        chosen: Chosen,
        #[serde(default)]
        limit: Option<u64>,
        identity: Identity,
    },
    /// What staging in would do.
    #[serde(rename = "stage.look")]
    LookAtStageIn { wanted: Wanted, chosen: Chosen, identity: Identity },
    /// What staging out would do.
    #[serde(rename = "stage.look-out")]
    LookAtStageOut { what: StageOut, identity: Identity },
    #[serde(rename = "stage.out")]
    StageOut {
        what: StageOut,
        #[serde(default)]
        limit: Option<u64>,
        identity: Identity,
    },
    #[serde(rename = "source.get")]
    Source { path: String },
    #[serde(rename = "source.set")]
    SetSource { path: String, uris: Vec<String>, verify: bool, identity: Identity },
    #[serde(rename = "check.run")]
    Check(Check),
    #[serde(rename = "find.run")]
    Find(Find),
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
    /// Those of the caller, or one.
    #[serde(rename = "quota.show")]
    ShowQuota {
        #[serde(default)]
        of: Option<QuotaOf>,
    },
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
    /// What somebody else than the application knows of it.
    #[serde(rename = "checkpoint.about")]
    AboutApplication { app: String, mtbf_s: Option<u64>, nodes: Option<u64> },
    #[serde(rename = "checkpoint.list")]
    Checkpoints { app: Option<String> },
    #[serde(rename = "checkpoint.restart")]
    RestartFrom { app: String },
    /// What is known of an application, and the interval that follows from it.
    #[serde(rename = "checkpoint.advise")]
    Advise { app: String },
    #[serde(rename = "checkpoint.status")]
    BurstBuffer {},
    #[serde(rename = "daemon.down")]
    Down { force: bool },
}

/// Files to be merged.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Merge {
    /// The first.
    pub path: String,
    /// Further files.
    pub others: Vec<String>,
    /// Bytes of one turn.
    pub stripe_size: Option<u64>,
    /// Targets to stripe them over.
    pub stripe_count: Option<usize>,
    /// The tier to lie on.
    pub tier: Option<String>,
}

/// What is to be looked at, and what is to be set right.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Check {
    /// Set right what is wrong.
    pub repair: bool,
    /// The paths are the input of a job.
    pub before_job: bool,
    /// Read every byte.
    pub deep: bool,
    /// Remove objects that belong to no file although they may be younger than a backup that was put back.
    pub drop_unknown: bool,
    /// Files and directories; everything if there is none.
    pub paths: Vec<String>,
}

/// Files to look for. All that is given must hold.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Find {
    /// The directory to look in.
    pub path: String,
    /// A target that holds a part.
    pub target: Option<String>,
    /// A tier that holds a part.
    pub tier: Option<String>,
    /// The owner.
    pub uid: Option<u32>,
    /// Not used for more seconds than these.
    pub older_s: Option<u64>,
    /// Used within these seconds.
    pub newer_s: Option<u64>,
    /// Of more bytes than these.
    pub larger: Option<u64>,
    /// How its bytes are.
    pub state: Option<FindState>,
    /// Say how many mirrors each has: `mirrors`, 0 for one that lies in its stub.
    pub with_mirrors: bool,
}

/// Whose account, of which days; a day is a number of days since 1970, in UTC.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Accounting {
    /// A row for each what.
    pub by: AccountingBy,
    /// The first day.
    pub since_day: Option<u64>,
    /// The last day; today at the latest.
    pub until_day: Option<u64>,
    /// Only this user's.
    pub uid: Option<u32>,
}

/// What accounts are summed by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccountingBy {
    /// A row for each user.
    #[default]
    User,
    /// A row for each job.
    Job,
}

/// How the bytes of a file are.
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

/// What is to be shown of what the volume does. All that is given must hold.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Events {
    /// Go on with what comes.
    pub follow: bool,
    /// Nothing before this, in milliseconds since 1970.
    pub from_ms: Option<u64>,
    /// Only what names this target.
    pub target: Option<String>,
    /// Only of these kinds; all if there is none.
    pub kinds: Vec<Kind>,
    /// Which daemon was asked last, and the number that it told last: what came since.
    pub after: Option<(u64, u64)>,
}

/// A pass over all files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Scrub {
    /// Begin at the first file, also where a pass was stopped.
    pub anew: bool,
    /// Bytes per second instead of those of `[scrub] rate`; 0 is no limit.
    pub rate: Option<u64>,
    /// Say what the last pass did, or how far the one under way is, and nothing else.
    pub status: bool,
}

/// A version that begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BeginCheckpoint {
    /// The application.
    pub app: String,
    /// The version's name.
    pub label: String,
    /// Files at or below these belong to it.
    pub paths: Vec<String>,
    /// Bytes to come; 0: nobody knows.
    pub bytes: u64,
    /// Seconds between two failures of the application.
    pub mtbf_s: Option<u64>,
    /// Nodes that it runs on.
    pub nodes: Option<u64>,
}

/// What has limits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuotaOf {
    /// A user, by id.
    User(u32),
    /// A group, by id.
    Group(u32),
    /// All below a directory, by its path.
    Directory(String),
}

/// A limit that is to be another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NewLimit {
    /// This.
    At(u64),
    /// None any more.
    Off,
}

/// Limits to set; what is not named stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetQuota {
    /// Of what.
    pub of: QuotaOf,
    /// Of bytes, for the grace.
    pub soft: Option<NewLimit>,
    /// Of bytes.
    pub hard: Option<NewLimit>,
    /// Of files, for the grace.
    pub files_soft: Option<NewLimit>,
    /// Of files.
    pub files_hard: Option<NewLimit>,
    /// How long a soft limit may be passed.
    pub grace_s: Option<u64>,
}
