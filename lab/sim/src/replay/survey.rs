//! Survey of the traces of a world: census and accounts, files and their lengths, clients.

use super::{Cut, Meter, blocks, is_request};
use crate::trace::{Accounting, Census, Error, Reader, Record, Report};
use policy::cache::{FILE_MAX, INDEX_MAX};
use std::collections::{BTreeSet, HashMap};
use std::fmt;

/// Maximum of clients of a trace that are replayed separately.
const CLIENTS_MAX: usize = 4096;

/// Data about all traces of a world, collected before the replay.
#[derive(Debug, Default)]
pub struct Survey {
    files: HashMap<(usize, u64), u32>,
    file_blocks: Vec<u64>,
    /// Whether the length is that of a file; a device extends beyond the traced addresses.
    bounded: Vec<bool>,
    traces: Vec<Surveyed>,
    footprint_blocks: u64,
}

/// Survey of one trace.
#[derive(Debug)]
pub struct Surveyed {
    /// Accounts of the reader: lines read, passed over, and malformed.
    pub accounting: Accounting,
    /// Report of the census.
    pub report: Report,
    /// Requests that are replayed.
    pub replayed: u64,
    /// Records that are not requests of a client: flushes, discards, empty ones, prefetches of the traced system.
    pub aside: u64,
    /// Whether the trace was cut before its end.
    pub cut: bool,
    /// Clients of the trace, ascending.
    pub clients: Vec<u32>,
    /// Whether the trace has times, and not one for all requests.
    pub has_times: bool,
}

/// Reason why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum SurveyError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] Error),
    /// Lines and records do not add up.
    #[error(
        "the accounts of the trace do not close: {lines} lines, {records} records, {census} counted; nothing was simulated. This \
         is a bug of the reader: report it with the trace's first lines"
    )]
    Accounts {
        /// Number of lines.
        lines: u64,
        /// Records returned by the reader.
        records: u64,
        /// Records counted by the census.
        census: u64,
    },
    /// The trace has too many files.
    #[error(
        "the trace names more than {max} files and devices; nothing was simulated. Cut it with a limit of requests"
    )]
    Files {
        /// Maximum of files.
        max: u32,
    },
    /// An offset is beyond the largest block number.
    #[error("a request at byte {offset} lies beyond block {INDEX_MAX}; nothing was simulated. Check the trace's unit")]
    Beyond {
        /// Offset of the request in bytes.
        offset: u64,
    },
    /// The trace has too many blocks.
    #[error("the trace has more than {} distinct blocks; nothing was simulated. Choose a larger --block", u32::MAX)]
    Blocks,
    /// The trace has too many clients.
    #[error("the trace has more than {CLIENTS_MAX} clients; nothing was simulated. Replay them as one client")]
    Clients,
    /// The trace has no requests.
    #[error(
        "the trace has no reads or writes; nothing was simulated. Check its format with `entrepot-lab trace stats`"
    )]
    Empty,
}

impl SurveyError {
    /// Accounts that do not close with the records counted by a census.
    pub(crate) fn accounts(&Accounting { lines, records, .. }: &Accounting, census: u64) -> SurveyError {
        SurveyError::Accounts { lines, records, census }
    }
}

impl Survey {
    /// Surveys one more trace from start to end, or to its limits.
    pub fn add(&mut self, mut reader: Box<dyn Reader>, cut: &Cut) -> Result<(), SurveyError> {
        let trace = self.traces.len();
        let mut census = Census::new(cut.block_bytes);
        let mut meter = Meter::default();
        let (mut aside, mut counted, mut is_cut) = (0, 0, false);
        let mut clients = BTreeSet::new();
        for record in reader.by_ref() {
            let record = record?;
            if is_request(&record) && !meter.takes(cut, &record) {
                is_cut = true;
                break;
            }
            census.add(&record);
            counted += 1;
            if !is_request(&record) {
                aside += 1;
                continue;
            }
            self.note(trace, &record, cut.block_bytes)?;
            if clients.len() <= CLIENTS_MAX {
                clients.insert(record.client);
            }
        }
        let accounting = reader.accounting().clone();
        if !accounting.agrees(counted, is_cut) {
            return Err(SurveyError::accounts(&accounting, counted));
        }
        if meter.requests == 0 {
            return Err(SurveyError::Empty);
        }
        let report = census.report();
        // Requests that all come at one time are an order without times.
        let has_times = reader.has_times() && (report.requests < 2 || report.first_ns < report.last_ns);
        self.footprint_blocks += report.footprint_blocks;
        let clients = clients.into_iter().collect();
        let replayed = meter.requests;
        self.traces.push(Surveyed { accounting, report, replayed, aside, cut: is_cut, clients, has_times });
        Ok(())
    }

    fn note(&mut self, trace: usize, record: &Record, block_bytes: u32) -> Result<(), SurveyError> {
        let (first, count) = blocks(record, block_bytes);
        let end = first + count;
        if end > INDEX_MAX {
            return Err(SurveyError::Beyond { offset: record.offset });
        }
        let next = self.file_blocks.len() as u32;
        let file = *self.files.entry((trace, record.space())).or_insert(next);
        if file > FILE_MAX {
            return Err(SurveyError::Files { max: FILE_MAX });
        }
        if file == next {
            self.file_blocks.push(0);
            self.bounded.push(record.file != 0);
        }
        let blocks = &mut self.file_blocks[file as usize];
        *blocks = (*blocks).max(end);
        Ok(())
    }

