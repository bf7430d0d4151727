//! Checks of a real volume in a temporary directory.

mod away;
mod beside;
mod closed;
mod deep;
mod orphans;
mod scrub;

use super::world::{Checked, SIZE, kinds, new};
use super::*;
use crate::source::Identity;
use crate::source::memory::data;
use crate::stage::world::QUIET;
use policy::ObjectId;

#[test]
fn what_is_in_order_is_said_to_be() {
    let c = new();
    c.staged("a", 1);
    let report = c.check(true);
    assert!(report.is_healthy() && report.findings.is_empty(), "{report:?}");
    assert_eq!((report.files, report.repaired_bytes), (1, 0));
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
    c.fail(objects[0].target);
    c.remove_object(objects[1]);
    let report = c.check(false);
    assert_eq!(kinds(&report), [FindingKind::TargetAway, FindingKind::ObjectMissing], "{report:?}");
    assert!(report.findings.iter().all(|f| f.outcome == Outcome::Repairable && f.missing_bytes > 0));
    assert_eq!(report.targets_away.len(), 1);
    assert_eq!(remote.reads().len(), fetched_before, "looking fetches nothing");
    let missing: u64 = report.findings.iter().map(|f| f.missing_bytes).sum();
    let report = c.check(true);
    assert!(report.is_healthy(), "{report:?}");
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
    c.staged("a", 3);
    c.open_file("a").expect("there").set_source(None).expect("forgotten");
    let lost = *c.layout("a").objects().next().expect("object").1;
    c.remove_object(lost);
    let report = c.check(true);
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.findings[0].outcome, Outcome::Lost);
    assert!(!report.is_healthy(), "{report:?}");
    assert!(c.layout("a").objects().any(|(_, o)| o.id == lost.id), "nothing is changed");
}

#[test]
fn only_the_named_paths_are_looked_at_and_checksums_that_are_gone_are_said() {
    let c = new();
    for name in ["a", "b"] {
        c.staged(name, 5);
        c.remove_object(*c.layout(name).objects().next().expect("object").1);
    }
    let options = CheckOptions { repair: true, paths: vec!["b".into()], ..CheckOptions::default() };
    let report = c.check_with(&options);
    assert_eq!((report.files, report.findings.len()), (1, 1));
    assert!(report.is_healthy());
    assert_eq!(kinds(&c.check(false)), [FindingKind::ObjectMissing], "a is still to be done");
    let options = CheckOptions { repair: true, before_job: vec!["/a".into()], ..CheckOptions::default() };
    assert!(c.check_with(&options).is_healthy());
    let name = crate::stage::sums::name_of(c.layout("a").file);
    rustix::fs::unlinkat(c.checker.volume.side(), name, rustix::fs::AtFlags::empty()).expect("removed");
    assert_eq!(kinds(&c.check(true)), [FindingKind::SumsMissing]);
    let outside = CheckOptions { paths: vec!["../x".into()], ..CheckOptions::default() };
    assert!(c.checker.check(&outside, QUIET, &Stop::default()).is_err());
}

/// A file with two mirrors of two stripes each and no source.
fn mirrored(c: &Checked) -> Arc<crate::file::File> {
    let file = c.open_file("m").expect("made");
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
    c.fail(victim);
    assert_eq!(kinds(&c.check(false)), [FindingKind::TargetAway]);
    assert!(!is_in_order(&c), "only looked");
    let report = c.check(true);
    assert!(report.is_healthy() && is_in_order(&c), "{report:?}");
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
    c.fail(victim);
    file.write(0, &[9; 100]).expect("the other mirror takes it");
    c.restore(victim);
    drop(file);
    assert_eq!(kinds(&c.check(false)), [FindingKind::MirrorStale]);
    let report = c.check(true);
    assert!(report.is_healthy() && is_in_order(&c), "{report:?}");
    let other = c.layout("m").mirrors[0].segments[0].objects[0].target;
    c.fail(other);
    assert!(c.world.read("m")[..100] == [9; 100]);
}

/// [S-185]
#[test]
fn what_some_files_have_lost_comes_back_piece_by_piece() {
    let c = new();
    for name in ["a", "b"] {
        c.staged(name, 5);
    }
    let groups = [vec!["a".to_string()], vec!["b".to_string(), "nothing".to_string()]];
    let lost = |c: &Checked| c.checker.lost(&groups).expect("looked");
    assert!(lost(&c).iter().all(|(files, lost)| files.len() == 1 && lost.is_empty()));
    let (one, other) = (c.layout("a"), c.layout("b"));
    let gone = *one.objects().next().expect("objects").1;
    let away = *other.objects().nth(1).expect("objects").1;
    c.remove_object(gone);
    c.fail(away.target);
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

const OFLAGS: rustix::fs::OFlags = rustix::fs::OFlags::RDONLY.union(rustix::fs::OFlags::DIRECTORY);

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
        c.staged(name, 5);
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
