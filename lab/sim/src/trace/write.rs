//! Writing traces: our own format, and those that other tools replay (SPC, DiskSim, blkreplay, fio).

use super::{Op, Record, native};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// A format that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Our own format.
    Native {
        /// Block size of the source; 0 if it counted in bytes.
        block_bytes: u32,
        /// Whether the source has times.
        has_times: bool,
    },
    /// Format SPC ASCII.
    Spc,
    /// DiskSim ASCII; times in the unit's nanoseconds.
    Disksim(super::TimeUnit),
    /// Format of blkreplay's `.load`.
    Load,
    /// fio's I/O log, version 3.
    Fio,
}

/// Reason why a trace cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The operating system failed.
    #[error("{}: {source}; the trace is not written to its end. Make room or name another place", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The format has devices only, and the trace has files.
    #[error(
        "record {record} belongs to a file, and the format has devices only; the trace was not written. Convert with \
         `--flat`, or to `native` or `fio`"
    )]
    HasFiles {
        /// Number of the record, from 1.
        record: u64,
    },
}

/// Counts of written and changed records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Written {
    /// Records passed to the writer.
    pub records: u64,
    /// Records that the format cannot represent (trims, syncs, requests of length 0).
    pub dropped: u64,
    /// Records that were widened to whole sectors of 512 bytes.
    pub widened: u64,
}

/// Writes a trace, compressed if the name ends with `.zst` or `.gz`.
pub struct Writer {
    path: PathBuf,
    to: Sink,
    target: Target,
    checksum: crc32fast::Hasher,
    written: Written,
    opened: std::collections::BTreeSet<(u16, u32)>,
}

enum Sink {
    Plain(BufWriter<File>),
    Gz(flate2::write::GzEncoder<BufWriter<File>>),
    Zst(zstd::stream::write::Encoder<'static, BufWriter<File>>),
}

impl Sink {
    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Sink::Plain(w) => w,
            Sink::Gz(w) => w,
            Sink::Zst(w) => w,
        }
    }

    fn finish(self) -> std::io::Result<()> {
        match self {
            Sink::Plain(mut w) => w.flush(),
            Sink::Gz(w) => w.finish()?.flush(),
            Sink::Zst(w) => w.finish()?.flush(),
        }
    }
}

impl Writer {
    /// Creates the file and writes everything before the first record.
    pub fn create(path: &Path, target: Target) -> Result<Writer, WriteError> {
        let io = |source| WriteError::Io { path: path.to_owned(), source };
        let file = BufWriter::with_capacity(256 << 10, File::create(path).map_err(io)?);
        let to = match path.extension().and_then(|e| e.to_str()) {
            Some("gz") => Sink::Gz(flate2::write::GzEncoder::new(file, flate2::Compression::default())),
            Some("zst") => Sink::Zst(zstd::stream::write::Encoder::new(file, 3).map_err(io)?),
            _ => Sink::Plain(file),
        };
        let (checksum, opened) = (crc32fast::Hasher::new(), std::collections::BTreeSet::new());
        let mut writer = Writer { path: path.to_owned(), to, target, checksum, written: Written::default(), opened };
        let head: &[u8] = match target {
            Target::Native { block_bytes, has_times } => &native::header(block_bytes, has_times),
            Target::Load => b"start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n",
            Target::Fio => b"fio version 3 iolog\n",
            Target::Spc | Target::Disksim(_) => b"",
        };
        writer.put(head)?;
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.to.writer().write_all(bytes).map_err(|source| WriteError::Io { path: self.path.clone(), source })
    }

    /// Writes a record.
    pub fn write(&mut self, record: &Record) -> Result<(), WriteError> {
        self.written.records += 1;
        match self.target {
            Target::Native { .. } => {
                let bytes = native::encode(record);
                self.checksum.update(&bytes);
                self.put(&bytes)
            }
            Target::Fio => self.fio(record),
            Target::Spc | Target::Disksim(_) | Target::Load => self.sectors(record),
        }
    }

    fn fio(&mut self, r: &Record) -> Result<(), WriteError> {
        let (us, name) = (r.time_ns / 1000, format!("/trace/{}/{}", r.device, r.file));
        let mut line = String::new();
        if self.opened.insert((r.device, r.file)) {
            line = format!("{us} {name} add\n{us} {name} open\n");
        }
        let (offset, length) = (r.offset, r.length);
        line += &match r.op {
            Op::Read => format!("{us} {name} read {offset} {length}\n"),
            Op::Write => format!("{us} {name} write {offset} {length}\n"),
            Op::Trim => format!("{us} {name} trim {offset} {length}\n"),
            Op::Sync => format!("{us} {name} sync 0 0\n"),
        };
        self.put(line.as_bytes())
    }

    fn sectors(&mut self, r: &Record) -> Result<(), WriteError> {
        if r.file != 0 {
            return Err(WriteError::HasFiles { record: self.written.records });
        }
        if !matches!(r.op, Op::Read | Op::Write) || r.length == 0 {
            self.written.dropped += 1;
            return Ok(());
        }
        let (first, end) = (r.offset / 512, r.end().div_ceil(512));
        let sectors = end - first;
        let exact_bytes = matches!(self.target, Target::Spc) && r.offset.is_multiple_of(512);
        let bytes = if exact_bytes { u64::from(r.length) } else { sectors * 512 };
        self.written.widened += u64::from(bytes != u64::from(r.length));
        let read = r.op == Op::Read;
        let (seconds, ns) = (r.time_ns / 1_000_000_000, r.time_ns % 1_000_000_000);
        let line = match self.target {
            Target::Spc => {
                format!("{},{first},{bytes},{},{seconds}.{ns:09}\n", r.device, if read { 'r' } else { 'w' })
            }
            Target::Load => {
                let op = if read { 'R' } else { 'W' };
                format!("{seconds}.{ns:09} ; {first} ; {sectors} ; {op} ; 0.0 ; 0.0\n")
            }
            Target::Disksim(unit) => {
                let digits = unit.ns().ilog10() as usize;
                let (whole, part) = (r.time_ns / unit.ns(), r.time_ns % unit.ns());
                let time = if digits == 0 { whole.to_string() } else { format!("{whole}.{part:0digits$}") };
                format!("{time} {} {first} {sectors} {}\n", r.device, u8::from(read))
            }
            Target::Native { .. } | Target::Fio => unreachable!("written elsewhere"),
        };
        self.put(line.as_bytes())
    }

    /// Writes everything after the last record and completes the file.
    pub fn finish(mut self) -> Result<Written, WriteError> {
        if let Target::Native { .. } = self.target {
            let end = native::end(self.written.records, self.checksum.clone().finalize());
            self.put(&end)?;
        }
        let path = self.path;
        self.to.finish().map_err(|source| WriteError::Io { path, source })?;
        Ok(self.written)
    }
}

#[cfg(test)]
mod tests;
