//! Detection of a file's format from its first bytes and the shape of its first lines. An ambiguous file is an error.

use super::bytes::Bytes;
use super::fields::{Fields, Separated};
use super::{Error, Format, Options, blkparse, blktrace, csv, native, vscsi};

/// Size of the head that is examined.
const HEAD_BYTES: usize = 64 << 10;

/// Magic number of Darshan's binary logs, behind eight bytes that name the version.
const DARSHAN_LOG: [u8; 8] = 6_567_223u64.to_le_bytes();

/// Maximum of lines that are examined.
const LINES_MAX: usize = 200;

/// Result of a detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Format of the file.
    pub format: Format,
    /// Size of the file's blocks: from the file, from the options, or assumed.
    pub block_bytes: u32,
    /// Whether the requests have times, as far as the head shows.
    pub has_times: bool,
}

/// Detects the format of an opened file; options override the content.
pub(super) fn identify(bytes: &mut Bytes, options: &Options) -> Result<Identity, Error> {
    let path = bytes.path().to_owned();
    let head = bytes.head(HEAD_BYTES)?;
    let has_times = !head.starts_with(native::MAGIC) || native::has_times(head);
    let said = head.starts_with(native::MAGIC).then(|| native::block_bytes(head)).flatten();
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let format = match options.format {
        Some(format) => format,
        None if options.columns.is_some() => Format::Csv,
        None => by_content(head, &name).map_err(|why| Error::Unrecognised { path: path.clone(), why })?,
    };
    if format == Format::Disksim && options.time_unit.is_none() {
        return Err(Error::NoTimeUnit { path, format });
    }
    let block_bytes = options.block_bytes.or(said).unwrap_or(Options::BLOCK_BYTES).max(1);
    Ok(Identity { format, block_bytes, has_times: has_times && format.has_times() })
}

fn by_content(head: &[u8], name: &str) -> Result<Format, &'static str> {
    if head.starts_with(native::MAGIC) {
        return Ok(Format::Native);
    }
    if blktrace::is_magic(head) {
        return Ok(Format::Blktrace);
    }
    // libCacheSim's format has no magic number; its tools use the name, too.
    if name.contains("oracleGeneral") {
        return Ok(Format::OracleGeneral);
    }
    if vscsi::is_shape(head) {
        return Ok(Format::Vscsi);
    }
    if head.is_empty() {
        return Err("it is empty");
    }
    if head.get(8..16) == Some(&DARSHAN_LOG) {
        return Err(
            "it is a Darshan log as it was written; `darshan-dxt-parser LOG > FILE` prints its transfers as text, which can be read",
        );
    }
    if head.iter().any(|b| *b < 9) {
        return Err("binary, without a known magic number");
    }
    if head.starts_with(csv::RECORDED.0) {
        return Ok(Format::Csv);
    }
    if head.starts_with(b"fio version ") {
        return Ok(Format::Fio);
    }
    let lines = || head.split(|b| *b == b'\n').map(|l| l.trim_ascii());
    if lines().any(|l| l.starts_with(b"# DXT, ") || l.starts_with(b"# darshan log version")) {
        return Ok(Format::Dxt);
    }
    if lines().any(|l| l.starts_with(b"start") && l.contains(&b';')) {
        return Ok(Format::Load);
    }
    let whole = if head.len() == HEAD_BYTES { head.iter().rposition(|b| *b == b'\n').unwrap_or(0) } else { head.len() };
    by_shapes(head[..whole].split(|b| *b == b'\n').map(|l| l.trim_ascii()).filter(|l| !l.is_empty()))
}

/// Returns the one shape that more than half of the lines have, if no line has another.
fn by_shapes<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Result<Format, &'static str> {
    let (mut found, mut votes, mut asked) = (None, 0, 0);
    let lines = lines.take_while(|l| !blkparse::starts_summary(l));
    let (mut numbered, mut before) = (0, None);
    for line in lines.filter(|l| l[0] != b'#').take(LINES_MAX) {
        asked += 1;
        if let Some(number) = fourth_of_four(line) {
            numbered += u64::from(before.is_some_and(|before| number > before));
            before = Some(number);
        }
        match shape(line) {
            None => {}
            Some(format) if found.is_none_or(|f| f == format) => {
                found = Some(format);
                votes += 1;
            }
            Some(_) => return Err("its lines have the shapes of different formats"),
        }
    }
    match found {
        Some(format) if votes * 2 > asked => Ok(format),
        // Four numbers, of which the last counts the requests.
        None | Some(Format::Arc) if numbered > 0 && (numbered + 1) * 2 > asked => Ok(Format::Arc),
        _ => Err("its lines have the shape of no known format"),
    }
}

