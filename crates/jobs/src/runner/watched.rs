//! Watching a job of the runner: each change of its state, and the progress of its data.

use super::Runner;
use super::local::{Core, Record};
use super::queued::picture;
use crate::error::Result;
use crate::job::Progress;
use crate::queue::State;
use crate::request::{Caller, JobId, JobState, PartKind, Watched};
use object::now_ms;

/// An estimate this close counts as now.
const SOON_MS: u64 = 2000;

impl Runner {
    /// Watches a job until it is over. `progress` receives each change, and the same state again every few seconds; it
    /// returns `false` once the client is gone.
    pub fn watch(&self, caller: Caller, id: JobId, progress: &mut dyn FnMut(&Watched) -> bool) -> Result<Watched> {
        let look = || self.look(caller, id, Record::clone).map(|record| self.watched(&record));
        self.core.watch_job(id, look, progress)
    }

    fn watched(&self, record: &Record) -> Watched {
        let mut summary = self.summary(record);
        summary.staging = None;
        let waits = !record.state.is_final() && record.is_at(PartKind::Compute, Progress::Waiting);
        Watched {
            summary,
            start_ms: waits.then(|| start_ms(&self.core, record)).flatten().filter(|at| *at > now_ms() + SOON_MS),
            arrival: (record.state == JobState::Queued).then(|| self.core.told(record)).flatten(),
            transfers: self.core.transfers(record),
        }
    }
}

/// Estimated start of the script of a waiting job, from its queue.
fn start_ms(core: &Core, record: &Record) -> Option<u64> {
    if record.own.external.is_some() {
        return core.own.starts.lock().get(&record.id).copied();
    }
    let name = record.id.to_string();
    picture(core).jobs.iter().find(|job| job.state == State::Pending && job.id == name)?.start_ms
}
