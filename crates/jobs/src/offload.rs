//! Early results: the files of a `#STAGEOUT` line are sent as soon as they are closed, while the script runs. This
//! works with the built-in runner, Slurm with hooks, and another scheduler with three dependent jobs.
//!
//! A result is sent by the command of its line, as the job's owner, under a separate supervisor. The stage-out part
//! skips results that were sent and not changed since. So that part still decides about success, and it ends sooner
//! after more early results. The daemon has no access to the environment of another scheduler's job. Only the stage-out
//! part can use credentials from it.

use crate::backend::{Backend, Core};
use crate::config::Config;
use crate::exec::{Spec, outside};
use crate::plan::run_words;
use crate::request::{Early, JobId, PartKind};
use object::now_ms;
use object::workers::Periodic;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Interval between two checks of results. A result must be closed and unchanged from one to the next.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A stage-out line of a job: the job, and the index of the command.
type Line = (JobId, usize);

/// State of a result between two checks.
#[derive(Default)]
struct ResultState {
    /// Version of the result at the last check.
    last: Option<String>,
    /// Version of the result at the last try to send it.
    tried: Option<String>,
    sending: bool,
}

type Lines = Arc<parking_lot::Mutex<BTreeMap<Line, ResultState>>>;

/// Starts to look for early results, if the operator enabled them.
pub(crate) fn start<B: Backend>(core: &Arc<Core<B>>) {
    if !core.config.offload_on_close {
        return;
    }
    // Leftovers of an earlier daemon's transfers; they hold the environment of users.
    let _ = std::fs::remove_dir_all(root::<B>(&core.config));
    let weak = Arc::downgrade(core);
    let seen = Lines::default();
    let work = move || {
        let core = weak.upgrade().filter(|core| !core.table.lock().closed)?;
        look(&core, &seen);
        Some(LOOK_EVERY)
    };
    drop(core.early.get_or_init(|| Periodic::new(&core.config.threads, work)).wake_in(LOOK_EVERY));
}

fn root<B: Backend>(config: &Config) -> PathBuf {
    config.jobs_dir.join(format!("early-{}", B::EARLY))
}

fn look<B: Backend>(core: &Arc<Core<B>>, seen: &Lines) {
    let running: Vec<_> = core.table.lock().jobs.values().filter(|job| B::runs(job)).cloned().collect();
    seen.lock().retain(|(id, _), s| s.sending || running.iter().any(|r| r.id == *id));
    for job in running {
        let id = job.id;
        for (command, path) in job.results() {
            let version = core.volume.closed_version(job.owner, &path);
            let start = {
                let mut seen = seen.lock();
                let busy = seen.values().filter(|s| s.sending).count() >= core.config.n_transfers_max as usize;
                let line = seen.entry((id, command)).or_default();
                let rested = version.is_some() && line.last == version;
                line.last = version.clone();
                let start = rested && line.tried != version && !line.sending && !busy;
                if start {
                    (line.sending, line.tried) = (true, version.clone());
                }
                start
            };
            if start {
                let (weak, seen) = (Arc::downgrade(core), seen.clone());
                drop(core.config.threads.push(move || {
                    send(&weak, (id, command), path);
                    if let Some(line) = seen.lock().get_mut(&(id, command)) {
                        line.sending = false;
                    }
                }));
            }
        }
    }
}

/// Sends one result and records the outcome.
fn send<B: Backend>(core: &Weak<Core<B>>, (id, command): Line, path: PathBuf) {
    let Some(core) = core.upgrade() else { return };
    let at_ms = now_ms();
    let dir = root::<B>(&core.config).join(format!("{id}-{command}-{at_ms}"));
    let run = |spec| outside::run_to_end(&core.config.program, &core.config.supervisor_args, spec, &dir);
    let failed = spec(&core, id, command).and_then(run).err();
    // The directory holds the user's environment.
    let _ = std::fs::remove_dir_all(&dir);
    if let Some(cause) = &failed {
        tracing::info!("job {id}: {} did not leave early: {cause}", path.display());
    }
    let mut table = core.table.lock();
    if let Some(job) = table.jobs.get_mut(&id) {
        job.early.push(Early { path, at_ms, lasted_ms: now_ms().saturating_sub(at_ms), failed });
        core.keep(job);
    }
    core.changed.notify_all();
}

/// Supervisor's spec for one stage-out command of a job.
fn spec<B: Backend>(core: &Core<B>, id: JobId, command: usize) -> Result<Spec, String> {
    let job = core.table.lock().jobs.get(&id).cloned().ok_or("the job is gone")?;
    let part = job.plan.part(PartKind::StageOut).ok_or("it takes nothing home")?;
    let words = part.commands.get(command).ok_or("it has no such command")?;
    let steps = vec![run_words(&words.argv, &core.config.program, None)];
    let base = B::stage_out(&core.config, &job)?;
    let (retries, walltime_s) = (part.retries, part.walltime_s);
    Ok(Spec { kind: PartKind::StageOut, steps, retries, walltime_s, announce: false, ..base })
}
