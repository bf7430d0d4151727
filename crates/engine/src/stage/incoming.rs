//! One incoming file: its stub in `staging/`, and its fetched units.

mod begin;
mod finish;

use super::checksum::{Checksum, Expected};
use super::fetch::{SAVE_EVERY, SAVE_EVERY_BYTES, fetch};
use super::place::Place;
use super::progress::Meter;
use super::record::{Progress, Units};
use super::shared::Helpers;
use super::sources::Sources;
use super::{Result, StageError, StageIn, Staged, Stager, Stop, Transfer};
use crate::file::File;
use crate::source::Identity;
use crate::stats::{Metric, StagedBytes};
use begin::sums_key;
use finish::check_free;
use object::host::fstat;
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A caller that hung up is detected within this time on a machine with little load.
const HANG_UP_NOTICED: Duration = Duration::from_secs(if cfg!(test) { 0 } else { 2 });

/// A file that is being staged in.
pub(super) struct Incoming<'a> {
    pub transfer: &'a Transfer<'a>,
    key: String,
    stub: OwnedFd,
    pub file: Arc<File>,
    pub sums: std::fs::File,
    /// Bytes that one checksum covers; 0 for a file that stays in its stub and cannot lose a stripe.
    pub stripe_bytes: u64,
    size: u64,
    /// Record of the staging; its `done` is that of the beginning.
    pub progress: Progress,
    units: Mutex<(Units, Unsaved)>,
    /// A sync failed, so written bytes may be lost.
    unsynced: AtomicBool,
}

/// Bytes written since the last save.
struct Unsaved {
    bytes: u64,
    since: Instant,
}

impl Unsaved {
    fn nothing() -> Unsaved {
        Unsaved { bytes: 0, since: Instant::now() }
    }
}

impl Transfer<'_> {
    /// Stages one file in.
    pub fn stage_in(&self, what: &StageIn) -> Result<Staged> {
        what.checksums.iter().try_for_each(Checksum::check)?;
        let last_name = what.uris.first().and_then(|uri| last_name(uri));
        let place = self.place(&what.path, last_name.as_deref())?;
        let there = self.there(&place, what)?;
        if there.is_none() {
            check_free(&place, what.replace)?;
        }
        let sources = self.sources(&what.uris)?;
        let mut what = what.clone();
        if let Some(there) = &there {
            if let Some(bytes) = self.still_the_same(there, &sources, &what, &place.shown)? {
                return Ok(Staged { files: 1, bytes, notes: sources.notes, ..Staged::default() });
            }
            what.replace = true;
        }
        let key = key_of(self.who, &place.shown, &sources.list[0].0.uri);
        if self.stop.is_set() {
            return Err(StageError::Stopped); // before the stub is created
        }
        if !self.hold(&key, &place.shown, &self.stop) {
            return Err(StageError::Running(place.shown));
        }
        let result = self.stage_in_as(&key, &what, &place, &sources);
        self.running.lock().remove(&key);
        let mut staged = result?;
        staged.notes.splice(0..0, sources.notes);
        Ok(staged)
    }

    fn stage_in_as(&self, key: &str, what: &StageIn, place: &Place, sources: &Sources) -> Result<Staged> {
        let mut staged = Staged { files: 1, bytes: sources.list[0].0.version.size, ..Default::default() };
        self.admit(place, staged.bytes)?;
        let mut incoming = Incoming::begin(self, key, place, sources, &mut staged.notes)?;
        let mut meter = Meter::new(self.report, &place.shown, incoming.size, incoming.done_bytes());
        let helpers = self.helpers_for(incoming.units());
        let mut fetched = fetch(&incoming, sources, helpers.as_ref(), &meter);
        if helpers.is_some_and(|helpers| helpers.lost_one()) {
            // A node without an answer may still write: its writes go to the removed file.
            self.discard(key)?;
            self.check_stop()?;
            incoming = Incoming::begin(self, key, place, sources, &mut staged.notes)?;
            meter = Meter::new(self.report, &place.shown, incoming.size, incoming.done_bytes());
            fetched = fetch(&incoming, sources, None, &meter);
        }
        fetched.map_err(|e| e.after(incoming.done_bytes()))?;
        sources.check_unchanged().map_err(|e| e.after(incoming.done_bytes()))?;
        if !what.checksums.is_empty() {
            incoming.verify(&what.checksums)?;
        }
        let goes_on = || {
            meter.finish();
            !self.stop.is_set()
        };
        incoming.finish(place, what.replace, sources, &goes_on)?;
        staged.fetched_bytes = meter.fetched_bytes();
        self.volume.stats().add(Metric::StageInBytes, staged.fetched_bytes);
        let bytes = StagedBytes { r#in: staged.fetched_bytes, out: 0 };
        self.volume.stats().staged().add(self.who.uid, self.who.job.as_deref(), bytes);
        Ok(staged)
    }
}

