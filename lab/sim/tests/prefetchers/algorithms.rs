//! The reference's check values, through a whole level large enough that nothing is evicted.

use crate::driver::{Driver, hit_ratio_of_64_streams};
use crate::stacked::run;
use policy::cache::{Fetch, LevelConfig, Span};
use policy::coordinate::{Coordination, Labels};
use policy::prefetch::{self as live, Algorithm, Trigger};
use proptest::prelude::*;
use sim::prefetch::Prefetch;

/// Prefetches of each read: (block read, first block, number of blocks).
fn ahead(driver: &mut Driver<Prefetch>, reads: impl Iterator<Item = u64>) -> Vec<(u64, u64, u32)> {
    let unasked =
        |fetch: &Fetch| (fetch.span.first.index() + u64::from(fetch.wanted_len), fetch.span.len - fetch.wanted_len);
    let mut all = Vec::new();
    for at in reads {
        for fetch in driver.read(at, 1) {
            let (first, len) = unasked(&fetch);
            if len > 0 {
                all.push((at, first, len));
            }
        }
    }
    all
}

fn driver(prefetch: Prefetch) -> Driver<Prefetch> {
    Driver::new(LevelConfig::new(10_000, prefetch))
}

#[test]
fn ra_makes_five_blocks_of_one_and_then_adds_one_at_a_time() {
    let mut driver = driver(Prefetch::Ra { degree: 4 });
    assert_eq!(ahead(&mut driver, [7, 8].into_iter()), [(7, 8, 4), (8, 12, 1)]);
}

#[test]
fn simplified_linux_doubles() {
    let linux = |incl_demand| driver(Prefetch::LinuxSimple { min: 3, max: 32, incl_demand });
    assert_eq!(
        ahead(&mut linux(false), 0..80),
        [(0, 1, 3), (1, 4, 6), (4, 10, 12), (10, 22, 24), (22, 46, 32), (46, 78, 32), (78, 110, 32)]
    );
    assert_eq!(
        ahead(&mut linux(true), 0..80),
        [(0, 1, 3), (1, 4, 8), (4, 12, 16), (12, 28, 32), (28, 60, 32), (60, 92, 32)]
    );
    assert_eq!(ahead(&mut linux(false), [500, 90].into_iter()), [(500, 501, 3), (90, 91, 3)]);
}

#[test]
fn both_linux_kernels_and_the_stream_read_ahead_open_the_same_windows() {
    for prefetch in [
        Prefetch::Linux2618 { min: 4, max: 32 },
        Prefetch::Live(live::Prefetch::OnDemand { max: 32 }),
        Prefetch::Live(live::Prefetch::Stream { degree_max: 32, distance: 32 }),
    ] {
        assert_eq!(
            driver(prefetch).windows(0..64),
            [(0, 0, 4), (1, 4, 8), (4, 12, 16), (12, 28, 32), (28, 60, 32), (60, 92, 32)],
            "{}",
            prefetch.name()
        );
    }
}

#[test]
fn a_fixed_distance_moves_the_marker() {
    for name in ["on-demand", "linux-2.6.18"] {
        let prefetch: Prefetch = name.parse().unwrap();
        let mut config = LevelConfig::new(10_000, prefetch);
        config.trigger = Trigger::Fixed { distance: 10 };
        let sets = Driver::new(config).windows(0..300);
        for (at, first, len) in sets.into_iter().filter(|set| set.0 > 60) {
            assert_eq!((first - at, len), (10, 32), "{} at {at}", prefetch.name());
        }
    }
}

/// Whether SARC with this threshold takes a cold request for a sequential one.
fn detects(threshold: u8, len: u32) -> bool {
    let mut driver = driver(Prefetch::Sarc { degree: 8, distance: 4, threshold });
    driver.read(1000, len);
    driver.level.stats().prefetched > 0
}

#[test]
fn what_ra_makes_of_one_block_is_sequential_up_to_a_threshold_of_five() {
    assert_eq!((3..8).filter(|&threshold| detects(threshold, 5)).collect::<Vec<_>>(), [3, 4, 5]);
    assert_eq!((3..8).filter(|&threshold| detects(threshold, 6)).collect::<Vec<_>>(), [3, 4, 5, 6]);
}

#[test]
fn sarc_goes_on_where_the_trigger_is() {
    let mut sarc = driver(Prefetch::Sarc { degree: 8, distance: 4, threshold: 4 });
    assert_eq!(ahead(&mut sarc, 0..30), [(3, 4, 8), (7, 12, 8), (15, 20, 8), (23, 28, 8)]);
    let mut config = LevelConfig::new(10_000, Prefetch::Sarc { degree: 8, distance: 4, threshold: 4 });
    config.trigger = Trigger::Fixed { distance: 3 };
    assert_eq!(ahead(&mut Driver::new(config), 0..30), [(3, 4, 8), (9, 12, 8), (17, 20, 8), (25, 28, 8)]);
}

#[test]
fn amp_grows_with_every_set_that_was_read_to_its_end() {
    let mut amp = driver(Prefetch::Amp { apt: 4, degree_max: 256, run: 1 });
    let sets: Vec<(u64, u32)> = ahead(&mut amp, 0..40).into_iter().map(|(_, first, len)| (first, len)).collect();
    assert_eq!(sets, [(2, 1), (4, 3), (8, 5), (13, 6), (19, 7), (26, 8), (34, 9)]);
    assert_eq!(amp.level.stats().hit, 36);
}

