//! Objects that no file names: when they are removed, and what keeps them.

use super::*;

/// Whether the object of [`Checked::orphan`] exists.
fn is_there(orphan: &object::target::Target) -> bool {
    orphan.run(|medium| medium.open(ObjectId(5)).map(drop)).is_ok()
}

#[test]
fn orphans_of_an_earlier_daemon_are_found_and_removed_but_not_objects_in_use() {
    let c = new();
    c.staged("a", 4);
    let orphan = c.orphan();
    let report = c.check(false);
    assert_eq!(kinds(&report), [FindingKind::Orphan]);
    assert!(is_there(&orphan), "only looked");
    let report = c.check(true);
    assert!(report.is_healthy(), "{report:?}");
    assert!(!is_there(&orphan));
    assert!(c.world.read("a") == data(SIZE, 4));
}

/// [S-371]
#[test]
fn objects_whose_names_were_not_listed_for_a_while_are_no_orphans() {
    let c = new();
    let (there, away) = (c.world.tree.join("d"), c.world.tree.with_file_name("away"));
    std::fs::create_dir(&there).expect("made");
    c.world.memory.add("mem://h/a", &data(SIZE, 4));
    c.world.stage(&["mem://h/a"], "d/a").expect("staged");
    c.orphan();
    let before = c.objects();
    // The names reappear between the first scan and the removal, at the first report of the repair.
    std::fs::rename(&there, &away).expect("renamed");
    let come_back = |_: &crate::stage::Progress| drop(std::fs::rename(&away, &there));
    let options = CheckOptions { repair: true, ..CheckOptions::default() };
    let report = c.checker.check(&options, &come_back, &Stop::default()).expect("checked");
    assert!(report.findings.iter().all(|f| matches!(f.outcome, Outcome::Failed(_))), "{report:?}");
    assert!(report.unseen.len() == 1 && report.unseen[0].contains("second scan"), "{report:?}");
    assert_eq!(c.objects(), before, "nothing is removed while the view is incomplete");
    assert!(c.world.read("d/a") == data(SIZE, 4));
    assert!(c.check(true).is_healthy());
    assert_eq!(c.objects(), before - 1);
}

/// [S-162]
#[test]
fn a_stub_without_its_attributes_is_damaged_and_while_there_is_one_nothing_is_removed() {
    let c = new();
    for name in ["a", "b"] {
        c.staged(name, 21);
    }
    let (orphan, before) = (c.orphan(), c.objects());
    c.lose_attributes("a");
    let error = c.open_file("a").err().expect("it is no file of zeros").errno();
    assert_eq!(error, rustix::io::Errno::IO);
    let report = c.check(true);
    assert!(kinds(&report).contains(&FindingKind::BadLayout) && !report.is_healthy(), "{report:?}");
    assert!(report.unseen.iter().any(|why| why.starts_with("a:")), "{report:?}");
    assert_eq!(c.objects(), before, "neither the objects of the damaged file nor any other go");
    assert!(c.world.read("b") == data(SIZE, 21));
    std::fs::remove_file(c.world.tree.join("a")).expect("the operator gives it up");
    assert!(c.check(true).is_healthy());
    assert!(c.objects() < before && !is_there(&orphan));
}

/// [S-162]
#[test]
fn a_long_file_that_never_had_objects_is_not_taken_for_a_damaged_one() {
    let c = new();
    let file = c.open_file("sparse").expect("new");
    file.write(0, b"head").expect("written");
    file.truncate(1 << 30).expect("longer");
    let zeroed = c.open_file("zeroed").expect("new");
    zeroed.zero(0, 1 << 20, false).expect("longer");
    let empty = c.open_file("empty").expect("new");
    empty.truncate(1 << 30).expect("longer");
    drop((file, zeroed, empty));
    assert!(c.check(false).is_healthy());
    for name in ["sparse", "empty"] {
        rustix::fs::removexattr(c.world.tree.join(name), meta::stub::real::INLINE_ATTRIBUTE).expect("it was marked");
    }
    let file = c.open_file("sparse").expect("its bytes are there for all to see");
    let mut bytes = [9; 8];
    assert_eq!((file.read(0, &mut bytes).expect("read"), &bytes), (8, b"head\0\0\0\0"));
    assert!(c.open_file("empty").is_err(), "nothing tells it from one that lost its layout");
}

