//! Merging and the three orders, on examples and at random.

use super::*;
use crate::disk::model::CHEETAH9LP;
use crate::disk::{Command, Disk};
use proptest::prelude::*;

fn read(sector: u64, count: u64) -> Io {
    Io { sector, count, write: false, owner: 0, class: Class::Awaited }
}

fn started(queue: &mut Queue, now: Time) -> Option<(u64, u64)> {
    match queue.choose(now) {
        Choice::Start(slot, io) => {
            queue.completed(now, slot, |_| ());
            Some((io.sector, io.count))
        }
        _ => None,
    }
}

#[test]
fn neighbours_are_merged_at_both_ends_and_keep_their_tags() {
    let mut queue = Queue::new(Scheduler::Noop, Merging::default());
    queue.submit(Time::ZERO, read(100, 8), 1);
    queue.submit(Time::ZERO, read(108, 8), 2);
    queue.submit(Time::ZERO, read(92, 8), 3);
    queue.submit(Time::ZERO, Io { write: true, ..read(116, 8) }, 4);
    queue.check();
    let Choice::Start(slot, io) = queue.choose(Time::ZERO) else { panic!("three requests wait") };
    assert_eq!((io.sector, io.count), (92, 24));
    let mut tags = Vec::new();
    queue.completed(Time::ZERO, slot, |tag| tags.push(tag));
    assert_eq!(tags, [1, 2, 3]);
    assert_eq!(queue.counts().merged, 2);
    assert_eq!(queue.waiting(), 1);
}

#[test]
fn merging_stops_at_the_largest_request() {
    let mut queue = Queue::new(Scheduler::Noop, Merging { sectors_max: 16, ..Merging::default() });
    for n in 0..4 {
        queue.submit(Time::ZERO, read(n * 8, 8), n);
    }
    assert_eq!(started(&mut queue, Time::ZERO), Some((0, 16)));
    assert_eq!(started(&mut queue, Time::ZERO), Some((16, 16)));
    assert_eq!(started(&mut queue, Time::ZERO), None);
}

#[test]
fn deadline_goes_in_sector_order_until_a_request_has_expired() {
    let config = Deadline { batch_max: 2, ..Deadline::default() };
    let mut queue = Queue::new(Scheduler::Deadline(config), Merging::default());
    for sector in [500, 100, 300, 900] {
        queue.submit(Time::ZERO, read(sector, 8), sector);
    }
    let early = Time::from_millis(1);
    assert_eq!(started(&mut queue, early).unwrap().0, 100);
    assert_eq!(started(&mut queue, early).unwrap().0, 300);
    // The batch is over and the oldest has expired.
    assert_eq!(started(&mut queue, Time::from_millis(600)).unwrap().0, 500);
    assert_eq!(started(&mut queue, Time::from_millis(600)).unwrap().0, 900);
}

#[test]
fn deadline_passes_writes_over_twice() {
    let config = Deadline { batch_max: 1, ..Deadline::default() };
    let mut queue = Queue::new(Scheduler::Deadline(config), Merging::default());
    for n in 0..4 {
        queue.submit(Time::ZERO, read(n * 100, 8), n);
        queue.submit(Time::ZERO, Io { write: true, ..read(n * 100 + 50, 8) }, n);
    }
    let order: Vec<_> = std::iter::from_fn(|| started(&mut queue, Time(1))).map(|(sector, _)| sector % 100).collect();
    assert_eq!(order, [0, 0, 50, 0, 0, 50, 50, 50]);
}

#[test]
fn anticipation_waits_for_the_reader_that_was_just_served() {
    let owned = |sector, owner| Io { owner, ..read(sector, 8) };
    let mut queue = Queue::new(Scheduler::Anticipatory(Anticipatory::default()), Merging::default());
    let mut now = Time::ZERO;
    // Owner 1 reads continuously with short think times.
    for n in 0..4 {
        queue.submit(now, owned(n * 8, 1), n);
        assert_eq!(started(&mut queue, now).unwrap().0, n * 8);
        now = now + Time(100_000);
    }
    queue.submit(now, owned(9_000_000, 2), 9);
    let Choice::WaitUntil(until) = queue.choose(now) else { panic!("owner 1 is about to read") };
    assert!(until > now && until < now + Time::from_millis(6));
    queue.submit(now + Time(1000), owned(32, 1), 4);
    assert_eq!(started(&mut queue, now + Time(1000)).unwrap().0, 32);
    // No read arrives: the other owner is served when the wait is over.
    let Choice::WaitUntil(until) = queue.choose(now + Time(2000)) else { panic!("it waits again") };
    assert_eq!(started(&mut queue, until).unwrap().0, 9_000_000);
}

