//! Operations on threads: those that hang, and those that wait behind them.

use super::*;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

fn threads(limits: Limits, slots: usize) -> Arc<Targets> {
    threads_within(DEADLINE, limits, slots)
}

fn add(targets: &Targets, id: u16) -> Arc<Target> {
    targets.add(TargetSpec::new(TargetId(id), 0, Arc::new(MemoryMedium::new(1))))
}

/// An operation that hangs until its sender is dropped.
fn hang() -> (Sender<()>, impl FnOnce(&dyn Medium) -> Result<u32, Errno> + Send + 'static) {
    let (release, gate) = channel::<()>();
    (release, move |_: &dyn Medium| {
        let _ = gate.recv();
        Ok(1)
    })
}

fn changes(targets: &Targets) -> Receiver<(State, State)> {
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    targets.on_change(move |change| {
        let _ = tell.lock().unwrap().send((change.from, change.to));
    });
    told
}

/// [S-030]
#[test]
fn a_hung_operation_misses_its_deadline_and_others_go_on() {
    let targets = threads(Limits { workers_max: 1, replacements_max: 1, ..Limits::default() }, 0);
    let (sick, well) = (add(&targets, 1), add(&targets, 2));
    let told = changes(&targets);
    let (release, op) = hang();
    assert_eq!(sick.run(op), Err(TargetError::Deadline));
    assert_eq!((sick.state(), well.state()), (State::Suspect, State::Ok));
    assert_eq!(well.run(|_| Ok(2)), Ok(2));
    assert_eq!(sick.run(|_| Ok(3)), Ok(3), "a replacement works while the worker hangs");
    assert_eq!(sick.run_inline(|_| Ok(4), None), Err(InlineError::NotNow), "no thread of others goes in");
    assert_eq!(told.recv(), Ok((State::Ok, State::Suspect)));
    drop(release);
    assert_eq!(told.recv(), Ok((State::Suspect, State::Ok)), "it has returned, and a probe is good");
    assert_eq!(sick.counters().deadline_misses.get(), 1);
}

/// [S-030]
#[test]
fn a_second_miss_fails_the_target_and_frees_all_who_wait() {
    let targets = threads(Limits::default(), 0);
    let target = add(&targets, 1);
    let (a, first) = hang();
    let (b, second) = hang();
    let (c, third) = hang();
    assert_eq!(target.run(first), Err(TargetError::Deadline));
    let (second, third) = (target.submit(second), target.submit(third));
    assert_eq!(second.wait(), Err(TargetError::Deadline));
    assert_eq!(target.state(), State::Failed);
    assert_eq!(third.wait(), Err(TargetError::Failed));
    assert_eq!(target.run(|_| Ok(())), Err(TargetError::Failed), "refused at once");
    assert_eq!(target.run_inline(|_| Ok(()), None), Err(TargetError::Failed.into()));
    let refused = targets.operate(TargetId(1), Order::Restore).unwrap_err();
    assert!(matches!(refused, OrderError::Hanging { hanging: 3, .. }), "{refused}");
    drop((a, b, c));
    while let Err(refused) = targets.operate(TargetId(1), Order::Restore) {
        assert!(matches!(refused, OrderError::Hanging { .. }), "{refused}");
    }
    assert_eq!(target.run(|_| Ok(5)), Ok(5), "it serves after a restore");
}

#[test]
fn hung_workers_are_replaced_a_bounded_number_of_times() {
    let targets = threads(Limits { workers_max: 2, replacements_max: 1, queue_max: 8, ..Limits::default() }, 0);
    let target = add(&targets, 1);
    let (releases, ops): (Vec<_>, Vec<_>) = (0..6).map(|_| hang()).unzip();
    let pending: Vec<_> = ops.into_iter().map(|op| target.submit(op)).collect();
    for op in pending {
        op.wait().expect_err("nobody releases them");
        let (live, _) = target.core.pool.census();
        assert!(live <= 3, "{live} threads");
    }
    assert_ne!(target.state(), State::Ok);
    drop(releases);
}

