//! Slurm's queue: one `squeue` for all jobs, in the order in which the scheduler considers them.
//!
//! Start times are the backfill scheduler's own plan, as `squeue --start` shows it. Times are requested in seconds
//! since 1970, so that no time zone plays a part.

use super::{Error, Queue, QueuedJob, Snapshot, State, WaitsFor, ask, clock};
use object::now_ms;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Fields of a line. `%A` is the number in hooks and in the environment of the job. No field can hold a `|` except the
/// last, a node list or a reason.
const FORMAT: &str = "%A|%u|%P|%T|%D|%l|%S|%V|%r";
/// Sorted by state (pending last), then by priority, then by number.
const SORT: &str = "-t,-p,i";

/// The queue of a Slurm with this configuration, or with that of this environment (`SLURM_CONF`, or the usual place).
/// The inputs of its jobs are unknown.
pub struct Slurm(pub Option<PathBuf>);

impl Slurm {
    /// Environment of its commands: the path of its configuration, and times in seconds since 1970.
    pub(crate) fn environment(&self) -> Vec<(&str, &str)> {
        let conf = self.0.as_deref().and_then(|conf| Some(("SLURM_CONF", conf.to_str()?)));
        conf.into_iter().chain([("SLURM_TIME_FORMAT", "%s")]).collect()
    }
}

impl Queue for Slurm {
    fn snapshot(&self) -> Result<Snapshot, Error> {
        let args = ["-h", "-a", "-r", "-P", "--sort", SORT, "-o", FORMAT];
        let environment = self.environment();
        let text = ask("squeue", &args, &environment)?;
        let nodes = ask("sinfo", &["-h", "-a", "-N", "-o", "%N"], &environment)?;
        let jobs = parse(&text)?;
        let nodes = nodes.lines().map(str::trim).filter(|n| !n.is_empty()).collect::<BTreeSet<_>>().len() as u32;
        Ok(Snapshot { taken_ms: now_ms(), nodes, jobs })
    }
}

/// Parses the output of `squeue`. A job in several partitions has a line for each; the first one counts, in which it is
/// nearest to its start.
pub fn parse(text: &str) -> Result<Vec<QueuedJob>, Error> {
    let mut seen = BTreeSet::new();
    let mut jobs = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let job = parse_line(line)
            .ok_or_else(|| Error::Answer { command: "squeue".into(), line: line.chars().take(200).collect() })?;
        if seen.insert(job.id.clone()) {
            jobs.push(job);
        }
    }
    // A stable sort: waiting jobs keep the scheduler's order.
    jobs.sort_by_key(|job| job.state == State::Pending);
    Ok(jobs)
}

fn parse_line(line: &str) -> Option<QueuedJob> {
    let mut fields = line.splitn(9, '|').map(str::trim);
    let mut next = || fields.next();
    let (id, user, queue, state) = (next()?, next()?, next()?, state(next()?));
    let (nodes, limit, start, submitted, reason) = (count(next()?)?, next()?, next()?, next()?, next()?);
    if id.parse::<u64>().is_err() {
        return None;
    }
    Some(QueuedJob {
        id: id.into(),
        user: user.into(),
        queue: queue.into(),
        nodes,
        state,
        waits_for: if state == State::Pending { waits_for(reason) } else { WaitsFor::Nothing },
        reason: reason.into(),
        start_ms: seconds(start),
        time_limit_s: time_limit(limit)?,
        submitted_ms: seconds(submitted),
        inputs: Vec::new(),
    })
}

fn state(name: &str) -> State {
    match name {
        "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT" => State::Pending,
        "RUNNING" | "CONFIGURING" | "SUSPENDED" | "STOPPED" | "RESIZING" | "SIGNALING" => State::Running,
        "COMPLETING" | "STAGE_OUT" => State::Ending,
        _ => State::Ended,
    }
}

/// Reasons are names; after one that names a burst buffer, the plug-in's own text may follow.
fn waits_for(reason: &str) -> WaitsFor {
    let reason = reason.trim_matches(['(', ')']);
    match reason {
        "Dependency" | "DependencyNeverSatisfied" => WaitsFor::Dependency,
        "JobHeldUser" | "JobHeldAdmin" => WaitsFor::Release,
        "BeginTime" | "Reservation" => WaitsFor::Time,
        _ if reason.starts_with("BurstBuffer") => WaitsFor::Data,
        // After a failure the reason is the plug-in's own text, and the job is held.
        _ if reason.starts_with("burst_buffer") => WaitsFor::Release,
        _ => WaitsFor::Nodes,
    }
}

/// `12`, or `1.5K` where Slurm shortens.
fn count(text: &str) -> Option<u32> {
    match text.strip_suffix(['K', 'k']) {
        Some(thousands) => thousands.parse::<f64>().ok().map(|n| (n * 1024.0).round() as u32),
        None => text.parse().ok(),
    }
}

fn seconds(text: &str) -> Option<u64> {
    text.parse::<u64>().ok().filter(|s| *s > 0).map(|s| s * 1000)
}

/// `[days-]hours:minutes:seconds` or `minutes:seconds`; the inner `None` means no limit.
fn time_limit(text: &str) -> Option<Option<u64>> {
    if matches!(text, "UNLIMITED" | "NOT_SET" | "INVALID" | "Partition_Limit" | "N/A" | "") {
        return Some(None);
    }
    let (days, time) = text.split_once('-').unwrap_or(("0", text));
    Some(Some(days.parse::<u64>().ok()? * 86_400 + clock(time)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_read_as_squeue_writes_it() {
        let text = "\
12|ann|batch|PENDING|4|1-02:00:00|1794225600|1794222000|Priority
15|bob|batch|PENDING|2|UNLIMITED|N/A|1794222000|JobHeldUser
16|bob|batch|PENDING|1.5K|30:00|N/A|1794222000|burst_buffer/lua: slurm_bb_data_in: http://x/y|z: 404
17|bob|batch|PENDING|1|30:00|N/A|1794222000|BurstBufferStageIn
9|ann|batch|RUNNING|2|10:00|1794225000|1794222000|None
8|ann|batch|STAGE_OUT|2|10:00|1794225000|1794222000|None
12|ann|long|PENDING|4|2-02:00:00|N/A|1794222000|Priority
";
        let jobs = parse(text).unwrap();
        let order: Vec<_> = jobs.iter().map(|job| job.id.as_str()).collect();
        assert_eq!(order, ["9", "8", "12", "15", "16", "17"]);
        let by = |id: &str| jobs.iter().find(|job| job.id == id).unwrap();
        assert_eq!(by("12").time_limit_s, Some(93_600));
        assert_eq!(by("12").start_ms, Some(1_794_225_600_000));
        assert_eq!((by("15").time_limit_s, by("15").start_ms), (None, None));
        assert_eq!((by("16").nodes, by("16").waits_for), (1536, WaitsFor::Release));
        assert!(by("16").reason.ends_with("y|z: 404"));
        assert_eq!(by("17").waits_for, WaitsFor::Data);
        assert_eq!((by("8").state, by("9").state), (State::Ending, State::Running));
        let snapshot = Snapshot { jobs, ..Snapshot::default() };
        assert_eq!(snapshot.in_line().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["12"]);
    }

    #[test]
    fn what_is_not_squeue_is_refused() {
        assert!(parse("slurm_load_jobs error: Unable to contact slurm controller\n").is_err());
        assert!(parse("12|ann|batch|PENDING|four|1:00|N/A|1|Priority\n").is_err());
        assert_eq!(parse("\n").unwrap(), []);
    }
}
