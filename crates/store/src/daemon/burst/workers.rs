//! The workers: threads that do what admission says, and make complete versions durable.

use super::adviser::OpenCheckpoint;
use super::carry::{file_of, is_on};
use super::record::{self, MtbfFrom, Part};
use super::{Burst, now_ms};
use crate::daemon::Core;
use crate::file::File;
use crate::recovery::Checker;
use crate::{Error, Result};
use policy::burst::admission::{Event as Told, Verdict};
use policy::burst::buffer;
use policy::burst::tables::Version;
use policy::layout::Placement;
use policy::machine::Machine;
use policy::volume::{Action, Event, FileEvent};
use policy::{FileId, Time};
use rustix::fs::{Mode, OFlags, ResolveFlags, fsync, openat2};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Two looks at one version within this are one restart.
const RESTART_MS: u64 = 30_000;

/// What a worker is told.
pub enum Job {
    /// What the machine says.
    Action(Action),
    /// A version may be complete; who wants to hear of it.
    Commit(u64, Option<Sender<Result<record::Version>>>),
    /// A file that has a layout already is written anew: bring it to the fast tier.
    Bring(Arc<OpenCheckpoint>),
    /// Somebody reads a version.
    Reads(Version),
    /// Somebody reads a file, when the table was in use.
    Opened(Option<FileId>, Option<String>),
    /// A file is gone for good.
    Removed(FileId),
    /// The end.
    Stop,
}

impl Burst {
    /// Tells the buffer what an earlier daemon left, from where files lie now. Before anything is mounted.
    pub(in crate::daemon) fn load(&self, checker: &Checker) -> Result<()> {
        let mut table = self.table.lock();
        let apps: Vec<_> = table.apps.values().cloned().collect();
        let mut gone = Vec::new();
        let mut found = Vec::new();
        for (key, version) in &table.complete {
            let files: Vec<_> = version.parts.iter().filter_map(|part| file_of(checker, part)).collect();
            match files.is_empty() {
                true => gone.push(*key),
                false => found.push((version.at_ms, *key, version.bytes(), files)),
            }
        }
        for key in gone {
            record::forget_version(&*self.state, key.app, key.number)?;
            table.strike(key);
        }
        found.sort_by_key(|(at_ms, key, ..)| (*at_ms, *key));
        for app in &apps {
            self.tell_buffer(buffer::Event::Mtbf { app: app.number, mtbf_s: app.mtbf_s });
            if app.interval_s > 0 {
                self.tell_buffer(buffer::Event::Interval { app: app.number, interval_s: app.interval_s });
            }
        }
        for (_, version, bytes, files) in found {
            let lies = files.iter().filter_map(|file| self.lies(file));
            let files = files.iter().filter_map(|file| file.id()).collect();
            self.tell_all(lies.chain([Event::Found { version, bytes, files }]));
        }
        Ok(())
    }

    /// Starts the workers.
    pub(in crate::daemon) fn start(self: &Arc<Burst>, core: &Arc<Core>) {
        drop(self.core.set(Arc::downgrade(core)));
        for (name, worker) in [
            ("burst", &self.worker),
            ("burst-commit", &self.committer),
            ("burst-demote", &self.demoter),
            ("burst-replicate", &self.replicator),
        ] {
            let Some(told) = worker.told.lock().take() else { continue };
            let this = self.clone();
            self.workers.start(name, move || {
                while let Ok(job) = told.recv() {
                    if matches!(job, Job::Stop) {
                        return;
                    }
                    this.work(job);
                }
            });
        }
        let this = self.clone();
        self.workers.start("burst-clock", move || this.watch_the_clock());
    }

