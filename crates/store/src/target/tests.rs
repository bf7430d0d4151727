//! Targets under hung, failing and returning media. Ordering is by channels; deadlines are real, and only what must
//! hang is ever longer than one.

use super::*;
use policy::ObjectId;
use policy::Time;
use policy::protect::health::Config;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Barrier, Mutex};
use std::time::Instant;

/// Long enough for a quick operation on a busy machine.
const DEADLINE: Duration = Duration::from_millis(1000);

fn threads(limits: Limits, slots: usize) -> Arc<Targets> {
    threads_within(DEADLINE, limits, slots)
}

fn threads_within(deadline: Duration, limits: Limits, slots: usize) -> Arc<Targets> {
    Targets::new(TargetsOptions {
        execution: Execution::Threads,
        limits: Limits { deadline, ..limits },
        health: Config { routine_interval: None, ..Config::default() },
        slots: Arc::new(InlineSlots::new(slots)),
    })
}

/// [S-353]
#[test]
fn space_is_measured_again_where_the_figures_are_older_than_wanted() {
    let targets = Targets::new(TargetsOptions::inline());
    let medium = MemoryMedium::new(1);
    medium.set_capacity_bytes(1000);
    targets.add(TargetSpec::new(TargetId(0), 0, Arc::new(medium.clone())));
    targets.measure_now();
    medium.set_capacity_bytes(5000);
    assert!(!targets.measure_older(Duration::from_secs(3600)));
    assert_eq!(targets.space().total_bytes, 1000);
    assert!(targets.measure_older(Duration::ZERO));
    assert_eq!(targets.space().total_bytes, 5000);
}

