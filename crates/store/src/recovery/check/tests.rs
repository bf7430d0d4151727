//! Checks of a real volume in a temporary directory.

mod away;
mod beside;
mod closed;
mod scrub;

use super::*;
use crate::source::Identity;
use crate::source::memory::data;
use crate::stage::tests::{QUIET, World};
use crate::target::Order;
use policy::ObjectId;
use policy::protect::recovery;

const SIZE: usize = 12_000_007;

pub(super) struct Checked {
    pub world: World,
    pub checker: Checker,
}

impl Drop for Checked {
    fn drop(&mut self) {
        self.checker.repair.stop();
    }
}

pub(super) fn new() -> Checked {
    let world = World::new();
    let (volume, files) = world.parts();
    let side = volume.side().try_clone_to_owned().expect("side");
    let stats = volume.stats().clone();
    let config = recovery::Config::default();
    let repair = Repair::start(config, files.pool().clone(), world.memory.clone(), side, stats);
    assert!(files.pool().recovery.set(repair.clone()).is_ok());
    let mover = Arc::new(Mover::new(files.pool().clone(), volume.state().clone(), None));
    Checked { world, checker: Checker { volume, files, repair, mover, starts: Arc::default(), behalf: None } }
}

impl Checked {
    fn check(&self, repair: bool) -> Report {
        let options = CheckOptions { repair, ..CheckOptions::default() };
        self.checker.check(&options, QUIET, &Stop::default()).expect("checked")
    }

    pub fn layout(&self, path: &str) -> Arc<policy::layout::Layout> {
        let fd = std::fs::File::open(self.world.tree.join(path)).expect("there");
        self.checker.files.get_or_open(fd.into()).expect("opens").layout().expect("objects")
    }

    fn deep(&self, repair: bool) -> Report {
        let options = CheckOptions { repair, deep: true, ..CheckOptions::default() };
        self.checker.check(&options, QUIET, &Stop::default()).expect("checked")
    }

    fn on_object<T: Send + 'static>(
        &self,
        object: policy::layout::Object,
        act: impl FnOnce(&dyn crate::target::Handle) -> T + Send + 'static,
    ) -> T {
        let target = self.checker.volume.targets().get(object.target).expect("target");
        target.run(move |medium| medium.open(object.id).map(|handle| act(&*handle))).expect("there")
    }

    /// Changes the first bytes of an object.
    fn damage(&self, object: policy::layout::Object) {
        self.on_object(object, |handle| handle.write_at(100, &[0xee; 50]).expect("written"));
    }

    pub fn objects(&self) -> usize {
        let list = |t: Arc<crate::target::Target>| t.run(|medium| medium.list()).expect("list").len();
        self.checker.volume.targets().all().into_iter().map(list).sum()
    }

    fn lose_attributes(&self, path: &str) {
        let path = self.world.tree.join(path);
        rustix::fs::removexattr(&path, crate::stub::real::LAYOUT_ATTRIBUTE).expect("it has a layout");
        let _ = rustix::fs::removexattr(&path, crate::stub::real::SOURCE_ATTRIBUTE); // not every file has one
    }

    /// An object of an earlier daemon that no file names.
    pub fn orphan(&self) -> Arc<crate::target::Target> {
        let target = self.checker.volume.targets().all().remove(0);
        target.run(|medium| medium.create(ObjectId(5)).map(drop)).expect("made");
        target
    }

    fn open_file(&self, path: &str) -> crate::Result<Arc<crate::file::File>> {
        let mut options = std::fs::File::options();
        let fd = options.read(true).write(true).create(true).truncate(false).open(self.world.tree.join(path));
        self.checker.files.get_or_open(fd.expect("there").into())
    }

    pub fn remove_object(&self, object: policy::layout::Object) {
        let target = self.checker.volume.targets().get(object.target).expect("target");
        target.run(move |medium| medium.remove(object.id)).expect("removed");
    }
}

pub(super) fn kinds(report: &Report) -> Vec<FindingKind> {
    report.findings.iter().map(|f| f.kind).collect()
}

#[test]
fn what_is_in_order_is_said_to_be() {
    let c = new();
    c.world.memory.add("mem://h/a", &data(SIZE, 1));
    c.world.stage(&["mem://h/a"], "a").expect("staged");
    let report = c.check(true);
    assert!(report.is_healthy() && report.findings.is_empty(), "{}", report.text());
    assert_eq!((report.files, report.repaired_bytes), (1, 0));
    assert!(report.text().contains("in order"));
}

