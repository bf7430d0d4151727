//! Tests of the health of a target.

use super::*;
use proptest::prelude::*;

impl Health {
    /// Panics if an invariant is broken.
    fn check(&self) {
        assert!(!self.doubt || matches!(self.state, State::Suspect | State::Draining | State::ReadOnly));
        assert!(self.state != State::ReadOnly || self.read_only);
        assert!(self.state != State::Ok || !self.read_only, "what can only be read is not ok");
        assert!(self.state != State::Suspect || self.doubt, "suspect is doubt");
        assert!(!self.failed_by_operator || self.state == State::Failed);
        assert!(self.probe_wanted.is_none() || self.probe_expires.is_some(), "a wanted probe expires");
        if self.doubt {
            assert!(self.probe_expires.is_some() || self.next_probe.is_some(), "doubt is looked into");
            let is_own = matches!(self.file_system, None | Some(FileSystem::Answers));
            assert!(!is_own || self.probes_failed_in_row < self.config.failed_probes_max.max(1));
        }
    }
}

const SEC: u64 = 1_000_000_000;

fn quiet() -> Config {
    Config { routine_interval: None, ..Config::default() }
}

fn drain(health: &mut Health) -> Vec<Action> {
    health.check();
    health.drain().collect()
}

fn after(health: &mut Health, at_secs: u64, event: Event) -> Vec<Action> {
    health.handle(Time(at_secs * SEC), event);
    drain(health)
}

fn changed(from: State, to: State, reason: Reason) -> Action {
    Action::Changed { from, to, reason }
}

#[test]
fn a_miss_makes_suspect_and_a_good_probe_makes_ok() {
    let mut h = Health::new(quiet(), State::Ok, Time::ZERO);
    let got = after(&mut h, 5, Event::DeadlineMissed { started: Time::ZERO });
    let reason = Reason::DeadlineMissed;
    assert_eq!(got, [changed(State::Ok, State::Suspect, reason), Action::Probe { reason, durable: false }]);
    assert_eq!(after(&mut h, 5, Event::HangingReturned), []);
    assert_eq!(after(&mut h, 5, Event::ProbeOk), [changed(State::Suspect, State::Ok, Reason::ProbesOk(1))]);
    assert_eq!(h.next_deadline(), None);
}

/// [S-373]
#[test]
fn a_missing_object_brings_the_routine_probe_forward() {
    let config = Config::default();
    let mut h = Health::new(config.clone(), State::Ok, Time::ZERO);
    assert!(h.next_deadline() > Some(Time(2 * SEC)), "the routine probe is far");
    assert_eq!(after(&mut h, 1, Event::ObjectMissing), []);
    assert_eq!(h.next_deadline(), Some(Time(SEC) + config.probe_interval));
    let probe = Action::Probe { reason: Reason::Routine, durable: false };
    assert_eq!(after(&mut h, 2, Event::ObjectMissing), [probe]);
    assert_eq!(after(&mut h, 2, Event::ObjectMissing), [], "one at a time");
    assert_eq!(after(&mut h, 2, Event::ProbeOk), []);
    let mut h = Health::new(quiet(), State::Failed, Time::ZERO);
    assert_eq!((after(&mut h, 1, Event::ObjectMissing), h.next_deadline()), (vec![], None));
}

#[test]
fn a_good_probe_is_not_enough_while_an_operation_hangs() {
    let mut h = Health::new(quiet(), State::Ok, Time::ZERO);
    after(&mut h, 5, Event::DeadlineMissed { started: Time::ZERO });
    assert_eq!(after(&mut h, 6, Event::ProbeOk), []);
    assert_eq!(h.state(), State::Suspect);
    assert_eq!(after(&mut h, 7, Event::HangingReturned), [Action::Probe { reason: Reason::Routine, durable: false }]);
    assert_eq!(after(&mut h, 7, Event::ProbeOk), [changed(State::Suspect, State::Ok, Reason::ProbesOk(2))]);

    let mut h = Health::new(Config { wait_for_hanging: false, ..quiet() }, State::Ok, Time::ZERO);
    after(&mut h, 5, Event::DeadlineMissed { started: Time::ZERO });
    after(&mut h, 6, Event::ProbeOk);
    assert_eq!(h.state(), State::Ok);
}

