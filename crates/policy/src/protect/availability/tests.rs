//! Checks of waiting jobs' input, and the order of repairs.

use super::*;

fn secs(n: u64) -> Time {
    Time::from_secs(n)
}

fn machine(at_once: usize) -> Availability {
    Availability::new(Config { at_once, ..Config::default() })
}

fn wait(job: u64, start: Option<u64>) -> Waiting {
    Waiting { job: JobId(job), start: start.map(secs) }
}

fn actions(machine: &mut Availability) -> Vec<Action> {
    machine.drain().collect()
}

/// Answers a check: object N of file N is lost, for each of the jobs' numbers.
fn answer(machine: &mut Availability, now: Time, lost: &[u64]) -> Vec<u64> {
    let mut looked_at = Vec::new();
    while let Some(action) = machine.poll() {
        let Action::Look { jobs, .. } = action else { panic!("{action:?}") };
        for job in jobs {
            looked_at.push(job.0);
            let all = lost.iter().filter(|n| **n == job.0);
            let of = |n: &u64| Lost { file: FileId(*n), object: ObjectId(*n), healthy_copies: 0, bytes: 1 };
            let event = Event::Looked { job, files: vec![FileId(job.0)], lost: all.map(of).collect() };
            machine.handle(now, event);
        }
        machine.handle(now, Event::LookEnded);
        if matches!(machine.actions.front(), Some(Action::Repair { .. })) {
            break;
        }
    }
    looked_at
}

fn repairs(machine: &mut Availability) -> Vec<u64> {
    let object = |action| match action {
        Action::Repair { object, .. } => object.0,
        other => panic!("{other:?}"),
    };
    actions(machine).into_iter().map(object).collect()
}

#[test]
fn what_a_target_took_is_repaired_in_the_order_of_the_starts() {
    let mut m = machine(1);
    // Job 3 is expected first; 1 and 4 have no estimate and follow in the order of the queue.
    let line = vec![wait(1, None), wait(2, Some(50)), wait(3, Some(20)), wait(4, None)];
    m.handle(secs(1), Event::Line(line));
    assert_eq!(answer(&mut m, secs(1), &[]), [3, 2, 1, 4], "who joins the line is looked at");
    m.handle(secs(2), Event::TargetsChanged);
    assert_eq!((actions(&mut m), m.next_deadline()), (vec![], Some(secs(7))));
    m.handle(secs(7), Event::Tick);
    assert_eq!(answer(&mut m, secs(7), &[4, 1, 2, 3]), [3, 2, 1, 4]);
    let mut order = repairs(&mut m);
    for n in [3, 2, 1] {
        m.handle(secs(8), Event::Repaired(ObjectId(n)));
        order.extend(repairs(&mut m));
    }
    assert_eq!(order, [3, 2, 1, 4]);
    assert_eq!(m.starts()[&FileId(1)], Time(2));
}

#[test]
fn the_order_follows_the_queue_and_who_is_gone_is_left() {
    let mut m = machine(1);
    m.handle(secs(1), Event::Line(vec![wait(1, None), wait(2, None), wait(3, None)]));
    answer(&mut m, secs(1), &[1, 2, 3]);
    assert_eq!(repairs(&mut m), [1]);
    // Job 2 has started, and 3 is now expected first.
    m.handle(secs(2), Event::Line(vec![wait(1, None), wait(3, Some(9))]));
    assert_eq!(repairs(&mut m), []);
    m.handle(secs(3), Event::Repaired(ObjectId(1)));
    assert_eq!(repairs(&mut m), [3]);
    m.handle(secs(4), Event::Repaired(ObjectId(3)));
    assert_eq!(repairs(&mut m), [], "what job 2 reads is looked at when it is dispatched");
    m.handle(secs(5), Event::Line(vec![]));
    assert_eq!(m.next_deadline(), None);
}

#[test]
fn all_are_looked_at_now_and_then_some_jobs_at_a_time() {
    let mut m = Availability::new(Config { jobs_per_look: 2, ..Config::default() });
    m.handle(secs(0), Event::Line((1..=5).map(|n| wait(n, None)).collect()));
    assert_eq!(answer(&mut m, secs(0), &[]), [1, 2, 3, 4, 5]);
    assert_eq!(m.next_deadline(), Some(secs(300)));
    m.handle(secs(299), Event::Tick);
    assert_eq!(actions(&mut m), []);
    m.handle(secs(300), Event::Tick);
    assert_eq!(answer(&mut m, secs(300), &[5]), [1, 2, 3, 4, 5]);
    assert_eq!(repairs(&mut m), [5]);
    assert_eq!(m.next_deadline(), Some(secs(600)));
}

#[test]
fn a_repair_that_fails_is_tried_again_after_a_growing_pause_and_stops_when_it_is_whole() {
    let mut m = machine(2);
    m.handle(secs(0), Event::Line(vec![wait(1, None)]));
    answer(&mut m, secs(0), &[1]);
    assert_eq!(repairs(&mut m), [1]);
    let mut now = 0;
    for pause in [10, 20, 40, 80, 160] {
        m.handle(secs(now), Event::RepairFailed(ObjectId(1)));
        assert_eq!(repairs(&mut m), []);
        now += pause;
        assert_eq!(m.next_deadline().map(|at| at.min(secs(now))), Some(secs(now.min(300))));
        m.handle(secs(now), Event::Tick);
        let acted = actions(&mut m);
        assert!(acted.iter().any(|a| matches!(a, Action::Repair { .. })), "{acted:?} at {now}");
        if acted.iter().any(|a| matches!(a, Action::Look { .. })) {
            m.handle(secs(now), Event::LookEnded);
        }
    }
    m.handle(secs(now), Event::RepairFailed(ObjectId(1)));
    // The object's target is back: a check finds it intact.
    m.handle(secs(now), Event::TargetsChanged);
    m.handle(secs(now + 5), Event::Tick);
    answer(&mut m, secs(now + 5), &[]);
    m.handle(secs(now + 400), Event::Tick);
    assert!(actions(&mut m).iter().all(|a| matches!(a, Action::Look { .. })));
}

#[test]
fn an_input_of_two_jobs_is_repaired_once_in_the_place_of_the_first() {
    let mut m = machine(4);
    m.handle(secs(0), Event::Line(vec![wait(1, Some(90)), wait(2, Some(10))]));
    actions(&mut m);
    let lost = Lost { file: FileId(7), object: ObjectId(7), healthy_copies: 0, bytes: 1 };
    for job in [2, 1] {
        m.handle(secs(0), Event::Looked { job: JobId(job), files: vec![FileId(7)], lost: vec![lost] });
    }
    m.handle(secs(0), Event::LookEnded);
    let expect = Action::Repair { file: FileId(7), object: ObjectId(7), job: JobId(2) };
    assert_eq!(actions(&mut m), [expect]);
    assert_eq!(m.starts(), BTreeMap::from([(FileId(7), Time(0))]));
}
