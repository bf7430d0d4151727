//! Lines of named columns: the user's own, and formats whose lines a table of columns describes.
//!
//! By default, fields are separated by the first of comma, semicolon and tab that a line has, else by blanks. A first
//! line that has no number where one belongs is then a heading.

use super::fields::{self, Fields, Separated};
use super::interned::Names;
use super::lines::LineFormat;
use super::records::Line;
use super::{Op, Passed, Reason, Record, TimeUnit};

/// First line of a recording of `entrepot trace record`, and its columns.
pub(super) const RECORDED: (&[u8], &str) =
    (b"time_ns,client,file,op,offset,length,duration_ns\n", "time:ns,client,file,op,offset,length,-");

/// Meaning of one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Time(TimeUnit),
    /// Bytes of one unit.
    Offset(u32),
    Length(u32),
    Op,
    /// Hexadecimal flags, of which bit 0 means a read.
    Flags,
    Client,
    Device,
    /// A device by its number.
    Unit,
    File,
    Ignored,
}

/// A format whose lines columns describe.
pub(super) struct Known {
    columns: &'static str,
    split: Split,
    expected: &'static str,
}

/// Separation of fields.
#[derive(Clone, Copy)]
enum Split {
    /// As the line shows, and the first line may be a heading.
    Any,
    By(u8),
    Blanks,
}

impl Known {
    /// SPC ASCII 1.0.1, as in the UMass repository. The unit (ASU) is the device.
    pub(super) const SPC: Known = Known {
        columns: "unit,offset:sectors,length,op,time",
        split: Split::By(b','),
        expected: "ASU,LBA,bytes,r|w,seconds",
    };
    /// DiskSim ASCII, in the unit of time that the user gives. DiskSim writes milliseconds with decimals, MQSim and
    /// SSDsim integer nanoseconds.
    pub(super) const DISKSIM: Known = Known {
        columns: "time,unit,offset:sectors,length:sectors,flags",
        split: Split::Blanks,
        expected: "arrival device sector sectors flags (bit 0: read)",
    };
    /// `.lis` of the ARC paper, all reads, without times. A line is one request. The size of a block is not given (512
    /// bytes for the P traces, a page for OLTP).
    pub(super) const ARC: Known = Known {
        columns: "offset:blocks,length:blocks,-,-",
        split: Split::Blanks,
        expected: "start_block n_blocks ignored request_number",
    };
    /// References of the LIRS distribution: one block number per line; `*` marks places where its authors print state.
    pub(super) const LIRS: Known =
        Known { columns: "offset:blocks", split: Split::By(b'\n'), expected: "a block number, or *" };
    /// Tencent's block traces.
    pub(super) const TENCENT: Known =
        Known { columns: "time:s,offset:sectors,length:sectors,op,device", split: Split::Any, expected: Csv::EXPECTED };
    /// The traces of SYSTOR '17.
    pub(super) const SYSTOR: Known =
        Known { columns: "time:s,-,op,device,offset,length", split: Split::Any, expected: Csv::EXPECTED };
}

/// Columns of a text trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns(Vec<Column>);

impl Columns {
    /// Parses `NAME[:UNIT],...`. Names: `time` (s, ms, us, ns; default s), `offset` and `length` (bytes, sectors,
    /// blocks; default bytes), `op`, `client`, `device`, `file`, `-` for a column without a meaning.
    ///
    /// # Errors
    /// The wrong word, and valid ones.
    pub fn parse(words: &str, block_bytes: u32) -> Result<Columns, String> {
        let columns = words.split(',').map(|word| column(word.trim(), block_bytes)).collect::<Result<Vec<_>, _>>()?;
        let has_offset = columns.iter().any(|column| matches!(column, Column::Offset(_)));
        if has_offset { Ok(Columns(columns)) } else { Err("no column is the offset".into()) }
    }

    fn has_times(&self) -> bool {
        self.0.iter().any(|column| matches!(column, Column::Time(_)))
    }
}

