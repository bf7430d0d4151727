//! Explores every order of the steps of small programs on three nodes, with faults, around the machine that runs live.
//! Nothing acknowledged is lost, no reader gets older bytes than were closed, and every program ends. The same search
//! convicts rules that are broken on purpose.
//!
//! `ENTREPOT_EXPLORE_DEPTH=1` adds the scenarios with the most states; each further one adds a fault of each kind.

mod driver;
mod faults;
mod program;
mod scenario;
mod world;

use program::LOST;
use scenario::{Faults, Guilt, NODES, Op, Scenario};
use std::collections::{BTreeMap, VecDeque};
use world::{Label, World};

/// Limit of a search. A machine that counts without bound reaches it.
const STATES_MAX: usize = 8_000_000;
const ENDLESS: &str = "the states have no end";

/// Result of a search.
struct SearchResult {
    states: usize,
    /// The shortest way to a state that must not be, and why it must not.
    violation: Option<(&'static str, Vec<Label>)>,
}

/// Breadth first, so that the first violation has the shortest trace.
fn explore(scenario: &Scenario) -> SearchResult {
    let start = World::start(scenario);
    let mut numbers = BTreeMap::from([(start.fingerprint(), 0u32)]);
    let mut from: Vec<(u32, Label)> = vec![(0, world::label(NODES, String::new(), false))];
    let mut ends = vec![start.is_done()];
    // Edges of steps without faults, reversed.
    let mut back: Vec<(u32, u32)> = Vec::new();
    let mut open = VecDeque::from([(0, Box::new(start))]);
    let mut next = Vec::new();
    while let Some((at, state)) = open.pop_front() {
        state.next(scenario, &mut next);
        for (label, to) in next.drain(..) {
            let count = from.len() as u32;
            let number = *numbers.entry(to.fingerprint()).or_insert(count);
            if !label.fault && number != at {
                back.push((number, at));
            }
            if number == count {
                ends.push(to.is_done());
                from.push((at, label));
                if let Some(why) = to.broken {
                    return SearchResult { states: from.len(), violation: Some((why, trace(from, number))) };
                }
                open.push_back((number, Box::new(to)));
                if from.len() > STATES_MAX {
                    return SearchResult { states: from.len(), violation: Some((ENDLESS, trace(from, number))) };
                }
            }
        }
    }
    let states = from.len();
    let stuck = stuck(ends, back);
    SearchResult { states, violation: stuck.map(|stuck| ("the rest does not come to its end", trace(from, stuck))) }
}

/// A state from which no way without faults leads to the end, if possible one without any step.
fn stuck(mut ends: Vec<bool>, mut back: Vec<(u32, u32)>) -> Option<u32> {
    let mut goes_on = vec![false; ends.len()];
    back.iter().for_each(|(_, before)| goes_on[*before as usize] = true);
    back.sort_unstable();
    let mut open: Vec<u32> = (0..ends.len() as u32).filter(|n| ends[*n as usize]).collect();
    while let Some(state) = open.pop() {
        let first = back.partition_point(|(to, _)| *to < state);
        for (_, before) in back[first..].iter().take_while(|(to, _)| *to == state) {
            if !std::mem::replace(&mut ends[*before as usize], true) {
                open.push(*before);
            }
        }
    }
    let still = ends.iter().zip(&goes_on).position(|(ends, goes_on)| !ends && !goes_on);
    still.or_else(|| ends.iter().position(|ends| !ends)).map(|n| n as u32)
}

fn trace(from: Vec<(u32, Label)>, mut state: u32) -> Vec<Label> {
    let mut labels = Vec::new();
    while state != 0 {
        let (before, label) = &from[state as usize];
        labels.push(label.clone());
        state = *before;
    }
    labels.reverse();
    labels
}

fn shown(labels: &[Label]) -> String {
    let name = |label: &Label| ["A", "B", "C", " "][label.node];
    labels.iter().map(|label| format!("  {} {}\n", name(label), label.what)).collect()
}

#[expect(clippy::disallowed_methods, reason = "how deep the tests go is not a setting of a policy")]
fn depth() -> u8 {
    std::env::var("ENTREPOT_EXPLORE_DEPTH").map_or(0, |depth| depth.parse().unwrap())
}

fn holds(size: usize, programs: [&'static [Op]; NODES], faults: Faults) {
    search(Scenario {
        programs,
        faults: faults.more(depth().saturating_sub(1)),
        guilt: Guilt::None,
        fine: false,
        size,
    });
}

/// As `holds`, with each request for a session as a step.
fn fine(size: usize, programs: [&'static [Op]; NODES], faults: Faults) {
    if depth() > 0 {
        search(Scenario { programs, faults, guilt: Guilt::None, fine: true, size });
    }
}

/// As `holds`, for a scenario with too many states for each run of the suite.
fn deep(size: usize, programs: [&'static [Op]; NODES], faults: Faults) {
    if depth() > 0 {
        search(Scenario { programs, faults, guilt: Guilt::None, fine: false, size });
    }
}

fn search(scenario: Scenario) {
    let found = explore(&scenario);
    report(&format!("{} states: {scenario:?}", found.states));
    if let Some((why, labels)) = found.violation {
        panic!("{why}:\n{}", shown(&labels));
    }
}

/// The rules that are not broken hold in the same scenario, by a test above.
fn convicts(guilt: Guilt, size: usize, programs: [&'static [Op]; NODES], faults: Faults, because: &str) {
    let found = explore(&Scenario { programs, faults, guilt, fine: false, size });
    let Some((why, labels)) = found.violation else { panic!("{guilt:?} was not found guilty: {}", found.states) };
    report(&format!("{guilt:?}: {why}, after {} states:\n{}", found.states, shown(&labels)));
    assert_eq!(why, because);
}

#[expect(clippy::disallowed_macros, reason = "traces are for people who run the tests with `--nocapture`")]
fn report(text: &str) {
    println!("{text}");
}

const READ: Op = Op::Read { name: 0, block: 0 };
const READ_1: Op = Op::Read { name: 0, block: 1 };
const WRITE: Op = Op::Write { name: 0, block: 0, value: 5, later: false };
const OTHER: Op = Op::Write { name: 0, block: 0, value: 6, later: false };
const LONGER: Op = Op::Write { name: 0, block: 1, value: 7, later: true };
const APPEND: Op = Op::Append { name: 0, value: 8, later: false };
const LATER: Op = Op::Append { name: 0, value: 9, later: true };
const CUT: Op = Op::Cut { name: 0, value: 10 };
const MOVE: Op = Op::Move { name: 0 };
const CLOSE: Op = Op::Close { name: 0 };
const NONE: Faults = Faults {
    freezes: 0,
    crashes: 0,
    partitions: 0,
    restarts: 0,
    returns: 0,
    doubts: 0,
    lost: 0,
    repeated: 0,
    short: 0,
    unreached: 0,
};

const MOVE_1: Op = Op::Move { name: 1 };
const OPEN: Op = Op::Open { name: 0 };
const REPLACE: Op = Op::Replace { from: 1, to: 0 };
const REMOVE: Op = Op::Remove { name: 0 };

/// All programs of two operations.
fn programs(values: [u8; 2]) -> Vec<&'static [Op]> {
    let ops = |value| {
        let write = |block, later| Op::Write { name: 0, block, value, later };
        let append = |later| Op::Append { name: 0, value, later };
        [
            READ,
            READ_1,
            write(0, false),
            write(1, true),
            append(false),
            append(true),
            Op::Cut { name: 0, value },
            MOVE,
            CLOSE,
        ]
    };
    let pairs = ops(values[0]).into_iter().flat_map(|first| ops(values[1]).map(|second| vec![first, second]));
    pairs.map(|program| &*program.leak()).collect()
}

#[test]
fn all_programs_of_two_operations_on_two_nodes() {
    if depth() > 0 {
        let all = programs([7, 8]);
        for (n, first) in programs([5, 6]).into_iter().enumerate() {
            all[n..].iter().for_each(|second| holds(1, [first, second, &[]], NONE));
        }
    }
}

#[test]
fn writers_and_a_change() {
    holds(2, [&[WRITE], &[OTHER], &[MOVE]], NONE);
    holds(2, [&[WRITE, READ], &[MOVE], &[MOVE]], NONE);
    holds(1, [&[WRITE], &[MOVE], &[]], Faults { short: 1, ..NONE });
}

#[test]
fn readers_of_which_one_writes_beside_a_writer() {
    holds(1, [&[READ, WRITE], &[READ, READ], &[OTHER]], NONE);
    deep(1, [&[READ, LONGER], &[READ_1, READ_1], &[OTHER]], NONE);
}

#[test]
fn appends_beside_each_other_and_a_reader() {
    holds(0, [&[APPEND], &[LATER, CLOSE], &[READ]], NONE);
    holds(1, [&[LATER], &[READ_1, READ_1], &[]], NONE);
    holds(1, [&[LATER, CLOSE], &[READ_1], &[MOVE]], NONE);
    holds(1, [&[LATER], &[MOVE], &[]], NONE);
}

#[test]
fn a_file_made_longer_beside_readers_and_a_change() {
    holds(1, [&[LONGER, CLOSE], &[READ_1, READ_1], &[WRITE]], NONE);
    holds(1, [&[LONGER, CLOSE], &[READ_1, READ_1], &[]], NONE);
    holds(1, [&[LONGER], &[MOVE], &[READ_1]], NONE);
    holds(1, [&[LONGER], &[OTHER, READ_1], &[]], NONE);
    deep(1, [&[WRITE, LONGER], &[OTHER, READ_1], &[READ_1]], NONE);
}

#[test]
fn a_truncation_beside_a_reader_and_a_writer() {
    holds(2, [&[CUT], &[READ_1], &[WRITE]], NONE);
    holds(2, [&[CUT, LONGER, CLOSE], &[READ_1], &[]], NONE);
}

#[test]
fn names_removed_and_replaced_while_open() {
    holds(1, [&[OPEN, READ, READ, CLOSE], &[REPLACE], &[MOVE]], NONE);
    holds(1, [&[OPEN, READ, CLOSE], &[REMOVE], &[OPEN, WRITE, CLOSE]], NONE);
    holds(1, [&[OPEN, WRITE, READ, CLOSE], &[REMOVE], &[OPEN, APPEND, CLOSE]], NONE);
}

#[test]
fn messages_that_are_lost_or_repeated_and_requests_without_an_answer() {
    let faults = Faults { lost: 1, repeated: 1, doubts: 1, ..NONE };
    holds(1, [&[WRITE], &[MOVE], &[]], faults);
    holds(1, [&[LATER], &[APPEND], &[]], faults);
}

#[test]
fn a_node_that_freezes_beside_a_change() {
    holds(1, [&[WRITE], &[MOVE], &[]], Faults { freezes: 1, ..NONE });
    holds(1, [&[WRITE], &[MOVE, MOVE_1], &[]], Faults { freezes: 1, ..NONE });
    deep(1, [&[MOVE], &[MOVE], &[WRITE]], Faults { freezes: 1, ..NONE });
}

#[test]
fn a_node_that_freezes_while_sizes_change() {
    holds(1, [&[APPEND], &[LATER], &[]], Faults { freezes: 1, ..NONE });
    holds(1, [&[LATER], &[READ_1], &[]], Faults { freezes: 1, ..NONE });
    deep(1, [&[LONGER], &[OTHER, READ_1], &[]], Faults { freezes: 1, ..NONE });
    holds(2, [&[CUT], &[READ_1], &[]], Faults { freezes: 1, ..NONE });
    deep(2, [&[CUT], &[LONGER], &[]], Faults { freezes: 1, ..NONE });
}

#[test]
fn a_node_that_crashes() {
    holds(2, [&[CUT], &[LONGER], &[]], Faults { crashes: 1, ..NONE });
    holds(1, [&[LATER], &[MOVE], &[]], Faults { crashes: 1, ..NONE });
    holds(1, [&[LONGER], &[OTHER, READ_1], &[]], Faults { crashes: 1, ..NONE });
    holds(1, [&[WRITE, MOVE_1], &[MOVE], &[]], Faults { crashes: 1, ..NONE });
    deep(1, [&[LATER], &[READ_1], &[APPEND]], Faults { crashes: 1, ..NONE });
}

#[test]
fn a_node_that_crashes_and_another_that_does_not_reach_its_objects() {
    holds(1, [&[LATER], &[MOVE], &[]], Faults { crashes: 1, unreached: 1, ..NONE });
    holds(1, [&[LONGER], &[OTHER, READ_1], &[]], Faults { crashes: 1, unreached: 1, ..NONE });
    deep(1, [&[LATER], &[READ_1], &[]], Faults { crashes: 1, unreached: 2, ..NONE });
    deep(1, [&[LATER], &[APPEND, READ_1], &[]], Faults { crashes: 1, unreached: 1, ..NONE });
    deep(1, [&[LATER], &[READ_1], &[READ_1]], Faults { crashes: 1, unreached: 1, ..NONE });
}

#[test]
fn a_node_apart_from_the_store_beside_a_change() {
    holds(1, [&[WRITE], &[MOVE], &[]], Faults { partitions: 1, ..NONE });
    fine(1, [&[WRITE], &[MOVE], &[]], Faults { partitions: 1, ..NONE });
}

#[test]
fn a_node_apart_from_the_store_beside_readers() {
    holds(1, [&[WRITE], &[READ, READ], &[]], Faults { partitions: 1, ..NONE });
    deep(1, [&[READ, WRITE], &[READ, READ], &[]], Faults { partitions: 1, ..NONE });
    deep(1, [&[LATER], &[READ_1], &[]], Faults { partitions: 1, ..NONE });
    deep(1, [&[LONGER, CLOSE], &[READ_1, READ_1], &[]], Faults { partitions: 1, ..NONE });
    deep(1, [&[LATER, CLOSE], &[APPEND], &[]], Faults { partitions: 1, ..NONE });
}

#[test]
fn a_store_that_restarts_or_returns_to_an_old_copy() {
    holds(1, [&[WRITE], &[MOVE], &[]], Faults { restarts: 1, ..NONE });
    holds(1, [&[WRITE], &[MOVE], &[]], Faults { returns: 1, ..NONE });
    fine(1, [&[WRITE], &[MOVE], &[]], Faults { returns: 1, ..NONE });
    deep(1, [&[LATER, CLOSE], &[APPEND], &[]], Faults { returns: 1, ..NONE });
    deep(1, [&[READ, WRITE], &[READ, READ], &[]], Faults { returns: 1, ..NONE });
}

#[test]
fn a_node_that_crashes_and_a_store_that_returns_to_an_old_copy() {
    holds(1, [&[LATER], &[MOVE], &[]], Faults { crashes: 1, returns: 1, ..NONE });
}

#[test]
fn two_faults_of_different_kinds() {
    deep(1, [&[WRITE], &[MOVE], &[]], Faults { freezes: 1, returns: 1, ..NONE });
    deep(1, [&[LATER], &[MOVE], &[]], Faults { freezes: 1, crashes: 1, ..NONE });
    deep(1, [&[WRITE], &[MOVE], &[]], Faults { crashes: 1, partitions: 1, ..NONE });
}

#[test]
fn names_removed_and_replaced_with_faults() {
    let programs: [[&[Op]; NODES]; 2] =
        [[&[OPEN, READ, CLOSE], &[REMOVE], &[]], [&[OPEN, READ, CLOSE], &[REPLACE], &[]]];
    for programs in programs {
        holds(1, programs, Faults { crashes: 1, ..NONE });
        holds(1, programs, Faults { returns: 1, ..NONE });
        holds(1, programs, Faults { lost: 1, doubts: 1, ..NONE });
        deep(1, programs, Faults { partitions: 1, ..NONE });
    }
    deep(1, [&[OPEN, READ, CLOSE], &[REMOVE], &[MOVE]], Faults { returns: 1, ..NONE });
}

const CREATE: Op = Op::Create { name: 0 };

#[test]
fn new_files_beside_others_that_use_them() {
    holds(1, [&[CREATE, LATER, CLOSE], &[APPEND, CLOSE], &[]], NONE);
    deep(1, [&[CREATE, LATER, CLOSE], &[APPEND, CLOSE], &[READ]], NONE);
    holds(1, [&[CREATE, WRITE, LONGER, CLOSE], &[MOVE], &[]], NONE);
    holds(1, [&[CREATE, WRITE], &[OTHER, CLOSE], &[CUT]], NONE);
    holds(1, [&[CREATE, WRITE, CLOSE], &[REMOVE], &[]], NONE);
}

#[test]
fn new_files_with_faults() {
    let programs: [&[Op]; NODES] = [&[CREATE, LATER, CLOSE], &[APPEND, CLOSE], &[]];
    holds(1, programs, Faults { freezes: 1, ..NONE });
    holds(1, programs, Faults { crashes: 1, ..NONE });
    holds(1, programs, Faults { returns: 1, ..NONE });
    holds(1, programs, Faults { lost: 1, doubts: 1, ..NONE });
    deep(1, programs, Faults { partitions: 1, ..NONE });
    holds(1, [&[CREATE, WRITE, OTHER], &[MOVE], &[]], Faults { freezes: 1, ..NONE });
    deep(1, [&[CREATE, WRITE, CLOSE], &[MOVE], &[]], Faults { partitions: 1, ..NONE });
}

const SHORT: &str = "the file is shorter than what was acknowledged";
const OLDER: &str = "a reader gets older bytes than were closed before it opened the file";

#[test]
fn guilty_without_a_look_after_the_write() {
    convicts(Guilt::NoLook, 1, [&[WRITE], &[MOVE], &[]], Faults { freezes: 1, ..NONE }, LOST);
}

#[test]
fn guilty_with_object_numbers_that_are_used_again() {
    let foreign = "an object holds bytes of another";
    convicts(Guilt::NumbersReused, 1, [&[WRITE], &[MOVE, MOVE_1], &[]], Faults { freezes: 1, ..NONE }, foreign);
}

#[test]
fn guilty_with_a_run_that_is_opened_before_all_have_registered() {
    convicts(Guilt::OpensEarly, 1, [&[WRITE], &[MOVE], &[]], Faults { restarts: 1, ..NONE }, LOST);
}

#[test]
fn guilty_with_a_provisional_hold_while_the_session_may_count() {
    convicts(Guilt::ProvisionalEarly, 1, [&[WRITE], &[MOVE], &[]], Faults { partitions: 1, ..NONE }, LOST);
}

#[test]
fn guilty_with_a_cache_that_is_used_after_its_bound() {
    convicts(Guilt::CachesOn, 1, [&[WRITE], &[READ, READ], &[]], Faults { partitions: 1, ..NONE }, OLDER);
}

#[test]
fn guilty_with_a_reader_that_writes_in_a_lower_mode() {
    convicts(Guilt::WritesAsReader, 1, [&[READ, WRITE], &[READ, READ], &[OTHER]], NONE, OLDER);
    let faults = Faults { partitions: 1, ..NONE };
    convicts(Guilt::WritesAsReader, 1, [&[READ, WRITE], &[READ, READ], &[]], faults, OLDER);
}

#[test]
fn guilty_with_a_cache_that_is_used_in_a_lower_mode() {
    let end = "a reader finds the end of the file before what was closed";
    convicts(Guilt::KeepsCache, 1, [&[LONGER, CLOSE], &[READ_1, READ_1], &[]], NONE, end);
}

#[test]
fn guilty_with_a_size_of_the_stub_that_is_believed() {
    let end = "a reader finds the end of the file before what was closed";
    convicts(Guilt::BelievesStub, 1, [&[LONGER], &[READ_1, READ_1], &[]], NONE, end);
}

#[test]
fn guilty_with_a_list_that_is_believed() {
    convicts(Guilt::BelievesList, 1, [&[WRITE], &[MOVE], &[]], Faults { short: 1, ..NONE }, LOST);
}

#[test]
fn guilty_with_a_hold_that_is_released_before_the_size_is_set() {
    convicts(Guilt::ReleasesFirst, 1, [&[LATER], &[MOVE], &[]], NONE, SHORT);
}

#[test]
fn guilty_with_a_generation_that_is_found_after_the_claim() {
    convicts(Guilt::FindsLate, 1, [&[WRITE], &[MOVE], &[]], Faults { partitions: 1, ..NONE }, LOST);
}

#[test]
fn guilty_with_a_provisional_hold_without_a_publication() {
    convicts(Guilt::NoFence, 1, [&[WRITE], &[MOVE], &[]], Faults { partitions: 1, ..NONE }, LOST);
}

#[test]
fn guilty_with_old_objects_beyond_the_size() {
    convicts(Guilt::NoSeal, 1, [&[APPEND], &[LATER], &[]], Faults { freezes: 1, ..NONE }, LOST);
}

#[test]
fn guilty_with_a_size_that_is_not_settled() {
    convicts(Guilt::SkipsSettling, 1, [&[LATER], &[MOVE], &[]], Faults { crashes: 1, ..NONE }, LOST);
}

#[test]
fn guilty_with_a_member_that_is_forgotten_with_its_session() {
    convicts(Guilt::ForgetsLapsed, 1, [&[WRITE], &[MOVE], &[]], Faults { partitions: 1, ..NONE }, LOST);
}

#[test]
fn guilty_with_a_copy_of_the_store_that_is_trusted() {
    let faults = Faults { crashes: 1, returns: 1, ..NONE };
    convicts(Guilt::TrustsCopy, 1, [&[LATER], &[MOVE], &[]], faults, SHORT);
}

#[test]
fn guilty_with_objects_that_go_with_the_name() {
    let gone = "an object of the layout is gone";
    convicts(Guilt::RemovesAtOnce, 1, [&[OPEN, READ, CLOSE], &[REMOVE], &[]], NONE, gone);
}

#[test]
fn guilty_with_a_holder_that_is_forgotten_at_once() {
    let programs: [&[Op]; NODES] = [&[CREATE, WRITE], &[MOVE], &[]];
    convicts(Guilt::ForgetsReleased, 1, programs, NONE, LOST);
}

#[test]
fn guilty_with_a_generation_that_a_claim_leaves_in_the_table() {
    convicts(Guilt::KeepsGeneration, 1, [&[CREATE, WRITE], &[MOVE, OTHER], &[]], NONE, LOST);
}

#[test]
fn guilty_with_a_table_that_is_sure_after_a_loss() {
    let programs: [&[Op]; NODES] = [&[CREATE, WRITE], &[MOVE], &[]];
    convicts(Guilt::IsSure, 1, programs, Faults { returns: 1, ..NONE }, LOST);
}

#[test]
fn guilty_with_a_table_that_trusts_a_hold_registered_late() {
    let programs: [&[Op]; NODES] = [&[CREATE, WRITE, OTHER], &[MOVE], &[]];
    convicts(Guilt::TrustsReclaimed, 1, programs, Faults { freezes: 1, ..NONE }, LOST);
}
