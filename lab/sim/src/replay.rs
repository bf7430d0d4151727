//! From a trace's records to a client's requests: bytes to blocks, address spaces to files, and sequential streams.
//!
//! A trace is read twice: once for its [`Survey`] (census, files and their lengths), once for the replay. The survey
//! takes memory linear in files and footprint, not in the length of the trace.

mod survey;

pub use survey::{Survey, SurveyError};

use crate::trace::{Error, Flags, Op, Reader, Record};
use crate::world::Access;
use policy::cache::Span;
use policy::time::Time;
use serde::{Deserialize, Serialize};

/// Definition of a sequential stream for prefetchers that keep a position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Streams {
    /// One stream per file or device.
    #[default]
    File,
    /// One stream per client of the trace.
    Client,
    /// A single stream of all requests.
    All,
    /// Streams separated by address, for traces without files: [`policy::streams`].
    Address,
}

/// Limits of a trace, and its division into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Bytes of a block; a multiple of 512.
    pub block_bytes: u32,
    /// Limit of the sum of the requests' bytes.
    pub bytes_max: Option<u64>,
    /// Limit of the number of requests.
    pub requests_max: Option<u64>,
    /// Definition of a stream.
    pub streams: Streams,
}

impl Default for Cut {
    fn default() -> Cut {
        Cut { block_bytes: 4096, bytes_max: None, requests_max: None, streams: Streams::File }
    }
}

/// Requests of one client, read from a trace as needed.
pub struct Replay<'s> {
    reader: Box<dyn Reader>,
    survey: &'s Survey,
    /// Index of the trace in the survey.
    trace: usize,
    cut: Cut,
    /// Client whose records are replayed; `None` for all.
    client: Option<u32>,
    start_ns: u64,
    meter: Meter,
    /// Streams of this client, if they are separated by address.
    streams: policy::streams::Streams,
    /// File or device of the last request, with its number and length.
    last: Option<(u64, u32, u64)>,
    failed: Option<Error>,
}

/// Maximum of streams of one client that are separated by address.
const STREAMS: usize = 256;

/// Counter of requests up to the limits.
#[derive(Clone, Copy, Debug, Default)]
struct Meter {
    requests: u64,
    bytes: u64,
}

impl Meter {
    /// Returns whether `record` is within the limits, and counts it then.
    fn takes(&mut self, cut: &Cut, record: &Record) -> bool {
        let bytes = self.bytes + u64::from(record.length);
        if cut.requests_max.is_some_and(|max| self.requests >= max) || cut.bytes_max.is_some_and(|max| bytes > max) {
            return false;
        }
        self.requests += 1;
        self.bytes = bytes;
        true
    }
}

/// Returns whether a record is a request that a cache sees: a read or write that is not a prefetch of the traced
/// system.
pub fn is_request(record: &Record) -> bool {
    matches!(record.op, Op::Read | Op::Write) && record.length > 0 && !record.flags.has(Flags::SPECULATIVE)
}

/// Returns first block and number of blocks that `record` touches.
pub(crate) fn blocks(record: &Record, block_bytes: u32) -> (u64, u64) {
    // Divisions took an eighth of the time of decoding; most blocks are a power of two.
    let block = |byte: u64| match block_bytes.is_power_of_two() {
        true => byte >> block_bytes.trailing_zeros(),
        false => byte / u64::from(block_bytes),
    };
    let (first, last) = (block(record.offset), block(record.end() - 1));
    (first, last - first + 1)
}

impl<'s> Replay<'s> {
    /// Creates the replay of `client` (or all) in trace number `trace` of `survey`; `reader` is at the start of the
    /// trace.
    pub fn new(reader: Box<dyn Reader>, survey: &'s Survey, trace: usize, cut: Cut, client: Option<u32>) -> Replay<'s> {
        let start_ns = survey.start_ns(trace);
        let streams = policy::streams::Streams::new(STREAMS);
        Replay {
            reader,
            survey,
            trace,
            cut,
            client,
            start_ns,
            meter: Meter::default(),
            streams,
            last: None,
            failed: None,
        }
    }

    /// Error that ended it early: the trace changed or became unreadable since its survey.
    pub fn failed(&self) -> Option<&Error> {
        self.failed.as_ref()
    }
}

impl Iterator for Replay<'_> {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        loop {
            let record = match self.reader.next()? {
                Ok(record) => record,
                Err(error) => {
                    self.failed = Some(error);
                    return None;
                }
            };
            if !is_request(&record) {
                continue;
            }
            if !self.meter.takes(&self.cut, &record) {
                return None;
            }
            if self.client.is_some_and(|client| client != record.client) {
                continue;
            }
            let space = record.space();
            let (file, file_blocks) = match self.last {
                Some((last, file, blocks)) if last == space => (file, blocks),
                _ => self.survey.file(self.trace, &record)?,
            };
            self.last = Some((space, file, file_blocks));
            let (first, count) = blocks(&record, self.cut.block_bytes);
            let span = Span::new(file, first, count as u32);
            let stream = match self.cut.streams {
                Streams::File => file,
                Streams::Client => record.client,
                Streams::All => 0,
                // Each client has a table; the high bits separate their streams.
                Streams::Address => self.streams.enter(span).name ^ self.client.unwrap_or(self.trace as u32) << 24,
            };
            return Some(Access {
                at: Time(record.time_ns - self.start_ns),
                span,
                stream,
                file_blocks,
                write: record.op == Op::Write,
            });
        }
    }
}
