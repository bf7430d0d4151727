//! Tests of the scheduler: by example, and against a plain restatement of the algorithm.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const BATCH: QueueId = QueueId(0);
const DATAXFER: QueueId = QueueId(1);

fn queues(cores: u32, transfers: u32) -> Easy {
    Easy::new(&[Queue { capacity: cores, charge: Charge::Cores }, Queue { capacity: transfers, charge: Charge::Slot }])
}

fn job(id: u64, queue: QueueId, cores: u32, estimate: u64, after_ok: &[u64]) -> Job {
    let after_ok = after_ok.iter().map(|id| JobId(*id)).collect();
    Job { id: JobId(id), queue, cores, estimate: Time(estimate), after_ok, after_any: Vec::new() }
}

fn batch(id: u64, cores: u32, estimate: u64, after_ok: &[u64]) -> Event {
    Event::Submitted(job(id, BATCH, cores, estimate, after_ok))
}

fn poll_all(easy: &mut Easy) -> Vec<Action> {
    let actions = easy.drain().collect();
    easy.check();
    actions
}

fn after(easy: &mut Easy, now: u64, event: Event) -> Vec<Action> {
    easy.handle(Time(now), event);
    poll_all(easy)
}

fn started(actions: &[Action]) -> Vec<u64> {
    actions.iter().filter_map(|a| if let Action::Start { id, .. } = a { Some(id.0) } else { None }).collect()
}

fn dropped(actions: &[Action]) -> Vec<(u64, DropReason)> {
    let pick = |a: &Action| if let Action::Drop { id, reason } = a { Some((id.0, *reason)) } else { None };
    actions.iter().filter_map(pick).collect()
}

/// Request of a job and its real run time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    submit: u64,
    need: u32,
    estimate: u64,
    run: u64,
}

/// Runs jobs through the machine, checks each promise, and returns the start of each job.
fn simulate(capacity: u32, samples: &[Sample]) -> Vec<u64> {
    let mut easy = queues(capacity, 1);
    let mut ends: BTreeSet<(u64, usize)> = BTreeSet::new();
    let mut submits: Vec<(u64, usize)> = samples.iter().enumerate().map(|(n, s)| (s.submit, n)).collect();
    submits.sort_by(|a, b| b.cmp(a));
    let mut starts = vec![u64::MAX; samples.len()];
    let mut promises: BTreeMap<u64, Time> = BTreeMap::new();
    while let Some(now) = ends.first().map(|e| e.0).into_iter().chain(submits.last().map(|s| s.0)).min() {
        while ends.first().is_some_and(|e| e.0 == now) {
            let (_, n) = ends.pop_first().expect("looked at above");
            easy.handle(Time(now), Event::Ended { id: JobId(n as u64), ok: true });
        }
        while submits.last().is_some_and(|s| s.0 == now) {
            let (_, n) = submits.pop().expect("looked at above");
            easy.handle(Time(now), batch(n as u64, samples[n].need, samples[n].estimate, &[]));
        }
        for id in started(&poll_all(&mut easy)) {
            starts[id as usize] = now;
            ends.insert((now + samples[id as usize].run, id as usize));
            assert!(promises.get(&id).is_none_or(|at| Time(now) <= *at), "job {id} starts later than promised");
        }
        if let Some((id, at)) = easy.promise(BATCH) {
            promises.entry(id.0).or_insert(at);
        }
    }
    assert_eq!(easy.stats().promises_broken, 0);
    starts
}

