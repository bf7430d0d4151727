//! Reading every byte: staged files are compared with their checksums, mirrors with each other.
//!
//! What differs is looked at once more while nothing writes the file. It reads no faster than `[mover] rate`.

use super::look::{Candidate, Found};
use super::{Checker, Finding, FindingKind, Outcome};
use crate::file::{File, View};
use crate::source::Record;
use crate::stage::progress::Meter;
use crate::stage::sums::Sums;
use crate::stage::{Report, Stop};
use crate::{Error, Result};
use policy::layout::{Layout, Object, ObjectState, Position, object_len};
use rustix::fs::OFlags;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Bytes of each mirror compared at once where there are no checksums.
const STEP_BYTES: u64 = 1 << 20;

/// What is to be done with a file.
enum With {
    Sums(Sums),
    OtherMirrors,
    /// There is nothing to compare it with, or it cannot be read now, which is a finding already.
    Nothing,
}

/// The objects of each mirror that differ, by position.
type Differ = BTreeSet<(usize, usize, usize)>;

impl Checker {
    /// Compares the bytes of all files that were looked at.
    pub(super) fn compare_bytes(&self, found: &mut Found, report: Report, stop: &Stop) {
        let files = std::mem::take(&mut found.to_compare);
        let total: u64 = files.iter().filter_map(|names| self.length(names)).sum();
        let meter = Meter::new(report, "compare", total, 0);
        for names in files {
            if stop.is_set() {
                break;
            }
            if let Err(error) = self.compare_file(&names, found, &meter, stop) {
                // In use in a way that excludes it, removed, or on a target that is away: that is said elsewhere.
                tracing::info!(file = names.join("/"), "it was not compared: {error}");
            }
        }
        found.report.compared_bytes = meter.fetched_bytes();
        meter.finish();
    }

    /// Bytes to be read of a file.
    fn length(&self, names: &[String]) -> Option<u64> {
        let stat = rustix::fs::fstat(self.open(names, OFlags::RDONLY).ok()?).ok()?;
        Some(stat.st_size as u64)
    }

    fn compare_file(&self, names: &[String], found: &mut Found, meter: &Meter<'_>, stop: &Stop) -> Result<()> {
        let file = self.files.get_or_open(self.open(names, OFlags::RDWR)?)?;
        let view = file.view();
        let Some(layout) = view.layout.clone() else { return Ok(()) };
        let size = file.size();
        let with = self.with(&file, &layout, size)?;
        let step = match &with {
            With::Sums(sums) => sums.stripe_bytes(),
            With::OtherMirrors => STEP_BYTES,
            With::Nothing => return Ok(()),
        };
        let mut differ = Differ::new();
        let mut at = 0;
        while at < size && !stop.is_set() {
            let len = step.min(size - at);
            self.mover.throttle(len * view.in_sync().count() as u64)?;
            if self.differs(&file, &view, &with, at, len)?.is_some() {
                let again = file.while_unwritten(&view, || self.differs(&file, &view, &with, at, len));
                match again {
                    Some(again) => differ.extend(again?.unwrap_or_default()),
                    None => return Err(Error::Busy("its layout changed".into())),
                }
            }
            meter.add(len);
            at += len;
        }
        let known = |o: &Object| found.report.findings.iter().any(|f| f.object == o.id.to_string());
        let new: Vec<_> = differ.into_iter().filter(|at| object_at(&layout, *at).is_some_and(|o| !known(o))).collect();
        self.note_differences(&file, &layout, names, &with, &new, found);
        Ok(())
    }

