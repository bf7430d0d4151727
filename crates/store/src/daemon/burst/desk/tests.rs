//! The desk with a clock set by hand: who is held, for how long, and why.

use super::*;
use crate::volume::Config;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

const TOML: &str = "namespace = \"n\"\nstate = \"s\"\n[tier.fast]\n[tier.capacity]\n\
    [[target]]\nname = \"f\"\npath = \"f\"\ntier = \"fast\"\n[[target]]\nname = \"c\"\npath = \"c\"\ntier = \"capacity\"\n\
    [burst]\nfast = \"fast\"\nfull_wait = \"5s\"\n";
const MIB: u64 = 1 << 20;

fn desk(more: &str, capacity: u64) -> Desk {
    desk_under("maxbw", more, capacity)
}

fn desk_under(policy: &str, more: &str, capacity: u64) -> Desk {
    let text = format!("{TOML}policy = \"{policy}\"\n{more}");
    let settings = Config::parse(Path::new("/volume.toml"), &text).expect("a configuration").burst;
    Desk::new(&settings, capacity)
}

/// A write that tells what became of it: 0 held, 1 goes on, else an error.
fn held(desk: &mut Desk, now: Time, request: u64, len: u64) -> Arc<AtomicI32> {
    let told = Arc::new(AtomicI32::new(0));
    let tell = told.clone();
    let resume = move |verdict: Result<()>| {
        tell.store(verdict.map_or_else(|e| e.errno().raw_os_error() + 1000, |()| 1), Ordering::Relaxed);
    };
    desk.hold(now, request, len, Box::new(resume));
    told
}

/// Does what the desk says at once.
fn carry_out(desk: &mut Desk, now: Time) {
    while let Some(effect) = desk.effect() {
        match effect {
            Effect::Resume(resume, verdict) => resume(verdict),
            Effect::Prepare(request) => desk.prepared(now, request),
            _ => {}
        }
    }
}

fn ms(n: u64) -> Time {
    Time::from_millis(n)
}

#[test]
fn one_application_writes_at_a_time_and_who_pauses_lets_others() {
    let mut desk = desk("", 1 << 30);
    let (a, b) = (desk.arrive(ms(0), 1, 0), desk.arrive(ms(0), 2, 0));
    let first = held(&mut desk, ms(0), a, MIB);
    let second = held(&mut desk, ms(0), b, MIB);
    carry_out(&mut desk, ms(0));
    assert_eq!((first.load(Ordering::Relaxed), second.load(Ordering::Relaxed)), (1, 0));
    assert!(desk.may_write(ms(1), a, MIB) && !desk.may_write(ms(1), b, MIB));
    desk.tick(ms(1500));
    carry_out(&mut desk, ms(1500));
    assert_eq!(second.load(Ordering::Relaxed), 0);
    desk.tick(ms(2100));
    carry_out(&mut desk, ms(2100));
    assert_eq!(second.load(Ordering::Relaxed), 1, "the first wrote nothing for two seconds");
    let again = held(&mut desk, ms(2200), a, MIB);
    carry_out(&mut desk, ms(2200));
    assert_eq!(again.load(Ordering::Relaxed), 0);
    desk.committed(ms(2300), b, 2 * MIB);
    carry_out(&mut desk, ms(2300));
    assert_eq!(again.load(Ordering::Relaxed), 1);
}

#[test]
fn writes_go_at_the_rate_and_not_faster() {
    let speeds =
        "write_max = 10485760\nwrite_min = 5242880\ndemote_max = 1048576\ndemote_min = 1024\ndemote_idle = 1048576\n";
    let mut desk = desk(speeds, 1 << 30);
    let a = desk.arrive(ms(0), 1, 64 * MIB);
    let all: Vec<_> = (0..11).map(|_| held(&mut desk, ms(0), a, MIB)).collect();
    carry_out(&mut desk, ms(0));
    let gone = |all: &[Arc<AtomicI32>]| all.iter().filter(|told| told.load(Ordering::Relaxed) == 1).count();
    assert_eq!(gone(&all), 1, "one is saved up");
    desk.tick(ms(501));
    carry_out(&mut desk, ms(501));
    assert_eq!(gone(&all), 6);
    assert!(!desk.may_write(ms(501), a, MIB), "others are before it");
    desk.tick(ms(1001));
    carry_out(&mut desk, ms(1001));
    assert_eq!(gone(&all), 11);
}

