//! The drive as a whole: service times derived from its parameters, and its state after random commands.

use super::model::{ATLAS10K, CHEETAH9LP};
use super::*;
use proptest::prelude::*;

fn read(sector: u64, count: u64) -> Command {
    Command { sector, count, write: false }
}

fn write(sector: u64, count: u64) -> Command {
    Command { sector, count, write: true }
}

#[test]
fn a_buffer_hit_costs_overhead_and_bus() {
    let mut disk = Disk::new(&CHEETAH9LP);
    let miss = disk.serve(Time::ZERO, read(1000, 8));
    assert!(!miss.hit);
    let later = miss.done + Time::from_millis(50);
    let hit = disk.serve(later, read(1008, 8));
    assert!(hit.hit);
    assert_eq!(hit.done - later, Time(66_000 + 8 * 105_000));
}

#[test]
fn reading_ahead_stops_at_a_segment() {
    let mut disk = Disk::new(&CHEETAH9LP);
    let first = disk.serve(Time::ZERO, read(0, 8));
    let later = first.done + Time::from_secs(1);
    let last = disk.serve(later, read(8 + 561 - 8, 8));
    assert!(last.hit);
    let beyond = disk.serve(last.done + Time::from_secs(1), read(8 + 561, 8));
    assert!(!beyond.hit, "nothing was read ahead beyond the segment once it was full");
}

#[test]
fn a_read_that_catches_up_with_the_read_ahead_waits_for_it() {
    let mut disk = Disk::new(&CHEETAH9LP).with_bus(0);
    let first = disk.serve(Time::ZERO, read(0, 8));
    let caught = disk.serve(first.done, read(8, 200));
    assert!(caught.hit);
    let medium_ns = 200 * CHEETAH9LP.revolution_ns() / 254;
    let took = (caught.done - first.done).0;
    assert!(took.abs_diff(medium_ns) < 100_000, "{took} ns for {medium_ns} ns under the head");
}

#[test]
fn a_drive_that_reads_on_arrival_holds_what_lies_before() {
    let back = |model: &'static Model| {
        let mut hits = 0;
        for n in 0..40u64 {
            let mut disk = Disk::new(model);
            let first = disk.serve(Time(n * 150_000), read(1_000_190, 8));
            hits += u32::from(disk.serve(first.done + Time::from_secs(1), read(1_000_150, 8)).hit);
            disk.check();
        }
        hits
    };
    assert_eq!(back(&CHEETAH9LP), 0);
    assert!((20..40).contains(&back(&ATLAS10K)), "{} of 40", back(&ATLAS10K));
    // Sectors with data that wait to be written are not read on arrival.
    let mut disk = Disk::new(&ATLAS10K);
    let mut now = Time::ZERO;
    for n in 0..40 {
        let written = disk.serve(now, write(1_000_100, 8));
        let first = disk.serve(written.done, read(1_000_190, 8));
        now = disk.serve(first.done + Time(n * 150_000), read(1_000_100, 8)).done;
        disk.check();
    }
}

#[test]
fn a_write_is_done_when_the_buffer_has_it_and_reaches_the_medium_later() {
    let mut disk = Disk::new(&CHEETAH9LP);
    let done = disk.serve(Time::ZERO, write(5_000_000, 8)).done;
    assert_eq!(done, Time(748_000 + 8 * 105_000), "the overhead of a hit: the buffer takes it");
    // A read elsewhere at once: the write has begun and holds the arm.
    let mut idle = Disk::new(&CHEETAH9LP);
    let alone = idle.serve(done + Time(1), read(12_000_000, 8));
    let behind = disk.serve(done + Time(1), read(12_000_000, 8));
    assert!(behind.done > alone.done);
    // Written data is read from the buffer.
    let again = disk.serve(behind.done + Time::from_secs(1), read(5_000_000, 8));
    assert!(again.hit);
}

#[test]
fn writes_beyond_the_write_segments_wait_for_the_medium() {
    let mut disk = Disk::new(&ATLAS10K);
    let mut now = Time::ZERO;
    let mut longest = 0;
    for n in 0..10u64 {
        let done = disk.serve(now, write(n * 1_700_000, 8)).done;
        longest = longest.max((done - now).0);
        now = done;
    }
    assert!(longest > 3_000_000, "ten scattered writes fit into one write segment: {longest} ns");
}

#[test]
fn random_small_reads_take_what_the_reference_computes() {
    // Mean seek 5.47 ms, half a revolution, one block under the head: about 8.7 ms without overhead.
    let mut disk = Disk::new(&CHEETAH9LP).with_bus(0);
    let mut now = Time::ZERO;
    let mut state = 1u64;
    let mut total = 0;
    for _ in 0..4000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let command = read((state >> 33) % (17_783_240 / 8) * 8, 8);
        let served = disk.serve(now, command);
        total += (served.done - now).0 - served.overhead_ns;
        // A gap that is not a multiple of a revolution.
        now = served.done + Time(20_000_000 + (state >> 40));
    }
    let mean_ms = total as f64 / 4000.0 / 1e6;
    assert!((mean_ms - 8.5).abs() < 0.4, "{mean_ms} ms");
}

proptest! {
    #[test]
    fn any_commands_leave_a_state_that_makes_sense(
        commands in prop::collection::vec((0u64..17_000_000, 1u64..1200, any::<bool>(), 0u64..40_000_000, any::<bool>()), 1..120),
        atlas in any::<bool>(),
    ) {
        let model = if atlas { &ATLAS10K } else { &CHEETAH9LP };
        let mut disk = Disk::new(model);
        let mut now = Time::ZERO;
        let mut next = 0;
        for (sector, count, write, gap, follow) in commands {
            let sector = if follow { next } else { sector };
            next = (sector + count).min(17_000_000);
            let served = disk.serve(now, Command { sector, count, write });
            disk.check();
            prop_assert!(served.done.0 >= now.0 + served.overhead_ns + count * 99_000);
            prop_assert!((served.done - now).0 < 1_000_000_000, "{served:?}");
            now = served.done + Time(gap / 4);
        }
    }
}
