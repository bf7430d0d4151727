//! Explores every order of every operation of small programs on three nodes, with faults. Nothing acknowledged is lost,
//! and every program ends. The same search convicts rules that are broken on purpose.
//!
//! `ENTREPOT_EXPLORE_DEPTH` adds as many faults of each kind; `make check` runs with 0.

mod model;
mod scenario;
mod sizes;

use model::{Label, State};
use scenario::{Faults, Guilt, NODES, Op, Scenario, Start};

/// Hashes and numbers of the visited states, in a table that is at most half full.
struct VisitedStates {
    slots: Vec<(u64, u32)>,
    len: usize,
}

impl VisitedStates {
    fn new() -> VisitedStates {
        VisitedStates { slots: vec![(0, 0); 1 << 16], len: 0 }
    }

    /// The number that it has, or gets now.
    fn number(&mut self, state: &State) -> (u32, bool) {
        if self.len * 2 > self.slots.len() {
            let bigger = vec![(0, 0); self.slots.len() * 2];
            for slot in std::mem::replace(&mut self.slots, bigger) {
                if slot.0 != 0 {
                    let at = self.find(slot.0);
                    self.slots[at] = slot;
                }
            }
        }
        let hash = state.fingerprint();
        let at = self.find(hash);
        if self.slots[at].0 == hash {
            return (self.slots[at].1, false);
        }
        self.slots[at] = (hash, self.len as u32);
        self.len += 1;
        (self.len as u32 - 1, true)
    }

    fn find(&self, hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = (hash >> 20) as usize & mask;
        while self.slots[at].0 != 0 && self.slots[at].0 != hash {
            at = (at + 1) & mask;
        }
        at
    }
}

