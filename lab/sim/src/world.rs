//! A world of caches in virtual time: clients with levels of their own, a link, shared levels, storage.
//!
//! ```text
//! client 0: trace -> level -> ... -> level \
//! client 1: trace -> level -> ... -> level  --- link ---> level -> ... -> level -> block layer -> device(s)
//! ```
//! The world drives `policy::cache::Level` and decides nothing itself: a level's fetches are requests to the level
//! below, its deliveries answer the level above. A write is put into every level on its way and delays no client
//! (A-13).
//!
//! Order: events as in [`crate::event`]; within one event the work it causes is done first in, first out.

mod access;
mod client;
mod tally;
#[cfg(test)]
mod tests;
mod timeline;

pub use access::{Access, Arrival, Placement, Writes};
pub use client::Answered;
pub(crate) use tally::add;
pub use tally::{LevelTally, StreamTally, Tally};
pub use timeline::Sample;

use crate::block::Io;
use crate::event::{EventQueue, Rank};
use crate::link::{Link, Wire};
use crate::prefetch::{Level, LevelConfig};
use crate::storage::{Storage, UNATTENDED, Wake};
use client::Client;
use policy::cache::{self, Action, Event as CacheEvent, FetchId, Request, RequestId};
use policy::machine::Machine;
use policy::precedence::Class;
use policy::time::Time;
use slab::Slab;
use std::collections::VecDeque;

/// Parameters of a world, except for its storage and traces.
#[derive(Clone, Debug)]
pub struct Config {
    /// Levels that each client has for itself, from the application down; at least one.
    pub private: Vec<LevelConfig>,
    /// Levels that all clients share, from the link down.
    pub shared: Vec<LevelConfig>,
    /// Link between the two.
    pub link: Link,
    /// Arrival of the requests.
    pub arrival: Arrival,
    /// Time from which on no request comes; `None` for no limit.
    pub until: Option<Time>,
    /// Treatment of writes.
    pub writes: Writes,
    /// Whether every machine checks its invariants after every event; slow.
    pub check: bool,
    /// Whether response times are kept per stream.
    pub per_stream: bool,
    /// Interval of samples of the streams' inventories; `None` for no samples.
    pub sample_every: Option<Time>,
    /// Whether every answered request is kept.
    pub log: bool,
}

/// A world; `S` yields one client's requests.
pub struct World<S> {
    config: Config,
    /// Clients' levels first, client by client; then the shared ones.
    nodes: Vec<Node>,
    clients: Vec<Client<S>>,
    storage: Storage,
    placement: Placement,
    wire: Wire,
    events: EventQueue<Event>,
    work: VecDeque<Work>,
    /// Client that may continue at this time, if no event is earlier.
    ready: Option<(Time, u32)>,
    messages: Slab<Request>,
    /// Fetches under way.
    sent: Slab<Sent>,
    passed_on: u64,
    streams: tally::Streams,
    samples: Vec<Sample>,
    answered: Vec<Answered>,
    end: Time,
}

struct Node {
    level: Level,
    below: Option<u32>,
    /// Whether the level below is behind the link.
    linked: bool,
    /// Fetches sent down and not answered.
    outstanding: u64,
    /// Positions of its fetches in the world's table.
    names: Vec<u32>,
}

impl Node {
    fn new(level: &LevelConfig, below: Option<u32>, linked: bool) -> Result<Node, cache::ConfigError> {
        Ok(Node { level: Level::new(level.clone())?, below, linked, outstanding: 0, names: Vec::new() })
    }
}

enum Event {
    Arrive { client: u32 },
    Message { node: u32, message: u32 },
    Reply { fetch: u32 },
    Hurry { at: u32, sent: Sent },
    Storage(Wake),
    Sample,
}

enum Work {
    Request { node: u32, request: Request },
    Reply { fetch: u32 },
    Hurry { at: u32, sent: Sent },
}

/// A fetch under way: its level, and its number there. Its place is the number for the level below, or the storage.
#[derive(Clone, Copy, PartialEq)]
struct Sent {
    node: u32,
    fetch: FetchId,
}

/// Bit in the numbers of passed-on writes, whose completion is not awaited.
const PASSED_ON: u64 = 1 << 63;

