//! Removal of a job record at the request of its owner, if the job was cancelled or its staging failed for good.

use super::Slurm;
use super::hooked::{Core, JobTable};
use super::{scontrol, spool};
use crate::error::{Error, Result};
use crate::request::{Caller, JobId, JobState, PartKind};
use std::sync::Arc;

impl Slurm {
    /// Removes the record of a job that is over here. A job still in Slurm's queue is cancelled there. The job's files
    /// stay: they belong to the owner.
    pub fn forget(&self, caller: Caller, id: JobId) -> Result<String> {
        let core = &self.core;
        let (state, conf, owner) = self.look(caller, id, |job| (job.state, job.own.conf.clone(), job.owner.uid))?;
        if !state.is_final() {
            let cause = format!("job {id} is {state}, so it cannot be forgotten");
            return Err(Error::refused(cause, format!("wait for its end, or cancel it first: scancel {id}")));
        }
        let mut said = "its record is gone";
        match scontrol::look(id, conf.as_deref()) {
            Ok(found) if !found.is_over() && found.is_of(owner) => {
                scontrol::cancel(id, conf.as_deref())
                    .map_err(|e| Error::World(format!("{e}; nothing was forgotten")))?;
                said = "it is cancelled in Slurm, and its record is gone";
            }
            // A record must not depend on a Slurm that is gone for good: the operator decides.
            Err(error) if state == JobState::Failed && caller.uid != 0 => {
                return Err(Error::World(format!(
                    "{error}; Slurm may still have the job, so nothing was forgotten; try again when it answers"
                )));
            }
            _ => {}
        }
        let mut table = core.table.lock();
        // A hook may have restarted the job since.
        if table.jobs.get(&id).is_some_and(|job| job.state.is_final()) {
            core.forget(&mut table, id);
            core.remove_unused_transfers(&mut table);
        }
        Ok(said.into())
    }
}

impl Core {
    /// Removes everything of a job: its record, its environment, and remains of its failed transfers.
    pub(super) fn forget(self: &Arc<Self>, table: &mut JobTable, id: JobId) {
        self.release(table, id, PartKind::StageIn);
        self.release(table, id, PartKind::StageOut);
        self.give_up(table, id);
        table.jobs.remove(&id);
        self.forget_job(id);
        spool::forget_base(&self.config, id);
        for transfer in table.own.transfers.values_mut() {
            transfer.seen_by.remove(&id);
        }
    }
}
