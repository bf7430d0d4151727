//! The level's LRU against the slowest possible LRU.

use crate::cache::*;
use crate::prefetch::{Algorithm, Prefetch};
use crate::time::Time;
use proptest::prelude::*;
use std::collections::VecDeque;

proptest! {
    /// A replay hits exactly when a list searched from the front hits.
    #[test]
    fn a_replay_is_lru(
        capacity in 1u32..40,
        requests in prop::collection::vec((0u32..3, 0u64..60, 1u32..5), 1..400),
    ) {
        let mut level = Level::new(LevelConfig::new(capacity, "none".parse::<Prefetch>().unwrap())).unwrap();
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

    /// Many reads in one call equal as many calls of one read, in any level.
    #[test]
    fn many_blocks_at_once_are_one_after_the_other(
        which in 0usize..Prefetch::ALL.len(),
        capacity in 1u32..80,
        blocks in prop::collection::vec(0u64..150, 1..300),
    ) {
        let blocks: Vec<Block> = blocks.into_iter().map(|index| Block::new(0, index)).collect();
        let mut one_by_one = Level::new(LevelConfig::new(capacity, Prefetch::ALL[which])).unwrap();
        let mut at_once = Level::new(LevelConfig::new(capacity, Prefetch::ALL[which])).unwrap();
        for &first in &blocks {
            one_by_one.replay(Time::ZERO, &Request::read(0, Span { first, len: 1 }));
        }
        let outcome = at_once.replay_blocks(Time::ZERO, &blocks);
        prop_assert_eq!(at_once.stats(), one_by_one.stats());
        prop_assert_eq!(u64::from(outcome.hit), at_once.stats().hit);
        at_once.check().unwrap();
    }

    /// Requests of one block with instant fetches have the results of a replay, with any prefetcher.
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
        if capacity >= 100 && ["none", "linux"].contains(&Prefetch::ALL[which].name()) {
            prop_assert_eq!((a.hit, a.prefetched), (b.hit, b.prefetched));
        }
    }
}
