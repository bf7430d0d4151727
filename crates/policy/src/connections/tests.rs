//! The paper's examples, the machine of one connection, and random schedules against invariants.

mod world;

use super::*;
use crate::machine::Machine;
use crate::time::Time;
use proptest::prelude::*;
use world::{Job, World};

const ALL4: u64 = 0b1111;

fn chooser(policy: Policy, connections: u16) -> Chooser {
    Chooser::new(policy, connections, WidthConfig::default())
}

fn one(chooser: &mut Chooser, file: &mut Use, direction: Direction, usable: u64) -> u16 {
    let request = Request { direction, bytes: 4096, whole: false };
    let choice = chooser.choose(Time::ZERO, file, request, usable).unwrap();
    assert_eq!(choice.parts.len(), 1);
    chooser.done(Time::ZERO, Some(file), direction, choice.parts[0], true, usable);
    choice.parts[0].connection.0
}

/// Reference, section 7: threads 1201 to 1208 on 4 connections.
#[test]
fn a_thread_has_its_connection() {
    let mut chooser = chooser(Policy::Single, 4);
    let connections: Vec<u16> = (1201..=1208)
        .map(|thread| {
            let mut file = chooser.open(thread);
            let first = one(&mut chooser, &mut file, Direction::Write, ALL4);
            assert_eq!(one(&mut chooser, &mut file, Direction::Read, ALL4), first);
            first
        })
        .collect();
    assert_eq!(connections, [1, 2, 3, 0, 1, 2, 3, 0]);
}

/// Reference, section 7: the counter is incremented first, and belongs to the open file.
#[test]
fn operations_take_turns() {
    let mut chooser = chooser(Policy::Multiple, 4);
    for _ in 0..2 {
        let mut file = chooser.open(7);
        let six: Vec<u16> = (0..6).map(|_| one(&mut chooser, &mut file, Direction::Write, ALL4)).collect();
        assert_eq!(six, [1, 2, 3, 0, 1, 2]);
    }
}

#[test]
fn automatic_writes_to_one_and_reads_from_all() {
    let mut chooser = chooser(Policy::Automatic, 4);
    let mut file = chooser.open(1202);
    let writes: Vec<u16> = (0..4).map(|_| one(&mut chooser, &mut file, Direction::Write, ALL4)).collect();
    let reads: Vec<u16> = (0..4).map(|_| one(&mut chooser, &mut file, Direction::Read, ALL4)).collect();
    assert_eq!((writes, reads), (vec![2; 4], vec![1, 2, 3, 0]));
}

#[test]
fn files_that_are_written_spread_and_stay() {
    let mut chooser = chooser(Policy::Load, 4);
    let mut files: Vec<Use> = (0..8).map(|thread| chooser.open(thread)).collect();
    let first: Vec<u16> = files.iter_mut().map(|f| one(&mut chooser, f, Direction::Write, ALL4)).collect();
    for connection in 0..4 {
        assert_eq!(first.iter().filter(|c| **c == connection).count(), 2, "{first:?}");
    }
    let again: Vec<u16> = files.iter_mut().map(|f| one(&mut chooser, f, Direction::Write, ALL4)).collect();
    assert_eq!(first, again);
    let usable = ALL4 & !(1 << first[0]);
    assert_ne!(one(&mut chooser, &mut files[0], Direction::Write, usable), first[0], "its connection is out");
}

#[test]
fn words_there_and_back() {
    for policy in Policy::ALL {
        assert_eq!(policy.to_string().parse(), Ok(policy));
    }
    assert_eq!("thread-to-single".parse(), Ok(Policy::Single));
    assert!("fastest".parse::<Policy>().unwrap_err().contains("automatic"));
}

