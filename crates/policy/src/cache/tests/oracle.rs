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
