//! The commented `volume.toml` that a new volume starts with.

use super::problem::{Problem, Problems};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Targets of a new volume: name and tier.
const TARGETS: &[(&str, &str)] = &[
    ("fast0", "fast"),
    ("fast1", "fast"),
    ("fast2", "fast"),
    ("capacity0", "capacity"),
    ("capacity1", "capacity"),
    ("capacity2", "capacity"),
];

const HEAD: &str = r#"# An Entrepot volume: one scratch file system of directories on devices that are already there.
# `entrepot up` reads this file. Paths are relative to it. Sizes: "64KiB", "1MiB", "2GB" or bytes. Spans: "500ms", "5s",
# "2min" or seconds. A line that starts with `#` shows a default; remove the `#` to change it.

# Name of the volume, shown by `entrepot status` and `df`.
name = "@NAME@"

# The directory tree with names, owners, times, small files and where the data of the others lies. Needs a file system
# with user extended attributes (ext4, xfs, btrfs, ...). Put it on something that you trust.
namespace = "namespace"

# The embedded state store and the control socket. On a local file system.
state = "state"
# What keeps the state: "embedded" is a file there; or a Redis server that syncs every write (appendonly yes, appendfsync always):
# "redis://HOST:PORT/DATABASE" or "unix:///PATH/TO/SOCKET".
# state_store = "embedded"

# Tiers, fastest first. Every tier needs a target. For tiering, what one device of it does, in megabytes (10^6) per second
# reading/writing, and what every access takes besides (measured at the first start if it is not said):
#   speed = "200/40"
#   latency = "0s"
[tier.fast]
[tier.capacity]

# Targets: directories on the devices that hold the data. Move these to your disks and mounts before the first
# `entrepot up`; afterwards use `entrepot target add|drain|remove`.
# A target on a file server can be reached over several connections that `entrepot up` makes itself; `path` is then where
# the file system is shown, an empty directory (docs/guide/connections.md):
#   connections = 4
#   type = "glusterfs"
#   servers = "bb1:/scratch,bb2:/scratch"
#   options = ""
#   policy = "load"
#   bytes_over = "auto"
#   write_behind = "64MiB"
"#;

const TAIL: &str = r#"
[layout]
# Bytes that lie on one target before the next one's turn; a multiple of 4096.
# stripe_size = "1MiB"
# Targets that a large file is striped over.
# stripe_count = 4
# Files up to this size are kept with their name and need no target.
# inline_max = "64KiB"
# Files up to this size lie whole on one target.
# single_max = "4MiB"
# Cut larger files into segments of this size, each of which can lie on other targets; 0 is one segment without end.
# segment = 0
# Copies of every new file, on different targets.
# mirrors = 1
# With several copies, a write waits for all ("sync"), or for the first while the others are brought up later ("stale").
# mirror_writes = "sync"

[mount]
# Threads that serve requests. The default is two per core, from 6 to 32.
# threads = 8
# How long the kernel may believe names and attributes without asking again.
# entry_timeout = "1s"
# attr_timeout = "1s"
# Whether other users may use the mount. The default is yes if run by root, else no.
# allow_other = true
# "auto" lets the kernel read and write files on one target by itself where it can; "off" never.
# passthrough = "auto"
# How files are read that nobody writes: "direct" past the page cache, "cached" through it, "auto" through it unless there
# is a [cache]. Files that are open for writing always go through it.
# io = "auto"

[cache]
# The mount's own block cache, with the algorithms of `entrepot-lab sim cache` (see its --help for all words). Bytes that it holds
# at most; 0 is none, and the kernel's page cache and read-ahead do what they do. With a cache the mount reads past the
# page cache and the kernel reads no file by itself (`passthrough`), so that the cache sees every read of files that nobody
# writes.
# size = 0
# Which blocks are fetched unasked: none, ra, linux, linux-2.6.18, on-demand, stream, sarc, amp or markov.
# prefetch = "on-demand"
# Which block goes: lru or sarc. The default is what goes with the prefetcher.
# replacement = "lru"
# Who sets the trigger distance: native, fixed:24, ets or esf (ets:redistribute, esf:default=24,min=4,max=48).
# trigger = "native"
# How it goes with another volume's cache above it: none, labels, pfc (pfc:file, pfc:client), early+pfc:adaptive, du, or several joined by +.
# coordinator = "none"

[health]
# A target that does not answer an operation within this is suspect, and failed if that happens again.
# deadline = "5s"
# A suspect target is probed this often ...
# probe_interval = "500ms"
# ... and failed after so many bad probes in a row.
# probes_failed_max = 2
# A failed target is used again after so many good probes in a row. 0: only after `entrepot target restore`.
# auto_restore = 0

[mover]
# Bytes per second for moving data between targets; 0 is no limit.
# rate = 0
# Files that are moved at the same time.
# concurrent = 2
# "process" reads and writes; "kernel" copies inside the kernel where the file systems can (splice): less processor time, and on slow devices
# longer waits for who writes meanwhile.
# copy = "process"