/// 100 MB/s each, with a server that is never the bottleneck: the case of the paper's figures 4.7 and 4.13b.
#[test]
fn where_connections_are_the_bottleneck_the_load_policy_uses_them_all() {
    for direction in [Direction::Read, Direction::Write] {
        let job = Job { direction, threads: 8, depth: 1, bytes: 1 << 20 };
        let alone = World::new(Policy::Load, 1).run(job);
        for n in [2, 4, 8] {
            let ratio = World::new(Policy::Load, n).run(job) / alone;
            assert!(ratio > 0.9 * f64::from(n), "{direction:?} over {n}: {ratio:.2}");
        }
    }
}

/// One thread with many requests under way: TtoS has one connection, TtoM and ours have all (figure 4.13b).
#[test]
fn one_asynchronous_reader_gets_all_connections() {
    let job = Job { direction: Direction::Read, threads: 1, depth: 16, bytes: 1 << 20 };
    let run = |policy| World::new(policy, 4).run(job) / World::new(policy, 1).run(job);
    assert!(run(Policy::Single) < 1.1);
    assert!(run(Policy::Multiple) > 3.6);
    assert!(run(Policy::Automatic) > 3.6);
    assert!(run(Policy::Load) > 3.6);
}

/// One thread that waits for each of its large operations gains by splitting them; small ones stay whole.
#[test]
fn large_operations_are_split_over_idle_connections_when_that_pays() {
    let job = |direction, bytes| Job { direction, threads: 1, depth: 1, bytes };
    for direction in [Direction::Read, Direction::Write] {
        let run = |n, bytes| World::new(Policy::Load, n).run(job(direction, bytes));
        let ratio = |bytes| run(4, bytes) / run(1, bytes);
        assert!(ratio(1 << 20) > 3.0, "{direction:?}: {}", ratio(1 << 20));
        assert!((0.99..1.01).contains(&ratio(64 << 10)), "{direction:?}: {}", ratio(64 << 10));
    }
    // On a connection so fast that a part costs more than it saves, nothing is split.
    let fast = |n| World::new(Policy::Load, n).of(20e9, f64::INFINITY).run(job(Direction::Read, 1 << 20));
    assert!((0.99..1.01).contains(&(fast(4) / fast(1))));
}

/// The writes of one file over several connections wait for its lock at the server: figures 4.8a, 4.9 and 4.13a.
#[test]
fn one_file_is_written_over_several_connections_only_where_that_is_faster() {
    let job = Job { direction: Direction::Write, threads: 1, depth: 16, bytes: 1 << 20 };
    let alone = World::new(Policy::Load, 1).run(job);
    let slow_links = World::new(Policy::Load, 4).run(job) / alone;
    assert!(slow_links > 3.0, "the connections are the bottleneck: {slow_links:.2}");
    let locked = |policy, n| World::new(policy, n).of(2e9, 1.5e9).run(job);
    let multiple = locked(Policy::Multiple, 4) / locked(Policy::Multiple, 1);
    let ours = locked(Policy::Load, 4) / locked(Policy::Load, 1);
    assert!(multiple < 0.8, "the lock is the bottleneck: {multiple:.2}");
    assert!(ours > 0.93, "trying costs little: {ours:.2}");
}

#[test]
fn a_slow_connection_gets_less() {
    let mut world = World::new(Policy::Load, 4);
    world.slow = Some((2, 10e6));
    let job = Job { direction: Direction::Read, threads: 1, depth: 16, bytes: 1 << 20 };
    let ratio = world.run(job) / World::new(Policy::Load, 1).run(job);
    assert!(ratio > 2.5, "three good ones and a bad one: {ratio:.2}");
}

#[test]
fn a_reader_that_waits_for_each_answer_leaves_a_slow_connection() {
    let job = Job { direction: Direction::Read, threads: 1, depth: 1, bytes: 64 << 10 };
    let best = World::new(Policy::Load, 1).run(job);
    for slow in 0..4 {
        let mut world = World::new(Policy::Load, 4);
        world.slow = Some((slow, 30e6));
        let ratio = world.run(job) / best;
        assert!(ratio > 0.95, "connection {slow} is slow: {ratio:.2}");
    }
}

fn link() -> Link {
    Link::new(Time::ZERO, LinkConfig { failures_max: 3, ..LinkConfig::default() })
}

