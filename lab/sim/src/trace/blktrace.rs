//! Binary of `blktrace`: one file per CPU, records of 48 bytes in the byte order of the traced machine.
//!
//! ```text
//!   u32 magic | u32 sequence | u64 ns | u64 sector | u32 bytes | u32 action | u32 pid | u32 device | u32 cpu
//!   | u16 error | u16 pdu_len | pdu_len bytes
//! ```
//! The low byte of `action` is the stage of the request, the high half its category. One stage counts, as for
//! blkparse.

use super::bytes::Bytes;
use super::fields;
use super::interned::Names;
use super::records::{Line, RecordFormat, Step, u16_at, u32_at, u64_at};
use super::{Error, Flags, Op, Passed, Reason, Record};

const HEADER_BYTES: usize = 48;

/// Magic number without the version in its low byte.
const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;

/// Letters of blkparse by number of the stage.
const STAGES: &[u8] = b"?QMFGSRDCPUTIXBA";

const WRITE: u32 = 1 << 1;
const READ: u32 = 1 << 0;
const SYNC: u32 = 1 << 3;
const NOTIFY: u32 = 1 << 10;
const AHEAD: u32 = 1 << 11;
const META: u32 = 1 << 12;
const DISCARD: u32 = 1 << 13;

/// Returns whether a file begins like one of blktrace, in either byte order.
pub(super) fn is_magic(head: &[u8]) -> bool {
    big_endian(head).is_some()
}

fn big_endian(head: &[u8]) -> Option<bool> {
    let first = <[u8; 4]>::try_from(head.get(..4)?).ok()?;
    if u32::from_le_bytes(first) == MAGIC | VERSION {
        return Some(false);
    }
    (u32::from_be_bytes(first) == MAGIC | VERSION).then_some(true)
}

/// Parser for one action.
pub(super) struct Blktrace {
    action: u8,
    big_endian: Option<bool>,
    devices: Names,
}

impl Blktrace {
    pub(super) fn new(action: u8) -> Blktrace {
        Blktrace { action, big_endian: None, devices: Names::of_devices() }
    }

    fn decode(&mut self, r: &[u8; HEADER_BYTES]) -> Result<Line, Reason> {
        let action = u32_at(r, 28);
        let (stage, kind) = ((action & 0xff) as usize, action >> 16);
        if kind & NOTIFY != 0 {
            return Ok(Line::Passed(Passed::NotATransfer));
        }
        if STAGES.get(stage) != Some(&self.action) {
            return Ok(Line::Passed(Passed::OtherAction));
        }
        let length = u32_at(r, 24);
        let op = match kind {
            k if k & DISCARD != 0 => Op::Trim,
            k if k & WRITE != 0 => Op::Write,
            k if k & READ != 0 => Op::Read,
            _ => return Ok(Line::Passed(Passed::NotATransfer)),
        };
        if length == 0 {
            return Ok(Line::Passed(Passed::NotATransfer));
        }
        let mark = |bit: u32, flag: Flags| if kind & bit != 0 { flag } else { Flags::NONE };
        let flags = mark(AHEAD, Flags::SPECULATIVE).with(mark(SYNC, Flags::SYNC)).with(mark(META, Flags::META));
        Ok(Line::Record(Record {
            time_ns: u64_at(r, 8),
            offset: fields::blocks_offset(u64_at(r, 16), 512)?,
            length,
            client: u32_at(r, 32),
            device: self.devices.device(&u32_at(r, 36).to_le_bytes())?,
            op,
            flags,
            file: 0,
        }))
    }
}

impl RecordFormat for Blktrace {
    const EXPECTED: &'static str = "records of blktrace, version 7";

