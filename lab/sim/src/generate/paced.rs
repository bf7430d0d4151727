//! Streams that each read at their own rate, merged by time.

use super::arrivals::{Arrivals, Clock};
use super::rng::Rng;
use crate::trace::Record;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Parameters of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stream {
    /// Requests per second.
    pub rate_per_s: f64,
    /// Process of its arrivals.
    pub arrivals: Arrivals,
    /// Bytes of a request.
    pub request_bytes: u32,
    /// Bytes of a file; at its end the stream continues with a new one.
    pub file_bytes: u64,
    /// Time of its start.
    pub start_ns: u64,
    /// Whether it reads random places of one file instead of one file after the other.
    pub random: bool,
}

/// The streams as one trace. The n-th stream is client n; its files are n + 1, n + 1 + streams, ...
#[derive(Debug)]
pub struct Paced {
    streams: Vec<Running>,
    /// Time of the next request of each stream, with the stream's number.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    end_ns: u64,
}

#[derive(Debug)]
struct Running {
    stream: Stream,
    clock: Clock,
    rng: Rng,
    offset: u64,
    file: u32,
}

impl Paced {
    /// Starts the streams; they end at `end_ns`.
    pub fn new(streams: &[Stream], end_ns: u64, seed: u64) -> Paced {
        let start = |(n, stream): (usize, &Stream)| {
            let rng = Rng::new(seed, 2 * n as u64 + 1);
            let clock_rng = Rng::new(seed, 2 * n as u64 + 2);
            let clock = Clock::new(stream.arrivals, stream.rate_per_s, stream.start_ns, clock_rng);
            Running { stream: *stream, clock, rng, offset: 0, file: n as u32 + 1 }
        };
        let mut streams: Vec<Running> = streams.iter().enumerate().map(start).collect();
        let next = streams.iter_mut().enumerate().map(|(n, s)| Reverse((s.clock.next(), n))).collect();
        Paced { streams, next, end_ns }
    }
}

impl Running {
    fn request(&mut self, streams: u32) -> (u64, u32, u32) {
        let bytes = self.stream.request_bytes;
        let requests = (self.stream.file_bytes / u64::from(bytes.max(1))).max(1);
        if self.stream.random {
            return (self.rng.below(requests) * u64::from(bytes), bytes, self.file);
        }
        let here = (self.offset * u64::from(bytes), bytes, self.file);
        self.offset += 1;
        if self.offset == requests {
            self.offset = 0;
            self.file = self.file.wrapping_add(streams).max(1);
        }
        here
    }
}

impl Iterator for Paced {
    type Item = Record;
    fn next(&mut self) -> Option<Record> {
        let Reverse((time_ns, n)) = self.next.pop()?;
        if time_ns >= self.end_ns {
            // The removed request was the earliest, so all others are beyond the end, too.
            self.next.clear();
            return None;
        }
        let streams = self.streams.len() as u32;
        let running = &mut self.streams[n];
        let (offset, length, file) = running.request(streams);
        self.next.push(Reverse((running.clock.next(), n)));
        Some(Record { time_ns, offset, length, client: n as u32, file, ..Record::default() })
    }
}
