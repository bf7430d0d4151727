//! libCacheSim's oracleGeneral: packed little-endian records of 24 bytes without a header.
//!
//! ```text
//!   u32 seconds | u64 object | u32 bytes | i64 next access (not used here)
//! ```
//! An object is one block: its number times the block size is the address, and at most one block of it is read.
//! Numbers that are hashes would exceed 2^64 then. They are folded, which keeps different ones different except for
//! one in about 2^51. Objects of size 0 are passed over, as in libCacheSim.

use super::bytes::Bytes;
use super::records::{Line, RecordFormat, Step, u32_at, u64_at};
use super::{Error, Passed, Reason, Record};

const RECORD_BYTES: usize = 24;
const SECOND_NS: u64 = 1_000_000_000;

/// Parser for blocks of a given size.
pub(super) struct OracleGeneral {
    pub(super) block_bytes: u32,
}

impl OracleGeneral {
    fn decode(&self, record: &[u8]) -> Line {
        let size = u32_at(record, 12);
        if size == 0 {
            return Line::Passed(Passed::NotATransfer);
        }
        let block = u64::from(self.block_bytes);
        let blocks = u64::MAX / block;
        Line::Record(Record {
            time_ns: u64::from(u32_at(record, 0)) * SECOND_NS,
            offset: u64_at(record, 4) % blocks * block,
            length: size.min(self.block_bytes),
            ..Record::default()
        })
    }
}

impl RecordFormat for OracleGeneral {
    const EXPECTED: &'static str = "records of 24 bytes: u32 seconds, u64 object, u32 bytes, i64 next access";

    fn record(&mut self, bytes: &mut Bytes) -> Result<Option<Step>, Error> {
        match bytes.want(RECORD_BYTES)? {
            0 => Ok(None),
            n if n < RECORD_BYTES => Ok(Some(Step::lost(Reason::Torn))),
            _ => {
                let what = Ok(self.decode(&bytes.held()[..RECORD_BYTES]));
                Ok(Some(Step { what, used: Some(RECORD_BYTES) }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::origin::Origin;
    use crate::trace::records::Records;
    use crate::trace::{Malformed, Reader};
    use std::path::Path;

    fn packed(seconds: u32, object: u64, bytes: u32) -> Vec<u8> {
        let mut r = seconds.to_le_bytes().to_vec();
        r.extend(object.to_le_bytes());
        r.extend(bytes.to_le_bytes());
        r.extend((-1i64).to_le_bytes());
        r
    }

    fn reader(data: Vec<u8>, lenient: bool) -> Records<OracleGeneral> {
        let bytes = Bytes::decompress(Path::new("t"), std::io::Cursor::new(data)).unwrap();
        Records::new(bytes, OracleGeneral { block_bytes: 4096 }, lenient, Origin::at_first_record())
    }

    #[test]
    fn objects_are_blocks_and_hashes_do_not_overflow() {
        let data = [packed(50, 3, 100), packed(51, 9, 0), packed(52, u64::MAX, 1 << 20)].concat();
        let mut reader = reader(data, false);
        let seen: Vec<_> = reader.by_ref().map(|r| r.unwrap()).collect();
        assert_eq!(seen[0], Record { offset: 3 * 4096, length: 100, ..Record::default() });
        assert_eq!((seen[1].time_ns, seen[1].length, seen[1].offset % 4096), (2_000_000_000, 4096, 0));
        assert_eq!((reader.accounting().lines, reader.accounting().records), (3, 2));
        assert!(reader.accounting().closes());
    }

    #[test]
    fn a_cut_record_is_named() {
        let data = [packed(1, 1, 1), vec![0; 5]].concat();
        let last = reader(data.clone(), false).last().unwrap();
        let Err(Error::Malformed(m)) = last else { panic!("the cut went unnoticed") };
        assert!(matches!(*m, Malformed { line: 2, reason: Reason::Torn, .. }));
        let mut lenient = reader(data, true);
        assert_eq!(lenient.by_ref().count(), 1);
        assert!(lenient.accounting().closes());
    }
}
