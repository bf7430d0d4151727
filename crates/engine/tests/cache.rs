//! The block cache before files: never a stale byte, never more memory than it has, whatever changes beneath.

mod gate;
#[allow(dead_code)]
mod world;

use engine::cache::{BLOCK_BYTES, BlockCache, Stream};
use engine::file::{File, MirrorWrites, Reading};
use gate::Gate;
use object::target::{
    Execution, Faults, InlineSlots, Limits, Medium, MemoryMedium, Order, TargetSpec, Targets, TargetsOptions,
};
use policy::cache::LevelConfig;
use policy::layout::Placement;
use policy::words;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use world::interposed::{self, Interposed, Op};
use world::{Options, Random, World};

const BLOCK: u64 = BLOCK_BYTES as u64;
const DEADLINE: Duration = Duration::from_millis(300);
const SIZE_MAX: u64 = 96 * BLOCK;

/// A cache in words: prefetcher, replacement (empty: what goes with it), trigger, coordinator.
type Words = (&'static str, &'static str, &'static str, &'static str);

const CACHES: [Words; 8] = [
    ("none", "lru", "native", "none"),
    ("on-demand", "lru", "native", "du"),
    ("stream", "", "native", "pfc"),
    ("stream", "sarc", "fixed:8", "none"),
    ("on-demand", "", "native", "labels"),
    ("stream", "", "ets:redistribute", "labels+pfc:file"),
    ("on-demand", "sarc", "esf", "pfc:client"),
    ("stream", "", "native", "du"),
];

/// A steady stream has its next block brought by each read.
const ONE_AHEAD: Words = ("stream:degree_max=1,distance=1", "lru", "native", "du");

/// Sets of four blocks. Reads of one block each from the start of a file bring:
///
/// ```text
/// at      0      1      2       6        10        14  and so on, every four blocks
/// brings  0..2   2..6   6..10   10..14   14..18    18..22
/// ```
const FOUR_AHEAD: Words = ("stream:degree_max=4,distance=4", "lru", "native", "du");

fn level(blocks: u32, (prefetch, replacement, trigger, coordinator): Words) -> LevelConfig {
    let mut level = LevelConfig::new(blocks, words::prefetch(prefetch).unwrap());
    if !replacement.is_empty() {
        level.replacement = words::replacement(replacement).unwrap();
    }
    level.trigger = words::trigger(trigger).unwrap();
    level.coordination = words::coordination(coordinator).unwrap();
    level
}

/// Reads up to `buf.len()` bytes through the cache and waits for them; fewer only at the end of the file.
fn read_through(file: &Arc<File>, stream: &Stream, offset: u64, buf: &mut [u8]) -> object::Result<usize> {
    match file.begin_read(stream, offset, buf) {
        Reading::Done(len) => Ok(len),
        Reading::Uncached => file.read(offset, buf),
        Reading::Waits(ticket) => {
            let bytes = ticket.finish()?;
            buf[..bytes.len()].copy_from_slice(&bytes);
            Ok(bytes.len())
        }
    }
}

fn placement(mirrors: usize) -> Placement {
    Placement {
        stripe_size: 2 * BLOCK,
        stripe_count: 3,
        single_bytes_max: 4 * BLOCK,
        segment_bytes: 0,
        mirrors,
        tier: None,
    }
}

/// A world whose file is read through a cache of so many blocks.
fn cached(mirrors: usize, blocks: u32, words: Words, seed: u64) -> (World, Arc<BlockCache>) {
    let options = Options {
        targets: 7,
        placement: placement(mirrors),
        mirror_writes: MirrorWrites::Sync,
        inline_bytes_max: BLOCK,
    };
    let world = World::new(options, seed);
    let cache = BlockCache::new(level(blocks, words), Duration::from_secs(5)).unwrap();
    world.life.pool.cache.set(cache.clone()).ok().unwrap();
    (world, cache)
}

