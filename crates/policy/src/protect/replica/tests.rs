//! Tests of temporal replication: by example, and against random histories.

use super::Strategy;
use super::*;
use crate::machine::Machine;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn config(strategy: Strategy, alpha: &str) -> Config {
    let alpha = alpha.parse().expect("a share");
    Config { strategy, alpha, creating_max: usize::MAX, poll_every: None, ..Config::new(1000) }
}

fn after(machine: &mut Replication, now: u64, event: Event) -> Vec<Action> {
    machine.handle(Time::from_secs(now), event);
    poll_all(machine)
}

fn poll_all(machine: &mut Replication) -> Vec<Action> {
    let actions = machine.drain().collect();
    machine.check();
    actions
}

/// Job `n` reads file `n`.
fn submit(n: u64, nodes: u32) -> Event {
    Event::Submitted { job: JobId(n), rank: Rank(n), nodes, files: vec![FileId(n)] }
}

fn dispatch(n: u64, nodes: u32) -> Event {
    Event::Dispatched { job: JobId(n), nodes }
}

fn created(actions: &[Action]) -> Vec<u64> {
    actions.iter().filter_map(|a| if let Action::Create { file, .. } = a { Some(file.0) } else { None }).collect()
}

/// The queue of the reference's check values behind a running job of 200 nodes; returns the copied files.
fn chosen(strategy: Strategy, alpha: &str) -> Vec<u64> {
    let mut machine = Replication::new(config(strategy, alpha));
    machine.handle(Time::ZERO, dispatch(9, 200));
    for (n, nodes) in [64, 128, 256, 512, 32].into_iter().enumerate() {
        machine.handle(Time::ZERO, submit(n as u64, nodes));
    }
    let mut chosen = created(&poll_all(&mut machine));
    chosen.sort_unstable();
    chosen
}

#[test]
fn the_reference_s_values() {
    for (alpha, w) in [("0", 3), ("0.2", 3), ("0.5", 4), ("1", 5), ("2", 5), ("inf", 5)] {
        assert_eq!(chosen(Strategy::Window, alpha), (0..w).collect::<Vec<_>>(), "alpha {alpha}");
    }
    let shortcut = |t: &str| Strategy::Shortcut(t.parse().expect("a share"));
    assert_eq!(chosen(shortcut("0.01"), "0"), [0, 1, 2]);
    assert_eq!(chosen(shortcut("0.1"), "0"), [0, 1, 2, 4]);
    assert_eq!(chosen(Strategy::All, "0"), [0, 1, 2, 3, 4]);
    assert_eq!(chosen(Strategy::None, "inf"), [0u64; 0]);
}

#[test]
fn a_life_from_the_window_to_the_close() {
    let mut machine = Replication::new(config(Strategy::Window, "0"));
    let create = |file, window| {
        let reason = CreateReason::InWindow { window };
        Action::Create { file: FileId(file), job: JobId(file), reason }
    };
    assert_eq!(after(&mut machine, 0, submit(1, 10)), [create(1, 1)]);
    assert_eq!(after(&mut machine, 0, submit(2, 10)), [], "the first is more than nothing");
    assert_eq!(machine.life(FileId(1)), Some(Life::Creating { since: Time::ZERO }));
    after(&mut machine, 5, Event::Created(FileId(1)));
    assert_eq!(machine.life(FileId(1)), Some(Life::Complete));
    assert_eq!(after(&mut machine, 6, dispatch(1, 10)), [create(2, 1)]);
    assert_eq!(machine.life(FileId(1)), Some(Life::InUse));
    let protection = machine.protection(JobId(1))[0];
    assert_eq!((protection.at_risk, protection.reason), (false, Some(CreateReason::InWindow { window: 1 })));
    let closed = Event::Closed { job: JobId(1), file: FileId(1) };
    let remove = Action::Remove { file: FileId(1), reason: RemoveReason::Closed(JobId(1)) };
    assert_eq!(after(&mut machine, 7, closed.clone()), [remove]);
    assert_eq!(after(&mut machine, 7, closed), []);
    after(&mut machine, 8, Event::Removed(FileId(1)));
    assert_eq!(machine.life(FileId(1)), None);
    // The second job is dispatched before its copy is complete.
    after(&mut machine, 9, dispatch(2, 10));
    assert!(machine.protection(JobId(2))[0].at_risk);
    let remove = Action::Remove { file: FileId(2), reason: RemoveReason::JobEnded(JobId(2)) };
    assert_eq!(after(&mut machine, 10, Event::Ended(JobId(2))), [remove]);
    after(&mut machine, 10, Event::Created(FileId(2)));
    after(&mut machine, 10, Event::Removed(FileId(2)));
    let stats = machine.stats();
    assert_eq!((stats.dispatched, stats.at_risk, stats.copies, stats.removed_incomplete), (2, 1, 0, 1));
}

