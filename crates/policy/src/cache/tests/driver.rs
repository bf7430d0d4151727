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
