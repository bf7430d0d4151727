//! The layout record: a layout as bytes, small enough for an extended attribute.
//!
//! ```text
//! "ENTL" version | file generation | mirrors: state, segments: length, stripe_size,
//!   objects: target*2+partial, id (merged) | history: time, reason | crc32 of all before
//! ```
//!
//! All numbers are varints; object ids and times are differences from the previous one. `docs/reference/format.md`
//! describes the bytes one by one. A segment starts where the previous one ends, so a record cannot contain gaps; all
//! other invariants are checked by [`Layout::check`] after decoding.
//!
//! The bytes are untrusted: decoding never panics, and allocates no more than a small multiple of their size.

mod crc32;
mod varint;

use super::{History, Layout, Merged, Mirror, MirrorState, OPEN_END, Object, ObjectState, Reason, Segment};
use crate::ids::{FileId, ObjectId, TargetId};
use crate::time::Time;
use crc32::crc32;
use varint::{Reader, malformed, put, put_delta};

const MAGIC: &[u8; 4] = b"ENTL";
/// Version of layouts without shared objects.
const VERSION: u8 = 1;
/// Version of layouts that share objects with other files.
const VERSION_MERGED: u8 = 2;
/// Length of magic and version.
const HEAD_LEN: usize = 5;
const CRC_LEN: usize = 4;

/// Reason why bytes are no layout record, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodecError {
    /// A newer program wrote the record.
    Newer(String),
    /// The record is damaged, or none.
    Bad(String),
}

