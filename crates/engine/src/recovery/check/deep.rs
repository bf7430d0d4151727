//! Reads every byte: files with checksums are compared with these, mirrors of other files with each other.
//!
//! Differences are checked once more while nothing writes the file, and count only if the checksums still belong to
//! its content. The reads are paced.

use super::closed;
use super::look::{Candidate, Found};
use super::right::{Right, are_current};
use super::{Checker, Finding, FindingKind, Outcome};
use crate::file::{File, View};
use crate::source::Record;
use crate::stage::progress::Meter;
use crate::stage::sums::Sums;
use crate::stage::{Report, Stop};
use crate::{Error, Result};
use object::host::fstat;
use object::target::{State, TargetError};
use policy::layout::{Layout, Object, ObjectState, Position, object_len};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of each mirror compared at once where there are no checksums.
const STEP_BYTES: u64 = 1 << 20;

/// Reference for the comparison of a file.
enum With {
    /// The file's checksums; for a closed file with the name under which its stub holds them.
    Sums(Sums, Option<String>),
    OtherMirrors,
    /// There is no reference, or the file cannot be read now, which is a finding already.
    Nothing,
}

/// Damage of one object.
#[derive(Clone, Debug)]
struct Wrong {
    kind: FindingKind,
    /// Affected bytes of the file, from the first to the last.
    range: Range<u64>,
    /// Whether another mirror has all these bytes right.
    is_elsewhere: bool,
}

/// The objects of each mirror that differ, by position.
type Differ = BTreeMap<Position, Wrong>;

/// Rate limiter of reads: waits until that number of bytes may be read.
pub(super) type Paced<'a> = &'a dyn Fn(u64) -> Result<()>;

impl Checker {
    /// Compares the bytes of all scanned files.
    pub(super) fn compare_bytes(&self, found: &mut Found, report: Report, stop: &Stop) {
        let files = std::mem::take(&mut found.to_compare);
        let total: u64 = files.iter().filter_map(|names| self.length(names)).sum();
        let meter = Meter::new(report, "compare", total, 0);
        let paced = |bytes| self.mover.throttle(bytes);
        for names in files {
            if stop.is_set() {
                break;
            }
            if let Err(error) = self.compare_file(&names, found, &paced, &|bytes| meter.add(bytes), stop) {
                if let Err(why) = self.check_lease() {
                    found.unscanned(names.join("/"), why);
                    break;
                }
                // The file is in exclusive use, removed, or on an absent target: other findings cover that.
                tracing::info!(file = names.join("/"), "it was not compared: {error}");
            }
        }
        found.report.compared_bytes = meter.fetched_bytes();
        meter.finish();
    }

    /// Number of bytes to read of a file.
    fn length(&self, names: &[String]) -> Option<u64> {
        let stat = fstat(self.open(names, OFlags::RDONLY).ok()?).ok()?;
        Some(stat.st_size as u64)
    }

    /// Compares one file; `compared` receives the number of bytes.
    ///
    /// # Errors
    /// If it cannot be compared now.
    pub(super) fn compare_file(
        &self,
        names: &[String],
        found: &mut Found,
        paced: Paced<'_>,
        compared: &dyn Fn(u64),
        stop: &Stop,
    ) -> Result<()> {
        let file = self.files.get_or_open(self.open(names, OFlags::RDWR)?)?;
        let view = file.view();
        let Some(layout) = view.layout.clone() else { return Ok(()) };
        let size = file.size();
        let with = self.with(&file, &layout, size)?;
        let step = match &with {
            With::Sums(sums, _) => sums.stripe_bytes(),
            With::OtherMirrors => STEP_BYTES,
            With::Nothing => return Ok(()),
        };
        let mut differ = Differ::new();
        let mut at = 0;
        while at < size && !stop.is_set() {
            let len = step.min(size - at);
            paced(len * view.in_sync().count() as u64)?;
            if self.differs(&file, &view, &with, at, len)?.is_some() {
                let again = file.while_unwritten(&view, || {
                    // Data written in the meantime are not damage.
                    match self.is_still(&file, &with, size) {
                        true => self.differs(&file, &view, &with, at, len).map(Some),
                        false => Ok(None),
                    }
                });
                match again {
                    Some(Ok(Some(again))) => again.into_iter().flatten().for_each(|new| note(&mut differ, new)),
                    Some(Ok(None)) => return Err(Error::Busy("it was written in between".into())),
                    Some(Err(error)) => return Err(error),
                    None => return Err(Error::Busy("its layout changed".into())),
                }
            }
            compared(len);
            at += len;
        }
        let known = |o: &Object| found.report.findings.iter().any(|f| f.object == o.id.to_string());
        differ.retain(|at, _| layout.object(*at).is_some_and(|o| !known(o)));
        self.note_differences(&file, &layout, names, &with, differ, found);
        Ok(())
    }

