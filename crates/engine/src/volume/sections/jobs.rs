//! The sections about jobs and their data: `[jobs]`, `[replication]`.

use super::super::keys::{DAY, HOUR, Read, choice, count, flag, parsed, section, size, span, text, texts};
use super::super::section::Given;
use policy::named;
use policy::protect::window::Share;
use std::path::{Path, PathBuf};
use std::time::Duration;

const POLL_MIN: Duration = Duration::from_millis(100);

named! {
    /// When results named in `#STAGEOUT` start on their way.
    Offload {
        /// When the script has ended.
        AtEnd = "at-end",
        /// Each as soon as it is closed.
        OnClose = "on-close",
    }
}

// The times of staging are guesses, see `policy::schedule::just_in_time::Config`; `check_every` is the simulated centre's.
section! {
    /// `[jobs]`
    Jobs {
        /// Cores for the queue `batch`. The default is all of this machine.
        cores: usize = count(1..=65_536), 8 else std::thread::available_parallelism().map_or(1, |cores| cores.get());
        /// Staging jobs at the same time.
        dataxfer_concurrent: usize = count(1..=1024), 2;
        /// Whether the files of a job are checked, and repaired, before it starts.
        check_before_job: bool = flag, true;
        /// Interval of checks of the files of waiting jobs, which a failed target also causes; lost data are recovered at once.
        check_every: Duration = span(POLL_MIN..=DAY), "5min";
        /// The user that slurmctld runs as, if not root: it may hand over jobs of Slurm (`entrepot slurm install`).
        slurm_user: String = text, "slurm" else String::new();
        /// Stage-out of results named in #STAGEOUT begins at the end of the script ("at-end"), or for each file at its
        /// close ("on-close").
        offload: Offload = choice(Offload::NAMES), "at-end";
        /// Data of waiting jobs come as soon as they can ("at-once"), or just in time for the estimated start ("just-in-time").
        /// The time is computed from the queue's estimate, the measured rate of the source and the margin.
        just_in_time in "stage_in": bool = choice(&[("at-once", false), ("just-in-time", true)]), "at-once";
        /// Time between the arrival of such data and the estimated start of their job.
        stage_in_margin: Duration = span(Duration::ZERO..=30 * DAY), "5min";
        /// Data that arrive earlier than this before the start of their job count as too early.
        stage_in_early: Duration = span(Duration::ZERO..=30 * DAY), "1h";
        /// Bytes per second assumed for a source without a measured rate.
        source_rate: u64 = size(1..=1 << 50, "bytes per second, such as \"10MB\""), "10MB";
        /// Interval of requests to the queue while jobs wait for their data.
        queue_poll: Duration = span(POLL_MIN..=HOUR), "5s";
        /// A job whose data find no space waits for it ("wait"), or fails ("fail").
        fail_when_full in "when_full": bool = choice(&[("wait", false), ("fail", true)]), "wait";
        /// Command that runs as the operator when a job and its staging are over: full path of a program, and
        /// arguments. No shell runs it. Its environment describes the job (`ENTREPOT_JOB_ID`, `ENTREPOT_JOB_STATE` and
        /// so on).
        on_end: Vec<String> = command, ["/usr/local/sbin/job-over"] else Vec::new();
        /// The program that sends the mail that scripts request with `--mail-type`, as the job's owner.
        sendmail: PathBuf = parsed(program), "/usr/sbin/sendmail";
        /// Bytes of free space that are never reserved for data of jobs.
        keep_free: u64 = size(0..=1 << 60, "a size, such as \"10GB\""), "0";
    }
}

named! {
    /// Jobs whose input is copied.
    ReplicationPolicy {
        /// Input is not copied.
        None = "none",
        /// Jobs in the replication window, first come, first served.
        Fcfs = "fcfs",
        /// Jobs in the window, and small jobs at once.
        Shortcut = "shortcut",
        /// All jobs with input.
        All = "all",
    }
}

named! {
    /// The scheduler of a queue.
    QueueName {
        /// The built-in runner.
        Local = "local",
        /// The queue of Slurm.
        Slurm = "slurm",
        /// The queue of PBS.
        Pbs = "pbs",
    }
}

// The published values; two seconds between looks are a guess.
section! {
    /// `[replication]`
    Replication {
        /// Input files of jobs that start soon get a second copy on other targets: of none, of those in the replication window
        /// ("fcfs"), of those and of small jobs at once ("shortcut"), or of "all".
        policy: ReplicationPolicy = choice(ReplicationPolicy::NAMES), "none";
        /// The window: jobs at the head of the queue that ask for more than this share of all nodes; "inf" is all.
        alpha: Share = share, 0.2;
        /// Jobs that ask for at most this share of all nodes are small.
        threshold: Share = share, 0.01;
        /// Time between the failure of a target and the rebuild of its objects from the other copy.
        delay: Duration = span(Duration::ZERO..=DAY), "5s";
        /// A copy goes when the job has closed the file ("eager"), or at its end ("job-end").
        eager in "remove": bool = choice(&[("eager", true), ("job-end", false)]), "eager";
        /// The queue that is watched: "local", "slurm" or "pbs".
        queue: QueueName = choice(QueueName::NAMES), "local";
        /// Interval of requests to this queue.
        poll: Duration = span(POLL_MIN..=HOUR), "2s";
    }
}

/// A program by its whole path: no search decides which it is.
fn program(text: &str) -> Result<PathBuf, &'static str> {
    let path = Path::new(text);
    if path.is_absolute() { Ok(path.to_owned()) } else { Err("Give the whole path of a program, from / on") }
}

fn command(given: &Given<'_>) -> Read<Vec<String>> {
    let words = texts(given)?;
    program(&words[0]).map(|_| words).map_err(str::to_owned)
}

/// A share of the system, as a text such as "0.2" or "inf", or as a number.
fn share(given: &Given<'_>) -> Result<Share, String> {
    given.word().and_then(|word| word.parse().ok()).ok_or_else(|| {
        "Give a share of the system's nodes: a number from 0 with at most six digits behind the point, or \"inf\""
            .into()
    })
}
