//! Charges, refusals and returns, by one thread and by several.

use super::*;
use policy::quota::{Both, Resource};

fn both(bytes: u64, files: u64) -> Both<u64> {
    Both { bytes, files }
}

fn account(subject: Subject, used: Both<u64>, most: Both<u64>) -> Arc<Account> {
    let account = Arc::new(Account::new(subject, Some(used)));
    account.set_most(most);
    account
}

fn quotas() -> (Quotas, [Arc<Account>; 3]) {
    let quotas = Quotas::default();
    quotas.begin("/names/tree".into(), |_| ());
    let user = account(Subject::User(7), both(90, 1), both(100, 10));
    let group = account(Subject::Group(8), both(0, 0), both(u64::MAX, u64::MAX));
    let directory = account(Subject::Directory(0), both(0, 0), both(50, u64::MAX));
    quotas.add([(user.clone(), None), (group.clone(), None), (directory.clone(), Some("a/b".into()))]);
    (quotas, [user, group, directory])
}

#[test]
fn a_file_counts_for_its_owner_its_group_and_the_directories_above() {
    let (quotas, [user, group, directory]) = quotas();
    let used = || [&user, &group, &directory].map(|account| account.used().expect("known"));
    let all = quotas.payers_at((7, 8), Path::new("/names/tree/a/b/c/f"));
    assert!(quotas.take(&all, both(10, 1)).is_ok());
    assert_eq!(used(), [both(100, 2), both(10, 1), both(10, 1)]);
    let refused = Refused { subject: Subject::User(7), resource: Resource::Bytes, used: 100, most: 100 };
    assert_eq!((quotas.take(&all, both(1, 1)), quotas.refused()), (Err(refused), 1));
    assert_eq!(used(), [both(100, 2), both(10, 1), both(10, 1)], "refused by one, counted for none");
    assert!(quotas.take(&all, both(0, 1)).is_ok(), "what adds no byte needs no room");
    all.give(both(5, 1));
    assert_eq!(used(), [both(95, 2), both(5, 1), both(5, 1)]);
    let beside = quotas.payers_at((9, 9), Path::new("/names/tree/a/bc/f"));
    assert!(beside.is_empty() && quotas.payers_at((7, 8), Path::new("/names/staging/x")).is_empty());
    assert!(
        quotas.is_one_tree(Path::new("a/b"), Path::new("a/b/c"))
            && !quotas.is_one_tree(Path::new("a"), Path::new("a/b"))
    );
    assert!(
        quotas.holds_tree(Path::new("a"))
            && quotas.holds_tree(Path::new("a/b"))
            && !quotas.holds_tree(Path::new("a/b/c"))
    );
}

/// [S-302]
#[test]
fn a_file_whose_path_is_unknown_counts_for_its_owners_and_grows_only_while_no_directory_has_a_limit() {
    let (quotas, [user, group, directory]) = quotas();
    let payers = quotas.payers_anywhere((7, 8));
    let refused = Refused { subject: directory.subject(), resource: Resource::Bytes, used: 0, most: 0 };
    assert_eq!((quotas.take(&payers, both(1, 0)), quotas.admit(&payers, both(1, 0))), (Err(refused), Err(refused)));
    assert!(quotas.admit(&payers, both(0, 0)).is_ok() && !quotas.payers_anywhere((9, 9)).is_empty());
    quotas.remove(directory.subject());
    assert!(quotas.take(&quotas.payers_anywhere((7, 8)), both(10, 0)).is_ok());
    assert_eq!([user, group].map(|account| account.used()), [Some(both(100, 1)), Some(both(10, 0))]);
}

#[test]
fn what_is_refused_is_looked_at_once_more() {
    let quotas = Quotas::default();
    quotas.begin("/names/tree".into(), |account| account.set_most(both(200, 10)));
    let user = account(Subject::User(7), both(90, 1), both(100, 10));
    quotas.add([(user.clone(), None)]);
    let payers = quotas.owners(Some(7), None);
    assert!(quotas.take(&payers, both(50, 0)).is_ok(), "it may have more by now");
    assert_eq!((user.used(), quotas.refused()), (Some(both(140, 1)), 0));
    quotas.remove(Subject::User(7));
    assert!(!quotas.is_on() && quotas.owners(Some(7), None).is_empty());
}

#[test]
fn what_was_reserved_is_given_back_unless_it_is_kept() {
    let (quotas, [user, group, _]) = quotas();
    let reserve = || quotas.reserve(quotas.owners(Some(7), None), both(5, 1));
    drop(reserve().expect("there is room"));
    assert_eq!(user.used(), Some(both(90, 1)));
    reserve().expect("there is room").keep(quotas.owners(Some(7), None));
    reserve().expect("there is room").keep(quotas.owners(None, Some(8)));
    assert_eq!((user.used(), group.used()), (Some(both(95, 2)), Some(both(5, 1))), "it became the group's");
    assert!(reserve().is_ok() && quotas.reserve(quotas.owners(Some(7), None), both(6, 1)).is_err());
}

#[test]
fn a_look_at_all_files_puts_the_count_right_and_loses_nothing_that_came_meanwhile() {
    let account = Account::new(Subject::User(1), None);
    account.force(Resource::Bytes, 10);
    assert_eq!(account.used(), None, "nobody knows what was there before");
    account.correct(account.counted(), |_, counted| counted.map_or(100, |_| unreachable!()));
    assert_eq!(account.used(), Some(both(100, 100)));
    account.give(Resource::Bytes, 30);
    account.correct(account.counted(), |_, counted| counted.expect("known") + 1);
    assert_eq!((account.used(), account.changes()), (Some(both(71, 101)), (both(10, 0), both(30, 0))));
}

/// Threads that charge at the same time never exceed the limit together.
#[test]
fn threads_never_take_more_than_there_is_together() {
    let user = account(Subject::User(1), both(0, 0), both(10_000, u64::MAX));
    let quotas = Quotas::default();
    quotas.add([(user.clone(), None)]);
    let taken = std::thread::scope(|scope| {
        let take = || (0..5_000).filter(|_| quotas.take(&quotas.owners(Some(1), None), both(3, 1)).is_ok()).count();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<usize>()
    });
    assert_eq!((taken, user.used()), (3_333, Some(both(9_999, 3_333))));
}
