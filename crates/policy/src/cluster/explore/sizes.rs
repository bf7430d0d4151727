//! Sizes that are set later: nodes that make a file longer, cuts, and their interference.

use super::*;

const D: Op = Op::Write { block: 1, value: 6 };
const CUT: Op = Op::Cut { value: 7 };
const READ_1: Op = Op::Read { block: 1 };

const SHORT: &str = "the file is shorter than what was acknowledged";
const BACK: &str = "bytes that were cut come back";
const ZEROS: &str = "a reader gets zeros that were never written";

#[test]
fn two_writers_that_extend_and_a_move_while_a_node_crashes() {
    holds_from(Start::Short, [&[C], &[D], &[MOVE_1]], Faults { crashes: 1, ..NONE });
}

#[test]
fn a_node_that_extends_and_moves_while_leases_lapse() {
    holds_from(Start::Short, [&[C, MOVE_1], &[D], &[]], Faults { lapses: 1, crashes: 1, ..NONE });
}

#[test]
fn writers_that_extend_and_a_cut_while_a_node_freezes() {
    holds_from(Start::Short, [&[C], &[CUT], &[D]], Faults { expulsions: 1, ..NONE });
}

#[test]
fn a_cut_that_is_left_half_done_beside_a_writer_and_a_reader() {
    for start in [Start::Short, Start::Long] {
        holds_from(start, [&[C], &[CUT], &[READ_1]], Faults { expulsions: 1, crashes: 1, ..NONE });
    }
}

#[test]
fn a_cut_and_a_move() {
    holds_from(Start::Long, [&[C], &[CUT], &[MOVE_1]], Faults { expulsions: 1, ..NONE });
}

#[test]
fn marks_that_are_removed_late() {
    holds_from(Start::Short, [&[C], &[CUT], &[D]], Faults { crashes: 1, late: 1, ..NONE });
}

#[test]
fn writes_that_fail_half_way() {
    holds_from(Start::Short, [&[C], &[D], &[CUT]], Faults { crashes: 1, fails: 1, ..NONE });
}

#[test]
fn a_cut_and_growth_beside_a_reader_that_knows_the_size_before() {
    holds_from(Start::Long, [&[CUT, C], &[], &[READ_1]], Faults { expulsions: 1, ..NONE });
    holds_from(Start::Long, [&[CUT], &[C], &[READ_1]], NONE);
}

#[test]
fn guilty_with_a_reader_that_takes_what_is_cut_for_a_hole() {
    convicts_from(Guilt::ShortIsHole, Start::Long, [&[CUT], &[], &[READ_1]], NONE, ZEROS);
}

#[test]
fn guilty_with_a_reader_that_looks_only_at_the_size_after_it() {
    convicts_from(Guilt::SizeAfterIsEnough, Start::Long, [&[CUT, C], &[], &[READ_1]], NONE, ZEROS);
}

#[test]
fn guilty_with_growth_that_is_not_marked() {
    convicts_from(Guilt::GrowsUnmarked, Start::Short, [&[C], &[], &[READ_1]], NONE, SHORT);
}

#[test]
fn guilty_with_a_mark_that_is_removed_before_the_size_is_said() {
    convicts_from(Guilt::UnmarksFirst, Start::Short, [&[C], &[], &[READ_1]], NONE, SHORT);
}

#[test]
fn guilty_with_a_change_that_does_not_settle_what_a_dead_node_made_longer() {
    convicts_from(Guilt::SkipsSettling, Start::Short, [&[C], &[], &[MOVE_1]], Faults { crashes: 1, ..NONE }, SHORT);
}

#[test]
fn guilty_with_marks_that_are_removed_before_the_size_is_settled() {
    let faults = Faults { crashes: 1, ..NONE };
    convicts_from(Guilt::SettlesMarksFirst, Start::Short, [&[C], &[], &[MOVE_1]], faults, SHORT);
}

#[test]
fn guilty_with_growth_that_is_litter() {
    convicts_from(Guilt::GrowthIsLitter, Start::Short, [&[C], &[], &[MOVE_1]], Faults { crashes: 1, ..NONE }, SHORT);
}

#[test]
fn guilty_with_a_size_that_is_asked_for_before_the_marks() {
    let older = "a reader sees older bytes than were acknowledged before it opened the file";
    convicts_from(Guilt::SizeBeforeMarks, Start::Short, [&[C], &[], &[READ_1]], NONE, older);
}

#[test]
fn guilty_with_a_cut_that_is_not_marked() {
    convicts_from(Guilt::CutsUnmarked, Start::Short, [&[C], &[CUT], &[]], Faults { expulsions: 1, ..NONE }, BACK);
}

#[test]
fn guilty_with_growth_from_before_a_cut_that_counts() {
    convicts_from(Guilt::OldGrowthCounts, Start::Short, [&[C], &[CUT], &[]], Faults { expulsions: 1, ..NONE }, BACK);
}

#[test]
fn guilty_with_a_writer_that_extends_beside_the_mark_of_a_cut() {
    convicts_from(Guilt::ExtendsBesideCut, Start::Long, [&[CUT], &[C], &[]], Faults { crashes: 1, ..NONE }, BACK);
}

#[test]
fn guilty_with_a_size_that_is_set_without_a_look_at_the_lease() {
    convicts_from(Guilt::SizedUnseen, Start::Short, [&[C], &[CUT], &[]], Faults { expulsions: 1, ..NONE }, BACK);
}

#[test]
fn guilty_with_a_writer_that_trusts_what_the_objects_reach() {
    let faults = Faults { expulsions: 1, fails: 1, ..NONE };
    convicts_from(Guilt::TrustsReach, Start::Short, [&[C], &[MOVE, D], &[]], faults, SHORT);
}

#[test]
fn guilty_with_what_a_write_that_failed_has_left() {
    let beyond = "bytes lie beyond the end, and no mark says so";
    convicts_from(Guilt::FailureForgotten, Start::Short, [&[C], &[], &[]], Faults { fails: 1, ..NONE }, beyond);
}
