//! fio's I/O log, versions 2 and 3: files are added, opened, read, written; times in microseconds.
//!
//! Version 2: `file read
//! write
//! trim
//! sync
//! datasync [offset length]` and `wait`, which adds its offset in microseconds (as in fio, offsets below 100 are
//! ignored). Version 3 begins each line with the microseconds since the start instead.

use super::fields::{self, Fields, need};
use super::interned::Names;
use super::lines::LineFormat;
use super::records::Line;
use super::{Op, Passed, Reason, Record};

const MICROSECOND_NS: u64 = 1_000;

/// Shortest wait that fio takes into account.
const WAIT_US_MIN: u64 = 100;

/// Parser: version, known files, and (version 2) elapsed time.
pub(super) struct Fio {
    version: Option<u8>,
    files: Names,
    now_ns: u64,
}

impl Fio {
    pub(super) fn new() -> Fio {
        Fio { version: None, files: Names::of_files(), now_ns: 0 }
    }

    fn header(&mut self, line: &[u8]) -> Result<Line, Reason> {
        self.version = match line {
            b"fio version 2 iolog" => Some(2),
            b"fio version 3 iolog" => Some(3),
            _ => return Err(Reason::NoHeader),
        };
        Ok(Line::Passed(Passed::Header))
    }

    fn wait(&mut self, microseconds: u64) -> Result<Line, Reason> {
        if microseconds >= WAIT_US_MIN {
            let wait_ns = microseconds.checked_mul(MICROSECOND_NS).ok_or(Reason::OutOfRange)?;
            self.now_ns = self.now_ns.checked_add(wait_ns).ok_or(Reason::OutOfRange)?;
        }
        Ok(Line::Passed(Passed::Wait))
    }
}

impl LineFormat for Fio {
    const EXPECTED: &'static str =
        "[microseconds] file add|open|close|read|write|trim|sync|datasync|wait [offset length]";

    /// Version 2 has times only through its waits.
    fn has_times(&self) -> bool {
        self.version != Some(2) || self.now_ns > 0
    }

    fn line(&mut self, line: &[u8]) -> Result<Line, Reason> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(Line::Passed(Passed::Blank));
        }
        let Some(version) = self.version else { return self.header(line) };
        let mut f = Fields(line);
        if version == 3 {
            self.now_ns = fields::time_ns(need(&mut f)?, MICROSECOND_NS)?;
        }
        let (file, action) = (need(&mut f)?, need(&mut f)?);
        let op = match action {
            b"add" | b"open" | b"close" => {
                self.files.number(file)?;
                return Ok(Line::Passed(Passed::FileAction));
            }
            b"wait" if version == 2 => return self.wait(fields::integer(need(&mut f)?)?),
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Trim,
            b"sync" | b"datasync" => Op::Sync,
            _ => return Err(Reason::UnknownOp),
        };
        let mut record = Record { time_ns: self.now_ns, op, ..Record::default() };
        if op != Op::Sync {
            record.offset = fields::integer(need(&mut f)?)?;
            record.length = fields::integer32(need(&mut f)?)?;
        }
        record.file = self.files.number(file)?;
        Ok(Line::Record(record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<Result<Line, Reason>> {
        let mut fio = Fio::new();
        text.lines().map(|l| fio.line(l.as_bytes())).collect()
    }

    fn records(text: &str) -> Vec<Record> {
        let lines = read(text).into_iter().map(|l| l.expect("a good line"));
        lines.filter_map(|l| if let Line::Record(r) = l { Some(r) } else { None }).collect()
    }

    #[test]
    fn version_2_waits() {
        let log = "fio version 2 iolog\n/a add\n/b add\n/a open\n/a read 4096 8192\n/a wait 1500 0\n/a wait 99 0\n\
                   /b write 0 512\n/b datasync 0 0\n/a trim 0 4096\n/a close\n";
        let seen: Vec<_> = records(log).iter().map(|r| (r.time_ns, r.file, r.op, r.offset, r.length)).collect();
        assert_eq!(
            seen,
            [
                (0, 1, Op::Read, 4096, 8192),
                (1_500_000, 2, Op::Write, 0, 512),
                (1_500_000, 2, Op::Sync, 0, 0),
                (1_500_000, 1, Op::Trim, 0, 4096),
            ]
        );
    }

    #[test]
    fn version_3_has_times() {
        let log =
            "fio version 3 iolog\n18 /f add\n123 /f open\n126 /f read 49152 16384\n361 /f write 0 16384\n400 /f sync\n";
        let seen: Vec<_> = records(log).iter().map(|r| (r.time_ns, r.op, r.length)).collect();
        assert_eq!(seen, [(126_000, Op::Read, 16_384), (361_000, Op::Write, 16_384), (400_000, Op::Sync, 0)]);
    }

    #[test]
    fn damages() {
        assert_eq!(read("/f read 0 512"), [Err(Reason::NoHeader)]);
        assert_eq!(read("fio version 3 iolog\n5 /f wait 100 0")[1], Err(Reason::UnknownOp));
        assert_eq!(read("fio version 2 iolog\n/f read 0")[1], Err(Reason::FieldsMissing));
        assert_eq!(read("fio version 2 iolog\n/f wait 18446744073709551615 0")[1], Err(Reason::OutOfRange));
    }
}