#[test]
fn amp_asks_earlier_after_a_reader_had_to_wait() {
    let triggers = |wait: bool| {
        let mut amp = driver(Prefetch::Amp { apt: 4, degree_max: 16, run: 1 });
        let (mut triggers, mut open) = (Vec::new(), Vec::new());
        for at in 0..400u64 {
            let fetches = amp.start(at, Span::new(0, at, 1));
            for fetch in fetches {
                if fetch.wanted_len == 0 {
                    triggers.push(fetch.span.first.index() - at);
                }
                match wait && fetch.wanted_len == 0 {
                    true => open.push(fetch),
                    false => amp.done(fetch.id),
                }
            }
            // The awaited set arrives when its first block is requested.
            open.retain(|fetch| {
                fetch.span.first.index() > at || {
                    amp.done(fetch.id);
                    false
                }
            });
        }
        triggers
    };
    let (prompt, late) = (triggers(false), triggers(true));
    assert!(late.last() > prompt.last(), "{prompt:?} {late:?}");
}

proptest! {
    /// Prefetched pages are read and evicted in every order; the driver checks `g < p` on every page after every event.
    #[test]
    fn amp_keeps_g_below_p_under_random_eviction(
        capacity in 4u32..60,
        degree_max in 5u32..40,
        parts in prop::collection::vec((0u64..2000, 1u64..60, 1u32..6), 1..25),
    ) {
        let mut amp = Driver::new(LevelConfig::new(capacity, Prefetch::Amp { apt: 4, degree_max, run: 1 }));
        for (start, count, len) in parts {
            for n in 0..count {
                amp.read(start + n * u64::from(len), len);
            }
        }
    }
}

#[test]
fn names_are_read_back() {
    for prefetch in Prefetch::ALL {
        assert_eq!(prefetch.name().parse(), Ok(prefetch));
    }
    let refused = "readahead".parse::<Prefetch>().unwrap_err();
    assert_eq!(
        refused,
        "there is no prefetcher \"readahead\"; choose one of none ra linux linux-2.6.18 on-demand stream sarc amp"
    );
}

#[test]
fn labels_change_nothing_for_ra_and_cure_sarc_below_it() {
    let random = || (0..400u64).map(|n| n * 7919 % 100_000);
    assert_eq!(run("ra", "ra", Coordination::NONE, random()), run("ra", "ra", Coordination::LABELS, random()));
    let (_, misled) = run("ra", "sarc", Coordination::NONE, random());
    let (_, told) = run("ra", "sarc", Coordination::LABELS, random());
    assert!(misled.prefetched > 1000);
    assert_eq!(told.prefetched, 0);
}

#[test]
fn onward_labels_cure_sarc_below_ra_and_leave_it_its_streams() {
    let random = || (0..400u64).map(|n| n * 7919 % 100_000);
    let onward = Coordination { labels: Labels::Onward, ..Coordination::NONE };
    assert_eq!(run("ra", "sarc", onward, random()).1.prefetched, 0);
    let [published, ours] = [Coordination::LABELS, onward].map(|labels| run("ra", "sarc", labels, 0..400).1);
    assert_eq!(published.prefetched, 0, "under RA no sequential request is a demand");
    assert!(ours.hit * 10 > ours.asked * 7, "{} hits of {}", ours.hit, ours.asked);
}

#[test]
fn two_levels_amplify_each_others_prefetching() {
    let (_, alone) = run("none", "linux", Coordination::NONE, 0..500);
    let (_, amplified) = run("linux", "linux", Coordination::NONE, 0..500);
    assert!(amplified.fetched > alone.fetched);
}

#[test]
fn labels_keep_ra_from_misleading_sarc() {
    let prefetched = |coordination| {
        let mut config = LevelConfig::new(1000, Prefetch::Sarc { degree: 8, distance: 4, threshold: 4 });
        config.coordination = coordination;
        let mut driver = Driver::new(config);
        for n in 1..50u64 {
            // A random one-block read that RA(4) above extended to five blocks.
            driver.demand_len = 1;
            driver.read(n * 1009, 5);
        }
        driver.level.stats().prefetched
    };
    assert!(prefetched(Coordination::NONE) >= 49 * 4);
    assert_eq!(prefetched(Coordination::LABELS), 0);
}

#[test]
fn per_stream_read_ahead_serves_64_interleaved_streams_and_one_history_does_not() {
    let hit_ratio =
        |stream_of, prefetch: &str| hit_ratio_of_64_streams(prefetch.parse::<Prefetch>().unwrap(), stream_of);
    for prefetch in ["linux-2.6.18", "stream"] {
        assert!(hit_ratio(|_| 0, prefetch) < 0.1, "{prefetch}");
        assert!(hit_ratio(|stream| stream, prefetch) > 0.8, "{prefetch}");
    }
    for prefetch in ["sarc", "amp"] {
        assert!(hit_ratio(|_| 0, prefetch) > 0.8, "{prefetch} keeps its state in pages");
    }
}