[tiering]
# Who decides which segments of files lie on the fast tier: "off" is nobody, "tuned" weighs what a move saves against what it
# costs, "ws-ros" has the paper's thresholds, "lfu" counts for ever. Needs `segment` above: that is what is placed and moved
# as a whole. Reads and writes of such files go through the daemon, never past it (`passthrough`).
# policy = "off"
# The tier for hot data, and the one for all other data. The default is the first two.
# fast = "fast"
# slow = "capacity"
# The sliding window in which accesses count: a number of requests, or a span such as "60s"; and in how many panes it moves on.
# window = 10000
# panes = 4
# ws-ros: read more often within the window than `hot` is hot, less often than `cold` is cold; cold data leave while less than
# `free_percent` of the share are free; what is hot in reads and in writes goes to the slow tier, unless reads win.
# hot = 3
# cold = 2
# free_percent = 8
# read_wins = false
# Moves begin when the devices of both tiers have been idle so long, at so many bytes per second (0: no limit); while devices
# are busy, so many bytes per second are moved all the same (0: none).
# idle = "500ms"
# idle_rate = 0
# busy_rate = 0
# "tuned": what is promoted keeps its slow copy while nobody writes it, so that demoting it copies nothing; what lies on the fast tier without
# one gets one when it was not used for `copy_after` and the devices are idle (`idle`, `idle_rate`). The copies take room on the slow tier;
# none are made that would leave less than `copies_free_percent` of a target free, and those on it go when there is less.
# keep_copies = true
# copy_after = "10s"
# copies_free_percent = 5
# "tuned": promote at the access, while the bytes are in memory; under load only with `busy_rate`.
# on_access = false
# So many percent of the fast tier's space may be taken by hot data; the rest is left to others, such as the burst buffer.
# share_percent = 50
# Segments whose accesses are remembered.
# locations = 1048576
# New segments go to the devices in proportion to their speed ("proportional") or in turn ("round-robin").
# placement = "proportional"

[recovery]
# Ranges fetched from one source at the same time.
# concurrent = 4
# Tries of one range before the next source is asked.
# retries = 3
# Bytes per second; 0 is no limit.
# rate = 0
# How long a source may send nothing, or less than 4 KiB a second, until that counts as a failure, in staging as well.
# source_patience = "30s"

[jobs]
# Cores for the queue `batch`. The default is all of this machine.
# cores = 8
# Staging jobs at the same time.
# dataxfer_concurrent = 2
# Whether the files of a job are checked, and repaired, before it starts.
# check_before_job = true
# The files of jobs that wait are looked at so often, and when a target fails; what they lost is brought back meanwhile.
# check_every = "5min"
# The user that slurmctld runs as, if not root: it may hand over jobs of Slurm (`entrepot slurm install`).
# slurm_user = "slurm"
# Results named in #STAGEOUT start on their way when the script has ended ("at-end"), or each when it is closed ("on-close").
# offload = "at-end"
# Data of waiting jobs come as soon as they can ("at-once"), or when the queue's estimate of the job's start, the rate that their
# source has shown and the margin say so ("just-in-time").
# stage_in = "at-once"
# stage_in_margin = "5min"
# Data that lie there for longer before their job starts are counted as too early.
# stage_in_early = "1h"
# Bytes per second of a source that has not shown its rate yet.
# source_rate = "10MB"
# How often the queue is asked while jobs wait for their data.
# queue_poll = "5s"
# A job whose data find no space waits for it ("wait"), or fails ("fail"). So much is never promised to data of jobs.
# when_full = "wait"
# keep_free = "0"

[replication]
# Input files of jobs that start soon get a second copy on other targets: of none, of those in the replication window
# ("fcfs"), of those and of small jobs at once ("shortcut"), or of "all".
# policy = "none"
# The window: jobs at the head of the queue that ask for more than this share of all nodes; "inf" is all.
# alpha = 0.2
# Jobs that ask for at most this share of all nodes are small.
# threshold = 0.01
# After a target failed, what it held is made anew from the other copy when so much time has passed.
# delay = "5s"
# A copy goes when the job has closed the file ("eager"), or at its end ("job-end").
# remove = "eager"
# Whose queue is watched ("local", "slurm" or "pbs"), and how often.
# queue = "local"
# poll = "2s"

[stripes]
# Who decides how wide files are striped: nobody ("fixed"), the queueing model ("model"), the rules ("fuzzy"), or both
# ("model+fuzzy"). What is decided changes files in use, so nothing is passed through to the kernel unless it is "fixed".
# mode = "fixed"
# The rules; the default is what `entrepot-lab rules show` prints.
# rules = "my.rules"
# Who tells the rules what a file's requests look like (sequential, strided or random, read or written, sizes): the trained network or
# "rules-of-thumb"; and weights of your own (`entrepot-lab patterns train`).
# classifier = "network"
# weights = "my.weights"
# Only files on this tier; by default all targets count as alike. How fast they are says `device = "..."` in their blocks,
# which `entrepot-lab bench device` writes.
# tier = "fast"
# What was asked lately, and how often that is looked at.
# window = "10s"
# interval = "1s"
# Response times must become shorter by so much, as often as this running, and a copy must pay within the horizon.
# margin_percent = 2
# settle = 2
# horizon = "5min"
# Widths that requests may get; the default is the powers of two and all targets.
# widths = "1,2,4,8"
# Copies of a file that are striped differently, of which each read takes the one that answers first; 1 is none beside the
# file itself. They are made while so much of the space is free, and given up below half of it.
# forks = 1
# fork_space_percent = 20
# Whether requests are counted for all this.
# sensors = true

