//! Restart of the daemon: every job continues from its recorded state.

use super::local::{Core, JobTable};
use super::{gate, watch};
use crate::backend::Now;
use crate::exec::outside;
use crate::job::Progress;
use crate::request::*;
use policy::Time;
use policy::machine::Machine;
use policy::schedule::easy::Event;
use std::sync::Arc;

/// Reads all jobs and submits the unfinished ones to the scheduler.
pub(super) fn take_up(core: &Arc<Core>) -> object::Result<()> {
    let mut table = core.table.lock();
    table.jobs = core.kept_jobs()?;
    core.remove_left(&table.jobs);
    let unfinished: Vec<JobId> =
        table.jobs.values().filter(|r| !r.state.is_final() && r.own.external.is_none()).map(|r| r.id).collect();
    for id in unfinished {
        take_up_job(core, &mut table, id);
    }
    core.pump(&mut table);
    Ok(())
}

fn take_up_job(core: &Arc<Core>, table: &mut JobTable, id: JobId) {
    let kinds: Vec<PartKind> = table.jobs.get(&id).into_iter().flat_map(|r| &r.own.parts).map(|p| p.kind).collect();
    let mut ended = None;
    if let Some(record) = table.jobs.get(&id).cloned() {
        gate::submit(core, table, &record);
    }
    for kind in kinds {
        let Some(record) = table.jobs.get_mut(&id) else { return };
        let job = core.request(record, kind);
        let Some(part) = record.part_mut(kind) else { continue };
        match part.progress {
            Progress::Done | Progress::Failed | Progress::Dropped => {}
            Progress::Running => {
                let started = Time::from_millis(part.dispatched_ms.unwrap_or_default());
                // Checked before the adoption: a supervisor that begins in between must not count as lost.
                if !outside::was_begun(&super::spool::dir(&core.config, id), kind) {
                    // The daemon ended before the recorded start took place. The part's lock prevents a second run.
                    let Some(record) = table.jobs.get_mut(&id) else { return };
                    record.part_mut(kind).into_iter().for_each(|part| part.progress = Progress::Waiting);
                    record.enter(JobState::Queued, "waits for its turn, after a restart of the daemon");
                    let record = record.clone();
                    if kind == PartKind::StageIn {
                        gate::submit(core, table, &record);
                    }
                    table.machine.handle(core.now(), Event::Submitted(core.request(&record, kind)));
                    continue;
                }
                if !watch::adopt(core, table, id, kind) {
                    ended = Some(kind);
                } else if let Some(record) = table.jobs.get_mut(&id).filter(|_| kind == PartKind::StageIn) {
                    core.tell(record, Now::UnderWay);
                }
                table.machine.handle(core.now(), Event::Running { job, started });
            }
            Progress::Waiting | Progress::Checking => {
                part.progress = Progress::Waiting;
                if record.state == JobState::Checking {
                    record.enter(JobState::Queued, "waits for its turn, after a restart of the daemon");
                }
                table.machine.handle(core.now(), Event::Submitted(job));
            }
        }
    }
    if let Some(kind) = ended {
        let report = watch::report(core, id, kind);
        core.ended(table, id, kind, report);
    }
    // The last daemon had not finished this cancel.
    if table.jobs.get(&id).is_some_and(|r| r.own.cancelled && !r.state.is_final()) {
        core.cancel(table, id);
    }
}
