//! What `volume.toml` says, checked, with every default filled in.

use super::problem::{Problem, Problems};
use policy::layout::Placement;
use policy::protect::window::Share;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The whole of `volume.toml`.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file it came from.
    pub file: PathBuf,
    /// Name of the volume, for people.
    pub name: String,
    /// Directory of the namespace.
    pub namespace: PathBuf,
    /// Line and column of it.
    pub(super) namespace_place: (usize, usize),
    /// Directory of the state store.
    pub state: PathBuf,
    /// Line and column of it.
    pub(super) state_place: (usize, usize),
    /// What keeps the state.
    pub state_store: StateStore,
    /// Tier names, fastest first: a tier's number is its index.
    pub tiers: Vec<String>,
    /// The targets, as they stand in the file.
    pub targets: Vec<TargetConfig>,
    /// How new files are laid out.
    pub layout: LayoutConfig,
    /// The mount.
    pub mount: Mount,
    /// The mount's block cache.
    pub cache: Cache,
    /// When a target is given up.
    pub health: Health,
    /// The mover.
    pub mover: Mover,
    /// Hot data on the fast tier.
    pub tiering: Tiering,
    /// Recovery from sources.
    pub recovery: Recovery,
    /// The job runner.
    pub jobs: Jobs,
    /// Copies of input files of jobs that start soon.
    pub replication: Replication,
    /// What may be removed when.
    pub purge: Purge,
    /// The fast tier as a buffer for checkpoints.
    pub burst: super::Burst,
    /// How wide files are striped.
    pub stripes: Stripes,
}

/// What keeps the state of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateStore {
    /// A file in the state directory.
    Embedded,
    /// The Redis server at this address.
    Redis(String),
}

/// One `[[target]]`.
#[derive(Clone, Debug)]
pub struct TargetConfig {
    /// Its name.
    pub name: String,
    /// Its directory.
    pub path: PathBuf,
    /// Its tier, an index into [`Config::tiers`].
    pub tier: u8,
    /// Its device as it was measured.
    pub device: Option<policy::stripe::device::Measured>,
    /// The file system that has to be shown in its directory first, over several connections.
    pub connections: Option<ConnectionsConfig>,
    /// Line and column of its path.
    pub(super) place: (usize, usize),
}

/// `connections = N` of a target, with what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionsConfig {
    /// How many.
    pub count: u16,
    /// Type of the file system.
    pub kind: String,
    /// Where it is, separated by commas; all of them show the same directory.
    pub servers: String,
    /// More options for its mount command, separated by commas.
    pub options: String,
    /// Who chooses the connection of an operation.
    pub policy: policy::connections::Policy,
    /// Which way bytes go.
    pub bytes_over: policy::connections::BytesOver,
    /// Bytes that are acknowledged before the server has them, of all files together; 0 for none.
    pub write_behind: u64,
}

/// `[layout]`
#[derive(Clone, Debug)]
pub struct LayoutConfig {
    /// Bytes of one stripe.
    pub stripe_size: u64,
    /// Targets that a large file is striped over.
    pub stripe_count: usize,
    /// Up to this size a file's bytes stay in its stub.
    pub inline_max: u64,
    /// Up to this size a file stays on one target.
    pub single_max: u64,
    /// Bytes of one segment of a large file; 0: one that grows without end.
    pub segment: u64,
    /// Copies of each new file.
    pub mirrors: usize,
    /// What a write to a file with several mirrors waits for.
    pub mirror_writes: MirrorWrites,
}

/// What a write to a file with several mirrors waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorWrites {
    /// All mirrors.
    Sync,
    /// The first; the others are marked stale and resynced later.
    Stale,
}

/// `[mount]`
#[derive(Clone, Debug)]
pub struct Mount {
    /// FUSE threads.
    pub threads: usize,
    /// How long the kernel may believe a name.
    pub entry_timeout: Duration,
    /// How long the kernel may believe attributes.
    pub attr_timeout: Duration,
    /// Whether other users may use the mount; `None`: if run by root.
    pub allow_other: Option<bool>,
    /// Whether the kernel may read and write one-object files by itself.
    pub passthrough: Passthrough,
    /// Whether files that nobody writes are read through the kernel's page cache.
    pub io: Io,
}

/// Whether the kernel may read and write one-object files by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passthrough {
    /// Where the kernel can and nothing needs to see the data.
    Auto,
    /// Never.
    Off,
}

/// Whether files that nobody writes are read through the kernel's page cache; files that are open for writing always are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// Unless there is a block cache.
    Auto,
    /// No.
    Direct,
    /// Yes.
    Cached,
}