    /// Traces in the order in which they were added.
    pub fn traces(&self) -> &[Surveyed] {
        &self.traces
    }

    /// Returns the clients of trace number `trace`; an error if they are too many.
    pub fn clients(&self, trace: usize) -> Result<&[u32], SurveyError> {
        let clients = &self.traces[trace].clients;
        if clients.len() > CLIENTS_MAX { Err(SurveyError::Clients) } else { Ok(clients) }
    }

    /// Number of different blocks touched, summed over the traces.
    pub fn footprint_blocks(&self) -> u64 {
        self.footprint_blocks
    }

    /// Known blocks of each file, in the order of their numbers.
    pub fn file_blocks(&self) -> &[u64] {
        &self.file_blocks
    }

    /// Returns number and length of the file of `record`; the length of a device is `u64::MAX`.
    pub fn file(&self, trace: usize, record: &Record) -> Option<(u32, u64)> {
        let file = *self.files.get(&(trace, record.space()))?;
        let blocks = if self.bounded[file as usize] { self.file_blocks[file as usize] } else { u64::MAX };
        Some((file, blocks))
    }

    /// Returns the earliest time in trace number `trace`.
    pub fn start_ns(&self, trace: usize) -> u64 {
        self.traces[trace].report.first_ns
    }
}

impl fmt::Display for Surveyed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { reads, writes, span_s, footprint_blocks, footprint_bytes, block_bytes, .. } = self.report;
        let cut = if self.cut { ", cut there" } else { "" };
        writeln!(f, "records    {} of {} lines{cut}", self.report.records, self.accounting.lines)?;
        write!(f, "skipped    {} malformed lines", self.accounting.skipped_sum())?;
        for (reason, count, first) in self.accounting.skipped() {
            write!(f, "; {} {count} times, first in line {first}", reason.text())?;
        }
        for (passed, count) in self.accounting.passed() {
            write!(f, "; {count} lines passed over: {}", passed.text())?;
        }
        writeln!(f)?;
        writeln!(
            f,
            "replayed   {} requests: {reads} reads, {writes} writes; {} records aside",
            self.replayed, self.aside
        )?;
        let span = if self.has_times { format!("{span_s:.3} s") } else { "no times".into() };
        writeln!(
            f,
            "span       {span}, {} clients, {} files, {} devices",
            self.clients.len(),
            self.report.files,
            self.report.devices
        )?;
        if self.report.out_of_order > 0 {
            let many = self.report.out_of_order;
            writeln!(f, "order      {many} records are earlier than the one before them, and come with it")?;
        }
        let mib = footprint_bytes as f64 / (1 << 20) as f64;
        write!(f, "footprint  {mib:.1} MiB: {footprint_blocks} blocks of {block_bytes} bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reader that returns `records` requests and claims `accounting`.
    struct Says {
        records: u64,
        accounting: Accounting,
    }

    impl Iterator for Says {
        type Item = Result<Record, Error>;
        fn next(&mut self) -> Option<Self::Item> {
            self.records = self.records.checked_sub(1)?;
            Some(Ok(Record { offset: self.records * 4096, length: 4096, ..Record::default() }))
        }
    }

    impl Reader for Says {
        fn accounting(&self) -> &Accounting {
            &self.accounting
        }
    }

    fn survey(given: u64, lines: u64, records: u64, cut: &Cut) -> Result<u64, SurveyError> {
        let mut accounting = Accounting::default();
        (accounting.lines, accounting.records) = (lines, records);
        let mut survey = Survey::default();
        survey.add(Box::new(Says { records: given, accounting }), cut)?;
        Ok(survey.traces()[0].replayed)
    }

    #[test]
    fn a_trace_whose_accounts_do_not_close_is_refused() {
        let whole = Cut { block_bytes: 4096, ..Cut::default() };
        let two = Cut { requests_max: Some(2), ..whole };
        assert_eq!(survey(3, 3, 3, &whole).unwrap(), 3);
        for (given, lines, records) in [(3, 4, 3), (3, 4, 4), (3, 2, 2), (3, 3, 2)] {
            let error = survey(given, lines, records, &whole).unwrap_err();
            assert!(matches!(error, SurveyError::Accounts { census: 3, .. }), "{error}");
            assert!(error.to_string().contains("nothing was simulated"), "{error}");
        }
        assert_eq!(survey(4, 3, 3, &two).unwrap(), 2, "the third was read to see that it is one too many");
        assert_eq!(survey(4, 4, 4, &two).unwrap(), 2, "a sorted trace is read to its end");
        assert!(matches!(survey(4, 2, 2, &two), Err(SurveyError::Accounts { census: 2, .. })));
        assert!(matches!(survey(4, 4, 3, &two), Err(SurveyError::Accounts { census: 2, .. })));
    }
}