#[test]
fn operations_of_one_stall_are_one_miss_and_a_later_one_is_the_second() {
    let mut h = Health::new(quiet(), State::Ok, Time::ZERO);
    for _ in 0..8 {
        after(&mut h, 5, Event::DeadlineMissed { started: Time(SEC) });
    }
    assert_eq!(h.state(), State::Suspect);
    let got = after(&mut h, 11, Event::DeadlineMissed { started: Time(6 * SEC) });
    assert_eq!(got, [changed(State::Suspect, State::Failed, Reason::MissedAgain)]);
}

#[test]
fn a_second_miss_after_the_window_only_makes_suspect_again() {
    let mut h = Health::new(quiet(), State::Ok, Time::ZERO);
    after(&mut h, 5, Event::DeadlineMissed { started: Time::ZERO });
    after(&mut h, 6, Event::HangingReturned);
    after(&mut h, 6, Event::ProbeOk);
    assert_eq!(h.state(), State::Ok);
    after(&mut h, 66, Event::DeadlineMissed { started: Time(61 * SEC) });
    assert_eq!(h.state(), State::Suspect);
}

#[test]
fn failed_probes_fail_it_and_it_stays_failed() {
    let mut h = Health::new(quiet(), State::Ok, Time::ZERO);
    after(&mut h, 1, Event::OpError);
    assert_eq!(after(&mut h, 1, Event::ProbeFailed), []);
    let due = h.next_deadline().expect("it probes again");
    h.handle(due, Event::Tick);
    assert_eq!(drain(&mut h), [Action::Probe { reason: Reason::Routine, durable: false }]);
    assert_eq!(after(&mut h, 3, Event::ProbeFailed), [changed(State::Suspect, State::Failed, Reason::ProbesFailed(2))]);
    for event in [Event::ProbeOk, Event::OperatorDrain, Event::Tick] {
        assert_eq!(after(&mut h, 4, event), []);
    }
    assert_eq!(after(&mut h, 5, Event::OperatorRestore), [changed(State::Failed, State::Ok, Reason::Operator)]);
}

#[test]
fn a_probe_without_answer_counts_as_failed() {
    let mut h = Health::new(quiet(), State::Ok, Time::ZERO);
    after(&mut h, 1, Event::OpError);
    let mut probes = 1;
    while h.state() != State::Failed {
        let due = h.next_deadline().expect("a deadline while in doubt");
        h.handle(due, Event::Tick);
        probes += drain(&mut h).iter().filter(|a| matches!(a, Action::Probe { .. })).count();
    }
    assert_eq!(probes, 2);
}

#[test]
fn draining_takes_no_new_objects_can_fail_and_is_restored() {
    let mut h = Health::new(quiet(), State::Ok, Time::ZERO);
    assert_eq!(after(&mut h, 1, Event::OperatorDrain), [changed(State::Ok, State::Draining, Reason::Operator)]);
    assert!(h.state().accepts_io() && !h.state().accepts_new_objects());
    let got = after(&mut h, 2, Event::OpError);
    assert_eq!(got, [Action::Probe { reason: Reason::HardError, durable: false }]);
    assert!(h.in_doubt());
    after(&mut h, 2, Event::ProbeOk);
    assert!(!h.in_doubt());
    assert_eq!(h.state(), State::Draining);
    after(&mut h, 3, Event::OpError);
    after(&mut h, 3, Event::ProbeFailed);
    after(&mut h, 4, Event::ProbeFailed);
    assert_eq!(h.state(), State::Failed);
    after(&mut h, 5, Event::OperatorRestore);
    after(&mut h, 6, Event::OperatorDrain);
    assert_eq!(after(&mut h, 7, Event::OperatorRestore), [changed(State::Draining, State::Ok, Reason::Operator)]);
}

