//! The simulator and the live system run the same machine. One list of requests goes through the simulator's level and
//! through the live block cache; the logs of events and actions are equal, word for word and at the same times.
//!
//! The simulator runs first, over a device that takes 5 ms. The live cache then passes through the same moments. Its
//! clock shows the simulator's time, requests come at the same times, and each read of its target (in memory) ends at
//! the simulated end.
//!
//! With two levels the lower one is compared: the live cache gets the simulated requests of the level above.

#[path = "parity/burst.rs"]
mod burst;
#[path = "parity/stage.rs"]
mod stage;
#[path = "parity/stripes.rs"]
mod stripes;
#[path = "parity/tier.rs"]
mod tier;
#[path = "parity/volume.rs"]
mod volume;

use engine::cache::Stream;
use engine::file::Reading;
use policy::cache::{Action, Block, Event, Fetch, LevelConfig, Logged, RequestId, Span};
use policy::{Time, words};
use sim::block::{Merging, Scheduler};
use sim::link::Link;
use sim::prefetch::Prefetch;
use sim::storage::{Array, Device, Service, Storage};
use sim::world::{Access, Arrival, Config, Placement, World, Writes};
use stage::Stage;
use std::collections::HashMap;

const BLOCK: u64 = 4096;
const FILES: u32 = 2;
const FILE_BLOCKS: u64 = 400;
const STREAMS: u32 = 3;

/// Prefetcher, replacement (empty: its own), trigger, coordinator. The place of a row is its seed. With some seeds PFC
/// has two reads of one place on the way, which the stage cannot tell apart.
const LEVELS: [[&str; 4]; 12] = [
    ["stream", "", "native", "pfc"],
    ["on-demand", "", "native", "none"],
    ["stream", "sarc", "native", "pfc:file"],
    ["none", "", "native", "none"],
    ["stream", "", "native", "none"],
    ["on-demand", "", "native", "du"],
    ["stream", "", "fixed:24", "none"],
    ["on-demand", "", "native", "labels"],
    ["on-demand", "sarc", "native", "none"],
    ["stream", "", "native", "du"],
    ["stream", "", "ets", "none"],
    ["stream", "sarc", "esf:redistribute", "labels+pfc:client"],
];

/// Lower levels under RA: prefetcher, replacement, trigger, coordinator. Their requests are those of a mount above.
const LOWER: [[&str; 4]; 6] = [
    ["stream", "sarc", "native", "early+pfc"],
    ["on-demand", "", "native", "early+pfc:prose"],
    ["on-demand", "", "native", "early+pfc:adaptive"],
    ["stream", "", "native", "labels:onward"],
    ["on-demand", "", "native", "pfc:text"],
    ["on-demand", "", "native", "pfc:adaptive"],
];

fn level([prefetch, replacement, trigger, coordinator]: [&str; 4]) -> LevelConfig {
    let mut level = LevelConfig::new(64, words::prefetch(prefetch).unwrap());
    if !replacement.is_empty() {
        level.replacement = words::replacement(replacement).unwrap();
    }
    level.trigger = words::trigger(trigger).unwrap();
    level.coordination = words::coordination(coordinator).unwrap();
    level.announce = true;
    level
}

/// Three streams over two files, each sequential with jumps, at irregular times: some requests find their blocks on the
/// way.
fn requests(seed: u64) -> Vec<Access> {
    let mut state = seed;
    let mut below = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let (mut at, mut next, mut all) = (0, [0u64; STREAMS as usize], Vec::new());
    for n in 0..240u32 {
        at += below(6_000_000);
        // Every stream once in turn at first, so that files are met in the order of their numbers.
        let stream = if n < STREAMS { n } else { below(STREAMS.into()) as u32 };
        let position = &mut next[stream as usize];
        let len = 1 + below(4);
        if below(12) == 0 || *position + len > FILE_BLOCKS {
            *position = below(FILE_BLOCKS - 8);
        }
        let span = Span::new(stream % FILES, *position, len as u32);
        *position += len;
        all.push(Access { at: Time(at), span, stream: stream + 1, file_blocks: FILE_BLOCKS, write: false });
    }
    all
}

