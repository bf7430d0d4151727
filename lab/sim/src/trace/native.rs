//! Our own format, version 1: little-endian, a header, records of 32 bytes, an end mark with their number and
//! checksum.
//!
//! ```text
//!   header  64 bytes: "entrepot" | u16 version 1 | u16 header bytes 64 | u16 record bytes 32 | u16 1 if without times | u32 block bytes | 0 ...
//!   record  32 bytes: u64 time ns | u64 offset | u32 length | u32 client | u32 file | u16 device | u8 op | u8 flags
//!   end     32 bytes: u64 records | u32 CRC-32 of all records | 0 ... | u8 op 255 | u8 0
//! ```
//! `op`: 0 read, 1 write, 2 trim, 3 sync. `flags`: 1 speculative, 2 synchronous, 4 metadata. Block bytes: block size
//! of the source, 0 if it counted in bytes. The file may be compressed as a whole (`.zst`, `.gz`). A file without its
//! end mark was truncated.

use super::bytes::Bytes;
use super::records::{Line, RecordFormat, Step, u16_at, u32_at, u64_at};
use super::{Error, Flags, Op, Passed, Reason, Record};

/// First bytes of a file in our format.
pub(super) const MAGIC: &[u8; 8] = b"entrepot";

/// Size of a record, and of the end mark.
pub(super) const RECORD_BYTES: usize = 32;

const HEADER_BYTES: usize = 64;
const VERSION: u16 = 1;
const END_OP: u8 = 255;
const OP_AT: usize = 30;
const FLAGS_MAX: u8 = 7;

/// Mark of a header whose trace has no times.
const NO_TIMES: u16 = 1;
const NO_TIMES_AT: usize = 14;

pub(super) fn header(block_bytes: u32, has_times: bool) -> [u8; HEADER_BYTES] {
    let mut h = [0; HEADER_BYTES];
    h[..8].copy_from_slice(MAGIC);
    h[8..10].copy_from_slice(&VERSION.to_le_bytes());
    h[10..12].copy_from_slice(&(HEADER_BYTES as u16).to_le_bytes());
    h[12..14].copy_from_slice(&(RECORD_BYTES as u16).to_le_bytes());
    h[NO_TIMES_AT..16].copy_from_slice(&if has_times { 0 } else { NO_TIMES }.to_le_bytes());
    h[16..20].copy_from_slice(&block_bytes.to_le_bytes());
    h
}

/// Returns the source's block size from the header; `None` if it counted in bytes.
pub(super) fn block_bytes(head: &[u8]) -> Option<u32> {
    let said = u32::from_le_bytes(head.get(16..20)?.try_into().ok()?);
    (said != 0).then_some(said)
}

/// Returns whether the source had times, from the header.
pub(super) fn has_times(head: &[u8]) -> bool {
    head.len() < HEADER_BYTES || u16_at(head, NO_TIMES_AT) != NO_TIMES
}

pub(super) fn encode(record: &Record) -> [u8; RECORD_BYTES] {
    let mut r = [0; RECORD_BYTES];
    r[..8].copy_from_slice(&record.time_ns.to_le_bytes());
    r[8..16].copy_from_slice(&record.offset.to_le_bytes());
    r[16..20].copy_from_slice(&record.length.to_le_bytes());
    r[20..24].copy_from_slice(&record.client.to_le_bytes());
    r[24..28].copy_from_slice(&record.file.to_le_bytes());
    r[28..30].copy_from_slice(&record.device.to_le_bytes());
    r[OP_AT] = record.op as u8;
    r[31] = record.flags.0;
    r
}

pub(super) fn end(records: u64, checksum: u32) -> [u8; RECORD_BYTES] {
    let mut r = [0; RECORD_BYTES];
    r[..8].copy_from_slice(&records.to_le_bytes());
    r[8..12].copy_from_slice(&checksum.to_le_bytes());
    r[OP_AT] = END_OP;
    r
}

fn decode(r: &[u8]) -> Result<Line, Reason> {
    let op = match r[OP_AT] {
        0 => Op::Read,
        1 => Op::Write,
        2 => Op::Trim,
        3 => Op::Sync,
        _ => return Err(Reason::UnknownOp),
    };
    if r[31] > FLAGS_MAX {
        return Err(Reason::OutOfRange);
    }
    Ok(Line::Record(Record {
        time_ns: u64_at(r, 0),
        offset: u64_at(r, 8),
        length: u32_at(r, 16),
        client: u32_at(r, 20),
        file: u32_at(r, 24),
        device: u16_at(r, 28),
        op,
        flags: Flags(r[31]),
    }))
}