    /// Whether the reference is still valid for the file. Nothing writes the file.
    fn is_still(&self, file: &Arc<File>, with: &With, size: u64) -> bool {
        match with {
            With::Sums(_, made_under) => are_current(file, made_under.as_deref(), size),
            With::OtherMirrors | With::Nothing => true,
        }
    }

    /// Whether the checksums prove that bytes beyond the end of an object are missing, and not a hole.
    pub(super) fn lacks_bytes(&self, file: &Arc<File>, at: Position) -> Result<bool> {
        let view = file.view();
        let (Some(layout), size) = (view.layout.clone(), file.size()) else { return Ok(false) };
        let With::Sums(sums, _) = self.with(file, &layout, size)? else { return Ok(false) };
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

    /// Rebuilds an object from right stripes of mirrors and of the source. If one stripe is unavailable, the object
    /// stays as it is.
    pub(super) fn mend(&self, file: &Arc<File>, candidate: &Candidate) -> Result<()> {
        let Some(layout) = file.layout() else { return Ok(()) };
        let size = file.size();
        match self.with(file, &layout, size)? {
            With::Sums(sums, made_under) => {
                let right = Right::new((sums, made_under), size, file, &self.repair)?;
                self.mover.mend(file, &[(candidate.at, candidate.object.id)], &right).map(drop)
            }
            With::OtherMirrors | With::Nothing => Err(Error::Busy("it was written in between".into())),
        }
    }

    fn with(&self, file: &Arc<File>, layout: &Layout, size: u64) -> Result<With> {
        if layout.objects().any(|(_, o)| o.state == ObjectState::Partial) {
            return Ok(With::Nothing);
        }
        let record = file.source()?.and_then(|text| Record::parse(&text).ok());
        if let Some(record) = record.filter(|r| r.stripe_bytes > 0 && !r.modified && r.size() == size) {
            let sums = Sums::open(self.volume.side(), layout.file, record.stripe_bytes, size)?;
            if let Some(sums) = sums {
                return Ok(With::Sums(sums, None));
            }
        }
        if let Some((id, sums)) = closed::of(self, file, layout, size)? {
            return Ok(With::Sums(sums, Some(id)));
        }
        Ok(if layout.in_sync_count() > 1 { With::OtherMirrors } else { With::Nothing })
    }

    /// Returns the objects that differ in a range, if any do.
    fn differs(&self, file: &Arc<File>, view: &View, with: &With, at: u64, len: u64) -> Result<Option<Differ>> {
        let Some(layout) = &view.layout else { return Ok(None) };
        let (mut right, mut wrong, mut unreadable) = (0, Vec::new(), Vec::new());
        let mut first: Option<(usize, Vec<u8>)> = None;
        for mirror in view.in_sync() {
            let mut bytes = vec![0; len as usize];
            match file.read_mirror(view, mirror, at, &mut bytes) {
                Err(error) if self.is_bad_medium(&error) => {
                    unreadable.push((mirror, at..at + len));
                    continue;
                }
                read => read?,
            }
            match (with, &first) {
                (With::Sums(sums, _), _) if sums.matches(at / sums.stripe_bytes(), &bytes)? => right += 1,
                (With::Sums(..), _) => wrong.push((mirror, at..at + len)),
                (_, Some((other, expected))) => {
                    if let Some(byte) = expected.iter().zip(&bytes).position(|(a, b)| a != b) {
                        let byte = at + byte as u64;
                        wrong.extend([(*other, byte..byte + 1), (mirror, byte..byte + 1)]);
                    }
                }
                (_, None) => first = Some((mirror, bytes)),
            }
        }
        let is_elsewhere = right > 0;
        let mut differ = Differ::new();
        let kind = if matches!(with, With::Sums(..)) { FindingKind::Damaged } else { FindingKind::MirrorsDiffer };
        let all = wrong.into_iter().map(|one| (one, kind));
        for ((mirror, range), kind) in all.chain(unreadable.into_iter().map(|one| (one, FindingKind::Unreadable))) {
            for piece in layout.mirrors[mirror].pieces(mirror, range.start, range.end - range.start) {
                note(&mut differ, (piece.at, Wrong { kind, range: range.clone(), is_elsewhere }));
            }
        }
        Ok((!differ.is_empty()).then_some(differ))
    }

    /// Whether the device of a healthy target fails to read some bytes. Objects of an absent target are not damaged.
    fn is_bad_medium(&self, error: &Error) -> bool {
        let Error::Target { target, error: TargetError::Io(errno) } = error else { return false };
        let target = self.volume.targets().get(*target);
        matches!(*errno, Errno::IO | Errno::ILSEQ | Errno::NODATA | Errno::UCLEAN)
            && target.is_some_and(|target| target.state() == State::Ok && !target.in_doubt())
    }

    fn note_differences(
        &self,
        file: &Arc<File>,
        layout: &Layout,
        names: &[String],
        with: &With,
        differ: Differ,
        found: &mut Found,
    ) {
        let sums = matches!(with, With::Sums(..));
        let wrong: BTreeSet<usize> = differ.keys().map(|at| at.mirror).collect();
        let differ_freely = differ.values().any(|wrong| wrong.kind == FindingKind::MirrorsDiffer);
        let healthy_copies = if differ_freely { 0 } else { (layout.in_sync_count() - wrong.len()) as u32 };
        for (at, wrong) in differ {
            let Some(object) = layout.object(at).copied() else { continue };
            let bytes = object_len(&layout.mirrors[at.mirror].segments[at.segment], at.index, file.size());
            let is_elsewhere = wrong.is_elsewhere || healthy_copies > 0;
            let recoverable = wrong.kind != FindingKind::MirrorsDiffer && (is_elsewhere || file.is_recoverable());
            let outcome = match wrong.kind {
                FindingKind::MirrorsDiffer => Outcome::Failed(
                    "the right one is unknown; read the file with one and the other failed (`entrepot target fail`), \
                     and drop the wrong one with `entrepot layout drop-mirror`"
                        .into(),
                ),
                _ if recoverable => Outcome::Repairable,
                _ => Outcome::Lost,
            };
            let mut finding = Finding::of(names, wrong.kind, outcome);
            (finding.object, finding.target) = (object.id.to_string(), self.volume.targets().name_of(object.target));
            finding.missing_bytes = if recoverable { 0 } else { wrong.range.end - wrong.range.start };
            finding.range = Some(wrong.range);
            if recoverable {
                let candidate = Candidate::of(found.report.findings.len(), names, layout.file, (at, object));
                found.candidates.push(Candidate { bytes, healthy_copies, damaged: true, proven: sums, ..candidate });
            }
            found.report.findings.push(finding);
        }
    }
}

/// Merges a problem of an object with earlier ones.
fn note(differ: &mut Differ, (at, new): (Position, Wrong)) {
    match differ.get_mut(&at) {
        Some(known) => {
            known.range = known.range.start.min(new.range.start)..known.range.end.max(new.range.end);
            known.is_elsewhere &= new.is_elsewhere;
            // If any part of the object cannot be verified, report `MirrorsDiffer`.
            if known.kind != FindingKind::MirrorsDiffer {
                known.kind = new.kind;
            }
        }
        None => drop(differ.insert(at, new)),
    }
}
