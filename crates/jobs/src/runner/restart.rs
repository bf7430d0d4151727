//! After a restart of the daemon: every job is taken up where it stands.

use super::core::{Core, RECORDS};
use super::gate::{self, Now};
use super::record::{Phase, Record, number};
use super::watch;
use crate::exec;
use crate::request::*;
use policy::Time;
use policy::machine::Machine;
use policy::schedule::easy::Event;
use std::sync::Arc;

/// Reads all jobs and tells the scheduler of those that are not finished.
pub(super) fn take_up(core: &Arc<Core>) -> store::Result<()> {
    let mut book = core.book.lock();
    for (key, bytes) in core.state.records(RECORDS)? {
        match serde_json::from_slice::<Record>(&bytes) {
            Ok(record) => {
                book.jobs.insert(record.id, record);
            }
            Err(error) => tracing::error!("the record of job {key} cannot be read and is left alone: {error}"),
        }
    }
    let unfinished: Vec<JobId> =
        book.jobs.values().filter(|r| !r.state.is_final() && r.external.is_none()).map(|r| r.id).collect();
    for id in unfinished {
        take_up_job(core, &mut book, id);
    }
    core.pump(&mut book);
    Ok(())
}

fn take_up_job(core: &Arc<Core>, book: &mut super::core::Book, id: JobId) {
    let kinds: Vec<PartKind> = book.jobs.get(&id).into_iter().flat_map(|r| &r.parts).map(|p| p.kind).collect();
    let mut ended = None;
    if let Some(record) = book.jobs.get(&id).cloned() {
        gate::submit(core, book, &record);
    }
    for kind in kinds {
        let Some(record) = book.jobs.get_mut(&id) else { return };
        let job = core.request(record, kind);
        let Some(part) = record.part_mut(kind) else { continue };
        match part.phase {
            Phase::Ended | Phase::Dropped => {}
            Phase::Started => {
                let started = Time::from_millis(part.dispatched_ms.unwrap_or_default());
                if let Some(process) = watch::adopt(core, id, kind) {
                    if kind == PartKind::StageIn {
                        gate::tell(core, record, Now::UnderWay);
                    }
                    book.running.insert((id, kind), process);
                } else if was_started(core, id, kind) {
                    ended = Some(kind);
                } else {
                    // The daemon ended between writing down the start and starting; the part's lock makes sure of it.
                    part.phase = Phase::Waiting;
                    record.enter(JobState::Queued, "waits for its turn, after a restart of the daemon");
                    let record = record.clone();
                    if kind == PartKind::StageIn {
                        gate::submit(core, book, &record);
                    }
                    book.machine.handle(core.now(), Event::Submitted(core.request(&record, kind)));
                    continue;
                }
                book.machine.handle(core.now(), Event::Running { job, started });
            }
            Phase::Waiting | Phase::Checking => {
                part.phase = Phase::Waiting;
                if record.state == JobState::Checking {
                    record.enter(JobState::Queued, "waits for its turn, after a restart of the daemon");
                }
                book.machine.handle(core.now(), Event::Submitted(job));
            }
        }
    }
    if let Some(kind) = ended {
        let report = watch::report(core, id, kind);
        core.ended(book, id, kind, report);
    }
    finish_cancel(core, book, id);
}

fn was_started(core: &Core, id: JobId, kind: PartKind) -> bool {
    let dir = super::spool::dir(&core.config, id);
    ["pid", "status"].iter().any(|suffix| exec::file(&dir, kind, suffix).exists())
}

/// A cancel that the last daemon did not see through.
fn finish_cancel(core: &Core, book: &mut super::core::Book, id: JobId) {
    let Some(record) = book.jobs.get(&id).filter(|r| r.cancelled && !r.state.is_final()) else { return };
    let kinds: Vec<PartKind> = record.parts.iter().map(|part| part.kind).collect();
    for kind in kinds {
        book.machine.handle(core.now(), Event::Cancelled { id: number(id, kind) });
    }
    book.machine.handle(core.now(), Event::Cancelled { id: gate::number(id) });
}
