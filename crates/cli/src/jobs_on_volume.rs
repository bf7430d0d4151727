//! The job runner's interface to the volume, implemented by the running daemon.

use engine::events::{Event, Kind as EventKind};
use engine::recovery::{Behalf, CheckOptions, Outcome, Tally};
use engine::source::Identity;
use engine::stage::{Progress, StageIn, Stop};
use engine::stats::Metric;
use jobs::replication::Replication;
use jobs::request::{Caller, CheckReport, Incoming, JobId, JobState, Protected, RecoveryEvent, StageInput, Transfer};
use jobs::volume::Volume;
use node::adapt::burst::{self, Command, Mark};
use node::control::answers::Done;
use node::daemon::{Core, JobFacts, JobNow};
use policy::schedule::just_in_time::Stats;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The volume as jobs see it.
pub struct JobsOnVolume {
    core: Arc<Core>,
    check_before_job: bool,
    replication: OnceLock<Arc<Replication>>,
}

impl JobsOnVolume {
    /// The volume of a daemon. `check_before_job`: whether a job's data are checked before it is dispatched.
    pub fn new(core: Arc<Core>, check_before_job: bool) -> JobsOnVolume {
        JobsOnVolume { core, check_before_job, replication: OnceLock::new() }
    }

    /// Sets the replication of input files. Only the first call counts.
    pub fn set_replication(&self, replication: Arc<Replication>) {
        drop(self.replication.set(replication));
    }

    /// Records an event of a job; `of` names the numbering that `id` belongs to.
    fn record(&self, of: &str, id: JobId, owner: Caller, what: &str, why: &str) {
        let what = format!("{} {id}: {what}", if of == "slurm" { "Slurm's job" } else { "job" });
        let why = Some(why.to_string()).filter(|why| !why.is_empty());
        let (owner, job) = (Some(owner.uid), Some(id.0));
        self.core.pool.events.record(Event { owner, job, why, ..Event::new(EventKind::Job, what) });
    }

    /// The path below the mount point, as the store names it.
    fn below(&self, path: &Path) -> Option<String> {
        Some(path.strip_prefix(&self.core.mount_point).ok()?.to_str()?.to_string())
    }
}

fn identity(owner: Caller) -> Identity {
    Identity { uid: owner.uid, gid: owner.gid, ..Identity::default() }
}

impl Volume for JobsOnVolume {
    fn mount_point(&self) -> Option<PathBuf> {
        Some(self.core.mount_point.clone())
    }

    fn job_changed(&self, of: &str, id: JobId, owner: Caller, state: JobState, detail: &str) {
        self.record(of, id, owner, &state.to_string(), detail);
    }

    fn job_not_told(&self, of: &str, id: JobId, owner: Caller, what: &str, why: &str) {
        self.record(of, id, owner, what, why);
    }

    fn account(&self, job: String, owner: Caller, paths: Vec<PathBuf>, facts: JobFacts) {
        let paths = paths.iter().filter_map(|path| self.below(path)).collect();
        self.core.accounts.job_is(job, JobNow { caller: owner, paths, facts });
    }

    fn check_before_job(&self, owner: Caller, paths: &[PathBuf]) -> Result<CheckReport, String> {
        let paths: Vec<String> = paths.iter().filter_map(|p| self.below(p)).collect();
        if !self.check_before_job || paths.is_empty() {
            return Ok(CheckReport::default());
        }
        for path in &paths {
            self.core.may_see(&owner, path).map_err(|p| p.cause)?;
        }
        let options = CheckOptions { repair: true, before_job: paths.clone(), paths, ..CheckOptions::default() };
        // The owner's rights apply, since the paths come from the script.
        let own;
        let checker = if owner.is_operator() {
            &self.core.checker
        } else {
            own = self.core.checker.on_behalf_of(Behalf { who: identity(owner), repairs_readable: true });
            &own
        };
        let report = checker.check(&options, &|_| (), &Stop::default()).map_err(|e| e.to_string())?;
        let lost = report.findings.iter().filter(|f| f.outcome != Outcome::Repaired && f.missing_bytes > 0);
        let lost = lost.map(|f| match f.outcome {
            Outcome::Away => {
                format!("{} bytes of {} cannot be read until target {} is back", f.missing_bytes, f.path, f.target)
            }
            _ => format!("{} has lost {} bytes", f.path, f.missing_bytes),
        });
        let lost: Vec<_> = lost.collect();
        if !lost.is_empty() {
            return Err(format!("{}; restore the target, or stage the file in again", lost.join(", ")));
        }
        let repaired = report.findings.iter().filter(|f| f.outcome == Outcome::Repaired);
        let mut files: Vec<_> = repaired.map(|f| &f.path).collect();
        files.sort();
        files.dedup();
        Ok(CheckReport { n_files: report.files, n_repaired: files.len() as u64, fetched_bytes: report.repaired_bytes })
    }

