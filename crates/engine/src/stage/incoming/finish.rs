//! The end of a staging: its file gets its name in the tree, and the file that had the name is removed.

use super::begin::sums_key;
use super::{Incoming, unlink};
use crate::file::File;
use crate::source::Record;
use crate::stage::place::Place;
use crate::stage::sources::Sources;
use crate::stage::{Result, StageError, Stager, sums};
use meta::quota::Reserved;
use object::host;
use object::host::{descriptor_path, fstat};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::Errno;

impl Incoming<'_> {
    /// Publishes the file in the tree if `goes_on` returns true at the end: the caller may have given the file to
    /// another node.
    pub(super) fn finish(
        self,
        place: &Place,
        replace: bool,
        sources: &Sources,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<()> {
        let who = self.transfer.who;
        self.file.refresh()?;
        if self.file.size() != self.size {
            let why = format!("{} of {} bytes are there; stage it in again", self.file.size(), self.size);
            return Err(StageError::path(&place.shown, why));
        }
        self.file.sync_now(false).map_err(|error| self.not_kept(error))?;
        if let Some(layout) = self.file.layout().filter(|_| self.stripe_bytes > 0) {
            fs::fsync(&self.sums)?;
            let side = self.transfer.volume.side();
            fs::renameat(self.transfer.volume.staging(), sums_key(&self.key), side, sums::name_of(layout.file))?;
            host::sync_directory(side)?;
        }
        let sources = sources.list.iter().map(|(place, _)| place.clone()).collect();
        self.file.set_source(Some(&Record::new(sources, self.stripe_bytes, who).to_text()))?;
        place.new_file(who)?.give(self.stub.as_fd(), who.uid)?;
        self.file.sync_now(false)?;
        let replaced = if replace { self.transfer.named(place)? } else { None };
        if !goes_on() {
            return Err(StageError::Stopped);
        }
        let reserved = self.transfer.reserve(place, &fstat(&self.stub)?, self.size)?;
        place.put(self.stub.as_fd(), replace, who)?;
        self.file.say_staged_as(&place.shown);
        self.file.forget_payers();
        reserved.into_iter().for_each(Reserved::keep_all);
        self.transfer.note_place(&self.file, place);
        unlink(self.transfer.volume.staging(), &self.key)?;
        unlink(self.transfer.volume.staging(), &sums_key(&self.key))?;
        self.transfer.volume.state().staging_remove(&self.key)?;
        if let Some(old) = replaced {
            self.transfer.remove_replaced(place, &old)?;
        }
        Ok(())
    }
}

impl Stager {
    /// Opens the file that has the name now, for removal after its replacement.
    fn named(&self, place: &Place) -> Result<Option<OwnedFd>> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        match fs::openat(place.parent(), &place.name, flags, Mode::empty()) {
            Ok(fd) => Ok(Some(fd)),
            Err(Errno::NOENT | Errno::LOOP) => Ok(None),
            Err(e) => Err(StageError::refused(&place.shown, e)),
        }
    }

    /// Records the file's path in `places`: the stub alone does not reveal it.
    fn note_place(&self, file: &File, place: &Place) {
        if let (Some(id), Some(places)) = (file.id(), self.files.pool().places.get())
            && let Ok(parent) = std::fs::read_link(descriptor_path(place.parent()))
        {
            places.learn(id, &parent.join(&place.name));
        }
    }

    /// Removes the objects of a file that lost its last name, after its last use by an application, a move or this
    /// staging.
    fn remove_replaced(&self, place: &Place, old: &OwnedFd) -> Result<()> {
        let stat = fstat(old)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(());
        }
        let file = self.files.get_or_open(old.try_clone().map_err(|_| Errno::MFILE)?)?;
        if file.is_nameless(|| fstat(old).ok().map(|stat| stat.st_nlink)) {
            file.remove_with_last_use();
            // An open file counts for its owner until an application closes it.
            if !file.is_open() && file.stops_counting() {
                self.counts_no_more(place, &stat);
            }
        }
        Ok(())
    }
}

pub(super) fn check_free(place: &Place, replace: bool) -> Result<()> {
    match place.stat()?.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        None => Ok(()),
        Some(FileType::RegularFile | FileType::Symlink) if replace => Ok(()),
        Some(FileType::RegularFile | FileType::Symlink) => {
            Err(StageError::path(&place.shown, "it is there already; use --force to replace it"))
        }
        Some(_) => Err(StageError::path(&place.shown, "it is there already and is not a file")),
    }
}