/// Plain restatement of the algorithm.
fn restated(capacity: u32, samples: &[Sample]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..samples.len()).collect();
    order.sort_by_key(|n| (samples[*n].submit, *n));
    let mut starts = vec![u64::MAX; samples.len()];
    let mut running: Vec<usize> = Vec::new();
    let mut times: BTreeSet<u64> = samples.iter().map(|s| s.submit).collect();
    while let Some(now) = times.pop_first() {
        running.retain(|n| starts[*n] + samples[*n].run > now);
        let mut waiting: Vec<usize> =
            order.iter().copied().filter(|n| samples[*n].submit <= now && starts[*n] == u64::MAX).collect();
        let free = |running: &[usize], at: u64| {
            let still = running.iter().filter(|n| (starts_or(now, &starts, **n) + samples[**n].estimate).max(now) > at);
            i64::from(capacity) - still.map(|n| i64::from(samples[*n].need)).sum::<i64>()
        };
        let taken = |running: &[usize]| running.iter().map(|n| i64::from(samples[*n].need)).sum::<i64>();
        let mut begin: Vec<usize> = Vec::new();
        while let Some(head) = waiting.first().copied() {
            if taken(&running) + i64::from(samples[head].need) > i64::from(capacity) {
                break;
            }
            running.push(head);
            begin.push(waiting.remove(0));
        }
        if let Some(head) = waiting.first().copied() {
            let need = i64::from(samples[head].need);
            let shadows = running.iter().map(|n| (starts_or(now, &starts, *n) + samples[*n].estimate).max(now));
            let shadow = shadows.filter(|at| free(&running, *at) >= need).min().expect("it fits in the end");
            let mut extra = free(&running, shadow) - need;
            for n in waiting.into_iter().skip(1) {
                let fits = taken(&running) + i64::from(samples[n].need) <= i64::from(capacity);
                let in_time = now + samples[n].estimate <= shadow;
                if fits && (in_time || i64::from(samples[n].need) <= extra) {
                    extra -= if in_time { 0 } else { i64::from(samples[n].need) };
                    running.push(n);
                    begin.push(n);
                }
            }
        }
        for n in begin {
            starts[n] = now;
            times.insert(now + samples[n].run);
        }
    }
    starts
}

/// Start of a job; a job that begins in this instant starts now.
fn starts_or(now: u64, starts: &[u64], n: usize) -> u64 {
    if starts[n] == u64::MAX { now } else { starts[n] }
}

#[test]
fn the_reference_s_example() {
    // 10 nodes, (submit, nodes, estimate = run): A B C D E -> A0 C2 B10 D10 E15
    let samples = [(0, 6, 10), (1, 8, 5), (2, 4, 8), (3, 2, 20), (4, 4, 7)].map(|(submit, need, estimate)| Sample {
        submit,
        need,
        estimate,
        run: estimate,
    });
    assert_eq!(simulate(10, &samples), [0, 10, 2, 10, 15]);
    assert_eq!(restated(10, &samples), [0, 10, 2, 10, 15]);
}

#[test]
fn actions_say_why() {
    let mut easy = queues(10, 1);
    let head = StartReason::Head;
    assert_eq!(after(&mut easy, 0, batch(1, 6, 10, &[])), [Action::Start { id: JobId(1), reason: head }]);
    assert_eq!(after(&mut easy, 0, batch(2, 8, 10, &[])), []);
    assert_eq!(easy.promise(BATCH), Some((JobId(2), Time(10))));
    let in_time = StartReason::EndsInTime { shadow: Time(10) };
    assert_eq!(after(&mut easy, 1, batch(3, 1, 9, &[])), [Action::Start { id: JobId(3), reason: in_time }]);
    assert_eq!(after(&mut easy, 1, batch(4, 3, 10, &[])), []);
    let beside = StartReason::FitsBesideHead;
    assert_eq!(after(&mut easy, 1, batch(5, 2, 99, &[])), [Action::Start { id: JobId(5), reason: beside }]);
    assert_eq!(after(&mut easy, 1, batch(6, 1, 99, &[])), []);
    assert_eq!(easy.waiting(BATCH).collect::<Vec<_>>(), [JobId(2), JobId(4), JobId(6)]);
    assert_eq!((easy.free(BATCH), easy.standing(JobId(4))), (1, Some(Standing::Waiting)));
}

#[test]
fn transfers_take_slots_and_no_cores() {
    let mut easy = queues(1, 2);
    for id in 1..=3 {
        easy.handle(Time(0), Event::Submitted(job(id, DATAXFER, 64, 10, &[])));
    }
    easy.handle(Time(0), batch(4, 1, 10, &[]));
    assert_eq!(started(&poll_all(&mut easy)), [4, 1, 2]);
    assert_eq!(started(&after(&mut easy, 5, Event::Ended { id: JobId(1), ok: false })), [3]);
}

