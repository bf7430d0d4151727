//! The beginning of a staging: a new stub, or the one of an interrupted staging.

use super::{Incoming, Unsaved};
use crate::file::File;
use crate::stage::fetch::UNIT_BYTES_MIN;
use crate::stage::inherit::placement_in;
use crate::stage::place::Place;
use crate::stage::record::{Progress, Units};
use crate::stage::sources::Sources;
use crate::stage::{Result, StageError, Stager, Transfer};
use object::host::fstat;
use parking_lot::Mutex;
use policy::layout::Reason;
use rustix::fd::OwnedFd;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

impl<'a> Incoming<'a> {
    /// Continues an interrupted staging if its sources are unchanged, or begins a new one.
    pub(super) fn begin(
        transfer: &'a Transfer<'a>,
        key: &str,
        place: &Place,
        sources: &Sources,
        notes: &mut Vec<String>,
    ) -> Result<Incoming<'a>> {
        let earlier = transfer.volume.state().staging_get(key)?;
        let earlier: Option<Progress> = earlier.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let resumable = |earlier: &Progress| earlier.uri == sources.list[0].0.uri && sources.by_ranges(0);
        if let Some(mut earlier) = earlier.filter(resumable) {
            if let Some(uri) = earlier.changed(sources) {
                notes.push(format!("{uri} changed since the staging was interrupted: it starts from the beginning"));
            } else {
                earlier.add(sources);
                if let Some(incoming) = Incoming::take_up(transfer, key, earlier)? {
                    return Ok(incoming);
                }
            }
        }
        transfer.discard(key)?;
        Incoming::begin_new(transfer, key, place, sources)
    }

    fn begin_new(transfer: &'a Transfer<'a>, key: &str, place: &Place, sources: &Sources) -> Result<Incoming<'a>> {
        let source = &sources.list[0].0;
        let size = source.version.size;
        let pool = transfer.files.pool();
        let placement = placement_in(place.parent(), &pool.placement, &transfer.volume.config().tiers);
        let needed_bytes = size.saturating_mul(placement.mirrors.max(1) as u64);
        if size > pool.inline_bytes_max {
            let targets = transfer.volume.targets();
            targets.measure_now(); // an older measurement is not precise enough for a large file
            let free_bytes = targets.space().free_bytes;
            if needed_bytes > free_bytes {
                return Err(StageError::Space { needed_bytes, free_bytes });
            }
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let stub = fs::openat(transfer.volume.staging(), key, flags, Mode::from_raw_mode(0o600))?;
        let file = transfer.files.get_or_open(stub.try_clone().map_err(|_| Errno::MFILE)?)?;
        let mut stripe_bytes = 0;
        if size > pool.inline_bytes_max {
            file.lay_out(size, &placement, Reason::StagedIn)?;
            stripe_bytes = placement.stripe_size;
        }
        let unit_bytes = unit_bytes(stripe_bytes);
        let units = Units::none(size.div_ceil(unit_bytes));
        let mut progress = Progress {
            path: place.shown.clone(),
            uri: source.uri.clone(),
            version: source.version.clone(),
            others: Vec::new(),
            unit_bytes,
            done: units.to_text(),
        };
        progress.add(sources);
        let incoming = Incoming::of(transfer, key, (stub, file), stripe_bytes, progress, units)?;
        fs::ftruncate(&incoming.sums, 0)?;
        Ok(incoming)
    }

    fn of(
        transfer: &'a Transfer<'a>,
        key: &str,
        (stub, file): (OwnedFd, Arc<File>),
        stripe_bytes: u64,
        progress: Progress,
        units: Units,
    ) -> Result<Incoming<'a>> {
        let (sums, size) = (open_sums(transfer, key)?, progress.version.size);
        let (units, unsynced) = (Mutex::new((units, Unsaved::nothing())), AtomicBool::new(false));
        Ok(Incoming { transfer, key: key.to_string(), stub, file, sums, stripe_bytes, size, progress, units, unsynced })
    }

    fn take_up(transfer: &'a Transfer<'a>, key: &str, earlier: Progress) -> Result<Option<Incoming<'a>>> {
        let size = earlier.version.size;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(stub) = fs::openat(transfer.volume.staging(), key, flags, Mode::empty()) else { return Ok(None) };
        let file = transfer.files.get_or_open(stub.try_clone().map_err(|_| Errno::MFILE)?)?;
        let stripe_bytes = file.layout().map_or(0, |l| l.mirrors[0].segments[0].stripe_size);
        let count = size.div_ceil(earlier.unit_bytes.max(1));
        let units = Units::parse(&earlier.done, count).filter(|_| earlier.unit_bytes == unit_bytes(stripe_bytes));
        // A file with objects on an unavailable target is fetched again as a whole.
        let states = transfer.volume.targets();
        let whole = file
            .layout()
            .is_none_or(|l| l.objects().all(|(_, o)| states.get(o.target).is_some_and(|t| t.state().accepts_io())));
        let pristine = file.source()?.is_none() && fstat(&stub)?.st_nlink == 1;
        let Some(units) = units.filter(|_| whole && pristine) else { return Ok(None) };
        Incoming::of(transfer, key, (stub, file), stripe_bytes, earlier, units).map(Some)
    }

    /// Opens a staging that another node has begun.
    pub(in crate::stage) fn join(transfer: &'a Transfer<'a>, key: &str, begun: Progress) -> Result<Incoming<'a>> {
        let is_key = key.len() == 32 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
        let incoming = if is_key { Incoming::take_up(transfer, key, begun)? } else { None };
        incoming.ok_or_else(|| StageError::path(key, "no such staging is under way"))
    }
}

fn unit_bytes(stripe_bytes: u64) -> u64 {
    let stripe = stripe_bytes.max(4096);
    UNIT_BYTES_MIN.div_ceil(stripe) * stripe
}

fn open_sums(stager: &Stager, key: &str) -> Result<std::fs::File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(fs::openat(stager.volume.staging(), sums_key(key), flags, Mode::from_raw_mode(0o600))?.into())
}

pub(super) fn sums_key(key: &str) -> String {
    format!("{key}.sums")
}
