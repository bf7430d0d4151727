//! One incoming file: its stub in `staging/`, its fetched units, and its publication in the tree.

use super::checksum::{Checksum, Expected};
use super::fetch::{SAVE_EVERY, SAVE_EVERY_BYTES, UNIT_BYTES_MIN, fetch};
use super::inherit::placement_in;
use super::place::Place;
use super::progress::Meter;
use super::record::{Progress, Units};
use super::shared::Helpers;
use super::sources::Sources;
use super::{Report, StageError, StageIn, Staged, Stager, Stop, sums};
use crate::file::File;
use crate::host::descriptor_path;
use crate::quota::Reserved;
use crate::source::{Identity, Record};
use crate::stats::{Metric, StagedBytes};
use parking_lot::Mutex;
use policy::layout::Reason;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A caller that hung up is detected within this time on a machine with little load.
const HANG_UP_NOTICED: Duration = Duration::from_secs(if cfg!(test) { 0 } else { 2 });

/// A file that is being staged in.
pub(super) struct Incoming<'a> {
    stager: &'a Stager,
    key: String,
    stub: OwnedFd,
    pub file: Arc<File>,
    pub sums: OwnedFd,
    /// Bytes that one checksum covers; 0 for a file that stays in its stub and cannot lose a stripe.
    pub stripe_bytes: u64,
    size: u64,
    progress: Mutex<(Progress, Units, Unsaved)>,
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

impl Stager {
    /// Stages one file in.
    pub fn stage_in(&self, what: &StageIn, who: &Identity, report: Report, stop: &Stop) -> Result<Staged, StageError> {
        what.checksums.iter().try_for_each(Checksum::check)?;
        let last_name = what.uris.first().and_then(|uri| last_name(uri));
        let place = Place::find(self.volume.tree(), &what.path, last_name.as_deref(), who)?;
        let there = self.there(&place, what, who)?;
        if there.is_none() {
            check_free(&place, what.replace)?;
        }
        let sources = Sources::open(&*self.opener, &what.uris, who, stop)?;
        let mut what = what.clone();
        if let Some(there) = &there {
            if let Some(bytes) = self.still_the_same(there, &sources, &what, &place.shown, stop)? {
                return Ok(Staged { files: 1, bytes, notes: sources.notes, ..Staged::default() });
            }
            what.replace = true;
        }
        let key = key_of(who, &place.shown, &sources.list[0].0.uri);
        if stop.is_set() {
            return Err(StageError::Stopped); // before the stub is created
        }
        if !self.hold(&key, &place.shown, stop) {
            return Err(StageError::Running(place.shown));
        }
        let result = self.stage_in_as(&key, &what, &place, &sources, who, report, stop);
        self.running.lock().remove(&key);
        let mut staged = result?;
        staged.notes.splice(0..0, sources.notes);
        Ok(staged)
    }