fn column(word: &str, block_bytes: u32) -> Result<Column, String> {
    let (name, unit) = word.split_once(':').unwrap_or((word, ""));
    let time = |unit: &str| if unit.is_empty() { Some(TimeUnit::S) } else { TimeUnit::named(unit) };
    let bytes = |unit| match unit {
        "" | "bytes" => Some(1),
        "sectors" => Some(512),
        "blocks" => Some(block_bytes),
        _ => None,
    };
    let plain = |column| unit.is_empty().then_some(column);
    let found = match name {
        "time" => time(unit).map(Column::Time),
        "offset" => bytes(unit).map(Column::Offset),
        "length" => bytes(unit).map(Column::Length),
        "op" => plain(Column::Op),
        "flags" => plain(Column::Flags),
        "unit" => plain(Column::Unit),
        "client" => plain(Column::Client),
        "device" => plain(Column::Device),
        "file" => plain(Column::File),
        "-" => plain(Column::Ignored),
        _ => None,
    };
    found.ok_or_else(|| {
        format!(
            "`{word}` is no column; columns are time[:s|ms|us|ns], offset and length[:bytes|sectors|blocks], op, client, device, file, -"
        )
    })
}

/// Parser of lines with these columns.
pub(super) struct Csv {
    columns: Columns,
    block_bytes: u32,
    clients: Names,
    devices: Names,
    files: Names,
    in_data: bool,
    split: Split,
    expected: &'static str,
}

impl Csv {
    pub(super) fn new(columns: Columns, block_bytes: u32) -> Csv {
        let (clients, devices, files) = (Names::new(0, 1 << 24), Names::of_devices(), Names::of_files());
        let (split, expected) = (Split::Any, Csv::EXPECTED);
        Csv { columns, block_bytes, clients, devices, files, in_data: false, split, expected }
    }

    /// Parser of a known format, whose times are in this unit if it has no unit of its own.
    pub(super) fn known(format: &Known, block_bytes: u32, unit: TimeUnit) -> Csv {
        let mut columns = Columns::parse(format.columns, block_bytes).expect("columns of ours are right");
        columns.0.iter_mut().filter(|of| **of == Column::Time(TimeUnit::S)).for_each(|of| *of = Column::Time(unit));
        Csv { split: format.split, expected: format.expected, ..Csv::new(columns, block_bytes) }
    }

    /// Returns the request of a line. Without a length it is one block, without an operation a read.
    fn record<'a>(&mut self, mut fields: impl Iterator<Item = &'a [u8]>) -> Result<Line, Reason> {
        let mut record = Record { length: self.block_bytes, ..Record::default() };
        let mut is_request = true;
        for column in &self.columns.0 {
            let field = fields::need(&mut fields)?;
            match column {
                Column::Time(unit) => record.time_ns = fields::time_ns(field, unit.ns())?,
                Column::Offset(unit) => record.offset = fields::blocks_offset(fields::integer(field)?, *unit)?,
                Column::Length(unit) => record.length = fields::blocks_length(fields::integer(field)?, *unit)?,
                Column::Op => match field {
                    b"" => is_request = false,
                    field => record.op = operation(field)?,
                },
                Column::Flags => record.op = if flags(field)? & 1 == 1 { Op::Read } else { Op::Write },
                Column::Unit => {
                    record.device = u16::try_from(fields::integer(field)?).map_err(|_| Reason::OutOfRange)?;
                }
                Column::Client => record.client = self.clients.number(field)?,
                Column::Device => record.device = self.devices.device(field)?,
                Column::File => record.file = self.files.number(field)?,
                Column::Ignored => {}
            }
        }
        Ok(if is_request { Line::Record(record) } else { Line::Passed(Passed::NotATransfer) })
    }
}

fn operation(field: &[u8]) -> Result<Op, Reason> {
    match field.to_ascii_lowercase().as_slice() {
        b"r" | b"read" | b"0" => Ok(Op::Read),
        b"w" | b"write" | b"1" => Ok(Op::Write),
        _ => Err(Reason::UnknownOp),
    }
}

