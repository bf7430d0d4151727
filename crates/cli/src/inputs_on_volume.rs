//! The input of waiting jobs, checked and repaired by the running daemon.

use engine::recovery;
use engine::volume::Jobs;
use jobs::availability::{Guard, Inputs, Looked};
use jobs::queue::Queue;
use jobs::request::Kind;
use jobs::runner::Runner;
use jobs::slurm::Slurm;
use node::daemon::Core;
use object::workers::Pool;
use policy::protect::availability::{Config, Lost};
use policy::{FileId, Time};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The volume of a daemon, for the checks.
struct InputsOnVolume {
    core: Arc<Core>,
    target_changes: Arc<AtomicU64>,
}

impl Inputs for InputsOnVolume {
    type Lost = recovery::Lost;

    fn target_changes(&self) -> u64 {
        self.target_changes.load(Ordering::Acquire)
    }

    fn look(&self, jobs: &[Vec<PathBuf>]) -> Result<Vec<Looked<recovery::Lost>>, String> {
        let below = |path: &PathBuf| Some(path.strip_prefix(&self.core.mount_point).ok()?.to_str()?.to_string());
        let groups: Vec<Vec<String>> = jobs.iter().map(|paths| paths.iter().filter_map(below).collect()).collect();
        let looked = self.core.checker.lost(&groups).map_err(|e| e.to_string())?;
        let convert = |lost: recovery::Lost| {
            let of = lost.candidate();
            (Lost { file: of.file, object: of.object, healthy_copies: of.healthy_copies, bytes: of.bytes }, lost)
        };
        let looked = looked.into_iter();
        Ok(looked.map(|(files, lost)| Looked { files, lost: lost.into_iter().map(convert).collect() }).collect())
    }

    fn repair(&self, lost: &recovery::Lost) -> Result<(), String> {
        self.core.checker.bring_back(lost).map_err(|e| e.to_string())
    }

    fn starts(&self, starts: BTreeMap<FileId, Time>) {
        self.core.checker.starts.set(starts);
    }
}

/// Starts the checks of the input of waiting jobs, over all queues of this daemon; over none if `check_before_job` is
/// off.
pub fn start(
    core: &Arc<Core>,
    runner: &Arc<Runner>,
    slurm: &Slurm,
    settings: &Jobs,
    threads: &Pool,
) -> std::io::Result<Guard> {
    let target_changes = Arc::new(AtomicU64::new(0));
    let own = target_changes.clone();
    core.volume.targets().on_change(move |_| {
        own.fetch_add(1, Ordering::AcqRel);
    });
    let mut queues: Vec<Arc<dyn Queue>> =
        vec![runner.clone(), slurm.queue(), runner.queue_elsewhere(Kind::Slurm), runner.queue_elsewhere(Kind::Pbs)];
    queues.retain(|_| settings.check_before_job);
    let time = |span: Duration| Time(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
    let settle = time(core.volume.config().replication.delay);
    let machine = Config { every: time(settings.check_every), settle, ..Config::default() };
    let inputs = InputsOnVolume { core: core.clone(), target_changes };
    Guard::start(machine, settings.queue_poll, queues, Arc::new(inputs), threads)
}
