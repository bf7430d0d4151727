//! Contract of every state store, as one function that panics at a breach.

use super::{JournalEntry, State};
use object::target::State as TargetState;
use policy::Time;
use policy::cluster::Node;
use policy::holders::table::{Answer, Caller, Mode, Request, Run};
use policy::{FileId, ObjectId, TargetId};

/// Runs the suite on an empty store.
pub(super) fn conformance(state: &dyn State) {
    epochs_and_numbers_grow(state);
    targets_keep_their_numbers(state);
    the_journal_turns_into_garbage(state);
    stagings_and_records(state);
    a_record_is_replaced_only_where_it_is_as_it_was_read(state);
    what_was_dumped_comes_back(state);
    a_file_is_held_and_released(state);
}

fn epochs_and_numbers_grow(state: &dyn State) {
    assert_eq!(state.epoch().unwrap(), 0);
    let (first, second) = (state.new_epoch(0).unwrap(), state.new_epoch(0).unwrap());
    assert_eq!(state.epoch().unwrap(), second);
    assert!(0 < first && first < second, "{first} {second}");
    assert_eq!([70, 0, 8, 90].map(|above| state.new_epoch(above).unwrap()), [71, 72, 73, 91]);
    assert_eq!((state.next_number("job").unwrap(), state.next_number("job").unwrap()), (1, 2));
    assert_eq!(state.next_number("epoch").unwrap(), 1, "sequences of records are apart from the store's own");
}

fn targets_keep_their_numbers(state: &dyn State) {
    let add = |name| {
        let id = state.new_target_number().unwrap();
        state.remember_target(id, name).map(|()| id)
    };
    let (a, b) = (add("a").unwrap(), add("b").unwrap());
    assert_ne!(a, b);
    add("a").expect_err("a name is taken once");
    state.remember_target(a, "a").expect("what is known is known");
    state.set_target_state(a, TargetState::Failed, true).unwrap();
    state.set_target_state(b, TargetState::Suspect, false).unwrap();
    let seen: Vec<_> = state.targets().unwrap().into_iter().map(|t| (t.id, t.name, t.state, t.by_operator)).collect();
    let expected = [(a, "a".into(), TargetState::Failed, true), (b, "b".into(), TargetState::Ok, false)];
    assert_eq!(seen, expected, "suspicion is not remembered");

    let of = |ids: &[TargetId]| state.targets_of(ids).unwrap().into_iter().map(|t| (t.id, t.state)).collect::<Vec<_>>();
    assert_eq!(of(&[b, TargetId(9), a]), [(a, TargetState::Failed), (b, TargetState::Ok)], "those that are known");
    assert_eq!(of(&[]), []);
    changes_are_told_apart(state, a);
    of_two_orders_the_later_one_counts(state, a);

    state.garbage_add(&[(b, ObjectId(1))]).unwrap();
    state.forget_target(b).unwrap();
    assert!(state.garbage_of(b, 10).unwrap().is_empty(), "its garbage is forgotten with it");
    let again = add("b").unwrap();
    assert!(again > b, "a number is never given again");
    state.remember_target(TargetId(again.0 + 5), "c").unwrap();
    assert!(add("d").unwrap() > TargetId(again.0 + 5), "nor one that was found on a target");
    assert_eq!(state.targets().unwrap().len(), 4);
}

/// In a store of several daemons, the change identifier shows changes without a read of the targets.
fn changes_are_told_apart(state: &dyn State, target: TargetId) {
    let before = state.targets_change().unwrap();
    assert_eq!(state.targets_change().unwrap(), before);
    state.set_target_state(TargetId(9), TargetState::Ok, false).unwrap();
    assert_eq!(state.targets_change().unwrap(), before, "there is no such target");
    state.set_target_state(target, TargetState::Failed, true).unwrap();
    let after = state.targets_change().unwrap();
    assert!(before.is_none() || before != after, "{before:?}");
}