/// Parses flags, which DiskSim takes as hexadecimal.
fn flags(field: &[u8]) -> Result<u64, Reason> {
    let text = std::str::from_utf8(field).ok().filter(|text| !text.starts_with('+'));
    text.and_then(|text| u64::from_str_radix(text, 16).ok()).ok_or(Reason::NotANumber)
}

impl LineFormat for Csv {
    const EXPECTED: &'static str = "the columns that --columns or the format names";

    fn line(&mut self, line: &[u8]) -> Result<Line, Reason> {
        let line = line.trim_ascii();
        match line.first() {
            None => return Ok(Line::Passed(Passed::Blank)),
            Some(b'#') => return Ok(Line::Passed(Passed::Comment)),
            Some(b'*') if line.len() == 1 => return Ok(Line::Passed(Passed::Mark)),
            Some(_) => {}
        }
        let by = match self.split {
            Split::By(by) => return self.record(Separated::new(line, by)),
            Split::Blanks => return self.record(Fields(line)),
            Split::Any => [b',', b';', b'\t'].into_iter().find(|by| line.contains(by)),
        };
        let read = match by {
            Some(by) => self.record(Separated::new(line, by)),
            None => self.record(Fields(line)),
        };
        let is_first = !std::mem::replace(&mut self.in_data, true);
        match read {
            Err(Reason::NotANumber) if is_first => Ok(Line::Passed(Passed::Header)),
            read => read,
        }
    }