/// Result of a search.
struct SearchResult {
    states: usize,
    /// The shortest way to a state that must not be, and why it must not.
    violation: Option<(&'static str, Vec<Label>)>,
}

/// Breadth first, so that the first violation has the shortest trace.
fn explore(scenario: &Scenario) -> SearchResult {
    let mut seen = VisitedStates::new();
    let mut states = vec![State::start(scenario)];
    let mut from: Vec<(u32, Label)> = vec![(0, Label { node: 0, what: "", fault: false })];
    // Edges of steps without faults, reversed.
    let mut back: Vec<(u32, u32)> = Vec::new();
    seen.number(&states[0]);
    let (mut at, mut next) = (0, Vec::new());
    while at < states.len() {
        let state = states[at];
        state.next(scenario, &mut next);
        for (label, to) in next.drain(..) {
            let (number, new) = seen.number(&to);
            if new {
                states.push(to);
                from.push((at as u32, label));
                if let Some(why) = to.broken() {
                    return SearchResult { states: states.len(), violation: Some((why, trace(&from, number))) };
                }
            }
            if !label.fault && number != at as u32 {
                back.push((number, at as u32));
            }
        }
        at += 1;
    }
    let violation = stuck(&states, back).map(|stuck| ("the rest does not come to its end", trace(&from, stuck)));
    SearchResult { states: states.len(), violation }
}

/// The first state from which no way without faults leads to the end.
fn stuck(states: &[State], mut back: Vec<(u32, u32)>) -> Option<u32> {
    back.sort_unstable();
    let mut ends = vec![false; states.len()];
    let mut open: Vec<u32> = (0..states.len() as u32).filter(|n| states[*n as usize].is_done()).collect();
    open.iter().for_each(|n| ends[*n as usize] = true);
    while let Some(state) = open.pop() {
        let first = back.partition_point(|(to, _)| *to < state);
        for (_, before) in back[first..].iter().take_while(|(to, _)| *to == state) {
            if !std::mem::replace(&mut ends[*before as usize], true) {
                open.push(*before);
            }
        }
    }
    ends.iter().position(|ends| !ends).map(|n| n as u32)
}

fn trace(from: &[(u32, Label)], mut state: u32) -> Vec<Label> {
    let mut labels = Vec::new();
    while state != 0 {
        let (before, label) = from[state as usize];
        labels.push(label);
        state = before;
    }
    labels.reverse();
    labels
}

fn told(labels: &[Label]) -> String {
    let line = |label: &Label| match label.node as usize {
        NODES => format!("  {}\n", label.what),
        node => format!("  {} {}\n", ["A", "B", "C"][node], label.what),
    };
    labels.iter().map(line).collect()
}

#[expect(clippy::disallowed_methods, reason = "how deep the tests go is not a setting of a policy")]
fn depth() -> u8 {
    std::env::var("ENTREPOT_EXPLORE_DEPTH").map_or(0, |depth| depth.parse().unwrap())
}

fn holds(programs: [&'static [Op]; NODES], faults: Faults) {
    holds_from(Start::Still, programs, faults);
}

fn holds_from(start: Start, programs: [&'static [Op]; NODES], faults: Faults) {
    let faults = faults.more(depth());
    let scenario = Scenario { programs, faults, guilt: Guilt::None, start };
    let found = explore(&scenario);
    say(&format!("{} states: {scenario:?}", found.states));
    if let Some((why, labels)) = found.violation {
        panic!("{why}:\n{}", told(&labels));
    }
}

fn convicts(guilt: Guilt, programs: [&'static [Op]; NODES], faults: Faults, because: &str) {
    convicts_from(guilt, Start::Still, programs, faults, because);
}

fn convicts_from(guilt: Guilt, start: Start, programs: [&'static [Op]; NODES], faults: Faults, because: &str) {
    holds_from(start, programs, faults);
    let scenario = Scenario { programs, faults, guilt, start };
    let found = explore(&scenario);
    let Some((why, labels)) = found.violation else { panic!("{guilt:?} was not found guilty: {}", found.states) };
    say(&format!("{guilt:?}: {why}, after {} states:\n{}", found.states, told(&labels)));
    assert_eq!(why, because);
}

#[expect(clippy::disallowed_macros, reason = "traces are for people who run the tests with `--nocapture`")]
fn say(text: &str) {
    println!("{text}");
}

const A: Op = Op::Write { block: 0, value: 3 };
const B: Op = Op::Write { block: 0, value: 4 };
const C: Op = Op::Write { block: 1, value: 5 };
const MOVE: Op = Op::Move { block: 0 };
const MOVE_1: Op = Op::Move { block: 1 };
const ADD: Op = Op::Add;
const READ: Op = Op::Read { block: 0 };

const LOST: &str = "an acknowledged write is not in the layout";
const NONE: Faults =
    Faults { lapses: 0, expulsions: 0, crashes: 0, bells: 0, silent: 0, doubts: 0, late: 0, give_ups: 0, fails: 0 };

#[test]
fn two_writers_and_a_change_while_leases_lapse() {
    holds([&[A], &[B], &[MOVE]], Faults { lapses: 1, ..NONE });
}

#[test]
fn writers_that_go_on_writing_and_a_change_while_a_node_crashes() {
    holds([&[A, C], &[B], &[MOVE]], Faults { crashes: 1, ..NONE });
}

#[test]
fn two_changes_and_a_writer_while_a_node_freezes() {
    holds([&[A], &[MOVE_1], &[MOVE]], Faults { expulsions: 1, ..NONE });
}

#[test]
fn nodes_that_write_and_change() {
    holds([&[A, MOVE_1], &[MOVE, B], &[]], Faults { lapses: 1, crashes: 1, ..NONE });
}

#[test]
fn an_addition_beside_a_writer_and_a_change() {
    holds([&[A, C], &[ADD], &[MOVE]], Faults { crashes: 1, ..NONE });
}

#[test]
fn removals_and_creates_without_an_answer() {
    holds([&[A], &[MOVE_1], &[MOVE]], Faults { doubts: 1, late: 1, ..NONE });
}

#[test]
fn doorbells_that_fail_and_changes_that_are_given_up() {
    holds([&[A, C], &[B], &[MOVE]], Faults { bells: 1, silent: 1, give_ups: 1, ..NONE });
}

#[test]
fn a_reader_beside_writers_and_a_change() {
    holds([&[A, B], &[READ], &[MOVE]], Faults { expulsions: 1, crashes: 1, ..NONE });
}

#[test]
fn guilty_without_a_look_at_the_lease_after_the_write() {
    convicts(Guilt::NoLook, [&[A], &[], &[MOVE]], Faults { lapses: 1, ..NONE }, LOST);
}

#[test]
fn guilty_with_object_numbers_that_are_used_again() {
    let foreign = "an object holds bytes of another";
    convicts(Guilt::NumbersReused, [&[A], &[], &[MOVE, MOVE_1]], Faults { lapses: 1, ..NONE }, foreign);
}

#[test]
fn guilty_with_a_dead_node_s_claim_that_is_just_removed() {
    convicts(Guilt::ClaimJustRemoved, [&[A], &[], &[MOVE]], Faults { lapses: 1, ..NONE }, LOST);
}

#[test]
fn guilty_with_registrations_in_a_store_that_forgets() {
    convicts(Guilt::Forgetful, [&[A], &[], &[MOVE]], NONE, LOST);
}

#[test]
fn guilty_with_one_name_for_every_registration() {
    convicts(Guilt::OneEntry, [&[C, A], &[], &[MOVE]], Faults { late: 1, bells: 1, ..NONE }, LOST);
}

#[test]
fn guilty_with_a_node_over_that_one_listing_misses() {
    convicts(Guilt::MissingIsOver, [&[A], &[], &[MOVE]], NONE, LOST);
}

#[test]
fn guilty_with_a_claim_that_is_given_up_by_removing_it() {
    let faults = Faults { late: 1, give_ups: 1, ..NONE };
    convicts(Guilt::GivesUpByRemoving, [&[A], &[MOVE_1], &[MOVE]], faults, LOST);
}

#[test]
fn guilty_with_a_layout_that_is_loaded_and_not_looked_at_again() {
    convicts(Guilt::LoadedUnseen, [&[A], &[ADD], &[MOVE]], Faults { expulsions: 1, ..NONE }, LOST);
}

#[test]
fn guilty_with_a_refusal_that_is_believed_without_a_lease() {
    let gone = "an object of the layout is gone";
    let faults = Faults { doubts: 1, expulsions: 1, ..NONE };
    convicts(Guilt::RefusedIsNot, [&[Op::Settle], &[ADD], &[MOVE]], faults, gone);
}