#[test]
fn operations_of_several_targets_run_at_the_same_time() {
    let targets = threads(Limits::default(), 0);
    let meet = Arc::new(Barrier::new(8));
    let all: Vec<_> = (0..8).map(|id| add(&targets, id)).collect();
    let met = |target: &Arc<Target>| {
        let meet = meet.clone();
        target.submit(move |_| Ok(meet.wait().is_leader()))
    };
    let pending: Vec<_> = all.iter().map(met).collect();
    let leaders = pending.into_iter().map(|p| p.wait().unwrap()).filter(|leader| *leader).count();
    assert_eq!(leaders, 1, "they met, so none waited for another");
}

#[test]
fn the_watchdog_answers_for_a_hung_caller_once() {
    let targets = threads(Limits::default(), 1);
    let (sick, well) = (add(&targets, 1), add(&targets, 2));
    let told = changes(&targets);
    let calls = Arc::new(AtomicUsize::new(0));
    let (answered, answer) = channel::<()>();
    let (inside, is_inside) = channel::<()>();
    let (release, op) = hang();
    let on_deadline: Arc<dyn OnDeadline> = {
        let (calls, answered) = (calls.clone(), Mutex::new(answered));
        Arc::new(move || {
            calls.fetch_add(1, Ordering::Relaxed);
            let _ = answered.lock().unwrap().send(());
        })
    };
    std::thread::scope(|scope| {
        let (sick, on_deadline) = (&sick, &on_deadline);
        let caller = scope.spawn(move || {
            sick.run_inline(
                |medium| {
                    inside.send(()).unwrap();
                    op(medium)
                },
                Some(on_deadline),
            )
        });
        is_inside.recv().unwrap();
        assert_eq!(well.run_inline(|_| Ok(1), None), Err(InlineError::NotNow), "the one slot is taken");
        answer.recv().unwrap();
        assert_eq!(told.recv(), Ok((State::Ok, State::Suspect)));
        drop(release);
        assert_eq!(caller.join().unwrap(), Err(InlineError::Taken));
    });
    assert_eq!(told.recv(), Ok((State::Suspect, State::Ok)));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(well.run_inline(|_| Ok(1), None), Ok(1), "the slot is free again");
}

#[test]
fn an_inline_operation_that_panics_frees_its_slot() {
    // Writing down where it panicked takes seconds on a busy machine.
    let targets = threads_within(Duration::from_secs(600), Limits::default(), 1);
    let target = add(&targets, 1);
    let panicking = || target.run_inline(|_| -> Result<(), Errno> { panic!("on purpose") }, None);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panicking)).is_err());
    assert_eq!(target.run_inline(|_| Ok(1), None), Ok(1));
    let worker: Result<(), _> = target.run(|_| panic!("on purpose"));
    assert_eq!(worker, Err(TargetError::Io(Errno::IO)), "and on a worker it is an error");
}

/// Awaited work goes before prefetches queued earlier, and a prefetch becomes awaited once a caller waits for it.
#[test]
fn prefetches_stand_back_until_somebody_waits_for_them() {
    let targets = threads(Limits { workers_max: 1, ..Limits::default() }, 0);
    let target = add(&targets, 1);
    let (release, op) = hang();
    let hung = target.submit(op);
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str| {
        let order = order.clone();
        move |_: &dyn Medium| {
            order.lock().unwrap().push(name);
            Ok(())
        }
    };
    let ahead = |name| target.try_submit(Class::Prefetch, note(name)).unwrap();
    let all = [ahead("first ahead"), ahead("second ahead"), ahead("third ahead"), target.submit(note("awaited"))];
    let queued = all[1].queued().unwrap();
    assert!(queued.raise(), "it waits for the worker");
    assert!(!queued.raise(), "it is no prefetch any more");
    drop(release);
    assert_eq!(hung.wait(), Ok(1));
    all.into_iter().for_each(|pending| pending.wait().unwrap());
    assert!(!queued.raise(), "it is over");
    assert_eq!(*order.lock().unwrap(), ["awaited", "second ahead", "first ahead", "third ahead"]);
}
