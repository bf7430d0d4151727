//! Checks of a real volume in a temporary directory.

use super::*;
use crate::origin::memory::data;
use crate::stage::tests::{QUIET, World};
use crate::target::Order;
use policy::ObjectId;
use policy::protect::recovery;

const SIZE: usize = 12_000_007;

struct Checked {
    world: World,
    checker: Checker,
}

impl Drop for Checked {
    fn drop(&mut self) {
        self.checker.repair.stop();
    }
}

fn new() -> Checked {
    let world = World::new();
    let (volume, files) = world.parts();
    let side = volume.side().try_clone_to_owned().expect("side");
    let stats = volume.stats().clone();
    let config = recovery::Config::default();
    let repair = Repair::start(config, files.pool().clone(), world.memory.clone(), side, stats);
    assert!(files.pool().recovery.set(repair.clone()).is_ok());
    let mover = Arc::new(Mover::new(files.pool().clone(), volume.state().clone(), None));
    Checked { world, checker: Checker { volume, files, repair, mover, starts: Starts::default() } }
}

impl Checked {
    fn check(&self, repair: bool) -> Report {
        let options = CheckOptions { repair, ..CheckOptions::default() };
        self.checker.check(&options, QUIET, &Stop::default()).expect("checked")
    }

    fn layout(&self, path: &str) -> Arc<policy::layout::Layout> {
        let fd = std::fs::File::open(self.world.tree.join(path)).expect("there");
        self.checker.files.get_or_open(fd.into()).expect("opens").layout().expect("objects")
    }

    fn remove_object(&self, object: policy::layout::Object) {
        let target = self.checker.volume.targets().get(object.target).expect("target");
        target.run(move |medium| medium.remove(object.id)).expect("removed");
    }
}

fn kinds(report: &Report) -> Vec<FindingKind> {
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
