//! The last step of a stage-in: sources recorded, sizes and checksums compared. Only then does Slurm hear of success.

use super::core::{Book, Core};
use super::due::{self, Now};
use super::record::{Job, Phase, Transfer, TransferState, Why};
use crate::plan::paths;
use crate::request::PartKind;
use std::sync::Arc;

/// Compares what a job's stage-in brought, on a thread of its own.
pub(super) fn start(core: &Arc<Core>, book: &mut Book, id: u64) {
    let Some(job) = book.jobs.get(&id).cloned() else { return };
    if !book.verifying.insert(id) {
        return;
    }
    let core = core.clone();
    std::thread::spawn(move || {
        record_sources(&core, &job);
        let paths = job.staged_paths();
        let compared = if paths.is_empty() { Ok(0) } else { core.volume.verify_staged(job.owner, &paths) };
        let mut book = core.book.lock();
        book.verifying.remove(&id);
        let took_ms = book.jobs.get(&id).and_then(|job| due::took_ms(&book, job));
        let Some(job) = book.jobs.get_mut(&id).filter(|job| job.phase == Phase::Verifying) else { return };
        match compared {
            Ok(bytes) => {
                job.note = Some(format!("{bytes} bytes compared with their checksums"));
                due::tell(&core, job, Now::Arrived(took_ms));
                job.enter(Phase::StagedIn);
                core.keep(job);
            }
            Err(cause) => {
                // So that they are brought again, not believed again.
                for number in job.brought.clone() {
                    if let Some(transfer) = book.transfers.get_mut(&number) {
                        transfer.state = TransferState::Failed;
                        transfer.why = Some((cause.clone(), true));
                        core.keep_transfer(transfer);
                    }
                }
                core.fail(&mut book, id, Why { part: PartKind::StageIn, cause, passing: true });
            }
        }
    });
}

/// What ordinary commands fetched into the volume gets its source. Without one it only lacks recovery.
fn record_sources(core: &Core, job: &Job) {
    let Some(mount) = job.mount.as_deref() else { return };
    let commands = job.plan.parts.iter().filter(|part| part.kind == PartKind::StageIn).flat_map(|part| &part.commands);
    for found in commands.flat_map(|command| &command.sources) {
        let Some(path) = paths::in_volume(&found.path, &job.cwd, mount) else { continue };
        if let Err(error) = core.volume.record_source(job.owner, &path, &found.uri) {
            tracing::info!("the source of {} is not recorded: {error}", path.display());
        }
    }
}

/// Nobody needs a transfer that did not come to its end: what it brought so far is given up.
pub(super) fn forget(core: &Core, transfer: &Transfer) {
    if transfer.kind != PartKind::StageIn || transfer.state == TransferState::Done {
        return;
    }
    for path in &transfer.brings {
        if let Err(error) = core.volume.forget_staging(transfer.owner, path) {
            tracing::warn!("what was staged of {} cannot be given up: {error}", path.display());
        }
    }
}