fn of_two_orders_the_later_one_counts(state: &dyn State, target: TargetId) {
    let order = |state_of: TargetState, given_ms| {
        state.order_target(target, state_of, given_ms).unwrap().map(|there| (there.state, there.last_ms))
    };
    let there =
        || state.targets_of(&[target]).unwrap().into_iter().map(|t| (t.state, t.by_operator)).collect::<Vec<_>>();
    assert_eq!(order(TargetState::Draining, 1000), Some((TargetState::Draining, 1000)));
    let change = state.targets_change().unwrap();
    assert_eq!(order(TargetState::Failed, 2000), Some((TargetState::Failed, 2000)));
    assert_eq!(there(), [(TargetState::Failed, true)]);
    // A store of one daemon gets no late orders.
    if change.is_none() {
        return;
    }
    assert_ne!(state.targets_change().unwrap(), change);
    let last = Some((TargetState::Failed, 2000));
    assert_eq!([order(TargetState::Ok, 1500), order(TargetState::Ok, 2000)], [last, last]);
    assert_eq!(order(TargetState::Ok, 2001), Some((TargetState::Ok, 2001)));
    assert_eq!(there(), [(TargetState::Ok, false)]);
    assert_eq!(state.targets().unwrap().iter().find(|t| t.id == target).unwrap().ordered_ms, 2001);
    assert_eq!(state.targets_of(&[target]).unwrap()[0].ordered_ms, 2001);
    assert_eq!(state.order_target(TargetId(999), TargetState::Ok, 1).unwrap(), None, "there is no such target");
}

fn the_journal_turns_into_garbage(state: &dyn State) {
    let high = ObjectId(0xffff_ffff_0000_0001); // the sign bit of a signed integer
    let (a, b) = (TargetId(1), TargetId(2));
    let path: std::ffi::OsString = std::os::unix::ffi::OsStringExt::from_vec(b"dir/not utf-8 \xff".to_vec());
    let mut entry = JournalEntry {
        file: FileId(u64::MAX),
        path: path.into(),
        inode: u64::MAX - 1,
        objects: vec![(a, ObjectId(7)), (a, high), (b, ObjectId(8))],
    };
    state.journal_put(&entry).unwrap();
    entry.objects.pop();
    state.journal_put(&entry).unwrap();
    let small = JournalEntry { file: FileId(3), path: "x".into(), inode: 1, objects: Vec::new() };
    state.journal_put(&small).unwrap();
    assert_eq!(state.journal().unwrap(), [small, entry.clone()], "by file, replaced as a whole");

    let before = state.garbage_count().unwrap();
    state.garbage_add(&[(a, high)]).unwrap();
    state.journal_finish(entry.file, &[(a, high), (a, ObjectId(7)), (b, ObjectId(8))]).unwrap();
    state.journal_finish(FileId(3), &[]).unwrap();
    assert!(state.journal().unwrap().is_empty());
    assert_eq!(state.garbage_count().unwrap() - before, 3, "what was garbage already counts once");
    assert_eq!(state.garbage_of(a, 10).unwrap(), [ObjectId(7), high], "ascending, as unsigned numbers");
    assert_eq!(state.garbage_of(a, 1).unwrap(), [ObjectId(7)]);
    state.garbage_removed(&[(a, ObjectId(7)), (a, ObjectId(99))]).unwrap();
    assert_eq!(state.garbage_of(a, 10).unwrap(), [high]);
}

fn stagings_and_records(state: &dyn State) {
    state.staging_put("k", b"1").unwrap();
    state.staging_put("k", b"\0two").unwrap();
    assert_eq!(state.staging_get("k").unwrap().as_deref(), Some(&b"\0two"[..]));
    assert_eq!(state.stagings().unwrap(), [("k".to_owned(), b"\0two".to_vec())]);
    state.staging_remove("k").unwrap();
    assert_eq!(state.staging_get("k").unwrap(), None);

    for (kind, key) in [("job", "2"), ("job", "1"), ("other", "1")] {
        state.record_put(kind, key, key.as_bytes()).unwrap();
    }
    let keys = |kind| state.records(kind).unwrap().into_iter().map(|(key, _)| key).collect::<Vec<_>>();
    assert_eq!(keys("job"), ["1", "2"]);
    assert!(state.record_remove("job", "1").unwrap());
    assert!(!state.record_remove("job", "1").unwrap());
    assert_eq!((keys("job"), keys("other")), (vec!["2".to_owned()], vec!["1".to_owned()]));
    assert_eq!(state.record_get("job", "2").unwrap().as_deref(), Some(&b"2"[..]));
}

