//! The last step of a stage-in: sources recorded, sizes and checksums compared. Only then is success reported to
//! Slurm.

use super::hooked::{Core, JobTable, StepFailure};
use super::stage_in;
use super::transfer::Transfer;
use crate::backend::Now;
use crate::job::Progress;
use crate::request::{JobId, JobState, PartKind};
use std::sync::Arc;

/// Verifies the data of a job's stage-in, in the background.
pub(super) fn start(core: &Arc<Core>, table: &mut JobTable, id: JobId) {
    let Some(job) = table.jobs.get(&id).cloned() else { return };
    if !table.own.verifying.insert(id) {
        return;
    }
    let own = core.clone();
    drop(core.config.threads.push(move || {
        let core = own;
        for source in core.record_sources(&job) {
            if let Some(error) = source.error {
                tracing::info!("the source of {} is not recorded: {error}", source.path.display());
            }
        }
        let paths = job.staged_paths();
        let compared = if paths.is_empty() { Ok(0) } else { core.volume.verify_staged(job.owner, &paths) };
        let mut table = core.table.lock();
        table.own.verifying.remove(&id);
        let took_ms = table.jobs.get(&id).and_then(|job| stage_in::took_ms(&table, job));
        let Some(job) = table.jobs.get_mut(&id).filter(|job| job.state == JobState::Verifying) else { return };
        match compared {
            Ok(bytes) => {
                job.own.note = Some(format!("{bytes} bytes compared with their checksums"));
                core.tell(job, Now::Arrived(took_ms));
                job.enter(JobState::StagedIn, "");
                core.keep(job);
            }
            Err(cause) => {
                // The data are removed, so that they are fetched again.
                for number in job.own.brought.clone() {
                    if let Some(transfer) = table.own.transfers.get_mut(&number) {
                        transfer.state = Progress::Failed;
                        transfer.why = Some((cause.clone(), true));
                        core.keep_transfer(transfer);
                    }
                }
                core.fail(&mut table, id, StepFailure { part: PartKind::StageIn, cause, passing: true });
            }
        }
    }));
}

/// Removes the partial data of a transfer that did not succeed and that no job needs.
pub(super) fn forget(core: &Core, transfer: &Transfer) {
    if transfer.kind != PartKind::StageIn || transfer.state == Progress::Done {
        return;
    }
    core.forget_staging(transfer.owner, &transfer.brings);
}