    fn record(&mut self, bytes: &mut Bytes) -> Result<Option<Step>, Error> {
        let held = bytes.want(HEADER_BYTES)?;
        if held == 0 {
            return Ok(None);
        }
        let Some(mut r) = bytes.held().first_chunk::<HEADER_BYTES>().copied() else {
            return Ok(Some(Step::lost(Reason::Torn)));
        };
        if self.big_endian.is_none() {
            self.big_endian = big_endian(&r);
        }
        if self.big_endian == Some(true) {
            swap(&mut r);
        }
        if u32_at(&r, 0) != MAGIC | VERSION {
            return Ok(Some(Step::lost(Reason::Torn)));
        }
        let used = HEADER_BYTES + usize::from(u16_at(&r, 46));
        if bytes.want(used)? < used {
            return Ok(Some(Step::lost(Reason::Torn)));
        }
        Ok(Some(Step { what: self.decode(&r), used: Some(used) }))
    }
}

/// Swaps the bytes of each field.
fn swap(record: &mut [u8; HEADER_BYTES]) {
    let mut at = 0;
    for width in [4, 4, 8, 8, 4, 4, 4, 4, 4, 2, 2] {
        record[at..at + width].reverse();
        at += width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::origin::Origin;
    use crate::trace::records::Records;
    use crate::trace::{Accounting, Reader};
    use std::path::Path;

    fn event(ns: u64, sector: u64, bytes: u32, action: u32, pdu: &[u8]) -> Vec<u8> {
        let mut r = Vec::new();
        for n in [MAGIC | VERSION, 1] {
            r.extend(n.to_le_bytes());
        }
        r.extend(ns.to_le_bytes());
        r.extend(sector.to_le_bytes());
        for n in [bytes, action, 42, 8 << 20, 3] {
            r.extend(n.to_le_bytes());
        }
        r.extend(0u16.to_le_bytes());
        r.extend((pdu.len() as u16).to_le_bytes());
        r.extend(pdu);
        r
    }

    fn sample() -> Vec<Vec<u8>> {
        vec![
            event(1000, 0, 0, NOTIFY << 16 | 2, b"clock"),
            event(5000, 100, 8192, (READ | AHEAD) << 16 | 1, b""),
            event(5500, 100, 8192, READ << 16 | 7, b""),
            event(6000, 8, 4096, (WRITE | SYNC) << 16 | 1 << 8 | 1, b"12345678"),
            event(6500, 0, 0, WRITE << 16 | 1, b""),
        ]
    }

    fn read(data: Vec<u8>) -> (Vec<Record>, Accounting) {
        let bytes = Bytes::decompress(Path::new("t"), std::io::Cursor::new(data)).unwrap();
        let mut reader = Records::new(bytes, Blktrace::new(b'Q'), true, Origin::at_first_record());
        let seen = reader.by_ref().map(|r| r.unwrap()).collect();
        (seen, reader.accounting().clone())
    }

    #[test]
    fn queued_requests_with_their_marks() {
        let (seen, accounts) = read(sample().concat());
        let read_ahead =
            Record { offset: 51_200, length: 8192, client: 42, flags: Flags::SPECULATIVE, ..Record::default() };
        assert_eq!(seen[0], read_ahead);
        assert_eq!((seen[1].time_ns, seen[1].op, seen[1].flags), (1000, Op::Write, Flags::SYNC));
        assert_eq!((seen.len(), accounts.lines, accounts.closes()), (2, 5, true));
    }

    #[test]
    fn the_other_byte_order_reads_the_same() {
        let turned = sample().into_iter().map(|mut r| {
            let head: &mut [u8; HEADER_BYTES] = r.first_chunk_mut().unwrap();
            swap(head);
            r
        });
        assert_eq!(read(turned.collect::<Vec<_>>().concat()).0, read(sample().concat()).0);
    }

    #[test]
    fn what_follows_damage_is_not_guessed() {
        let mut data = sample().concat();
        let length = data.len();
        data.truncate(length - 50);
        let (seen, accounts) = read(data);
        assert_eq!((seen.len(), accounts.lines, accounts.skipped_sum(), accounts.closes()), (1, 4, 1, true));
        let mut data = sample();
        data[2][0] = 0;
        let (seen, accounts) = read(data.concat());
        assert_eq!((seen.len(), accounts.lines, accounts.skipped_sum()), (1, 3, 1));
    }
}