    fn verify_staged(&self, owner: Caller, paths: &[PathBuf]) -> Result<u64, String> {
        let mut bytes = 0;
        for path in paths.iter().filter_map(|path| self.below(path)) {
            bytes += self.core.stager.silent(&identity(owner)).verify(&path).map_err(|e| e.to_string())?;
        }
        Ok(bytes)
    }

    fn forget_staging(&self, owner: Caller, path: &Path) -> Result<(), String> {
        let Some(path) = self.below(path) else { return Ok(()) };
        self.core.stager.silent(&identity(owner)).forget(&path).map(drop).map_err(|e| e.to_string())
    }

    fn record_source(&self, owner: Caller, path: &Path, uri: &str) -> Result<PathBuf, String> {
        let mut path = path.to_path_buf();
        if path.is_dir() {
            let name = uri.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            if name.is_empty() || name == "." || name == ".." {
                return Err(format!("{uri} names no file"));
            }
            path.push(name);
        }
        let below = self.below(&path).ok_or_else(|| format!("{} is not in the volume", path.display()))?;
        let uris = [uri.to_string()];
        let set = self.core.stager.silent(&identity(owner)).source_set(&below, &uris, false);
        set.map_err(|e| e.to_string())?;
        Ok(path)
    }

    fn count_job(&self, state: JobState) {
        let metric = match state {
            JobState::Queued => Metric::JobsSubmitted,
            JobState::Completed => Metric::JobsCompleted,
            JobState::Failed => Metric::JobsFailed,
            _ => return,
        };
        self.core.volume.stats().add(metric, 1);
    }

    fn incoming(&self, owner: Caller, wanted: &[StageInput]) -> Option<Incoming> {
        let mut most = 0;
        let mut incoming = Incoming::default();
        for one in wanted {
            let what = StageIn { uris: one.uris.clone(), path: self.below(&one.path)?, ..StageIn::default() };
            let size = self.core.stager.silent(&identity(owner)).bytes_to_bring(&what, one.recursive);
            let bytes = size.inspect_err(|error| tracing::info!("a size is unknown: {error}")).ok()?;
            if bytes >= most {
                (most, incoming.source) = (bytes, site(&one.uris[0]));
            }
            incoming.bytes += bytes;
            incoming.parts.push(bytes);
            if let Some(limit) = self.core.stager.limit_of(one.limit).filter(|_| !one.foreign) {
                *incoming.limited.entry(limit.bytes_s).or_default() += bytes;
                incoming.limited_by.get_or_insert(limit.by);
            }
        }
        Some(incoming)
    }

    fn left(&self, owner: Caller, wanted: &StageInput, bytes: u64) -> Option<u64> {
        let (path, uri) = (self.below(&wanted.path)?, wanted.uris.first().filter(|_| !wanted.foreign)?);
        let left = self.core.under_way.left(owner.uid, &path, uri);
        left.or_else(|| {
            let what = StageIn { uris: wanted.uris.clone(), path, ..StageIn::default() };
            (!wanted.recursive && self.core.stager.silent(&identity(owner)).is_in_place(&what, bytes)).then_some(0)
        })
    }

    fn free_bytes(&self) -> Option<u64> {
        let mirrors = self.core.volume.config().layout.mirrors.max(1) as u64;
        // Space of data that arrived since the last measurement is not free any more.
        self.core.volume.targets().measure_now();
        Some(self.core.volume.targets().space().free_bytes / mirrors)
    }

    fn count_arrivals(&self, before: &Stats, after: &Stats) {
        let counts = [
            (Metric::StagingInTime, before.in_time, after.in_time),
            (Metric::StagingTooLate, before.too_late, after.too_late),
            (Metric::StagingTooLateNs, before.too_late_total.0, after.too_late_total.0),
            (Metric::StagingNoLead, before.no_lead, after.no_lead),
            (Metric::StagingTooEarly, before.too_early, after.too_early),
            (Metric::StagingIdleNs, before.idle_total.0, after.idle_total.0),
            (Metric::StagingNoSpace, before.no_space, after.no_space),
            (Metric::StagingRefused, before.refused, after.refused),
        ];
        for (metric, before, after) in counts {
            self.core.volume.stats().add(metric, after.saturating_sub(before));
        }
    }