/// [S-041]
#[test]
fn lost_objects_come_back_and_only_their_bytes_are_fetched() {
    let c = new();
    let bytes = data(SIZE, 2);
    let remote = c.world.memory.add("mem://h/a", &bytes);
    c.world.stage(&["mem://h/a"], "a").expect("staged");
    let fetched_before = remote.reads().len();
    let objects: Vec<_> = c.layout("a").objects().map(|(_, o)| *o).collect();
    assert!(objects.len() > 2);
    c.checker.volume.targets().operate(objects[0].target, Order::Fail).expect("failed");
    c.remove_object(objects[1]);
    let report = c.check(false);
    assert_eq!(kinds(&report), [FindingKind::TargetAway, FindingKind::ObjectMissing], "{}", report.text());
    assert!(report.findings.iter().all(|f| f.outcome == Outcome::Repairable && f.missing_bytes > 0));
    assert_eq!(report.targets_away.len(), 1);
    assert_eq!(remote.reads().len(), fetched_before, "looking fetches nothing");
    let missing: u64 = report.findings.iter().map(|f| f.missing_bytes).sum();
    let report = c.check(true);
    assert!(report.is_healthy(), "{}", report.text());
    assert_eq!(report.repaired_bytes, missing);
    let fetched: usize = remote.reads()[fetched_before..].iter().map(|(_, len)| len).sum();
    assert_eq!(fetched as u64, missing, "only what was lost");
    assert!(c.world.read("a") == bytes);
    assert!(c.check(true).findings.is_empty(), "a second time there is nothing to do");
    let text = serde_json::to_string(&report).expect("json");
    assert_eq!(serde_json::from_str::<Report>(&text).expect("back").findings, report.findings);
}

#[test]
fn without_mirror_or_source_the_loss_is_said_and_the_rest_is_kept() {
    let c = new();
    c.world.memory.add("mem://h/a", &data(SIZE, 3));
    c.world.stage(&["mem://h/a"], "a").expect("staged");
    let fd = std::fs::File::options().read(true).write(true).open(c.world.tree.join("a")).expect("there");
    let file = c.checker.files.get_or_open(fd.into()).expect("opens");
    file.set_source(None).expect("forgotten");
    let lost = *c.layout("a").objects().next().expect("object").1;
    c.remove_object(lost);
    let report = c.check(true);
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.findings[0].outcome, Outcome::Lost);
    assert!(!report.is_healthy() && report.text().contains("are lost"), "{}", report.text());
    assert!(c.layout("a").objects().any(|(_, o)| o.id == lost.id), "nothing is changed");
}

#[test]
fn orphans_of_an_earlier_daemon_are_found_and_removed_but_not_objects_in_use() {
    let c = new();
    c.world.memory.add("mem://h/a", &data(SIZE, 4));
    c.world.stage(&["mem://h/a"], "a").expect("staged");
    let target = c.checker.volume.targets().all().remove(0);
    target.run(|medium| medium.create(ObjectId(5)).map(drop)).expect("made");
    let report = c.check(false);
    assert_eq!(kinds(&report), [FindingKind::Orphan]);
    assert!(target.run(|medium| medium.open(ObjectId(5)).map(drop)).is_ok(), "only looked");
    let report = c.check(true);
    assert!(report.is_healthy(), "{}", report.text());
    assert!(target.run(|medium| medium.open(ObjectId(5)).map(drop)).is_err());
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
    assert!(report.findings.iter().all(|f| matches!(f.outcome, Outcome::Failed(_))), "{}", report.text());
    assert!(report.unseen.len() == 1 && report.unseen[0].contains("second scan"), "{}", report.text());
    assert_eq!(c.objects(), before, "nothing is removed while the view is incomplete");
    assert!(c.world.read("d/a") == data(SIZE, 4));
    assert!(c.check(true).is_healthy());
    assert_eq!(c.objects(), before - 1);
}