    /// Ends the workers; writes that are held fail. The mover must have been stopped before.
    pub(in crate::daemon) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.limiter.stop();
        self.replica_limiter.stop();
        self.tell(Told::Close);
        self.woken.notify_all();
        [&self.worker, &self.committer, &self.demoter, &self.replicator]
            .into_iter()
            .for_each(|worker| worker.say(Job::Stop));
        self.workers.stop();
        self.limits.clear();
    }

    fn watch_the_clock(self: &Arc<Burst>) {
        let mut trimmed = Instant::now();
        while !self.stopped.load(Ordering::Acquire) {
            self.wait_for_the_clock();
            let before = self.admission(|admission| admission.buffer().period());
            if self.look.swap(false, Ordering::AcqRel) {
                self.look_at_space();
            }
            self.tell_all([Event::Tick]);
            let after = self.admission(|admission| admission.buffer().period());
            if before.1 != after.1 {
                self.remember_period(after);
            }
            if !self.settings.trim.is_zero() && trimmed.elapsed() >= self.settings.trim {
                trimmed = Instant::now();
                self.trim();
            }
        }
    }

    /// Until the machine has something to do, or the devices' space is to be looked at.
    fn wait_for_the_clock(&self) {
        let mut machine = self.machine.lock();
        let (now, until) = (self.now(), machine.next_deadline().unwrap_or(Time(u64::MAX)));
        self.alarm.store(until.0, Ordering::Release);
        if until > now && !self.look.load(Ordering::Acquire) && !self.stopped.load(Ordering::Acquire) {
            self.woken.wait_for(&mut machine, Duration::from_nanos(until.since(now).0));
        }
        self.alarm.store(0, Ordering::Release);
    }

    /// Others may write to the buffer's devices too: what is free there bounds what it takes.
    fn look_at_space(&self) {
        self.look_at_capacity();
        let Some(core) = self.core() else { return };
        let free = core.volume.targets().measure_soon(self.fast);
        self.tell_buffer(buffer::Event::Free { bytes: free as f64 });
    }

    /// Whether anything can go to the capacity tier now.
    pub(super) fn look_at_capacity(&self) {
        let Some(core) = self.core() else { return };
        let below = core.volume.targets().all().into_iter().filter(|target| target.tier() == self.settings.capacity);
        let below: Vec<_> = below.map(|target| target.state()).collect();
        let usable = below.iter().any(|state| state.accepts_new_objects());
        let whole = !below.contains(&crate::target::State::Failed);
        self.tell_buffer(buffer::Event::Capacity { usable, whole });
    }

    fn remember_period(&self, (dwsf, dwpp): (f64, f64)) {
        if let Err(error) = record::put_period(&*self.state, &record::Period { dwsf, dwpp }) {
            tracing::warn!("the period of the burst buffer is not remembered: {error}");
        }
    }

    /// Tells the devices of the fast tier which blocks are free, in processes of their own.
    fn trim(self: &Arc<Burst>) {
        let Some(core) = self.core() else { return };
        let config = core.volume.config();
        let of_tier = config.targets.iter().filter(|target| target.tier == self.fast);
        for path in of_tier.filter_map(|target| target.directory()) {
            let mut command = Command::new("fstrim");
            command.arg(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let this = self.clone();
            let spawned = std::thread::Builder::new().name("burst-trim".into()).spawn(move || match command.status() {
                Ok(status) if status.success() => drop(this.counts.trims.fetch_add(1, Ordering::Relaxed)),
                Ok(status) => tracing::debug!("fstrim: {status}: the file system or its device cannot"),
                Err(error) => tracing::warn!("fstrim cannot be run: {error}; nothing is trimmed"),
            });
            if spawned.is_err() {
                tracing::debug!("no thread for a trim");
            }
        }
    }

    fn work(&self, job: Job) {
        match job {
            Job::Action(action) => self.carry_out(action),
            Job::Commit(request, tell) => {
                let done = self.commit(request, tell.is_some());
                match tell {
                    Some(tell) => drop(tell.send(done)),
                    None => {
                        if let Err(error) = done {
                            self.news(format!("a checkpoint could not be made durable and does not count: {error}"));
                        }
                    }
                }
            }
            Job::Bring(checkpoint) => {
                if let Err(error) = self.bring(&checkpoint) {
                    tracing::info!("{} is written over where it lies: {error}", checkpoint.path);
                }
            }
            Job::Reads(version) => self.reads(version),
            Job::Opened(id, path) => {
                let table = self.table.lock();
                let version = id.map_or_else(|| table.version_at(&path?), |id| table.version_with(id));
                drop(table);
                if let Some(version) = version {
                    self.reads(version);
                }
            }
            Job::Removed(file) => self.file_removed(file),
            Job::Stop => {}
        }
    }

    fn carry_out(&self, action: Action) {
        match action {
            Action::Release { write, verdict } => self.release(write, verdict),
            Action::Prepare { request, .. } => self.tell(Told::Prepared { request }),
            Action::Change(change) => self.carry(&change),
            Action::SetReplicaRate(rate) => self.replica_limiter.set(rate),
            Action::SetRates(rates) => {
                self.limiter.set(rates.demote);
                self.limits.set(rates.write);
            }
            // The clock looks at the space; nothing else is switched on.
            Action::LookAtSpace | Action::Place { .. } | Action::Prefer { .. } => {}
        }
    }

    fn release(&self, write: u64, verdict: Verdict) {
        let Some(resume) = self.held.lock().remove(&write) else { return };
        resume(match verdict {
            Verdict::Go => Ok(()),
            Verdict::NoRoom => Err(Errno::NOSPC.into()),
            Verdict::Closed => Err(Error::Busy("the volume is going down".into())),
        });
    }

    /// An empty file that lay elsewhere goes on on the fast tier alone.
    fn bring(&self, checkpoint: &OpenCheckpoint) -> Result<()> {
        let Some(core) = self.core() else { return Ok(()) };
        let request = checkpoint.request.load(Ordering::Acquire);
        let direct = self.admission(|admission| admission.request(request).is_some_and(|of| of.direct));
        let Some(layout) = checkpoint.file.layout() else { return Ok(()) };
        let on = |tier| layout.mirrors.iter().any(|mirror| is_on(&core.pool.targets, mirror, tier));
        if direct || !on(self.settings.capacity) {
            return Ok(());
        }
        if !on(self.fast) {
            if checkpoint.file.size() > 0 {
                return Ok(());
            }
            let place = Placement { tier: Some(self.fast), mirrors: 1, ..core.volume.placement() };
            core.mover.add_mirror(&checkpoint.file, &place)?;
        }
        let away = |core: &Core| {
            let layout = checkpoint.file.layout()?;
            layout.mirrors.iter().position(|mirror| !is_on(&core.pool.targets, mirror, self.fast))
        };
        while let Some(at) = away(&core) {
            core.mover.drop_mirror(&checkpoint.file, at)?;
        }
        Ok(())
    }

    /// Makes a version durable, remembers it, and ends its turn. `told`: somebody says that it is complete.
    fn commit(&self, request: u64, told: bool) -> Result<record::Version> {
        let gone = || Error::Busy("nothing of it was written".into());
        let is_busy = |current: &super::table::Current| {
            !told && (current.explicit || current.open.values().any(|r| r.writers.load(Ordering::Acquire) > 0))
        };
        let open: BTreeMap<String, Arc<OpenCheckpoint>> = {
            let table = self.table.lock();
            let current = table.current.get(&request).ok_or_else(gone)?;
            if is_busy(current) {
                return Err(Error::Busy("it is being written".into()));
            }
            current.open.clone()
        };
        let failed = self.version_of(request).is_none() || open.values().any(|checkpoint| !checkpoint.is_whole());
        let synced = if failed { Err(Error::Busy("a write of it failed".into())) } else { self.make_durable(&open) };
        if let Err(error) = synced {
            self.table.lock().current.remove(&request);
            open.values().for_each(|checkpoint| checkpoint.leave(request));
            self.tell_buffer(buffer::Event::Abandoned { request });
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
            return Err(error);
        }
        let mut table = self.table.lock();
        let current = table.current.get(&request).ok_or_else(gone)?;
        if is_busy(current) {
            return Err(Error::Busy("it is being written again".into()));
        }
        let key = self.version_of(request).ok_or_else(gone)?;
        let number_of = |file: &File| file.id().map_or(0, |id| id.0);
        let part = |(path, checkpoint): (&String, &Arc<OpenCheckpoint>)| {
            (
                path.clone(),
                Part { path: path.clone(), file: number_of(&checkpoint.file), bytes: checkpoint.file.size() },
            )
        };
        let mut parts = current.carried.clone();
        let mut files: Vec<Arc<File>> = current.open.values().map(|checkpoint| checkpoint.file.clone()).collect();
        if let Some(core) = self.core() {
            // What was removed meanwhile is not carried on.
            parts.retain(|path, part| {
                let file = core.checker.file_at(path).filter(|file| number_of(file) == part.file);
                files.extend(file.clone());
                file.is_some()
            });
        }
        parts.extend(current.open.iter().map(part));
        let version = record::Version {
            app: current.app.clone(),
            number: key.number,
            label: current.label.clone(),
            parts: parts.into_values().collect(),
            at_ms: now_ms(),
        };
        let bytes = version.bytes();
        record::put_version(&*self.state, key.app, &version)?;
        let began = self.admission(|admission| admission.request(request).map_or(Time::ZERO, |of| of.since));
        if let Some(app) = table.apps.get_mut(&version.app) {
            (app.bytes, app.cost_ms) = (bytes, self.now().since(began).0 / 1_000_000);
            record::put_app(&*self.state, &version.app, app)?;
        }
        table.current.remove(&request);
        table.sessions.retain(|_, session| session.request != request);
        self.sessions.store(table.sessions.len(), Ordering::Release);
        open.values().for_each(|checkpoint| checkpoint.leave(request));
        table.enter(version.clone());
        drop(table);
        let joins = files
            .iter()
            .filter_map(|file| Some([self.lies(file)?, Event::File(file.id()?, FileEvent::Joins { request })]));
        let committed = Told::Buffer(buffer::Event::Committed { request, bytes: bytes as f64 });
        self.tell_all(joins.flatten().chain([Event::Checkpoint(committed)]));
        let period = self.admission(|admission| admission.buffer().period());
        self.remember_period(period);
        self.counts.committed.fetch_add(1, Ordering::Relaxed);
        Ok(version)
    }

    /// The bytes of all files, and their names.
    fn make_durable(&self, open: &BTreeMap<String, Arc<OpenCheckpoint>>) -> Result<()> {
        let mut parents = BTreeSet::new();
        for (path, checkpoint) in open {
            checkpoint.file.sync_now(false)?;
            // A name is durable when all directories that lead to it are.
            parents.extend(Path::new(path).ancestors().skip(1).map(Path::to_path_buf));
        }
        let Some(core) = self.core() else { return Err(Error::Busy("the volume is going down".into())) };
        for parent in parents {
            let name = if parent.as_os_str().is_empty() { Path::new(".") } else { &parent };
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            // One that was renamed meanwhile is its owner's business.
            if let Ok(dir) = openat2(core.volume.tree(), name, flags, Mode::empty(), resolve) {
                fsync(dir)?;
            }
        }
        Ok(())
    }

    /// Somebody reads a version: if it is the newest, its application restarts.
    fn reads(&self, version: Version) {
        let mut table = self.table.lock();
        let newest = self.admission(|admission| admission.buffer().tables().newest(version.app));
        let Some(name) = table.names.get(&version.app).cloned().filter(|_| newest == Some(version.number)) else {
            return;
        };
        let Some(app) = table.apps.get_mut(&name) else { return };
        let now = now_ms();
        let again = now.saturating_sub(app.restarted_ms) < RESTART_MS;
        if again {
            return;
        }
        (app.restarts, app.restarted_ms) = (app.restarts + 1, now);
        if matches!(app.mtbf_from, MtbfFrom::Default | MtbfFrom::Learned) {
            app.mtbf_s = (now.saturating_sub(app.first_ms) / 1000 / app.restarts).max(1);
            app.mtbf_from = MtbfFrom::Learned;
        }
        if let Err(error) = record::put_app(&*self.state, &name, app) {
            tracing::warn!("a restart of {name} is not remembered: {error}");
        }
        let mtbf_s = app.mtbf_s;
        drop(table);
        self.tell_buffer(buffer::Event::Restarted { app: version.app });
        self.tell_buffer(buffer::Event::Mtbf { app: version.app, mtbf_s });
    }

    fn file_removed(&self, file: FileId) {
        self.tell_all([Event::File(file, FileEvent::Removed)]);
        let mut table = self.table.lock();
        let Some((key, left)) = table.file_removed(file) else { return };
        let kept = match &left {
            Some(version) => record::put_version(&*self.state, key.app, version),
            None => record::forget_version(&*self.state, key.app, key.number),
        };
        if let Err(error) = kept {
            tracing::warn!("that a checkpoint was removed is not remembered; the next start finds out: {error}");
        }
        drop(table);
        if left.is_none() {
            self.tell_buffer(buffer::Event::Removed { version: key });
        }
    }
}
