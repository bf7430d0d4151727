//! The threads that wait: for a part's processes to end, and for the check before dispatch.

use super::local::{Book, Core, number};
use super::spool;
use crate::exec::now_ms;
pub(super) use crate::exec::outside::lost_report;
use crate::exec::outside::{self, Supervisor};
use crate::request::*;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Starts a part's supervisor and a thread that waits for it.
pub(super) fn spawn(core: &Arc<Core>, book: &mut Book, id: JobId, kind: PartKind) -> std::io::Result<()> {
    let config = &core.config;
    let started = outside::start(&config.program, &config.supervisor_args, &spool::dir(config, id), kind)?;
    wait(core, book, id, kind, started);
    Ok(())
}

/// Takes over a part that another daemon started. Whether it still runs.
pub(super) fn adopt(core: &Arc<Core>, book: &mut Book, id: JobId, kind: PartKind) -> bool {
    let adopted = outside::adopt(&spool::dir(&core.config, id), kind);
    adopted.map(|adopted| wait(core, book, id, kind, adopted)).is_some()
}

fn wait(core: &Arc<Core>, book: &mut Book, id: JobId, kind: PartKind, supervisor: Supervisor) {
    core.watch(book, number(id, kind), supervisor, move |core| take_report(core, id, kind));
}

fn take_report(core: &Arc<Core>, id: JobId, kind: PartKind) {
    let report = report(core, id, kind);
    let recoveries = recoveries(core, id, &report);
    let mut book = core.book.lock();
    if book.closed {
        return;
    }
    if let Some(record) = book.jobs.get_mut(&id) {
        record.own.recoveries.extend(recoveries);
    }
    core.ended(&mut book, id, kind, report);
    core.pump(&mut book);
}

fn recoveries(core: &Core, id: JobId, report: &PartReport) -> Vec<RecoveryEvent> {
    let staged = core.book.lock().jobs.get(&id).map(|record| (record.owner, record.staged_paths()));
    let Some((owner, paths)) = staged.filter(|(_, paths)| !paths.is_empty() && report.kind == PartKind::Compute) else {
        return Vec::new();
    };
    core.volume.recoveries(owner, &paths, report.started_ms, report.ended_ms)
}

/// How a part ended.
pub(super) fn report(core: &Core, id: JobId, kind: PartKind) -> PartReport {
    outside::report(&spool::dir(&core.config, id), kind)
}

/// Tells a supervisor to end its part, and ends both if it does not.
pub(super) fn stop(core: &Arc<Core>, id: JobId, kind: PartKind, held: Arc<OwnedFd>) {
    outside::stop(&spool::dir(&core.config, id), kind, held, core.config.grace_ms);
}

/// Starts the check before dispatch on a thread of its own; the compute part follows it.
pub(super) fn check(core: &Arc<Core>, id: JobId) {
    let core = core.clone();
    std::thread::spawn(move || {
        let Some(record) = core.book.lock().jobs.get(&id).cloned() else { return };
        let sources = core.record_sources(&record);
        let checked = core.check(&record);
        let mut book = core.book.lock();
        if book.closed {
            return;
        }
        checked_job(&core, &mut book, id, sources, checked);
        core.pump(&mut book);
    });
}

fn checked_job(
    core: &Arc<Core>,
    book: &mut Book,
    id: JobId,
    sources: Vec<RecordedSource>,
    checked: Result<Option<CheckReport>, String>,
) {
    let Some(record) = book.jobs.get_mut(&id) else { return };
    record.own.sources = sources;
    let failure = match checked {
        _ if record.own.cancelled => Some(Ending::Cancelled),
        Ok(report) => {
            record.check = report;
            None
        }
        Err(reason) => Some(Ending::Lost { cause: format!("its data are not all there: {reason}") }),
    };
    match failure {
        None => core.launch(book, id, PartKind::Compute),
        Some(ending) => {
            let now = now_ms();
            let kind = PartKind::Compute;
            core.ended(book, id, kind, PartReport { kind, started_ms: now, ended_ms: now, ending, steps: Vec::new() });
        }
    }
}