fn actions(link: &mut Link) -> Vec<Action> {
    link.drain().filter(|a| !matches!(a, Action::Changed { .. })).collect()
}

#[test]
fn a_connection_that_breaks_goes_out_and_comes_back() {
    let mut link = link();
    link.handle(Time::from_secs(1), Event::OperationFailed);
    assert_eq!((link.state(), actions(&mut link)), (State::Suspect, vec![Action::Probe]));
    link.handle(Time::from_secs(1), Event::ProbeFailed);
    assert_eq!((link.state(), actions(&mut link)), (State::Out, vec![Action::TakeOut]));
    let mut now = link.next_deadline().unwrap();
    assert_eq!(now, Time::from_secs(1), "the first try comes at once");
    let mut waits = Vec::new();
    for _ in 0..9 {
        link.handle(now, Event::Tick);
        assert_eq!((link.state(), actions(&mut link)), (State::Mounting, vec![Action::Mount]));
        assert_eq!(link.next_deadline(), None);
        link.handle(now, Event::MountFailed);
        let due = link.next_deadline().unwrap();
        waits.push(due.since(now).0 / 1_000_000);
        now = due;
    }
    assert_eq!(waits, [250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000]);
    link.handle(now, Event::Tick);
    link.handle(now, Event::Mounted);
    assert_eq!(link.state(), State::InUse);
    link.handle(now, Event::ProbeFailed);
    assert_eq!(link.state(), State::InUse, "the answer to a probe of the old mount");
}

#[test]
fn one_that_hangs_is_found_by_its_probe_and_released() {
    let mut link = link();
    link.handle(Time::from_secs(2), Event::Tick);
    assert_eq!((link.state(), actions(&mut link)), (State::InUse, vec![Action::Probe]));
    let deadline = link.next_deadline().unwrap();
    link.handle(deadline, Event::Tick);
    assert_eq!((link.state(), actions(&mut link)), (State::Out, vec![Action::TakeOut]));
}

#[test]
fn suspects_serve_when_nobody_else_can() {
    let mut links = vec![link(), link(), link()];
    assert_eq!(usable(&links), 0b111);
    links[1].handle(Time::from_secs(1), Event::OperationFailed);
    assert_eq!(usable(&links), 0b101);
    for k in [0, 2] {
        links[k].handle(Time::from_secs(1), Event::OperationFailed);
        links[k].handle(Time::from_secs(1), Event::ProbeFailed);
    }
    assert_eq!(usable(&links), 0b010);
}

#[test]
fn good_probes_do_not_save_one_whose_operations_keep_failing() {
    let mut link = link();
    for second in 1..=2 {
        link.handle(Time::from_secs(second), Event::OperationFailed);
        link.handle(Time::from_secs(second), Event::OperationFailed); // under way together: one failure
        link.handle(Time::from_secs(second), Event::ProbeGood);
        assert_eq!(link.state(), State::InUse);
    }
    link.handle(Time::from_secs(3), Event::OperationFailed);
    assert_eq!(link.state(), State::Out);
}