fn a_record_is_replaced_only_where_it_is_as_it_was_read(state: &dyn State) {
    let swap = |before: Option<&[u8]>, value: &[u8]| state.record_swap("jobs.swap", "k", before, value).unwrap();
    let there = || state.record_get("jobs.swap", "k").unwrap();
    assert!(!swap(Some(b"1"), b"2"), "there is none");
    assert!(swap(None, b"1\0\xff"));
    assert!(!swap(None, b"2"), "there is one");
    assert!(!swap(Some(b"1"), b"2") && !swap(Some(b""), b"2"));
    assert_eq!(there().as_deref(), Some(&b"1\0\xff"[..]));
    assert!(swap(Some(b"1\0\xff"), b"") && swap(Some(b""), b"3"));
    assert_eq!(there().as_deref(), Some(&b"3"[..]));
    assert_eq!(state.record_get("jobs.swap", "other").unwrap(), None);
    // One of the threads that read the same value succeeds.
    let add = || (0..20).for_each(|_| while !add_one(state) {});
    std::thread::scope(|scope| (0..3).for_each(|_| drop(scope.spawn(add))));
    assert_eq!(there().as_deref(), Some(&b"63"[..]), "none of 60 is lost");
    assert!(state.record_remove("jobs.swap", "k").unwrap());
    assert_eq!(state.life().unwrap(), state.life().unwrap());
}

/// Adds one to the number in a record, unless another thread was quicker.
fn add_one(state: &dyn State) -> bool {
    let read = state.record_get("jobs.swap", "k").unwrap();
    let number: u64 = std::str::from_utf8(read.as_deref().unwrap()).unwrap().parse().unwrap();
    state.record_swap("jobs.swap", "k", read.as_deref(), (number + 1).to_string().as_bytes()).unwrap()
}

fn what_was_dumped_comes_back(state: &dyn State) {
    let path: std::ffi::OsString = std::os::unix::ffi::OsStringExt::from_vec(b"not utf-8 \xff".to_vec());
    let objects = vec![(TargetId(1), ObjectId(u64::MAX))];
    let entry = JournalEntry { file: FileId(u64::MAX), path: path.into(), inode: u64::MAX, objects };
    state.journal_put(&entry).unwrap();
    state.garbage_add(&[(TargetId(1), ObjectId(u64::MAX - 1))]).unwrap();
    state.staging_put("half", b"\0\xff").unwrap();
    let whole = state.dump().unwrap();
    let number = state.next_number("job").unwrap();
    state.new_epoch(1000).unwrap();
    state.record_put("later", "1", b"x").unwrap();
    state.garbage_add(&[(TargetId(1), ObjectId(3))]).unwrap();
    state.journal_finish(entry.file, &[]).unwrap();
    state.load(&whole).unwrap();
    assert_eq!(state.dump().unwrap(), whole, "what came later is gone");
    assert_eq!((state.journal().unwrap(), state.next_number("job").unwrap()), (vec![entry], number));
    let text = serde_json::to_string(&whole).unwrap();
    assert_eq!(serde_json::from_str::<Vec<super::dump::Row>>(&text).unwrap(), whole);
    state.load(&[]).unwrap();
    assert_eq!((state.dump().unwrap().len(), state.epoch().unwrap(), state.targets().unwrap().len()), (0, 0, 0));
    state.load(&whole).unwrap();
}

fn a_file_is_held_and_released(state: &dyn State) {
    let caller = Caller { node: Node(1), run: Run(7), link: 1 };
    let ask = |request| state.hold(caller, &request).unwrap();
    let Answer::Session { at, opened: false, .. } = ask(Request::Begin) else { panic!("no session") };
    let not_after = at + Time::from_secs(60);
    ask(Request::Register { not_after });
    assert_eq!(ask(Request::Open { members: [Node(1)].into() }), Answer::Done);
    ask(Request::Trust);
    let granted = Answer::Granted { mode: Mode::Exclusive, generation: 0, newest: false, unheld: false };
    assert_eq!(ask(Request::Admit { key: u64::MAX, number: 1, writes: true }), granted);
    assert_eq!(ask(Request::Lower { key: u64::MAX, number: 1, mode: None, generation: Some(3) }), Answer::Done);
    let again = Answer::Granted { mode: Mode::Read, generation: 3, newest: true, unheld: false };
    assert_eq!(ask(Request::Admit { key: u64::MAX, number: 2, writes: false }), again);
    assert_eq!(ask(Request::Lower { key: u64::MAX, number: 2, mode: None, generation: None }), Answer::Done);
    let Answer::Session { opened: true, suspect: false, lapsed: None, .. } = ask(Request::Renew { not_after }) else {
        panic!("no session")
    };
    assert_eq!(state.hold(Caller { run: Run(6), ..caller }, &Request::Trust).unwrap(), Answer::OtherRun);
}
