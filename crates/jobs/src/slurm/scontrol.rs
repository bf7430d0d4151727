//! Slurm's record of a job, and its commands that the daemon runs for an owner: release, start at once, cancel.

use crate::queue::{Error, ask};
use crate::request::JobId;
use crate::scheduler::ending;
use std::path::Path;

/// A job as `scontrol show job` reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ShownJob {
    /// `JobState`; `None` if Slurm has no such job (any more).
    pub state: Option<String>,
    /// `ExitCode`: status and signal.
    pub exit_code: Option<String>,
    /// `Reason` why it waits.
    pub reason: Option<String>,
    /// Whether an administrator holds it.
    pub is_held_by_admin: bool,
    /// Numbers of all users in the record.
    pub users: Vec<u32>,
}

impl ShownJob {
    /// Whether the job will not run (again).
    pub fn is_over(&self) -> bool {
        self.state.as_deref().is_none_or(|state| ending(state, "").is_some())
    }

    /// Whether the job waits in the queue and its owner may release it, since no administrator holds it.
    pub fn is_releasable(&self) -> bool {
        self.state.as_deref() == Some("PENDING") && !self.is_held_by_admin
    }

    /// Whether the job belongs to that user. Slurm can give the number of an old job to another user's job.
    pub fn is_of(&self, uid: u32) -> bool {
        self.users.iter().all(|user| *user == uid)
    }

    /// Whether it was cancelled, or Slurm has forgotten it.
    pub fn is_cancelled(&self) -> bool {
        self.state.as_deref().is_none_or(|state| state == "CANCELLED")
    }
}

/// How a script ended, from Slurm's `STATUS:SIGNAL`.
pub(super) fn ended(exit_code: &str) -> String {
    match exit_code.split_once(':') {
        Some((status, "0")) => format!("ended with status {status}"),
        Some((_, signal)) => format!("was ended by signal {signal}"),
        None => format!("ended with {exit_code}"),
    }
}

/// Looks a job up. An error means that Slurm does not answer; the state of the job is then unknown.
pub(super) fn look(id: JobId, conf: Option<&Path>) -> Result<ShownJob, Error> {
    match run(&["-o", "show", "job", &id.to_string()], conf) {
        Ok(text) => Ok(parse(&text)),
        Err(Error::Command { cause, .. }) if cause.contains("Invalid job id") => Ok(ShownJob::default()),
        Err(error) => Err(error),
    }
}

/// Releases a held job, and lets a job with a later start time start now.
pub(super) fn release(id: JobId, conf: Option<&Path>) -> Result<(), Error> {
    run(&["update", &format!("JobId={id}"), "StartTime=now"], conf)?;
    run(&["release", &id.to_string()], conf).map(drop)
}

/// Cancels a job that has not ended.
pub(super) fn cancel(id: JobId, conf: Option<&Path>) -> Result<(), Error> {
    run_program("scancel", &[&id.to_string()], conf).map(drop)
}

fn run(args: &[&str], conf: Option<&Path>) -> Result<String, Error> {
    run_program("scontrol", args, conf)
}

fn run_program(program: &str, args: &[&str], conf: Option<&Path>) -> Result<String, Error> {
    let conf = conf.map(|path| path.to_string_lossy().into_owned());
    let environment: Vec<_> = conf.iter().map(|path| ("SLURM_CONF", path.as_str())).collect();
    ask(program, args, &environment)
}

/// Parses the record. A user can add fields to it, since the name of a job may contain blanks, but can remove none. So
/// every hold and every user in the record counts: the daemon has more rights in Slurm than the owner.
fn parse(text: &str) -> ShownJob {
    let words = || text.split_ascii_whitespace();
    let field = |name: &str| {
        words().filter_map(|word| word.strip_prefix(name)).find_map(|rest| rest.strip_prefix('=')).map(str::to_string)
    };
    let uid = |word: &str| word.strip_prefix("UserId=")?.rsplit_once('(')?.1.strip_suffix(')')?.parse::<u32>().ok();
    ShownJob {
        state: field("JobState"),
        exit_code: field("ExitCode"),
        reason: field("Reason"),
        is_held_by_admin: words().any(|word| word == "Reason=JobHeldAdmin"),
        users: words().filter_map(uid).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_read_as_scontrol_writes_it() {
        let line = "JobId=7 JobName=JobState=x UserId=a(1) Priority=0 JobState=PENDING Reason=burst_buffer/lua:_no \
                    Requeue=1 ExitCode=0:0 RunTime=00:00:00\n";
        let found = parse(line);
        assert_eq!((found.state.as_deref(), found.exit_code.as_deref()), (Some("PENDING"), Some("0:0")));
        assert!(!found.is_over() && found.is_releasable());
        assert!(!parse("JobState=PENDING Reason=JobHeldAdmin").is_releasable());
        assert!(parse("JobId=7 JobState=CANCELLED ExitCode=0:15").is_cancelled());
        assert!(ShownJob::default().is_over(), "a job that Slurm has forgotten");
        assert_eq!([ended("3:0"), ended("0:9")], ["ended with status 3", "was ended by signal 9"]);
    }

    #[test]
    fn the_name_of_a_job_hides_neither_a_hold_nor_its_owner() {
        let name = "JobName=x UserId=a(1) JobState=PENDING Reason=None";
        let held = parse(&format!("JobId=7 {name} UserId=b(2) JobState=PENDING Reason=JobHeldAdmin"));
        assert!(!held.is_over() && !held.is_releasable());
        assert!(!held.is_of(1) && !held.is_of(2));
        assert!(parse("JobId=7 UserId=b(2)").is_of(2) && !parse("JobId=7 UserId=b(2)").is_of(1));
    }
}