#[test]
fn what_may_be_done_twice_is_done_again() {
    use Operation::*;
    for operation in [Read, Write, Append, Make, Unmake] {
        assert_eq!(verdict(operation, Sent::Never), Verdict::Again);
        let maybe = verdict(operation, Sent::Maybe);
        assert_eq!(maybe == Verdict::Again, matches!(operation, Read | Write), "{operation:?}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Open(u32),
    Close(u8),
    Begin(u8, bool, u64),
    Done(u8, bool),
    Usable(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        any::<u32>().prop_map(Step::Open),
        any::<u8>().prop_map(Step::Close),
        (any::<u8>(), any::<bool>(), 1u64..8 << 20).prop_map(|(f, w, b)| Step::Begin(f, w, b)),
        (any::<u8>(), any::<bool>()).prop_map(|(k, ok)| Step::Done(k, ok)),
        any::<u8>().prop_map(Step::Usable),
    ]
}

proptest! {
    /// Random opens, requests, failures and closes: a choice is among the usable connections, and its parts cover the
    /// request without gap or overlap. The outstanding counts are exact.
    #[test]
    fn choices_are_whole_usable_and_counted(
        policy in prop::sample::select(vec![Policy::Single, Policy::Multiple, Policy::Automatic, Policy::Load]),
        n in 1u16..=8,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut chooser = chooser(policy, n);
        let (mut files, mut parts): (Vec<Use>, Vec<(usize, Direction, Part)>) = Default::default();
        let (mut usable, mut now) = (u64::MAX, Time::ZERO);
        for step in steps {
            now = now + Time::from_millis(1);
            match step {
                Step::Open(thread) => files.push(chooser.open(thread)),
                Step::Usable(set) => usable = u64::from(set),
                Step::Close(k) if !files.is_empty() => {
                    let k = usize::from(k) % files.len();
                    if parts.iter().all(|(file, ..)| *file != k) {
                        chooser.close(&mut files[k]);
                    }
                }
                Step::Begin(k, write, bytes) if !files.is_empty() => {
                    let k = usize::from(k) % files.len();
                    let direction = if write { Direction::Write } else { Direction::Read };
                    let choice = chooser.choose(now, &mut files[k], Request { direction, bytes, whole: false }, usable);
                    prop_assert_eq!(choice.is_none(), usable & ((1 << n) - 1) == 0);
                    let mut at = 0;
                    for part in choice.iter().flat_map(|choice| &choice.parts) {
                        prop_assert!(part.connection.0 < n && usable & 1 << part.connection.0 != 0);
                        prop_assert_eq!(part.offset, at);
                        prop_assert!(part.bytes > 0);
                        at += part.bytes;
                        parts.push((k, direction, *part));
                    }
                    prop_assert!(choice.is_none() || at == bytes);
                }
                Step::Done(k, ok) if !parts.is_empty() => {
                    let (file, direction, part) = parts.swap_remove(usize::from(k) % parts.len());
                    chooser.done(now, Some(&mut files[file]), direction, part, ok, usable);
                }
                _ => {}
            }
            for c in (0..n).map(ConnectionId) {
                let truth: u64 = parts.iter().filter(|p| p.2.connection == c).map(|p| p.2.bytes).sum();
                prop_assert_eq!(chooser.outstanding_bytes(c), truth);
            }
        }
    }

    /// Tests for any events that no connection is mounted twice or taken out twice, and that each has a deadline.
    #[test]
    fn a_link_is_mounted_or_out_and_never_stuck(events in prop::collection::vec((0u8..6, 0u64..20_000), 1..200)) {
        let mut link = link();
        let (mut now, mut mounted, mut mounting) = (Time::ZERO, true, false);
        for (event, millis) in events {
            now = now + Time::from_millis(millis);
            let event = match event {
                0 => Event::OperationFailed,
                1 => Event::ProbeGood,
                2 => Event::ProbeFailed,
                3 => Event::Mounted,
                4 => Event::MountFailed,
                _ => Event::Tick,
            };
            // A driver reports the result of a mount only while one is under way.
            if matches!(event, Event::Mounted | Event::MountFailed) {
                if !mounting {
                    continue;
                }
                mounting = false;
                mounted = event == Event::Mounted;
            }
            link.handle(now, event);
            while let Some(action) = link.poll() {
                match action {
                    Action::TakeOut => {
                        prop_assert!(mounted);
                        mounted = false;
                    }
                    Action::Mount => {
                        prop_assert!(!mounted && !mounting);
                        mounting = true;
                    }
                    Action::Changed { from, to, .. } => prop_assert_ne!(from, to),
                    Action::Probe => prop_assert!(mounted),
                }
            }
            prop_assert_eq!(matches!(link.state(), State::InUse | State::Suspect), mounted);
            prop_assert_eq!(link.next_deadline().is_none(), mounting);
        }
    }
}
