//! The buffer's part in the mount: recognises checkpoints, requests admission of their writes, and places them.

use super::app_names;
use super::open::OpenCheckpoint;
use super::table::{CheckpointTable, Current};
use super::{Adapt, Burst, Lane, queue, record};
use crate::{Error, Result};
use engine::file::{Access, Adviser, File, Happened, Resume};
use object::now_ms;
use policy::burst::admission::Event as AdmissionEvent;
use policy::burst::buffer;
use policy::burst::tables::Version;
use policy::layout::Placement;
use policy::volume::ownership::Mechanism;
use policy::{FileId, Time};
use rustix::io::Errno;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Writeback starts after each run of this many bytes. A guess: enough for one request of a disk array.
const PUSH_BYTES: u64 = 4 << 20;

impl Burst {
    fn open_checkpoint(&self, file: &File) -> Option<Arc<OpenCheckpoint>> {
        let open = self.open.read();
        if open.is_empty() { None } else { open.get(&file.stub().inode()?).cloned() }
    }

    /// Application and version of the checkpoint that a path belongs to.
    pub(super) fn recognise(&self, path: &str) -> Option<(String, String)> {
        let announced: Vec<(u32, (String, String))> = {
            let sessions = self.sessions.read();
            let has = sessions.values().filter(|session| session.has(path));
            has.map(|session| (session.uid, (session.app.clone(), session.label.clone()))).collect()
        };
        // An announcement applies only to files of its user; other users may announce the same directory.
        let owner = if announced.is_empty() { None } else { self.owner_of(path) };
        let of_owner = announced.into_iter().find(|(uid, _)| *uid == 0 || owner == Some(*uid));
        if let Some((_, found)) = of_owner {
            return Some(found);
        }
        let marks = self.marks.read();
        if !marks.is_empty()
            && let Some(found) = marks.recognise(path, || self.owner_of(path))
        {
            return Some(found);
        }
        let found = self.settings.checkpoints.iter().find_map(|pattern| pattern.matches(path))?;
        Some((app_names::full(self.owner_of(path)?, &found.app), found.version))
    }

    /// Handles an open for reading. A read of the newest version counts as a restart of its application, even if its
    /// job or the announcing user's session has ended. The open needs no further observation.
    fn opened_to_read(&self, id: Option<FileId>, path: &dyn Fn() -> Option<PathBuf>) {
        let path = || path().and_then(|path| path.into_os_string().into_string().ok());
        if !self.decides() {
            return if self.knows_any() {
                path().into_iter().for_each(|path| self.tell_of_reading(path, id))
            };
        }
        // An open must not wait for the table.
        let Some(table) = self.table.try_lock() else {
            let path = path();
            return self.later(move |burst, _| {
                let version = burst.table.lock().version_of(id, || path);
                version.into_iter().for_each(|version| burst.reads(version));
            });
        };
        if let Some(version) = table.version_of(id, path) {
            self.later(move |burst, _| burst.reads(version));
        }
    }

