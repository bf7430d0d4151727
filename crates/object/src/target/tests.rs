//! Targets under hung, failing and returning media. Ordering is by channels; deadlines are real, and only what must
//! hang is ever longer than one.

mod hung;
mod idle;

use super::*;
use policy::ObjectId;
use policy::Time;
use policy::protect::health::Config;
use std::sync::Mutex;

/// Long enough for a quick operation on a busy machine.
const DEADLINE: Duration = Duration::from_millis(1000);

/// Without probes of idle targets.
fn threads_within(deadline: Duration, limits: Limits, slots: usize) -> Arc<Targets> {
    let health = Config { routine_interval: None, ..Config::default() };
    let (limits, slots) = (Limits { deadline, ..limits }, Arc::new(InlineSlots::new(slots)));
    Targets::new(TargetsOptions { execution: Execution::Threads, limits, health, slots })
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
    let identity = Identity { volume: crate::volume_id::VolumeId(7), target: TargetId(3), name: "t3".into() };
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
        medium.set_faults(Faults { nth: Some((1, MISSED_DEADLINE)), ..Faults::default() });
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
