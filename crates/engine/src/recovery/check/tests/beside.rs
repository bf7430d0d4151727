//! Checks during other work in the volume: moves, and files being created, renamed and removed.

use super::super::look::Found;
use super::*;
use crate::file::File;
use crate::mover::Step;
use parking_lot::Mutex;
use policy::layout::Placement;
use std::collections::BTreeSet;

type Moved = fn(&Mover, &Arc<File>, &Placement) -> crate::Result<()>;

const MOVES: [(&str, Moved); 7] = [
    ("add mirror", |mover, file, place| mover.add_mirror(file, place).map(drop)),
    ("replace target", |mover, file, _| {
        let from = file.layout().expect("objects").mirrors[0].segments[0].objects[0].target;
        mover.replace_target(file, from, policy::layout::Reason::Drained(from)).map(drop)
    }),
    ("drop mirror", |mover, file, _| mover.drop_mirror(file, 0).map(drop)),
    ("move and keep", |mover, file, place| mover.move_segment_keeping(file, 0, place, None).map(drop)),
    ("return", |mover, file, _| mover.return_segment(file, 0).map(drop)),
    ("copy below", |mover, file, place| mover.copy_segment_below(file, 0, place, None)),
    ("return to it", |mover, file, _| mover.return_segment(file, 0).map(drop)),
];

fn place(c: &Checked) -> Placement {
    Placement { stripe_size: 65536, stripe_count: 2, mirrors: 1, ..c.checker.files.pool().placement.clone() }
}

fn with_one_mirror(c: &Checked, path: &str) -> Arc<File> {
    let file = c.open_file(path).expect("made");
    file.set_layout_request(&place(c)).expect("laid out");
    file.write(0, &data(300_000, 7)).expect("written");
    file
}

/// [S-197]
#[test]
fn a_check_at_any_step_of_a_move_finds_nothing_wrong_and_its_repair_takes_nothing() {
    let c = Arc::new(new());
    let file = with_one_mirror(&c, "m");
    for (verb, carry_out) in MOVES {
        let steps = Arc::new(Mutex::new(BTreeSet::new()));
        let (at_step, counted) = (c.clone(), steps.clone());
        let hook = move |step: Step| {
            if !counted.lock().insert(step) {
                return Ok(());
            }
            let before = at_step.objects();
            let report = at_step.check(true);
            assert!(report.findings.is_empty() && report.unseen.is_empty(), "{verb}, {step:?}: {report:?}");
            assert_eq!(at_step.objects(), before, "{verb}, {step:?}");
            Ok(())
        };
        let (files, state) = (&c.checker.files, c.checker.volume.state());
        let mover = Mover::new(files.pool().clone(), state.clone(), None).with_crash_hook(Arc::new(hook));
        carry_out(&mover, &file, &place(&c)).unwrap_or_else(|e| panic!("{verb}: {e}"));
        assert!(steps.lock().len() >= 7, "{verb}: {:?}", steps.lock());
        assert!(c.world.read("m") == data(300_000, 7), "{verb}");
    }
    drop(file);
    assert!(c.check(true).findings.is_empty() && c.world.read("m") == data(300_000, 7));
    assert_eq!(c.objects(), c.layout("m").objects().count());
}

/// Scans these directories, and runs `meanwhile` after the first of them was read.
fn look_while(c: &Checked, directories: &[&str], meanwhile: impl FnOnce()) -> Report {
    let (mut found, options) = (Found::default(), CheckOptions { repair: true, ..CheckOptions::default() });
    c.checker.ask_targets(&mut found, true);
    let before = c.checker.before_layouts(false);
    let walk = |found: &mut Found, path: &&str| {
        let names: Vec<String> = path.split('/').filter(|name| !name.is_empty()).map(String::from).collect();
        c.checker.walk(&names, found, &Stop::default()).expect("read");
    };
    directories[..1].iter().for_each(|path| walk(&mut found, path));
    meanwhile();
    directories[1..].iter().for_each(|path| walk(&mut found, path));
    c.checker.find_orphans(&mut found, &before, &options, &Stop::default()).expect("looked");
    c.checker.repair(&mut found, &options, QUIET, &Stop::default());
    found.report
}

