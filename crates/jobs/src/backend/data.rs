//! A job's files in the volume: recording sources, checking staged data, removing partial data.

use super::clearing::Begun;
use super::{Backend, Core};
use crate::directory::{self, Nodes};
use crate::error::Error;
use crate::job::Job;
use crate::marks;
use crate::plan::paths;
use crate::request::{
    Caller, CheckReport, DataWarp, JobId, PartKind, Plan, Protected, RecordedSource, Staging, Transfer,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time within which a volume is mounted after the start of its daemon: a generous guess.
const MOUNTED_WITHIN_S: u32 = 60;

impl<B: Backend> Core<B> {
    /// Makes the directories of a new job and marks its checkpoints. An error leaves nothing behind.
    pub fn make_ready(&self, owner: Caller, id: JobId, nodes: Nodes, plan: &mut Plan, cwd: &Path) -> Result<(), Error> {
        let mark = Self::mark(id);
        directory::give(&*self.volume, owner, &mark, nodes, plan)?;
        let marked = marks::mark(&*self.volume, owner, &mark, plan, cwd);
        plan.warnings.extend(marked.inspect_err(|_| directory::remove(&plan.datawarp))?);
        Ok(())
    }

    /// Takes back [`Core::make_ready`].
    pub fn unmake(&self, id: JobId, plan: &Plan) {
        self.volume.unmark_checkpoints(&Self::mark(id));
        directory::remove(&plan.datawarp);
    }

    /// Records the sources of files that ordinary stage-in commands fetched. A file without a source only lacks
    /// recovery.
    pub fn record_sources(&self, job: &Job<B::JobData>) -> Vec<RecordedSource> {
        let commands = job.plan.part(PartKind::StageIn).map_or(&[][..], |part| &part.commands);
        let path = |path: &str| paths::in_volume(path, &job.cwd, job.mount.as_deref()?);
        let found = commands.iter().flat_map(|command| &command.sources);
        found
            .filter_map(|found| Some((path(&found.path)?, found.uri.clone())))
            .map(|(path, uri)| match self.volume.record_source(job.owner, &path, &uri) {
                Ok(path) => RecordedSource { path, uri, error: None },
                Err(error) => RecordedSource { path, uri, error: Some(error) },
            })
            .collect()
    }

    /// Checks whether a job's data are all there; `None` for a job without staged data.
    pub fn check(&self, job: &Job<B::JobData>) -> Result<Option<CheckReport>, String> {
        let paths = job.staged_paths();
        if paths.is_empty() { Ok(None) } else { self.volume.check_before_job(job.owner, &paths).map(Some) }
    }

    /// Removes the partial data of a stage-in that did not succeed.
    pub fn forget_staging(&self, owner: Caller, paths: &[PathBuf]) {
        for path in paths {
            if let Err(error) = self.volume.forget_staging(owner, path) {
                tracing::warn!("the staged files of {} cannot be released: {error}", path.display());
            }
        }
    }

    /// Removes partial data of failed stage-ins and a job's directory. A separate thread does it: the table may be
    /// locked and the volume slow. `begun` is dropped at the end.
    pub fn clear(
        self: &Arc<Self>,
        staged: Vec<(Caller, Vec<PathBuf>)>,
        datawarp: Option<DataWarp>,
        begun: Option<Begun>,
    ) {
        if staged.is_empty() && datawarp.is_none() {
            return;
        }
        let core = self.clone();
        drop(self.config.threads.push(move || {
            staged.iter().for_each(|(owner, paths)| core.forget_staging(*owner, paths));
            datawarp.iter().for_each(directory::remove);
            drop(begun);
        }));
    }

    /// Removes directories of ended jobs, if the last daemon ended before it did so.
    pub fn remove_left(self: &Arc<Self>, jobs: &BTreeMap<JobId, Job<B::JobData>>) {
        let leaves = |job: &&Job<B::JobData>| job.plan.datawarp.own.as_ref().is_some_and(|own| own.leaves);
        let begun = |job: &Job<B::JobData>| (self.clearing.begin(job.id), job.plan.datawarp.clone());
        let left: Vec<_> = jobs.values().filter(leaves).map(begun).collect();
        if left.is_empty() {
            return;
        }
        let core = self.clone();
        drop(self.config.threads.push(move || core.remove_when_mounted(left, MOUNTED_WITHIN_S)));
    }

    /// Removes the directories, with a try each second while the volume is not mounted.
    fn remove_when_mounted(self: Arc<Self>, mut left: Vec<(Begun, DataWarp)>, tries_left: u32) {
        left.retain(|(_, datawarp)| directory::try_to_remove(datawarp).is_err());
        if left.is_empty() || self.table.lock().closed {
            return;
        }
        if tries_left == 0 {
            return left.iter().for_each(|(_, datawarp)| directory::remove(datawarp));
        }
        let (core, again) = (self.clone(), Instant::now() + Duration::from_secs(1));
        drop(self.config.threads.at(again, move || core.remove_when_mounted(left, tries_left - 1)));
    }

    /// Transfers of a job's data that run now.
    pub fn transfers(&self, job: &Job<B::JobData>) -> Vec<Transfer> {
        let paths = job.moving_paths();
        if paths.is_empty() { Vec::new() } else { self.volume.transfers(job.owner, &paths) }
    }

    /// Total progress of the job's transfers.
    pub fn staging(&self, job: &Job<B::JobData>) -> Option<Staging> {
        let all = self.transfers(job);
        (!all.is_empty()).then(|| Staging {
            done_bytes: all.iter().map(|one| one.done_bytes).sum(),
            total_bytes: all.iter().map(|one| one.total_bytes).sum(),
            left_s: all.iter().filter_map(|one| one.left_s).max(),
        })
    }

    /// Protection of the input of a job, by its number in the queue.
    pub fn protection(&self, job: &Job<B::JobData>, number: &str) -> Vec<Protected> {
        self.volume.protection(job.owner, number, &job.staged_paths())
    }
}