impl Stager {
    /// Takes a key unless it is taken. Waits for a holder whose caller hung up: it saves what it fetched and releases
    /// the key. The caller removes the key from `running`.
    pub(super) fn hold(&self, key: &str, path: &str, stop: &Stop) -> bool {
        let unnoticed = Instant::now() + HANG_UP_NOTICED;
        loop {
            {
                let mut running = self.running.lock();
                let Some((_, holder)) = running.get(key) else {
                    running.insert(key.to_string(), (path.to_string(), stop.clone()));
                    return true;
                };
                if (!holder.is_set() && Instant::now() >= unnoticed) || stop.is_set() {
                    return false;
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Removes a staging's record, stub and objects.
    pub(super) fn discard(&self, key: &str) -> Result<()> {
        let staging = self.volume.staging();
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match fs::openat(staging, key, flags, Mode::empty()) {
            Ok(stub) => {
                // A second link means that the file was published; it owns the objects.
                let linked = fstat(&stub)?.st_nlink > 1;
                let file = self.files.get_or_open(stub)?;
                unlink(staging, key)?;
                if !linked {
                    file.remove_objects()?;
                }
            }
            Err(Errno::NOENT) => {}
            Err(e) => return Err(e.into()),
        }
        unlink(staging, &sums_key(key))?;
        Ok(self.volume.state().staging_remove(key)?)
    }
}

impl<'a> Incoming<'a> {
    /// Makes this node's writes durable.
    pub(super) fn leave(&self) -> Result<()> {
        self.file.sync_now(true)?;
        Ok(fs::fsync(&self.sums)?)
    }

    /// Makes another node fetch units; returns whether it did.
    pub(super) fn has_brought(&self, helpers: &Helpers, name: &str, sources: &Sources, units: &[u64]) -> bool {
        let bytes = units.iter().map(|unit| self.range(*unit)).map(|range| range.end - range.start).sum();
        if self.transfer.pace.as_ref().is_some_and(|pace| pace.take_elsewhere(bytes).is_err()) {
            return false;
        }
        helpers.bring_units(name, &self.key, &self.progress, sources, units, &self.transfer.stop)
    }

    /// The number of units.
    pub fn units(&self) -> u64 {
        self.size.div_ceil(self.progress.unit_bytes)
    }

    /// The file range of a unit.
    pub fn range(&self, unit: u64) -> Range<u64> {
        let bytes = self.progress.unit_bytes;
        unit * bytes..((unit + 1) * bytes).min(self.size)
    }

    pub fn is_done(&self, unit: u64) -> bool {
        self.units.lock().0.contains(unit)
    }

    /// Writes fetched bytes to the file.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write(offset, bytes).map(drop).map_err(|error| self.not_kept(error))
    }

    /// An error of the volume, with source and destination for the user.
    fn not_kept(&self, error: crate::Error) -> StageError {
        StageError::NotKept { uri: self.progress.uri.clone(), path: self.progress.path.clone(), error }
    }

    /// Bytes per request under a limit. Small requests: a failed one is repeated and counts against the limit again.
    pub fn piece_bytes(&self) -> Option<u64> {
        self.transfer.pace.as_ref().map(|pace| pace.piece_bytes() as u64)
    }

    /// Records a unit as written; returns whether a save is due.
    pub fn done(&self, unit: u64, bytes: u64) -> bool {
        let mut state = self.units.lock();
        let (units, unsaved) = &mut *state;
        units.insert(unit);
        unsaved.bytes += bytes;
        let due = unsaved.bytes >= SAVE_EVERY_BYTES || unsaved.since.elapsed() >= SAVE_EVERY;
        if due {
            *unsaved = Unsaved::nothing(); // other threads go on during the save
        }
        due
    }

    fn done_bytes(&self) -> u64 {
        (0..self.units()).filter(|u| self.is_done(*u)).map(|u| self.range(u)).map(|r| r.end - r.start).sum()
    }

    /// Syncs the written units, then records them in the state store.
    pub fn save(&self) -> Result<()> {
        let record = {
            let mut state = self.units.lock();
            state.1 = Unsaved::nothing();
            Progress { done: state.0.to_text(), ..self.progress.clone() }
        };
        // After a failed sync a later one may succeed without the lost bytes: save no more.
        if self.unsynced.load(Ordering::Acquire) {
            return Ok(());
        }
        let synced = self.file.sync_now(false).and_then(|()| Ok(fs::fsync(&self.sums)?));
        if let Err(error) = synced {
            self.unsynced.store(true, Ordering::Release);
            return Err(self.not_kept(error));
        }
        let bytes = serde_json::to_vec(&record).map_err(|e| crate::Error::State(e.to_string()))?;
        Ok(self.transfer.volume.state().staging_put(&self.key, &bytes)?)
    }

    /// Compares the whole file with the user's checksums.
    fn verify(&self, checksums: &[Checksum]) -> Result<()> {
        let mut expected = Expected::new(checksums);
        let mut buf = vec![0; 4 << 20];
        let mut offset = 0;
        while offset < self.size {
            self.transfer.check_stop()?;
            let read = self.file.read(offset, &mut buf)?;
            expected.update(&buf[..read]);
            offset += read as u64;
        }
        let compared = expected.compare();
        if compared.is_err() {
            self.transfer.discard(&self.key)?;
        }
        compared
    }
}

fn unlink(dir: impl AsFd, name: &str) -> Result<()> {
    match fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// The key of a staging: the same for each repetition, so that it can continue.
pub(super) fn key_of(who: &Identity, path: &str, uri: &str) -> String {
    let hash = blake3::hash(format!("{}\n{path}\n{uri}", who.uid).as_bytes());
    hash.to_hex()[..32].to_string()
}

/// The last name of a URI's path.
pub(super) fn last_name(uri: &str) -> Option<String> {
    let url = url::Url::parse(uri).ok()?;
    let name = url.path().rsplit('/').next().filter(|name| !name.is_empty())?;
    Some(percent_decode_str(name).decode_utf8().map_or_else(|_| name.to_owned(), Cow::into_owned))
}