#[test]
fn without_room_a_write_waits_so_long_or_fails_at_once() {
    for (more, waits_ms) in [("", 5000), ("full = \"enospc\"\n", 0)] {
        let mut desk = desk(more, 8 * MIB);
        let a = desk.arrive(ms(0), 1, 8 * MIB);
        let first = held(&mut desk, ms(0), a, 8 * MIB);
        carry_out(&mut desk, ms(0));
        let more = held(&mut desk, ms(0), a, MIB);
        desk.tick(ms(100));
        carry_out(&mut desk, ms(100));
        assert_eq!(first.load(Ordering::Relaxed), 1);
        assert_eq!(more.load(Ordering::Relaxed) == 0, waits_ms > 0);
        desk.tick(ms(waits_ms + 1));
        carry_out(&mut desk, ms(waits_ms + 1));
        assert_eq!(more.load(Ordering::Relaxed), 1000 + Errno::NOSPC.raw_os_error());
    }
}

#[test]
fn who_was_refused_and_paused_gets_its_turn_again() {
    let mut desk = desk("full = \"enospc\"\n", 8 * MIB);
    let full = desk.arrive(ms(0), 1, 8 * MIB);
    held(&mut desk, ms(0), full, 8 * MIB);
    carry_out(&mut desk, ms(0));
    let a = desk.arrive(ms(0), 2, 0);
    desk.tick(ms(2100));
    carry_out(&mut desk, ms(2100));
    let refused = held(&mut desk, ms(2200), a, MIB);
    carry_out(&mut desk, ms(2200));
    assert_eq!(refused.load(Ordering::Relaxed), 1000 + Errno::NOSPC.raw_os_error());
    let b = desk.arrive(ms(2300), 3, 0);
    desk.tick(ms(4500));
    carry_out(&mut desk, ms(4500));
    desk.abandoned(ms(4600), full);
    let again = held(&mut desk, ms(4700), a, MIB);
    desk.abandoned(ms(4800), b);
    carry_out(&mut desk, ms(4800));
    assert_eq!(again.load(Ordering::Relaxed), 1);
}

/// A write for which the devices had no room, and what became of it, as [`held`].
fn refused(desk: &mut Desk, now: Time, request: u64, waited: Time) -> Arc<AtomicI32> {
    let told = Arc::new(AtomicI32::new(0));
    let tell = told.clone();
    let resume = move |verdict: Result<()>| {
        tell.store(verdict.map_or_else(|e| e.errno().raw_os_error() + 1000, |()| 1), Ordering::Relaxed);
    };
    desk.no_room(now, request, MIB, waited, Box::new(resume));
    told
}

#[test]
fn a_write_that_the_devices_refuse_is_tried_again_as_long_as_was_said() {
    for (more, waits) in [("", true), ("full = \"enospc\"\n", false)] {
        let mut desk = desk(more, 8 * MIB);
        let a = desk.arrive(ms(0), 1, MIB);
        held(&mut desk, ms(0), a, MIB);
        carry_out(&mut desk, ms(0));
        let told = refused(&mut desk, ms(10), a, ms(4900));
        carry_out(&mut desk, ms(10));
        assert_eq!(told.load(Ordering::Relaxed) == 0, waits);
        desk.tick(ms(261));
        carry_out(&mut desk, ms(261));
        assert_eq!(told.load(Ordering::Relaxed) == 1, waits, "it is tried again");
        let told = refused(&mut desk, ms(300), a, ms(5000));
        carry_out(&mut desk, ms(300));
        assert_eq!(told.load(Ordering::Relaxed), 1000 + Errno::NOSPC.raw_os_error());
    }
}

#[test]
fn room_that_was_not_made_is_not_taken() {
    let mut desk = desk("", 8 * MIB);
    let old = Version { app: 9, number: 1 };
    desk.buffer_mut().found(old, 6 * MIB, true, true);
    let a = desk.arrive(ms(0), 1, 4 * MIB);
    let waits = held(&mut desk, ms(0), a, MIB);
    let mut prepare = None;
    while let Some(effect) = desk.effect() {
        match effect {
            Effect::Drop(version, bytes) => desk.drop_failed(ms(1), version, bytes),
            Effect::Prepare(request) => prepare = Some(request),
            _ => {}
        }
    }
    desk.prepared(ms(1), prepare.expect("it had its room"));
    carry_out(&mut desk, ms(1));
    assert_eq!((waits.load(Ordering::Relaxed), desk.buffer().used()), (0, 6.0 * MIB as f64));
    desk.capacity(ms(300), true, true);
    carry_out(&mut desk, ms(300));
    assert_eq!((waits.load(Ordering::Relaxed), desk.buffer().used()), (1, 4.0 * MIB as f64));
}