/// Returns the last number of a line that consists of four whole numbers.
fn fourth_of_four(line: &[u8]) -> Option<u64> {
    let whole = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<u64>().ok();
    let numbers: Option<Vec<u64>> = Fields(line).take(5).map(whole).collect();
    numbers.filter(|numbers| numbers.len() == 4).map(|numbers| numbers[3])
}

/// Returns the format that a line of this shape belongs to, if it is unique.
fn shape(line: &[u8]) -> Option<Format> {
    let number = |w: &[u8]| !w.is_empty() && w.iter().all(|b| b.is_ascii_digit() || *b == b'.');
    let words: Vec<&[u8]> = Fields(line).take(10).collect();
    if words.len() >= 6 {
        let mut device = Separated::new(words[0], b',');
        if device.next().is_some_and(number) && device.next().is_some_and(number) && device.next().is_none() {
            return Some(Format::Blkparse);
        }
    }
    if line.iter().filter(|b| **b == b';').count() >= 3 {
        return Some(Format::Load);
    }
    let fields: Vec<&[u8]> = Separated::new(line, b',').take(10).collect();
    match fields.get(3) {
        Some([b'r' | b'R' | b'w' | b'W']) if fields.len() >= 5 => return Some(Format::Spc),
        Some(op) if fields.len() >= 7 && (op.eq_ignore_ascii_case(b"read") || op.eq_ignore_ascii_case(b"write")) => {
            return Some(Format::Msr);
        }
        _ => {}
    }
    if !words.iter().all(|w| number(w)) {
        return (line == b"*").then_some(Format::Lirs);
    }
    match words.len() {
        1 => Some(Format::Lirs),
        4 if words[2] == b"0" => Some(Format::Arc),
        5 => Some(Format::Disksim),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn told(text: &[u8], name: &str, options: &Options) -> Result<Identity, Error> {
        identify(&mut Bytes::decompress(Path::new(name), std::io::Cursor::new(text.to_vec())).unwrap(), options)
    }

    #[test]
    fn formats_with_a_shape_of_their_own_are_told() {
        let samples: [(&[u8], Format); 11] = [
            (b"0,303,3584,w,0.0\n1,5,512,R,0.5\n", Format::Spc),
            (b"128166372003061629,hm,1,Read,383496192,32768,413\n", Format::Msr),
            (b"Some prose, first\n###\nstart ; sector; length ; op\n", Format::Load),
            (b"0.5 ; 8 ; 16 ; R ; 0.0 ; 0.0\n", Format::Load),
            (b"  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]\n", Format::Blkparse),
            (b"fio version 3 iolog\n", Format::Fio),
            (b"# darshan log version: 3.41\n", Format::Dxt),
            (b"230027 8 0 0\n1842745 64 0 1\n", Format::Arc),
            (b"0\n1\n*\n2\n", Format::Lirs),
            (b"230027 8 1 1\n1842745 64 7 2\n9 1 0 3\n", Format::Arc),
            (&[7, 0x74, 0x61, 0x65, 0, 0, 0, 0], Format::Blktrace),
        ];
        for (text, format) in samples {
            assert_eq!(told(text, "t", &Options::default()).unwrap().format, format);
        }
        assert_eq!(told(&[0; 48], "w.oracleGeneral.zst", &Options::default()).unwrap().format, Format::OracleGeneral);
        assert_eq!(told(&native::header(512, true), "t", &Options::default()).unwrap().block_bytes, 512);
    }

    #[test]
    fn disksim_needs_its_unit() {
        let line = b"0 0 303567 7 0\n";
        let error = told(line, "a.trace", &Options::default()).unwrap_err();
        assert!(matches!(error, Error::NoTimeUnit { .. }), "{error}");
        assert!(error.to_string().contains("--time-unit"), "{error}");
        let options = Options { time_unit: Some(super::super::TimeUnit::Ns), ..Options::default() };
        assert_eq!(told(line, "a.trace", &options).unwrap().format, Format::Disksim);
    }

    #[test]
    fn what_is_not_told_is_asked_for() {
        let samples: [&[u8]; 7] = [
            b"",
            b"hello\nworld\n",
            &[0; 48],
            b"1 2 3 4\n",
            b"1 2 3 4\n5 6 7 4\n",
            b"1\n0,1,512,r,0.0\n",
            b"1.0 2 3 4 5 6\n",
        ];
        for text in samples {
            let error = told(text, "t", &Options::default()).unwrap_err().to_string();
            assert!(error.contains("--format") && error.contains("oracle-general"), "{error}");
        }
        let log = told(b"3.41\0\0\0\x0075d\0\0\0\0\0", "app.darshan", &Options::default()).unwrap_err().to_string();
        assert!(log.contains("darshan-dxt-parser"), "{log}");
        let options = Options { format: Some(Format::Lirs), ..Options::default() };
        assert_eq!(told(b"hello", "t", &options).unwrap().format, Format::Lirs);
    }
}
