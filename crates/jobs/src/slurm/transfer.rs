//! One staging command: shared by jobs with the same command, run as the owner, and explained when it fails.

use super::hooked::{Core, JobTable};
use super::spool;
use crate::account::make_dir;
use crate::exec::{self, Spec};
use crate::job::Progress;
use crate::plan::{paths, run_words};
use crate::request::{Caller, Command, Ending, JobId, PartKind, PartReport};
use node::control::exit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Tries of a command of ours after a temporary failure, if the script sets no number. A guess: the waits of 1, 2 and 4
/// s between them bridge a restart of a server, not an outage.
const RETRIES_DEFAULT: u32 = 3;

/// One staging command, for one job or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transfer {
    /// Number of the transfer, which names its directory.
    pub number: u64,
    /// Stage-in or stage-out.
    pub kind: PartKind,
    /// Words of the command, as in the script.
    pub argv: Vec<String>,
    /// Line in the script of the job that began it.
    pub line: u32,
    /// Key, equal for transfers that do the same; `None` for transfers that cannot be shared.
    pub share: Option<String>,
    /// User that it runs as.
    pub owner: Caller,
    /// Files and directories of the volume that it creates.
    pub brings: Vec<PathBuf>,
    /// Jobs that need the transfer. It ends when there are none.
    pub jobs: BTreeSet<JobId>,
    /// Jobs that ever needed the transfer: its logs stay until all of them are forgotten.
    pub seen_by: BTreeSet<JobId>,
    /// Progress of the transfer.
    pub state: Progress,
    /// Duration in milliseconds, once it succeeded.
    pub took_ms: Option<u64>,
    /// Why it failed.
    pub why: Option<(String, bool)>,
}

/// Assigns a job the transfer of its next command of that kind: an existing one with the same key that has not failed,
/// or a new one.
pub(super) fn join(core: &Core, table: &mut JobTable, id: JobId, kind: PartKind) -> Result<(), String> {
    let Some(job) = table.jobs.get(&id) else { return Ok(()) };
    let Some(part) = job.plan.part(kind) else { return Ok(()) };
    let Some(command) = part.commands.get(job.transfers(kind).len()) else { return Ok(()) };
    let brings = paths::brought_by(command, &job.cwd, job.mount.as_deref());
    let share =
        (kind == PartKind::StageIn).then(|| share(command, job.owner, &job.cwd, job.mount.as_deref())).flatten();
    let alive = |t: &&mut Transfer| !t.jobs.is_empty() && !matches!(t.state, Progress::Failed | Progress::Dropped);
    let shared = table.own.transfers.values_mut().find(|t| share.is_some() && t.share == share && alive(t));
    let number = if let Some(transfer) = shared {
        transfer.jobs.insert(id);
        transfer.seen_by.insert(id);
        core.keep_transfer(transfer);
        transfer.number
    } else {
        let number = core.state.next_number("slurm-transfer").map_err(|e| e.to_string())?;
        let retries = if part.retries > 0 { part.retries } else { RETRIES_DEFAULT };
        let dir = spool::dir(&core.config, number);
        let base = spool::base(&core.config, id).map_err(|e| format!("its environment is gone: {e}"))?;
        let ours = command.argv.first().is_some_and(|program| program == "entrepot");
        let spec = Spec {
            kind,
            steps: vec![run_words(&command.argv, &core.config.program, Some(retries))],
            // Our own client waits between its tries, and recognises temporary failures.
            retries: if ours { 0 } else { part.retries },
            walltime_s: part.walltime_s,
            announce: true,
            dir: dir.clone(),
            ..base
        };
        // Left by a daemon that ended before it could save the transfer.
        let _ = std::fs::remove_dir_all(&dir);
        let write = || {
            make_dir(&dir)?;
            exec::write_whole(&exec::file(&dir, kind, "spec"), &serde_json::to_vec(&spec)?)
        };
        write().map_err(|e: std::io::Error| format!("{} cannot be written: {e}", dir.display()))?;
        let transfer = Transfer {
            number,
            kind,
            argv: command.argv.clone(),
            line: command.line,
            share,
            owner: job.owner,
            brings,
            jobs: [id].into(),
            seen_by: [id].into(),
            state: Progress::Waiting,
            took_ms: None,
            why: None,
        };
        core.keep_transfer(&transfer);
        table.own.transfers.insert(number, transfer);
        core.submit(table, number);
        number
    };
    if let Some(job) = table.jobs.get_mut(&id) {
        job.transfers_mut(kind).push(number);
        core.keep(job);
    }
    Ok(())
}