    #[allow(clippy::too_many_arguments)] // one call site; a struct for it would only repeat the names
    fn stage_in_as(
        &self,
        key: &str,
        what: &StageIn,
        place: &Place,
        sources: &Sources,
        who: &Identity,
        report: Report,
        stop: &Stop,
    ) -> Result<Staged, StageError> {
        let mut staged = Staged { files: 1, bytes: sources.list[0].0.version.size, ..Default::default() };
        self.admit(place, who, staged.bytes)?;
        let mut incoming = Incoming::begin(self, key, place, sources, &mut staged.notes)?;
        let mut meter = Meter::new(report, &place.shown, incoming.size, incoming.done_bytes());
        let helpers = self.helpers_for(who, incoming.units());
        let mut fetched = fetch(&incoming, sources, helpers.as_ref(), &meter, stop);
        if helpers.is_some_and(|helpers| helpers.lost_one()) {
            // A node without an answer may still write: its writes go to the removed file.
            self.discard(key)?;
            if stop.is_set() {
                return Err(StageError::Stopped);
            }
            incoming = Incoming::begin(self, key, place, sources, &mut staged.notes)?;
            meter = Meter::new(report, &place.shown, incoming.size, incoming.done_bytes());
            fetched = fetch(&incoming, sources, None, &meter, stop);
        }
        fetched.map_err(|e| e.after(incoming.done_bytes()))?;
        sources.check_unchanged(stop).map_err(|e| e.after(incoming.done_bytes()))?;
        if !what.checksums.is_empty() {
            incoming.verify(&what.checksums, stop)?;
        }
        let goes_on = || {
            meter.finish();
            !stop.is_set()
        };
        incoming.finish(place, what.replace, sources, who, &goes_on)?;
        staged.fetched_bytes = meter.fetched_bytes();
        self.volume.stats().add(Metric::StageInBytes, staged.fetched_bytes);
        let bytes = StagedBytes { r#in: staged.fetched_bytes, out: 0 };
        self.volume.stats().staged().add(who.uid, who.job.as_deref(), bytes);
        Ok(staged)
    }

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
    pub(super) fn discard(&self, key: &str) -> Result<(), StageError> {
        let staging = self.volume.staging();
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match fs::openat(staging, key, flags, Mode::empty()) {
            Ok(stub) => {
                // A second link means that the file was published; it owns the objects.
                let linked = fs::fstat(&stub)?.st_nlink > 1;
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
    /// Continues an interrupted staging if the source is unchanged, or begins a new one.
    fn begin(
        stager: &'a Stager,
        key: &str,
        place: &Place,
        sources: &Sources,
        notes: &mut Vec<String>,
    ) -> Result<Incoming<'a>, StageError> {
        let source = &sources.list[0].0;
        let earlier = stager.volume.state().staging_get(key)?;
        let earlier: Option<Progress> = earlier.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if let Some(earlier) = earlier {
            let resumable = sources.by_ranges(0);
            if earlier.version == source.version && earlier.uri == source.uri && resumable {
                if let Some(incoming) = Incoming::take_up(stager, key, earlier)? {
                    return Ok(incoming);
                }
            } else if resumable {
                notes.push(format!("{} changed since the staging was interrupted: it begins anew", source.uri));
            }
        }
        stager.discard(key)?;
        Incoming::begin_new(stager, key, place, source)
    }

    fn begin_new(
        stager: &'a Stager,
        key: &str,
        place: &Place,
        source: &crate::source::Place,
    ) -> Result<Incoming<'a>, StageError> {
        let size = source.version.size;
        let pool = stager.files.pool();
        let placement = placement_in(place.parent(), &pool.placement, &stager.volume.config().tiers);
        let needed_bytes = size.saturating_mul(placement.mirrors.max(1) as u64);
        if size > pool.inline_bytes_max {
            let targets = stager.volume.targets();
            targets.measure_now(); // an older measurement is not precise enough for a large file
            let free_bytes = targets.space().free_bytes;
            if needed_bytes > free_bytes {
                return Err(StageError::Space { needed_bytes, free_bytes });
            }
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let stub = fs::openat(stager.volume.staging(), key, flags, Mode::from_raw_mode(0o600))?;
        let file = stager.files.get_or_open(stub.try_clone().map_err(|_| Errno::MFILE)?)?;
        let mut stripe_bytes = 0;
        if size > pool.inline_bytes_max {
            file.lay_out(size, &placement, Reason::StagedIn)?;
            stripe_bytes = placement.stripe_size;
        }
        let sums = open_sums(stager, key)?;
        fs::ftruncate(&sums, 0)?;
        let unit_bytes = unit_bytes(stripe_bytes);
        let units = Units::none(size.div_ceil(unit_bytes));
        let progress = Progress {
            path: place.shown.clone(),
            uri: source.uri.clone(),
            version: source.version.clone(),
            unit_bytes,
            done: units.to_text(),
        };
        let (progress, unsynced) = (Mutex::new((progress, units, Unsaved::nothing())), AtomicBool::new(false));
        Ok(Incoming { stager, key: key.to_string(), stub, file, sums, stripe_bytes, size, progress, unsynced })
    }

    fn take_up(stager: &'a Stager, key: &str, earlier: Progress) -> Result<Option<Incoming<'a>>, StageError> {
        let size = earlier.version.size;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(stub) = fs::openat(stager.volume.staging(), key, flags, Mode::empty()) else { return Ok(None) };
        let file = stager.files.get_or_open(stub.try_clone().map_err(|_| Errno::MFILE)?)?;
        let stripe_bytes = file.layout().map_or(0, |l| l.mirrors[0].segments[0].stripe_size);
        let count = size.div_ceil(earlier.unit_bytes.max(1));
        let units = Units::parse(&earlier.done, count).filter(|_| earlier.unit_bytes == unit_bytes(stripe_bytes));
        // A file with objects on an unavailable target is fetched again as a whole.
        let states = stager.volume.targets();
        let whole = file
            .layout()
            .is_none_or(|l| l.objects().all(|(_, o)| states.get(o.target).is_some_and(|t| t.state().accepts_io())));
        let pristine = file.source()?.is_none() && fs::fstat(&stub)?.st_nlink == 1;
        let Some(units) = units.filter(|_| whole && pristine) else { return Ok(None) };
        let sums = open_sums(stager, key)?;
        let (progress, unsynced) = (Mutex::new((earlier, units, Unsaved::nothing())), AtomicBool::new(false));
        Ok(Some(Incoming { stager, key: key.to_string(), stub, file, sums, stripe_bytes, size, progress, unsynced }))
    }

    /// Opens a staging that another node has begun.
    pub(super) fn join(stager: &'a Stager, key: &str, begun: Progress) -> Result<Incoming<'a>, StageError> {
        let is_key = key.len() == 32 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
        let size = begun.version.size;
        let incoming = if is_key { Incoming::take_up(stager, key, begun)? } else { None };
        incoming
            .filter(|incoming| incoming.size == size)
            .ok_or_else(|| StageError::path(key, "no such staging is under way"))
    }

    /// Makes this node's writes durable and ends its writing.
    pub(super) fn leave(&self) -> Result<(), StageError> {
        self.file.sync_now(true)?;
        fs::fsync(&self.sums)?;
        Ok(self.file.end_writing()?)
    }

    /// Makes another node fetch units; returns whether it did.
    pub(super) fn has_brought(
        &self,
        helpers: &Helpers,
        name: &str,
        sources: &Sources,
        units: &[u64],
        stop: &Stop,
    ) -> bool {
        let bytes = units.iter().map(|unit| self.range(*unit)).map(|range| range.end - range.start).sum();
        if self.stager.pace.as_ref().is_some_and(|pace| pace.take_elsewhere(bytes).is_err()) {
            return false;
        }
        let progress = self.progress.lock().0.clone();
        helpers.bring_units(name, &self.key, &progress, sources, units, stop)
    }

    /// The number of units.
    pub fn units(&self) -> u64 {
        self.size.div_ceil(self.progress.lock().0.unit_bytes)
    }

    /// The file range of a unit.
    pub fn range(&self, unit: u64) -> Range<u64> {
        let bytes = self.progress.lock().0.unit_bytes;
        unit * bytes..((unit + 1) * bytes).min(self.size)
    }

    pub fn is_done(&self, unit: u64) -> bool {
        self.progress.lock().1.contains(unit)
    }

    /// Writes fetched bytes to the file.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StageError> {
        self.file.write(offset, bytes).map(drop).map_err(|error| self.not_kept(error))
    }

    /// An error of the volume, with source and destination for the user.
    fn not_kept(&self, error: crate::Error) -> StageError {
        let progress = self.progress.lock();
        StageError::NotKept { uri: progress.0.uri.clone(), path: progress.0.path.clone(), error }
    }

    /// Bytes per request under a limit. Small requests: a failed one is repeated and counts against the limit again.
    pub fn piece_bytes(&self) -> Option<u64> {
        self.stager.pace.as_ref().map(|pace| pace.piece_bytes() as u64)
    }

    /// The URI of the source.
    pub fn uri(&self) -> String {
        self.progress.lock().0.uri.clone()
    }

    /// Records a unit as written; returns whether a save is due.
    pub fn done(&self, unit: u64, bytes: u64) -> bool {
        let mut progress = self.progress.lock();
        progress.1.insert(unit);
        progress.2.bytes += bytes;
        let due = progress.2.bytes >= SAVE_EVERY_BYTES || progress.2.since.elapsed() >= SAVE_EVERY;
        if due {
            progress.2 = Unsaved::nothing(); // other threads go on during the save
        }
        due
    }

    fn done_bytes(&self) -> u64 {
        (0..self.units()).filter(|u| self.is_done(*u)).map(|u| self.range(u)).map(|r| r.end - r.start).sum()
    }

    /// Syncs the written units, then records them in the state store.
    pub fn save(&self) -> Result<(), StageError> {
        let record = {
            let mut progress = self.progress.lock();
            progress.2 = Unsaved::nothing();
            Progress { done: progress.1.to_text(), ..progress.0.clone() }
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
        Ok(self.stager.volume.state().staging_put(&self.key, &bytes)?)
    }

    /// Compares the whole file with the user's checksums.
    fn verify(&self, checksums: &[Checksum], stop: &Stop) -> Result<(), StageError> {
        let mut expected = Expected::new(checksums);
        let mut buf = vec![0; 4 << 20];
        let mut offset = 0;
        while offset < self.size {
            if stop.is_set() {
                return Err(StageError::Stopped);
            }
            let read = self.file.read(offset, &mut buf)?;
            expected.update(&buf[..read]);
            offset += read as u64;
        }
        let compared = expected.compare();
        if compared.is_err() {
            self.stager.discard(&self.key)?;
        }
        compared
    }

    /// Publishes the file in the tree if `goes_on` returns true at the end: the caller may have given the file to
    /// another node.
    fn finish(
        self,
        place: &Place,
        replace: bool,
        sources: &Sources,
        who: &Identity,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), StageError> {
        self.file.refresh()?;
        if self.file.size() != self.size {
            let why = format!("{} of {} bytes are there; stage it in again", self.file.size(), self.size);
            return Err(StageError::path(&place.shown, why));
        }
        self.file.sync_now(false).map_err(|error| self.not_kept(error))?;
        if let Some(layout) = self.file.layout().filter(|_| self.stripe_bytes > 0) {
            fs::fsync(&self.sums)?;
            let side = self.stager.volume.side();
            fs::renameat(self.stager.volume.staging(), sums_key(&self.key), side, sums::name_of(layout.file))?;
            fs::fsync(side)?;
        }
        let sources = sources.list.iter().map(|(place, _)| place.clone()).collect();
        self.file.set_source(Some(&Record::new(sources, self.stripe_bytes, who).to_text()))?;
        place.new_file(who)?.give(self.stub.as_fd(), who.uid)?;
        self.file.sync_now(false)?;
        let replaced = if replace { self.stager.named(place)? } else { None };
        if !goes_on() {
            return Err(StageError::Stopped);
        }
        let reserved = self.stager.reserve(place, &fs::fstat(&self.stub)?, self.size)?;
        place.put(self.stub.as_fd(), replace, who)?;
        self.file.say_staged_as(&place.shown);
        self.file.forget_payers();
        reserved.into_iter().for_each(Reserved::keep_all);
        self.stager.note_place(&self.file, place);
        unlink(self.stager.volume.staging(), &self.key)?;
        unlink(self.stager.volume.staging(), &sums_key(&self.key))?;
        self.stager.volume.state().staging_remove(&self.key)?;
        if let Some(old) = replaced {
            self.stager.remove_replaced(place, &old)?;
        }
        Ok(())
    }
}

impl Stager {
    /// Opens the file that has the name now, for removal after its replacement.
    fn named(&self, place: &Place) -> Result<Option<OwnedFd>, StageError> {
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
    fn remove_replaced(&self, place: &Place, old: &OwnedFd) -> Result<(), StageError> {
        let stat = fs::fstat(old)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(());
        }
        let file = self.files.get_or_open(old.try_clone().map_err(|_| Errno::MFILE)?)?;
        if file.is_nameless(|| fs::fstat(old).ok().map(|stat| stat.st_nlink)) {
            file.remove_with_last_use();
            // An open file counts for its owner until an application closes it.
            if !file.is_open() && file.stops_counting() {
                self.counts_no_more(place, &stat);
            }
        }
        Ok(())
    }
}

fn check_free(place: &Place, replace: bool) -> Result<(), StageError> {
    match place.stat()?.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        None => Ok(()),
        Some(FileType::RegularFile | FileType::Symlink) if replace => Ok(()),
        Some(FileType::RegularFile | FileType::Symlink) => {
            Err(StageError::path(&place.shown, "it is there already; use --force to replace it"))
        }
        Some(_) => Err(StageError::path(&place.shown, "it is there already and is not a file")),
    }
}

fn unit_bytes(stripe_bytes: u64) -> u64 {
    let stripe = stripe_bytes.max(4096);
    UNIT_BYTES_MIN.div_ceil(stripe) * stripe
}

fn open_sums(stager: &Stager, key: &str) -> Result<OwnedFd, StageError> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(fs::openat(stager.volume.staging(), sums_key(key), flags, Mode::from_raw_mode(0o600))?)
}

fn sums_key(key: &str) -> String {
    format!("{key}.sums")
}

fn unlink(dir: impl AsFd, name: &str) -> Result<(), StageError> {
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
    Some(super::tree::decoded(name))
}