#[test]
fn removal_at_the_end_ignores_the_close() {
    let mut machine = Replication::new(Config { removal: Removal::JobEnd, ..config(Strategy::All, "0") });
    after(&mut machine, 0, submit(1, 10));
    after(&mut machine, 0, Event::Created(FileId(1)));
    after(&mut machine, 0, dispatch(1, 10));
    assert_eq!(after(&mut machine, 1, Event::Closed { job: JobId(1), file: FileId(1) }), []);
    assert_eq!(after(&mut machine, 2, Event::Ended(JobId(1))).len(), 1);
}

#[test]
fn a_shared_copy_lives_as_long_as_somebody_wants_it() {
    let mut machine = Replication::new(config(Strategy::All, "0"));
    let both = |n| Event::Submitted { job: JobId(n), rank: Rank(n), nodes: 1, files: vec![FileId(7)] };
    assert_eq!(created(&after(&mut machine, 0, both(1))), [7]);
    assert_eq!(after(&mut machine, 0, both(2)), [], "one copy for both");
    after(&mut machine, 0, Event::Created(FileId(7)));
    after(&mut machine, 1, dispatch(1, 1));
    assert_eq!(after(&mut machine, 2, Event::Ended(JobId(1))), []);
    assert_eq!(machine.life(FileId(7)), Some(Life::Complete));
    assert_eq!(after(&mut machine, 3, Event::Ended(JobId(2))).len(), 1);
    // Requested again during its removal: it is copied again afterwards.
    assert_eq!(after(&mut machine, 4, both(3)), []);
    assert_eq!(created(&after(&mut machine, 5, Event::Removed(FileId(7)))), [7]);
}

#[test]
fn the_soonest_are_copied_first_and_not_too_many_at_once() {
    let mut machine = Replication::new(Config { creating_max: 1, ..config(Strategy::All, "0") });
    machine.handle(Time::ZERO, submit(3, 1));
    machine.handle(Time::ZERO, submit(2, 1));
    assert_eq!(created(&poll_all(&mut machine)), [2]);
    machine.handle(Time::ZERO, submit(1, 1));
    machine.handle(Time::ZERO, Event::Ranked { job: JobId(1), rank: Rank(9) });
    assert_eq!(created(&after(&mut machine, 1, Event::Created(FileId(2)))), [3]);
    assert_eq!(created(&after(&mut machine, 1, Event::Ended(JobId(3)))), [1]);
}

#[test]
fn failures_are_tried_again_and_losses_made_good() {
    let mut machine = Replication::new(config(Strategy::All, "0"));
    after(&mut machine, 0, submit(1, 1));
    after(&mut machine, 1, Event::CreateFailed(FileId(1)));
    assert_eq!(machine.next_deadline(), Some(Time::from_secs(61)));
    assert_eq!(created(&after(&mut machine, 61, Event::Tick)), [1]);
    after(&mut machine, 62, Event::Created(FileId(1)));
    assert_eq!(created(&after(&mut machine, 63, Event::Lost(FileId(1)))), [1]);
    after(&mut machine, 64, Event::CreateFailed(FileId(1)));
    assert_eq!(after(&mut machine, 65, Event::Ended(JobId(1))), []);
    assert_eq!((machine.next_deadline(), machine.stats().failed), (None, 3));
}