fn filled(random: &mut Random) -> Vec<u8> {
    let most = if random.chance(20) { 20 * BLOCK } else { 2 * BLOCK };
    let len = 1 + random.below(most);
    let value = random.next() as u8 | 1;
    (0..len).map(|i| value.wrapping_add((i / 97) as u8)).collect()
}

/// [S-090]
#[test]
fn reads_through_the_cache_are_those_of_a_file_without() {
    for (at, words) in CACHES.into_iter().enumerate() {
        for seed in 0..6u64 {
            let mut random = Random(seed * 100 + at as u64);
            let blocks = [3, 16, 64, 200][random.below(4) as usize];
            let mirrors = 1 + random.below(2) as usize;
            let (world, cache) = cached(mirrors, blocks, words, seed);
            let file = &world.life.file;
            let streams: Vec<Stream> = (0..3).map(|n| Stream::new(&cache, n)).collect();
            let ahead = streams[0].downgrade().speculative().unwrap();
            let (mut model, mut next) = (Vec::<u8>::new(), [0u64; 4]);
            for step in 0..400 {
                let end = model.len() as u64;
                match random.below(20) {
                    0..=2 => {
                        let data = filled(&mut random);
                        let offset = random.below(end.min(SIZE_MAX) + 3 * BLOCK);
                        file.write(offset, &data).unwrap();
                        model.resize(model.len().max(offset as usize + data.len()), 0);
                        model[offset as usize..offset as usize + data.len()].copy_from_slice(&data);
                    }
                    3 if random.chance(50) => {
                        let size = random.below(SIZE_MAX);
                        file.truncate(size).unwrap();
                        model.resize(size as usize, 0);
                    }
                    4 if end > 0 => {
                        let (offset, len) = (random.below(end), 1 + random.below(6 * BLOCK));
                        let grows = random.chance(30);
                        if grows {
                            file.zero(offset, len, false).unwrap();
                            model.resize(model.len().max((offset + len) as usize), 0);
                        } else {
                            file.punch(offset, len).unwrap();
                        }
                        let to = model.len().min((offset + len) as usize);
                        model[offset as usize..to].fill(0);
                    }
                    5 if end > 0 => {
                        let len = random.below(2 * BLOCK) + 1;
                        file.allocate(end, len, false).unwrap();
                        model.resize(model.len() + len as usize, 0);
                    }
                    6 if mirrors == 2 => {
                        // One target away: its mirror goes stale with the next write, reads take the other.
                        let order = if random.chance(50) { Order::Fail } else { Order::Restore };
                        let targets = &world.life.pool.targets;
                        let failed = targets.all().iter().any(|t| t.state() == object::target::State::Failed);
                        let id = file.layout().and_then(|l| l.objects().next().map(|(_, o)| o.target));
                        if let Some(id) = id.filter(|_| matches!(order, Order::Restore) || !failed) {
                            targets.operate(id, order).unwrap();
                        }
                    }
                    _ => {
                        let who = random.below(4) as usize;
                        let stream = streams.get(who).unwrap_or(&ahead);
                        let jump = random.chance(15) || next[who] >= end;
                        let offset = if jump { random.below(end + BLOCK) } else { next[who] };
                        let mut buf = vec![0xEE; 1 + random.below(5 * BLOCK) as usize];
                        let got = read_through(file, stream, offset, &mut buf).unwrap();
                        let from = (offset as usize).min(model.len());
                        let to = (offset as usize + buf.len()).min(model.len());
                        assert!(
                            buf[..got] == model[from..to],
                            "{words:?} seed {seed} step {step}: {got} bytes at {offset}"
                        );
                        next[who] = offset + got as u64;
                    }
                }
                cache.check().unwrap_or_else(|e| panic!("{words:?} seed {seed} step {step}: {e}"));
            }
            let counts = cache.counts();
            assert!(counts.memory_bytes <= u64::from(blocks) * BLOCK, "{counts:?}");
            assert!(counts.asked > 500 && counts.hit > 0, "{words:?} seed {seed}: {counts:?}");
        }
    }
}