#[test]
fn at_the_end_everything_held_fails() {
    let mut desk = desk("", 1 << 30);
    let (a, b) = (desk.arrive(ms(0), 1, 0), desk.arrive(ms(0), 2, 0));
    held(&mut desk, ms(0), a, MIB);
    let waits = held(&mut desk, ms(0), b, MIB);
    carry_out(&mut desk, ms(0));
    desk.close();
    carry_out(&mut desk, ms(0));
    assert!(waits.load(Ordering::Relaxed) > 1000);
    assert_eq!(desk.held(), 0);
}

/// What an application, a device or the clock does.
#[derive(Clone, Debug)]
enum Step {
    Arrive(u64, u64),
    Write(usize, u64),
    Commit(usize),
    Abandon(usize),
    Demotion(bool),
    DropFails,
    Capacity(bool),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (1u64..4, prop::sample::select(vec![0, 1, 3, 9])).prop_map(|(app, mib)| Step::Arrive(app, mib * MIB)),
        (0usize..8, 1u64..3).prop_map(|(which, mib)| Step::Write(which, mib * MIB)),
        (0usize..8, 1u64..3).prop_map(|(which, mib)| Step::Write(which, mib * MIB)),
        (0usize..8).prop_map(Step::Commit),
        (0usize..8).prop_map(Step::Abandon),
        any::<bool>().prop_map(Step::Demotion),
        Just(Step::DropFails),
        any::<bool>().prop_map(Step::Capacity),
        (10u64..3000).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    /// Whatever came before: when everybody waits only for what it wrote, each write goes on or fails in bounded time.
    #[test]
    fn no_write_is_held_for_ever(steps in steps(), waits in any::<bool>(), policy in 0usize..4) {
        let policy = ["maxbw", "maxeff", "bbos", "predicted"][policy];
        let mut desk = desk_under(policy, if waits { "" } else { "full = \"enospc\"\n" }, 8 * MIB);
        let (mut now, mut drop_fails) = (ms(0), false);
        let mut requests: Vec<u64> = Vec::new();
        let mut told = Vec::new();
        let mut demoting = 0;
        for step in steps {
            match step {
                Step::Arrive(app, bytes) if requests.len() < 8 => {
                    // The first write of a version asks for its turn.
                    let request = desk.arrive(now, app, bytes);
                    told.push(held(&mut desk, now, request, MIB));
                    requests.push(request);
                }
                Step::Write(which, len) => {
                    let Some(request) = requests.get(which).copied() else { continue };
                    if !desk.may_write(now, request, len) { told.push(held(&mut desk, now, request, len)); }
                }
                Step::Commit(which) if which < requests.len() => {
                    let done = desk.request(requests[which]).is_some_and(|of| of.version.is_some() && of.held.is_empty());
                    if done {
                        let request = requests.remove(which);
                        let bytes = desk.request(request).map_or(0, |of| of.written);
                        desk.committed(now, request, bytes);
                    }
                }
                Step::Abandon(which) if which < requests.len() => desk.abandoned(now, requests.remove(which)),
                Step::Demotion(well) if demoting > 0 => {
                    demoting -= 1;
                    if well { desk.demoted(now) } else { desk.demotion_failed(now) }
                }
                Step::DropFails => drop_fails = true,
                Step::Capacity(usable) => desk.capacity(now, usable, usable),
                Step::Pass(passes_ms) => {
                    now = now + ms(passes_ms);
                    desk.tick(now);
                }
                _ => {}
            }
            while let Some(effect) = desk.effect() {
                match effect {
                    Effect::Resume(resume, verdict) => resume(verdict),
                    Effect::Prepare(request) => desk.prepared(now, request),
                    Effect::Demote(_) => demoting += 1,
                    Effect::Drop(version, bytes) if std::mem::take(&mut drop_fails) => desk.drop_failed(now, version, bytes),
                    _ => {}
                }
            }
        }
        // Each of eight may wait its five seconds for room, and be silent for two.
        let until = now + ms(8 * 8000);
        while now < until {
            now = now + ms(50);
            desk.tick(now);
            carry_out(&mut desk, now);
        }
        let waiting = told.iter().filter(|told| told.load(Ordering::Relaxed) == 0).count();
        prop_assert_eq!((waiting, desk.held()), (0, 0));
    }
}
