//! Background work: at the end of a part's processes, and for the check before dispatch.

use super::local::{Core, JobTable, number};
use super::spool;
pub(super) use crate::exec::outside::lost_report;
use crate::exec::outside::{self, Supervisor, report_without_steps};
use crate::request::*;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Starts a part's supervisor and watches it.
pub(super) fn spawn(core: &Arc<Core>, table: &mut JobTable, id: JobId, kind: PartKind) -> std::io::Result<()> {
    let config = &core.config;
    let started = outside::start(&config.program, &config.supervisor_args, &spool::dir(config, id), kind)?;
    wait(core, table, id, kind, started);
    Ok(())
}

/// Takes over a part that another daemon started. Returns whether the part still runs.
pub(super) fn adopt(core: &Arc<Core>, table: &mut JobTable, id: JobId, kind: PartKind) -> bool {
    let adopted = outside::adopt(&spool::dir(&core.config, id), kind);
    adopted.map(|adopted| wait(core, table, id, kind, adopted)).is_some()
}

fn wait(core: &Arc<Core>, table: &mut JobTable, id: JobId, kind: PartKind, supervisor: Supervisor) {
    core.watch(table, number(id, kind), supervisor, move |core| take_report(core, id, kind));
}

fn take_report(core: &Arc<Core>, id: JobId, kind: PartKind) {
    let report = report(core, id, kind);
    let recoveries = recoveries(core, id, &report);
    let mut table = core.table.lock();
    if table.closed {
        return;
    }
    if let Some(record) = table.jobs.get_mut(&id) {
        record.own.recoveries.extend(recoveries);
    }
    core.ended(&mut table, id, kind, report);
    core.pump(&mut table);
}

fn recoveries(core: &Core, id: JobId, report: &PartReport) -> Vec<RecoveryEvent> {
    let staged = core.table.lock().jobs.get(&id).map(|record| (record.owner, record.staged_paths()));
    let Some((owner, paths)) = staged.filter(|(_, paths)| !paths.is_empty() && report.kind == PartKind::Compute) else {
        return Vec::new();
    };
    core.volume.recoveries(owner, &paths, report.started_ms, report.ended_ms)
}

/// How a part ended.
pub(super) fn report(core: &Core, id: JobId, kind: PartKind) -> PartReport {
    outside::report(&spool::dir(&core.config, id), kind)
}

/// Signals a supervisor to end its part, and kills both if it does not.
pub(super) fn stop(core: &Arc<Core>, id: JobId, kind: PartKind, held: Arc<OwnedFd>) {
    let config = &core.config;
    outside::stop(&config.threads, &spool::dir(config, id), kind, held, config.grace_ms);
}

/// Starts the check before dispatch in the background; the compute part follows it.
pub(super) fn check(core: &Arc<Core>, id: JobId) {
    let own = core.clone();
    drop(core.config.threads.push(move || {
        let core = own;
        let Some(record) = core.table.lock().jobs.get(&id).cloned() else { return };
        let sources = core.record_sources(&record);
        let checked = core.check(&record);
        let mut table = core.table.lock();
        if table.closed {
            return;
        }
        checked_job(&core, &mut table, id, sources, checked);
        core.pump(&mut table);
    }));
}

fn checked_job(
    core: &Arc<Core>,
    table: &mut JobTable,
    id: JobId,
    sources: Vec<RecordedSource>,
    checked: Result<Option<CheckReport>, String>,
) {
    let Some(record) = table.jobs.get_mut(&id) else { return };
    record.own.sources = sources;
    let ending = match checked {
        _ if record.own.cancelled => Ending::Cancelled,
        Ok(report) => {
            record.check = report;
            return core.launch(table, id, PartKind::Compute);
        }
        Err(reason) => Ending::Lost { cause: format!("its data are not all there: {reason}") },
    };
    core.ended(table, id, PartKind::Compute, report_without_steps(PartKind::Compute, ending));
}