/// [S-162]
#[test]
fn what_lies_too_deep_to_be_opened_by_its_path_keeps_everything_from_being_removed() {
    let c = new();
    let name = "d".repeat(250);
    let mut at = rustix::fs::open(&c.world.tree, OFLAGS, rustix::fs::Mode::empty()).expect("tree");
    for _ in 0..18 {
        rustix::fs::mkdirat(&at, &name, rustix::fs::Mode::RWXU).expect("made");
        at = rustix::fs::openat(&at, &name, OFLAGS, rustix::fs::Mode::empty()).expect("opened");
    }
    let fd = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CREATE;
    let fd = rustix::fs::openat(&at, "f", fd, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).expect("made");
    let file = c.checker.files.get_or_open(fd).expect("opens");
    file.write(0, &data(300_000, 7)).expect("written");
    drop(file);
    c.orphan();
    let before = c.objects();
    let report = c.check(true);
    assert!(report.unscanned && !report.unseen.is_empty() && !report.is_healthy(), "{report:?}");
    assert_eq!(c.objects(), before);
}

/// [S-162]
#[test]
fn while_a_target_is_away_nothing_is_removed() {
    let c = new();
    let orphan = c.orphan();
    let away = c.checker.volume.targets().all().pop().expect("targets").id();
    c.fail(away);
    let report = c.check(true);
    assert!(!report.is_healthy() && report.unseen.iter().any(|why| why.contains("is away")), "{report:?}");
    assert!(is_there(&orphan));
    c.restore(away);
    assert!(c.check(true).is_healthy());
    assert!(!is_there(&orphan));
}

/// [S-162]
#[test]
fn what_is_younger_than_a_backup_that_was_put_back_goes_only_when_the_operator_says_so() {
    let c = new();
    let orphan = c.orphan();
    c.checker.volume.state().record_put("state", "unknown", b"{\"start\":0,\"end\":1}").expect("noted");
    let report = c.check(true);
    assert_eq!(kinds(&report), [FindingKind::Orphan]);
    let Outcome::Failed(why) = &report.findings[0].outcome else { panic!("{report:?}") };
    assert!(why.contains("--drop-unknown"), "{report:?}");
    assert!(is_there(&orphan));
    let options = CheckOptions { repair: true, drop_unknown: true, ..CheckOptions::default() };
    assert!(c.check_with(&options).is_healthy());
    assert!(!is_there(&orphan));
    assert_eq!(c.checker.volume.unknown_epochs().expect("state"), None, "nothing is unknown any more");
}

#[test]
fn what_a_move_leaves_or_waits_to_be_removed_is_no_orphan() {
    let c = new();
    let target = c.orphan();
    let objects = vec![(target.id(), ObjectId(5))];
    let entry =
        meta::state::JournalEntry { file: policy::FileId(7), path: "x".into(), inode: 1, objects: objects.clone() };
    let state = c.checker.volume.state();
    state.journal_put(&entry).expect("journal");
    assert!(c.check(false).findings.is_empty(), "a move answers for it");
    state.journal_finish(entry.file, &objects).expect("journal");
    assert!(c.check(false).findings.is_empty(), "it waits to be removed");
    state.garbage_removed(&objects).expect("garbage");
    assert_eq!(kinds(&c.check(false)), [FindingKind::Orphan]);
}

/// [S-161]
#[test]
fn an_object_that_is_there_already_is_somebody_elses_and_stays() {
    let c = new();
    let targets = c.checker.volume.targets().all();
    let next = c.checker.volume.next_id().expect("number");
    let strange: Vec<_> = (next + 1..next + 60).map(ObjectId).collect();
    for target in &targets {
        for id in strange.clone() {
            target.run(move |medium| medium.create(id)?.write_at(0, b"old")).expect("made");
        }
    }
    let file = mirrored(&c);
    assert!(c.world.read("m") == data(300_000, 7));
    let next = c.checker.volume.next_id().expect("number");
    let more: Vec<_> = (next + 1..next + 60).map(ObjectId).collect();
    for target in &targets {
        for id in more.clone() {
            target.run(move |medium| medium.create(id)?.write_at(0, b"old")).expect("made");
        }
    }
    let from = file.layout().expect("objects").mirrors[0].segments[0].objects[0].target;
    c.checker.mover.replace_target(&file, from, policy::layout::Reason::Drained(from)).expect("moved");
    assert!(c.world.read("m") == data(300_000, 7));
    for target in &targets {
        for id in strange.iter().chain(&more).copied() {
            let len = target.run(move |medium| medium.open(id)?.len());
            assert_eq!(len, Ok(3), "{id} on {}", target.name());
        }
    }
}