impl Layout {
    /// Returns the record of this layout, which must keep its invariants. See `docs/reference/format.md`.
    pub fn encode(&self) -> Vec<u8> {
        debug_assert_eq!(self.check(), Ok(()));
        let mut out = Vec::with_capacity(64 + 4 * self.objects().count());
        out.extend_from_slice(MAGIC);
        let shares = self.is_merged();
        out.push(if shares { VERSION_MERGED } else { VERSION });
        put(&mut out, self.file.0);
        put(&mut out, self.generation);
        put(&mut out, self.mirrors.len() as u64);
        let mut last_id = self.file.0;
        for mirror in &self.mirrors {
            put_mirror(&mut out, mirror, shares, &mut last_id);
        }
        put_history(&mut out, &self.history);
        let crc = crc32(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes a record, and checks its layout.
    pub fn decode(record: &[u8]) -> Result<Layout, CodecError> {
        if !record.starts_with(MAGIC) {
            return Err(CodecError::Bad("this is no layout record; the stub was changed by another program".into()));
        }
        let damaged = "the layout record is damaged, its checksum does not match; restore the stub from a backup";
        let damaged = || CodecError::Bad(damaged.into());
        let shares = match record.get(MAGIC.len()) {
            Some(&VERSION) => false,
            Some(&VERSION_MERGED) => true,
            Some(&other) => {
                return Err(CodecError::Newer(format!(
                    "the layout record has version {other}, which this program cannot read; use the entrepot that wrote it"
                )));
            }
            None => return Err(damaged()),
        };
        let (body, crc) = record.split_last_chunk::<CRC_LEN>().ok_or_else(damaged)?;
        if body.len() < HEAD_LEN || crc32(body) != u32::from_le_bytes(*crc) {
            return Err(damaged());
        }
        let mut reader = Reader::new(body, HEAD_LEN);
        let file = FileId(reader.number()?);
        let generation = reader.number()?;
        let mut last_id = file.0;
        let count = reader.count(2)?;
        let mirrors = (0..count).map(|_| mirror(&mut reader, shares, &mut last_id)).collect::<Result<_, _>>()?;
        let history = history(&mut reader)?;
        reader.end()?;
        let layout = Layout { file, generation, mirrors, history };
        layout.check().map_err(|why| CodecError::Bad(format!("the layout record is invalid: {why}")))?;
        // Each layout has exactly one valid record.
        if layout.is_merged() != shares {
            return Err(malformed(MAGIC.len()));
        }
        Ok(layout)
    }
}

fn put_mirror(out: &mut Vec<u8>, mirror: &Mirror, shares: bool, last_id: &mut u64) {
    out.push(match mirror.state {
        MirrorState::InSync => 0,
        MirrorState::Stale => 1,
    });
    put(out, mirror.segments.len() as u64);
    for segment in &mirror.segments {
        put(out, if segment.end == OPEN_END { 0 } else { segment.end - segment.start });
        put(out, segment.stripe_size);
        put(out, segment.objects.len() as u64);
        for object in &segment.objects {
            let partial = u64::from(object.state == ObjectState::Partial);
            let target = u64::from(object.target.0);
            match (shares, object.merged) {
                (false, _) => put(out, target << 1 | partial),
                (true, merged) => put(out, target << 2 | u64::from(merged.is_some()) << 1 | partial),
            }
            put_delta(out, *last_id, object.id.0);
            *last_id = object.id.0;
            if let Some(merged) = object.merged {
                put(out, merged.unit_bytes);
                put(out, merged.of.into());
                put(out, merged.slot.into());
            }
        }
    }
}

fn mirror(reader: &mut Reader, shares: bool, last_id: &mut u64) -> Result<Mirror, CodecError> {
    let state = match reader.byte()? {
        0 => MirrorState::InSync,
        1 => MirrorState::Stale,
        _ => return Err(reader.malformed()),
    };
    let mut start = 0;
    let mut segments = Vec::new();
    for _ in 0..reader.count(3)? {
        let segment = segment(reader, start, shares, last_id)?;
        start = segment.end;
        segments.push(segment);
    }
    Ok(Mirror { state, segments })
}

fn segment(reader: &mut Reader, start: u64, shares: bool, last_id: &mut u64) -> Result<Segment, CodecError> {
    let end = match reader.number()? {
        0 => OPEN_END,
        len => start.checked_add(len).filter(|end| *end != OPEN_END).ok_or_else(|| reader.malformed())?,
    };
    let stripe_size = reader.number()?;
    let count = reader.count(2)?;
    let mut objects = Vec::with_capacity(count);
    for _ in 0..count {
        let packed = reader.number()?;
        let (target, is_merged) = if shares { (packed >> 2, packed & 2 != 0) } else { (packed >> 1, false) };
        let target = u16::try_from(target).map_err(|_| reader.malformed())?;
        let state = if packed & 1 == 1 { ObjectState::Partial } else { ObjectState::Complete };
        let id = reader.delta(*last_id)?;
        *last_id = id;
        let merged = if is_merged { Some(merged(reader)?) } else { None };
        objects.push(Object { id: ObjectId(id), target: TargetId(target), state, merged });
    }
    Ok(Segment { start, end, stripe_size, objects })
}

fn merged(reader: &mut Reader) -> Result<Merged, CodecError> {
    let unit_bytes = reader.number()?;
    let of = u16::try_from(reader.number()?).map_err(|_| reader.malformed())?;
    let slot = u16::try_from(reader.number()?).map_err(|_| reader.malformed())?;
    Ok(Merged { unit_bytes, slot, of })
}

fn put_history(out: &mut Vec<u8>, history: &History) {
    put(out, history.iter().len() as u64);
    let mut last = 0;
    for (at, reason) in history.iter() {
        put_delta(out, last, at.0);
        last = at.0;
        let (code, target) = match reason {
            Reason::Grown => (0, None),
            Reason::StagedIn => (1, None),
            Reason::Requested => (2, None),
            Reason::MirrorAdded => (3, None),
            Reason::MirrorDropped => (4, None),
            Reason::MirrorStale(target) => (5, Some(target)),
            Reason::Resynced => (6, None),
            Reason::RecoveryStarted(target) => (7, Some(target)),
            Reason::Recovered => (8, None),
            Reason::FailedOver(target) => (9, Some(target)),
            Reason::Drained(target) => (10, Some(target)),
            Reason::Moved => (11, None),
            Reason::Restriped => (12, None),
            Reason::Merged => (13, None),
            Reason::Split => (14, None),
        };
        out.push(code);
        if let Some(target) = target {
            put(out, u64::from(target.0));
        }
    }
}

fn history(reader: &mut Reader) -> Result<History, CodecError> {
    let count = reader.count(2)?;
    if count > History::ENTRIES_MAX {
        return Err(reader.malformed());
    }
    let mut history = History::default();
    let mut last = 0;
    for _ in 0..count {
        last = reader.delta(last)?;
        let code = reader.byte()?;
        let mut target = || {
            let number = reader.number()?;
            u16::try_from(number).map(TargetId).map_err(|_| reader.malformed())
        };
        let reason = match code {
            0 => Reason::Grown,
            1 => Reason::StagedIn,
            2 => Reason::Requested,
            3 => Reason::MirrorAdded,
            4 => Reason::MirrorDropped,
            5 => Reason::MirrorStale(target()?),
            6 => Reason::Resynced,
            7 => Reason::RecoveryStarted(target()?),
            8 => Reason::Recovered,
            9 => Reason::FailedOver(target()?),
            10 => Reason::Drained(target()?),
            11 => Reason::Moved,
            12 => Reason::Restriped,
            13 => Reason::Merged,
            14 => Reason::Split,
            _ => return Err(reader.malformed()),
        };
        history.push(Time(last), reason);
    }
    Ok(history)
}

#[cfg(test)]
mod tests;
