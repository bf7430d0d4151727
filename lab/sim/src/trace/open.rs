//! From a path to records: decompress, identify, read, and where needed merge and sort.

use super::bytes::Bytes;
use super::csv::{self, Columns, Csv, Known};
use super::detect::{self, Identity};
use super::lines::Lines;
use super::merged::Merged;
use super::origin::Origin;
use super::records::Records;
use super::sorted::Sorted;
use super::{Error, Format, Options, Reader, TimeUnit};
use super::{blkparse, blktrace, dxt, fio, load, msr, native, oracle, vscsi};
use std::path::Path;

/// Opens a trace.
pub fn open(path: &Path, options: &Options) -> Result<Box<dyn Reader>, Error> {
    open_all(&[path], options)
}

/// Opens several files as one trace, merged by time: those of blktrace, one per CPU, or one file per client. In a
/// format without clients the n-th file is client n. Each file must be in order.
pub fn open_all(paths: &[impl AsRef<Path>], options: &Options) -> Result<Box<dyn Reader>, Error> {
    if let [path] = paths {
        let bytes = Bytes::open(path.as_ref())?;
        return read(bytes, options, true);
    }
    let (mut readers, mut named, mut absolute) = (Vec::new(), true, false);
    for path in paths {
        let mut bytes = Bytes::open(path.as_ref())?;
        let format = detect::identify(&mut bytes, options)?.format;
        named &= format.has_clients();
        absolute |= format.has_absolute_times();
        readers.push(read(bytes, &Options { format: Some(format), ..options.clone() }, false)?);
    }
    let origin = if absolute { Origin::at_first_record() } else { Origin::as_given() };
    Ok(Box::new(Merged::new(readers, !named, origin)))
}

/// Detects the format of a file without reading its records.
pub fn identify(path: &Path, options: &Options) -> Result<Identity, Error> {
    detect::identify(&mut Bytes::open(path)?, options)
}

/// Reads an opened stream. A file that is merged with others keeps its absolute times until then.
pub(super) fn read(mut bytes: Bytes, options: &Options, alone: bool) -> Result<Box<dyn Reader>, Error> {
    let Identity { format, block_bytes, .. } = detect::identify(&mut bytes, options)?;
    let origin = if alone && format.has_absolute_times() { Origin::at_first_record() } else { Origin::as_given() };
    let o = options;
    let known = |bytes, format: &Known, unit| {
        done(Records::new(bytes, Lines::of(Csv::known(format, block_bytes, unit)), o.lenient, origin), o)
    };
    Ok(match format {
        Format::Native => done(Records::new(bytes, native::Native::default(), o.lenient, origin), o),
        Format::OracleGeneral => done(Records::new(bytes, oracle::OracleGeneral { block_bytes }, o.lenient, origin), o),
        Format::Blktrace => done(Records::new(bytes, blktrace::Blktrace::new(o.action), o.lenient, origin), o),
        Format::Msr => done(Records::new(bytes, Lines::of(msr::Msr::new()), o.lenient, origin), o),
        Format::Load => done(Records::new(bytes, Lines::of(load::Load::default()), o.lenient, origin), o),
        Format::Blkparse => {
            done(Records::new(bytes, Lines::of(blkparse::Blkparse::new(o.action)), o.lenient, origin), o)
        }
        Format::Fio => done(Records::new(bytes, Lines::of(fio::Fio::new()), o.lenient, origin), o),
        Format::Vscsi => done(Records::new(bytes, vscsi::Vscsi::default(), o.lenient, origin), o),
        Format::Spc => known(bytes, &Known::SPC, TimeUnit::S),
        Format::Disksim => known(bytes, &Known::DISKSIM, o.time_unit.unwrap_or(TimeUnit::Ns)),
        Format::Arc => known(bytes, &Known::ARC, TimeUnit::S),
        Format::Lirs => known(bytes, &Known::LIRS, TimeUnit::S),
        Format::Tencent => known(bytes, &Known::TENCENT, TimeUnit::S),
        Format::Systor => known(bytes, &Known::SYSTOR, TimeUnit::S),
        Format::Csv => {
            let (heading, recorded) = csv::RECORDED;
            let default = if bytes.head(heading.len())? == heading { recorded } else { "" };
            let columns = Columns::parse(o.columns.as_deref().unwrap_or(default), block_bytes);
            let columns = columns.map_err(|why| Error::Columns { path: bytes.path().to_owned(), why })?;
            done(Records::new(bytes, Lines::of(Csv::new(columns, block_bytes)), o.lenient, origin), o)
        }
        Format::Dxt => {
            // All writes of a file come before its reads, whatever their times.
            let lines = Records::new(bytes, Lines::of(dxt::Dxt::new(o.mpiio)), o.lenient, origin);
            Box::new(Sorted::new(lines, o.sort_records_max))
        }
    })
}

fn done<R: Reader + 'static>(reader: R, options: &Options) -> Box<dyn Reader> {
    if options.sort { Box::new(Sorted::new(reader, options.sort_records_max)) } else { Box::new(reader) }
}

#[cfg(test)]
mod tests;
