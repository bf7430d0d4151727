//! Tests of the machine: by example, and with any events.

use super::*;
use crate::machine::Machine;
use proptest::prelude::*;
use std::collections::BTreeSet;

const A: JobId = JobId(1);
const B: JobId = JobId(2);
const SOURCE: SourceId = SourceId(0);

/// Margin 10 s and half of the transfer; 100 bytes/s.
fn machine() -> JustInTime {
    let (margin_min, early_max) = (Time::from_secs(10), Time::from_secs(100));
    let config = Config { margin_min, early_max, estimate_wait: Time::from_secs(6), ..Config::default() };
    let mut rates = Rates::default();
    rates.set(SOURCE, 100);
    JustInTime::new(config, rates)
}

fn after(machine: &mut JustInTime, now: u64, event: Event) -> Vec<Action> {
    machine.handle(Time::from_secs(now), event);
    machine.check();
    machine.drain().collect()
}

fn submit(machine: &mut JustInTime, now: u64, job: JobId, bytes: u64, start: Option<u64>) -> Vec<Action> {
    let start = start.map(Time::from_secs);
    after(machine, now, Event::Submitted { job, load: Load::free(bytes), source: SOURCE, start })
}

fn due(start: u64, transfer: u64, margin: u64) -> Reason {
    let secs = Time::from_secs;
    Reason::Due { start: secs(start), transfer: secs(transfer), margin: secs(margin) }
}

#[test]
fn begins_so_that_it_ends_a_margin_before_the_start() {
    let mut m = machine();
    // 2000 bytes at 100/s: 20 s, margin 10 + 10: begins 40 s before 1000 s.
    assert_eq!(submit(&mut m, 0, A, 2000, Some(1000)), []);
    assert_eq!(
        (m.next_deadline(), m.phase(A)),
        (Some(Time::from_secs(960)), Some(Phase::Waiting { due: Time::from_secs(960) }))
    );
    assert_eq!(after(&mut m, 500, Event::Estimated { job: A, start: Some(Time::from_secs(800)) }), []);
    assert_eq!(m.next_deadline(), Some(Time::from_secs(760)));
    let reason = due(800, 20, 20);
    assert_eq!(after(&mut m, 760, Event::Tick), [Action::Reserve { job: A, bytes: 2000, reason }]);
    assert_eq!(after(&mut m, 760, Event::Reserved(A)), [Action::Begin { job: A, reason }]);
    assert_eq!(m.stats().bytes_reserved, 2000);
    assert_eq!(after(&mut m, 780, Event::Arrived { job: A, took: Time::from_secs(20) }), []);
    assert_eq!(after(&mut m, 800, Event::Started(A)), []);
    assert_eq!(after(&mut m, 900, Event::Gone(A)), [Action::Release { job: A, bytes: 2000 }]);
    let stats = m.stats();
    assert_eq!((stats.in_time, stats.too_early, stats.too_late), (1, 0, 0));
    assert_eq!((stats.idle_total, stats.bytes_reserved), (Time::from_secs(20), 0));
}

#[test]
fn too_early_and_too_late_are_told_apart() {
    let mut m = machine();
    submit(&mut m, 0, A, 2000, Some(40));
    after(&mut m, 0, Event::Reserved(A));
    after(&mut m, 20, Event::Arrived { job: A, took: Time::from_secs(20) });
    after(&mut m, 121, Event::Started(A));
    submit(&mut m, 200, B, 2000, Some(1000));
    // Another job ended early: this one could start at 300, and waits for its data.
    let got = after(&mut m, 300, Event::Started(B));
    assert_eq!(got, [Action::Reserve { job: B, bytes: 2000, reason: Reason::Waited }]);
    after(&mut m, 300, Event::Reserved(B));
    after(&mut m, 320, Event::Arrived { job: B, took: Time::from_secs(20) });
    let stats = m.stats();
    assert_eq!((stats.in_time, stats.too_early, stats.too_late), (0, 1, 1));
    assert_eq!((stats.idle_total, stats.too_late_total), (Time::from_secs(101), Time::from_secs(20)));
}

#[test]
fn a_queue_that_cannot_say_is_given_some_time_and_then_data_come_at_once() {
    let mut m = machine();
    let reserve = Action::Reserve { job: A, bytes: 10, reason: Reason::StartUnknown };
    assert_eq!(submit(&mut m, 10, A, 10, None), []);
    assert_eq!(after(&mut m, 16, Event::Tick), [reserve]);
    // The queue reports that the job could start if it had its data: that counts as `no_lead`, not as `too_late`.
    assert_eq!(submit(&mut m, 20, B, 2000, None), []);
    let reserve = Action::Reserve { job: B, bytes: 2000, reason: due(21, 20, 20) };
    assert_eq!(after(&mut m, 21, Event::Estimated { job: B, start: Some(Time::from_secs(21)) }), [reserve]);
    after(&mut m, 21, Event::Reserved(B));
    after(&mut m, 22, Event::Started(B));
    after(&mut m, 40, Event::Arrived { job: B, took: Time::from_secs(19) });
    assert_eq!((m.stats().no_lead, m.stats().too_late), (1, 0));
}