#[test]
fn good_probes_restore_it_where_configured_but_not_what_the_operator_failed() {
    let config = Config { auto_restore: Some(3), ..quiet() };
    let mut h = Health::new(config.clone(), State::Failed, Time::ZERO);
    for round in 1..=3 {
        assert_eq!(h.state(), State::Failed, "round {round}");
        let due = h.next_deadline().expect("it is probed");
        h.handle(due, Event::Tick);
        assert_eq!(drain(&mut h).len(), 1);
        h.handle(due, Event::ProbeOk);
    }
    assert_eq!(h.state(), State::Ok);
    let mut h = Health::new(config, State::Ok, Time::ZERO);
    after(&mut h, 1, Event::OperatorFail);
    for _ in 0..9 {
        after(&mut h, 2, Event::ProbeOk);
    }
    assert_eq!((h.state(), h.next_deadline()), (State::Failed, None));
}

#[test]
fn what_can_only_be_read_is_read_drained_and_ok_again() {
    let mut h = Health::new(quiet(), State::Ok, Time::ZERO);
    let reason = Reason::ReadOnly;
    let got = after(&mut h, 1, Event::ReadOnly);
    assert_eq!(got, [changed(State::Ok, State::Suspect, reason), Action::Probe { reason, durable: false }]);
    assert_eq!(after(&mut h, 1, Event::ProbeReadOnly), [changed(State::Suspect, State::ReadOnly, reason)]);
    assert!(h.state().accepts_io() && !h.state().accepts_new_objects() && !h.in_doubt());
    assert_eq!(after(&mut h, 1, Event::ReadOnly), [], "it is known");
    let due = h.next_deadline().expect("it is looked at again");
    h.handle(due, Event::Tick);
    assert_eq!(drain(&mut h), [Action::Probe { reason: Reason::Routine, durable: false }]);
    assert_eq!(after(&mut h, 5, Event::ProbeOk), [changed(State::ReadOnly, State::Ok, Reason::ProbesOk(2))]);
    assert_eq!(after(&mut h, 6, Event::ProbeReadOnly), [changed(State::Ok, State::ReadOnly, reason)]);
    assert_eq!(after(&mut h, 6, Event::OperatorDrain), [changed(State::ReadOnly, State::Draining, Reason::Operator)]);
    assert_eq!(after(&mut h, 6, Event::ReadOnly), [], "it stays drained");
    assert_eq!(after(&mut h, 6, Event::ProbeReadOnly), []);
    let restored = after(&mut h, 6, Event::OperatorRestore);
    assert_eq!(restored, [changed(State::Draining, State::ReadOnly, Reason::Operator)], "nobody has written yet");
    after(&mut h, 11, Event::OpError);
    assert!(h.in_doubt() && h.state() == State::ReadOnly);
    after(&mut h, 11, Event::ProbeFailed);
    assert_eq!(
        after(&mut h, 12, Event::ProbeFailed),
        [changed(State::ReadOnly, State::Failed, Reason::ProbesFailed(2))]
    );
}

#[test]
fn a_failed_sync_is_doubt_that_only_a_synced_probe_ends() {
    let mut h = Health::new(quiet(), State::Ok, Time::ZERO);
    let reason = Reason::SyncFailed;
    let got = after(&mut h, 1, Event::SyncFailed);
    assert_eq!(got, [changed(State::Ok, State::Suspect, reason), Action::Probe { reason, durable: true }]);
    assert_eq!(after(&mut h, 1, Event::ProbeOk), [changed(State::Suspect, State::Ok, Reason::ProbesOk(1))]);
    // If the probe cannot sync either, new objects go elsewhere, and existing ones are read.
    after(&mut h, 2, Event::SyncFailed);
    assert_eq!(after(&mut h, 2, Event::ProbeReadOnly), [changed(State::Suspect, State::ReadOnly, reason)]);
    let due = h.next_deadline().expect("it is looked at again");
    h.handle(due, Event::Tick);
    assert_eq!(drain(&mut h), [Action::Probe { reason: Reason::Routine, durable: true }]);
    assert_eq!(after(&mut h, 5, Event::ProbeOk), [changed(State::ReadOnly, State::Ok, Reason::ProbesOk(3))]);
    // A probe that began before the failed sync does not clear it.
    after(&mut h, 6, Event::OpError);
    assert_eq!(after(&mut h, 6, Event::SyncFailed), []);
    assert_eq!(after(&mut h, 6, Event::ProbeOk), []);
    assert_eq!(h.state(), State::Suspect);
    let due = h.next_deadline().expect("it is probed again");
    h.handle(due, Event::Tick);
    assert_eq!(drain(&mut h), [Action::Probe { reason: Reason::Routine, durable: true }]);
    assert_eq!(after(&mut h, 8, Event::ProbeOk).len(), 1);
    assert_eq!(h.state(), State::Ok);
}

