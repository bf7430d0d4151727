//! Readers beside truncations.

use super::*;
use crate::cache::{BlockCache, CACHED_END, Stream};
use crate::file::held::tests::World;
use crate::file::{InlineRead, OnDeadline, Pool, Reading};
use meta::stub::memory::MemoryStub;
use object::target::{MemoryMedium, TargetSpec, Targets, TargetsOptions};
use policy::TargetId;
use policy::cache::LevelConfig;
use policy::layout::Placement;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Number of truncations. Without the counter, a run of so many on two busy cores had a `read` that returned zeros.
const ROUNDS: usize = 1000;

/// Watchdog for reads that never miss their deadline.
struct Never;

impl OnDeadline for Never {
    fn missed(&self) {}
}

/// A file whose bytes are in the stub up to `inline_bytes_max`, and in two objects beyond it.
fn file(inline_bytes_max: u64) -> (Arc<File>, Arc<BlockCache>) {
    let targets = Targets::new(TargetsOptions::inline());
    for id in 0..2 {
        targets.add(TargetSpec::new(TargetId(id), 0, Arc::new(MemoryMedium::new(u64::from(id)))));
    }
    let next = AtomicU64::new(1);
    let place =
        Placement { stripe_size: 4096, stripe_count: 2, single_bytes_max: 0, segment_bytes: 0, mirrors: 1, tier: None };
    let next = move || next.fetch_add(1, Ordering::Relaxed);
    let pool = Arc::new(Pool { inline_bytes_max, ..Pool::new(targets, next, place) });
    let level = LevelConfig::new(16, policy::words::prefetch("none").unwrap());
    let cache = BlockCache::new(level, Duration::from_secs(60)).unwrap();
    assert!(pool.cache.set(cache.clone()).is_ok());
    (File::open(Arc::new(MemoryStub::new()), pool).unwrap(), cache)
}

/// Repeatedly empties and writes the file, with no byte zero, while `read` reads it.
fn beside_truncations(file: &Arc<File>, size: usize, mut read: impl FnMut(&mut [u8]) -> Option<usize> + Send) {
    let (over, begun) = (AtomicBool::new(false), AtomicBool::new(false));
    file.write(0, &vec![1; size]).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut bytes = vec![0xee; 2 * size];
            while !over.load(Ordering::Acquire) {
                let zero = read(&mut bytes).and_then(|read| bytes[..read].iter().position(|byte| *byte == 0));
                begun.store(true, Ordering::Release);
                if zero.is_some() {
                    return zero;
                }
            }
            None
        });
        while !begun.load(Ordering::Acquire) && !reader.is_finished() {
            std::thread::yield_now();
        }
        for round in 0..ROUNDS {
            file.truncate(0).unwrap();
            file.write(0, &vec![1; size - 8 * (round % 3)]).unwrap();
        }
        over.store(true, Ordering::Release);
        assert_eq!(reader.join().unwrap(), None, "a byte of {size} was read that was never written");
    });
}

/// [S-350]
#[test]
fn a_read_beside_truncations_returns_no_zeros_that_were_never_written() {
    for (inline_bytes_max, size) in [(4096, 48), (0, 3000), (0, 20_000), (0, 300_000)] {
        let (file, _cache) = file(inline_bytes_max);
        beside_truncations(&file, size, |bytes| Some(file.read(0, bytes).unwrap()));
    }
}

/// [S-350]
#[test]
fn nor_does_a_read_on_the_thread_of_its_caller() {
    let (file, _cache) = file(0);
    let request: Arc<dyn OnDeadline> = Arc::new(Never);
    beside_truncations(&file, 3000, |bytes| match file.read_inline(0, bytes, &request) {
        InlineRead::Done(read) => Some(read),
        InlineRead::NotNow | InlineRead::Taken => None,
    });
}

/// [S-350]
#[test]
fn nor_does_a_read_through_the_cache() {
    let (file, cache) = file(0);
    let stream = Stream::new(&cache, 0);
    beside_truncations(&file, 3000, |bytes| match file.begin_read(&stream, 0, bytes) {
        Reading::Done(read) => Some(read),
        Reading::Waits(ticket) => {
            let read = ticket.finish().unwrap();
            bytes[..read.len()].copy_from_slice(&read);
            Some(read.len())
        }
        Reading::Uncached => None,
    });
}

#[test]
fn a_read_beyond_the_last_block_number_of_the_cache_is_uncached() {
    let (file, cache) = file(0);
    file.write(0, &[1; 10]).unwrap();
    let stream = Stream::new(&cache, 0);
    let is_uncached = |offset| matches!(file.begin_read(&stream, offset, &mut [0; 10]), Reading::Uncached);
    assert!(!is_uncached(0));
    file.size.store(1 << 60, Ordering::Release);
    assert!(is_uncached(CACHED_END - 5) && is_uncached(CACHED_END) && is_uncached(1 << 59));
}

/// [S-350]
#[test]
fn a_read_on_a_node_that_knows_the_size_before_another_cut_the_file_ends_where_it_ends_now() {
    for (size, now) in [(48, 1), (900, 0), (20_000, 5), (20_000, 6000), (1 << 20, 5)] {
        let world = World::new();
        let (a, b) = (world.node(1), world.node(2));
        a.file.write(0, &vec![1; size]).unwrap();
        b.file.refresh().unwrap();
        a.file.truncate(0).unwrap();
        a.file.write(0, &vec![2; now]).unwrap();
        let mut bytes = vec![0xee; size];
        let read = b.file.read(0, &mut bytes).unwrap();
        assert!(bytes[..read] == vec![2; now], "{size} {now}: {read} bytes");
    }
}

/// [S-350]
#[test]
fn a_hole_at_the_end_of_an_object_is_read_on_nodes() {
    let world = World::new();
    let (a, b) = (world.node(1), world.node(2));
    a.file.write(0, &[1; 5000]).unwrap();
    a.file.truncate(100_000).unwrap();
    b.file.refresh().unwrap();
    let mut bytes = vec![0xee; 100_000];
    assert_eq!(b.file.read(0, &mut bytes).unwrap(), 100_000);
    assert!(bytes[..5000] == [1; 5000] && bytes[5000..].iter().all(|byte| *byte == 0));
}

/// [S-350]
#[test]
fn a_truncation_is_in_doubt_until_its_answer_has_arrived() {
    let (file, _cache) = file(0);
    file.write(0, &[1; 100]).unwrap();
    file.answers_have_arrived();
    file.truncate(10).unwrap();
    assert!(file.was_cut_just_now());
    file.answers_have_arrived();
    assert!(!file.was_cut_just_now(), "its writer sent another request");
    file.truncate(0).unwrap();
    file.wait_for_kernel_after_cut();
    assert!(!file.was_cut_just_now());
}