#[test]
fn only_the_named_paths_are_looked_at_and_checksums_that_are_gone_are_said() {
    let c = new();
    for name in ["a", "b"] {
        c.world.memory.add(&format!("mem://h/{name}"), &data(SIZE, 5));
        c.world.stage(&[&format!("mem://h/{name}")], name).expect("staged");
        c.remove_object(*c.layout(name).objects().next().expect("object").1);
    }
    let options = CheckOptions { repair: true, paths: vec!["b".into()], ..CheckOptions::default() };
    let report = c.checker.check(&options, QUIET, &Stop::default()).expect("checked");
    assert_eq!((report.files, report.findings.len()), (1, 1));
    assert!(report.is_healthy());
    assert_eq!(kinds(&c.check(false)), [FindingKind::ObjectMissing], "a is still to be done");
    let options = CheckOptions { repair: true, before_job: vec!["/a".into()], ..CheckOptions::default() };
    assert!(c.checker.check(&options, QUIET, &Stop::default()).expect("checked").is_healthy());
    let name = crate::stage::sums::name_of(c.layout("a").file);
    rustix::fs::unlinkat(c.checker.volume.side(), name, rustix::fs::AtFlags::empty()).expect("removed");
    assert_eq!(kinds(&c.check(true)), [FindingKind::SumsMissing]);
    let outside = CheckOptions { paths: vec!["../x".into()], ..CheckOptions::default() };
    assert!(c.checker.check(&outside, QUIET, &Stop::default()).is_err());
}

/// A file with two mirrors of two stripes each and no source.
fn mirrored(c: &Checked) -> Arc<crate::file::File> {
    let mut options = std::fs::File::options();
    let fd = options.read(true).write(true).create(true).truncate(false).open(c.world.tree.join("m")).expect("made");
    let file = c.checker.files.get_or_open(fd.into()).expect("opens");
    let place = c.checker.files.pool().placement.clone();
    let place = policy::layout::Placement { stripe_size: 65536, stripe_count: 2, mirrors: 2, ..place };
    file.set_layout_request(&place).expect("laid out");
    file.write(0, &data(300_000, 7)).expect("written");
    file
}

fn is_in_order(c: &Checked) -> bool {
    let targets = c.checker.volume.targets();
    let layout = c.layout("m");
    layout.in_sync_count() == 2
        && layout.objects().all(|(_, o)| targets.get(o.target).is_some_and(|t| t.state().accepts_io()))
}

#[test]
fn what_a_failed_target_held_comes_back_from_the_other_mirror() {
    let c = new();
    drop(mirrored(&c));
    let victim = c.layout("m").mirrors[0].segments[0].objects[1].target;
    c.checker.volume.targets().operate(victim, Order::Fail).expect("failed");
    assert_eq!(kinds(&c.check(false)), [FindingKind::TargetAway]);
    assert!(!is_in_order(&c), "only looked");
    let report = c.check(true);
    assert!(report.is_healthy() && is_in_order(&c), "{}", report.text());
    assert!(c.world.read("m") == data(300_000, 7));
    let moves = c.checker.mover.progress().list();
    assert!(moves.iter().any(|m| m.verb == "replace target"), "the daemon's own mover did it, so its throttle holds");
    assert!(c.check(false).findings.is_empty());
}

#[test]
fn a_stale_mirror_is_resynced() {
    let c = new();
    let file = mirrored(&c);
    let victim = c.layout("m").mirrors[1].segments[0].objects[0].target;
    c.checker.volume.targets().operate(victim, Order::Fail).expect("failed");
    file.write(0, &[9; 100]).expect("the other mirror takes it");
    c.checker.volume.targets().operate(victim, Order::Restore).expect("restored");
    drop(file);
    assert_eq!(kinds(&c.check(false)), [FindingKind::MirrorStale]);
    let report = c.check(true);
    assert!(report.is_healthy() && is_in_order(&c), "{}", report.text());
    let other = c.layout("m").mirrors[0].segments[0].objects[0].target;
    c.checker.volume.targets().operate(other, Order::Fail).expect("failed");
    assert!(c.world.read("m")[..100] == [9; 100]);
}

