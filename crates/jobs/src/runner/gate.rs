//! The gate before a stage-in: a job of the scheduler that every stage-in part depends on. The gate ends when the
//! stage-in may begin.
//!
//! ```text
//!   gate (always room)  --afterok-->  stage-in (queue dataxfer)  --afterok-->  compute  --afterok-->  stage-out
//! ```
//! So a stage-in that is not due takes no slot in the queue of data jobs, and can be cancelled like any other part.

use super::local::{Core, JobTable, Record, part_of};
use super::queued::picture;
use crate::arrivals::{self, Start};
use crate::job::Progress;
use crate::queue::{State, WaitsFor};
use crate::request::*;
use policy::Time;
use policy::machine::Machine;
use policy::schedule::easy::{self, Event};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// The queue of gates, after `batch` and `dataxfer`.
pub(super) const QUEUE: easy::QueueId = easy::QueueId(2);

/// The number of a job's gate; the numbers of its parts end in 0 to 2, modulo 4.
pub(super) fn number(id: JobId) -> easy::JobId {
    easy::JobId(id.0 * 4 + 3)
}

/// Whether a number belongs to a gate.
pub(super) fn is_gate(number: easy::JobId) -> bool {
    number.0 % 4 == 3
}

/// Whether a job has a gate that is still closed.
pub(super) fn is_before(record: &Record) -> bool {
    record.own.external.is_none() && record.is_at(PartKind::StageIn, Progress::Waiting)
}

/// Submits the gate to the scheduler, before the parts that wait for it.
pub(super) fn submit(core: &Core, table: &mut JobTable, record: &Record) {
    if is_before(record) {
        let (id, estimate) = (number(record.id), Time::from_secs(1));
        let gate = easy::Job { id, queue: QUEUE, cores: 1, estimate, after_ok: Vec::new(), after_any: Vec::new() };
        table.machine.handle(core.now(), Event::Submitted(gate));
    }
}

/// Handles the dispatch of a gate: the arrivals now decide when it opens.
pub(super) fn reached(core: &Core, table: &mut JobTable, gate: easy::JobId) {
    let (id, _) = part_of(gate);
    match table.jobs.get_mut(&id).filter(|record| core.ask(record)) {
        Some(record) => record.detail = "waits for the time and the space to bring its data".into(),
        None => table.machine.handle(core.now(), Event::Ended { id: gate, ok: true }),
    }
}

/// Finishes a job that was cancelled at the gate.
pub(super) fn cancelled(core: &Arc<Core>, table: &mut JobTable, gate: easy::JobId) {
    leave(core, table, part_of(gate).0, false, |record| core.finish(record, JobState::Cancelled, None));
    core.prune(table);
}

/// Ends the gate of a job: it opens, or the job is over.
fn leave(core: &Core, table: &mut JobTable, id: JobId, ok: bool, tell: impl FnOnce(&mut Record)) {
    table.jobs.get_mut(&id).filter(|record| !record.state.is_final()).map(tell);
    table.machine.handle(core.now(), Event::Ended { id: number(id), ok });
}

/// The runner's waiting jobs, for the arrivals.
pub(super) struct Waiting(pub Weak<Core>);

impl arrivals::WaitingJobs for Waiting {
    fn starts(&self) -> Option<BTreeMap<u64, Start>> {
        let picture = picture(&*self.0.upgrade()?);
        let waits = picture.jobs.iter().filter(|job| job.state == State::Pending);
        let start = |job: &crate::queue::QueuedJob| {
            let kept_waiting = job.waits_for == WaitsFor::Data && job.start_ms.is_some_and(|at| at <= picture.taken_ms);
            Some((job.id.parse().ok()?, Start { at_ms: job.start_ms, kept_waiting }))
        };
        Some(waits.filter_map(start).collect())
    }

    fn begin(&self, job: u64) {
        Core::with_table(&self.0, |core, table| {
            leave(core, table, JobId(job), true, |record| {
                record.arrival = core.told(record);
                record.detail = "waits for a place in the queue of data jobs".into();
            });
            core.pump(table);
        });
    }

    fn give_up(&self, job: u64, cause: String) {
        Core::with_table(&self.0, |core, table| {
            let cause = Some(format!("stage-in was not begun: {cause}"));
            leave(core, table, JobId(job), false, |record| core.finish(record, JobState::Failed, cause));
            core.pump(table);
            core.prune(table);
        });
    }
}
