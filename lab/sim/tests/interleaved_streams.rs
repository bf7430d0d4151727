//! 64 sequential streams that take turns: a prefetcher that knows them apart serves nearly all of their reads from the cache, one with a
//! single global history serves none.

use policy::cache::{LevelConfig, Span};
use policy::prefetch::{self as live, Algorithm};
use policy::streams::Streams;
use policy::time::Time;
use sim::block::{Merging, Scheduler};
use sim::prefetch::Prefetch;
use sim::storage::{Array, Device, Service, Storage};
use sim::world::{Access, Arrival, Config, Placement, World};

const STREAMS: u32 = 64;

/// Grouping of requests into streams, as given to the prefetcher.
#[derive(Clone, Copy)]
enum Told {
    ByFile,
    ByAddress,
    Nothing,
}

/// The hit ratio of L1, with one history per stream or one for all. By address, the streams are places of one file.
fn hit_ratio(prefetch: Prefetch, told: Told) -> f64 {
    let mut streams = Streams::new(256);
    let mut access = |turn: u64, file: u32| Access {
        at: Time::ZERO,
        span: match told {
            Told::ByAddress => Span::new(0, u64::from(file) * 4096 + turn, 1),
            Told::ByFile | Told::Nothing => Span::new(file, turn, 1),
        },
        stream: match told {
            Told::ByFile => file,
            Told::ByAddress => streams.enter(Span::new(0, u64::from(file) * 4096 + turn, 1)).name,
            Told::Nothing => 0,
        },
        file_blocks: u64::MAX,
        write: false,
    };
    let turns = (0..200).flat_map(|turn| (0..STREAMS).map(move |file| (turn, file)));
    let trace: Vec<_> = turns.map(|(turn, file)| access(turn, file)).collect();
    let mut config = Config::two_levels(LevelConfig::new(8192, prefetch), LevelConfig::new(1, Prefetch::NONE));
    config.shared.clear();
    config.arrival = Arrival::Closed { think: Time::from_millis(1) };
    let device = Device::Constant(Service::new(Time::from_millis(2), Time::ZERO));
    let storage = Storage::new(vec![device], Array::Single, Scheduler::Noop, Merging::default());
    let placement = Placement::new(&[4096 * u64::from(STREAMS)], 8, storage.sectors());
    let mut world = World::new(config, storage, placement, vec![trace.into_iter()]).unwrap();
    world.run();
    world.tally().levels[0].stats.hit_ratio()
}

#[test]
fn streams_told_apart_hit_and_a_global_history_does_not() {
    for prefetch in [
        Prefetch::Linux2618 { min: 4, max: 32 },
        Prefetch::Live(live::Prefetch::Stream { degree_max: 48, distance: 24 }),
    ] {
        let (apart, together) = (hit_ratio(prefetch, Told::ByFile), hit_ratio(prefetch, Told::Nothing));
        assert!(apart > 0.8 && together < 0.1, "{}: {apart} told apart, {together} together", prefetch.name());
        let detected = hit_ratio(prefetch, Told::ByAddress);
        assert!(detected > 0.8, "{}: {detected} told apart by address", prefetch.name());
    }
    assert!(hit_ratio(Prefetch::NONE, Told::ByFile) < 0.1);
}