#[test]
fn three_parts_run_one_after_the_other() {
    let mut easy = queues(4, 1);
    easy.handle(Time(0), Event::Submitted(job(1, DATAXFER, 1, 10, &[])));
    easy.handle(Time(0), batch(2, 4, 10, &[1]));
    easy.handle(Time(0), Event::Submitted(job(3, DATAXFER, 1, 10, &[2])));
    assert_eq!(started(&poll_all(&mut easy)), [1]);
    assert_eq!(easy.standing(JobId(2)), Some(Standing::Held));
    for (id, next) in [(1, vec![2]), (2, vec![3]), (3, vec![])] {
        assert_eq!(started(&after(&mut easy, id, Event::Ended { id: JobId(id), ok: true })), next);
    }
    assert_eq!(easy.standing(JobId(3)), None);
}

#[test]
fn a_failed_or_cancelled_job_drops_all_that_depends_on_it() {
    let mut easy = queues(1, 1);
    easy.handle(Time(0), batch(1, 1, 10, &[]));
    easy.handle(Time(0), batch(2, 1, 10, &[1]));
    easy.handle(Time(0), batch(3, 1, 10, &[2]));
    easy.handle(Time(0), batch(4, 1, 10, &[1, 3]));
    easy.handle(Time(0), batch(5, 1, 10, &[]));
    assert_eq!(started(&poll_all(&mut easy)), [1]);
    let got = after(&mut easy, 1, Event::Ended { id: JobId(1), ok: false });
    let mut gone = dropped(&got);
    gone.sort_by_key(|d| d.0);
    let failed = |id| DropReason::DependencyFailed(JobId(id));
    assert_eq!(gone, [(2, failed(1)), (3, failed(2)), (4, failed(3))]);
    assert_eq!(started(&got), [5]);

    easy.handle(Time(1), batch(6, 1, 10, &[]));
    easy.handle(Time(1), batch(7, 1, 10, &[6]));
    assert_eq!(poll_all(&mut easy), []);
    let got = after(&mut easy, 1, Event::Cancelled(JobId(6)));
    assert_eq!(dropped(&got), [(6, DropReason::Cancelled), (7, failed(6))]);
    assert_eq!(after(&mut easy, 1, Event::Cancelled(JobId(5))), [Action::Stop(JobId(5))]);
    assert_eq!(easy.free(BATCH), 0);
    after(&mut easy, 2, Event::Ended { id: JobId(5), ok: false });
    assert_eq!(easy.free(BATCH), 1);
}

#[test]
fn what_must_not_run_beside_others_waits_for_their_end_however_that_is() {
    let mut easy = queues(4, 3);
    let beside = |id: u64, others: &[u64]| {
        let after_any = others.iter().map(|id| JobId(*id)).collect();
        Event::Submitted(Job { after_any, ..job(id, DATAXFER, 1, 9, &[]) })
    };
    easy.handle(Time(0), beside(1, &[77]));
    easy.handle(Time(0), beside(2, &[1]));
    easy.handle(Time(0), beside(3, &[1, 2]));
    assert_eq!(started(&after(&mut easy, 0, beside(4, &[]))), [1, 4], "a number that is not known has ended");
    assert_eq!(started(&after(&mut easy, 5, Event::Ended { id: JobId(1), ok: false })), [2], "badly, too");
    let cancelled = after(&mut easy, 6, Event::Cancelled(JobId(2)));
    assert_eq!(cancelled, [Action::Stop(JobId(2))]);
    assert_eq!(started(&after(&mut easy, 7, Event::Ended { id: JobId(2), ok: false })), [3]);
    // A job dropped while it waits counts as ended for the jobs that wait for it.
    easy.handle(Time(8), beside(5, &[3]));
    easy.handle(Time(8), beside(6, &[5]));
    let dropped_one = after(&mut easy, 8, Event::Cancelled(JobId(5)));
    assert_eq!(dropped(&dropped_one), [(5, DropReason::Cancelled)]);
    assert_eq!(started(&dropped_one), [6]);
}

#[test]
fn a_cancelled_head_lets_the_next_start() {
    let mut easy = queues(4, 1);
    easy.handle(Time(0), batch(1, 3, 10, &[]));
    easy.handle(Time(0), batch(2, 4, 10, &[]));
    easy.handle(Time(0), batch(3, 1, 99, &[]));
    assert_eq!(started(&poll_all(&mut easy)), [1]);
    assert_eq!(started(&after(&mut easy, 1, Event::Cancelled(JobId(2)))), [3]);
    assert_eq!(easy.promise(BATCH), None);
}

