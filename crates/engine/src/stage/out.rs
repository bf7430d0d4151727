//! Stage-out of results, and the source record of a file.

use super::leaving::{Leaving, StageOut};
use super::offloaded::{self, Offloaded};
use super::place::names;
use super::progress::Meter;
use super::{Compare, Result, StageError, Staged, Transfer, sums};
use crate::file::File;
use crate::source::{Place, Record, SourceError, Started, Version};
use crate::stage::sources::{Sources, retried};
use crate::stats::{Metric, StagedBytes};
use object::host;
use object::host::{fstat, remembered};
use rustix::fd::OwnedFd;
use rustix::fs::{self, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Bytes per read and append.
const BLOCK_BYTES: usize = 4 << 20;

/// Maximum number of uploads of one file.
const TRIES: usize = 3;

impl Transfer<'_> {
    /// Stages out a file or the selected files of a directory.
    pub fn stage_out(&self, what: &StageOut) -> Result<Staged> {
        self.some_leave(what)?;
        let mut staged = Staged::default();
        let met = self.leaving(what, &mut |Leaving { fd, path, uri }| {
            staged.add(self.file_out(fd, &path, &uri, what.compare)?);
            Ok(ControlFlow::Continue(()))
        })?;
        staged.notes.extend(met.notes());
        Ok(staged)
    }

    fn file_out(&self, fd: OwnedFd, shown: &str, uri: &str, compare: Compare) -> Result<Staged> {
        let stub = fd.try_clone().map_err(|_| Errno::MFILE)?;
        let file = self.files.get_or_open(fd)?;
        let _turn = self.offloaded.turn(remembered(&stub)?.st_ino, uri);
        if self.is_there(&file, &stub, uri)? {
            let notes = vec![format!("{shown} is there already, in this version")];
            return Ok(Staged { files: 1, bytes: file.size(), notes, ..Default::default() });
        }
        self.check_name(&stub, shown)?;
        for tries_left in (0..TRIES).rev() {
            let meter = Meter::new(self.report, shown, file.size(), 0);
            match self.send(&file, &stub, shown, uri, compare, &meter) {
                Ok((bytes, version)) => {
                    meter.finish();
                    self.volume.stats().add(Metric::StageOutBytes, bytes);
                    let staged = StagedBytes { r#in: 0, out: bytes };
                    self.volume.stats().staged().add(self.who.uid, self.who.job.as_deref(), staged);
                    if let (Some(id), (size, modified_ns)) = (file.id(), version) {
                        self.offloaded.put(id, &Offloaded { uri: uri.to_string(), size, modified_ns })?;
                    }
                    return Ok(Staged { files: 1, bytes, fetched_bytes: bytes, ..Default::default() });
                }
                Err(StageError::Source { error: SourceError::Passing(_), .. } | StageError::Moving(_))
                    if tries_left > 0 && !self.stop.is_set() => {}
                Err(e) => return Err(e),
            }
        }
        unreachable!("the last try returns")
    }

    fn send(
        &self,
        file: &Arc<File>,
        stub: &OwnedFd,
        shown: &str,
        uri: &str,
        compare: Compare,
        meter: &Meter,
    ) -> Result<(u64, (u64, u64))> {
        let failed = |e| StageError::of_source(uri, e);
        file.settle()?;
        let before = look(file, stub)?;
        let sent = offloaded::version(file, stub)?;
        let Started { mut upload, at } = retried(&self.stop, uri, || self.opener.create(uri, self.who))?;
        // Without a comparison of content no hash is needed.
        let mut hasher = (compare == Compare::Content).then(blake3::Hasher::new);
        let mut copy = || -> Result<u64> {
            let mut buf = vec![0; BLOCK_BYTES];
            let mut offset = 0;
            loop {
                self.check_stop()?;
                let read = file.read(offset, &mut buf)?;
                if read == 0 {
                    return Ok(offset);
                }
                if let Some(hasher) = &mut hasher {
                    hasher.update(&buf[..read]);
                }
                upload
                    .append(&buf[..read])
                    .map_err(|e| if self.stop.is_set() { StageError::Stopped } else { failed(e) })?;
                offset += read as u64;
                meter.add(read as u64);
            }
        };
        let copied = copy().and_then(|bytes| {
            file.settle()?;
            if look(file, stub)? != before {
                return Err(StageError::Moving(shown.to_string()));
            }
            self.check_name(stub, shown).map(|()| bytes)
        });
        let verified = copied.and_then(|bytes| {
            upload.complete(bytes).map_err(failed)?;
            let expected = hasher.map(|hasher| hasher.finalize());
            self.read_back(uri, &at, bytes, expected).map(|()| bytes)
        });
        match verified {
            Ok(bytes) => upload.finish(bytes).map(|_| (bytes, sent)).map_err(failed),
            Err(e) => {
                let Some(lies) = upload.abort() else { return Err(e) };
                tracing::info!("stage-out to {uri}: {lies}");
                Err(match e {
                    StageError::Source { uri, error, kept_bytes } => {
                        StageError::Source { uri, error: error.map(|text| format!("{text}; {lies}")), kept_bytes }
                    }
                    other => other,
                })
            }
        }
    }

    /// Fails unless the path still leads to the file. An old version that is still open must not replace a newer one at
    /// the destination.
    fn check_name(&self, stub: &OwnedFd, shown: &str) -> Result<()> {
        let named = remembered(self.open_at(&[shown.to_string()], OFlags::PATH)?)?;
        let sent = remembered(stub)?;
        if (named.st_dev, named.st_ino) == (sent.st_dev, sent.st_ino) {
            return Ok(());
        }
        Err(StageError::path(shown, "it was replaced while it was copied; stage it out again"))
    }

    /// Whether this version of the file was sent to `uri` before, and its size there is still right.
    fn is_there(&self, file: &Arc<File>, stub: &OwnedFd, uri: &str) -> Result<bool> {
        if !self.was_sent(file, stub, uri)? {
            return Ok(false);
        }
        // A copy that was removed at the destination is sent again.
        let there = self.opener.open(uri, self.who).and_then(|source| source.stat());
        Ok(there.is_ok_and(|version| version.size == file.size()))
    }

    /// Whether this version of the file was sent to `uri` before.
    pub(super) fn was_sent(&self, file: &File, stub: &OwnedFd, uri: &str) -> Result<bool> {
        let Some(id) = file.id() else { return Ok(false) };
        file.settle()?;
        let (size, modified_ns) = offloaded::version(file, stub)?;
        let now = Offloaded { uri: uri.to_string(), size, modified_ns };
        Ok(self.offloaded.get(id)?.as_ref() == Some(&now))
    }

    /// Compares the copy at the destination, under its temporary name if it has one: its size, and its bytes if
    /// `expected` is given.
    fn read_back(&self, uri: &str, at: &str, size: u64, expected: Option<blake3::Hash>) -> Result<()> {
        let failed = |e| StageError::of_source(uri, e);
        let source = retried(&self.stop, uri, || self.opener.open(at, self.who))?;
        let version = retried(&self.stop, uri, || source.stat())?;
        let wrong = || failed(SourceError::Passing("the received bytes differ from the sent ones".into()));
        if version.size != size {
            return Err(wrong());
        }
        let Some(expected) = expected else { return Ok(()) };
        let mut hasher = blake3::Hasher::new();
        let read = source.read_all(&version, &mut |bytes| {
            hasher.update(bytes);
            !self.stop.is_set()
        });
        self.check_stop()?;
        read.map_err(failed)?;
        if hasher.finalize() == expected { Ok(()) } else { Err(wrong()) }
    }

    /// The source record of a file.
    pub fn source_get(&self, path: &str) -> Result<Option<Record>> {
        let fd = self.open_at(&names(path)?, OFlags::RDONLY)?;
        let file = self.files.get_or_open(fd)?;
        Ok(file.source()?.map(|text| Record::parse(&text)).transpose()?)
    }

    /// Sets the sources of a file, or clears them if `uris` is empty. Computes checksums of the present bytes; with
    /// `verify` the bytes are also compared with the sources.
    pub fn source_set(&self, path: &str, uris: &[String], verify: bool) -> Result<Option<Record>> {
        let fd = self.open_at(&names(path)?, OFlags::RDWR)?;
        if FileType::from_raw_mode(remembered(&fd)?.st_mode) != FileType::RegularFile {
            return Err(StageError::path(path, "only files have sources"));
        }
        let file = self.files.get_or_open(fd)?;
        self.source_set_on(&file, path, uris, verify)
    }

    /// [`Stager::source_set`] for an open file; `path` is its name in messages.
    pub fn source_set_on(&self, file: &Arc<File>, path: &str, uris: &[String], verify: bool) -> Result<Option<Record>> {
        if uris.is_empty() {
            file.set_source(None)?;
            return Ok(None);
        }
        let sources = self.sources(uris)?;
        if let Some(note) = sources.notes.iter().find(|note| note.contains("not used")) {
            return Err(StageError::path(path, note));
        }
        let size = file.size();
        if let Some((place, _)) = sources.list.iter().find(|(p, _)| p.version.size != size) {
            let why = format!("it has {} bytes and the file has {size}: they are not the same", place.version.size);
            return Err(StageError::of_source(&place.uri, SourceError::Changed(why)));
        }
        let meter = Meter::new(self.report, path, size, 0);
        let stripe_bytes = self.sum_up(file, &sources, verify, &meter)?;
        let places: Vec<Place> = sources.list.into_iter().map(|(place, _)| place).collect();
        let record = Record::new(places, stripe_bytes, self.who);
        file.set_source(Some(&record.to_text()))?;
        file.sync_now(false)?;
        meter.finish();
        Ok(Some(record))
    }

    /// Writes checksums of the present bytes of the file. Returns the bytes that each covers.
    fn sum_up(&self, file: &Arc<File>, sources: &Sources, verify: bool, meter: &Meter) -> Result<u64> {
        let layout = file.layout();
        let stripe = layout.as_ref().map_or(1 << 20, |l| l.mirrors[0].segments[0].stripe_size);
        let (size, mut offset, mut all) = (file.size(), 0, Vec::new());
        while offset < size {
            self.check_stop()?;
            let len = (size - offset).min(stripe) as usize;
            let mut here = vec![0; len];
            let read = file.read(offset, &mut here)?;
            if read < len {
                return Err(StageError::Moving(sources.list[0].0.uri.clone()));
            }
            if verify && here != sources.read_at(offset, len, None)? {
                let why = format!("its bytes from {offset} are not those of the file");
                return Err(StageError::of_source(&sources.list[0].0.uri, SourceError::Changed(why)));
            }
            all.extend(sums::sum_of(&here));
            offset += len as u64;
            meter.add(len as u64);
        }
        let Some(layout) = layout else { return Ok(0) };
        let (side, name) = (self.volume.side(), sums::name_of(layout.file));
        let temporary = format!("{name}.new");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = fs::openat(side, &temporary, flags, Mode::from_raw_mode(0o600))?;
        let mut out = std::fs::File::from(fd);
        std::io::Write::write_all(&mut out, &all).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        fs::fsync(&out)?;
        fs::renameat(side, &temporary, side, &name)?;
        host::sync_directory(side)?;
        Ok(stripe)
    }
}

/// Size and modification time, pending and settled: they differ after a write to the file.
fn look(file: &File, stub: &OwnedFd) -> Result<(Version, i64, u64)> {
    let stat = fstat(stub)?;
    let version = Version { size: file.size(), etag: None, modified_ns: file.modified_ns() };
    Ok((version, stat.st_mtime, stat.st_mtime_nsec))
}