/// A file over targets in memory with workers of their own, behind a cache.
fn threaded(words: Words, blocks: u32, gate: Option<&Arc<Gate>>) -> (World, Arc<BlockCache>, Arc<File>) {
    let deadline = gate.map_or(Duration::from_secs(5), |_| DEADLINE);
    let limits = Limits { deadline, workers_max: 64, ..Limits::default() };
    threaded_on(words, blocks, gate, 4, limits, placement(1))
}

/// The same over so many targets with these limits.
fn threaded_on(
    words: Words,
    blocks: u32,
    gate: Option<&Arc<Gate>>,
    targets: u16,
    limits: Limits,
    placement: Placement,
) -> (World, Arc<BlockCache>, Arc<File>) {
    let (world, _) = cached(1, 1, words, 1);
    let (deadline, count) = (limits.deadline, targets);
    let slots = Arc::new(InlineSlots::new(8));
    let targets =
        Targets::new(TargetsOptions { execution: Execution::Threads, limits, health: Default::default(), slots });
    for id in 0..count {
        let medium: Arc<dyn Medium> = Arc::new(MemoryMedium::new(u64::from(id)));
        let medium = match gate {
            Some(gate) => Arc::new(Interposed::new(medium, gate.clone())),
            None => medium,
        };
        targets.add(TargetSpec::new(policy::TargetId(id), 0, medium));
    }
    let cache = BlockCache::new(level(blocks, words), deadline).unwrap();
    let next = AtomicU64::new(1 << 32);
    let pool = engine::file::Pool {
        garbage: world.life.pool.garbage.clone(),
        ..engine::file::Pool::new(targets, move || next.fetch_add(1, Ordering::Relaxed), placement)
    };
    pool.cache.set(cache.clone()).ok().unwrap();
    let file = File::open(Arc::new(meta::stub::memory::MemoryStub::new()), Arc::new(pool)).unwrap();
    (world, cache, file)
}

