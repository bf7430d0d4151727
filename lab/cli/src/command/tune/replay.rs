//! Replay of a recording through a simulated mount with a block cache, or without one.
//!
//! ```text
//! synchronous clients --- cache of the mount --- block layer --- devices of the first tier, striped
//! ```
//! A client is a sequence of requests of which each came after the answer to the one before. It waits for each answer
//! and then thinks as long as it did in the recording. Requests of one open that overlap have several clients. A write
//! takes device time in the background.

use super::recording::{Recording, Request};
use super::search::{Axis, quoted};
use crate::failure::Result;
use engine::volume::Config;
use node::control::Problem;
use policy::Time;
use policy::cache::{LevelConfig, Span};
use policy::tier::cost::DeviceCost;
use sim::link::Link;
use sim::prefetch::Prefetch;
use sim::setup::Setup;
use sim::storage::Storage;
use sim::world::{Access, Arrival, Placement, World, Writes};
use std::collections::{BTreeSet, HashMap};

/// Prefetchers from simple to complex. The degrees are powers of 4 up to the largest request of the kernel, 1 MiB.
const PREFETCHERS: [&str; 6] = [
    "none",
    "on-demand",
    "stream:degree_max=4",
    "stream:degree_max=16",
    "stream:degree_max=64",
    "stream:degree_max=256",
];
const TRIGGERS: [&str; 2] = ["native", "ets"];
const REPLACEMENTS: [&str; 2] = ["lru", "sarc"];
/// Least size of a cache, and the factor from one size to the next.
const SIZE_MIN: u64 = 1 << 20;
const SIZE_FACTOR: u64 = 4;
/// Sectors of a block.
const BLOCK_SECTORS: u64 = engine::cache::BLOCK_BYTES as u64 / 512;

/// The values of `[cache]` to search. The search begins with the largest cache and the kernel's read-ahead.
pub fn axes(size_max: u64) -> Vec<Axis> {
    let smaller = std::iter::successors(Some(SIZE_MIN), |size| Some(size * SIZE_FACTOR));
    let sizes: Vec<u64> = smaller.take_while(|size| *size < size_max).chain([size_max]).collect();
    let size = |size: &u64| if size.is_multiple_of(1 << 20) { format!("{}MiB", size >> 20) } else { size.to_string() };
    vec![
        ("prefetch", quoted(PREFETCHERS), 1),
        ("trigger", quoted(TRIGGERS), 0),
        ("replacement", quoted(REPLACEMENTS), 0),
        ("size", quoted(sizes.iter().map(size)), sizes.len() - 1),
    ]
}

/// Speed of a tier's devices: as measured, or that of its section.
pub fn speed(config: &Config, tier: u8) -> Result<DeviceCost> {
    let measured = config.targets.iter().filter(|target| target.tier == tier).find_map(|target| target.device);
    let measured = measured.map(|of| DeviceCost {
        read_latency_ns: of.latency_s * 1e9,
        write_latency_ns: of.latency_s * 1e9,
        ..DeviceCost::seconds_per_gb(1e9 / of.read_rate, 1e9 / of.write_rate)
    });
    let speed = measured.or_else(|| config.tiering.speeds.get(usize::from(tier)).copied().flatten());
    let name = config.tiers.get(usize::from(tier)).map_or("", String::as_str);
    Ok(speed.ok_or_else(|| {
        Problem::wrong(format!("volume.toml has no speed of the devices of tier `{name}`"))
            .so("nothing was tuned: the simulator would guess")
            .try_this("measure them: `entrepot-lab bench device --volume volume.toml`")
    })?)
}

/// Devices of a volume's first tier, as a setup of the simulator.
pub fn devices(config: &Config) -> Result<Setup> {
    let first = config.targets.iter().map(|target| target.tier).min().unwrap_or(0);
    let disks = config.targets.iter().filter(|target| target.tier == first).count() as u32;
    let of = speed(config, first)?;
    let (latency_ns, read, write) = (of.read_latency_ns, 1e9 / of.read_ns_per_byte, 1e9 / of.write_ns_per_byte);
    Ok(Setup {
        disk: format!("plain:read={read:.0},write={write:.0},latency={latency_ns:.0}ns"),
        disks,
        raid: (disks > 1).then_some(0),
        stripe_unit: config.layout.stripe_size.to_string(),
        // The targets' workers take awaited reads before prefetches.
        scheduler: "deadline:awaited".into(),
        ..Setup::default()
    })
}