#[test]
fn copies_found_at_the_start_are_kept_if_somebody_wants_them() {
    let mut machine = Replication::new(config(Strategy::All, "0"));
    machine.handle(Time::ZERO, Event::Adopted(FileId(1)));
    machine.handle(Time::ZERO, Event::Adopted(FileId(2)));
    assert_eq!(after(&mut machine, 0, submit(1, 1)), []);
    let remove = Action::Remove { file: FileId(2), reason: RemoveReason::Unwanted };
    assert_eq!(after(&mut machine, 0, Event::Tick), [remove]);
    after(&mut machine, 1, dispatch(1, 1));
    assert_eq!(machine.stats().at_risk, 0);
}

#[test]
fn a_periodic_look() {
    let mut machine =
        Replication::new(Config { poll_every: Some(Time::from_secs(60)), ..config(Strategy::Window, "0") });
    assert_eq!(machine.next_deadline(), Some(Time::from_secs(60)));
    after(&mut machine, 75, Event::Tick);
    assert_eq!(machine.next_deadline(), Some(Time::from_secs(135)));
}

/// A driver that keeps its outstanding actions.
#[derive(Default)]
struct Driver {
    creating: BTreeSet<FileId>,
    complete: BTreeSet<FileId>,
    removing: BTreeSet<FileId>,
}

impl Driver {
    fn tell(&mut self, machine: &mut Replication, now: u64, event: Event) {
        for action in after(machine, now, event) {
            match action {
                Action::Create { file, .. } => {
                    assert!(!self.complete.contains(&file) && !self.removing.contains(&file), "there is one still");
                    assert!(self.creating.insert(file), "made twice");
                }
                Action::Remove { file, .. } => {
                    assert!(self.creating.remove(&file) | self.complete.remove(&file), "nothing to remove");
                    assert!(self.removing.insert(file), "removed twice");
                }
            }
        }
    }
}

proptest! {
    /// Tests with any order of events that answers match actions, and that no copy is left after all jobs ended.
    #[test]
    fn no_copy_outlives_its_jobs(
        steps in prop::collection::vec((0u8..10, 0u64..6, 1u32..400), 1..200),
        strategy in prop::sample::select(vec![
            Strategy::None, Strategy::Window, Strategy::Shortcut(Share::millionths(100_000)), Strategy::All,
        ]),
        creating_max in 1usize..4,
    ) {
        let mut machine = Replication::new(Config { creating_max, ..config(strategy, "0.3") });
        let mut driver = Driver::default();
        for (n, (what, id, nodes)) in steps.into_iter().enumerate() {
            let (job, file, rank) = (JobId(id), FileId(id % 4), Rank(u64::from(nodes)));
            let event = match what {
                0 | 1 => Event::Submitted { job, rank, nodes, files: vec![file, FileId(9)] },
                2 => Event::Dispatched { job, nodes },
                3 => Event::Ended(job),
                4 => Event::Closed { job, file },
                5 if driver.creating.remove(&file) => {
                    driver.complete.insert(file);
                    Event::Created(file)
                }
                6 if driver.creating.remove(&file) => Event::CreateFailed(file),
                7 => Event::Ranked { job, rank },
                8 if driver.complete.remove(&file) => Event::Lost(file),
                9 if driver.removing.remove(&file) => Event::Removed(file),
                _ => Event::Tick,
            };
            driver.tell(&mut machine, n as u64, event);
            prop_assert!(driver.creating.len() <= creating_max);
        }
        for job in (0..6).map(JobId) {
            driver.tell(&mut machine, 10_000, Event::Ended(job));
        }
        prop_assert!(driver.creating.is_empty() && driver.complete.is_empty());
        for file in std::mem::take(&mut driver.removing) {
            driver.tell(&mut machine, 10_000, Event::Removed(file));
        }
        prop_assert_eq!((machine.stats().copies, machine.next_deadline()), (0, None));
    }
}
