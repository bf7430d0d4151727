//! 64 sequential streams that take turns: a prefetcher that knows them apart serves nearly all of their reads from the cache, one with a
//! single global history serves none.

use policy::cache::{LevelConfig, Span};
use policy::prefetch::Prefetch;
use policy::time::Time;
use sim::block::{Merging, Scheduler};
use sim::storage::{Array, Device, Service, Storage};
use sim::world::{Access, Arrival, Config, Placement, World};

const STREAMS: u32 = 64;

/// The hit ratio of L1, with one history per stream or one for all.
fn hit_ratio(prefetch: Prefetch, told_apart: bool) -> f64 {
    let access = |turn: u64, file: u32| Access {
        at: Time::ZERO,
        span: Span::new(file, turn, 1),
        stream: if told_apart { file } else { 0 },
        file_blocks: 4096,
        write: false,
    };
    let trace: Vec<_> = (0..200).flat_map(|turn| (0..STREAMS).map(move |file| access(turn, file))).collect();
    let mut config = Config::two_levels(LevelConfig::new(8192, prefetch), LevelConfig::new(1, Prefetch::None));
    config.shared.clear();
    config.arrival = Arrival::Closed { think: Time::from_millis(1) };
    let device = Device::Constant(Service::new(Time::from_millis(2), Time::ZERO));
    let storage = Storage::new(vec![device], Array::Single, Scheduler::Noop, Merging::default());
    let placement = Placement::new(&[4096; STREAMS as usize], 8, storage.sectors());
    let mut world = World::new(config, storage, placement, vec![trace.into_iter()]).unwrap();
    world.run();
    world.tally().levels[0].stats.hit_ratio()
}

#[test]
fn streams_told_apart_hit_and_a_global_history_does_not() {
    for prefetch in [Prefetch::Linux2618 { min: 4, max: 32 }, Prefetch::Stream { degree_max: 48, distance: 24 }] {
        let (apart, together) = (hit_ratio(prefetch, true), hit_ratio(prefetch, false));
        assert!(apart > 0.8 && together < 0.1, "{}: {apart} told apart, {together} together", prefetch.name());
    }
    assert!(hit_ratio(Prefetch::None, true) < 0.1);
}