/// `[cache]`: the mount's block cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// Bytes of file data it holds at most, what is on the way included; 0: there is none.
    pub size: u64,
    /// Its algorithms, and its size in blocks of [`crate::cache::BLOCK_BYTES`]; `None` without a cache.
    pub level: Option<policy::cache::LevelConfig>,
}

/// `[health]`
#[derive(Clone, Debug)]
pub struct Health {
    /// An operation on a target that takes longer has missed its deadline.
    pub deadline: Duration,
    /// Span between two probes of a doubted target.
    pub probe_interval: Duration,
    /// So many probes in a row must fail before a target is failed.
    pub probes_failed_max: u32,
    /// So many good probes in a row bring a failed target back; 0: only the operator does.
    pub auto_restore: u32,
}

/// `[mover]`
#[derive(Clone, Debug)]
pub struct Mover {
    /// Bytes per second; 0 is unlimited.
    pub rate: u64,
    /// Files moved at the same time.
    pub concurrent: usize,
    /// Whether bytes are copied inside the kernel where that is possible.
    pub in_kernel: bool,
}

/// `[tiering]`, and the speeds of `[tier.NAME]`.
#[derive(Clone, Debug)]
pub struct Tiering {
    /// Who plans the moves.
    pub policy: TieringPolicy,
    /// The tier for hot data, an index into [`Config::tiers`].
    pub fast: u8,
    /// The tier for all other data.
    pub slow: u8,
    /// The sliding window.
    pub window: policy::tier::machine::Window,
    /// Panes of the window; the tuned planner plans at the end of each.
    pub panes: usize,
    /// H: read more often within the window is hot (ws-ros).
    pub hot: u32,
    /// L: read less often is cold (ws-ros).
    pub cold: u32,
    /// Cold data leave while less than so many percent of the share are free (ws-ros).
    pub free_percent: u32,
    /// What is hot in reads and in writes goes to the fast tier (ws-ros).
    pub read_wins: bool,
    /// How long both tiers must have been idle before something is moved.
    pub idle: Duration,
    /// Bytes moved per second while the devices are idle; 0 is unlimited.
    pub idle_rate: u64,
    /// Bytes moved per second while they are busy; 0 waits for idleness.
    pub busy_rate: u64,
    /// What lies on the fast tier may have a slow copy while it is not written: promotions keep it, and idle devices make it (tuned).
    pub keep_copies: bool,
    /// How long a segment on the fast tier must not have been accessed to get a slow copy while the devices are idle.
    pub copy_after: Duration,
    /// Percent of a slow target that kept copies leave free.
    pub copies_free_percent: u32,
    /// Promotes at the access, also while the devices are busy as far as `busy_rate` goes (tuned).
    pub on_access: bool,
    /// Percent of the fast tier that hot data may take.
    pub share_percent: u32,
    /// Segments remembered per region.
    pub locations: usize,
    /// New segments go to the devices in proportion to their speed, not in turn.
    pub proportional: bool,
    /// What one device of each tier takes, where the file says it; by tier.
    pub speeds: Vec<Option<policy::tier::cost::DeviceCost>>,
}

/// Who plans what moves between the tiers; in the words of `entrepot-lab sim tier`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TieringPolicy {
    /// Nobody: nothing is moved.
    Off,
    /// By expected gain against cost.
    Tuned,
    /// The paper's thresholds.
    WsRos,
    /// By how often anything was accessed so far.
    Lfu,
}

impl TieringPolicy {
    /// Its word in `volume.toml`.
    pub fn word(self) -> &'static str {
        match self {
            TieringPolicy::Off => "off",
            TieringPolicy::Tuned => "tuned",
            TieringPolicy::WsRos => "ws-ros",
            TieringPolicy::Lfu => "lfu",
        }
    }
}

/// `[recovery]`
#[derive(Clone, Debug)]
pub struct Recovery {
    /// Ranges in flight per source.
    pub concurrent: usize,
    /// Tries of one range at one source.
    pub retries: u32,
    /// Bytes per second; 0 is unlimited.
    pub rate: u64,
    /// How long a source may send nothing, in staging too.
    pub source_patience: Duration,
}

/// `[jobs]`
#[derive(Clone, Debug)]
pub struct Jobs {
    /// Cores of the queue `batch`.
    pub cores: usize,
    /// Jobs at the same time in the queue `dataxfer`.
    pub dataxfer_concurrent: usize,
    /// Whether a job's files are checked before it starts.
    pub check_before_job: bool,
    /// Between two looks at the files of the jobs that wait.
    pub check_every: Duration,
    /// The user that slurmctld runs as, besides root: it may speak for Slurm. Empty: nobody.
    pub slurm_user: String,
    /// When results named in `#STAGEOUT` start on their way.
    pub offload: Offload,
    /// Whether the queue decides when data of waiting jobs come.
    pub just_in_time: bool,
    /// Data are to be there so long before the job starts.
    pub stage_in_margin: Duration,
    /// Data that lie there for longer before the start came too early.
    pub stage_in_early: Duration,
    /// Bytes per second of a source that has not shown its rate.
    pub source_rate: u64,
    /// Between two looks at the queue while jobs wait for their data.
    pub queue_poll: Duration,
    /// Whether a job whose data find no space fails, and does not wait.
    pub fail_when_full: bool,
    /// Bytes that are never promised to data of jobs.
    pub keep_free: u64,
}

