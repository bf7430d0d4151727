//! Accounts of a reader: every line is a record, passed over, or malformed, and the sums must add up.

use serde::{Serialize, Serializer, ser::SerializeMap};

named! {
    /// Reason why a correct line holds no request.
    Passed {
        /// An empty line.
        Blank = "blank",
        /// A line of comment.
        Comment = "comment",
        /// A header or preamble.
        Header = "header",
        /// The summary that some tools append.
        Summary = "summary",
        /// An event of another stage of the same request (blktrace: only the chosen action counts).
        OtherAction = "other action",
        /// The same transfer as seen by another module (DXT: `X_MPIIO` beside `X_POSIX`).
        OtherModule = "other module",
        /// Opening, closing, or adding a file.
        FileAction = "file action",
        /// A pause between requests.
        Wait = "wait",
        /// A mark that is not a reference.
        Mark = "mark",
        /// An event that moves no data (a message, a barrier, a plug).
        NotATransfer = "not a transfer",
    }
}

named! {
    /// Error in a malformed line.
    Reason {
        /// Too few fields.
        FieldsMissing = "fields missing",
        /// A field that must be a number is not.
        NotANumber = "not a number",
        /// A number that does not fit: negative, or beyond 64 bits (32 for lengths, 16 for devices).
        OutOfRange = "out of range",
        /// Offset and length exceed the address space.
        BeyondEnd = "beyond the end of the address space",
        /// An unknown operation.
        UnknownOp = "unknown operation",
        /// Longer than any line of a trace.
        LineTooLong = "line too long",
        /// A binary record that is cut off, or does not begin with its magic number.
        Torn = "torn record",
        /// More files, devices or hosts than can be numbered.
        TooManyNames = "too many names",
        /// The file's own checksum or count differs.
        Checksum = "checksum differs",
        /// Data without the header that must precede them.
        NoHeader = "no header before it",
    }
}

/// Accounts of a reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounting {
    /// Lines of a text format, records of a binary one.
    pub lines: u64,
    /// Lines that became records.
    pub records: u64,
    passed: [u64; Passed::ALL.len()],
    skipped: [u64; Reason::ALL.len()],
    /// First line of each kind of damage.
    first_skipped: [u64; Reason::ALL.len()],
}

impl Accounting {
    /// Counts a line that was passed over.
    pub fn pass(&mut self, passed: Passed) {
        self.passed[passed as usize] += 1;
    }

    /// Counts a malformed line that was skipped.
    pub fn skip(&mut self, reason: Reason, line: u64) {
        if self.skipped[reason as usize] == 0 {
            self.first_skipped[reason as usize] = line;
        }
        self.skipped[reason as usize] += 1;
    }

    /// Lines passed over, by reason.
    pub fn passed(&self) -> impl Iterator<Item = (Passed, u64)> {
        Passed::ALL.iter().map(|p| (*p, self.passed[*p as usize])).filter(|(_, n)| *n > 0)
    }

    /// Returns the malformed lines that were skipped: reason, number, and first line.
    pub fn skipped(&self) -> impl Iterator<Item = (Reason, u64, u64)> {
        let all = Reason::ALL.iter();
        all.map(|r| (*r, self.skipped[*r as usize], self.first_skipped[*r as usize])).filter(|(_, n, _)| *n > 0)
    }

    /// Number of malformed lines that were skipped.
    pub fn skipped_sum(&self) -> u64 {
        self.skipped.iter().sum()
    }

    /// Returns whether every line is accounted for.
    pub fn closes(&self) -> bool {
        self.lines == self.records + self.passed.iter().sum::<u64>() + self.skipped_sum()
    }

    /// Returns whether the accounts close with this number of counted records. A cut trace has at least one more: the
    /// record that ended it, and all others if it is sorted.
    pub fn agrees(&self, counted: u64, is_cut: bool) -> bool {
        self.closes() && if is_cut { self.records > counted } else { self.records == counted }
    }

    /// Adds the accounts of another file.
    pub fn add(&mut self, other: &Accounting) {
        self.lines += other.lines;
        self.records += other.records;
        self.passed.iter_mut().zip(other.passed).for_each(|(mine, theirs)| *mine += theirs);
        for (reason, count, first) in other.skipped() {
            self.skip(reason, first);
            self.skipped[reason as usize] += count - 1;
        }
    }
}

impl Serialize for Accounting {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let passed: std::collections::BTreeMap<_, _> = self.passed().map(|(p, n)| (p.text(), n)).collect();
        let skipped: std::collections::BTreeMap<_, _> = self.skipped().map(|(r, n, _)| (r.text(), n)).collect();
        let mut map = to.serialize_map(Some(5))?;
        map.serialize_entry("lines", &self.lines)?;
        map.serialize_entry("records", &self.records)?;
        map.serialize_entry("passed_over", &passed)?;
        map.serialize_entry("skipped", &skipped)?;
        map.serialize_entry("closes", &self.closes())?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_close_only_when_each_line_went_somewhere() {
        let mut a = Accounting { lines: 4, records: 1, ..Accounting::default() };
        a.pass(Passed::Comment);
        a.skip(Reason::NotANumber, 3);
        assert!(!a.closes());
        a.skip(Reason::NotANumber, 4);
        assert!(a.closes());
        assert_eq!(a.skipped().collect::<Vec<_>>(), [(Reason::NotANumber, 2, 3)]);
        let mut sum = a.clone();
        sum.add(&a);
        assert!(sum.closes());
        assert_eq!((sum.lines, sum.skipped_sum()), (8, 4));
    }
}
