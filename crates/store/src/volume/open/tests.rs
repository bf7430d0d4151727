//! Volumes in temporary directories: first start, restart, devices that are away, the roster.

use super::*;
use crate::target::{Order, State};
use crate::volume::init;
use policy::ObjectId;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn new_volume() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = init(&dir.path().join("v")).unwrap();
    (dir, file)
}

fn open(file: &Path) -> Volume {
    Volume::open(Config::load(file).unwrap()).unwrap()
}

fn states(volume: &Volume) -> Vec<(String, State)> {
    volume.targets().all().iter().map(|target| (target.name().to_owned(), target.state())).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_new_volume_opens_and_opens_again_as_the_same() {
    let (_dir, file) = new_volume();
    init(file.parent().unwrap()).expect_err("a volume is not overwritten");
    let (id, first) = {
        let volume = open(&file);
        assert_eq!(volume.targets().all().len(), 6);
        assert!(states(&volume).iter().all(|(_, state)| *state == State::Ok));
        assert!(volume.targets().views().iter().all(|view| view.usable && view.free_bytes > 0));
        assert_eq!(volume.targets().all()[5].tier(), 1);
        (volume.id(), volume.next_id().unwrap())
    };
    let volume = open(&file);
    assert_eq!(volume.id(), id);
    assert!(volume.next_id().unwrap() >> 32 > first >> 32, "a new epoch");
    let root = file.parent().unwrap();
    for closed in
        ["namespace", "namespace/side", "namespace/open", "namespace/staging", "state", "targets/fast0/objects"]
    {
        assert_eq!(mode(&root.join(closed)), 0o700, "{closed}");
    }
    assert_eq!(mode(&root.join("namespace/tree")), 0o755);
}

#[test]
fn a_second_daemon_is_refused_with_the_first_ones_pid() {
    let (_dir, file) = new_volume();
    let _volume = open(&file);
    let error = Volume::open(Config::load(&file).unwrap()).err().unwrap().to_string();
    assert!(error.contains(&format!("in process {}", std::process::id())), "{error}");
}

/// [S-031]
#[test]
fn a_device_that_is_away_is_a_failed_target_not_an_empty_one() {
    let (_dir, file) = new_volume();
    drop(open(&file));
    let targets = file.parent().unwrap().join("targets");
    fs::rename(targets.join("fast1"), targets.join("away")).unwrap();
    fs::create_dir(targets.join("fast1")).unwrap(); // an empty mount point
    fs::rename(targets.join("fast2"), targets.join("away2")).unwrap(); // not even that
    let volume = open(&file);
    let failed: Vec<_> =
        states(&volume).into_iter().filter(|(_, s)| *s == State::Failed).map(|(name, _)| name).collect();
    assert_eq!(failed, ["fast1", "fast2"]);
    assert_eq!(fs::read_dir(targets.join("fast1")).unwrap().count(), 0, "it is not formatted anew");
    let error = volume.order_target("fast1", Order::Restore).unwrap_err().to_string();
    assert!(error.contains("fast1 stays failed"), "{error}");
    fs::remove_dir(targets.join("fast1")).unwrap();
    fs::rename(targets.join("away"), targets.join("fast1")).unwrap();
    assert_eq!(volume.order_target("fast1", Order::Restore), Ok(State::Ok));
}

#[test]
fn orders_of_the_operator_survive_a_restart() {
    let (_dir, file) = new_volume();
    {
        let volume = open(&file);
        assert_eq!(volume.order_target("fast0", Order::Fail), Ok(State::Failed));
        assert_eq!(volume.order_target("capacity0", Order::Drain), Ok(State::Draining));
        volume.order_target("nobody", Order::Fail).unwrap_err();
        volume.order_target("fast0", Order::Drain).unwrap_err();
    }
    let volume = open(&file);
    let state = |name| volume.targets().by_name(name).unwrap().state();
    assert_eq!((state("fast0"), state("capacity0"), state("fast1")), (State::Failed, State::Draining, State::Ok));
}

#[test]
fn targets_that_changed_places_are_refused() {
    let (_dir, file) = new_volume();
    drop(open(&file));
    let text = fs::read_to_string(&file).unwrap();
    let swapped =
        text.replace("targets/fast0", "X").replace("targets/fast1", "targets/fast0").replace('X', "targets/fast1");
    fs::write(&file, swapped).unwrap();
    let shown = Config::load(&file).unwrap_err().to_string();
    assert!(shown.contains("fast0 is target \"fast0\" of this volume, not \"fast1\""), "{shown}");
    assert_eq!(shown.lines().count(), 2, "{shown}");
}

#[test]
fn a_target_comes_is_used_and_goes() {
    let (_dir, file) = new_volume();
    let root = file.parent().unwrap().to_owned();
    fs::create_dir(root.join("extra")).unwrap();
    let volume = open(&file);
    volume.add_target("extra", &root.join("extra"), "no such tier").unwrap_err();
    volume.add_target("fast0", &root.join("extra"), "fast").unwrap_err();
    volume.add_target("inside", &root.join("targets/fast0/objects"), "fast").unwrap_err();
    volume.add_target("extra", &root.join("extra"), "capacity").unwrap();
    let extra = volume.targets().by_name("extra").unwrap();
    assert_eq!((extra.state(), extra.tier()), (State::Ok, 1));
    extra.run(|medium| medium.create(ObjectId(1)).map(drop)).unwrap();

    let error = volume.remove_target("extra", false).unwrap_err().to_string();
    assert!(error.contains("holds 1 objects") && error.contains("drain extra"), "{error}");
    extra.run(|medium| medium.remove(ObjectId(1))).unwrap();
    let number = extra.id();
    volume.remove_target("extra", false).unwrap();
    assert!(!root.join("extra/target.id").exists());
    assert_eq!(Config::load(&file).unwrap().targets.len(), 6);
    volume.add_target("extra", &root.join("extra"), "fast").unwrap();
    assert!(volume.targets().by_name("extra").unwrap().id() > number, "a number is never given again");
    drop(volume);
    assert_eq!(open(&file).targets().all().len(), 7);
}

#[test]
fn targets_are_found_again_when_the_state_store_is_lost() {
    let (_dir, file) = new_volume();
    drop(open(&file));
    let volume = open(&file);
    let number = volume.next_id().unwrap();
    let before: Vec<_> = volume.targets().all().iter().map(|t| (t.id(), t.name().to_owned())).collect();
    drop(volume);
    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        let _ = fs::remove_file(file.parent().unwrap().join("state").join(name));
    }
    let volume = open(&file);
    let after: Vec<_> = volume.targets().all().iter().map(|t| (t.id(), t.name().to_owned())).collect();
    assert_eq!(after, before);
    assert!(volume.next_id().unwrap() >> 32 > number >> 32, "no number is given again");
}
