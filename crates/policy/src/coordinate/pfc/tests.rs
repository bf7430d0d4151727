//! The reference's two toy examples, with a plain LRU as the native cache, and invariants for any requests.

use super::*;
use crate::cache::Span;
use proptest::prelude::*;
use std::collections::VecDeque;

/// A level of PFC over plain LRU without prefetching, implemented as simply as possible.
struct Toy {
    pfc: Pfc,
    cache: VecDeque<u64>,
    capacity: usize,
}

/// Result of a request: bypass and readmore length, direct and forwarded blocks, silent hits.
type Row = (u32, u32, Option<(u64, u64)>, Option<(u64, u64)>, usize);

impl Toy {
    fn new(config: Config, capacity: u32) -> Toy {
        Toy { pfc: Pfc::new(config, capacity, 8, false), cache: VecDeque::new(), capacity: capacity as usize }
    }

    fn request(&mut self, first: u64, last: u64) -> Row {
        let request = Request::read(0, Span::new(0, first, (last - first + 1) as u32));
        let full = self.cache.len() >= self.capacity;
        let split = self.pfc.split(&request, |block| self.cache.contains(&block.0), full);
        let by = u64::from(split.direct);
        let silent = (first..first + by).filter(|block| self.cache.contains(block)).count();
        let (from, to) = (first + by, last + u64::from(split.readmore));
        for block in from..=to {
            self.cache.retain(|other| *other != block);
            self.cache.push_front(block);
            self.cache.truncate(self.capacity);
        }
        let Parameters { bypass_length, readmore_length, .. } = self.pfc.parameters[0];
        let direct = (by > 0).then(|| (first, first + by - 1));
        (bypass_length, readmore_length, direct, (from <= to).then_some((from, to)), silent)
    }
}

#[test]
fn the_first_toy() {
    let mut toy = Toy::new(Config::PUBLISHED, 100);
    let rows: [((u64, u64), Row); 9] = [
        ((0, 3), (1, 0, Some((0, 0)), Some((1, 3)), 0)),
        ((4, 7), (2, 4, Some((4, 5)), Some((6, 11)), 0)),
        ((8, 11), (3, 4, Some((8, 10)), Some((11, 15)), 3)),
        ((12, 15), (4, 4, Some((12, 15)), Some((16, 19)), 4)),
        ((16, 19), (5, 4, Some((16, 19)), Some((20, 23)), 4)),
        ((500, 503), (6, 0, Some((500, 503)), None, 0)),
        ((900, 903), (7, 0, Some((900, 903)), None, 0)),
        ((20, 23), (8, 0, Some((20, 23)), None, 4)),
        ((0, 3), (9, 0, Some((0, 3)), None, 3)),
    ];
    for ((first, last), row) in rows {
        assert_eq!(toy.request(first, last), row, "request [{first},{last}]");
    }
}

/// A level of 20 blocks that holds 100 to 113, with a mean of 4.
fn second_toy() -> Toy {
    let mut toy = Toy::new(Config::PUBLISHED, 20);
    toy.cache = (100..114).rev().collect();
    toy.pfc.context(&Request::read(0, Span::new(0, 0, 1)));
    toy.pfc.parameters[0] = Parameters { bypass_length: 1, readmore_length: 0, sum: 40, count: 10 };
    toy
}

#[test]
fn blocks_ahead_that_are_all_here_bypass_the_whole_request() {
    assert_eq!(second_toy().request(102, 105), (4, 0, Some((102, 105)), None, 4));
}

/// The second toy grown full, with 300 and 301 in the readmore queue.
fn full_toy(config: Config) -> Toy {
    let mut toy = second_toy();
    toy.pfc.config = config;
    toy.request(102, 105);
    toy.cache = (100..120).rev().collect();
    toy.pfc.readmore_queue = Recent::new(2);
    toy.pfc.readmore_queue.enter(300);
    toy.pfc.readmore_queue.enter(301);
    toy.pfc.parameters[0].bypass_length = 2;
    toy.pfc.parameters[0].readmore_length = 5;
    toy
}

#[test]
fn a_large_request_of_a_full_level_stops_reading_more_if_part_of_it_is_cached() {
    let mut toy = full_toy(Config::PUBLISHED);
    assert_eq!(toy.request(110, 116), (3, 0, Some((110, 112)), Some((113, 116)), 3));
}

#[test]
fn the_literal_code_overrides_that_when_nothing_is_cached() {
    let mut toy = full_toy(Config::PUBLISHED);
    toy.request(110, 116);
    toy.pfc.readmore_queue = Recent::new(2);
    toy.pfc.readmore_queue.enter(300);
    assert_eq!(toy.request(300, 306), (4, 7, Some((300, 303)), Some((304, 313)), 0));
}

#[test]
fn the_text_bypasses_the_whole_large_request() {
    let mut toy = full_toy(Config { large: Large::Text { factor: 0.5 }, ..Config::PUBLISHED });
    assert_eq!(toy.request(300, 306), (2, 0, Some((300, 306)), None, 0));
}