impl<S: Iterator<Item = Access>> World<S> {
    /// Creates a world with one client per source.
    pub fn new(
        config: Config,
        storage: Storage,
        placement: Placement,
        sources: Vec<S>,
    ) -> Result<World<S>, cache::ConfigError> {
        assert!(!config.private.is_empty(), "a client without a level");
        let (clients, depth) = (sources.len(), config.private.len());
        assert!((1..1 << 24).contains(&(clients * depth + config.shared.len())), "too many levels");
        let shared_first = (clients * depth) as u32;
        let mut nodes = Vec::new();
        for _ in 0..clients {
            for (at, level) in config.private.iter().enumerate() {
                let last = at + 1 == depth;
                let below = if last { shared_first } else { nodes.len() as u32 + 1 };
                let below = (!last || !config.shared.is_empty()).then_some(below);
                nodes.push(Node::new(level, below, last)?);
            }
        }
        for (at, level) in config.shared.iter().enumerate() {
            let below = (at + 1 < config.shared.len()).then_some(nodes.len() as u32 + 1);
            nodes.push(Node::new(level, below, false)?);
        }
        Ok(World {
            nodes,
            clients: sources.into_iter().map(Client::new).collect(),
            storage,
            placement,
            wire: Wire::new(config.link),
            events: EventQueue::new(),
            work: VecDeque::new(),
            ready: None,
            messages: Slab::new(),
            sent: Slab::new(),
            passed_on: 0,
            streams: tally::Streams::default(),
            samples: Vec::new(),
            answered: Vec::new(),
            end: Time::ZERO,
            config,
        })
    }

    /// Runs until no event is left.
    pub fn run(&mut self) {
        for client in 0..self.clients.len() as u32 {
            self.schedule(Time::ZERO, client);
        }
        if let Some(every) = self.config.sample_every {
            self.events.push(every, Rank::Timer, Event::Sample);
        }
        loop {
            if let Some((at, client)) = self.ready.take() {
                // Continuing at once saves a turn through the heap, and is equivalent if no other event is earlier.
                if self.events.next_at().is_none_or(|next| next > at) {
                    self.events.advance(at);
                    self.happen(at, Event::Arrive { client });
                    continue;
                }
                self.events.push(at, Rank::Arrival, Event::Arrive { client });
            }
            let Some((now, event)) = self.events.pop() else { break };
            self.happen(now, event);
        }
        self.check_end();
    }

