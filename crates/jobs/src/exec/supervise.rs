//! The supervisor: one part from its first command to its status file.

use super::attempt::{self, Signals};
use super::{Processes, Spec, file, process, write_whole};
use crate::request::{Ending, PartKind, PartReport, StepReport};
use object::now_ms;
use policy::Time;
use policy::schedule::staging::{Again, Attempts};
use rustix::fs::FlockOperation;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Longest wait for a new daemon after one ended during a staging command. A guess: covers a crash and a restart, not
/// an outage.
const DAEMON_AWAITED_MAX: Duration = Duration::from_secs(120);
/// Interval between two checks for a new daemon.
const DAEMON_LOOK_EVERY: Duration = Duration::from_secs(1);

/// Runs a part. Does nothing if it ended already or another supervisor has it.
pub(super) fn run(spec: &Spec) -> ExitCode {
    match supervise(spec) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("entrepot: the {} part in {} cannot run: {error}", spec.kind, spec.dir.display());
            ExitCode::FAILURE
        }
    }
}

fn supervise(spec: &Spec) -> std::io::Result<()> {
    // The lock is held until this process ends, so a part never has two running supervisors. A daemon that missed the
    // first may start a second: it waits here, and then finds the status.
    let lock = super::private().open(file(&spec.dir, spec.kind, "lock"))?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
    let status_file = file(&spec.dir, spec.kind, "status");
    if status_file.exists() {
        return Ok(());
    }
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let signals = Signals::listen()?;
    let me = process::identify(std::process::id() as i32).ok_or_else(|| std::io::Error::other("/proc is missing"))?;
    let mut processes = Processes { supervisor: me, command: None };
    let pid_file = file(&spec.dir, spec.kind, "pid");
    write_whole(&pid_file, &serde_json::to_vec(&processes)?)?;

    let started_ms = now_ms();
    let deadline = Instant::now() + Duration::from_secs(spec.walltime_s);
    let mut steps = Vec::new();
    let mut ending = Ending::Exited { code: 0 };
    for step in 0..spec.steps.len() {
        let report = run_step(spec, step, deadline, &signals, &mut |pid| {
            processes.command = process::identify(pid);
            if let Ok(bytes) = serde_json::to_vec(&processes) {
                // The file only serves to clean up after a killed supervisor, so an error is ignored.
                let _ = write_whole(&pid_file, &bytes);
            }
        });
        ending = report.ending.clone();
        steps.push(report);
        if !ending.is_success() {
            break;
        }
    }
    let report = PartReport { kind: spec.kind, started_ms, ended_ms: now_ms(), ending, steps };
    write_whole(&status_file, &serde_json::to_vec(&report)?)
}

/// Runs a command with its retries. The last attempt counts.
fn run_step(
    spec: &Spec,
    step: usize,
    deadline: Instant,
    signals: &Signals,
    started: &mut dyn FnMut(i32),
) -> StepReport {
    let began = Instant::now();
    let mut attempts = Attempts::new(spec.retries, Time::from_millis(spec.retry_pause_ms));
    let mut awaited_until = None;
    loop {
        announce(spec, step, attempts.made() + 1);
        let outcome = attempt::run(spec, step, deadline, signals, &mut *started);
        if lost_the_daemon(spec, step, &outcome.ending) && !signals.cancelled() {
            let until = *awaited_until.get_or_insert_with(|| Instant::now() + DAEMON_AWAITED_MAX);
            if Instant::now() < until.min(deadline) {
                signals.wait_for_cancel(Instant::now() + DAEMON_LOOK_EVERY);
                if !signals.cancelled() {
                    continue;
                }
            }
        }
        let own_end = matches!(outcome.ending, Ending::Exited { .. } | Ending::Signalled { .. });
        let ending = &outcome.ending;
        let may_pass = own_end && !ending.is_success() && super::may_pass(is_ours(spec, step), ending);
        if let Some(Again { pause, .. }) = attempts.ended(may_pass)
            && !signals.cancelled()
        {
            let pause = Duration::from_nanos(pause.0).min(deadline.saturating_duration_since(Instant::now()));
            signals.wait_for_cancel(Instant::now() + pause);
            if !signals.cancelled() {
                continue;
            }
        }
        let failed = !outcome.ending.is_success();
        return StepReport {
            attempts: attempts.made(),
            ending: if failed && signals.cancelled() { Ending::Cancelled } else { outcome.ending },
            lasted_ms: began.elapsed().as_millis() as u64,
            stderr_tail: if failed { outcome.stderr_tail } else { String::new() },
        };
    }
}

/// Whether a staging command of ours failed only because the daemon ended during it. It then resumes with the next
/// daemon, which does not count as an attempt.
fn lost_the_daemon(spec: &Spec, step: usize, ending: &Ending) -> bool {
    let lost = Ending::Exited { code: node::control::exit::NO_DAEMON.into() };
    is_ours(spec, step) && spec.kind != PartKind::Compute && *ending == lost
}

/// Whether a step runs this program, or its upgraded version at the same path.
fn is_ours(spec: &Spec, step: usize) -> bool {
    let me = std::env::current_exe().unwrap_or_default();
    spec.steps[step].first().is_some_and(|word| has_place(&me, word))
}

/// The kernel appends " (deleted)" to the path of a program whose file was replaced.
fn has_place(program: &Path, word: &str) -> bool {
    let gone = || program.to_str()?.strip_suffix(" (deleted)").map(Path::new);
    program == Path::new(word) || gone() == Some(Path::new(word))
}

fn announce(spec: &Spec, step: usize, attempt: u32) {
    if let Some(mut log) = attempt::open_log(spec, "out").filter(|_| spec.announce) {
        let words = shlex::try_join(spec.steps[step].iter().map(String::as_str)).unwrap_or_default();
        let of = u64::from(spec.retries) + 1;
        let _ = writeln!(log, "[entrepot: {words} (attempt {attempt} of {of})]");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_replaced_is_known_by_its_place() {
        for (program, is_it) in
            [("/usr/bin/entrepot", true), ("/usr/bin/entrepot (deleted)", true), ("/opt/entrepot", false), ("", false)]
        {
            assert_eq!(has_place(Path::new(program), "/usr/bin/entrepot"), is_it, "{program}");
        }
    }
}