#[test]
fn without_space_it_waits_and_the_soonest_goes_first() {
    let mut m = machine();
    submit(&mut m, 0, A, 2000, Some(30));
    submit(&mut m, 0, B, 2000, Some(20));
    after(&mut m, 0, Event::NoSpace(A));
    after(&mut m, 0, Event::NoSpace(B));
    assert_eq!(m.next_deadline(), Some(Time::from_secs(30)));
    let got = after(&mut m, 5, Event::SpaceFreed);
    let jobs: Vec<JobId> =
        got.iter().map(|a| if let Action::Reserve { job, .. } = a { *job } else { JobId(0) }).collect();
    assert_eq!(jobs, [B, A]);
    assert_eq!(m.stats().no_space, 2);
    assert_eq!(after(&mut m, 6, Event::Gone(B)), [Action::Release { job: B, bytes: 2000 }]);
    assert_eq!(after(&mut m, 6, Event::Reserved(B)), [], "an answer to nobody");
}

#[test]
fn who_is_refused_space_is_given_up() {
    let mut m = machine();
    submit(&mut m, 0, A, 2000, Some(30));
    after(&mut m, 0, Event::NoSpace(A));
    assert_eq!(after(&mut m, 1, Event::Refused(A)), [Action::GiveUp(A)]);
    assert_eq!((m.phase(A), m.next_deadline(), m.stats().refused), (Some(Phase::GivenUp), None, 1));
    assert_eq!(after(&mut m, 2, Event::Gone(A)), []);
}

#[test]
fn nobody_is_late_who_began_at_once() {
    let mut m = machine();
    submit(&mut m, 0, A, 2000, Some(5));
    after(&mut m, 0, Event::Reserved(A));
    after(&mut m, 5, Event::Started(A));
    after(&mut m, 20, Event::Arrived { job: A, took: Time::from_secs(20) });
    let stats = m.stats();
    assert_eq!((stats.no_lead, stats.too_late, stats.in_time), (1, 0, 0));
}

#[test]
fn failures_are_tried_again_and_permanent_ones_given_up() {
    let mut m = machine();
    submit(&mut m, 0, A, 100, Some(0));
    after(&mut m, 0, Event::Reserved(A));
    assert_eq!(after(&mut m, 1, Event::Failed { job: A, permanent: false }), []);
    assert_eq!(m.next_deadline(), Some(Time::from_secs(31)));
    let again = after(&mut m, 31, Event::Tick);
    assert!(matches!(again[..], [Action::Begin { job: A, .. }]), "space is still reserved: {again:?}");
    let got = after(&mut m, 32, Event::Failed { job: A, permanent: true });
    assert_eq!(got, [Action::Release { job: A, bytes: 100 }, Action::GiveUp(A)]);
    assert_eq!((m.phase(A), m.stats().given_up), (Some(Phase::GivenUp), 1));
}

proptest! {
    #[test]
    fn nothing_is_forgotten(steps in prop::collection::vec((0u8..9, 0u64..4, 0u64..200), 1..150)) {
        let mut m = machine();
        let (mut asked, mut moving) = (BTreeSet::new(), BTreeSet::new());
        let mut held: i64 = 0;
        for (n, (what, job, number)) in steps.into_iter().enumerate() {
            let (now, job) = (n as u64 * 7, JobId(job));
            let event = match what {
                0 | 1 => {
 let start = (number > 50).then(|| Time::from_secs(now + 2 * number));
 Event::Submitted { job, load: Load::free(100 * (number + 1)), source: SOURCE, start }
}
                2 => Event::Estimated { job, start: Some(Time::from_secs(now + number)) },
                3 if asked.contains(&job) => {
                    asked.remove(&job);
                    Event::Reserved(job)
                }
                4 if asked.remove(&job) => Event::NoSpace(job),
                5 if moving.remove(&job) => Event::Arrived { job, took: Time::from_secs(1) },
                6 if moving.remove(&job) => Event::Failed { job, permanent: number < 50 },
                7 => Event::Started(job),
                8 => Event::Gone(job),
                _ => Event::Tick,
            };
            if let Event::Gone(job) = event {
                asked.remove(&job);
                moving.remove(&job);
            }
            held += i64::from(matches!(event, Event::Reserved { .. }));
            for action in after(&mut m, now, event) {
                match action {
                    Action::Reserve { job, .. } => prop_assert!(asked.insert(job), "asked twice"),
                    Action::Begin { job, .. } => prop_assert!(moving.insert(job), "begun twice"),
                    Action::Release { .. } => held -= 1,
                    Action::GiveUp { .. } => {}
                }
            }
        }
        for job in (0..4).map(JobId) {
            let pending = asked.contains(&job);
            for action in after(&mut m, 10_000, Event::Gone(job)) {
                held -= i64::from(matches!(action, Action::Release { .. }) && !pending);
            }
        }
        prop_assert!(m.stats().bytes_reserved == 0 && m.next_deadline().is_none());
        prop_assert!(held <= 0, "what was reserved was given back");
    }
}