    fn mark_checkpoints(&self, owner: Caller, job: &str, marks: Vec<Mark>) -> Result<bool, String> {
        let Some(burst) = self.core.adapt.burst() else { return Ok(false) };
        let marked = burst::Marked { uid: owner.uid, marks };
        burst.call::<Done>(owner.uid, Command::Mark(job.to_owned(), marked)).map_err(|problem| problem.cause)?;
        Ok(true)
    }

    fn unmark_checkpoints(&self, job: &str) {
        let ended = self.core.adapt.burst().map(|burst| burst.call::<Done>(0, Command::Unmark(job.to_owned())));
        if let Some(Err(problem)) = ended {
            tracing::warn!("{job} goes on to mark checkpoints: {}", problem.cause);
        }
    }

    fn closed_version(&self, owner: Caller, path: &Path) -> Option<String> {
        let below = self.below(path)?;
        self.core.may_see(&owner, &below).ok()?;
        let (file, stub) = (self.core.checker.file_at(&below)?, self.core.checker.stub_at(&below)?);
        let (size, modified_ns) = engine::stage::offloaded::version(&file, stub).ok()?;
        (!file.is_open()).then(|| format!("{size} {modified_ns}"))
    }

    fn protection(&self, owner: Caller, job: &str, paths: &[PathBuf]) -> Vec<Protected> {
        let below = paths.iter().filter_map(|p| self.below(p)).flat_map(|p| self.core.checker.files_below(&p));
        let seen = below.filter(|(_, path)| self.core.may_see(&owner, path).is_ok());
        let of = |(id, path): (policy::FileId, String)| {
            let file = self.core.checker.file_at(&path)?;
            Some(Protected {
                mirrors: file.whole_mirrors(),
                has_source: file.is_recoverable(),
                kept: self.replication.get().and_then(|replication| replication.kept(job, id)),
                path: self.core.mount_point.join(path),
            })
        };
        seen.filter_map(of).collect()
    }

    fn transfers(&self, owner: Caller, paths: &[PathBuf]) -> Vec<Transfer> {
        let paths: Vec<String> = paths.iter().filter_map(|p| self.below(p)).collect();
        let all = self.core.under_way.of(owner.uid, &paths).into_iter();
        let transfer = |(path, progress): (String, Progress)| Transfer {
            path: self.core.mount_point.join(path.trim_start_matches('/')),
            done_bytes: progress.done_bytes,
            total_bytes: progress.total_bytes,
            rate_bytes_s: progress.rate_bytes_s as u64,
            left_s: progress.left_s.map(|s| s.ceil() as u64),
            limit: progress.limit.map(|limit| (limit.bytes_s, limit.by)),
        };
        all.map(transfer).collect()
    }

    fn recoveries(&self, owner: Caller, paths: &[PathBuf], from_ms: u64, to_ms: u64) -> Vec<RecoveryEvent> {
        let paths: Vec<String> = paths.iter().filter_map(|p| self.below(p)).collect();
        let recoveries = self.core.recoveries(&owner, &paths, from_ms, to_ms).into_iter();
        recoveries.map(|(path, tally)| event(self.core.mount_point.join(path), &tally)).collect()
    }
}

/// Protocol and host of a URI, without the user: the key of a measured rate.
fn site(uri: &str) -> String {
    let Some((scheme, rest)) = uri.split_once("://") else { return uri.to_string() };
    let host = rest.split('/').next().unwrap_or_default();
    format!("{scheme}://{}", host.rsplit('@').next().unwrap_or_default())
}

fn event(path: PathBuf, tally: &Tally) -> RecoveryEvent {
    let cost = tally.cost();
    let n_stripes = cost.recovered_stripes;
    let what = match cost.lost_stripes {
        0 => "lost stripes could not be recovered".to_string(),
        lost => format!("{n_stripes} of {lost} lost stripes recovered from the source"),
    };
    RecoveryEvent {
        at_ms: tally.began_ns / 1_000_000,
        path,
        what,
        n_stripes,
        fetched_bytes: cost.fetched_bytes,
        reader_wait_ms_max: cost.reader_wait_max.as_millis() as u64,
    }
}