#[test]
fn each_action_can_be_switched_off() {
    let requests = [(0, 3), (4, 7), (8, 11), (500, 503), (0, 3)];
    let mut toy = Toy::new(Config { bypass: false, ..Config::PUBLISHED }, 100);
    let rows: Vec<Row> = requests.iter().map(|&(first, last)| toy.request(first, last)).collect();
    assert!(rows.iter().all(|row| row.2.is_none()), "{rows:?}");
    assert!(rows.iter().any(|row| row.1 > 0), "{rows:?}");
    let mut toy = Toy::new(Config { readmore: false, ..Config::PUBLISHED }, 100);
    let rows: Vec<Row> = requests.iter().map(|&(first, last)| toy.request(first, last)).collect();
    assert!(rows.iter().all(|row| row.1 == 0), "{rows:?}");
    assert!(rows.iter().all(|row| row.2.is_some()), "{rows:?}");
}

#[test]
fn each_client_has_its_own_parameters() {
    let mut pfc = Pfc::new(Config { scope: Scope::Client, ..Config::PUBLISHED }, 100, 8, false);
    let of = |client, first| Request { client, ..Request::read(0, Span::new(0, first, 4)) };
    for first in [1000, 2000, 3000] {
        pfc.split(&of(1, first), |_| false, false);
    }
    assert_eq!(pfc.split(&of(2, 4000), |_| false, false).direct, 1, "another client's first request");
    assert_eq!(pfc.split(&of(1, 5000), |_| false, false).direct, 4);
}

/// Random reads of one block below a level that prefetches four more, each time as a request of its own.
#[test]
fn a_prefetch_behind_a_demanded_request_takes_its_way_and_adapts_nothing() {
    let random = |early: bool| {
        let mut pfc = Pfc::new(Config::PUBLISHED, 100, 8, early);
        let splits = (1..20u64).map(|n| {
            let first = n * 7919 % 10_000;
            let demanded = Request { demand_len: 1, ..Request::read(0, Span::new(0, first, 1)) };
            let rest = Request { demand_len: 0, ..Request::read(0, Span::new(0, first + 1, 4)) };
            [demanded, rest].map(|request| pfc.split(&request, |_| false, false))
        });
        let splits: Vec<_> = splits.collect();
        (splits, pfc.parameters[0].count)
    };
    let (splits, count) = random(true);
    let way = |[demanded, rest]: &[Split; 2]| (demanded.direct == 1) == (rest.direct == 4);
    assert!(splits.iter().all(way) && splits.iter().flatten().all(|split| split.readmore == 0), "{splits:?}");
    assert_eq!((splits[18][1].direct, count), (4, 19));
    assert!(random(false).0.iter().flatten().any(|split| split.readmore > 0), "the control reads more");
}

#[test]
fn each_stream_has_its_own_rest_and_the_table_is_bounded() {
    let mut pfc = Pfc::new(Config::PUBLISHED, 100, 2, true);
    let mut request = |first, len, demand_len| {
        let request = Request { demand_len, ..Request::read(0, Span::new(0, first, len)) };
        let before = pfc.parameters.first().map_or(0, |of| of.count);
        pfc.split(&request, |_| false, false);
        pfc.parameters[0].count > before
    };
    assert!(request(10, 1, 1) && request(20, 1, 1));
    assert!(!request(11, 2, 0) && !request(21, 2, 0), "the rests of two streams");
    assert!(request(13, 2, 0), "a prefetch that follows no demanded request");
    assert!(request(30, 1, 1) && request(31, 1, 1) && request(40, 1, 1));
    assert!(!request(32, 1, 0), "a stream that goes on has one end");
    assert!(request(50, 1, 1) && request(60, 1, 1) && request(41, 1, 0), "two ends at most");
}

#[test]
fn the_prose_reads_more_whatever_is_cached() {
    for prose in [false, true] {
        let mut toy = Toy::new(Config { prose, ..Config::PUBLISHED }, 100);
        toy.request(0, 3);
        toy.cache.push_front(4);
        assert_eq!(toy.request(4, 7).1, if prose { 4 } else { 0 }, "a hit in the readmore queue and in the cache");
    }
}

#[test]
fn nothing_beyond_the_file_is_read_more() {
    let mut toy = Toy::new(Config::PUBLISHED, 100);
    toy.request(0, 3);
    let request = Request { file_blocks: 9, ..Request::read(0, Span::new(0, 4, 4)) };
    assert_eq!(toy.pfc.split(&request, |_| false, false).readmore, 1);
}

proptest! {
    /// Direct and forwarded blocks cover the request exactly once, whatever the cache holds.
    #[test]
    fn direct_and_forwarded_cover_the_request(
        requests in prop::collection::vec((0u64..200, 1u64..12), 1..60),
        capacity in 10u32..80,
        text in any::<bool>(),
    ) {
        let large = if text { Large::Text { factor: 0.5 } } else { Large::Literal };
        let mut toy = Toy::new(Config { large, ..Config::PUBLISHED }, capacity);
        for (first, len) in requests {
            let last = first + len - 1;
            let (_, readmore, direct, forwarded, _) = toy.request(first, last);
            let direct_end = direct.map_or(first, |(from, to)| { assert_eq!(from, first); to + 1 });
            prop_assert!(direct_end <= last + 1);
            match forwarded {
                Some((from, to)) => {
                    prop_assert_eq!(from, direct_end);
                    prop_assert_eq!(to, last + u64::from(readmore));
                }
                None => prop_assert_eq!(direct_end, last + 1),
            }
        }
    }
}