/// [S-185]
#[test]
fn what_some_files_have_lost_comes_back_piece_by_piece() {
    let c = new();
    for name in ["a", "b"] {
        c.world.memory.add(&format!("mem://h/{name}"), &data(SIZE, 5));
        c.world.stage(&[&format!("mem://h/{name}")], name).expect("staged");
    }
    let groups = [vec!["a".to_string()], vec!["b".to_string(), "nothing".to_string()]];
    let lost = |c: &Checked| c.checker.lost(&groups).expect("looked");
    assert!(lost(&c).iter().all(|(files, lost)| files.len() == 1 && lost.is_empty()));
    let (one, other) = (c.layout("a"), c.layout("b"));
    let gone = *one.objects().next().expect("objects").1;
    let away = *other.objects().nth(1).expect("objects").1;
    c.remove_object(gone);
    c.checker.volume.targets().operate(away.target, Order::Fail).expect("failed");
    let found = lost(&c);
    assert_eq!(found[0].0, [one.file]);
    let objects = |at: usize| found[at].1.iter().map(|l| l.candidate().object).collect::<Vec<_>>();
    assert!(objects(0).contains(&gone.id), "{:?}", objects(0));
    assert_eq!(objects(1), [away.id]);
    for lost in found.iter().flat_map(|(_, lost)| lost) {
        c.checker.bring_back(lost).expect("from the source");
        c.checker.bring_back(lost).expect("a second time there is nothing to do");
    }
    assert!(lost(&c).iter().all(|(_, lost)| lost.is_empty()));
    assert!(c.world.read("a") == data(SIZE, 5) && c.world.read("b") == data(SIZE, 5));
}

/// [S-162]
#[test]
fn a_stub_without_its_attributes_is_damaged_and_while_there_is_one_nothing_is_removed() {
    let c = new();
    for name in ["a", "b"] {
        c.world.memory.add(&format!("mem://h/{name}"), &data(SIZE, 21));
        c.world.stage(&[&format!("mem://h/{name}")], name).expect("staged");
    }
    let (orphan, before) = (c.orphan(), c.objects());
    c.lose_attributes("a");
    let error = c.open_file("a").err().expect("it is no file of zeros").errno();
    assert_eq!(error, rustix::io::Errno::IO);
    let report = c.check(true);
    assert!(kinds(&report).contains(&FindingKind::BadLayout) && !report.is_healthy(), "{}", report.text());
    assert!(report.text().contains("nothing is removed, since not everything was seen: a:"), "{}", report.text());
    assert_eq!(c.objects(), before, "neither the objects of the damaged file nor any other go");
    assert!(c.world.read("b") == data(SIZE, 21));
    std::fs::remove_file(c.world.tree.join("a")).expect("the operator gives it up");
    assert!(c.check(true).is_healthy());
    assert!(c.objects() < before && orphan.run(|medium| medium.open(ObjectId(5)).map(drop)).is_err());
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
        rustix::fs::removexattr(c.world.tree.join(name), crate::stub::real::INLINE_ATTRIBUTE).expect("it was marked");
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
    assert!(!report.unseen.is_empty(), "{}", report.text());
    assert_eq!(c.objects(), before);
}

const OFLAGS: rustix::fs::OFlags = rustix::fs::OFlags::RDONLY.union(rustix::fs::OFlags::DIRECTORY);

/// [S-162]
#[test]
fn while_a_target_is_away_nothing_is_removed() {
    let c = new();
    let orphan = c.orphan();
    let away = c.checker.volume.targets().all().pop().expect("targets").id();
    c.checker.volume.targets().operate(away, Order::Fail).expect("failed");
    let report = c.check(true);
    assert!(!report.is_healthy() && report.text().contains("is away"), "{}", report.text());
    assert!(orphan.run(|medium| medium.open(ObjectId(5)).map(drop)).is_ok());
    c.checker.volume.targets().operate(away, Order::Restore).expect("restored");
    assert!(c.check(true).is_healthy());
    assert!(orphan.run(|medium| medium.open(ObjectId(5)).map(drop)).is_err());
}

/// [S-162]
#[test]
fn what_is_younger_than_a_backup_that_was_put_back_goes_only_when_the_operator_says_so() {
    let c = new();
    let orphan = c.orphan();
    c.checker.volume.state().record_put("state", "unknown", b"{\"start\":0,\"end\":1}").expect("noted");
    let report = c.check(true);
    assert_eq!(kinds(&report), [FindingKind::Orphan]);
    assert!(report.text().contains("--drop-unknown"), "{}", report.text());
    assert!(orphan.run(|medium| medium.open(ObjectId(5)).map(drop)).is_ok());
    let options = CheckOptions { repair: true, drop_unknown: true, ..CheckOptions::default() };
    assert!(c.checker.check(&options, QUIET, &Stop::default()).expect("checked").is_healthy());
    assert!(orphan.run(|medium| medium.open(ObjectId(5)).map(drop)).is_err());
    assert_eq!(c.checker.volume.unknown_epochs().expect("state"), None, "nothing is unknown any more");
}