/// Parser, with its state.
#[derive(Default)]
pub(super) struct Native {
    in_records: bool,
    without_times: bool,
    ended: bool,
    records: u64,
    checksum: crc32fast::Hasher,
}

impl Native {
    fn header(&mut self, bytes: &mut Bytes) -> Result<Option<Step>, Error> {
        if bytes.want(HEADER_BYTES)? < HEADER_BYTES {
            return Ok(Some(Step::lost(Reason::NoHeader)));
        }
        let h = bytes.held();
        let known = h.starts_with(MAGIC) && u16_at(h, 8) == VERSION;
        if !known || usize::from(u16_at(h, 10)) != HEADER_BYTES || usize::from(u16_at(h, 12)) != RECORD_BYTES {
            return Ok(Some(Step::lost(Reason::NoHeader)));
        }
        self.in_records = true;
        self.without_times = !has_times(h);
        Ok(Some(Step { what: Ok(Line::Passed(Passed::Header)), used: Some(HEADER_BYTES) }))
    }

    fn end(&mut self, r: &[u8]) -> Step {
        self.ended = true;
        let whole = u64_at(r, 0) == self.records && u32_at(r, 8) == self.checksum.clone().finalize();
        let what = if whole { Ok(Line::Passed(Passed::Summary)) } else { Err(Reason::Checksum) };
        Step { what, used: Some(RECORD_BYTES) }
    }
}

impl RecordFormat for Native {
    const EXPECTED: &'static str = "a native trace, version 1, with a header, records of 32 bytes and an end mark";

    fn has_times(&self) -> bool {
        !self.without_times
    }

    fn record(&mut self, bytes: &mut Bytes) -> Result<Option<Step>, Error> {
        if !self.in_records {
            return self.header(bytes);
        }
        let held = bytes.want(RECORD_BYTES)?;
        if held == 0 && self.ended {
            return Ok(None);
        }
        if held < RECORD_BYTES || self.ended {
            return Ok(Some(Step::lost(Reason::Torn)));
        }
        let r = &bytes.held()[..RECORD_BYTES];
        if r[OP_AT] == END_OP {
            let r: [u8; RECORD_BYTES] = *r.first_chunk().expect("as long as a record");
            return Ok(Some(self.end(&r)));
        }
        self.checksum.update(r);
        self.records += 1;
        Ok(Some(Step { what: decode(r), used: Some(RECORD_BYTES) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Reader;
    use crate::trace::origin::Origin;
    use crate::trace::records::Records;
    use std::path::Path;

    fn file(records: &[Record]) -> Vec<u8> {
        let body: Vec<u8> = records.iter().flat_map(encode).collect();
        [&header(512, true)[..], &body, &end(records.len() as u64, crc32fast::hash(&body))].concat()
    }

    fn sample() -> Vec<Record> {
        let r = Record {
            time_ns: u64::MAX,
            offset: 1 << 40,
            length: u32::MAX,
            client: 7,
            file: 9,
            device: 11,
            op: Op::Trim,
            flags: Flags::META,
        };
        vec![Record::default(), r, Record { op: Op::Sync, ..Record::default() }]
    }

    fn read(data: Vec<u8>) -> (Vec<Record>, Option<Reason>) {
        let bytes = Bytes::decompress(Path::new("t"), std::io::Cursor::new(data)).unwrap();
        let mut reader = Records::new(bytes, Native::default(), false, Origin::as_given());
        let (mut seen, mut damage) = (Vec::new(), None);
        for next in reader.by_ref() {
            match next {
                Ok(r) => seen.push(r),
                Err(Error::Malformed(m)) => damage = Some(m.reason),
                Err(e) => panic!("{e}"),
            }
        }
        assert!(reader.accounting().closes());
        (seen, damage)
    }

    #[test]
    fn what_was_written_is_read() {
        assert_eq!(read(file(&sample())), (sample(), None));
        assert_eq!(read(file(&[])), (vec![], None));
    }

    #[test]
    fn damage_of_every_byte_is_seen() {
        let whole = file(&sample());
        for at in 0..whole.len() {
            // The zeros of the header and of the end mark are reserved.
            let silent = (14..64).contains(&at) || (at >= whole.len() - 20 && at != whole.len() - 2);
            let mut damaged = whole.clone();
            damaged[at] ^= 0x40;
            assert_eq!(read(damaged).1.is_none(), silent, "byte {at}");
        }
    }

    #[test]
    fn a_cut_is_seen_wherever_it_is() {
        let whole = file(&sample());
        for length in 0..whole.len() {
            assert!(read(whole[..length].to_vec()).1.is_some(), "{length} bytes");
        }
        assert_eq!(read([whole, vec![0]].concat()).1, Some(Reason::Torn));
    }
}