    /// User that owns a file.
    pub(super) fn owner_of(&self, path: &str) -> Option<u32> {
        let found = rustix::fs::statat(self.volume.tree(), path, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
        found.ok().map(|found| found.st_uid)
    }

    /// Whether any path may belong to a checkpoint.
    fn knows_any(&self) -> bool {
        !self.settings.checkpoints.is_empty() || !self.sessions.read().is_empty() || !self.marks.read().is_empty()
    }

    /// Returns the request that writes the file's version, after moving the file to the fast tier if necessary.
    pub(super) fn begin_writing(&self, adapt: &Adapt, checkpoint: &Arc<OpenCheckpoint>) -> Result<u64> {
        let request = self.request_for(checkpoint)?;
        if checkpoint.request.load(Ordering::Acquire) != request {
            if let Err(error) = self.bring(adapt, checkpoint, request) {
                tracing::info!("{} is overwritten in place: {error}", checkpoint.path);
            }
            checkpoint.request.store(request, Ordering::Release);
        }
        Ok(request)
    }

    /// Returns the request that writes the file's version, or creates one.
    pub(super) fn request_for(&self, checkpoint: &Arc<OpenCheckpoint>) -> Result<u64> {
        let mut table = self.table.lock();
        let known = checkpoint.request.load(Ordering::Acquire);
        if known != 0 && table.current.contains_key(&known) {
            return Ok(known);
        }
        if let Some(failed) = table.writing(&checkpoint.app, &checkpoint.label) {
            self.give_up_failed(&mut table, failed, checkpoint);
        }
        let request = match table.writing(&checkpoint.app, &checkpoint.label) {
            Some(request) => request,
            None => {
                let app = self.app_in(&mut table, &checkpoint.app)?;
                let request = self.next_number();
                let mut sessions = self.sessions.write();
                let session = sessions.get_mut(&checkpoint.app).filter(|session| session.label == checkpoint.label);
                let (explicit, mut told) = (session.is_some(), None);
                if let Some(session) = session {
                    (session.request, told) = (request, Some(session.bytes).filter(|bytes| *bytes > 0));
                }
                drop(sessions);
                self.look_at_capacity();
                let bytes = told.unwrap_or(app.bytes) as f64;
                self.tell_buffer(buffer::Event::Arrive { app: app.number, request, bytes });
                let (app, label) = (checkpoint.app.clone(), checkpoint.label.clone());
                let (open, carried) = Default::default();
                table.current.insert(request, Current { app, label, explicit, open, carried, turn_is_reported: false });
                request
            }
        };
        // A recorded version must stay readable: its record is removed before a byte of it is overwritten and before a
        // file joins it.
        let same = table
            .complete
            .iter()
            .find(|(_, v)| v.app == checkpoint.app && v.label == checkpoint.label)
            .map(|(key, _)| *key);
        let over: Vec<Version> = same.into_iter().chain(table.version_at(&checkpoint.path)).collect();
        for key in over {
            record::VERSIONS.remove(&*self.state, &record::version_key(key))?;
            let struck = table.strike(key);
            self.tell_buffer(buffer::Event::Removed { version: key });
            let parts = struck.into_iter().flat_map(|version| version.parts);
            if let Some(current) = table.current.get_mut(&request) {
                current.carried.extend(parts.map(|part| (part.path.clone(), part)));
            }
        }
        if let Some(current) = table.current.get_mut(&request)
            && let Some(before) = current.open.insert(checkpoint.path.clone(), checkpoint.clone())
            && !Arc::ptr_eq(&before, checkpoint)
        {
            // A file that was renamed in between stays a part of the version, under its present name.
            let is_other = before.file.stub().inode() != checkpoint.file.stub().inode();
            match self.name_now(&before.file).filter(|name| is_other && *name != checkpoint.path) {
                Some(name) => drop(current.open.entry(name).or_insert(before)),
                None => checkpoint.follow(&before),
            }
        }
        Ok(request)
    }

    /// Abandons a version with a failed write that only `checkpoint` still writes; the next write begins it again.
    fn give_up_failed(&self, table: &mut CheckpointTable, request: u64, checkpoint: &Arc<OpenCheckpoint>) {
        let Some(current) = table.current.get(&request) else { return };
        let failed = current.open.values().any(|checkpoint| !checkpoint.is_whole());
        let alone = |other: &Arc<OpenCheckpoint>| Arc::ptr_eq(other, checkpoint) || !other.is_written();
        if !failed || current.explicit || !current.open.values().all(alone) {
            return;
        }
        current.open.values().for_each(|checkpoint| checkpoint.leave(request));
        table.current.remove(&request);
        self.counts.failed.fetch_add(1, Ordering::Relaxed);
        self.tell_buffer(buffer::Event::Abandoned { request });
    }

    /// Handles the close of a writing handle: after the last one, the version is complete.
    pub(super) fn closed_writer(&self, request: u64) {
        if self.is_in_grace() {
            return; // it is looked at again when that ends
        }
        let table = self.table.lock();
        let Some(current) = table.current.get(&request) else { return };
        if !current.explicit && !current.open.values().any(|checkpoint| checkpoint.is_written()) {
            self.commit_later(request, None);
        }
    }

    fn opened(&self, file: &Arc<File>, path: &dyn Fn() -> Option<PathBuf>, write: bool) {
        let count = |checkpoint: &OpenCheckpoint| {
            checkpoint.is_of_here.store(true, Ordering::Release);
            checkpoint.handles.fetch_add(1, Ordering::AcqRel);
            if write && checkpoint.writers.fetch_add(1, Ordering::AcqRel) == 0 {
                checkpoint.changes();
            }
        };
        let Some(inode) = file.stub().inode() else { return };
        // The handle is counted under the lock: the last close checks the count again before it removes the checkpoint.
        if let Some(checkpoint) = self.open.read().get(&inode) {
            return count(checkpoint);
        }
        if !write {
            return self.opened_to_read(file.id(), path);
        }
        if !self.knows_any() {
            return;
        }
        let Some(path) = path().and_then(|path| path.into_os_string().into_string().ok()) else { return };
        let Some((app, label)) = self.recognise(&path) else { return };
        // Another thread may have opened it in between.
        let again = self.shared.get().and_then(|shared| shared.written_before(&app, &label, &path, inode));
        let new = || again.unwrap_or_else(|| Arc::new(OpenCheckpoint::new((app, label), path, file.clone())));
        count(self.open.write().entry(inode).or_insert_with(new));
    }

    fn closed(&self, file: &File, write: bool) {
        let Some(checkpoint) = self.open_checkpoint(file) else { return };
        // Handles that were opened before the file was recognised are not counted.
        let down = |count: &AtomicUsize| {
            count.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1)).unwrap_or(0)
        };
        if write && down(&checkpoint.writers) == 1 {
            let (request, closed) = (checkpoint.request.load(Ordering::Acquire), checkpoint.clone());
            if !self.decides() {
                queue(&self.driver, Lane::Commits, move |burst, _| burst.closed_here(&closed));
            } else if request != 0 {
                self.later(move |burst, _| burst.closed_writer(request));
            }
        }
        if down(&checkpoint.handles) <= 1 {
            let mut open = self.open.write();
            if let Some(inode) = file.stub().inode()
                && open.get(&inode).is_some_and(|checkpoint| checkpoint.is_unused())
            {
                open.remove(&inode);
            }
        }
    }

    fn written(&self, file: &File, access: Access) {
        let Some(checkpoint) = self.open_checkpoint(file) else { return };
        let end = access.offset + access.len;
        checkpoint.missing.remove(access.offset, end);
        let (from, to) = (access.offset / PUSH_BYTES, end / PUSH_BYTES);
        if to > from {
            // The device starts to write now, so that the application's fsync and the commit have little left to do.
            file.begin_sync(from * PUSH_BYTES..to * PUSH_BYTES);
        }
    }

    fn write_failed(&self, file: &File, access: Access, why: &str) {
        if let Some(checkpoint) = self.open_checkpoint(file) {
            checkpoint.lacks(access, why);
        }
    }

    fn emptied(&self, file: &File) {
        if let Some(checkpoint) = self.open_checkpoint(file) {
            checkpoint.missing.remove(0, u64::MAX);
            checkpoint.emptied.store(true, Ordering::Release);
        }
    }
}