/// Replays the first `count` requests; returns the response time of each, in milliseconds.
pub fn replay(recording: &Recording, count: usize, cache: Option<&LevelConfig>, storage: Storage) -> Vec<f64> {
    let requests = &recording.requests[..count];
    let clients = clients(requests);
    let access = |at: Time, n: usize| {
        let (request, (first, len)) = (&requests[n], requests[n].blocks());
        let (file, index) =
            (if cache.is_some() { request.file } else { n as u32 }, if cache.is_some() { first } else { 0 });
        let file_blocks = recording.file_blocks[request.file as usize];
        Access { at, span: Span::new(file, index, len), stream: request.open, file_blocks, write: request.write }
    };
    let sources: Vec<_> = clients
        .iter()
        .map(|client| client.iter().map(|(at, n)| access(*at, *n)).collect::<Vec<_>>().into_iter())
        .collect();
    // Without a cache each request is a file of its own, so that none finds blocks of another.
    let own: Vec<u64> = requests.iter().map(|request| u64::from(request.blocks().1)).collect();
    let files = if cache.is_some() { &recording.file_blocks } else { &own };
    let placement = Placement::new(files, BLOCK_SECTORS, storage.sectors());
    // The simulator gives each client a level of its own; this one passes everything on.
    let through = LevelConfig { buffers: true, join: false, ..LevelConfig::new(1, Prefetch::NONE) };
    let shared =
        cache.map(|level| LevelConfig { announce: false, ..level.clone().with_prefetch(level.prefetch.into()) });
    let config = sim::world::Config {
        private: vec![through],
        shared: shared.into_iter().collect(),
        link: Link::NONE,
        arrival: Arrival::Thinking,
        until: None,
        writes: Writes::Background,
        check: false,
        per_stream: false,
        sample_every: None,
        log: true,
    };
    let mut world = World::new(config, storage, placement, sources).expect("the levels have been checked");
    world.run();
    let (mut took_ms, mut next) = (vec![0.0; count], vec![0; clients.len()]);
    for answered in world.answered() {
        let client = answered.client as usize;
        took_ms[clients[client][next[client]].1] = answered.took.0 as f64 / 1e6;
        next[client] += 1;
    }
    took_ms
}

/// Divides requests into clients that wait for answers. Each has the numbers of its requests with their times, which
/// grow by the recorded think times.
pub fn clients(requests: &[Request]) -> Vec<Vec<(Time, usize)>> {
    let mut clients: Vec<Vec<(Time, usize)>> = Vec::new();
    let last: HashMap<u32, usize> = requests.iter().enumerate().map(|(n, request)| (request.open, n)).collect();
    // Idle clients by the end of their last request: of each open, and those without one.
    let mut idle: HashMap<Option<u32>, BTreeSet<(u64, usize)>> = HashMap::new();
    for (n, request) in requests.iter().enumerate() {
        let take = |open| idle.get(&open)?.range(..=(request.at_ns, usize::MAX)).next_back().copied();
        let (key, found) = match take(Some(request.open)) {
            Some(found) => (Some(request.open), Some(found)),
            None => (None, take(None)),
        };
        let (ended_ns, client) = found.unwrap_or_else(|| {
            clients.push(Vec::new());
            (0, clients.len() - 1)
        });
        if found.is_some_and(|found| !idle.get_mut(&key).is_some_and(|set| set.remove(&found))) {
            unreachable!("the client was found there");
        }
        let before = clients[client].last().map_or(Time::ZERO, |(at, _)| *at);
        clients[client].push((before + Time(request.at_ns - ended_ns), n));
        // The simulator answers writes at once.
        let ends_ns = request.at_ns + if request.write { 0 } else { request.took_ns };
        let open = (last[&request.open] != n).then_some(request.open);
        idle.entry(open).or_default().insert((ends_ns, client));
    }
    clients
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(at_ms: u64, took_ms: u64, open: u32, offset: u64) -> Request {
        let (at_ns, took_ns) = (at_ms * 1_000_000, took_ms * 1_000_000);
        Request { at_ns, took_ns, open, file: 0, offset, bytes: 4096, write: false }
    }

    fn constant() -> Storage {
        Setup { disk: "constant:5ms".into(), scheduler: "noop".into(), ..Setup::default() }.storage().expect("a device")
    }

    #[test]
    fn requests_that_overlap_have_clients_of_their_own() {
        // The second request overlaps the first. Open 1 comes when open 0 is over, and takes its client.
        let requests = [read(1, 5, 0, 0), read(3, 5, 0, 4096), read(9, 1, 0, 8192), read(20, 1, 1, 0)];
        let shown: Vec<Vec<(u64, usize)>> = clients(&requests)
            .iter()
            .map(|client| client.iter().map(|(at, n)| (at.0 / 1_000_000, *n)).collect())
            .collect();
        assert_eq!(shown, [vec![(1, 0)], vec![(3, 1), (4, 2), (14, 3)]]);
    }

    #[test]
    fn without_a_cache_each_read_costs_the_device_and_with_one_a_repeated_read_is_free() {
        let requests: Vec<_> = (0..4).map(|n| read(10 * n, 5, 0, 1024 * (n % 2))).collect();
        let recording = Recording::of(requests.iter().map(|r| Request { bytes: 512, ..*r }).collect(), 0);
        assert_eq!(replay(&recording, 4, None, constant()), [5.0; 4]);
        let level = LevelConfig::new(16, policy::prefetch::Prefetch::None);
        assert_eq!(replay(&recording, 4, Some(&level), constant()), [5.0, 0.0, 0.0, 0.0]);
    }
}
