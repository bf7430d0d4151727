//! Completion of a version: makes its bytes and names durable, and records it.

use super::open::OpenCheckpoint;
use super::record::{self, Part};
use super::table::Current;
use super::{Adapt, Burst, Lane, queue};
use crate::{Error, Result};
use engine::events::Kind;
use engine::file::File;
use object::host;
use object::now_ms;
use policy::Time;
use policy::burst::admission::Event as AdmissionEvent;
use policy::burst::buffer;
use policy::volume::{Event, FileEvent};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

impl Burst {
    /// Queues a check whether a version is complete. `tell` receives the result, if the version was declared complete.
    pub(super) fn commit_later(&self, request: u64, tell: Option<Sender<Result<record::Version>>>) {
        queue(&self.driver, Lane::Commits, move |burst, adapt| {
            let done = burst.commit(adapt, request, tell.is_some());
            match (tell, done) {
                (Some(tell), done) => drop(tell.send(done)),
                (None, Err(error)) => {
                    adapt.news(
                        Kind::Burst,
                        format!("a checkpoint could not be made durable and does not count: {error}"),
                    );
                }
                (None, Ok(_)) => {}
            }
        });
    }

    /// Makes a version durable, records it, and ends its turn. `told`: whether the version was declared complete.
    fn commit(&self, adapt: &Adapt, request: u64, told: bool) -> Result<record::Version> {
        let gone = || Error::Busy("no file of it was written".into());
        let is_busy = |current: &Current| {
            !told && (current.explicit || current.open.values().any(|checkpoint| checkpoint.is_written()))
        };
        let open: BTreeMap<String, Arc<OpenCheckpoint>> = {
            let table = self.table.lock();
            let current = table.current.get(&request).ok_or_else(gone)?;
            if is_busy(current) {
                return Err(Error::Busy("it is being written".into()));
            }
            current.open.clone()
        };
        let never_begun = || self.version_of(request).is_none().then(|| "its turn never came".to_owned());
        let failed = open.values().find_map(|checkpoint| checkpoint.lack()).or_else(never_begun);
        let all = open.iter().map(|(path, checkpoint)| (path, &**checkpoint));
        let synced = failed.map_or_else(|| self.make_durable(all), |why| Err(Error::NotWhole(why)));
        if let Err(error) = synced {
            self.give_up(request);
            self.counts.failed.fetch_add(1, Ordering::Relaxed);
            return Err(error);
        }
        let mut table = self.table.lock();
        let current = table.current.get(&request).ok_or_else(gone)?;
        if is_busy(current) {
            return Err(Error::Busy("it is being written again".into()));
        }
        let key = self.version_of(request).ok_or_else(gone)?;
        // Writes of other nodes become visible when the file is looked at again.
        for checkpoint in open.values().filter(|checkpoint| !checkpoint.elsewhere.lock().is_empty()) {
            checkpoint.file.refresh()?;
        }
        let (parts, files) = self.parts_of(adapt, current)?;
        let version = record::Version {
            app: current.app.clone(),
            number: key.number,
            label: current.label.clone(),
            parts,
            at_ms: now_ms(),
            announced: self.announced_for(request),
        };
        let bytes = version.bytes();
        record::VERSIONS.put(&*self.state, &record::version_key(key), &version)?;
        let began = self.admission(|admission| admission.request(request).map_or(Time::ZERO, |of| of.since));
        if let Some(app) = table.apps.get_mut(&version.app) {
            (app.bytes, app.cost_ms) = (bytes, self.driver.now().since(began).0 / 1_000_000);
            record::APPS.put(&*self.state, &version.app, app)?;
        }
        table.current.remove(&request);
        self.forget_sessions(|session| session.request == request);
        open.values().for_each(|checkpoint| checkpoint.leave(request));
        table.enter(version.clone());
        drop(table);
        self.tell_of_end(&version.app, &version.label, &open);
        let joins = files
            .iter()
            .filter_map(|file| Some([adapt.lies_if(file, true)?, Event::File(file.id()?, FileEvent::Joins(request))]));
        let committed = AdmissionEvent::Buffer(buffer::Event::Committed { request, bytes: bytes as f64 });
        self.driver.tell_all(joins.flatten().chain([Event::Checkpoint(committed)]));
        self.remember_period();
        self.counts.committed.fetch_add(1, Ordering::Relaxed);
        Ok(version)
    }

    /// Parts of a version that ends now, and their files. Removed files are left out.
    fn parts_of(&self, adapt: &Adapt, current: &Current) -> Result<(Vec<Part>, Vec<Arc<File>>)> {
        let number_of = |file: &File| file.id().map_or(0, |id| id.0);
        let mut parts = BTreeMap::new();
        let mut files: Vec<Arc<File>> = current.open.values().map(|checkpoint| checkpoint.file.clone()).collect();
        for (path, part) in &current.carried {
            if let Some(file) = self.file_at(adapt, path)?.filter(|file| number_of(file) == part.file) {
                files.push(file);
                parts.insert(path.clone(), part.clone());
            }
        }
        parts.extend(current.open.iter().map(|(path, checkpoint)| {
            let (file, bytes) = (number_of(&checkpoint.file), checkpoint.file.size());
            // A file without a number is found only by its name, which may have changed during the writing.
            let named = if file == 0 { self.name_now(&checkpoint.file) } else { None };
            (path.clone(), Part { path: named.unwrap_or_else(|| path.clone()), file, bytes })
        }));
        Ok((parts.into_values().collect(), files))
    }

    /// The announced path of a version, if there is exactly one.
    fn announced_for(&self, request: u64) -> Option<String> {
        let sessions = self.sessions.read();
        let session = sessions.values().find(|session| session.request == request)?;
        let [path] = &session.paths[..] else { return None };
        Some(path.clone())
    }

    /// Makes the bytes and the names of all files durable.
    pub(super) fn make_durable<'a>(
        &self,
        files: impl IntoIterator<Item = (&'a String, &'a OpenCheckpoint)>,
    ) -> Result<()> {
        let mut parents = BTreeSet::new();
        for (path, checkpoint) in files {
            checkpoint.file.sync_now(false)?;
            // A name is durable when all directories on its path are.
            parents.extend(Path::new(path).ancestors().skip(1).map(Path::to_path_buf));
        }
        for parent in parents {
            let name = if parent.as_os_str().is_empty() { Path::new(".") } else { &parent };
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            // A renamed directory is skipped: its durability is the renaming process's task.
            if let Ok(dir) = openat2(self.volume.tree(), name, flags, Mode::empty(), resolve) {
                host::sync_directory(dir)?;
            }
        }
        Ok(())
    }
}