[purge]
# Files whose bytes are safe elsewhere, that no job needs and nobody used for so long may be removed. 0: none by age.
# age = "0s"
# From so many percent of full on the oldest of them go, until so many percent are left. 100: none for space.
# high_percent = 100
# low_percent = 80
# How often that is looked at. 0: only when the operator says `entrepot purge`.
# every = "0s"

[burst]
# The tier that buffers checkpoints. Without this line there is no burst buffer, and the rest is not looked at.
# fast = "fast"
# The tier that they are demoted to; the default is the last. And one that gets another copy of what was demoted.
# capacity = "capacity"
# replicas = "capacity"
# Bytes of the buffer; 0 is what the fast tier has.
# size = 0
# Which files are checkpoints: whose, and of which version. Others are told of by `entrepot checkpoint begin`.
# checkpoints = ["ckpt/{app}/{version}/**"]
# Who decides how fast is written and demoted: bbos, predicted, maxeff, maxbw, static:0.9.
# policy = "predicted"
# Which version leaves first: versions, throughout, mtbf, fifo, lru.
# order = "throughout"
# Whether applications write one at a time, and for how long one may be passed over.
# scheduler = true
# wait = "10min"
# When the buffer is full a checkpoint waits ("wait") for room, at most so long, or fails at once ("enospc").
# full = "wait"
# full_wait = "10min"
# Whether the checkpoints of those who hardly ever fail go straight to the capacity tier when more is written than fits.
# direct = false
# Time after which most applications have written once, and the bytes that the first such period is expected to write.
# period = "1h"
# period_bytes = 0
# Speeds of the devices in bytes per second; 0 is no limit. Writing beside the least and the most
# demotion, demotion beside writing at most and for nothing, demotion in pauses.
# write_max = 0
# write_min = 0
# demote_max = 0
# demote_min = 0
# demote_idle = 0
# Time between failures of an application that says nothing (0: learned from its restarts), and of one node.
# mtbf = "0s"
# node_mtbf = "43800h"
# Limits are set in control groups where the host has them ("auto"), or by token buckets alone ("buckets").
# limits = "auto"
# How often the file systems of the fast tier are trimmed; 0 is never.
# trim = "0s"
"#;

/// The text of a `volume.toml` with every key, its default and what it does, named after the directory.
pub fn template(dir: &Path) -> String {
    let usable = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String =
        dir.file_name().map_or_else(String::new, |n| n.to_string_lossy().chars().filter(usable).collect());
    let mut text = HEAD.replace("@NAME@", if name.is_empty() { "scratch" } else { &name });
    for (name, tier) in TARGETS {
        text.push_str(&block(name, &format!("targets/{name}"), tier));
    }
    text + TAIL
}

/// A `[[target]]` block.
pub(super) fn block(name: &str, path: &str, tier: &str) -> String {
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    format!("\n[[target]]\nname = {}\npath = {}\ntier = {}\n", quoted(name), quoted(path), quoted(tier))
}

/// The directory around it all: when root makes it, others pass through to the control socket and see nothing.
fn make_outer(dir: &Path) -> std::io::Result<()> {
    if let Some(parent) = dir.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let mode = if rustix::process::geteuid().is_root() { 0o711 } else { 0o700 };
    match std::fs::DirBuilder::new().mode(mode).create(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        done => done,
    }
}

/// Writes a `volume.toml` and makes the directories that it names below `dir`; gives the file's path. Refuses to
/// overwrite.
pub fn init(dir: &Path) -> Result<PathBuf, Problems> {
    let file = dir.join("volume.toml");
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let failed = |path: &Path, error: &std::io::Error| {
        let exists = error.kind() == std::io::ErrorKind::AlreadyExists;
        let mend = if exists {
            "Use it as it is (`entrepot up`), or choose another directory"
        } else {
            "Choose another directory"
        };
        let why = if exists { "it is there already".to_string() } else { error.to_string() };
        let problem = Problem::new(format!("{} cannot be made: {why}", path.display()), "no volume was made", mend);
        Problems::one(problem.of_io(error))
    };
    if file.exists() {
        return Err(failed(&file, &std::io::ErrorKind::AlreadyExists.into()));
    }
    let make = |path: &Path| {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|error| failed(path, &error))
    };
    make_outer(&dir).map_err(|error| failed(&dir, &error))?;
    for name in ["namespace", "state"] {
        make(&dir.join(name))?;
    }
    for (name, _) in TARGETS {
        make(&dir.join("targets").join(name))?;
    }
    let opened = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&file);
    let written = opened.and_then(|mut f| {
        f.write_all(template(&dir).as_bytes())?;
        f.sync_all()
    });
    written.map_err(|error| failed(&file, &error))?;
    Ok(file)
}
