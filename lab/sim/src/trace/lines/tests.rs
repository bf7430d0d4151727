//! Lines under test: ends of all kinds, unlimited lines, errors that end the trace or are counted.

use super::*;
use crate::trace::origin::Origin;
use crate::trace::records::Records;
use crate::trace::{Accounting, Malformed, Passed, Reader, Record, fields};
use std::path::Path;

/// One number per line.
struct Numbers;

impl LineFormat for Numbers {
    const EXPECTED: &'static str = "a number";
    fn line(&mut self, line: &[u8]) -> Result<Line, Reason> {
        if line.is_empty() {
            return Ok(Line::Passed(Passed::Blank));
        }
        Ok(Line::Record(Record { offset: fields::integer(line)?, ..Record::default() }))
    }
}

fn read(text: &[u8], lenient: bool) -> (Vec<u64>, Option<Malformed>, Accounting) {
    let bytes = Bytes::decompress(Path::new("t"), std::io::Cursor::new(text.to_vec())).unwrap();
    let mut lines = Records::new(bytes, Lines::of(Numbers), lenient, Origin::as_given());
    let (mut seen, mut error) = (Vec::new(), None);
    for next in lines.by_ref() {
        match next {
            Ok(r) => seen.push(r.offset),
            Err(Error::Malformed(m)) => error = Some(*m),
            Err(e) => panic!("{e}"),
        }
    }
    assert!(lines.next().is_none(), "it ended and went on");
    assert!(lines.accounting().closes());
    (seen, error, lines.accounting().clone())
}

#[test]
fn lines_end_with_or_without_return_and_the_last_needs_no_end() {
    let (seen, error, accounts) = read(b"1\n2\r\n\n3", false);
    assert_eq!((seen, error), (vec![1, 2, 3], None));
    assert_eq!((accounts.lines, accounts.records), (4, 3));
    assert_eq!(read(b"", false).2.lines, 0);
}

#[test]
fn a_malformed_line_ends_the_trace_with_its_number_or_is_counted() {
    let (seen, error, accounts) = read(b"1\nx\x07\n3\n", false);
    let error = error.unwrap();
    assert_eq!((seen, error.line, error.reason), (vec![1], 2, Reason::NotANumber));
    assert_eq!(error.to_string(), "t: line 2: not a number: \"x\u{b7}\"; expected a number");
    assert_eq!(accounts.lines, 2);
    let (seen, error, accounts) = read(b"1\nx\n3\n-4\n", true);
    assert_eq!((seen, error, accounts.lines), (vec![1, 3], None, 4));
    let skipped: Vec<_> = accounts.skipped().collect();
    assert_eq!(skipped, [(Reason::NotANumber, 1, 2), (Reason::OutOfRange, 1, 4)]);
}

#[test]
fn a_line_that_never_ends_is_one_malformed_line() {
    let long = |n: usize| [vec![b'7'; n], b"\n5\n".to_vec()].concat();
    for bytes in [LINE_BYTES_MAX + 1, LINE_BYTES_MAX * 3, 3 << 20] {
        let (seen, _, accounts) = read(&long(bytes), true);
        assert_eq!((seen, accounts.lines), (vec![5], 2), "{bytes}");
        assert_eq!(accounts.skipped().next(), Some((Reason::LineTooLong, 1, 1)));
    }
    let zeros = [vec![b'0'; LINE_BYTES_MAX], b"\n5".to_vec()].concat();
    assert_eq!(read(&zeros, false).0, [0, 5]);
}