/// Key that equal commands of one user share: known sources, same words, same destination. Commands with unknown
/// sources may do anything and are never shared; a manifest that is a file may differ next time.
fn share(command: &Command, owner: Caller, cwd: &Path, mount: Option<&Path>) -> Option<String> {
    if paths::manifest(&command.argv).is_some_and(|manifest| !manifest.contains("://")) {
        return None;
    }
    let brings = paths::brought_by(command, cwd, mount);
    let words = paths::stage_in_words(&command.argv);
    let mut argv = command.argv.clone();
    if let Some(path) = words.map(|words| words.path) {
        // Different spellings of one destination count as equal.
        argv.retain(|word| *word != path);
    } else if command.sources.is_empty() {
        return None;
    }
    serde_json::to_string(&(owner.uid, &brings, argv, brings.is_empty().then_some(cwd))).ok()
}

/// Whether a command of ours failed only because the daemon ended during it.
pub(super) fn lost_the_daemon(transfer: &Transfer, report: &PartReport) -> bool {
    let ours = transfer.argv.first().is_some_and(|program| program == "entrepot");
    ours && matches!(report.ending, Ending::Exited { code } if code == i32::from(exit::NO_DAEMON))
}

/// The reason for the user, on one line, and whether the failure may be temporary.
pub(super) fn why(transfer: &Transfer, report: &PartReport) -> (String, bool) {
    let words = shlex::try_join(transfer.argv.iter().map(String::as_str)).unwrap_or_default();
    let ours = transfer.argv.first().is_some_and(|program| program == "entrepot");
    let step = report.steps.last();
    let ending = step.map_or(&report.ending, |step| &step.ending);
    let said = step.map_or("", |step| step.stderr_tail.as_str());
    let passing = exec::may_pass(ours, ending);
    let cause = match said.lines().find_map(|line| line.trim().strip_prefix("error: ")) {
        Some(cause) if ours => cause.to_string(),
        _ => {
            let last: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            let said = if last.is_empty() { String::new() } else { format!("; its output: {}", last.join(" / ")) };
            format!("{ending}{said}")
        }
    };
    let cause: String = cause.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    (format!("line {}: {words}: {cause}", transfer.line), passing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::StepReport;

    fn command(line: &str) -> Command {
        Command { line: 3, argv: line.split(' ').map(String::from).collect(), sources: Vec::new() }
    }

    #[test]
    fn what_does_the_same_is_shared_and_nothing_else() {
        let ann = Caller { uid: 7, gid: 7 };
        let key = |line: &str, owner, cwd: &str| share(&command(line), owner, Path::new(cwd), Some(Path::new("/m")));
        let absolute = key("entrepot stage in http://h/a /m/d/a", ann, "/home/ann");
        assert!(absolute.is_some());
        assert_eq!(absolute, key("entrepot stage in http://h/a a", ann, "/m/d"), "the same place");
        for other in ["entrepot stage in http://h/b /m/d/a", "entrepot stage in http://h/a /m/d/b"] {
            assert_ne!(absolute, key(other, ann, "/home/ann"), "{other}");
        }
        assert_ne!(absolute, key("entrepot stage in http://h/a /m/d/a", Caller { uid: 8, gid: 7 }, "/home/ann"));
        assert_eq!(key("./prepare.sh", ann, "/m"), None);
    }

    /// [S-083]
    #[test]
    fn permanent_errors_are_told_from_passing_ones() {
        let transfer = |line: &str| Transfer {
            number: 1,
            kind: PartKind::StageIn,
            argv: command(line).argv,
            line: 3,
            share: None,
            owner: Caller { uid: 7, gid: 7 },
            brings: Vec::new(),
            jobs: [JobId(1)].into(),
            seen_by: [JobId(1)].into(),
            state: Progress::Running,
            took_ms: None,
            why: None,
        };
        let report = |code: i32, said: &str| PartReport {
            kind: PartKind::StageIn,
            started_ms: 0,
            ended_ms: 0,
            ending: Ending::Exited { code },
            steps: vec![StepReport {
                attempts: 1,
                ending: Ending::Exited { code },
                lasted_ms: 0,
                stderr_tail: said.into(),
            }],
        };
        let ours = transfer("entrepot stage in http://h/a /m/a");
        let said = "error: http://h/a: 404 Not ShownJob\n  so:   nothing was changed\n  next: check the URI\n";
        assert_eq!(
            why(&ours, &report(5, said)),
            ("line 3: entrepot stage in http://h/a /m/a: http://h/a: 404 Not ShownJob".into(), false)
        );
        assert!(why(&ours, &report(1, "error: http://h/a: connection refused\n")).1);
        let foreign = transfer("scp h:a b");
        assert_eq!(
            why(&foreign, &report(255, "no route\nto host\n")),
            ("line 3: scp h:a b: exited with status 255; its output: no route / to host".into(), true)
        );
        assert!(!why(&foreign, &report(127, "")).1);
    }
}