impl Adviser for Burst {
    fn record(&self, file: &File, what: Happened<'_>) {
        match what {
            Happened::Opened { file, path, write } => self.opened(file, path, write),
            Happened::Closed { write } => self.closed(file, write),
            Happened::Written(access) => self.written(file, access),
            Happened::WriteFailed(access, why) => self.write_failed(file, access, why),
            Happened::Emptied => self.emptied(file),
            Happened::Removed => {
                if let Some(id) = file.id() {
                    self.later(move |burst, _| burst.file_removed(id));
                }
            }
            Happened::Accessed(_) | Happened::LaidOut => {}
        }
    }

    fn watches(&self, file: &File) -> bool {
        self.open_checkpoint(file).is_some()
    }

    fn claims(&self, file: &File, mechanism: Mechanism) -> bool {
        // Does not wait for the table: if it is locked, the file counts as held.
        let held = |id| self.table.try_lock().is_none_or(|table| table.holds(id));
        mechanism == Mechanism::Burst && (self.open_checkpoint(file).is_some() || file.id().is_some_and(held))
    }

    fn place(&self, file: &File, _from: u64, place: &mut Placement) {
        let Some(checkpoint) = self.open_checkpoint(file) else { return };
        let request = checkpoint.request.load(Ordering::Acquire);
        let direct = !self.decides() && checkpoint.direct.load(Ordering::Acquire);
        let direct = direct || self.admission(|admission| admission.request(request).is_some_and(|of| of.direct));
        place.tier = Some(if direct { self.settings.capacity } else { self.fast });
        place.mirrors = 1;
    }

