//! Admission with a manual clock: held writes, their waits, and the reasons.

use super::*;
use crate::burst::buffer::{Event as Of, Scheme};
use crate::burst::control::Device;
use crate::burst::queue::App;
use proptest::prelude::*;
use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;
/// A rate above any limit.
const UNLIMITED: f64 = 1e15;

fn config(scheme: Scheme, full_waits: bool, capacity: u64) -> Config {
    let device = Device {
        write_max: UNLIMITED,
        write_min: UNLIMITED * 0.9,
        demote_max: UNLIMITED * 0.5,
        demote_min: 1.0,
        demote_idle: UNLIMITED,
        capacity: capacity as f64,
    };
    let buffer = buffer::Config { wait_max: Some(Time::from_secs(600)), ..buffer::Config::new(device, scheme) };
    Config { buffer, full_waits, full_wait: ms(5000) }
}

/// Admission, with the result of each write.
struct World {
    admission: Admission,
    verdicts: BTreeMap<u64, Verdict>,
    writes: u64,
    requests: u64,
    now: Time,
}

impl World {
    fn new(config: Config) -> World {
        World { admission: Admission::new(config), verdicts: BTreeMap::new(), writes: 0, requests: 0, now: Time::ZERO }
    }

    fn arrive(&mut self, now: Time, app: App, bytes: u64) -> u64 {
        self.requests += 1;
        self.tell(now, Of::Arrive { app, request: self.requests, bytes: bytes as f64 });
        self.requests
    }

    fn hold(&mut self, now: Time, request: u64, len: u64) -> u64 {
        (self.now, self.writes) = (now, self.writes + 1);
        self.admission.handle(now, Event::Hold { request, write: self.writes, len });
        self.writes
    }

    fn no_room(&mut self, now: Time, request: u64, waited: Time) -> u64 {
        (self.now, self.writes) = (now, self.writes + 1);
        let event = Event::NoRoom { request, write: self.writes, len: MIB, waited };
        self.admission.handle(now, event);
        self.writes
    }

    fn tell(&mut self, now: Time, event: Of) {
        self.now = now;
        self.admission.handle(now, Event::Buffer(event));
    }

    /// Carries out all actions at once, and handles each deadline up to `until`.
    fn run(&mut self, until: Time) {
        loop {
            self.carry_out();
            match self.admission.next_deadline().filter(|at| *at <= until) {
                Some(at) => self.tell(self.now.max(at), Of::Tick),
                None => break,
            }
        }
        self.now = until;
    }

    fn carry_out(&mut self) {
        while let Some(action) = self.admission.poll() {
            match action {
                Action::Release { write, verdict } => drop(self.verdicts.insert(write, verdict)),
                Action::Prepare { request } => self.admission.handle(self.now, Event::Prepared { request }),
                Action::Buffer(_) => {}
            }
        }
    }

    fn is_held(&self, write: u64) -> bool {
        !self.verdicts.contains_key(&write)
    }

    fn went(&self, write: u64) -> bool {
        self.verdicts.get(&write) == Some(&Verdict::Go)
    }

    fn refused(&self, write: u64) -> bool {
        self.verdicts.get(&write) == Some(&Verdict::NoRoom)
    }
}

fn ms(n: u64) -> Time {
    Time::from_millis(n)
}

fn committed(request: u64, bytes: u64) -> Of {
    Of::Committed { request, bytes: bytes as f64 }
}

#[test]
fn one_application_writes_at_a_time_and_one_that_pauses_lets_others() {
    let mut world = World::new(config(Scheme::MaxBw, true, 1 << 30));
    let (a, b) = (world.arrive(ms(0), 1, 0), world.arrive(ms(0), 2, 0));
    let (first, second) = (world.hold(ms(0), a, MIB), world.hold(ms(0), b, MIB));
    world.run(ms(0));
    assert!(world.went(first) && world.is_held(second));
    assert!(world.admission.admit(ms(1), a, MIB) && !world.admission.admit(ms(1), b, MIB));
    world.run(ms(2000));
    assert!(world.is_held(second));
    assert_eq!(world.admission.next_deadline(), Some(ms(2001)), "two seconds after its latest write");
    world.run(ms(2001));
    assert!(world.went(second), "the first wrote nothing for two seconds");
    let again = world.hold(ms(2200), a, MIB);
    world.run(ms(2200));
    assert!(world.is_held(again));
    world.tell(ms(2300), committed(b, 2 * MIB));
    world.run(ms(2300));
    assert!(world.went(again));
}

