//! DU, exclusive caching: blocks sent up are evicted first, since the level above has them (section 4.3).
//!
//! A sent block moves to the least recently used end. So the most recently sent goes first: the level above will keep
//! that one longest. It works on either replacement; with SARC's lists a block stays in its list. Prefetched blocks
//! that were not sent are not touched.

use crate::block::Span;
use crate::block::pages::Pages;

/// Demotes the blocks of a request that was sent up, in ascending order.
pub(crate) fn sent(pages: &mut Pages, span: Span) {
    for block in span.blocks() {
        if let Some(slot) = pages.find(block) {
            pages.demote(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Level, LevelConfig, Replacement, Request, TwoLists};
    use crate::coordinate::Coordination;
    use crate::prefetch::Prefetch;
    use crate::time::Time;

    fn resident(level: &Level, blocks: std::ops::Range<u64>) -> Vec<u64> {
        blocks.filter(|&block| level.is_resident(Span::new(0, block, 1).first)).collect()
    }

    #[test]
    fn the_block_sent_last_is_the_next_victim() {
        // SARC's lists need a prefetcher; this one sees no run here.
        let stream = Prefetch::Stream { degree_max: 48, distance: 24 };
        for (prefetch, replacement) in
            [(Prefetch::None, Replacement::Lru), (stream, Replacement::Sarc(TwoLists::default()))]
        {
            let mut config = LevelConfig::new(4, prefetch);
            config.replacement = replacement;
            config.coordination = Coordination::DU;
            let mut level = Level::new(config).unwrap();
            // Written blocks were not sent up: MRU first they are 6 5 4 3.
            for block in 3..7 {
                level.replay(Time::ZERO, &Request { write: true, ..Request::read(0, Span::new(0, block, 1)) });
            }
            level.replay(Time::ZERO, &Request::read(0, Span::new(0, 4, 1)));
            level.replay(Time::ZERO, &Request { write: true, ..Request::read(0, Span::new(0, 7, 1)) });
            assert_eq!(resident(&level, 0..10), [3, 5, 6, 7], "{replacement:?}: 4 was sent and went first");
            level.check().unwrap();
        }
    }

    #[test]
    fn of_two_sent_blocks_the_more_recent_goes_first() {
        let mut config = LevelConfig::new(3, Prefetch::None);
        config.coordination = Coordination::DU;
        let mut level = Level::new(config).unwrap();
        level.replay(Time::ZERO, &Request::read(0, Span::new(0, 1, 3)));
        level.replay(Time::ZERO, &Request::read(0, Span::new(0, 9, 1)));
        assert_eq!(resident(&level, 0..10), [1, 2, 9]);
    }
}
