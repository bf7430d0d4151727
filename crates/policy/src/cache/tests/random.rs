//! Any level under any requests, with completions in any order, failures, writes and changes behind its back. The tests
//! check that every request is answered once, with every block once and none older than allowed. They check the
//! invariants after every event.

use crate::cache::*;
use crate::coordinate::{Coordination, Labels, Large, Pfc, Scope};
use crate::machine::Machine;
use crate::precedence::Class;
use crate::prefetch::{Algorithm, Prefetch, Share, Trigger};
use crate::time::Time;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    Read { index: u64, len: u32, demand: u32, stream: u32 },
    Write { index: u64, len: u32 },
    Done { which: usize },
    Fail { which: usize },
    Forget { index: u64, len: u32 },
    Pass { millis: u64 },
    Hurry { which: usize },
}

const FILE_BLOCKS: u64 = 400;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u64..FILE_BLOCKS - 20, 1u32..20, 0u32..20, 0u32..3)
            .prop_map(|(index, len, demand, stream)| Step::Read { index, len, demand, stream }),
        1 => (0u64..FILE_BLOCKS - 20, 1u32..8).prop_map(|(index, len)| Step::Write { index, len }),
        8 => (0usize..64).prop_map(|which| Step::Done { which }),
        1 => (0usize..64).prop_map(|which| Step::Fail { which }),
        1 => (0u64..FILE_BLOCKS - 20, 1u32..200).prop_map(|(index, len)| Step::Forget { index, len }),
        2 => (1u64..300).prop_map(|millis| Step::Pass { millis }),
        1 => (0usize..64).prop_map(|which| Step::Hurry { which }),
    ]
}

/// Random steps with sequential reads in between, without which no prefetcher acts.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let run = (0u64..200, 1u32..4, 5u64..40, 0u32..3).prop_map(|(start, len, count, stream)| {
        let read = |n| Step::Read { index: start + n * u64::from(len), len, demand: len, stream };
        (0..count).flat_map(|n| [read(n), Step::Done { which: 0 }]).collect::<Vec<Step>>()
    });
    let few = prop::collection::vec(step(), 1..12);
    prop::collection::vec(prop_oneof![run, few], 1..12).prop_map(|parts| parts.concat())
}

fn coordination() -> impl Strategy<Value = Coordination> {
    let pfc =
        (any::<bool>(), any::<bool>(), any::<bool>(), 0usize..3).prop_map(|(bypass, readmore, text, scope)| Pfc {
            bypass,
            readmore,
            scope: [Scope::Level, Scope::File, Scope::Client][scope],
            large: if text { Large::Text { factor: 0.5 } } else { Large::Literal },
            ..Pfc::PUBLISHED
        });
    let labels = (0usize..3).prop_map(|which| [Labels::Ignored, Labels::Published, Labels::Onward][which]);
    (labels, any::<bool>(), prop::option::of(pfc), any::<bool>(), any::<bool>())
        .prop_map(|(labels, early, pfc, du, adaptive)| Coordination { labels, early, pfc, du, adaptive })
}

fn config() -> impl Strategy<Value = LevelConfig<Prefetch>> {
    (1u32..120, 0usize..Prefetch::ALL.len(), 0usize..4, any::<bool>(), coordination(), any::<bool>()).prop_map(
        |(capacity, which, trigger, sarc, coordination, join)| {
            let mut config = LevelConfig::new(capacity, Prefetch::ALL[which]);
            if sarc && !config.prefetch.is_none() {
                config.replacement = Replacement::Sarc(TwoLists { bottom_fraction: 0.1, large_ratio: 2.0 });
            }
            if config.prefetch.has_trigger_distance() {
                let share = Share { redistribute: join, ..Share::default() };
                let all = [Trigger::Native, Trigger::Fixed { distance: 7 }, Trigger::Ets(share), Trigger::Esf(share)];
                config.trigger = all[trigger];
            }
            config.coordination = coordination;
            config.join = join;
            config.announce = true;
            config.per_stream = true;
            config.streams_max = 2;
            config
        },
    )
}

/// Unanswered request: versions of its blocks when it began, and the versions received.
struct Asked {
    span: Span,
    since: BTreeMap<Block, u64>,
    got: BTreeMap<Block, u64>,
    waits: BTreeMap<Block, FetchId>,
    /// Whether an application waits for the request, as far as the level can detect.
    awaited: bool,
}

struct World {
    level: Level<Prefetch>,
    now: Time,
    versions: BTreeMap<Block, u64>,
    stored: BTreeMap<Block, u64>,
    asked: BTreeMap<RequestId, Asked>,
    /// Fetch with the versions below at its issue.
    flying: Vec<(Fetch, BTreeMap<Block, u64>)>,
    answered: u64,
}

