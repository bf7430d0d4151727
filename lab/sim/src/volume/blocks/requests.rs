//! A trace as requests of pieces of numbered locations.

use crate::replay::is_request;
use crate::trace::{Op, Record};
use policy::tier::Location;
use policy::time::Time;
use std::collections::BTreeMap;

/// The part of a request within one location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Location, numbered in the order of appearance.
    pub at: u32,
    /// Number of bytes.
    pub bytes: u32,
    /// Offset in the location.
    pub from: u32,
}

/// A request: its pieces are those up to `end`, from the end of the previous request on.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Time of issue, from the first request of the trace.
    pub time: Time,
    /// Whether it is a write.
    pub write: bool,
    end: usize,
}

/// All requests of a trace.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    requests: Vec<Request>,
    pieces: Vec<Piece>,
    locations: Vec<Location>,
    numbers: BTreeMap<Location, u32>,
    first_ns: Option<u64>,
    /// First request of each client, with the pause before it.
    firsts: Vec<(Time, usize)>,
    /// Next request of each request's client, with the pause before it.
    followers: Vec<Option<(Time, usize)>>,
}

impl Requests {
    /// Sets the start time for the following records; the default is the time of the first record.
    pub fn begin(&mut self, start_ns: u64) {
        self.first_ns = Some(start_ns);
    }

    /// Adds a record of trace number `trace`; records that are not requests of a client are ignored.
    pub fn add(&mut self, trace: usize, record: &Record, block_bytes: u64) {
        if !is_request(record) {
            return;
        }
        let first_ns = *self.first_ns.get_or_insert(record.time_ns);
        let file = (trace as u64) << 48 ^ record.space();
        let mut offset = record.offset;
        while offset < record.end() {
            let block = offset / block_bytes;
            let end = ((block + 1) * block_bytes).min(record.end());
            let at = self.number(Location { file, segment: block });
            let from = (offset - block * block_bytes) as u32;
            self.pieces.push(Piece { at, bytes: (end - offset) as u32, from });
            offset = end;
        }
        let time = Time(record.time_ns.saturating_sub(first_ns));
        self.requests.push(Request { time, write: record.op == Op::Write, end: self.pieces.len() });
    }

    /// Divides the requests into clients: for each the numbers of its requests, with times that grow by its pauses.
    pub fn with_clients(mut self, clients: &[Vec<(Time, usize)>]) -> Requests {
        self.followers = vec![None; self.requests.len()];
        self.firsts = clients.iter().filter_map(|client| client.first().copied()).collect();
        for pair in clients.iter().flat_map(|client| client.windows(2)) {
            self.followers[pair[0].1] = Some((pair[1].0.since(pair[0].0), pair[1].1));
        }
        self
    }

    /// First request of each client, with the pause before it.
    pub(super) fn firsts(&self) -> impl Iterator<Item = (Time, usize)> + '_ {
        self.firsts.iter().copied()
    }

    /// Returns the next request of a request's client, with the pause before it.
    pub(super) fn follower(&self, request: usize) -> Option<(Time, usize)> {
        self.followers.get(request).copied().flatten()
    }

    /// Repeats the requests `times` times, one after the other.
    pub fn repeated(self, times: usize) -> Requests {
        let (once, pieces) = (self.requests.len(), self.pieces.len());
        let span = self.requests.last().map_or(Time::ZERO, |last| last.time);
        let mut all = self;
        for round in 1..times {
            for n in 0..once {
                let Request { time, write, end } = all.requests[n];
                let time = Time(time.0 + span.0 * round as u64);
                all.requests.push(Request { time, write, end: end + pieces * round });
            }
            all.pieces.extend_from_within(..pieces);
        }
        all
    }

    fn number(&mut self, location: Location) -> u32 {
        let next = self.locations.len() as u32;
        let number = *self.numbers.entry(location).or_insert(next);
        if number == next {
            self.locations.push(location);
        }
        number
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns request number `n`.
    pub fn get(&self, n: usize) -> &Request {
        &self.requests[n]
    }

    /// Returns the pieces of request number `n`.
    pub fn pieces(&self, n: usize) -> &[Piece] {
        let start = if n == 0 { 0 } else { self.requests[n - 1].end };
        &self.pieces[start..self.requests[n].end]
    }

    /// Returns for each location, by number, whether the first request for it writes.
    pub fn first_writes(&self) -> Vec<bool> {
        let mut first: Vec<Option<bool>> = vec![None; self.locations.len()];
        for n in 0..self.len() {
            for piece in self.pieces(n) {
                first[piece.at as usize].get_or_insert(self.get(n).write);
            }
        }
        first.into_iter().map(|writes| writes == Some(true)).collect()
    }

    /// Locations by number.
    pub fn locations(&self) -> &[Location] {
        &self.locations
    }

    /// Returns the number of a location, if it appears.
    pub fn number_of(&self, location: Location) -> Option<u32> {
        self.numbers.get(&location).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_cut_at_locations_and_locations_keep_their_number() {
        let mut requests = Requests::default();
        let record = |offset, length, time_ns| Record { offset, length, time_ns, ..Record::default() };
        requests.add(0, &record(60, 80, 7), 64);
        requests.add(0, &Record { op: Op::Write, ..record(64, 64, 9) }, 64);
        requests.add(0, &Record { op: Op::Sync, ..record(0, 0, 9) }, 64);
        requests.add(1, &record(0, 1, 10), 64);
        let pieces = |n: usize| requests.pieces(n).iter().map(|p| (p.at, p.bytes)).collect::<Vec<_>>();
        assert_eq!((requests.len(), pieces(0), pieces(1)), (3, vec![(0, 4), (1, 64), (2, 12)], vec![(1, 64)]));
        assert_eq!(pieces(2), [(3, 1)], "another trace, another file");
        assert_eq!(requests.first_writes(), [false; 4], "location 1 is read before it is written");
        let mut written = Requests::default();
        written.add(0, &Record { op: Op::Write, ..record(64, 64, 0) }, 64);
        written.add(0, &record(0, 128, 1), 64);
        assert_eq!(written.first_writes(), [true, false]);
        let twice = requests.clone().repeated(2);
        assert_eq!((twice.len(), twice.pieces(3), twice.pieces(5)), (6, requests.pieces(0), requests.pieces(2)));
        assert_eq!((twice.get(3).time, twice.get(4).time), (Time(3), Time(5)));
        assert_eq!((requests.get(1).time, requests.get(1).write), (Time(2), true));
    }
}
