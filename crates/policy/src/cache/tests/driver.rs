//! A driver of one level for tests: it checks the invariants after every event and sorts the actions.

use crate::cache::*;
use crate::machine::Machine;
use crate::prefetch::Algorithm;
use crate::time::Time;

pub(crate) struct Driver<A: Algorithm> {
    pub(crate) level: Level<A>,
    pub(crate) now: Time,
    pub(crate) stream: u32,
    pub(crate) demand_len: u32,
    pub(crate) file_blocks: u64,
    pub(crate) delivered: Vec<(RequestId, Outcome)>,
    pub(crate) failed: Vec<RequestId>,
    pub(crate) hurried: Vec<FetchId>,
    next_id: u64,
}

impl<A: Algorithm> Driver<A> {
    pub(crate) fn new(config: LevelConfig<A>) -> Driver<A> {
        Driver {
            level: Level::new(config).unwrap(),
            now: Time::ZERO,
            stream: 0,
            demand_len: u32::MAX,
            file_blocks: u64::MAX,
            delivered: Vec::new(),
            failed: Vec::new(),
            hurried: Vec::new(),
            next_id: 1000,
        }
    }

    /// Handles an event. Returns the fetches that it causes.
    pub(crate) fn event(&mut self, event: Event) -> Vec<Fetch> {
        self.level.handle(self.now, event);
        self.level.check().unwrap();
        let mut fetches = Vec::new();
        while let Some(action) = self.level.poll() {
            match action {
                Action::Fetch(fetch) => fetches.push(fetch),
                Action::Deliver { request, outcome } => self.delivered.push((request, outcome)),
                Action::Fail(request) => self.failed.push(request),
                Action::Hurry(fetch) => self.hurried.push(fetch),
                Action::Hit { .. } | Action::Wait { .. } | Action::Store { .. } | Action::Evict { .. } => {}
            }
        }
        fetches
    }

    pub(crate) fn start(&mut self, id: u64, span: Span) -> Vec<Fetch> {
        let request = Request {
            demand_len: self.demand_len.min(span.len),
            stream: self.stream,
            file_blocks: self.file_blocks,
            ..Request::read(id, span)
        };
        self.event(Event::Request(request))
    }

    pub(crate) fn done(&mut self, fetch: FetchId) {
        assert_eq!(self.event(Event::FetchDone(fetch)), []);
    }

    /// Reads blocks of file 0 one by one. Returns the windows as submitted, requested and prefetched blocks together:
    /// (block read, first block, number of blocks).
    pub(crate) fn windows(&mut self, reads: std::ops::Range<u64>) -> Vec<(u64, u64, u32)> {
        let spans = |at: u64, fetch: &Fetch| (at, fetch.span.first.index(), fetch.span.len);
        reads.flat_map(|at| self.read(at, 1).iter().map(|fetch| spans(at, fetch)).collect::<Vec<_>>()).collect()
    }

    /// Reads file 0; its fetches, returned, are done at once.
    pub(crate) fn read(&mut self, index: u64, len: u32) -> Vec<Fetch> {
        self.next_id += 1;
        let fetches = self.start(self.next_id, Span::new(0, index, len));
        for fetch in &fetches {
            self.done(fetch.id);
        }
        assert_eq!(self.delivered.last().map(|delivered| delivered.0), Some(RequestId(self.next_id)));
        fetches
    }
}

/// Hit ratio of 64 interleaved streams of 400 blocks each; `stream_of` is the number that a level gets for a stream.
pub(crate) fn hit_ratio_of_64_streams<A: Algorithm>(prefetch: A, stream_of: fn(u32) -> u32) -> f64 {
    let mut level = Level::new(LevelConfig::new(64 * 128, prefetch)).unwrap();
    for at in 0..400u64 {
        for stream in 0..64u32 {
            let span = Span::new(0, u64::from(stream) * 1_000_000 + 17 + at, 1);
            level.replay(Time::ZERO, &Request { stream: stream_of(stream), ..Request::read(0, span) });
        }
    }
    level.check().unwrap();
    level.stats().hit_ratio()
}