/// Every block holds the number of its last write. A read that begins after a write was acknowledged sees it or a
/// later one.
///
/// [S-090]
#[test]
fn what_was_acknowledged_is_what_later_readers_see() {
    const BLOCKS: u64 = 64;
    for words in [CACHES[1], CACHES[5], CACHES[7]] {
        let (_world, cache, file) = threaded(words, 24, None);
        let block = |version: u64| version.to_le_bytes().repeat(BLOCK as usize / 8);
        let acknowledged: Vec<AtomicU64> = (0..BLOCKS).map(|_| AtomicU64::new(0)).collect();
        file.write(0, &vec![0; (BLOCKS * BLOCK) as usize]).unwrap();
        let over = AtomicBool::new(false);
        let (seen, stale) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for reader in 0..3u64 {
                let (file, cache, over, acknowledged, seen, stale) =
                    (&file, &cache, &over, &acknowledged, &seen, &stale);
                scope.spawn(move || {
                    let stream = Stream::new(cache, 0);
                    let mut random = Random(reader);
                    let mut at = 0;
                    while !over.load(Ordering::Relaxed) {
                        at = if random.chance(5) { random.below(BLOCKS) } else { (at + 1) % BLOCKS };
                        let least = acknowledged[at as usize].load(Ordering::SeqCst);
                        let mut buf = vec![0; BLOCK as usize];
                        read_through(file, &stream, at * BLOCK, &mut buf).unwrap();
                        let (first, last) = (&buf[..8], &buf[BLOCK as usize - 8..]);
                        let least_seen = [first, last].map(|v| u64::from_le_bytes(v.try_into().unwrap()));
                        stale.fetch_add(u64::from(least_seen.iter().any(|v| *v < least)), Ordering::Relaxed);
                        seen.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let mut random = Random(99);
            for version in 1..=3000u64 {
                let at = random.below(BLOCKS);
                file.write(at * BLOCK, &block(version)).unwrap();
                acknowledged[at as usize].store(version, Ordering::SeqCst);
            }
            over.store(true, Ordering::Relaxed);
        });
        assert_eq!(stale.load(Ordering::Relaxed), 0, "{words:?}: of {} reads", seen.load(Ordering::Relaxed));
        let counts = cache.counts();
        assert!(counts.hit > 0 && counts.evicted > 0, "{counts:?}");
        cache.check().unwrap();
    }
}

/// A prefetch that waits for the target's worker goes next when a reader comes for its block: it is not behind
/// prefetches that were handed over before it.
#[test]
fn a_prefetch_that_a_reader_comes_for_goes_before_the_others() {
    let gate = Arc::new(Gate::before(Op::Read));
    let placement = Placement { stripe_count: 1, single_bytes_max: u64::MAX, ..placement(1) };
    let limits = Limits { deadline: Duration::from_secs(30), workers_max: 1, ..Limits::default() };
    let (_world, cache, file) = threaded_on(ONE_AHEAD, 64, Some(&gate), 1, limits, placement);
    let content: Vec<u8> = (0..64 * BLOCK).map(|i| (i / 61) as u8 | 1).collect();
    file.write(0, &content).unwrap();
    let streams: [Stream; 5] = std::array::from_fn(|_| Stream::new(&cache, 0));
    let mut buf = vec![0; BLOCK as usize];
    let mut begin = |stream: usize, at: u64| file.begin_read(&streams[stream], at * BLOCK, &mut buf);
    let finish = |reading: Reading, at: u64| {
        let Reading::Waits(ticket) = reading else { panic!("block {at} is there") };
        let from = (at * BLOCK) as usize;
        assert!(ticket.finish().unwrap() == content[from..from + BLOCK as usize], "block {at}");
    };
    // The second read of a stream begins a run. The third brings the fourth block in its own fetch.
    let starts = [10, 20, 30, 40];
    for (stream, start) in starts.into_iter().enumerate() {
        (start..start + 3).for_each(|at| finish(begin(stream, at), at));
    }
    // The only worker hangs in a read of one block: a stream's first read, after a jump, brings no other.
    gate.close();
    let hangs = begin(4, 60);
    gate.wait_for(1);
    // Each hit hands over a prefetch of the next block: 14, 24, 34 and 44, in this order.
    for (stream, start) in starts.into_iter().enumerate() {
        let at = start + 3;
        assert!(matches!(begin(stream, at), Reading::Done(_)), "block {at} was brought before");
    }
    let asked = begin(3, 44);
    // The block of the fetch that hangs, and the one that was asked for.
    gate.admit(1 + 1);
    finish(hangs, 60);
    finish(asked, 44);
    let counts = cache.counts();
    assert_eq!((counts.around, counts.late), (0, 1), "{counts:?}");
    // Prefetched are 13, 23, 33 and 43, then 14, 24, 34 and 44, and 45 by the read of 44.
    assert_eq!((counts.hit, counts.prefetched), (4, 4 + 4 + 1), "{counts:?}");
    assert!(matches!(begin(0, 14), Reading::Waits(_)), "it was handed over first and nobody came for it");
    gate.open();
    cache.check().unwrap();
}

/// Nothing beyond its size is held, whatever is on the way: fetches that hang keep their memory until they return, and
/// readers go on without.
///
/// [S-091] [S-092]
#[test]
fn fetches_that_hang_keep_their_memory_and_no_reader() {
    let gate = Arc::new(Gate::before(Op::Read));
    let (_world, cache, file) = threaded(FOUR_AHEAD, 16, Some(&gate));
    let content: Vec<u8> = (0..64 * BLOCK).map(|i| (i / 61) as u8 | 1).collect();
    file.write(0, &content).unwrap();
    gate.close();
    let stream = Stream::new(&cache, 0);
    let mut buf = vec![0; BLOCK as usize];
    // The reads are begun and not waited for: their fetches are on the way, until no frame is left.
    let begun: Vec<Reading> = (0..22).map(|at| file.begin_read(&stream, at * BLOCK, &mut buf)).collect();
    let counts = cache.counts();
    assert_eq!((counts.inventory, counts.memory_bytes), (16, 16 * BLOCK), "{counts:?}");
    // Blocks 0 to 15 have the frames. Of 14..18 two blocks are dropped, of 18..22 and 22..26 all.
    assert_eq!(counts.prefetch_dropped, 2 + 4 + 4, "{counts:?}");
    // Read 0 is missed, and brings 1. Reads 1 to 15 find prefetches on the way; 16 to 21 find none and pass through.
    assert_eq!((counts.hit, counts.late, counts.missed), (0, 15, 1 + 6), "{counts:?}");
    cache.check().unwrap();
    gate.open();
    for (at, reading) in begun.into_iter().enumerate() {
        let Reading::Waits(ticket) = reading else { panic!("read {at} found what nobody could fetch") };
        let from = at * BLOCK as usize;
        assert!(ticket.finish().unwrap() == content[from..from + BLOCK as usize], "read {at}");
    }
    gate.close();
    // The next block was dropped above, and is missing. Its read brings 26..30, too, which hang as well.
    let Reading::Waits(first) = file.begin_read(&stream, 22 * BLOCK, &mut buf) else { panic!("it was dropped") };
    let Reading::Waits(second) = file.begin_read(&stream, 22 * BLOCK, &mut buf) else { panic!("it is on the way") };
    std::thread::scope(|scope| {
        let began = std::time::Instant::now();
        let late = scope.spawn(move || second.finish());
        assert!(first.finish().is_err(), "the only copy hangs");
        assert!(late.join().unwrap().is_err());
        assert!(began.elapsed() < 20 * DEADLINE, "each waited for a few deadlines, not for the target");
    });
    assert!(cache.counts().memory_bytes <= 16 * BLOCK);
    gate.open();
}

/// [S-092]
#[test]
fn a_prefetch_that_fails_is_counted_and_nobody_hears_of_it() {
    let (world, cache) = cached(1, 64, FOUR_AHEAD, 3);
    let file = &world.life.file;
    let content: Vec<u8> = (0..SIZE_MAX).map(|i| (i / 61) as u8 | 1).collect();
    file.write(0, &content).unwrap();
    let stream = Stream::new(&cache, 0);
    let read = |at: u64| -> object::Result<()> {
        let mut buf = vec![0; BLOCK as usize];
        let got = read_through(file, &stream, at * BLOCK, &mut buf)?;
        assert!(got == buf.len() && buf == content[(at * BLOCK) as usize..((at + 1) * BLOCK) as usize], "block {at}");
        Ok(())
    };
    // Brings blocks 0 to 9.
    (0..3).for_each(|at| read(at).unwrap());
    let broken = |broken: bool| {
        let faults = Faults { io_chance: if broken { u16::MAX } else { 0 }, ..Faults::default() };
        world.media.iter().for_each(|medium| medium.set_faults(faults.clone()));
    };
    broken(true);
    // Read 6 triggers 10..14. The second read of 6 is a step back, so 7 begins anew with 7..9, which are here. Then 8
    // triggers 9..13, of which 9 is here, and 9 triggers 13..17. Blocks 10 to 13 thus fail twice.
    let mut failed = 0;
    for (at, fails) in [(3, 0), (4, 0), (5, 0), (6, 4), (6, 0), (7, 0), (8, 3), (9, 4)] {
        read(at).expect("it is here; only what it triggers fails");
        cache.check().unwrap();
        failed += fails;
        let counts = cache.counts();
        assert_eq!((counts.failed, counts.around), (failed, 0), "after block {at}: {counts:?}");
    }
    broken(false);
    for at in 0..SIZE_MAX / BLOCK {
        read(at).unwrap();
    }
    cache.check().unwrap();
}