#[test]
fn what_a_move_leaves_or_waits_to_be_removed_is_no_orphan() {
    let c = new();
    let target = c.orphan();
    let objects = vec![(target.id(), ObjectId(5))];
    let entry =
        crate::state::JournalEntry { file: policy::FileId(7), path: "x".into(), inode: 1, objects: objects.clone() };
    let state = c.checker.volume.state();
    state.journal_put(&entry).expect("journal");
    assert!(c.check(false).findings.is_empty(), "a move answers for it");
    state.journal_finish(entry.file, &objects).expect("journal");
    assert!(c.check(false).findings.is_empty(), "it waits to be removed");
    state.garbage_removed(&objects).expect("garbage");
    assert_eq!(kinds(&c.check(false)), [FindingKind::Orphan]);
}

/// [S-163]
#[test]
fn an_object_that_lost_its_end_is_found_and_comes_back_from_the_source() {
    let c = new();
    c.world.memory.add("mem://h/a", &data(SIZE, 22));
    c.world.stage(&["mem://h/a"], "a").expect("staged");
    let object = *c.layout("a").objects().nth(1).expect("object").1;
    c.on_object(object, |handle| handle.set_len(handle.len().expect("length") - 5000).expect("cut"));
    let report = c.check(false);
    assert_eq!(kinds(&report), [FindingKind::ObjectShort], "{}", report.text());
    assert_eq!(report.findings[0].object, object.id.to_string());
    let report = c.check(true);
    assert!(report.is_healthy(), "{}", report.text());
    assert!(c.world.read("a") == data(SIZE, 22));
    assert!(c.deep(false).findings.is_empty());
}

/// [S-163]
#[test]
fn changed_bytes_of_a_staged_file_are_found_by_their_checksums_and_come_back_from_the_source() {
    let c = new();
    let remote = c.world.memory.add("mem://h/a", &data(SIZE, 23));
    c.world.stage(&["mem://h/a"], "a").expect("staged");
    let fetched_before = remote.reads().len();
    let object = *c.layout("a").objects().nth(1).expect("object").1;
    c.damage(object);
    assert!(c.check(false).findings.is_empty(), "lengths and names are right");
    let report = c.deep(false);
    assert_eq!(kinds(&report), [FindingKind::Damaged], "{}", report.text());
    assert_eq!((report.findings[0].path.as_str(), report.findings[0].object.clone()), ("a", object.id.to_string()));
    assert_eq!((report.compared_bytes, remote.reads().len()), (SIZE as u64, fetched_before), "looking fetches nothing");
    let report = c.deep(true);
    assert!(report.is_healthy(), "{}", report.text());
    assert!(c.world.read("a") == data(SIZE, 23));
    assert!(c.deep(false).findings.is_empty());
}

/// [S-163]
#[test]
fn of_mirrors_that_differ_the_one_that_the_checksums_prove_is_kept() {
    let c = new();
    let remote = c.world.memory.add("mem://h/a", &data(SIZE, 24));
    c.world.stage(&["mem://h/a"], "a").expect("staged");
    let file = c.open_file("a").expect("there");
    c.checker.mover.add_mirror(&file, &c.checker.files.pool().placement.clone()).expect("mirrored");
    drop(file);
    let object = *c.layout("a").objects().find(|(at, _)| at.mirror == 0).expect("object").1;
    c.damage(object);
    remote.fail(Some(crate::source::SourceError::Permanent("gone".into())));
    let report = c.deep(true);
    assert_eq!(kinds(&report), [FindingKind::Damaged]);
    assert!(report.is_healthy(), "{}", report.text());
    assert!(c.world.read("a") == data(SIZE, 24));
    assert_eq!(c.layout("a").in_sync_count(), 2);
    assert!(c.deep(false).findings.is_empty());
}

