//! VMware's vscsiStats traces, versions 1 and 2: packed little-endian records without a header.
//!
//! ```text
//!   version 1, 32 bytes: u32 number | u32 bytes | u32 nSG | u16 command | u16 version << 8 | u64 sector | u64 us
//!   version 2, 40 bytes: u16 command | u16 version << 8 | u32 number | u32 bytes | u32 nSG | u64 sector | u64 us | u64 us
//! ```
//! Commands are those of SCSI; others than reads and writes move no data of a user and are passed over.

use super::bytes::Bytes;
use super::records::{Line, RecordFormat, Step, u16_at, u32_at, u64_at};
use super::{Error, Op, Passed, Reason, Record};

const SECTOR_BYTES: u64 = 512;
const US_NS: u64 = 1000;

/// Parser. The first record decides the version.
#[derive(Default)]
pub(super) struct Vscsi {
    layout: Option<&'static Layout>,
}

/// Positions in a record.
struct Layout {
    version: u16,
    record_bytes: usize,
    version_at: usize,
    command_at: usize,
    length_at: usize,
    sector_at: usize,
}

const LAYOUTS: [Layout; 2] = [
    Layout { version: 1, record_bytes: 32, version_at: 14, command_at: 12, length_at: 4, sector_at: 16 },
    Layout { version: 2, record_bytes: 40, version_at: 2, command_at: 0, length_at: 8, sector_at: 16 },
];

impl Layout {
    fn fits(&self, record: &[u8]) -> bool {
        record.len() >= self.record_bytes && u16_at(record, self.version_at) >> 8 == self.version
    }

    fn decode(&self, record: &[u8]) -> Result<Line, Reason> {
        let op = match u16_at(record, self.command_at) {
            0x08 | 0x28 | 0x2d | 0x88 | 0xa8 => Op::Read,
            0x2a | 0x3f | 0x8a | 0x8e | 0x9a | 0x9c | 0xaa | 0xae => Op::Write,
            _ => return Ok(Line::Passed(Passed::NotATransfer)),
        };
        let sector = u64_at(record, self.sector_at);
        let offset = sector.checked_mul(SECTOR_BYTES).ok_or(Reason::BeyondEnd)?;
        let time_ns = u64_at(record, self.sector_at + 8).checked_mul(US_NS).ok_or(Reason::OutOfRange)?;
        Ok(Line::Record(Record { time_ns, offset, length: u32_at(record, self.length_at), op, ..Record::default() }))
    }
}

/// Whether two records at the head of a file fit one of the versions.
pub(super) fn is_shape(head: &[u8]) -> bool {
    LAYOUTS.iter().any(|layout| {
        let second = head.get(layout.record_bytes..).unwrap_or_default();
        layout.fits(head) && (second.is_empty() || layout.fits(second))
    })
}

impl RecordFormat for Vscsi {
    const EXPECTED: &'static str = "records of 32 bytes (version 1) or 40 bytes (version 2)";

    fn record(&mut self, bytes: &mut Bytes) -> Result<Option<Step>, Error> {
        const BYTES_MAX: usize = 40;
        if bytes.want(BYTES_MAX)? == 0 {
            return Ok(None);
        }
        let layout = self.layout.or_else(|| LAYOUTS.iter().find(|layout| layout.fits(bytes.held())));
        self.layout = layout;
        let Some(layout) = layout.filter(|layout| layout.fits(bytes.held())) else {
            return Ok(Some(Step::lost(Reason::Torn)));
        };
        Ok(Some(Step { what: layout.decode(bytes.held()), used: Some(layout.record_bytes) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::origin::Origin;
    use crate::trace::records::Records;
    use std::path::Path;

    fn first(command: u16, sector: u64, us: u64) -> Vec<u8> {
        let head = [1u32.to_le_bytes(), 8192u32.to_le_bytes(), 1u32.to_le_bytes()].concat();
        let words = [command.to_le_bytes(), (1u16 << 8).to_le_bytes()].concat();
        [head, words, sector.to_le_bytes().to_vec(), us.to_le_bytes().to_vec()].concat()
    }

    fn second(command: u16, sector: u64, us: u64) -> Vec<u8> {
        let words = [command.to_le_bytes(), (2u16 << 8).to_le_bytes()].concat();
        let head = [7u32.to_le_bytes(), 512u32.to_le_bytes(), 1u32.to_le_bytes()].concat();
        [words, head, sector.to_le_bytes().to_vec(), us.to_le_bytes().to_vec(), vec![0; 8]].concat()
    }

    fn read(data: Vec<u8>) -> Vec<Record> {
        assert!(is_shape(&data));
        let bytes = Bytes::decompress(Path::new("t"), std::io::Cursor::new(data)).unwrap();
        Records::new(bytes, Vscsi::default(), true, Origin::at_first_record()).map(|record| record.unwrap()).collect()
    }

    #[test]
    fn both_versions_are_read_and_other_commands_passed_over() {
        let records = read([first(0x28, 5, 1000), first(0x1a, 0, 1001), first(0x2a, 6, 1010), vec![0; 7]].concat());
        let expected = [(0, 5 * 512, 8192, Op::Read), (10_000, 6 * 512, 8192, Op::Write)];
        assert_eq!(records.iter().map(|r| (r.time_ns, r.offset, r.length, r.op)).collect::<Vec<_>>(), expected);
        let records = read([second(0x88, 1, 5), second(0x8a, 2, 7)].concat());
        let expected = [(0, 512, 512, Op::Read), (2000, 1024, 512, Op::Write)];
        assert_eq!(records.iter().map(|r| (r.time_ns, r.offset, r.length, r.op)).collect::<Vec<_>>(), expected);
    }
}