#[test]
fn writes_do_not_take_the_device_from_a_reader_that_is_waited_for() {
    let mut queue = Queue::new(Scheduler::Anticipatory(Anticipatory::default()), Merging::default());
    let mut now = Time::ZERO;
    for n in 0..4 {
        queue.submit(now, read(n * 8, 8), n);
        assert_eq!(started(&mut queue, now).unwrap().0, n * 8);
        now = now + Time(100_000);
    }
    queue.submit(now, Io { write: true, ..read(9_000_000, 8) }, 9);
    let Choice::WaitUntil(until) = queue.choose(now) else { panic!("it is about to read") };
    queue.submit(now + Time(1000), read(32, 8), 4);
    assert_eq!(started(&mut queue, now + Time(1000)).unwrap().0, 32);
    assert!(matches!(queue.choose(until), Choice::WaitUntil(_)), "it was waited for anew");
    // Its batch of 500 ms is over: the write's turn.
    assert_eq!(started(&mut queue, Time::from_millis(500)).unwrap().0, 9_000_000);
}

#[test]
fn anticipation_steps_back_when_that_is_much_nearer() {
    let mut queue = Queue::new(Scheduler::Anticipatory(Anticipatory::default()), Merging::default());
    queue.submit(Time::ZERO, read(10_000, 8), 0);
    assert_eq!(started(&mut queue, Time::ZERO).unwrap().0, 10_000);
    let late = Time::from_millis(50);
    queue.submit(late, read(9_900, 8), 1);
    queue.submit(late, read(20_000, 8), 2);
    assert_eq!(started(&mut queue, late).unwrap().0, 9_900);
}

/// Overlapping requests are in sector order, too: a request that begins within the last one is next.
#[test]
fn deadline_leaves_nothing_out_that_begins_within_the_last_request() {
    let mut queue = Queue::new(Scheduler::Deadline(Deadline::default()), Merging::default());
    for n in [3, 0, 2, 1] {
        queue.submit(Time::ZERO, read(n * 128, 136), n);
    }
    let order: Vec<_> = std::iter::from_fn(|| started(&mut queue, Time(1))).map(|(sector, _)| sector).collect();
    assert_eq!(order, [0, 128, 256, 384]);
}

/// A scan whose requests share their last block with the next one's first, beside a second one, on a disk that cannot keep up.
#[test]
fn sorting_does_not_make_a_disk_busier() {
    let busy = |scheduler| {
        let mut disk = Disk::new(&CHEETAH9LP).with_bus(6400);
        let mut queue = Queue::new(scheduler, Merging::default());
        let mut now = Time::ZERO;
        for n in 0..2000 {
            // Each scan is a little out of order, as reads of several threads are.
            let place = n ^ 1;
            let start = if n % 4 < 2 { place * 128 } else { 15_000_000 - place * 120 };
            queue.submit(Time(n * 1_000_000), read(start, 136), n);
            while now < Time((n + 1) * 1_000_000) {
                let Choice::Start(slot, io) = queue.choose(now) else { break };
                now = disk.serve(now, Command { sector: io.sector, count: io.count, write: false }).done;
                queue.completed(now, slot, |_| ());
            }
            now = now.max(Time((n + 1) * 1_000_000));
        }
        while let Choice::Start(slot, io) = queue.choose(now) {
            now = disk.serve(now, Command { sector: io.sector, count: io.count, write: false }).done;
            queue.completed(now, slot, |_| ());
        }
        disk.counts().busy_ns
    };
    let (noop, deadline) = (busy(Scheduler::Noop), busy(Scheduler::Deadline(Deadline::default())));
    assert!(deadline < noop, "{deadline} ns sorted, {noop} ns as they came");
}

/// Awaited reads go before prefetches that are older and nearer; a prefetch that becomes awaited is equal to them.
#[test]
fn awaited_reads_go_first_and_a_prefetch_that_is_asked_for_is_one_of_them() {
    let prefetch = |sector| Io { class: Class::Prefetch, ..read(sector, 8) };
    for scheduler in [Scheduler::Noop, Scheduler::Deadline(Deadline::default())] {
        let mut queue = Queue::new(scheduler, Merging::default()).with_precedence(Precedence::default());
        for (sector, tag) in [(100, 1), (200, 2), (300, 3)] {
            queue.submit(Time::ZERO, prefetch(sector), tag);
        }
        queue.submit(Time::ZERO, read(900, 8), 4);
        // Next to a prefetch, and not merged with it.
        queue.submit(Time::ZERO, read(292, 8), 5);
        queue.raise(2);
        queue.check();
        let order: Vec<_> = std::iter::from_fn(|| started(&mut queue, Time(1))).collect();
        let expected = match scheduler {
            // Request 300 continues where 292 ends.
            Scheduler::Noop => [900, 292, 300, 200, 100],
            _ => [200, 292, 300, 900, 100],
        };
        assert_eq!(order, expected.map(|sector| (sector, 8)), "{scheduler:?}");
    }
    let mut alike = Queue::new(Scheduler::Noop, Merging::default());
    alike.submit(Time::ZERO, prefetch(100), 1);
    alike.submit(Time::ZERO, read(900, 8), 2);
    alike.raise(1);
    assert_eq!(started(&mut alike, Time(1)).unwrap().0, 100, "a read is a read without precedence");
}