#[test]
fn good_probes_bring_what_can_only_be_read_back_as_such() {
    let mut h = Health::new(Config { auto_restore: Some(2), ..quiet() }, State::Failed, Time::ZERO);
    assert_eq!(after(&mut h, 1, Event::ProbeReadOnly), []);
    let restored = after(&mut h, 2, Event::ProbeReadOnly);
    assert_eq!(restored, [changed(State::Failed, State::ReadOnly, Reason::ProbesOk(2))]);
}

/// [S-171]
#[test]
fn a_shortage_of_the_daemon_is_no_verdict() {
    for state in [State::Ok, State::Draining, State::Suspect] {
        let config = Config::default();
        let mut h = Health::new(config.clone(), state, Time::ZERO);
        let mut now = Time::ZERO;
        for round in 0..100 {
            h.handle(now, Event::Tick);
            drain(&mut h);
            h.handle(now, Event::ProbeNotMade);
            assert_eq!(drain(&mut h), [], "round {round}");
            assert_eq!((h.state(), h.probes_failed_in_row), (state, 0), "round {round}");
            let due = h.next_deadline().expect("it looks again");
            assert!(due > now && due <= now + config.probe_interval, "and soon");
            now = due;
        }
        h.handle(now, Event::Tick);
        drain(&mut h);
        h.handle(now, Event::ProbeOk);
        assert!(!h.in_doubt(), "it is as it was as soon as somebody can look");
    }
    // A probe that failed in between still counts.
    let mut h = Health::new(quiet(), State::Ok, Time::ZERO);
    after(&mut h, 1, Event::OpError);
    for event in [Event::ProbeFailed, Event::ProbeNotMade] {
        after(&mut h, 1, event);
        assert_eq!(h.state(), State::Suspect);
    }
    after(&mut h, 1, Event::ProbeFailed);
    assert_eq!(h.state(), State::Failed);
}

/// Targets of one shared file system, driven as the live driver does.
struct Shared(Vec<Health>);

impl Shared {
    fn new(targets: usize) -> Shared {
        Shared((0..targets).map(|_| Health::new(Config::default(), State::Ok, Time::ZERO)).collect())
    }

    /// Until then, probes are answered at once.
    fn run_until(&mut self, until: Time, answer: impl Fn(Time, usize) -> Event) {
        while let Some(now) = self.0.iter().filter_map(Health::next_deadline).min().filter(|at| *at <= until) {
            self.0.iter_mut().for_each(|health| health.handle(now, Event::Tick));
            let mut idle_rounds = 0;
            while idle_rounds < 2 {
                idle_rounds += 1;
                for (n, health) in self.0.iter_mut().enumerate() {
                    while let Some(action) = health.poll() {
                        if matches!(action, Action::Probe { .. }) {
                            health.handle(now, answer(now, n));
                            idle_rounds = 0;
                        }
                    }
                    health.check();
                }
                let since = self.0.iter().filter_map(Health::doubt_since).min().unwrap_or(Time(u64::MAX));
                let seen = file_system::seen(self.0.iter().map(|health| health.member(since)));
                self.0.iter_mut().for_each(|health| health.handle(now, Event::FileSystem(seen)));
            }
        }
    }

