//! Targets that are there, away, elsewhere or known to files alone.

use super::*;

fn here(id: u16, epoch: u32) -> TargetState {
    TargetState::Here { id: TargetId(id), epoch, objects: 1 }
}

fn away() -> TargetState {
    TargetState::Away { why: "it is not mounted".into(), id: None }
}

fn found(targets: &[(&str, TargetState)], named: &[u16]) -> Found {
    let on = |id: &u16| (TargetId(*id), On { files: 3, alone: 1, example: format!("dir/of{id}") });
    let targets = targets.iter().map(|(name, seen)| ((*name).to_owned(), seen.clone())).collect();
    Found { targets, on: named.iter().map(on).collect(), epoch: 5, all_read: true }
}

fn wish(lost: &[&str], numbers: &[(&str, u16)]) -> Wish {
    Wish {
        lost: lost.iter().map(|name| (*name).to_owned()).collect(),
        numbers: numbers.iter().map(|(name, id)| ((*name).to_owned(), TargetId(*id))).collect(),
    }
}

fn records(plan: &Plan) -> Vec<(u16, &str, State)> {
    plan.targets.iter().map(|record| (record.id.0, &*record.name, record.state)).collect()
}

fn refusals(found: &Found, wish: &Wish) -> String {
    let all = plan(found, wish).expect_err("refused");
    all.0.iter().map(|one| format!("{}. {}\n", one.cause, one.mend)).collect()
}

#[test]
fn what_is_there_says_itself_what_it_is() {
    let all = found(&[("a", here(4, 9)), ("b", here(2, 3))], &[2, 4]);
    let plan = plan(&all, &Wish::default()).unwrap();
    assert_eq!(records(&plan), [(2, "b", State::Ok), (4, "a", State::Ok)]);
    assert_eq!((plan.last_target, plan.epoch), (4, 9));
}

#[test]
fn one_that_is_away_is_refused_with_the_files_that_may_be_on_it() {
    let all = found(&[("a", here(1, 1)), ("b", away())], &[1, 2]);
    let said = refusals(&all, &Wish::default());
    assert!(said.contains("\"b\" cannot be checked: it is not mounted") && said.contains("--lost b"), "{said}");
    assert!(said.contains("2 (3 files, such as dir/of2)"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    // A known number makes the consequence known.
    let said = refusals(&all, &wish(&[], &[("b", 2)]));
    assert!(said.contains("1 of them have neither another mirror in sync nor a source"), "{said}");
}

#[test]
fn one_that_is_lost_is_failed_under_its_own_number_and_never_empty() {
    let all = found(&[("a", here(1, 1)), ("b", away())], &[1, 7]);
    let lost = plan(&all, &wish(&["b"], &[])).unwrap();
    assert_eq!(records(&lost), [(1, "a", State::Ok), (7, "b", State::Failed)]);
    assert!(lost.targets[1].by_operator && lost.epoch > 5 + 1000, "it may have seen later numbers: {lost:?}");
    let told = plan(&all, &wish(&["b", "7"], &[("b", 3)])).unwrap();
    assert_eq!(records(&told), [(1, "a", State::Ok), (3, "b", State::Failed), (7, "lost-7", State::Failed)]);
    // No file names a number for it, so it gets an unused one.
    let all = found(&[("a", here(6, 1)), ("b", away())], &[6]);
    let lost = plan(&all, &wish(&["b"], &[])).unwrap();
    assert_eq!(records(&lost), [(6, "a", State::Ok), (7, "b", State::Failed)]);
    assert_eq!(lost.last_target, 7);
}

#[test]
fn of_two_that_are_lost_somebody_has_to_say_which_is_which() {
    let all = found(&[("a", away()), ("b", away())], &[1, 2]);
    let said = refusals(&all, &wish(&["a", "b"], &[]));
    assert!(said.contains("are ambiguous: 1 (3 files") && said.contains("--number"), "{said}");
    let told = plan(&all, &wish(&["a", "b"], &[("a", 2)])).unwrap();
    assert_eq!(records(&told), [(1, "b", State::Failed), (2, "a", State::Failed)]);
}

#[test]
fn a_number_that_only_files_name_is_refused_until_it_is_lost() {
    let all = found(&[("a", here(1, 1))], &[1, 9]);
    let said = refusals(&all, &Wish::default());
    assert!(said.contains("is number 9") && said.contains("dir/of9") && said.contains("--lost 9"), "{said}");
    let plan = plan(&all, &wish(&["9"], &[])).unwrap();
    assert_eq!(records(&plan), [(1, "a", State::Ok), (9, "lost-9", State::Failed)]);
    assert_eq!(plan.last_target, 9, "and no new target gets it");
}

#[test]
fn a_target_of_other_hosts_has_the_same_number_everywhere() {
    let all = found(&[("a", here(1, 1)), ("b", TargetState::Elsewhere)], &[1]);
    let said = refusals(&all, &Wish::default());
    assert!(said.contains("does not reach it") && said.contains("--number b=NUMBER"), "{said}");
    assert_eq!(records(&plan(&all, &wish(&[], &[("b", 4)])).unwrap()), [(1, "a", State::Ok), (4, "b", State::Ok)]);
    let lost = plan(&all, &wish(&["b"], &[("b", 4)])).unwrap();
    assert_eq!(records(&lost), [(1, "a", State::Ok), (4, "b", State::Failed)]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let all = found(&[("a", here(1, 1)), ("b", here(1, 1))], &[1]);
    assert!(refusals(&all, &Wish::default()).contains("both target number 1"));
    let all = found(&[("a", here(1, 1)), ("b", here(2, 1))], &[1]);
    for (wish, said) in [
        (wish(&["a"], &[]), "is there, and is not lost"),
        (wish(&["c"], &[]), "\"c\" is no target"),
        (wish(&["8"], &[]), "no number that files name"),
        (wish(&[], &[("a", 2)]), "has number 1 on it, not 2"),
        (wish(&[], &[("c", 2)]), "\"c\" is no target"),
    ] {
        assert!(refusals(&all, &wish).contains(said), "{said}: {}", refusals(&all, &wish));
    }
    let all = found(&[("a", here(1, u32::MAX))], &[1]);
    assert!(refusals(&all, &Wish::default()).contains("\"a\" has a number that is not valid"));
    let all = Found { epoch: u32::MAX, ..found(&[("a", here(1, 1))], &[1]) };
    assert!(refusals(&all, &Wish::default()).contains("the namespace has a number"));
}

#[test]
fn numbers_go_on_far_above_where_something_could_not_be_read() {
    let all = Found { all_read: false, ..found(&[("a", here(1, 8))], &[1]) };
    assert_eq!(plan(&all, &Wish::default()).unwrap().epoch, 8 + EPOCHS_SPARED);
}
