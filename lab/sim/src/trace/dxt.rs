//! Darshan's extended traces, as printed by `darshan-dxt-parser`: per file and rank all writes, then all reads.
//!
//! Rows: `module rank write
//! read segment offset length start end [OST ...] [thread]`. Times are seconds since the start of the job with four
//! decimals. The columns after the times differ between versions and are not used. POSIX transfers result from
//! MPI-IO's, so only one of the two modules counts.

use super::fields::{self, Fields, need};
use super::interned::Names;
use super::lines::LineFormat;
use super::records::Line;
use super::{Op, Passed, Reason, Record};

const SECOND_NS: u64 = 1_000_000_000;

/// Parser, with the file of the current rows.
pub(super) struct Dxt {
    module: &'static [u8],
    files: Names,
    mounts: Names,
    file: u32,
    device: u16,
}

impl Dxt {
    pub(super) fn new(mpiio: bool) -> Dxt {
        let module: &[u8] = if mpiio { b"X_MPIIO" } else { b"X_POSIX" };
        Dxt { module, files: Names::of_files(), mounts: Names::of_devices(), file: 0, device: 0 }
    }

    fn header(&mut self, line: &[u8]) -> Result<Line, Reason> {
        let line = line.trim_ascii();
        if let Some(rest) = line.strip_prefix(b"# DXT, file_id: ") {
            let id = Separator(rest).until(b',');
            fields::integer(id)?;
            self.file = self.files.number(id)?;
            return Ok(Line::Passed(Passed::Header));
        }
        if let Some(rest) = line.strip_prefix(b"# DXT, mnt_pt: ") {
            self.device = self.mounts.device(Separator(rest).until(b','))?;
            return Ok(Line::Passed(Passed::Header));
        }
        let ours = line.starts_with(b"# DXT") || line.starts_with(b"# Module");
        Ok(Line::Passed(if ours { Passed::Header } else { Passed::Comment }))
    }
}

/// Text up to a separator.
struct Separator<'a>(&'a [u8]);

impl<'a> Separator<'a> {
    fn until(self, by: u8) -> &'a [u8] {
        let end = self.0.iter().position(|b| *b == by).unwrap_or(self.0.len());
        self.0[..end].trim_ascii()
    }
}

impl LineFormat for Dxt {
    const EXPECTED: &'static str = "X_POSIX|X_MPIIO rank write|read segment offset length start_s end_s";

    fn line(&mut self, line: &[u8]) -> Result<Line, Reason> {
        let mut f = Fields(line);
        let Some(module) = f.next() else { return Ok(Line::Passed(Passed::Blank)) };
        if module.starts_with(b"#") {
            return self.header(line);
        }
        if self.file == 0 {
            return Err(Reason::NoHeader);
        }
        let rank = fields::integer32(need(&mut f)?)?;
        let op = match need(&mut f)? {
            b"read" => Op::Read,
            b"write" => Op::Write,
            _ => return Err(Reason::UnknownOp),
        };
        fields::integer(need(&mut f)?)?;
        let (offset, length) = (fields::integer(need(&mut f)?)?, fields::integer32(need(&mut f)?)?);
        let time_ns = fields::time_ns(need(&mut f)?, SECOND_NS)?;
        fields::time_ns(need(&mut f)?, SECOND_NS)?;
        if module != self.module {
            let known = module == b"X_POSIX" || module == b"X_MPIIO";
            return if known { Ok(Line::Passed(Passed::OtherModule)) } else { Err(Reason::UnknownOp) };
        }
        let (file, device) = (self.file, self.device);
        Ok(Line::Record(Record { time_ns, offset, length, client: rank, file, device, op, ..Record::default() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
# darshan log version: 3.41
# exe: ./app out.dat

# DXT, file_id: 8515199880342690440, file_name: /scratch/out.dat
# DXT, rank: 3, hostname: n1
# DXT, write_count: 2, read_count: 1
# DXT, mnt_pt: /scratch, fs_type: lustre
# DXT, Lustre stripe_size: 1048576, Lustre stripe_count: 4
# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)  [OST]
 X_MPIIO       3  write        0               0         1048576      4.8300      4.8436
 X_POSIX       3  write        0               0         1048576      4.8324      4.8436  [ 12] [ 7]
 X_POSIX       3   read        0            4096            4096      0.5000      0.5001  [ 12]
";

    fn records(mpiio: bool) -> Vec<Record> {
        let mut dxt = Dxt::new(mpiio);
        let lines = LOG.lines().map(|l| dxt.line(l.as_bytes()).expect("a good line"));
        lines.filter_map(|l| if let Line::Record(r) = l { Some(r) } else { None }).collect()
    }

    #[test]
    fn posix_by_default_and_mpiio_on_request() {
        let seen = records(false);
        assert_eq!(seen.len(), 2);
        let first =
            Record { time_ns: 4_832_400_000, length: 1 << 20, client: 3, file: 1, op: Op::Write, ..Record::default() };
        assert_eq!(seen[0], first);
        assert_eq!((seen[1].op, seen[1].time_ns), (Op::Read, 500_000_000));
        assert_eq!(records(true).iter().map(|r| r.time_ns).collect::<Vec<_>>(), [4_830_000_000]);
    }

    #[test]
    fn damages() {
        let row = b" X_POSIX 0 write 0 0 4096 0.1 0.2";
        assert_eq!(Dxt::new(false).line(row), Err(Reason::NoHeader));
        let mut dxt = Dxt::new(false);
        dxt.line(b"# DXT, file_id: 5, file_name: f").unwrap();
        assert!(dxt.line(row).is_ok());
        assert_eq!(dxt.line(b"X_POSIX 0 write 0 0 4096 0.1"), Err(Reason::FieldsMissing));
        assert_eq!(dxt.line(b"X_STDIO 0 write 0 0 4096 0.1 0.2"), Err(Reason::UnknownOp));
        assert_eq!(dxt.line(b"# DXT, file_id: none, file_name: f"), Err(Reason::NotANumber));
    }
}