fn simulated(level: &LevelConfig, requests: &[Access]) -> Vec<Logged> {
    simulated_below(None, level, requests)
}

/// Simulates a level, below another one if given; returns its log.
fn simulated_below(upper: Option<sim::prefetch::LevelConfig>, level: &LevelConfig, requests: &[Access]) -> Vec<Logged> {
    let device = Device::Constant(Service::new(Time::from_millis(5), Time::ZERO));
    let storage = Storage::new(vec![device], Array::Single, Scheduler::Noop, Merging::default());
    let placement = Placement::new(&[FILE_BLOCKS; FILES as usize], BLOCK / 512, storage.sectors());
    let level = level.clone().with_prefetch(level.prefetch.into());
    let config = Config {
        private: vec![upper.clone().unwrap_or_else(|| level.clone())],
        shared: upper.iter().map(|_| level.clone()).collect(),
        link: Link::PUBLISHED,
        arrival: Arrival::Open { speed: 1.0 },
        until: None,
        writes: Writes::Cached,
        check: true,
        per_stream: false,
        sample_every: None,
        log: false,
    };
    let mut world = World::new(config, storage, placement, vec![requests.iter().copied()]).unwrap();
    world.start_logs();
    world.run();
    world.log(usize::from(upper.is_some())).to_vec()
}

/// Leads the live cache through the moments of the simulator's log.
fn live(level: &LevelConfig, moments: &[Logged]) -> Vec<Logged> {
    let stage = Stage::new(level, FILES, FILE_BLOCKS);
    let streams: Vec<Stream> = (0..STREAMS).map(|_| Stream::new(&stage.cache, 0)).collect();
    stage.cache.start_log();
    let mut fetches: HashMap<u64, Fetch> = HashMap::new();
    std::thread::scope(|scope| {
        for moment in moments {
            match *moment {
                Logged::Action(_, Action::Fetch(fetch)) => drop(fetches.insert(fetch.id.0, fetch)),
                Logged::Action(..) => {}
                Logged::Event(at, Event::Request(request)) => {
                    stage.set_time(at);
                    let file = request.span.first.file();
                    let (offset, len) =
                        (request.span.first.index() * BLOCK, request.span.len as usize * BLOCK as usize);
                    let mut bytes = vec![0; len];
                    let stream = &streams[request.stream as usize - 1];
                    let speculative = stream.downgrade().speculative().unwrap();
                    let stream = if request.demand_len == 0 { &speculative } else { stream };
                    let expected = stage.content(file, offset, len);
                    match stage.files[file as usize].begin_read(stream, offset, &mut bytes) {
                        Reading::Done(got) => assert!(got == len && bytes == expected, "{request:?}"),
                        Reading::Waits(ticket) => drop(scope.spawn(move || {
                            assert!(ticket.finish().unwrap() == expected, "{request:?}");
                        })),
                        Reading::Uncached => panic!("it has a layout"),
                    }
                }
                Logged::Event(at, Event::FetchDone(fetch)) => {
                    stage.set_time(at);
                    stage.end(&fetches[&fetch.0]);
                }
                Logged::Event(_, event) => panic!("the simulator has no {event:?}"),
            }
        }
    });
    stage.cache.check().unwrap();
    stage.cache.log()
}

/// The log with requests named by their order of arrival, since drivers choose their names.
fn named(log: &[Logged]) -> Vec<Logged> {
    let mut names: HashMap<RequestId, RequestId> = HashMap::new();
    let mut count = 0;
    log.iter()
        .map(|logged| match *logged {
            Logged::Event(at, Event::Request(mut request)) => {
                count += 1;
                names.insert(request.id, RequestId(count));
                request.id = RequestId(count);
                Logged::Event(at, Event::Request(request))
            }
            Logged::Action(at, Action::Hit { request, span }) => {
                Logged::Action(at, Action::Hit { request: names[&request], span })
            }
            Logged::Action(at, Action::Wait { request, span, fetch }) => {
                Logged::Action(at, Action::Wait { request: names[&request], span, fetch })
            }
            Logged::Action(at, Action::Deliver { request, outcome }) => {
                Logged::Action(at, Action::Deliver { request: names[&request], outcome })
            }
            other => other,
        })
        .collect()
}

