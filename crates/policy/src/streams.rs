//! Distinguishes sequential streams by address, for requests without a file: block traces, a server behind a network.
//!
//! A bounded table holds the blocks at which a request may continue a stream. A request that starts there, or a little
//! before or after, belongs to that stream; any other begins a new one. In a full table, the oldest stream without a
//! second request is replaced first. A continued stream is replaced only after eight idle rounds of the table, or if
//! all others were continued, too. So random requests between the turns of 64 streams do not displace the streams.

use crate::block::Span;

/// Largest overlap with the request before, in blocks: the level above has requested some of them already.
const BACK: u64 = 32;

/// Largest gap after the request before, in blocks: the level above had them.
const FORWARD: u64 = 16;

/// Rounds of the table after which an idle continued stream may be replaced.
const IDLE_ROUNDS: u64 = 8;

/// Bounded table of streams.
#[derive(Clone, Debug)]
pub struct Streams {
    /// Block after the last of each stream.
    next: Vec<u64>,
    streams: Vec<Stream>,
    max: usize,
    requests: u64,
    named: u32,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    name: u32,
    /// Number of blocks read in sequence.
    run: u64,
    /// Whether a second request came.
    confirmed: bool,
    /// Time of its last request, counted in requests.
    seen: u64,
}

/// Stream that a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Index in the table, below the table's size.
    pub at: usize,
    /// Number of the stream; numbers repeat after 2^32 streams.
    pub name: u32,
    /// Blocks read in sequence before this request; 0 for a new stream.
    pub run: u64,
    /// Whether the stream is new: state kept for its index is another stream's.
    pub fresh: bool,
}

impl Streams {
    /// Creates a table of up to `max` streams, at least 1. A request takes time linear in it, some 10 ns for 64.
    pub fn new(max: usize) -> Streams {
        let max = max.max(1);
        Streams { next: Vec::with_capacity(max), streams: Vec::with_capacity(max), max, requests: 0, named: 0 }
    }

    /// Returns the stream of a request of at least one block.
    pub fn enter(&mut self, span: Span) -> Seen {
        self.requests += 1;
        let (first, end) = (span.first.0, span.end().0);
        let near = |&next: &u64| (first + BACK).wrapping_sub(next) <= BACK + FORWARD;
        if let Some(at) = self.next.iter().position(near) {
            let stream = &mut self.streams[at];
            let seen = Seen { at, name: stream.name, run: stream.run, fresh: false };
            stream.seen = self.requests;
            if end > self.next[at] {
                stream.run += end - self.next[at].max(first);
                stream.confirmed = true;
                self.next[at] = end;
            }
            return seen;
        }
        let at = self.place();
        let name = self.named;
        self.named = self.named.wrapping_add(1);
        self.next[at] = end;
        self.streams[at] = Stream { name, run: u64::from(span.len), confirmed: false, seen: self.requests };
        Seen { at, name, run: 0, fresh: true }
    }

    fn is_idle(&self, stream: &Stream) -> bool {
        self.requests - stream.seen > IDLE_ROUNDS * self.max as u64
    }

    /// Returns an index for a new stream: a free one, or that of the replaced stream.
    fn place(&mut self) -> usize {
        if self.next.len() < self.max {
            self.next.push(0);
            self.streams.push(Stream { name: 0, run: 0, confirmed: false, seen: 0 });
            return self.next.len() - 1;
        }
        let stays = |stream: &Stream| (stream.confirmed && !self.is_idle(stream), stream.seen);
        let oldest = self.streams.iter().enumerate().min_by_key(|(_, stream)| stays(stream));
        oldest.map_or(0, |(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixty_four_streams_in_turns_are_told_apart_among_random_requests() {
        let mut streams = Streams::new(128);
        let mut names = [0; 64];
        for turn in 0..100u64 {
            for stream in 0..64u64 {
                let seen = streams.enter(Span::new(0, stream * 100_000 + turn, 1));
                let name = &mut names[stream as usize];
                if turn == 0 {
                    *name = seen.name;
                } else {
                    assert_eq!((seen.name, seen.run, seen.fresh), (*name, turn, false));
                }
                let random = 10_000_000 + (turn * 64 + stream) * 1000;
                assert!(streams.enter(Span::new(0, random, 2)).fresh);
            }
        }
    }

    #[test]
    fn a_request_may_overlap_or_skip_a_little_and_a_repetition_is_no_progress() {
        let mut streams = Streams::new(4);
        let first = streams.enter(Span::new(3, 100, 5));
        assert_eq!((first.run, first.fresh), (0, true));
        assert_eq!(streams.enter(Span::new(3, 102, 6)).run, 5, "three blocks overlap");
        assert_eq!(streams.enter(Span::new(3, 112, 1)).run, 8, "four are left out");
        assert_eq!(streams.enter(Span::new(3, 112, 1)).run, 9);
        assert_eq!(streams.enter(Span::new(3, 113, 1)).run, 9, "the repetition did not count");
        assert!(streams.enter(Span::new(3, 200, 1)).fresh);
        assert!(streams.enter(Span::new(4, 113, 1)).fresh, "another file");
    }

    #[test]
    fn a_stream_that_ended_makes_room_in_the_end() {
        let mut streams = Streams::new(2);
        streams.enter(Span::new(0, 0, 1));
        streams.enter(Span::new(0, 1, 1));
        for at in 1..40 {
            streams.enter(Span::new(1, at * 1000, 1));
        }
        assert!(streams.enter(Span::new(0, 2, 1)).fresh);
    }
}
