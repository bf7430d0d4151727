//! MSR Cambridge CSV: `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`.
//!
//! Timestamp is a Windows file time (100 ns since 1601), offset and size are bytes. Disk numbers repeat across hosts,
//! so a device is a host and a disk. The client is the host.

use super::fields::{self, Separated, need};
use super::interned::Names;
use super::lines::LineFormat;
use super::records::Line;
use super::{Op, Passed, Reason, Record};

const FILETIME_NS: u64 = 100;

/// Parser, with the known hosts and disks.
pub(super) struct Msr {
    hosts: Names,
    disks: Names,
    key: Vec<u8>,
}

impl Msr {
    pub(super) fn new() -> Msr {
        Msr { hosts: Names::new(0, 1 << 16), disks: Names::of_devices(), key: Vec::new() }
    }
}

impl LineFormat for Msr {
    const EXPECTED: &'static str = "filetime,host,disk,Read|Write,offset bytes,size bytes,response time";

    fn line(&mut self, line: &[u8]) -> Result<Line, Reason> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(Line::Passed(Passed::Blank));
        }
        if line.starts_with(b"Timestamp,") {
            return Ok(Line::Passed(Passed::Header));
        }
        let mut f = Separated::new(line, b',');
        let time_ns = fields::time_ns(need(&mut f)?, FILETIME_NS)?;
        let (host, disk) = (need(&mut f)?, need(&mut f)?);
        let op = match need(&mut f)? {
            kind if kind.eq_ignore_ascii_case(b"read") => Op::Read,
            kind if kind.eq_ignore_ascii_case(b"write") => Op::Write,
            _ => return Err(Reason::UnknownOp),
        };
        let offset = fields::integer(need(&mut f)?)?;
        let length = fields::integer32(need(&mut f)?)?;
        need(&mut f)?;
        self.key.clear();
        self.key.extend_from_slice(host);
        self.key.push(b',');
        self.key.extend_from_slice(disk);
        let (client, device) = (self.hosts.number(host)?, self.disks.device(&self.key)?);
        Ok(Line::Record(Record { time_ns, offset, length, client, device, op, ..Record::default() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(msr: &mut Msr, line: &str) -> Record {
        match msr.line(line.as_bytes()) {
            Ok(Line::Record(r)) => r,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_disk_belongs_to_its_host() {
        let mut msr = Msr::new();
        let a = record(&mut msr, "128166372000000000,alpha,0,Read,7000000000,32768,413");
        let b = record(&mut msr, "128166372000000010,beta,0,Write,4096,512,99");
        let c = record(&mut msr, "128166372000000020,alpha,1,read,0,512,99");
        assert_eq!(a.time_ns, 12_816_637_200_000_000_000);
        assert_eq!((b.time_ns - a.time_ns, a.offset, a.length, a.op), (1000, 7_000_000_000, 32_768, Op::Read));
        assert_eq!((b.op, b.offset), (Op::Write, 4096));
        assert_eq!([a, b, c].map(|r| (r.client, r.device)), [(0, 0), (1, 1), (0, 2)]);
    }

    #[test]
    fn damages() {
        let mut msr = Msr::new();
        assert_eq!(msr.line(b"1,h,0,Flush,0,0,0"), Err(Reason::UnknownOp));
        assert_eq!(msr.line(b"1,h,0,Read,0,512"), Err(Reason::FieldsMissing));
        assert_eq!(msr.line(b"1,h,0,Read,0,4294967296,1"), Err(Reason::OutOfRange));
        assert_eq!(msr.line(b"Timestamp,Hostname,DiskNumber,Type"), Ok(Line::Passed(Passed::Header)));
    }
}