/// [S-197]
#[test]
fn a_slow_copy_that_goes_back_into_use_during_a_look_is_no_orphan() {
    let c = new();
    let file = with_one_mirror(&c, "m");
    let mover = c.checker.mover.clone();
    mover.move_segment_keeping(&file, 0, &place(&c), None).expect("moved");
    drop(file);
    let report = look_while(&c, &[""], || {
        mover.return_segment(&c.open_file("m").expect("there"), 0).expect("returned");
    });
    assert!(report.findings.is_empty(), "{report:?}");
    assert!(report.unseen.iter().any(|why| why.contains("went back")), "{report:?}");
    assert!(c.world.read("m") == data(300_000, 7));
}

/// [S-197]
#[test]
fn a_file_that_goes_from_a_directory_to_one_that_was_read_is_seen_all_the_same() {
    let c = new();
    for name in ["read", "later"] {
        std::fs::create_dir(c.world.tree.join(name)).expect("made");
    }
    drop(with_one_mirror(&c, "later/m"));
    let (from, to) = (c.world.tree.join("later/m"), c.world.tree.join("read/m"));
    let before = std::fs::metadata(c.world.tree.join("read")).expect("there").modified().expect("a time");
    let report = look_while(&c, &["read", "later"], || {
        std::fs::rename(&from, &to).expect("renamed");
        let read = std::fs::File::open(c.world.tree.join("read")).expect("there");
        read.set_modified(before).expect("a user may do so");
    });
    assert!(report.findings.is_empty() && report.unseen.is_empty(), "{report:?}");
    assert!(c.world.read("read/m") == data(300_000, 7));
}

/// [S-197]
#[test]
fn a_file_that_is_removed_or_moved_during_a_look_has_lost_nothing() {
    let c = new();
    let mut found = Found::default();
    c.checker.ask_targets(&mut found, true);
    let file = with_one_mirror(&c, "m");
    let stub = c.checker.open(&["m".to_string()], OFLAGS.difference(rustix::fs::OFlags::DIRECTORY)).expect("there");
    let inode = rustix::fs::fstat(&stub).expect("there").st_ino;
    c.remove_object(*file.layout().expect("objects").objects().next().expect("object").1);
    let wrong = |c: &Checked| c.checker.wrong_with_all(&file, inode, &["m".to_string()], &found).expect("objects").1;
    assert!(wrong(&c).contains(&Some(FindingKind::ObjectMissing)));
    std::fs::remove_file(c.world.tree.join("m")).expect("removed");
    assert!(wrong(&c).iter().all(Option::is_none));
}

/// [S-163]
#[test]
fn changed_bytes_of_a_file_that_nothing_can_be_compared_with_are_not_found() {
    let c = new();
    let file = with_one_mirror(&c, "m");
    c.damage(*file.layout().expect("objects").objects().next().expect("object").1);
    drop(file);
    let report = c.deep(true);
    assert!(report.is_healthy() && report.compared_bytes == 0, "{report:?}");
}

/// [S-197]
#[test]
fn what_this_daemon_left_is_found_and_what_it_is_making_is_not() {
    let c = new();
    let target = c.checker.volume.targets().all().remove(0);
    let object = c.checker.files.pool().next_object();
    let making = c.checker.files.pool().making.begin(object);
    target.run(move |medium| medium.create(object)?.write_at(0, &[1; 5000])).expect("made");
    assert!(c.check(true).findings.is_empty(), "somebody is at it");
    drop(making);
    let report = c.check(false);
    assert_eq!(kinds(&report), [FindingKind::Orphan], "{report:?}");
    assert!(c.check(true).is_healthy());
    assert_eq!(c.objects(), 0);
    let file = with_one_mirror(&c, "m");
    std::fs::remove_file(c.world.tree.join("m")).expect("removed");
    assert!(c.check(true).findings.is_empty(), "somebody has it open");
    drop(file);
    assert!(c.check(true).is_healthy());
    assert_eq!(c.objects(), 0);
}