impl World {
    fn version(&self, block: Block) -> u64 {
        self.versions.get(&block).copied().unwrap_or(0)
    }

    fn snapshot(&self, span: Span) -> BTreeMap<Block, u64> {
        span.blocks().map(|block| (block, self.version(block))).collect()
    }

    fn event(&mut self, event: Event, finished: Option<&(Fetch, BTreeMap<Block, u64>)>) {
        self.level.handle(self.now, event);
        self.level.check().unwrap();
        while let Some(action) = self.level.poll() {
            self.action(action, finished);
        }
        let classes: BTreeMap<FetchId, Class> = self.flying.iter().map(|(fetch, _)| (fetch.id, fetch.class)).collect();
        for asked in self.asked.values().filter(|asked| asked.awaited) {
            let stands_back = |block| classes.get(&asked.waits[block]) == Some(&Class::Prefetch);
            let waiting = asked.waits.keys().filter(|block| !asked.got.contains_key(block));
            assert!(!waiting.into_iter().any(stands_back), "somebody waits for what stands back as a prefetch");
        }
        let resident: Vec<Block> = self.stored.keys().copied().collect();
        for block in resident {
            assert!(self.level.is_resident(block), "{block:?} is stored and not resident");
        }
    }

    fn action(&mut self, action: Action, finished: Option<&(Fetch, BTreeMap<Block, u64>)>) {
        match action {
            Action::Hit { request, span } => {
                let asked = self.asked.get_mut(&request).unwrap();
                for block in span.blocks() {
                    assert_eq!(asked.got.insert(block, self.stored[&block]), None, "{block:?} came twice");
                }
            }
            Action::Wait { request, span, fetch } => {
                let asked = self.asked.get_mut(&request).unwrap();
                for block in span.blocks() {
                    assert_eq!(asked.waits.insert(block, fetch), None, "{block:?} is awaited twice");
                }
            }
            Action::Hurry(fetch) => {
                let flying = &mut self.flying.iter_mut().find(|(flying, _)| flying.id == fetch).unwrap().0;
                assert_eq!(flying.class, Class::Prefetch, "it was awaited before");
                flying.class = Class::Awaited;
            }
            Action::Fetch(fetch) => {
                assert!(fetch.class == Class::Prefetch || fetch.wanted_len > 0, "nobody waits for {fetch:?}");
                assert!(fetch.demand_len <= fetch.wanted_len && fetch.wanted_len <= fetch.span.len);
                assert!(fetch.span.end().index() <= FILE_BLOCKS, "{fetch:?} is beyond the file");
                let overlaps = |other: &Fetch| other.keep && fetch.keep && other.span.contains(fetch.span.first);
                let doubled = self.flying.iter().find(|(other, _)| overlaps(other));
                assert!(doubled.is_none() || self.versions.values().any(|&v| v > 0), "{fetch:?} and {doubled:?}");
                let versions = self.snapshot(fetch.span);
                self.flying.push((fetch, versions));
            }
            Action::Store { span, fetch } => {
                for block in span.blocks() {
                    let version = match fetch {
                        Some(id) => {
                            let (fetch, versions) = finished.unwrap();
                            assert_eq!(fetch.id, id);
                            versions[&block]
                        }
                        None => self.version(block),
                    };
                    self.stored.insert(block, version);
                }
            }
            Action::Evict { block, .. } => {
                assert!(self.stored.remove(&block).is_some(), "{block:?} was evicted and not stored");
            }
            Action::Deliver { request, outcome } => {
                let Some(asked) = self.asked.remove(&request) else { return };
                assert_eq!(outcome.hit + outcome.late + outcome.missed, asked.span.len);
                assert_eq!(asked.got.len() as u32, asked.span.len, "blocks are missing from {request:?}");
                for (block, got) in asked.got {
                    assert!(got >= asked.since[&block], "{block:?} is older than the request");
                }
                self.answered += 1;
            }
            Action::Fail(request) => {
                assert!(self.asked.remove(&request).is_some());
                self.answered += 1;
            }
        }
    }

    /// Requests that wait for this fetch take its bytes.
    fn take_bytes(&mut self, fetch: &Fetch, versions: &BTreeMap<Block, u64>) {
        for asked in self.asked.values_mut() {
            for block in fetch.span.blocks().filter(|block| asked.waits.get(block) == Some(&fetch.id)) {
                assert_eq!(asked.got.insert(block, versions[&block]), None, "{block:?} came twice");
            }
        }
    }

