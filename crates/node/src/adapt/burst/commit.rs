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

/// Maximum of attempts to complete a declared version whose files change. A guess.
const ATTEMPTS_MAX: usize = 8;

/// Files of a version by path, with the numbers of their states.
type Files = BTreeMap<String, (Arc<OpenCheckpoint>, u64)>;

fn gone() -> Error {
    Error::Busy("no file of it was written".into())
}

/// Whether a version cannot be complete yet. `told`: whether it was declared complete.
fn is_busy(current: &Current, told: bool) -> bool {
    !told && (current.explicit || current.open.values().any(|checkpoint| checkpoint.is_written()))
}

fn files_of(current: &Current) -> Files {
    let with_state = |of: &Arc<OpenCheckpoint>| (of.clone(), of.stands.load(Ordering::Acquire));
    current.open.iter().map(|(path, of)| (path.clone(), with_state(of))).collect()
}

/// Whether a version has only these files, none was opened for writing since, and no write failed.
fn is_unchanged(current: &Current, files: &Files) -> bool {
    let is_same = |(path, of): (&String, &Arc<OpenCheckpoint>)| {
        let is_synced = |(file, stands): &(Arc<OpenCheckpoint>, u64)| {
            Arc::ptr_eq(file, of) && *stands == of.stands.load(Ordering::Acquire)
        };
        files.get(path).is_some_and(is_synced) && of.lack().is_none()
    };
    current.open.len() == files.len() && current.open.iter().all(is_same)
}

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

    /// Makes a version durable, records it, and ends its turn. `told`: whether the version was declared complete. If
    /// its files change in between, a declared version is made durable again; another one after its next close.
    fn commit(&self, adapt: &Adapt, request: u64, told: bool) -> Result<record::Version> {
        for _ in 0..ATTEMPTS_MAX {
            let files = self.sync_version(request, told)?;
            match self.complete(adapt, request, told, &files)? {
                Some(version) => return Ok(version),
                None if !told => return Err(Error::Busy("its files changed while they were made durable".into())),
                None => self.settle_others(request).map_err(|error| self.fail(request, error))?,
            }
        }
        Err(self.fail(request, Error::NotWhole("its files are still being opened and written".into())))
    }

    /// Abandons a version that cannot be completed; returns the reason.
    fn fail(&self, request: u64, why: Error) -> Error {
        self.give_up(request);
        self.counts.failed.fetch_add(1, Ordering::Relaxed);
        why
    }

    /// Makes the files of a version durable. Returns them with the states that they had before.
    fn sync_version(&self, request: u64, told: bool) -> Result<Files> {
        let files = {
            let table = self.table.lock();
            let current = table.current.get(&request).ok_or_else(gone)?;
            if is_busy(current, told) {
                return Err(Error::Busy("it is being written".into()));
            }
            files_of(current)
        };
        let never_begun = || self.version_of(request).is_none().then(|| "its turn never came".to_owned());
        let failed = files.values().find_map(|(checkpoint, _)| checkpoint.lack()).or_else(never_begun);
        let all = files.iter().map(|(path, (checkpoint, _))| (path, &**checkpoint));
        let synced = failed.map_or_else(|| self.make_durable(all), |why| Err(Error::NotWhole(why)));
        synced.map_err(|error| self.fail(request, error))?;
        Ok(files)
    }

    /// Records a version whose files are durable, and ends its turn. `None` if its files changed since they were made
    /// durable.
    fn complete(&self, adapt: &Adapt, request: u64, told: bool, files: &Files) -> Result<Option<record::Version>> {
        let mut table = self.table.lock();
        let current = table.current.get(&request).ok_or_else(gone)?;
        if is_busy(current, told) {
            return Err(Error::Busy("it is being written again".into()));
        }
        if !is_unchanged(current, files) {
            return Ok(None);
        }
        let open = current.open.clone();
        let key = self.version_of(request).ok_or_else(gone)?;
        // Writes of other nodes become visible when the file is looked at again.
        for checkpoint in open.values().filter(|checkpoint| !checkpoint.elsewhere.lock().is_empty()) {
            checkpoint.file.refresh()?;
        }
        let (parts, of_parts) = self.parts_of(adapt, current)?;
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
        let joins = of_parts
            .iter()
            .filter_map(|file| Some([adapt.lies_if(file, true)?, Event::File(file.id()?, FileEvent::Joins(request))]));
        let committed = AdmissionEvent::Buffer(buffer::Event::Committed { request, bytes: bytes as f64 });
        self.driver.tell_all(joins.flatten().chain([Event::Checkpoint(committed)]));
        self.remember_period();
        self.counts.committed.fetch_add(1, Ordering::Relaxed);
        Ok(Some(version))
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

#[cfg(test)]
mod tests {
    use super::*;
    use engine::file::{FileTable, Pool};
    use meta::places::Places;
    use object::target::{Targets, TargetsOptions};
    use policy::layout::Placement;

    /// [S-122]
    #[test]
    fn a_file_that_came_after_the_sync_or_lost_a_write_does_not_count() {
        let dir = tempfile::tempdir().expect("a directory");
        ["tree", "side", "open"].iter().for_each(|name| std::fs::create_dir(dir.path().join(name)).expect("made"));
        let (stripe_size, stripe_count, mirrors) = (4096, 1, 1);
        let place = Placement { stripe_size, stripe_count, single_bytes_max: 0, segment_bytes: 0, mirrors, tier: None };
        let pool = Arc::new(Pool::new(Targets::new(TargetsOptions::inline()), || 1, place));
        let places = Places::open(&dir.path().join("files.db"), dir.path()).expect("a tree");
        pool.places.set(places).ok().expect("set once");
        let table = FileTable::new(pool, dir.path().to_owned());
        let opened = |name: &str| {
            let path = dir.path().join("tree").join(name);
            let stub = std::fs::File::options().read(true).write(true).create_new(true).open(path).expect("a stub");
            let file = table.get_or_open(stub.into()).expect("a file");
            Arc::new(OpenCheckpoint::new(("7/wave".into(), "1".into()), name.into(), file))
        };
        let (app, label, carried) = ("7/wave".into(), "1".into(), BTreeMap::new());
        let open = BTreeMap::from([("a".to_owned(), opened("a"))]);
        let mut current = Current { app, label, explicit: false, open, carried, turn_is_reported: false };
        let synced = files_of(&current);
        assert!(is_unchanged(&current, &synced));
        // Another rank writes a file while the first one's is synced.
        current.open.insert("b".into(), opened("b"));
        assert!(!is_busy(&current, false) && !is_unchanged(&current, &synced));
        let synced = files_of(&current);
        assert!(is_unchanged(&current, &synced));
        current.open["a"].missing.add(0, 1);
        assert!(!is_unchanged(&current, &synced), "a write failed");
        current.open["a"].missing.remove(0, 1);
        current.open["b"].changes();
        assert!(!is_unchanged(&current, &synced), "it was opened again");
    }
}
