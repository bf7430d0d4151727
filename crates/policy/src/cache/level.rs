//! One cache level: passes each request through coordinator, prefetcher and replacement, and sends fetches down.
//!
//! A block gets its frame when its fetch is issued. It is then in no list, so it cannot be evicted; it enters the lists
//! on arrival. The frames never exceed the capacity. When all are in flight, a requested block is passed through and a
//! prefetch is dropped.

mod arrive;
mod follow;
mod frames;
mod plan;
mod read;
mod replay;
mod tally;

use super::config::LevelConfig;
use super::event::{Action, Event, Outcome};
use super::flight::{Flight, Waiting};
use super::stats::{Stats, StreamStats};
use crate::block::pages::Pages;
use crate::block::recent::Recent;
use crate::block::{ConfigError, Span};
use crate::coordinate::adaptive::Adaptive;
use crate::coordinate::pfc::Pfc;
use crate::coordinate::trial::Trial;
use crate::machine::{Log, Machine};
use crate::prefetch::trigger::Rates;
use crate::prefetch::{Ahead, Algorithm, Prefetch, Prefetcher};
use crate::time::Time;
use plan::Plan;
use std::collections::VecDeque;
use tally::Tally;

/// State machine of one cache level.
#[derive(Debug)]
pub struct Level<A: Algorithm = Prefetch> {
    config: LevelConfig<A>,
    pages: Pages,
    prefetcher: A::State,
    rates: Option<Rates>,
    pfc: Option<Pfc>,
    adaptive: Option<Adaptive>,
    trial: Trial,
    streams: Option<Recent>,
    flight: Flight,
    plan: Plan,
    aheads: Vec<Ahead>,
    done: Vec<Waiting>,
    actions: VecDeque<Action>,
    /// Log of its events and actions, for tests.
    pub log: Log<Event, Action>,
    stats: Stats,
    tally: Option<Tally>,
    /// Whether fetches are done at once: a replay without a device.
    instant: bool,
    /// Whether reads use only the table and the lists.
    plain: bool,
}

impl<A: Algorithm> Level<A> {
    /// Creates an empty level.
    pub fn new(config: LevelConfig<A>) -> Result<Level<A>, ConfigError> {
        config.check()?;
        let capacity = config.capacity_blocks;
        let prefetcher = config.prefetch.state();
        let rates = Rates::new(config.trigger);
        let needs_streams = prefetcher.needs_streams() || rates.is_some() || config.per_stream;
        let coordination = config.coordination;
        let pfc = coordination.pfc.map(|of| Pfc::new(of, capacity, config.streams_max, coordination.early));
        let adaptive = coordination.adaptive.then(|| Adaptive::new(capacity, coordination.knows_labels()));
        Ok(Level {
            pages: Pages::new(capacity, config.replacement),
            plain: config.prefetch.is_none()
                && !needs_streams
                && pfc.is_none()
                && adaptive.is_none()
                && !config.announce,
            prefetcher,
            rates,
            pfc,
            adaptive,
            trial: Trial::default(),
            streams: needs_streams.then(|| Recent::new(config.streams_max)),
            flight: Flight::default(),
            plan: Plan::default(),
            aheads: Vec::new(),
            done: Vec::new(),
            actions: VecDeque::new(),
            log: Log::default(),
            stats: Stats::default(),
            tally: config.per_stream.then(|| Tally::new(config.streams_max)),
            instant: false,
            config,
        })
    }

    /// Whether a block is resident.
    pub fn is_resident(&self, block: super::Block) -> bool {
        self.pages.find(block).is_some_and(|slot| self.pages.flags(slot) & crate::block::page::FLYING == 0)
    }

    /// Counts since the start.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Counts per remembered stream, ascending; empty unless configured with `per_stream`.
    pub fn stream_stats(&self) -> Vec<StreamStats> {
        let Some(tally) = &self.tally else { return Vec::new() };
        let mut all = tally.all();
        if let (Some(streams), Some(rates)) = (&self.streams, &self.rates) {
            for stats in &mut all {
                let at = streams.find(u64::from(stats.stream));
                (stats.trigger_distance, stats.rate) = at.map_or((0.0, 0.0), |at| rates.state(at));
            }
        }
        all
    }

    /// Configuration of the level.
    pub fn config(&self) -> &LevelConfig<A> {
        &self.config
    }

    /// Number of blocks resident or in flight: never more than the capacity.
    pub fn inventory(&self) -> u32 {
        self.pages.used()
    }

    /// Numbers of outstanding fetches and of requests that wait for them.
    pub fn outstanding(&self) -> (usize, usize) {
        self.flight.outstanding()
    }

    /// Checks the invariants; takes time linear in the capacity.
    pub fn check(&self) -> Result<(), String> {
        let lists = self.pages.check(self.frames_used());
        let all = lists.and_then(|()| self.prefetcher.check(&self.pages)).and_then(|()| self.stats.check());
        all.map_err(|why| format!("a cache level broke its invariant: {why}"))
    }

    /// Drops blocks that changed or were removed.
    fn forget(&mut self, span: Span) {
        if span.len > self.pages.used() {
            let within: Vec<u32> = self.pages.slots().filter(|&slot| span.contains(self.pages.block(slot))).collect();
            within.into_iter().for_each(|slot| self.drop_slot(slot));
        } else {
            for block in span.blocks() {
                if let Some(slot) = self.pages.find(block) {
                    self.drop_slot(slot);
                }
            }
        }
    }
}

impl<A: Algorithm> Machine for Level<A> {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Time, event: Event) {
        self.log.event(now, &event);
        if self.adaptive.is_some() {
            self.trial.advance(now, self.flight.outstanding().1, self.flight.awaited());
        }
        match event {
            Event::Request(request) if request.span.len == 0 => {
                self.actions.push_back(Action::Deliver { request: request.id, outcome: Outcome::default() });
            }
            Event::Request(request) => {
                self.request(now, &request);
            }
            Event::FetchDone(fetch) => self.fetch_done(now, fetch),
            Event::FetchFailed(fetch) => self.fetch_failed(fetch),
            Event::Forget(span) => self.forget(span),
            Event::Hurry(request) => self.hurry(request),
            Event::StreamEnded(stream) => {
                if let Some(streams) = &mut self.streams {
                    streams.forget(u64::from(stream));
                }
            }
        }
    }

    fn poll(&mut self) -> Option<Action> {
        let action = self.actions.pop_front()?;
        self.log.action(&action);
        Some(action)
    }
}