    /// Starts logs of the events and actions of the levels.
    pub fn start_logs(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.level.log.start());
    }

    /// Returns the log of a level, clients' levels first, client by client; empty unless started.
    pub fn log(&self, level: usize) -> &[cache::Logged] {
        self.nodes[level].level.log.lines()
    }

    /// Returns the sources of the clients' requests, which may report errors after the run.
    pub fn sources(&self) -> impl Iterator<Item = &S> {
        self.clients.iter().map(Client::source)
    }

    /// Returns samples of the streams' inventories, if requested.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Returns the answered requests in the order of their answers, if requested.
    pub fn answered(&self) -> &[Answered] {
        &self.answered
    }

    fn happen(&mut self, now: Time, event: Event) {
        match event {
            Event::Arrive { client } => self.arrive(now, client),
            Event::Message { node, message } => {
                let request = self.messages.remove(message as usize);
                self.work.push_back(Work::Request { node, request });
            }
            Event::Reply { fetch } => self.work.push_back(Work::Reply { fetch }),
            Event::Hurry { at, sent } => self.work.push_back(Work::Hurry { at, sent }),
            Event::Storage(what) => {
                let events = &mut self.events;
                self.storage.happen(now, what, |at, wake| push_wake(events, at, wake));
                let work = &mut self.work;
                self.storage.drain(|tag| work.push_back(Work::Reply { fetch: tag as u32 }));
            }
            Event::Sample => self.sample(now),
        }
        while let Some(work) = self.work.pop_front() {
            self.end = now;
            self.do_work(now, work);
        }
        if self.config.check {
            self.check();
        }
    }

    fn do_work(&mut self, now: Time, work: Work) {
        let node = match work {
            Work::Request { node, request } => {
                self.nodes[node as usize].level.handle(now, CacheEvent::Request(request));
                if request.write {
                    self.pass_on(now, node, request);
                }
                node
            }
            Work::Reply { fetch: at } => {
                let Sent { node, fetch } = self.sent.remove(at as usize);
                let at = &mut self.nodes[node as usize];
                assert!(at.outstanding > 0, "an answer to nothing");
                at.outstanding -= 1;
                at.level.handle(now, CacheEvent::FetchDone(fetch));
                node
            }
            // The fetch was answered in between, so there is nothing to mark.
            Work::Hurry { at, sent } if self.sent.get(at as usize) != Some(&sent) => return,
            Work::Hurry { at, sent } => {
                let Some(below) = self.nodes[sent.node as usize].below else { return };
                self.nodes[below as usize].level.handle(now, CacheEvent::Hurry(RequestId(u64::from(at))));
                below
            }
        };
        while let Some(action) = self.nodes[node as usize].level.poll() {
            match action {
                Action::Fetch(fetch) => self.send_down(now, node, fetch),
                Action::Deliver { request, outcome } => {
                    self.answer(now, node, request, u64::from(outcome.hit + outcome.late + outcome.missed));
                }
                Action::Hurry(fetch) => self.hurry(now, node, fetch),
                Action::Fail { .. } => unreachable!("no fetch of a simulated world fails"),
                Action::Hit { .. } | Action::Wait { .. } | Action::Store { .. } | Action::Evict { .. } => {}
            }
        }
    }

    fn send_down(&mut self, now: Time, node: u32, fetch: cache::Fetch) {
        let name = self.sent.insert(Sent { node, fetch: fetch.id }) as u32;
        let Node { below, linked, outstanding, names, .. } = &mut self.nodes[node as usize];
        *outstanding += 1;
        let place = fetch.id.place();
        if place >= names.len() {
            names.resize(place + 1, 0);
        }
        names[place] = name;
        let name = u64::from(name);
        let Some(below) = *below else {
            let io = self.placement.io(fetch.span, false, fetch.client, fetch.class);
            let events = &mut self.events;
            self.storage.submit(now, io, name, |at, wake| push_wake(events, at, wake));
            return;
        };
        let request = Request {
            id: RequestId(name),
            span: fetch.span,
            demand_len: fetch.demand_len,
            stream: fetch.stream,
            client: fetch.client,
            file_blocks: fetch.file_blocks,
            write: false,
        };
        let at = if *linked { self.wire.request_at(now) } else { now };
        self.send(now, at, below, request);
    }

    /// Marks a prefetch of `node` as awaited, at the storage or at the level below.
    fn hurry(&mut self, now: Time, node: u32, fetch: FetchId) {
        let Node { below, linked, ref names, .. } = self.nodes[node as usize];
        let at = names[fetch.place()];
        if below.is_none() {
            return self.storage.raise(u64::from(at));
        }
        let sent = Sent { node, fetch };
        let arrives = if linked { self.wire.request_at(now) } else { now };
        if arrives == now {
            self.work.push_back(Work::Hurry { at, sent });
        } else {
            self.events.push(arrives, Rank::Completion, Event::Hurry { at, sent });
        }
    }

    fn send(&mut self, now: Time, at: Time, node: u32, request: Request) {
        if at == now {
            self.work.push_back(Work::Request { node, request });
            return;
        }
        let message = self.messages.insert(request) as u32;
        self.events.push(at, Rank::Completion, Event::Message { node, message });
    }

    /// Passes a written block to all levels below; the device writes it in the background.
    fn pass_on(&mut self, now: Time, node: u32, request: Request) {
        let Node { below, linked, .. } = self.nodes[node as usize];
        if let Some(below) = below {
            self.passed_on += 1;
            let id = RequestId(PASSED_ON | self.passed_on);
            let at = if linked { now + self.config.link.reply(u64::from(request.span.len)) } else { now };
            self.send(now, at, below, Request { id, ..request });
        } else if self.config.writes == Writes::Background {
            let io: Io = self.placement.io(request.span, true, request.client, Class::Awaited);
            let events = &mut self.events;
            self.storage.submit(now, io, UNATTENDED, |at, wake| push_wake(events, at, wake));
        }
    }

    /// Delivers all of `request`, which has `blocks` blocks, to `node`.
    fn answer(&mut self, now: Time, node: u32, request: RequestId, blocks: u64) {
        let depth = self.config.private.len() as u32;
        if node < self.clients.len() as u32 * depth && node.is_multiple_of(depth) {
            self.respond(now, node / depth, request);
            return;
        }
        if request.0 & PASSED_ON != 0 {
            return;
        }
        let fetch = request.0 as u32;
        let above = self.sent[fetch as usize].node;
        let at = if self.nodes[above as usize].linked { self.wire.reply_at(now, blocks) } else { now };
        if at == now {
            self.work.push_back(Work::Reply { fetch });
        } else {
            self.events.push(at, Rank::Completion, Event::Reply { fetch });
        }
    }

    fn check(&self) {
        for (at, node) in self.nodes.iter().enumerate() {
            if let Err(violation) = node.level.check() {
                panic!("level {at}: {violation}");
            }
        }
        self.storage.check();
        let closed = !matches!(self.config.arrival, Arrival::Open { .. });
        for client in &self.clients {
            assert!(!closed || client.outstanding() <= 1, "a synchronous client has two requests under way");
        }
    }

    /// Panics if a request is unanswered although no event is left.
    fn check_end(&self) {
        assert!(self.storage.is_idle(), "nothing is left to happen and the device has work");
        for node in &self.nodes {
            assert_eq!(node.outstanding, 0, "a fetch was never answered");
        }
        for client in &self.clients {
            assert_eq!(client.outstanding(), 0, "a request was never answered");
        }
    }
}

impl Config {
    /// Creates clients with one level each and a server with one, over the published link, requests at the times of
    /// the trace.
    pub fn two_levels(upper: LevelConfig, lower: LevelConfig) -> Config {
        Config {
            private: vec![upper],
            shared: vec![lower],
            link: Link::PUBLISHED,
            arrival: Arrival::Open { speed: 1.0 },
            until: None,
            writes: Writes::Cached,
            check: false,
            per_stream: false,
            sample_every: None,
            log: false,
        }
    }
}

fn push_wake(events: &mut EventQueue<Event>, at: Time, wake: Wake) {
    let rank = match wake {
        Wake::Done { .. } => Rank::Completion,
        Wake::Look { .. } => Rank::Timer,
    };
    events.push(at, rank, Event::Storage(wake));
}