#[test]
fn writes_go_at_the_rate_and_not_faster() {
    let mut config = config(Scheme::MaxBw, true, 1 << 30);
    let (fast, slow) = (10.0 * MIB as f64, MIB as f64);
    let device = &mut config.buffer.device;
    (device.write_max, device.write_min) = (fast, fast / 2.0);
    (device.demote_max, device.demote_min, device.demote_idle) = (slow, 1024.0, slow);
    let mut world = World::new(config);
    let a = world.arrive(ms(0), 1, 64 * MIB);
    let all: Vec<_> = (0..11).map(|_| world.hold(ms(0), a, MIB)).collect();
    world.run(ms(0));
    let gone = |world: &World| all.iter().filter(|write| world.went(**write)).count();
    assert_eq!(gone(&world), 1, "one is saved up");
    assert_eq!(world.admission.next_deadline(), Some(ms(100)));
    world.run(ms(501));
    assert_eq!(gone(&world), 6);
    assert!(!world.admission.admit(ms(501), a, MIB), "others are before it");
    world.run(ms(1001));
    assert_eq!(gone(&world), 11);
}

#[test]
fn a_checkpoint_for_the_capacity_tier_is_not_held_to_the_buffers_rate() {
    let mut config = config(Scheme::MaxBw, true, 8 * MIB);
    config.buffer.device.write_max = MIB as f64;
    let mut world = World::new(config);
    let large = world.arrive(ms(0), 1, 64 * MIB);
    let all: Vec<_> = (0..64).map(|_| world.hold(ms(0), large, MIB)).collect();
    world.run(ms(0));
    assert!(world.admission.request(large).is_some_and(|of| of.direct), "it never fits");
    assert!(all.iter().all(|write| world.went(*write)));
}

#[test]
fn without_room_a_write_waits_so_long_or_fails_at_once() {
    for waits in [true, false] {
        let mut world = World::new(config(Scheme::MaxBw, waits, 8 * MIB));
        let a = world.arrive(ms(0), 1, 8 * MIB);
        let first = world.hold(ms(0), a, 8 * MIB);
        world.run(ms(0));
        let more = world.hold(ms(0), a, MIB);
        world.run(ms(4999));
        assert!(world.went(first));
        assert_eq!(world.is_held(more), waits);
        world.run(ms(5000));
        assert!(world.refused(more));
    }
}

#[test]
fn one_that_was_refused_and_paused_gets_its_turn_again() {
    let mut world = World::new(config(Scheme::MaxBw, false, 8 * MIB));
    let full = world.arrive(ms(0), 1, 8 * MIB);
    world.hold(ms(0), full, 8 * MIB);
    world.run(ms(0));
    let a = world.arrive(ms(0), 2, 0);
    world.run(ms(2100));
    let refused = world.hold(ms(2200), a, MIB);
    world.run(ms(2200));
    assert!(world.refused(refused));
    let b = world.arrive(ms(2300), 3, 0);
    world.run(ms(4500));
    world.tell(ms(4600), Of::Abandoned { request: full });
    let again = world.hold(ms(4700), a, MIB);
    world.tell(ms(4800), Of::Abandoned { request: b });
    world.run(ms(4800));
    assert!(world.went(again));
}

#[test]
fn a_write_that_the_devices_refuse_is_tried_again_as_long_as_was_said() {
    for waits in [true, false] {
        let mut world = World::new(config(Scheme::MaxBw, waits, 8 * MIB));
        let a = world.arrive(ms(0), 1, MIB);
        world.hold(ms(0), a, MIB);
        world.run(ms(0));
        let write = world.no_room(ms(10), a, ms(4900));
        world.run(ms(10));
        assert_eq!(world.is_held(write), waits);
        world.run(ms(260));
        assert_eq!(world.went(write), waits, "it is tried again");
        let write = world.no_room(ms(300), a, ms(5000));
        world.run(ms(300));
        assert!(world.refused(write));
    }
}

#[test]
fn room_that_was_not_made_is_not_taken() {
    let mut world = World::new(config(Scheme::MaxBw, true, 8 * MIB));
    let old = Version { app: 9, number: 1 };
    let found = Of::Found { version: old, bytes: 6 * MIB, in_buffer: true, on_capacity: true, lacks_replica: false };
    world.tell(ms(0), found);
    let a = world.arrive(ms(0), 1, 4 * MIB);
    let write = world.hold(ms(0), a, MIB);
    let mut prepare = None;
    while let Some(action) = world.admission.poll() {
        match action {
            Action::Buffer(buffer::Action::Drop { version, bytes }) => {
                world.tell(ms(1), Of::DropFailed { version, bytes });
            }
            Action::Prepare { request } => prepare = Some(request),
            _ => {}
        }
    }
    let request = prepare.expect("it had its room");
    world.admission.handle(ms(1), Event::Prepared { request });
    world.run(ms(1));
    assert!(world.is_held(write));
    assert_eq!(world.admission.buffer().used(), 6.0 * MIB as f64);
    world.tell(ms(300), Of::Capacity { usable: true, whole: true });
    world.run(ms(300));
    assert!(world.went(write));
    assert_eq!(world.admission.buffer().used(), 4.0 * MIB as f64);
}

