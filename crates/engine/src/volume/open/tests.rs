//! Volumes in temporary directories: first start, restart, devices that are away, the roster.

use super::*;
use crate::volume::Followed;
use crate::volume::servers::NoServers;
use crate::volume::{dump_state, init, load_state};
use meta::state::{SqliteState, State as _};
use object::target::{Order, State};
use policy::ObjectId;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn new_volume() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = init(&dir.path().join("v"), None).unwrap();
    (dir, file)
}

fn open(file: &Path) -> Volume {
    Volume::open(Config::load(file).unwrap(), &NoServers).unwrap()
}

fn refusal(file: &Path) -> String {
    Volume::open(Config::load(file).unwrap(), &NoServers).err().expect("refused").to_string()
}

fn states(volume: &Volume) -> Vec<(String, State)> {
    volume.targets().all().iter().map(|target| (target.name().to_owned(), target.state())).collect()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// [S-320]
#[test]
fn a_link_to_the_file_of_a_volume_is_that_file_and_stays_a_link() {
    let (dir, file) = new_volume();
    let root = file.parent().unwrap().canonicalize().unwrap();
    fs::create_dir_all(dir.path().join("etc")).unwrap();
    let (scratch, slurm) = (dir.path().join("etc/scratch.toml"), dir.path().join("etc/slurm.toml"));
    std::os::unix::fs::symlink("../v/volume.toml", &scratch).unwrap();
    std::os::unix::fs::symlink("scratch.toml", &slurm).unwrap();
    for link in [scratch, slurm] {
        let config = Config::load(&link).unwrap();
        assert_eq!([&config.namespace, &config.state], [&root.join("namespace"), &root.join("state")]);
        let volume = Volume::open(config, &NoServers).unwrap();
        let name = link.file_stem().unwrap().to_str().unwrap();
        fs::create_dir(root.join(name)).unwrap();
        volume.add_target(name, &root.join(name), "fast").unwrap();
        assert!(link.is_symlink(), "what was added stands in the file, not in its link's place");
        assert!(Config::load(&file).unwrap().targets.iter().any(|target| target.name == name));
    }
    let nowhere = dir.path().join("etc/nowhere.toml");
    std::os::unix::fs::symlink("gone.toml", &nowhere).unwrap();
    let refused = Config::load(&nowhere).unwrap_err().to_string();
    assert!(refused.contains("nowhere.toml cannot be read: No such file"), "{refused}");
}

#[test]
fn a_new_volume_opens_and_opens_again_as_the_same() {
    let (_dir, file) = new_volume();
    init(file.parent().unwrap(), None).expect_err("a volume is not overwritten");
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
    let of_users = if rustix::process::geteuid().is_root() { 0o777 } else { 0o755 };
    assert_eq!(mode(&root.join("namespace/tree")), of_users);
}

#[test]
fn a_second_daemon_is_refused_with_the_first_ones_pid() {
    let (_dir, file) = new_volume();
    let _volume = open(&file);
    let error = Volume::open(Config::load(&file).unwrap(), &NoServers).err().unwrap().to_string();
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
fn a_record_without_a_later_order_does_not_restore_what_probes_failed() {
    let (_dir, file) = new_volume();
    let volume = open(&file);
    let target = volume.targets().by_name("fast0").unwrap();
    let record = |ordered_ms| TargetRecord {
        id: target.id(),
        name: "fast0".into(),
        state: State::Ok,
        by_operator: false,
        ordered_ms,
    };
    volume.targets().give_up(target.id());
    assert_eq!(volume.follow(vec![record(1)]), Followed::All, "nothing is left to do");
    assert_eq!(target.state(), State::Failed);
    assert_eq!(volume.follow(vec![record(u64::MAX / 2)]), Followed::All);
    assert_eq!(target.state(), State::Ok, "a later order");
    volume.order_target("fast0", Order::Fail).unwrap();
    assert_eq!(volume.follow(vec![record(1)]), Followed::All);
    assert_eq!(target.state(), State::Ok, "an operator failed it, and the record is what operators ordered last");
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
    assert!(error.contains("holds 1 object") && error.contains("drain extra"), "{error}");
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

/// [S-161]
#[test]
fn a_target_that_comes_back_with_later_numbers_is_heeded() {
    let (_dir, file) = new_volume();
    let volume = open(&file);
    let target = volume.targets().by_name("fast1").unwrap();
    target.run(|medium| medium.set_epoch(70)).unwrap();
    volume.heed_epoch_of(target.id()).unwrap();
    assert_eq!(volume.next_id().unwrap(), 71 << 32);
}

/// [S-164]
#[test]
fn a_backup_of_the_state_comes_back_and_the_state_that_it_was_of_is_refused() {
    let (_dir, file) = new_volume();
    let config = || Config::load(&file).unwrap();
    let backup = file.with_file_name("backup");
    let volume = open(&file);
    volume.order_target("fast0", Order::Fail).unwrap();
    volume.state().record_put("job", "1", b"x").unwrap();
    drop(volume);
    dump_state(&config(), &backup).unwrap();
    let (epoch, kept) = (open(&file).epoch(), file.with_file_name("kept"));
    fs::rename(file.with_file_name("state"), &kept).unwrap();
    fs::create_dir(file.with_file_name("state")).unwrap();
    load_state(&config(), &backup, false).unwrap();
    let volume = open(&file);
    assert_eq!(volume.targets().by_name("fast0").unwrap().state(), State::Failed);
    assert_eq!(volume.state().record_get("job", "1").unwrap().as_deref(), Some(&b"x"[..]));
    assert_eq!(volume.epoch(), epoch + 1);
    assert_eq!(volume.unknown_epochs().unwrap(), Some(epoch - 1..epoch + 1), "from the backup to now");
    drop(volume);
    let refused = load_state(&config(), &backup, false).unwrap_err().to_string();
    assert!(refused.contains("in use already") && refused.contains("--replace"), "{refused}");
    load_state(&config(), &backup, true).unwrap();
    fs::remove_dir_all(file.with_file_name("state")).unwrap();
    fs::rename(&kept, file.with_file_name("state")).unwrap();
    assert!(refusal(&file).contains("another state"), "two that both go on from one backup");
    let (_dir2, second) = new_volume();
    drop(open(&second));
    let refused = load_state(&Config::load(&second).unwrap(), &backup, true).unwrap_err().to_string();
    assert!(refused.contains("is of volume"), "{refused}");
}

/// [S-162]
#[test]
fn a_namespace_that_was_put_back_is_noticed() {
    let (_dir, file) = new_volume();
    drop(open(&file));
    let state = SqliteState::open(&file.with_file_name("state").join("state.db")).unwrap();
    state.new_epoch(0).unwrap(); // a start that was cut off
    drop(state);
    assert_eq!(open(&file).unknown_epochs().unwrap(), None);
    let namespace = file.with_file_name("namespace");
    let copied = std::process::Command::new("cp").arg("-a").arg(&namespace).arg(file.with_file_name("copy")).status();
    assert!(copied.unwrap().success());
    fs::remove_dir_all(&namespace).unwrap();
    fs::rename(file.with_file_name("copy"), &namespace).unwrap();
    let volume = open(&file);
    assert_eq!(volume.unknown_epochs().unwrap(), Some(3..4), "a copy of the last epoch's");
    volume.forget_unknown_epochs().unwrap();
    drop(volume);
    fs::write(namespace.join("epoch"), "1").unwrap();
    assert_eq!(open(&file).unknown_epochs().unwrap(), Some(1..5), "one that is older than the targets");
}

#[test]
fn the_largest_size_of_files_in_the_namespace_is_remembered() {
    let (_dir, file) = new_volume();
    assert_eq!(open(&file).inline_bytes_ever(), 64 << 10);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("# inline_max = \"64KiB\"", "inline_max = \"4KiB\"")).unwrap();
    let volume = open(&file);
    assert_eq!((volume.config().layout.inline_max, volume.inline_bytes_ever()), (4 << 10, 64 << 10));
}
