//! The threads that wait: for a part's processes to end, and for the check before dispatch.

use super::core::Core;
use super::record::{Phase, Record};
use super::spool;
use crate::exec::now_ms;
pub(super) use crate::exec::outside::lost_report;
use crate::exec::outside::{self, Supervisor};
use crate::request::*;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

/// Starts a part's supervisor and a thread that waits for it.
pub(super) fn spawn(core: &Arc<Core>, id: JobId, kind: PartKind) -> std::io::Result<Arc<OwnedFd>> {
    let config = &core.config;
    let started = outside::start(&config.program, &config.supervisor_args, &spool::dir(config, id), kind)?;
    Ok(wait(core, id, kind, started))
}

/// Takes over a part that another daemon started, if it still runs.
pub(super) fn adopt(core: &Arc<Core>, id: JobId, kind: PartKind) -> Option<Arc<OwnedFd>> {
    let adopted = outside::adopt(&spool::dir(&core.config, id), kind)?;
    Some(wait(core, id, kind, adopted))
}

fn wait(core: &Arc<Core>, id: JobId, kind: PartKind, mut supervisor: Supervisor) -> Arc<OwnedFd> {
    let (weak, process) = (Arc::downgrade(core), supervisor.process.clone());
    let closing = core.closing.try_clone();
    std::thread::spawn(move || {
        if closing.is_ok_and(|closing| supervisor.wait(&closing)) {
            take_report(&weak, id, kind);
        }
    });
    process
}

fn take_report(core: &Weak<Core>, id: JobId, kind: PartKind) {
    let Some(core) = core.upgrade() else { return };
    let report = report(&core, id, kind);
    let recoveries = recoveries(&core, id, &report);
    let mut book = core.book.lock();
    if book.closed {
        return;
    }
    if let Some(record) = book.jobs.get_mut(&id) {
        record.recoveries.extend(recoveries);
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
        let sources = record_sources(&core, &record);
        let paths = record.staged_paths();
        let checked =
            if paths.is_empty() { Ok(None) } else { core.volume.check_before_job(record.owner, &paths).map(Some) };
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
    book: &mut super::core::Book,
    id: JobId,
    sources: Vec<RecordedSource>,
    checked: Result<Option<CheckReport>, String>,
) {
    let Some(record) = book.jobs.get_mut(&id) else { return };
    record.sources = sources;
    let failure = match checked {
        _ if record.cancelled => Some(Ending::Cancelled),
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

/// Records the sources of what ordinary stage-in commands fetched into the volume.
pub(super) fn record_sources(core: &Core, record: &Record) -> Vec<RecordedSource> {
    let brought =
        record.part(PartKind::StageIn).is_some_and(|part| part.phase == Phase::Ended) || record.external.is_some();
    let commands = record.plan.parts.iter().filter(|part| brought && part.kind == PartKind::StageIn);
    let found = commands.flat_map(|part| &part.commands).flat_map(|command| &command.sources);
    found
        .filter_map(|found| Some((record.in_volume(&found.path)?, found.uri.clone())))
        .map(|(path, uri)| match core.volume.record_source(record.owner, &path, &uri) {
            Ok(path) => RecordedSource { path, uri, error: None },
            Err(error) => RecordedSource { path, uri, error: Some(error) },
        })
        .collect()
}