#[test]
fn at_the_end_everything_held_fails() {
    let mut world = World::new(config(Scheme::MaxBw, true, 1 << 30));
    let (a, b) = (world.arrive(ms(0), 1, 0), world.arrive(ms(0), 2, 0));
    world.hold(ms(0), a, MIB);
    let write = world.hold(ms(0), b, MIB);
    world.run(ms(0));
    world.admission.handle(ms(0), Event::Close);
    world.run(ms(0));
    assert_eq!(world.verdicts.get(&write), Some(&Verdict::Closed));
    assert_eq!(world.admission.held(), 0);
}

/// An event of an application, a device or the clock.
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
    /// Tests from any state that each write goes on or fails in bounded time, if each application waits only for its
    /// own writes. The driver returns only at the deadlines.
    #[test]
    fn no_write_is_held_for_ever(steps in steps(), waits in any::<bool>(), scheme in 0usize..4) {
        let scheme = [Scheme::MaxBw, Scheme::MaxEff, Scheme::Bbos, Scheme::Predicted][scheme];
        let mut world = World::new(config(scheme, waits, 8 * MIB));
        let (mut now, mut drop_fails) = (ms(0), false);
        let mut requests: Vec<u64> = Vec::new();
        let mut demoting = 0;
        for step in steps {
            match step {
                Step::Arrive(app, bytes) if requests.len() < 8 => {
                    // The first write of a version requests its turn.
                    let request = world.arrive(now, app, bytes);
                    world.hold(now, request, MIB);
                    requests.push(request);
                }
                Step::Write(which, len) => {
                    let Some(request) = requests.get(which).copied() else { continue };
                    if !world.admission.admit(now, request, len) { world.hold(now, request, len); }
                }
                Step::Commit(which) if which < requests.len() => {
                    let request = requests[which];
                    let of = world.admission.request(request);
                    if let Some(bytes) = of.filter(|of| of.version.is_some() && of.held.is_empty()).map(|of| of.written) {
                        requests.remove(which);
                        world.tell(now, committed(request, bytes));
                    }
                }
                Step::Abandon(which) if which < requests.len() => {
                    world.tell(now, Of::Abandoned { request: requests.remove(which) });
                }
                Step::Demotion(well) if demoting > 0 => {
                    demoting -= 1;
                    world.tell(now, if well { Of::Demoted } else { Of::DemotionFailed });
                }
                Step::DropFails => drop_fails = true,
                Step::Capacity(usable) => world.tell(now, Of::Capacity { usable, whole: usable }),
                Step::Pass(passes_ms) => {
                    now = now + ms(passes_ms);
                    world.run(now);
                }
                _ => {}
            }
            while let Some(action) = world.admission.poll() {
                match action {
                    Action::Release { write, verdict } => drop(world.verdicts.insert(write, verdict)),
                    Action::Prepare { request } => world.admission.handle(now, Event::Prepared { request }),
                    Action::Buffer(buffer::Action::Demote(_)) => demoting += 1,
                    Action::Buffer(buffer::Action::Drop { version, bytes }) if std::mem::take(&mut drop_fails) => {
                        world.tell(now, Of::DropFailed { version, bytes });
                    }
                    Action::Buffer(_) => {}
                }
            }
        }
        // Each of eight may wait five seconds for room, and be idle for two.
        world.run(now + ms(8 * 8000));
        let waiting = (1..=world.writes).filter(|write| world.is_held(*write)).count();
        // A write may have been released without being held.
        prop_assert_eq!((waiting, world.admission.held()), (0, 0));
    }
}

#[test]
fn when_another_decides_what_is_held_goes_on_and_nothing_is_known_any_more() {
    let mut world = World::new(config(Scheme::Bbos, true, 64 * MIB));
    let first = world.arrive(ms(0), 1, MIB);
    let goes = world.hold(ms(0), first, MIB);
    world.run(ms(1));
    let second = world.arrive(ms(1), 2, MIB);
    let (waits, retried) = (world.hold(ms(1), second, MIB), world.no_room(ms(1), first, ms(0)));
    world.run(ms(2));
    assert!(world.went(goes) && world.is_held(waits) && world.is_held(retried));
    world.admission.handle(ms(3), Event::HandOver);
    world.run(ms(3));
    assert!(world.went(waits) && world.went(retried));
    assert_eq!((world.admission.held(), world.admission.is_busy()), (0, false));
    assert!(world.admission.buffer().used() == 0.0 && world.admission.request(first).is_none());
    let again = world.arrive(ms(4), 2, MIB);
    let write = world.hold(ms(4), again, MIB);
    world.run(ms(5));
    assert!(world.went(write), "it works as a new one");
}
