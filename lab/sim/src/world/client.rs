//! A client: takes requests from its trace, issues them in open or closed loop, and records their response times.

use super::{Access, Arrival, Event, Work, World, Writes};
use crate::event::Rank;
use crate::latency::Latencies;
use policy::cache::{Request, RequestId, Span};
use policy::time::Time;
use slab::Slab;

pub(super) struct Client<S> {
    source: S,
    next: Option<Access>,
    /// Time of the last request, and its time in the trace.
    last: Option<(Time, Time)>,
    /// Requests under way, by number.
    issued: Slab<Issued>,
    pub(super) reads: Latencies,
    pub(super) writes: u64,
    pub(super) read_blocks: u64,
    pub(super) written_blocks: u64,
    pub(super) dropped_writes: u64,
}

#[derive(Clone, Copy)]
struct Issued {
    at: Time,
    stream: u32,
    span: Span,
    write: bool,
}

/// An answered request of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Time of the request.
    pub at: Time,
    /// Time from the request to its answer.
    pub took: Time,
    /// Number of its client.
    pub client: u32,
    /// Number of its stream.
    pub stream: u32,
    /// Blocks of the request.
    pub span: Span,
    /// Whether it was a write.
    pub write: bool,
}

impl<S> Client<S> {
    pub(super) fn new(source: S) -> Client<S> {
        Client {
            source,
            next: None,
            last: None,
            issued: Slab::new(),
            reads: Latencies::default(),
            writes: 0,
            read_blocks: 0,
            written_blocks: 0,
            dropped_writes: 0,
        }
    }

    /// Source of its requests.
    pub(super) fn source(&self) -> &S {
        &self.source
    }

    pub(super) fn outstanding(&self) -> usize {
        self.issued.len()
    }
}

impl<S: Iterator<Item = Access>> World<S> {
    /// Takes the next request of `client` from its trace and schedules it.
    pub(super) fn schedule(&mut self, now: Time, client: u32) {
        let entry = &mut self.clients[client as usize];
        loop {
            entry.next = entry.source.next();
            let Some(next) = &entry.next else { return };
            if !next.write || self.config.writes != Writes::Dropped {
                break;
            }
            entry.dropped_writes += 1;
        }
        let due = entry.next.map_or(now, |next| match self.config.arrival {
            Arrival::Open { speed: 1.0 } => next.at,
            Arrival::Open { speed } => Time((next.at.0 as f64 / speed) as u64),
            Arrival::Closed { think } => now + think,
            Arrival::Paced => entry.last.map_or(next.at, |(came, said)| came + next.at.since(said)),
            Arrival::Thinking => entry.last.map_or(next.at, |(_, said)| now + next.at.since(said)),
        });
        // A trace that is slightly out of order does not turn time back.
        let due = due.max(now);
        if self.config.until.is_some_and(|until| due >= until) {
            entry.next = None;
            return;
        }
        if let Some((at, client)) = self.ready.replace((due, client)) {
            self.events.push(at, Rank::Arrival, Event::Arrive { client });
        }
    }

    /// Issues the next request of `client`.
    pub(super) fn arrive(&mut self, now: Time, client: u32) {
        let entry = &mut self.clients[client as usize];
        let access = entry.next.take().expect("an arrival was scheduled for a request");
        entry.last = Some((now, access.at));
        let issued = Issued { at: now, stream: access.stream, span: access.span, write: access.write };
        let number = entry.issued.insert(issued);
        let blocks = u64::from(access.span.len);
        *(if access.write { &mut entry.written_blocks } else { &mut entry.read_blocks }) += blocks;
        let request = Request {
            id: RequestId(number as u64),
            span: access.span,
            demand_len: access.span.len,
            stream: access.stream,
            client,
            file_blocks: access.file_blocks,
            write: access.write,
        };
        let node = client * self.config.private.len() as u32;
        self.work.push_back(Work::Request { node, request });
        if matches!(self.config.arrival, Arrival::Open { .. }) {
            self.schedule(now, client);
        }
    }

    /// Records the answer to a request of `client`.
    pub(super) fn respond(&mut self, now: Time, client: u32, request: RequestId) {
        let entry = &mut self.clients[client as usize];
        let issued = entry.issued.remove(request.0 as usize);
        let took = now - issued.at;
        if self.config.log {
            let Issued { at, stream, span, write } = issued;
            self.answered.push(Answered { at, took, client, stream, span, write });
        }
        if issued.write {
            entry.writes += 1;
        } else {
            entry.reads.add(took);
            if self.config.per_stream {
                self.streams.add(issued.stream, took);
            }
        }
        if !matches!(self.config.arrival, Arrival::Open { .. }) {
            self.schedule(now, client);
        }
    }
}
