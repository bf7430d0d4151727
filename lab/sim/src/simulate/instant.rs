//! A level without a device: fetches take no time. For hit ratios and the quality of prefetching, at the speed of
//! reading requests.
//!
//! Each client has one level of its own. Requests go in groups, so that the level can look ahead to the next blocks
//! ([`Level::foresee`]). The order is that of the trace, and no figure depends on the grouping.

use super::SimulateError;
use crate::block;
use crate::latency::Latencies;
use crate::prefetch::{Level, LevelConfig};
use crate::replay::Replay;
use crate::setup::{Setup, SetupError};
use crate::world::{Access, LevelTally, Tally, Writes};
use policy::cache::{Block, Request, RequestId};
use policy::time::Time;

/// Requests of one group.
const GROUP: usize = 32;

/// Rejects settings that need a device.
pub(super) fn check(setup: &Setup) -> Result<(), SetupError> {
    let wrong = |why: &str| Err(SetupError::new("disk", "none", why));
    if setup.levels.len() > 1 {
        return wrong("without a device there is one level; leave the others out or name a disk");
    }
    if setup.sample_every.is_some() || setup.log || setup.until.is_some() || setup.paced || setup.closed {
        return wrong(
            "without a device nothing takes time: no timeline, no --log, no --until, no pace; leave them out or name a disk",
        );
    }
    Ok(())
}

/// Replays each source through a level of its own.
pub(super) fn run(
    config: &LevelConfig,
    writes: Writes,
    check: bool,
    sources: &mut [Replay<'_>],
) -> Result<Tally, SimulateError> {
    let mut all = Sums::default();
    let mut levels: Vec<Level> = Vec::new();
    for (client, source) in sources.iter_mut().enumerate() {
        let mut level = Level::new(config.clone())?;
        all.replay(&mut level, client as u32, writes, check, source);
        levels.push(level);
    }
    Ok(all.tally(config, &levels))
}

/// Counters of the requests.
#[derive(Default)]
struct Sums {
    reads: Latencies,
    clients: Vec<Latencies>,
    end: Time,
    read_blocks: u64,
    writes: u64,
    written_blocks: u64,
    dropped_writes: u64,
}

impl Sums {
    fn replay(&mut self, level: &mut Level, client: u32, writes: Writes, check: bool, source: &mut Replay<'_>) {
        let mut group = Vec::with_capacity(GROUP);
        let mut blocks: Vec<Block> = Vec::with_capacity(GROUP);
        let mut reads = 0;
        loop {
            group.clear();
            group.extend(source.by_ref().take(GROUP));
            if group.is_empty() {
                break;
            }
            blocks.clear();
            blocks.extend(group.iter().map(|access: &Access| access.span.first));
            let single = |access: &Access| access.span.len == 1 && !access.write;
            if !check && level.is_plain() && group.iter().all(single) {
                self.end = group.iter().map(|access| access.at).fold(self.end, Time::max);
                self.read_blocks += group.len() as u64;
                reads += group.len() as u64;
                level.replay_blocks(self.end, &blocks);
                continue;
            }
            level.foresee(&blocks);
            for access in &group {
                self.end = self.end.max(access.at);
                let blocks = u64::from(access.span.len);
                if access.write {
                    if writes == Writes::Dropped {
                        self.dropped_writes += 1;
                        continue;
                    }
                    self.writes += 1;
                    self.written_blocks += blocks;
                } else {
                    reads += 1;
                    self.read_blocks += blocks;
                }
                level.replay(access.at, &request(access, client));
                if check && let Err(violation) = level.check() {
                    panic!("level {client}: {violation}");
                }
            }
        }
        let mut latencies = Latencies::default();
        latencies.add_many(Time::ZERO, reads);
        self.reads.merge(&latencies);
        self.clients.push(latencies);
    }

    fn tally(self, config: &LevelConfig, levels: &[Level]) -> Tally {
        let stats = levels.iter().map(Level::stats).fold(Default::default(), |mut sum, stats| {
            crate::world::add(&mut sum, &stats);
            sum
        });
        let level = LevelTally {
            capacity_blocks: config.capacity_blocks,
            stats,
            streams: levels.iter().flat_map(Level::stream_stats).collect(),
        };
        Tally {
            end: self.end,
            reads: self.reads,
            clients: self.clients,
            read_blocks: self.read_blocks,
            writes: self.writes,
            written_blocks: self.written_blocks,
            dropped_writes: self.dropped_writes,
            levels: vec![level],
            streams: Vec::new(),
            link_replies: 0,
            link_blocks: 0,
            storage: block::Counts::default(),
            storage_busy_ns: 0,
        }
    }
}

fn request(access: &Access, client: u32) -> Request {
    Request {
        id: RequestId(0),
        span: access.span,
        demand_len: access.span.len,
        stream: access.stream,
        client,
        file_blocks: access.file_blocks,
        write: access.write,
    }
}
