//! The level's LRU against the slowest LRU there is.

use crate::cache::*;
use crate::prefetch::Prefetch;
use crate::time::Time;
use proptest::prelude::*;
use std::collections::VecDeque;

proptest! {
    /// A replay hits exactly where a list that is searched from the front hits.
    #[test]
    fn a_replay_is_lru(
        capacity in 1u32..40,
        requests in prop::collection::vec((0u32..3, 0u64..60, 1u32..5), 1..400),
    ) {
        let mut level = Level::new(LevelConfig::new(capacity, Prefetch::None)).unwrap();
        let mut slow: VecDeque<Block> = VecDeque::new();
        for (file, index, len) in requests {
            let span = Span::new(file, index, len);
            let mut hit = 0;
            for block in span.blocks() {
                if let Some(at) = slow.iter().position(|other| *other == block) {
                    hit += 1;
                    slow.remove(at);
                }
                slow.push_front(block);
                slow.truncate(capacity as usize);
            }
            let outcome = level.replay(Time::ZERO, &Request::read(0, span));
            prop_assert_eq!(outcome, Outcome { hit, late: 0, missed: len - hit });
            level.check().unwrap();
        }
    }

    /// The fast level does and counts what the level does, request by request, whatever of it is asked in one call.
    #[test]
    fn the_fast_level_is_the_level(
        capacity in 1u32..300,
        spread in 1u64..600,
        requests in prop::collection::vec((0u32..2, any::<u32>(), 1u32..5, 0u32..8), 1..800),
    ) {
        let config = LevelConfig::new(capacity, Prefetch::None);
        let (mut level, mut fast) = (Level::new(config.clone()).unwrap(), InstantLru::new(&config).unwrap());
        let mut single = Vec::new();
        let read_together = |single: &mut Vec<Block>, level: &mut Level, fast: &mut InstantLru| {
            let each = |&first: &Block| level.replay(Time::ZERO, &Request::read(0, Span { first, len: 1 })).hit;
            let hit: u32 = single.iter().map(each).sum();
            assert_eq!(fast.read_blocks(single).hit, hit);
            single.clear();
        };
        for (file, index, len, kind) in requests {
            let span = Span::new(file, u64::from(index) % spread, len);
            if kind < 5 {
                single.push(span.first);
                continue;
            }
            read_together(&mut single, &mut level, &mut fast);
            let request = Request { write: kind == 5, ..Request::read(0, span) };
            let outcome = level.replay(Time::ZERO, &request);
            if request.write {
                fast.write(span);
            } else {
                prop_assert_eq!(fast.read(span), outcome);
            }
        }
        read_together(&mut single, &mut level, &mut fast);
        prop_assert_eq!(fast.stats(), level.stats());
        prop_assert_eq!(fast.inventory(), level.inventory());
        for index in 0..spread {
            let block = Block::new(0, index);
            prop_assert_eq!(fast.is_resident(block), level.is_resident(block));
        }
    }

    /// Requests of one block whose fetches are done at once come out as in a replay, whatever prefetches.
    #[test]
    fn fetches_done_at_once_are_a_replay(
        which in 0usize..Prefetch::ALL.len(),
        capacity in 40u32..200,
        requests in prop::collection::vec((0u64..300, 1u64..20), 1..60),
    ) {
        let config = LevelConfig::new(capacity, Prefetch::ALL[which]);
        let mut replayed = Level::new(config.clone()).unwrap();
        let mut driver = super::Driver::new(config);
        for (first, len) in requests {
            for index in first..first + len {
                replayed.replay(Time::ZERO, &Request::read(0, Span::new(0, index, 1)));
                driver.read(index, 1);
            }
            replayed.check().unwrap();
        }
        let (a, b) = (replayed.stats(), driver.level.stats());
        prop_assert_eq!((a.asked, a.hit + a.missed), (b.asked, b.hit + b.missed));
        if capacity >= 100 && matches!(Prefetch::ALL[which], Prefetch::None | Prefetch::LinuxSimple { .. }) {
            prop_assert_eq!((a.hit, a.prefetched), (b.hit, b.prefetched));
        }
    }
}