/// [S-414]
#[test]
fn a_shared_file_system_that_does_not_answer_fails_no_target_and_writes_nowhere_else() {
    let options =
        TargetsOptions { health: Config { auto_restore: Some(4), ..Config::default() }, ..TargetsOptions::inline() };
    let targets = Targets::new(options);
    let media: Vec<_> = [7, 7, 0]
        .into_iter()
        .map(|file_system| {
            let medium = MemoryMedium::new(1);
            medium.set_shared_file_system(file_system);
            medium
        })
        .collect();
    for (id, medium) in (0..).zip(&media) {
        targets.add(TargetSpec::new(TargetId(id), 0, Arc::new(medium.clone())));
    }
    let states = || targets.all().iter().map(|target| target.state()).collect::<Vec<_>>();
    let usable = || targets.views().iter().map(|view| view.usable).collect::<Vec<_>>();
    let pass = |seconds: u64| (0..seconds * 10).for_each(|_| targets.advance(Duration::from_millis(100)));
    pass(1);
    media.iter().for_each(|medium| medium.set_gone(true));
    for target in targets.all() {
        target.run(|medium| medium.probe()).expect_err("it is gone");
    }
    pass(20);
    assert_eq!(states(), [State::Suspect, State::Suspect, State::Failed], "the third is a disk");
    assert_eq!(usable(), [true, true, false]);
    media[1].set_gone(false);
    pass(3);
    assert_eq!(states(), [State::Failed, State::Ok, State::Failed], "now it is a fault of one target");
    media.iter().for_each(|medium| medium.set_gone(false));
    pass(5);
    assert_eq!(states(), [State::Ok; 3]);
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

/// A medium whose probes wait for each other, or forever.
struct Meeting(Option<Arc<Barrier>>, Mutex<Receiver<()>>);

impl Medium for Meeting {
    fn create(&self, _: ObjectId) -> Result<Arc<dyn Handle>, Errno> {
        Err(Errno::ROFS)
    }
    fn open(&self, _: ObjectId) -> Result<Arc<dyn Handle>, Errno> {
        Err(Errno::NOENT)
    }
    fn remove(&self, _: ObjectId) -> Result<(), Errno> {
        Ok(())
    }
    fn sync_names(&self) -> Result<(), Errno> {
        Ok(())
    }
    fn list(&self) -> Result<Vec<ObjectId>, Errno> {
        Ok(Vec::new())
    }
    fn probe(&self) -> Result<(), Errno> {
        match &self.0 {
            Some(barrier) => drop(barrier.wait()),
            None => drop(self.1.lock().unwrap().recv()),
        }
        Ok(())
    }
    fn space(&self) -> Result<Space, Errno> {
        Ok(Space::default())
    }
}

/// As many targets as a volume takes. Those in `hung` do not answer; the others wait for each other, so they answer
/// only if all are probed at the same time.
fn many_targets(hung: &[u16], deadline: Duration) -> (Arc<Targets>, Vec<std::sync::mpsc::Sender<()>>) {
    const COUNT: u16 = crate::volume::TARGETS_MAX as u16;
    let targets = Targets::new(TargetsOptions {
        execution: Execution::Threads,
        limits: Limits { deadline, ..Limits::default() },
        health: Config { routine_interval: None, ..Config::default() },
        slots: Arc::new(InlineSlots::new(0)),
    });
    let meet = Arc::new(Barrier::new(usize::from(COUNT) - hung.len()));
    let mut releases = Vec::new();
    for id in 0..COUNT {
        let (release, gate) = channel();
        releases.push(release);
        let barrier = (!hung.contains(&id)).then(|| meet.clone());
        targets.add(TargetSpec::new(TargetId(id), 0, Arc::new(Meeting(barrier, Mutex::new(gate)))));
    }
    (targets, releases)
}

/// [S-037]
#[test]
fn all_targets_are_probed_at_the_same_time_and_hung_ones_cost_one_deadline() {
    let deadline = 10 * DEADLINE;
    let (targets, _releases) = many_targets(&[], deadline);
    let began = Instant::now();
    assert_eq!(targets.probe_all(), [], "they met at the barrier, so they ran together");
    assert!(began.elapsed() < deadline, "nobody was waited for");
    let hung = [3, 77, 200, 300, 500, 700, 1000, 1023];
    let (targets, _releases) = many_targets(&hung, deadline);
    let began = Instant::now();
    assert_eq!(targets.probe_all(), hung.map(TargetId));
    let took = began.elapsed();
    assert!(took >= deadline, "an answer is waited for");
    assert!(
        took < deadline * hung.len() as u32 / 2,
        "the deadlines pass at the same time, not one after the other: {took:?}"
    );
}

/// Idle targets that are probed all the time, each by its medium.
fn idle_targets(deadline: Duration, media: impl Iterator<Item = Arc<dyn Medium>>) -> Arc<Targets> {
    let targets = Targets::new(TargetsOptions {
        execution: Execution::Threads,
        limits: Limits { deadline, ..Limits::default() },
        health: Config {
            routine_interval: Some(Time::from_millis(50)),
            probe_interval: Time::from_millis(50),
            probe_deadline: super::clock::time(deadline),
            ..Config::default()
        },
        slots: Arc::new(InlineSlots::new(0)),
    });
    for (id, medium) in (0..).zip(media) {
        targets.add(TargetSpec::new(TargetId(id), 0, medium));
    }
    targets
}

/// Waits until each of these was checked `times` times more. Returns whether all stayed ok.
fn looked_at(targets: &[Arc<Target>], times: u64) -> bool {
    let until: Vec<_> = targets.iter().map(|target| target.counters().ops.get() + times).collect();
    let is_behind = || targets.iter().zip(&until).any(|(target, until)| target.counters().ops.get() < *until);
    let are_ok = || targets.iter().all(|target| target.state() == State::Ok);
    while is_behind() && are_ok() {
        std::thread::yield_now();
    }
    are_ok()
}

#[test]
fn a_thousand_idle_targets_are_looked_at_by_a_few_threads() {
    let media = (0..1000).map(|at| Arc::new(MemoryMedium::new(at)) as Arc<dyn Medium>);
    let targets = idle_targets(Duration::from_secs(600), media);
    let all = targets.all();
    assert!(looked_at(&all, 5));
    assert!(targets.lookers() <= 4, "{} threads", targets.lookers());
    let own: usize = all.iter().map(|target| target.core.pool.census().0).sum();
    assert_eq!(own, 0, "threads of targets that nobody uses");
}

/// [S-296]
#[test]
fn targets_whose_probes_hang_keep_no_other_from_being_probed() {
    // Few hung targets, and more than the limit of threads. The first four threads hang, and others take their place.
    for (hang, threads) in [(6, ..=10), (40, ..=32)] {
        let is_hung = |at: usize| at < hang;
        let (release, mut gates): (Vec<_>, Vec<_>) = (0..hang).map(|_| channel()).unzip();
        let media = (0..200).map(|at| match is_hung(at) {
            true => Arc::new(Meeting(None, Mutex::new(gates.pop().unwrap()))) as Arc<dyn Medium>,
            false => Arc::new(MemoryMedium::new(at as u64)),
        });
        let targets = idle_targets(3 * DEADLINE, media);
        let (hung, well): (Vec<_>, Vec<_>) = targets.all().into_iter().partition(|t| is_hung(t.id().0.into()));
        assert!(looked_at(&well, 20), "while others hang and are not failed yet");
        while hung.iter().any(|target| target.state() != State::Failed) {
            assert!(looked_at(&well, 1));
        }
        assert!(looked_at(&well, 20), "and when they are");
        assert!(threads.contains(&targets.lookers()), "{} threads, {hang} hang", targets.lookers());
        drop(release);
    }
}

/// Changes of state that a listener received.
type Log = Arc<Mutex<Vec<String>>>;

/// Targets on the caller's thread, with a medium under the test's control.
fn told() -> (Arc<Targets>, Arc<Target>, MemoryMedium, Log) {
    let targets = Targets::new(TargetsOptions::inline());
    let medium = MemoryMedium::new(1);
    let target = targets.add(TargetSpec::new(TargetId(3), 0, Arc::new(medium.clone())));
    let log = Log::default();
    let entries = log.clone();
    targets.on_change(move |change| entries.lock().unwrap().push(format!("{}>{}", change.from, change.to)));
    (targets, target, medium, log)
}

#[test]
fn a_medium_that_is_gone_fails_after_probes_and_is_restored_when_it_is_back() {
    let (targets, target, medium, log) = told();
    medium.set_gone(true);
    assert_eq!(target.run(|m| m.list()), Err(TargetError::Io(Errno::NODEV)));
    assert_eq!(target.state(), State::Suspect, "one probe has failed");
    targets.advance(Duration::from_secs(1));
    assert_eq!(target.state(), State::Failed, "and a second");
    let refused = targets.operate(TargetId(3), Order::Restore).unwrap_err();
    assert!(matches!(refused, OrderError::Unwell { error: TargetError::Io(Errno::NODEV), .. }), "{refused}");
    medium.set_gone(false);
    assert_eq!(targets.operate(TargetId(3), Order::Restore), Ok(State::Ok));
    assert_eq!(*log.lock().unwrap(), ["ok>suspect", "suspect>failed", "failed>ok"]);
    assert_eq!(targets.operate(TargetId(9), Order::Fail), Err(OrderError::Unknown(TargetId(9))));
}

/// [S-373]
#[test]
fn a_directory_that_is_emptied_under_the_daemon_fails_with_its_missing_objects() {
    let dir = tempfile::tempdir().unwrap();
    let identity = Identity { volume: crate::volume::VolumeId(7), target: TargetId(3), name: "t3".into() };
    DirectoryMedium::format(dir.path(), &identity).unwrap();
    let medium = DirectoryMedium::new(dir.path(), identity);
    medium.probe().unwrap();
    let targets = Targets::new(TargetsOptions::inline());
    let target = targets.add(TargetSpec::new(TargetId(3), 0, Arc::new(medium)));
    let missing = |target: &Target| target.run(|medium| medium.open(ObjectId(5)).map(drop));
    assert_eq!(missing(&target), Err(TargetError::Io(Errno::NOENT)));
    targets.advance(Duration::from_secs(1));
    assert_eq!(target.state(), State::Ok, "an object that is gone alone is no fault of the target");
    for name in ["target.id", "objects"] {
        let path = dir.path().join(name);
        if path.is_dir() { std::fs::remove_dir_all(path).unwrap() } else { std::fs::remove_file(path).unwrap() }
    }
    assert_eq!(missing(&target), Err(TargetError::Io(Errno::NOENT)));
    targets.advance(Duration::from_secs(1));
    targets.advance(Duration::from_secs(1));
    assert_eq!(target.state(), State::Failed);
}

#[test]
fn errors_of_the_request_say_nothing_about_the_target() {
    let (_, target, medium, log) = told();
    for errno in [Errno::NOENT, Errno::NOSPC, Errno::INVAL] {
        medium.set_faults(Faults { nth: Some((1, errno)), ..Faults::default() });
        assert_eq!(target.run(|m| m.list()), Err(TargetError::Io(errno)));
    }
    assert_eq!((target.state(), target.counters().errors.get()), (State::Ok, 0));
    medium.set_faults(Faults { nth: Some((1, Errno::IO)), ..Faults::default() });
    assert_eq!(target.run_inline(|m| m.list(), None), Err(TargetError::Io(Errno::IO).into()));
    assert_eq!(*log.lock().unwrap(), ["ok>suspect", "suspect>ok"], "a good probe ends the doubt");
}

#[test]
fn a_missed_deadline_on_the_callers_thread_is_said_by_the_medium() {
    let (_, target, medium, _) = told();
    for expected in [State::Ok, State::Failed] {
        medium.set_faults(Faults { nth: Some((1, memory::MISSED_DEADLINE)), ..Faults::default() });
        assert_eq!(target.run(|m| m.list()), Err(TargetError::Deadline));
        assert_eq!(target.state(), expected, "the second within a minute fails it");
    }
}

#[test]
fn views_follow_space_state_and_orders() {
    let (targets, target, medium, _) = told();
    medium.set_capacity_bytes(8192);
    let view = |targets: &Targets| targets.views()[0];
    assert_eq!((view(&targets).free_bytes, view(&targets).usable), (8192, true));
    target.run(|m| m.create(ObjectId(1))?.write_at(0, b"x")).unwrap();
    assert_eq!(view(&targets).free_bytes, 4096);
    assert_eq!(target.run(|m| m.open(ObjectId(1))?.read_at(0, &mut [0; 9])), Ok(1));
    let counters = target.counters();
    assert_eq!((counters.written_bytes.get(), counters.read_bytes.get()), (1, 1));
    assert_eq!(targets.operate(TargetId(3), Order::Drain), Ok(State::Draining));
    assert!(!view(&targets).usable);
    assert_eq!(target.run(|_| Ok(1)), Ok(1), "what is on it is still served");
    targets.operate(TargetId(3), Order::Fail).unwrap();
    assert!(targets.operate(TargetId(3), Order::Drain).is_err());
    assert_eq!(targets.space().total_bytes, 0, "a failed target adds nothing");
    targets.remove(TargetId(3));
    assert!(targets.by_name("t3").is_none() && targets.views().is_empty());
}

/// [S-006]
#[test]
fn space_adds_up_over_the_targets_that_take_something() {
    let targets = Targets::new(TargetsOptions::inline());
    for id in 0..3 {
        let medium = MemoryMedium::new(1);
        medium.set_capacity_bytes(8192 << id);
        targets.add(TargetSpec::new(TargetId(id), 0, Arc::new(medium)));
    }
    targets.views();
    let space = || (targets.space().total_bytes >> 13, targets.space().free_bytes >> 13);
    assert_eq!(space(), (7, 7));
    targets.operate(TargetId(1), Order::Drain).unwrap();
    assert_eq!(space(), (7, 5), "what drains takes nothing new");
    targets.operate(TargetId(2), Order::Fail).unwrap();
    assert_eq!(space(), (3, 1));
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

/// [S-171]
#[test]
fn a_target_that_cannot_be_asked_for_want_of_descriptors_stays_as_it_is() {
    for execution in [Execution::Inline, Execution::Threads] {
        let routine = Config {
            routine_interval: Some(Time::from_millis(1)),
            probe_interval: Time::from_millis(1),
            ..Config::default()
        };
        let slots = Arc::new(InlineSlots::new(0));
        let targets = Targets::new(TargetsOptions { execution, limits: Limits::default(), health: routine, slots });
        let medium = Arc::new(MemoryMedium::new(1));
        let target = targets.add(TargetSpec::new(TargetId(1), 0, medium.clone()));
        let look = |n: u64, errno| {
            let faults = Faults { probe: errno, ..Faults::default() };
            medium.set_faults(faults);
            let until = target.counters().ops.get() + n;
            while target.counters().ops.get() < until && target.state() != State::Failed {
                match execution {
                    Execution::Inline => {
                        targets.advance(Duration::from_millis(2));
                        let _ = target.run(|_| Ok(()));
                    }
                    Execution::Threads => std::thread::yield_now(),
                }
            }
        };
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN, Errno::NOBUFS] {
            look(20, Some(errno));
            assert_eq!((target.state(), targets.probe_all()), (State::Ok, vec![]), "{errno}");
        }
        look(u64::MAX / 2, Some(Errno::IO));
        assert_eq!(
            (target.state(), targets.probe_all()),
            (State::Failed, vec![TargetId(1)]),
            "what it says itself counts"
        );
    }
}

/// Other nodes that check some targets.
struct Lookers(policy::cluster::idle::Share, Mutex<Vec<(TargetId, Space)>>);

impl super::table::Others for Lookers {
    fn share(&self) -> policy::cluster::idle::Share {
        self.0
    }

    fn tell(&self, seen: &[(TargetId, Space)]) {
        self.1.lock().unwrap().extend_from_slice(seen);
    }
}

#[test]
fn an_idle_target_is_looked_at_by_one_who_tells_the_others() {
    use policy::cluster::idle::Share;
    let node = |share| {
        let targets = Targets::new(TargetsOptions::inline());
        let media: Vec<_> = (0..40).map(MemoryMedium::new).collect();
        for (id, medium) in (0..).zip(&media) {
            targets.add(TargetSpec::new(TargetId(id), 0, Arc::new(medium.clone())));
        }
        let lookers = Arc::new(Lookers(share, Mutex::default()));
        targets.share_looks(lookers.clone());
        (targets, media, lookers)
    };
    let (looker, looker_media, told) = node(Share::Part(3));
    let (other, media, silent) = node(Share::None);
    looker_media.iter().chain(&media).for_each(|medium| medium.set_capacity_bytes(8192));
    looker.advance(Duration::from_secs(60));
    looker.measure(true);
    looker.tell_space();
    let seen = std::mem::take(&mut *told.1.lock().unwrap());
    let free: Vec<_> = seen.iter().map(|(id, space)| (id.0, space.free_bytes)).collect();
    assert_eq!(free, [(3, 8192), (19, 8192), (35, 8192)]);

    let free = |targets: &Targets, id| targets.get(TargetId(id)).unwrap().space().free_bytes;
    other.advance(Duration::from_secs(60));
    other.measure(true);
    other.tell_space();
    assert!(silent.1.lock().unwrap().is_empty() && free(&other, 3) > 8192, "it neither looks nor tells");
    seen.iter().for_each(|(id, space)| other.hear_space(*id, space.total_bytes, space.free_bytes));
    assert_eq!((free(&other, 3), free(&other, 4) > 8192), (8192, true));
    other.get(TargetId(5)).unwrap().run(|medium| medium.list()).unwrap();
    other.measure(false);
    assert_eq!(free(&other, 5), 8192, "what it uses it looks at");
    other.advance(Duration::from_secs(130));
    other.measure(true);
    assert_eq!(free(&other, 4), 8192, "and what nobody told it of for long");
}
