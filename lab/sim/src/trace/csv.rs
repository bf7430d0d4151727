//! Lines of named columns: the user's own, Tencent's block traces, and those of SYSTOR '17.
//!
//! Fields are separated by the first of comma, semicolon and tab that a line has, else by blanks. A first line that
//! has no number where one belongs is a heading.

use super::fields::{self, Fields, Separated};
use super::interned::Names;
use super::lines::{Line, LineFormat};
use super::{Op, Passed, Reason, Record, TimeUnit};

/// Meaning of one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Time(TimeUnit),
    /// Bytes of one unit.
    Offset(u32),
    Length(u32),
    Op,
    Client,
    Device,
    File,
    Ignored,
}

/// Columns of a text trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns(Vec<Column>);

impl Columns {
    /// Columns of Tencent's block traces.
    pub const TENCENT: &'static str = "time:s,offset:sectors,length:sectors,op,device";
    /// Columns of the traces of SYSTOR '17.
    pub const SYSTOR: &'static str = "time:s,-,op,device,offset,length";

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
}

impl Csv {
    pub(super) fn new(columns: Columns, block_bytes: u32) -> Csv {
        let (clients, devices, files) = (Names::new(0, 1 << 24), Names::of_devices(), Names::of_files());
        Csv { columns, block_bytes, clients, devices, files, in_data: false }
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

impl LineFormat for Csv {
    const EXPECTED: &'static str = "the columns that --columns or the format names";

    fn line(&mut self, line: &[u8]) -> Result<Line, Reason> {
        let line = line.trim_ascii();
        match line.first() {
            None => return Ok(Line::Passed(Passed::Blank)),
            Some(b'#') => return Ok(Line::Passed(Passed::Comment)),
            Some(_) => {}
        }
        let read = match [b',', b';', b'\t'].into_iter().find(|by| line.contains(by)) {
            Some(by) => self.record(Separated::new(line, by)),
            None => self.record(Fields(line)),
        };
        let is_first = !std::mem::replace(&mut self.in_data, true);
        match read {
            Err(Reason::NotANumber) if is_first => Ok(Line::Passed(Passed::Header)),
            read => read,
        }
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
        let mut tencent = csv(Columns::TENCENT);
        let expected = Record {
            time_ns: 1_538_323_199_000_000_000,
            offset: 1024 * 512,
            length: 4096,
            op: Op::Write,
            ..Record::default()
        };
        assert_eq!(tencent.line(b"1538323199,1024,8,1,1063"), Ok(Line::Record(expected)));
        let mut systor = csv(Columns::SYSTOR);
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
}