    fn finish(&mut self, which: usize, fail: bool) {
        if self.flying.is_empty() {
            return;
        }
        let finished = self.flying.remove(which % self.flying.len());
        if fail {
            self.event(Event::FetchFailed(finished.0.id), None);
        } else {
            self.take_bytes(&finished.0, &finished.1);
            self.event(Event::FetchDone(finished.0.id), Some(&finished));
        }
    }

    fn step(&mut self, id: u64, step: &Step) {
        match *step {
            Step::Read { index, len, demand, stream } => {
                let span = Span::new(1, index, len);
                let (since, none) = (self.snapshot(span), BTreeMap::new());
                let coordination = self.level.config().coordination;
                let knows = coordination.early || coordination.labels != Labels::Ignored;
                let awaited = !knows || demand >= len;
                self.asked.insert(RequestId(id), Asked { span, since, got: none, waits: BTreeMap::new(), awaited });
                self.event(
                    Event::Request(Request {
                        demand_len: demand.min(len),
                        stream,
                        client: stream,
                        file_blocks: FILE_BLOCKS,
                        ..Request::read(id, span)
                    }),
                    None,
                );
            }
            Step::Write { index, len } => {
                let span = Span::new(1, index, len);
                span.blocks().for_each(|block| *self.versions.entry(block).or_default() += 1);
                self.event(Event::Request(Request { write: true, ..Request::read(id, span) }), None);
            }
            Step::Forget { index, len } => {
                let span = Span::new(1, index, len);
                span.blocks().for_each(|block| *self.versions.entry(block).or_default() += 1);
                self.event(Event::Forget(span), None);
            }
            Step::Done { which } => self.finish(which, false),
            Step::Fail { which } => self.finish(which, true),
            Step::Hurry { which } => {
                let ids: Vec<RequestId> = self.asked.keys().copied().collect();
                if let Some(&id) = ids.get(which % ids.len().max(1)) {
                    self.asked.get_mut(&id).unwrap().awaited = true;
                    self.event(Event::Hurry(id), None);
                }
            }
            Step::Pass { millis } => self.now = self.now + Time::from_millis(millis),
        }
    }
}

fn run(config: LevelConfig<Prefetch>, steps: &[Step]) {
    let mut world = World {
        level: Level::new(config).unwrap(),
        now: Time::ZERO,
        versions: BTreeMap::new(),
        stored: BTreeMap::new(),
        asked: BTreeMap::new(),
        flying: Vec::new(),
        answered: 0,
    };
    for (id, step) in steps.iter().enumerate() {
        world.step(id as u64, step);
    }
    while !world.flying.is_empty() {
        world.finish(0, false);
    }
    let reads = steps.iter().filter(|step| matches!(step, Step::Read { .. })).count() as u64;
    assert_eq!(world.answered, reads);
    assert!(world.asked.is_empty());
    assert_eq!(world.level.outstanding(), (0, 0));
    assert_eq!(world.level.inventory(), world.stored.len() as u32);
}

/// The window of the kernel spans the block being read. If that was a hit and then lost its frame to its neighbour, it
/// must not be fetched again.
#[test]
fn a_block_that_lost_its_frame_within_its_own_request_comes_once() {
    let read = |n: u64| Step::Read { index: 2 * n, len: 2, demand: 2, stream: 0 };
    let steps: Vec<Step> = (0..6).flat_map(|n| [read(n), Step::Done { which: 0 }]).collect();
    for prefetch in Prefetch::ALL {
        let mut config = LevelConfig::new(3, prefetch);
        config.coordination.pfc = Some(Pfc { bypass: false, ..Pfc::PUBLISHED });
        config.announce = true;
        run(config, &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_request_is_answered_once_with_every_block(config in config(), steps in steps()) {
        run(config, &steps);
    }

    /// The same events give the same actions.
    #[test]
    fn nothing_is_random(config in config(), steps in steps()) {
        let run = || {
            let mut level = Level::new(config.clone()).unwrap();
            let (mut log, mut flying) = (Vec::new(), std::collections::VecDeque::new());
            for (id, step) in steps.iter().enumerate() {
                match *step {
                    Step::Read { index, len, .. } => {
                        level.handle(Time(id as u64), Event::Request(Request::read(id as u64, Span::new(1, index, len))));
                    }
                    Step::Done { .. } => {
                        if let Some(fetch) = flying.pop_front() {
                            level.handle(Time(id as u64), Event::FetchDone(fetch));
                        }
                    }
                    _ => {}
                }
                while let Some(action) = level.poll() {
                    if let Action::Fetch(fetch) = action {
                        flying.push_back(fetch.id);
                    }
                    log.push(action);
                }
            }
            (log, level.stats())
        };
        prop_assert_eq!(run(), run());
    }
}
