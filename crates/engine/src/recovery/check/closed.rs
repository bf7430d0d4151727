//! Checksums of a file that is not being written, made from the bytes of all its mirrors once they are durable.
//!
//! They certify bytes as the targets return them. Hashing while writing would also prove the way to the device. But
//! writes arrive in any order and in parts of stripes, and passed-through writes never reach the daemon.

use super::Checker;
use super::deep::Paced;
use crate::file::File;
use crate::stage::Stop;
use crate::stage::sums::{self, Closed, ID_BYTES, SUM_BYTES_U64, Sums, sum_of};
use crate::stats::Metric;
use crate::{Error, Result};
use object::host;
use object::target::State;
use object::volume_id::unique;
use policy::layout::{Layout, ObjectState};
use rustix::fs::{self, Mode, OFlags};
use std::io::Write;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Range of a file that one checksum covers: a stripe of its present layout, so that a wrong checksum identifies the
/// object. The bounds are guesses: a checksum costs 16 bytes, and a stripe is read at a time.
const STRIPE_BYTES: RangeInclusive<u64> = 64 << 10..=4 << 20;

fn stripe_bytes(layout: &Layout) -> u64 {
    let segments = layout.mirrors.iter().flat_map(|mirror| &mirror.segments);
    let smallest = segments.map(|segment| segment.stripe_size).min().unwrap_or(*STRIPE_BYTES.end());
    smallest.clamp(*STRIPE_BYTES.start(), *STRIPE_BYTES.end())
}

/// Checksums made since the last change of a file, and the name under which its stub holds them.
pub(super) fn of(checker: &Checker, file: &File, layout: &Layout, size: u64) -> Result<Option<(String, Sums)>> {
    let Some((id, text)) = file.stub().sums()? else { return Ok(None) };
    // Checksums in the format of a later release are ignored.
    let Some(closed) = serde_json::from_str::<Closed>(&text).ok().filter(|closed| closed.size == size) else {
        return Ok(None);
    };
    let sums = Sums::open_closed(checker.volume.side(), layout.file, &id, &closed)?;
    Ok(sums.map(|sums| (id, sums)))
}

impl Checker {
    /// Computes checksums of a file without any, if it is not open. Returns whether it has some now.
    ///
    /// # Errors
    /// If its bytes cannot be read, mirrors differ, or the file changes during the computation.
    pub fn sum(&self, file: &Arc<File>, paced: Paced<'_>, stop: &Stop) -> Result<bool> {
        file.refresh()?;
        let Some(layout) = file.layout() else { return Ok(false) };
        let size = file.size();
        let is_well =
            |target| self.volume.targets().get(target).is_some_and(|t| t.state() == State::Ok && !t.in_doubt());
        let is_sound = layout.objects().all(|(_, o)| o.state == ObjectState::Complete && is_well(o.target));
        if size == 0 || file.is_open() || !is_sound || file.is_recoverable() {
            return Ok(false);
        }
        if of(self, file, &layout, size)?.is_some() {
            return Ok(true);
        }
        let id = unique()?;
        if id.len() != ID_BYTES || !file.begin_sums(&id)? {
            return Ok(false);
        }
        let made = self.make_sums(file, &id, paced, stop);
        if !matches!(made, Ok(true)) {
            // Its stub has no name for the checksums, so the file is checked again at its next close.
            file.end_making_sums();
            let _ = fs::unlinkat(self.volume.side(), sums::name_of_closing(layout.file, &id), fs::AtFlags::empty());
        }
        made
    }

    fn make_sums(&self, file: &Arc<File>, id: &str, paced: Paced<'_>, stop: &Stop) -> Result<bool> {
        // After a loss of power, no checksum may cover bytes that never reached a device.
        file.sync_now(false)?;
        let (view, size) = (file.view(), file.size());
        let Some(layout) = view.layout.clone() else { return Ok(false) };
        let name = sums::name_of_closing(layout.file, id);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut out = std::fs::File::from(fs::openat(self.volume.side(), &name, flags, Mode::RUSR | Mode::WUSR)?);
        let failed = |error: std::io::Error| Error::Invalid(format!("side/{name} cannot be written: {error}"));
        let mut all = Vec::with_capacity(ID_BYTES);
        all.extend_from_slice(id.as_bytes());
        let stripe_bytes = stripe_bytes(&layout);
        for at in (0..size).step_by(stripe_bytes as usize) {
            if stop.is_set() || file.is_open() {
                return Ok(false);
            }
            let len = stripe_bytes.min(size - at);
            paced(len * view.in_sync().count() as u64)?;
            let mut first: Option<Vec<u8>> = None;
            for mirror in view.in_sync() {
                let mut bytes = vec![0; len as usize];
                file.read_mirror(&view, mirror, at, &mut bytes)?;
                match &first {
                    Some(expected) if *expected != bytes => return Err(Error::Busy("mirrors differ".into())),
                    Some(_) => {}
                    None => first = Some(bytes),
                }
            }
            all.extend_from_slice(&sum_of(&first.unwrap_or_default()));
            if all.len() as u64 >= SUM_BYTES_U64 << 12 {
                out.write_all(&all).map_err(failed)?;
                all.clear();
            }
        }
        out.write_all(&all).and_then(|()| out.sync_all()).map_err(failed)?;
        let text = serde_json::to_string(&Closed::of(stripe_bytes, size)).expect("numbers");
        let put = || {
            if !file.same_view(&view) || file.size() != size {
                return Err(Error::Busy("it changed in between".into()));
            }
            let side = self.volume.side();
            fs::renameat(side, &name, side, sums::name_of_closed(layout.file))?;
            Ok(host::sync_directory(side)?)
        };
        let counts = file.end_sums(id, &text, put)?;
        if counts {
            self.volume.stats().add(Metric::SumsMade, 1);
            self.volume.stats().add(Metric::SumsBytes, size);
        }
        Ok(counts)
    }
}