/// When results named in `#STAGEOUT` start on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// When the script has ended.
    AtEnd,
    /// Each as soon as it is closed.
    OnClose,
}

/// `[replication]`
#[derive(Clone, Debug)]
pub struct Replication {
    /// Which jobs' input is copied.
    pub policy: ReplicationPolicy,
    /// How eager the window is, as a share of the system's nodes.
    pub alpha: Share,
    /// Jobs that ask for at most this share of the system's nodes are small, for the policy `shortcut`.
    pub threshold: Share,
    /// From the failure of a target to the making of a new copy of what it held.
    pub delay: Duration,
    /// Between two looks at the queue.
    pub poll: Duration,
    /// Whether a copy goes when the job has closed the file, not only at its end.
    pub eager: bool,
    /// Whose queue counts: `local`, `slurm` or `pbs`.
    pub queue: QueueName,
}

/// Which jobs' input is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicationPolicy {
    /// None.
    None,
    /// Those in the replication window, first come, first served.
    Fcfs,
    /// Those, and small jobs at once.
    Shortcut,
    /// All.
    All,
}

/// A scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueName {
    /// The built-in runner.
    Local,
    /// Slurm.
    Slurm,
    /// PBS.
    Pbs,
}

/// `[purge]`
#[derive(Clone, Debug)]
pub struct Purge {
    /// Files that were neither read nor written for so long may go; zero: none by age.
    pub age: Duration,
    /// Percent of the space from which on the oldest may go; 100: none for space.
    pub high_percent: u32,
    /// Percent of the space at which that ends.
    pub low_percent: u32,
    /// Between two looks by itself; zero: only `entrepot purge`.
    pub every: Duration,
}

/// `[stripes]`
#[derive(Clone, Debug, PartialEq)]
pub struct Stripes {
    /// Who decides; `Fixed`: nobody, it is watched only.
    pub mode: policy::stripe::advice::Mode,
    /// Whether requests are counted at all.
    pub sensors: bool,
    /// The rule file; `None`: the built-in rules.
    pub rules: Option<PathBuf>,
    /// Who says what a file's requests look like: the network, or else the rules of thumb.
    pub network: bool,
    /// The weights of the network; `None`: the built-in ones.
    pub weights: Option<PathBuf>,
    /// The tier whose files are adapted; `None`: all targets count as alike.
    pub tier: Option<u8>,
    /// Length of the moving window.
    pub window: Duration,
    /// Between two looks.
    pub interval: Duration,
    /// By how many percent response times must become shorter.
    pub margin_percent: u32,
    /// How many looks running a change must be wished for.
    pub settle: u32,
    /// For how long a load is expected to last.
    pub horizon: Duration,
    /// Widths that requests may get; empty: the powers of two and all targets.
    pub widths: Vec<u32>,
    /// Copies of a file, forks included.
    pub forks: usize,
    /// Percent of the space that must stay free of forks.
    pub fork_space_percent: u32,
}

impl Config {
    /// Reads and checks a `volume.toml`: its text alone, no directory is looked at. `file` is the path for messages
    /// and for relative paths.
    pub fn parse(file: &Path, text: &str) -> Result<Config, Problems> {
        super::parse::parse(file, text)
    }

    /// Reads and checks a `volume.toml` and all directories that it names. Touches nothing.
    pub fn load(file: &Path) -> Result<Config, Problems> {
        let text = std::fs::read_to_string(file).map_err(|error| {
            let problem = Problem::new(
                format!("{} cannot be read: {error}", file.display()),
                "there is no volume to open",
                "Name the right file, or make a volume with `entrepot init DIR`",
            );
            Problems::one(problem.of_io(&error))
        })?;
        let config = Config::parse(file, &text)?;
        super::check::check(&config)?;
        Ok(config)
    }

    /// The placement of new files that nobody asked otherwise for.
    pub fn placement(&self) -> Placement {
        Placement {
            stripe_size: self.layout.stripe_size,
            stripe_count: self.layout.stripe_count,
            single_bytes_max: self.layout.single_max,
            segment_bytes: self.layout.segment,
            mirrors: self.layout.mirrors,
            tier: None,
        }
    }
}