/// [S-163]
#[test]
fn mirrors_that_differ_with_nobody_to_say_which_is_right_are_named_and_left_alone() {
    let c = new();
    drop(mirrored(&c));
    let layout = c.layout("m");
    c.damage(layout.mirrors[1].segments[0].objects[0]);
    assert!(c.check(true).findings.is_empty());
    let report = c.deep(true);
    assert_eq!(kinds(&report), [FindingKind::MirrorsDiffer, FindingKind::MirrorsDiffer], "{}", report.text());
    assert!(!report.is_healthy() && report.findings.iter().all(|f| f.path == "m" && !f.target.is_empty()));
    assert_eq!(c.layout("m"), layout);
}

/// [S-163]
#[test]
fn two_stubs_that_name_the_same_objects_are_both_in_danger() {
    let c = new();
    drop(mirrored(&c));
    let copy =
        std::process::Command::new("cp").arg("--preserve=all").args(["m", "n"]).current_dir(&c.world.tree).status();
    assert!(copy.expect("cp").success());
    let report = c.check(true);
    assert!(
        report.findings.len() == 4 && report.findings.iter().all(|f| f.kind == FindingKind::NamedTwice),
        "{}",
        report.text()
    );
    assert!(report.findings.iter().all(|f| f.inode != 0) && !report.is_healthy());
    assert!(c.world.read("m") == data(300_000, 7));
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

/// [S-173]
#[test]
fn on_behalf_of_a_user_only_what_is_in_reach_is_shown_and_only_what_is_the_users_own_is_repaired() {
    use std::os::unix::fs::{PermissionsExt, chown};
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root to act as another user");
        return;
    }
    let c = new();
    let chmod = |path: &str, mode| {
        std::fs::set_permissions(c.world.tree.join(path), std::fs::Permissions::from_mode(mode)).expect("chmod");
    };
    chmod(".", 0o755);
    for name in ["closed/a", "open/b", "open/c", "open/d"] {
        let (dir, _) = name.split_once('/').expect("two names");
        let _ = std::fs::create_dir(c.world.tree.join(dir));
        c.world.memory.add(&format!("mem://h/{name}"), &data(SIZE, 5));
        c.world.stage(&[&format!("mem://h/{name}")], name).expect("staged");
        c.remove_object(*c.layout(name).objects().next().expect("object").1);
    }
    chmod("closed", 0o700);
    chmod("open", 0o755);
    chmod("open/c", 0o644);
    chmod("open/d", 0o600);
    chown(c.world.tree.join("open/b"), Some(1001), None).expect("chown");
    let who = Identity { uid: 1001, gid: 1001, ..Identity::default() };
    let ask = |path: &str, repair: bool, repairs_readable: bool| {
        let options = CheckOptions { repair, paths: vec![path.into()], ..CheckOptions::default() };
        let report = c.checker.on_behalf_of(Behalf { who: who.clone(), repairs_readable }).check(
            &options,
            QUIET,
            &Stop::default(),
        );
        let mut said: Vec<_> = report.expect("checked").findings.into_iter().map(|f| (f.path, f.outcome)).collect();
        said.sort_by(|a, b| a.0.cmp(&b.0));
        said
    };
    for all in [".", "/", "open/.."] {
        if let Ok(names) = crate::stage::place::names(all) {
            assert!(names.is_empty());
            let seen: Vec<_> = ask(all, false, false).into_iter().map(|(path, _)| path).collect();
            assert_eq!(seen, ["open/b", "open/c", "open/d"], "{all}");
        }
    }
    assert_eq!(ask("closed", true, true), []);
    let repaired = ask(".", true, false);
    let failed = |outcome: &Outcome| matches!(outcome, Outcome::Failed(why) if why.contains("belongs to user 0"));
    assert_eq!(repaired[0], ("open/b".into(), Outcome::Repaired));
    assert!(failed(&repaired[1].1) && failed(&repaired[2].1), "{repaired:?}");
    let repaired = ask("open", true, true);
    assert_eq!((repaired.len(), &repaired[0]), (2, &("open/c".into(), Outcome::Repaired)));
    assert!(failed(&repaired[1].1), "what the user may not read: {repaired:?}");
    let left: Vec<_> = c.check(false).findings.into_iter().map(|f| f.path).collect();
    assert_eq!(left.len(), 2, "the rest is as it was: {left:?}");
    assert!(left.contains(&"closed/a".into()) && left.contains(&"open/d".into()), "{left:?}");
}
