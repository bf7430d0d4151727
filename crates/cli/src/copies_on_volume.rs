//! Replication of jobs' input in the running daemon: its queue, and its volume.

use engine::volume::{self, QueueName, ReplicationPolicy};
use jobs::known::KnownJobs;
use jobs::queue::{InputsOf, Queue, WithInputs};
use jobs::replication::{Copies, Replication};
use jobs::request::Kind;
use jobs::runner::Runner;
use jobs::slurm::Slurm;
use jobs::uid_of;
use node::adapt::JOB_VARIABLES;
use node::daemon::Core;
use object::workers::Pool;
use policy::protect::replica::{Event, JobId, Protection};
use policy::{FileId, Time};
use std::path::PathBuf;
use std::sync::Arc;

/// The volume of a daemon, which makes the copies for the jobs of one queue.
struct CopiesOnVolume {
    core: Arc<Core>,
    /// The variable in which processes find the number of their job.
    variable: &'static str,
}

impl Copies for CopiesOnVolume {
    fn is_here(&self) -> bool {
        self.core.acts()
    }

    fn files_of(&self, inputs: &[PathBuf]) -> Vec<FileId> {
        let below = inputs.iter().filter_map(|path| path.strip_prefix(&self.core.mount_point).ok()?.to_str());
        below.flat_map(|path| self.core.checker.files_below(path)).map(|(id, _)| id).collect()
    }

    fn tell(&self, events: Vec<Event>) {
        self.core.adapt.tell_of_jobs(events);
    }

    fn any(&self) -> bool {
        self.core.adapt.replicas().any()
    }

    fn protection(&self, job: JobId) -> (Vec<Protection>, Time) {
        self.core.adapt.protection(job)
    }

    fn has_closed(&self, job: &str, user: &str, file: FileId) -> bool {
        uid_of(user).is_some_and(|uid| self.core.adapt.replicas().has_closed(file, self.variable, job, uid))
    }
}

/// Starts the replication of `[replication]`. With the policy `none` it removes the copies of an earlier one.
pub fn start(
    core: &Arc<Core>,
    runner: &Arc<Runner>,
    of_slurm: &Slurm,
    known: Option<&Arc<KnownJobs>>,
    settings: &volume::Replication,
    threads: &Pool,
) -> std::io::Result<Replication> {
    let with_inputs = |kind, here| {
        let inputs_of = match known {
            Some(known) => either(here, known.inputs_elsewhere(kind)),
            None => here,
        };
        Arc::new(WithInputs { kind, inputs_of, is_needed: Box::new(|| true) })
    };
    let [of_ours, of_slurms, of_pbs] = JOB_VARIABLES;
    let (queue, variable): (Arc<dyn Queue>, _) = match settings.queue {
        QueueName::Local => (runner.clone(), of_ours),
        QueueName::Slurm => (with_inputs(Kind::Slurm, either(of_slurm.inputs_of(), runner.inputs_of())), of_slurms),
        QueueName::Pbs => (with_inputs(Kind::Pbs, runner.inputs_of()), of_pbs),
    };
    Replication::start(
        (settings.policy != ReplicationPolicy::None, settings.poll),
        queue,
        Arc::new(CopiesOnVolume { core: core.clone(), variable }),
        threads,
    )
}

/// Combines two lookups of a job's inputs, since its record may be of the built-in runner, of Slurm, or of another
/// node.
fn either(one: InputsOf, other: InputsOf) -> InputsOf {
    Arc::new(move |id: &str| {
        let inputs = one(id);
        if inputs.is_empty() { other(id) } else { inputs }
    })
}
