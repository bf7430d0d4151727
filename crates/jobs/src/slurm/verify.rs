//! The last step of a stage-in: sources recorded, sizes and checksums compared. Only then does Slurm hear of success.

use super::due;
use super::hooked::{Book, Core, Why};
use super::transfer::Transfer;
use crate::backend::Now;
use crate::job::Progress;
use crate::request::{JobId, JobState, PartKind};
use std::sync::Arc;

/// Compares what a job's stage-in brought, on a thread of its own.
pub(super) fn start(core: &Arc<Core>, book: &mut Book, id: JobId) {
    let Some(job) = book.jobs.get(&id).cloned() else { return };
    if !book.own.verifying.insert(id) {
        return;
    }
    let core = core.clone();
    std::thread::spawn(move || {
        for source in core.record_sources(&job) {
            if let Some(error) = source.error {
                tracing::info!("the source of {} is not recorded: {error}", source.path.display());
            }
        }
        let paths = job.staged_paths();
        let compared = if paths.is_empty() { Ok(0) } else { core.volume.verify_staged(job.owner, &paths) };
        let mut book = core.book.lock();
        book.own.verifying.remove(&id);
        let took_ms = book.jobs.get(&id).and_then(|job| due::took_ms(&book, job));
        let Some(job) = book.jobs.get_mut(&id).filter(|job| job.state == JobState::Verifying) else { return };
        match compared {
            Ok(bytes) => {
                job.own.note = Some(format!("{bytes} bytes compared with their checksums"));
                core.tell(job, Now::Arrived(took_ms));
                job.enter(JobState::StagedIn, "");
                core.keep(job);
            }
            Err(cause) => {
                // So that they are brought again, not believed again.
                for number in job.own.brought.clone() {
                    if let Some(transfer) = book.own.transfers.get_mut(&number) {
                        transfer.state = Progress::Failed;
                        transfer.why = Some((cause.clone(), true));
                        core.keep_transfer(transfer);
                    }
                }
                core.fail(&mut book, id, Why { part: PartKind::StageIn, cause, passing: true });
            }
        }
    });
}

/// Nobody needs a transfer that did not come to its end: what it brought so far is given up.
pub(super) fn forget(core: &Core, transfer: &Transfer) {
    if transfer.kind != PartKind::StageIn || transfer.state == Progress::Done {
        return;
    }
    core.forget_staging(transfer.owner, &transfer.brings);
}