#[test]
fn a_cancelled_head_leaves_other_room_to_the_next() {
    let mut easy = queues(4, 1);
    for (id, cores, estimate) in [(1, 3, 10), (2, 4, 10), (3, 2, 99), (4, 1, 50)] {
        easy.handle(Time(0), batch(id, cores, estimate, &[]));
    }
    assert_eq!(started(&poll_all(&mut easy)), [1], "beside the head of 4 cores there is no room");
    assert_eq!(started(&after(&mut easy, 1, Event::Cancelled(JobId(2)))), [4], "beside one of 2 there is");
    assert_eq!(easy.promise(BATCH), Some((JobId(3), Time(10))));
}

#[test]
fn what_can_never_run_is_dropped_at_once() {
    let mut easy = queues(4, 1);
    assert_eq!(dropped(&after(&mut easy, 0, batch(1, 5, 1, &[]))), [(1, DropReason::TooLarge { capacity: 4 })]);
    let unknown = DropReason::DependencyUnknown(JobId(9));
    assert_eq!(dropped(&after(&mut easy, 0, batch(2, 1, 1, &[9]))), [(2, unknown)]);
    let nowhere = Event::Submitted(job(3, QueueId(7), 1, 1, &[]));
    assert_eq!(dropped(&after(&mut easy, 0, nowhere)), [(3, DropReason::NoSuchQueue)]);
    after(&mut easy, 0, batch(4, 4, 1, &[]));
    assert_eq!(dropped(&after(&mut easy, 0, batch(4, 1, 1, &[]))), [(4, DropReason::NumberInUse)]);
}

#[test]
fn jobs_that_ran_before_a_restart_keep_their_cores() {
    let mut easy = queues(4, 1);
    let running = Event::Running { job: job(1, BATCH, 3, 100, &[]), started: Time(50) };
    assert_eq!(after(&mut easy, 80, running), []);
    assert_eq!(after(&mut easy, 80, batch(2, 2, 10, &[])), []);
    assert_eq!(easy.promise(BATCH), Some((JobId(2), Time(150))));
    assert_eq!(started(&after(&mut easy, 90, Event::Ended { id: JobId(1), ok: true })), [2]);
}

fn samples() -> impl Strategy<Value = Vec<Sample>> {
    let sample = (0u64..100, 1u32..=10, 1u64..30, 0u64..30).prop_map(|(submit, need, estimate, early)| Sample {
        submit,
        need,
        estimate,
        run: estimate.saturating_sub(early).max(1),
    });
    prop::collection::vec(sample, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// [S-062]
    #[test]
    fn starts_as_the_plain_restatement_says_and_keeps_its_promises(samples in samples()) {
        prop_assert_eq!(simulate(10, &samples), restated(10, &samples));
    }

    #[test]
    fn dependants_start_after_and_only_after_success(
        jobs in prop::collection::vec((any::<prop::sample::Index>(), 0usize..3, 1u32..=4, any::<bool>()), 1..40),
        cancel in prop::option::of(0u64..40),
    ) {
        let mut easy = queues(4, 2);
        let parents = |n: usize, at: &prop::sample::Index, count: usize| -> Vec<u64> {
            (0..count.min(n)).map(|k| ((at.index(n) + k) % n) as u64).collect()
        };
        for (n, (at, count, cores, _)) in jobs.iter().enumerate() {
            easy.handle(Time(0), batch(n as u64, *cores, 5, &parents(n, at, *count)));
        }
        cancel.into_iter().for_each(|id| easy.handle(Time(0), Event::Cancelled(JobId(id))));
        let (mut good, mut gone, mut running) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        for now in 0.. {
            let actions = poll_all(&mut easy);
            gone.extend(dropped(&actions).into_iter().map(|d| d.0));
            for id in started(&actions) {
                let (at, count, ..) = &jobs[id as usize];
                prop_assert!(parents(id as usize, at, *count).iter().all(|p| good.contains(p)));
                running.push(id);
            }
            let Some(id) = running.pop() else { break };
            let ok = jobs[id as usize].3;
            if ok { good.insert(id) } else { gone.insert(id) };
            easy.handle(Time(now), Event::Ended { id: JobId(id), ok });
        }
        prop_assert_eq!(good.len() + gone.len(), jobs.len(), "nobody waits for ever");
        for (n, (at, count, ..)) in jobs.iter().enumerate() {
            let doomed = parents(n, at, *count).iter().any(|p| gone.contains(p));
            prop_assert!(!doomed || gone.contains(&(n as u64)));
        }
    }
}