    fn expected(&self) -> &'static str {
        self.expected
    }

    fn has_times(&self) -> bool {
        self.columns.has_times()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(words: &str) -> Csv {
        Csv::new(Columns::parse(words, 4096).unwrap(), 4096)
    }

    #[test]
    fn columns_have_names_and_units() {
        let mut csv = csv("time:ms, -, offset:sectors, length, op, client");
        assert_eq!(csv.line(b"time,x,lba,size,op,who"), Ok(Line::Passed(Passed::Header)));
        let expected = Record { time_ns: 1_500_000, offset: 8 * 512, length: 4096, op: Op::Write, ..Record::default() };
        assert_eq!(csv.line(b"1.5, y, 8, 4096, Write, alpha"), Ok(Line::Record(expected)));
        assert_eq!(
            csv.line(b"2\ty\t8\t4096\tr\tbeta").map(|line| matches!(line, Line::Record(r) if r.client == 1)),
            Ok(true)
        );
        assert_eq!(csv.line(b"time,x,lba,size,op,who"), Err(Reason::NotANumber), "a heading comes first");
        assert_eq!(csv.line(b"1,y,8"), Err(Reason::FieldsMissing));
        assert_eq!(csv.line(b"1,y,8,4096,trim,a"), Err(Reason::UnknownOp));
    }

    #[test]
    fn a_column_of_blocks_is_enough() {
        let mut csv = csv("offset:blocks");
        assert!(!csv.has_times());
        assert_eq!(csv.line(b"3"), Ok(Line::Record(Record { offset: 3 * 4096, length: 4096, ..Record::default() })));
    }

    #[test]
    fn public_formats() {
        let mut tencent = Csv::known(&Known::TENCENT, 4096, TimeUnit::S);
        let expected = Record {
            time_ns: 1_538_323_199_000_000_000,
            offset: 1024 * 512,
            length: 4096,
            op: Op::Write,
            ..Record::default()
        };
        assert_eq!(tencent.line(b"1538323199,1024,8,1,1063"), Ok(Line::Record(expected)));
        let mut systor = Csv::known(&Known::SYSTOR, 4096, TimeUnit::S);
        let expected = Record { time_ns: 1_455_592_920_250_000_000, offset: 8192, length: 512, ..Record::default() };
        assert_eq!(systor.line(b"Timestamp,Response,IOType,LUN,Offset,Size"), Ok(Line::Passed(Passed::Header)));
        assert_eq!(systor.line(b"1455592920.25,0.001,R,4,8192,512"), Ok(Line::Record(expected)));
        assert_eq!(systor.line(b"1455592920.3,,,4,0,0"), Ok(Line::Passed(Passed::NotATransfer)));
    }

    #[test]
    fn wrong_words_are_named_with_the_right_ones() {
        assert!(
            Columns::parse("time,address", 512).unwrap_err().starts_with("`address` is no column; columns are time")
        );
        assert!(Columns::parse("time:h,offset", 512).unwrap_err().starts_with("`time:h`"));
        assert_eq!(Columns::parse("time", 512).unwrap_err(), "no column is the offset");
    }

    fn damaged(csv: &mut Csv, damages: &[(&[u8], Reason)]) {
        for (line, reason) in damages {
            assert_eq!(csv.line(line), Err(*reason), "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn spc_lines_and_their_damages() {
        let mut spc = Csv::known(&Known::SPC, 4096, TimeUnit::S);
        let expected = Record {
            time_ns: 1_500_000,
            offset: 1000 * 512,
            length: 3584,
            device: 2,
            op: Op::Write,
            ..Record::default()
        };
        assert_eq!(spc.line(b"2,1000,3584,w,0.0015"), Ok(Line::Record(expected)));
        assert_eq!(spc.line(b" 2, 1000 ,3584, W ,0.001500,more,fields"), Ok(Line::Record(expected)));
        assert_eq!(spc.line(b"   "), Ok(Line::Passed(Passed::Blank)));
        damaged(
            &mut Csv::known(&Known::SPC, 4096, TimeUnit::S),
            &[
                (b"2,,3584,r,0.1", Reason::NotANumber),
                (b"2,1000,3584,w", Reason::FieldsMissing),
                (b"2,1000,3584,x,0.1", Reason::UnknownOp),
                (b"70000,1,512,r,0.1", Reason::OutOfRange),
                (b"0,36028797018963968,512,r,0.1", Reason::BeyondEnd),
                (b"0,1,512,r,later", Reason::NotANumber),
            ],
        );
    }

    #[test]
    fn the_unit_of_disksim_is_given_from_outside() {
        let of = |unit| Csv::known(&Known::DISKSIM, 4096, unit);
        let expected = Record { time_ns: 2_500_000, offset: 80 * 512, length: 4096, device: 1, ..Record::default() };
        assert_eq!(of(TimeUnit::Ms).line(b"2.5 1 80 8 1"), Ok(Line::Record(expected)));
        assert_eq!(of(TimeUnit::Ns).line(b"2500000\t1 80 8 1\t"), Ok(Line::Record(expected)));
        let write = Record { op: Op::Write, ..expected };
        assert_eq!(of(TimeUnit::Ms).line(b"2.500000 1 80 8 0"), Ok(Line::Record(write)));
        assert_eq!(of(TimeUnit::Ms).line(b"2.500000 1 80 8 4"), Ok(Line::Record(write)));
        damaged(
            &mut of(TimeUnit::S),
            &[
                (b"1 0 80 8", Reason::FieldsMissing),
                (b"1 0 80 8 read", Reason::NotANumber),
                (b"1 -1 80 8 1", Reason::OutOfRange),
                (b"20000000000 0 80 8 1", Reason::OutOfRange),
            ],
        );
    }

    #[test]
    fn references_without_times_are_blocks() {
        let mut arc = Csv::known(&Known::ARC, 512, TimeUnit::S);
        assert!(!arc.has_times());
        let expected = Record { offset: 100 * 512, length: 64 * 512, ..Record::default() };
        assert_eq!(arc.line(b"100 64 0 1"), Ok(Line::Record(expected)));
        damaged(
            &mut arc,
            &[
                (b"100 64 0", Reason::FieldsMissing),
                (b"100 8388608 0 1", Reason::OutOfRange),
                (b"36028797018963968 2 0 1", Reason::BeyondEnd),
            ],
        );
        let mut lirs = Csv::known(&Known::LIRS, 4096, TimeUnit::S);
        let expected = Record { offset: 7 * 4096, length: 4096, ..Record::default() };
        assert_eq!(lirs.line(b"7 "), Ok(Line::Record(expected)));
        assert_eq!(lirs.line(b"*"), Ok(Line::Passed(Passed::Mark)));
        damaged(&mut lirs, &[(b"7 8", Reason::NotANumber), (b"9999999999999999", Reason::BeyondEnd)]);
    }
}