    /// Whether the checksums say that what is beyond the end of an object is no hole.
    pub(super) fn lacks_bytes(&self, file: &Arc<File>, at: Position) -> Result<bool> {
        let view = file.view();
        let (Some(layout), size) = (view.layout.clone(), file.size()) else { return Ok(false) };
        let With::Sums(sums) = self.with(file, &layout, size)? else { return Ok(false) };
        let have = view.slot(at).run(file.pool(), |h| h.len());
        let have = have.map_err(|error| Error::Target { target: view.slot(at).target_id, error })?;
        let stripe = sums.stripe_bytes();
        let pieces = layout.mirrors[at.mirror].pieces(at.mirror, 0, size);
        for piece in pieces.filter(|p| p.at == at && p.object_offset + p.len > have) {
            let from = piece.file_offset - piece.file_offset % stripe;
            for start in (from..piece.file_offset + piece.len).step_by(stripe as usize) {
                let mut bytes = vec![0; stripe.min(size - start) as usize];
                file.read_mirror(&view, at.mirror, start, &mut bytes)?;
                if !sums.matches(start / stripe, &bytes)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn with(&self, file: &Arc<File>, layout: &Layout, size: u64) -> Result<With> {
        if layout.objects().any(|(_, o)| o.state == ObjectState::Partial) {
            return Ok(With::Nothing);
        }
        let record = file.source()?.and_then(|text| Record::parse(&text).ok());
        if let Some(record) = record.filter(|r| r.stripe_bytes > 0 && !r.modified && r.size() == size) {
            let sums = Sums::open(self.volume.side(), layout.file, record.stripe_bytes, size)?;
            if let Some(sums) = sums {
                return Ok(With::Sums(sums));
            }
        }
        Ok(if layout.in_sync_count() > 1 { With::OtherMirrors } else { With::Nothing })
    }

    /// Which objects differ in a range, if any do.
    fn differs(&self, file: &Arc<File>, view: &View, with: &With, at: u64, len: u64) -> Result<Option<Differ>> {
        let Some(layout) = &view.layout else { return Ok(None) };
        let mut differ = Differ::new();
        let mut objects_of = |mirror: usize, from: u64, len: u64| {
            let pieces = layout.mirrors[mirror].pieces(mirror, from, len);
            differ.extend(pieces.map(|piece| (piece.at.mirror, piece.at.segment, piece.at.index)));
        };
        let mut first: Option<(usize, Vec<u8>)> = None;
        for mirror in view.in_sync() {
            let mut bytes = vec![0; len as usize];
            file.read_mirror(view, mirror, at, &mut bytes)?;
            match (with, &first) {
                (With::Sums(sums), _) => {
                    if !sums.matches(at / sums.stripe_bytes(), &bytes)? {
                        objects_of(mirror, at, len);
                    }
                }
                (_, Some((other, expected))) => {
                    if let Some(byte) = expected.iter().zip(&bytes).position(|(a, b)| a != b) {
                        objects_of(*other, at + byte as u64, 1);
                        objects_of(mirror, at + byte as u64, 1);
                    }
                }
                (_, None) => first = Some((mirror, bytes)),
            }
        }
        Ok((!differ.is_empty()).then_some(differ))
    }

    fn note_differences(
        &self,
        file: &Arc<File>,
        layout: &Layout,
        names: &[String],
        with: &With,
        differ: &[(usize, usize, usize)],
        found: &mut Found,
    ) {
        let sums = matches!(with, With::Sums(_));
        let wrong: BTreeSet<usize> = differ.iter().map(|(mirror, ..)| *mirror).collect();
        let healthy_copies = if sums { (layout.in_sync_count() - wrong.len()) as u32 } else { 0 };
        let mut repaired = BTreeSet::new();
        for &(mirror, segment, index) in differ {
            let at = Position { mirror, segment, index };
            let Some(object) = layout.object(at).copied() else { continue };
            let bytes = object_len(&layout.mirrors[mirror].segments[segment], index, file.size());
            let (kind, outcome) = if sums {
                (FindingKind::Damaged, Outcome::Repairable)
            } else {
                let why = "nothing says which is right; read the file with one and the other failed (`entrepot target fail`), and drop \
                           the wrong one with `entrepot layout drop-mirror`";
                (FindingKind::MirrorsDiffer, Outcome::Failed(why.into()))
            };
            let mut finding = Finding::of(names, kind, outcome);
            (finding.object, finding.target) = (object.id.to_string(), self.name_of(object.target));
            let index = found.report.findings.len();
            found.report.findings.push(finding);
            // A mirror that is made anew is repaired as a whole.
            if sums && (healthy_copies == 0 || repaired.insert(mirror)) {
                found.candidates.push(Candidate {
                    finding: index,
                    path: names.to_vec(),
                    file: layout.file,
                    at,
                    object,
                    bytes,
                    healthy_copies,
                    recoverable: true,
                    damaged: true,
                });
            }
        }
    }
}

fn object_at(layout: &Layout, (mirror, segment, index): (usize, usize, usize)) -> Option<&Object> {
    layout.object(Position { mirror, segment, index })
}