/// A long prefetch does not continue at the device's position, and short ones do so at most once in a row.
#[test]
fn a_short_prefetch_goes_on_before_the_device_leaves() {
    let prefetch = |sector, count| Io { class: Class::Prefetch, ..read(sector, count) };
    for (count, expected) in [(64, [100, 108, 5000]), (65, [100, 5000, 108])] {
        let mut queue = Queue::new(Scheduler::Deadline(Deadline::default()), Merging::default())
            .with_precedence(Precedence::default());
        queue.submit(Time::ZERO, read(100, 8), 0);
        queue.submit(Time::ZERO, prefetch(108, count), 1);
        queue.submit(Time::ZERO, read(5000, 8), 2);
        let order: Vec<u64> = std::iter::from_fn(|| started(&mut queue, Time(1))).map(|(sector, _)| sector).collect();
        assert_eq!(order, expected);
    }
}

/// With many waiting reads a prefetch is merged with the awaited read that it follows: the device has one request
/// less.
#[test]
fn where_many_wait_a_prefetch_goes_along_with_the_read_before_it() {
    for (others, expected) in [(3, 16), (2, 8)] {
        let mut queue = Queue::new(Scheduler::Noop, Merging::default()).with_precedence(Precedence::default());
        queue.submit(Time::ZERO, read(100, 8), 0);
        (1..=others).for_each(|n| queue.submit(Time::ZERO, read(n * 1000, 8), n));
        queue.submit(Time::ZERO, Io { class: Class::Prefetch, ..read(108, 8) }, 9);
        queue.check();
        assert_eq!(started(&mut queue, Time(1)), Some((100, expected)), "beside {others} others");
    }
}

/// However many reads are awaited, an expired prefetch is started, and then at most one in a row.
#[test]
fn a_prefetch_does_not_wait_for_ever() {
    let deadline = Scheduler::Deadline(Deadline::default());
    let mut queue = Queue::new(deadline, Merging::default()).with_precedence(Precedence::default());
    queue.submit(Time::ZERO, Io { class: Class::Prefetch, ..read(1_000_000, 8) }, 0);
    queue.submit(Time::ZERO, Io { class: Class::Prefetch, ..read(2_000_000, 8) }, 1);
    let mut gone = Vec::new();
    for n in 0..60u64 {
        let now = Time::from_millis(n * 10);
        queue.submit(now, read(n * 16, 8), 2 + n);
        queue.submit(now, read(500_000 + n * 16, 8), 100 + n);
        let (sector, _) = started(&mut queue, now).unwrap();
        if sector >= 1_000_000 {
            gone.push((n, sector));
        }
    }
    assert_eq!(gone, [(50, 1_000_000), (52, 2_000_000)]);
}

proptest! {
    #[test]
    fn every_request_is_served_once_whatever_the_scheduler(
        requests in prop::collection::vec((0u64..200, 1u64..4, any::<bool>(), 0u32..3, 0u64..40_000_000), 1..80),
        which in 0..3,
        precedence in any::<bool>(),
        raised in prop::collection::vec(0u64..80, 0..20),
    ) {
        let scheduler = match which {
            0 => Scheduler::Noop,
            1 => Scheduler::Deadline(Deadline::default()),
            _ => Scheduler::Anticipatory(Anticipatory::default()),
        };
        let mut queue = Queue::new(scheduler, Merging::default());
        if precedence {
            queue = queue.with_precedence(Precedence::default());
        }
        let mut raised = raised.into_iter();
        let mut now = Time::ZERO;
        let (mut tags, mut sectors, mut asked) = (Vec::new(), 0, 0);
        let mut serve = |queue: &mut Queue, now: Time| -> Option<Time> {
            match queue.choose(now) {
                Choice::Start(slot, io) => {
                    sectors += io.count;
                    queue.completed(now, slot, |tag| tags.push(tag));
                    Some(now)
                }
                Choice::WaitUntil(until) => Some(until),
                Choice::Idle => None,
            }
        };
        for (n, (at, count, write, owner, gap)) in requests.iter().enumerate() {
            let class = if owner % 2 == 0 { Class::Prefetch } else { Class::Awaited };
            queue.submit(now, Io { sector: at * 8, count: count * 8, write: *write, owner: *owner, class }, n as u64);
            if n % 3 == 0 && let Some(tag) = raised.next() {
                queue.raise(tag);
            }
            queue.check();
            asked += count * 8;
            now = now + Time(*gap);
            if gap % 3 == 0 {
                serve(&mut queue, now);
            }
        }
        while let Some(next) = serve(&mut queue, now) {
            prop_assert!(next >= now);
            now = next;
        }
        tags.sort_unstable();
        prop_assert_eq!(tags, (0..requests.len() as u64).collect::<Vec<_>>());
        prop_assert_eq!(sectors, asked);
        queue.check();
    }
}