    fn states(&self) -> Vec<State> {
        self.0.iter().map(Health::state).collect()
    }
}

/// [S-414]
#[test]
fn a_shared_file_system_that_is_away_fails_no_target() {
    let mut shared = Shared::new(3);
    let away = |from: u64, to: u64| {
        move |now: Time, _| if (from * SEC..to * SEC).contains(&now.0) { Event::ProbeFailed } else { Event::ProbeOk }
    };
    shared.run_until(Time(60 * SEC), away(15, 75));
    assert_eq!(shared.states(), [State::Suspect; 3]);
    assert!(shared.0.iter().all(Health::accepts_new_objects), "no target is better than another");
    shared.run_until(Time(80 * SEC), away(15, 75));
    assert_eq!(shared.states(), [State::Ok; 3], "and it is used as soon as it answers");
    // A file system that is away for longer than its client waits fails its targets.
    shared.run_until(Time(400 * SEC), away(100, 1000));
    assert_eq!(shared.states(), [State::Failed; 3]);
}

/// [S-414]
#[test]
fn a_target_whose_neighbours_answer_fails_as_on_a_disk() {
    let mut shared = Shared::new(3);
    let one_fails = |now: Time, n| if n == 1 && now.0 > 15 * SEC { Event::ProbeFailed } else { Event::ProbeOk };
    shared.run_until(Time(15 * SEC), one_fails);
    shared.0[1].handle(Time(16 * SEC), Event::OpError);
    shared.run_until(Time(25 * SEC), one_fails);
    assert_eq!(shared.states(), [State::Ok, State::Failed, State::Ok]);
    // A probe from before the fault shows nothing.
    let member = |in_doubt, answered| Member { in_doubt, is_failed: false, answered };
    assert_eq!(file_system::seen([member(true, false), member(false, false)]), FileSystem::Unknown);
    assert_eq!(file_system::seen([member(false, false); 2]), FileSystem::Answers);
    let failed = Member { is_failed: true, ..member(false, false) };
    assert_eq!(file_system::seen([member(true, false), failed]), FileSystem::Away);
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => Just(Event::OpError),
        2 => (0u64..100).prop_map(|s| Event::DeadlineMissed { started: Time(s * SEC) }),
        2 => Just(Event::HangingReturned),
        4 => Just(Event::ProbeOk),
        3 => Just(Event::ProbeFailed),
        2 => Just(Event::ProbeReadOnly),
        1 => Just(Event::ReadOnly),
        1 => Just(Event::SyncFailed),
        2 => Just(Event::ProbeNotMade),
        2 => prop_oneof![Just(FileSystem::Answers), Just(FileSystem::Unknown), Just(FileSystem::Away)].prop_map(Event::FileSystem),
        1 => Just(Event::OperatorFail),
        1 => Just(Event::OperatorRestore),
        1 => Just(Event::OperatorDrain),
        4 => Just(Event::Tick),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_the_invariants_hold(
        events in prop::collection::vec((0u64..3_000, any_event()), 1..200),
        auto_restore in prop::option::of(1u32..4),
        routine in any::<bool>(),
    ) {
        let routine_interval = routine.then(|| Time::from_secs(10));
        let config = Config { auto_restore, routine_interval, ..Config::default() };
        let mut h = Health::new(config, State::Ok, Time::ZERO);
        let mut now = Time::ZERO;
        let mut told = State::Ok;
        for (millis, event) in events {
            now = now + Time::from_millis(millis);
            let before = h.state();
            h.handle(now, event);
            for action in drain(&mut h) {
                if let Action::Changed { from, to, .. } = action {
                    prop_assert_eq!(from, told);
                    prop_assert_ne!(from, to);
                    told = to;
                }
            }
            prop_assert_eq!(told, h.state());
            let sticky = auto_restore.is_none() && before == State::Failed && event != Event::OperatorRestore;
            prop_assert!(!sticky || h.state() == State::Failed);
            prop_assert!(h.next_deadline().is_none_or(|at| at > now), "a tick makes progress");
        }
    }
}