    fn tries_again(&self, file: &File) -> bool {
        let is_known = |of: &OpenCheckpoint| !self.decides() || of.request.load(Ordering::Acquire) != 0;
        self.open_checkpoint(file).is_some_and(|checkpoint| is_known(&checkpoint))
    }

    fn may_write(&self, file: &File, access: Access) -> bool {
        let Some(checkpoint) = self.open_checkpoint(file) else { return true };
        if !self.decides() {
            return checkpoint.credit.lock().admit(access.len);
        }
        let request = checkpoint.request.load(Ordering::Acquire);
        request != 0
            && self.driver.with_machine(|machine, now| {
                let is_known = machine.admission().is_some_and(|admission| admission.request(request).is_some());
                is_known && machine.admit(now, request, access.len)
            })
    }

    fn hold(&self, file: &Arc<File>, access: Access, no_room_for: Option<Duration>, resume: Resume) {
        let Some(checkpoint) = self.open_checkpoint(file) else {
            return resume(if no_room_for.is_some() { Err(Errno::NOSPC.into()) } else { Ok(()) });
        };
        if self.closed.load(Ordering::Acquire) {
            return resume(Err(Error::Busy("the volume is going down".into())));
        }
        // The mount waits neither for the table nor for the state store.
        self.later(move |burst, adapt| match no_room_for.map(|waited| Time(waited.as_nanos() as u64)) {
            Some(waited) if !burst.decides() => burst.wait_for_room(&checkpoint, access, waited, resume),
            None if !burst.decides() => burst.ask_to_write(&checkpoint, access, resume),
            Some(waited) => {
                let request = checkpoint.request.load(Ordering::Acquire);
                let write = burst.keep(checkpoint.watched(access, resume));
                burst.tell(AdmissionEvent::NoRoom { request, write, len: access.len, waited });
            }
            None => match burst.begin_writing(adapt, &checkpoint) {
                Ok(request) => {
                    let write = burst.keep(checkpoint.watched(access, resume));
                    burst.tell(AdmissionEvent::Hold { request, write, len: access.len });
                }
                // The user has too many applications, so the file is treated as an ordinary one.
                Err(Error::Invalid(why)) => {
                    tracing::info!("{} is no checkpoint: {why}", checkpoint.path);
                    resume(Ok(()));
                }
                Err(error) => {
                    tracing::warn!("a checkpoint of {} cannot be begun: {error}", checkpoint.app);
                    resume(Err(error));
                }
            },
        });
    }
}

impl Burst {
    /// The application of that name; a new one is recorded.
    ///
    /// # Errors
    /// The user has too many applications, or the record cannot be written.
    pub(super) fn app_in(&self, table: &mut CheckpointTable, name: &str) -> Result<record::App> {
        let default = self.settings.mtbf.as_secs();
        let (app, fresh) = table.app(name, now_ms(), default)?;
        if fresh {
            record::APPS.put(&*self.state, name, &app)?;
            self.tell_buffer(buffer::Event::Mtbf { app: app.number, mtbf_s: app.mtbf_s });
        }
        Ok(app)
    }
}