#[test]
fn the_simulator_and_the_live_cache_do_the_same() {
    for (at, words) in LEVELS.into_iter().enumerate() {
        let level = level(words);
        let expected = named(&simulated(&level, &requests(at as u64 + 1)));
        let logged = named(&live(&level, &simulated(&level, &requests(at as u64 + 1))));
        for (n, (live, simulated)) in logged.iter().zip(&expected).enumerate() {
            assert_eq!(live, simulated, "{words:?}: line {n}");
        }
        assert_eq!(logged.len(), expected.len(), "{words:?}");
        let count = |what: fn(&Logged) -> bool| expected.iter().filter(|logged| what(logged)).count();
        let fetches = count(|logged| matches!(logged, Logged::Action(_, Action::Fetch(_))));
        let evictions = count(|logged| matches!(logged, Logged::Action(_, Action::Evict { .. })));
        let hits = count(|logged| matches!(logged, Logged::Action(_, Action::Hit { .. })));
        let hits_min = if words[0] == "none" { 1 } else { 10 };
        assert!(fetches > 40 && evictions > 40 && hits > hits_min, "{words:?}: {fetches}, {evictions}, {hits}");
        if words[0] != "none" {
            let late = |logged: &Logged| matches!(logged, Logged::Action(_, Action::Deliver { outcome, .. }) if outcome.late > 0);
            assert!(expected.iter().any(late), "{words:?}: nobody waited for what was on the way");
        }
    }
}

#[test]
fn the_lower_of_two_levels_does_the_same() {
    for (at, words) in LOWER.into_iter().enumerate() {
        let upper = sim::prefetch::LevelConfig { join: false, ..LevelConfig::new(64, Prefetch::Ra { degree: 4 }) };
        let lower = level(words);
        // One after the other: a mount above has no way to hurry a prefetch that it waits for.
        let apart = |(n, of): (u64, Access)| Access { at: Time::from_millis(80 * n), ..of };
        let requests: Vec<Access> = (0..).zip(requests(at as u64 + 1)).map(apart).collect();
        let log = simulated_below(Some(upper), &lower, &requests);
        let (logged, expected) = (named(&live(&lower, &log)), named(&log));
        for (n, (live, simulated)) in logged.iter().zip(&expected).enumerate() {
            assert_eq!(live, simulated, "{words:?}: line {n}");
        }
        assert_eq!(logged.len(), expected.len(), "{words:?}");
        let count = |demand: fn(u32) -> bool| {
            log.iter().filter(|of| matches!(of, Logged::Event(_, Event::Request(r)) if demand(r.demand_len))).count()
        };
        let (demanded, ahead) = (count(|len| len > 0), count(|len| len == 0));
        assert!(demanded > 10 && ahead > 100, "{words:?}: two requests of a miss: {demanded}, {ahead}");
    }
}

/// The comparison would notice: another seed, or another size, is another log.
#[test]
fn different_caches_have_different_logs() {
    let one = named(&simulated(&level(LEVELS[1]), &requests(1)));
    assert_ne!(one, named(&simulated(&level(LEVELS[1]), &requests(2))));
    let smaller = LevelConfig { capacity_blocks: 63, ..level(LEVELS[1]) };
    assert_ne!(one, named(&simulated(&smaller, &requests(1))));
    assert!(
        one.iter()
            .any(|logged| matches!(logged, Logged::Event(_, Event::Request(r)) if r.span.first != Block::new(0, 0)))
    );
}
