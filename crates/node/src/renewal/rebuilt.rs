//! Volumes whose state is rebuilt: targets, numbers, and the state that counts.

use super::*;
use engine::volume::{NoServers, Volume, adopt_state, init};
use policy::ObjectId;
use std::fs;
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

fn lose_state(file: &Path) {
    for name in ["state.db", "state.db-wal"] {
        let _ = fs::remove_file(file.parent().unwrap().join("state").join(name));
    }
}

/// Another `volume.toml` for the same namespace and targets, with a state of its own.
fn with_other_state(file: &Path) -> PathBuf {
    let (root, other) = (file.parent().unwrap(), file.with_file_name("other.toml"));
    fs::create_dir(root.join("state2")).unwrap();
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains("state = \"state\""), "{text}");
    fs::write(&other, text.replace("state = \"state\"", "state = \"state2\"")).unwrap();
    other
}

fn rebuild(file: &Path) {
    rebuild_state(&Config::read(file).unwrap(), &NoServers, &Wish::default(), true).unwrap();
}

#[test]
fn targets_are_found_again_when_the_state_store_is_lost() {
    let (_dir, file) = new_volume();
    drop(open(&file));
    let volume = open(&file);
    let number = volume.next_id().unwrap();
    let before: Vec<_> = volume.targets().all().iter().map(|t| (t.id(), t.name().to_owned())).collect();
    drop(volume);
    lose_state(&file);
    rebuild(&file);
    let volume = open(&file);
    let after: Vec<_> = volume.targets().all().iter().map(|t| (t.id(), t.name().to_owned())).collect();
    assert_eq!(after, before);
    assert!(volume.next_id().unwrap() >> 32 > number >> 32, "no number is given again");
}

/// [S-160]
#[test]
fn another_daemon_or_another_state_is_refused_until_the_operator_says_which_state_it_is() {
    let (_dir, file) = new_volume();
    let other = with_other_state(&file);
    let volume = open(&file);
    let first = volume.next_id().unwrap();
    let refused = refusal(&other);
    let holder = format!("in process {}", std::process::id());
    assert!(refused.contains(&holder) && refused.contains("with state in"), "{refused}");
    drop(volume);
    let refused = refusal(&other);
    assert!(refused.contains("another state") && refused.contains("entrepot state adopt"), "{refused}");
    drop(open(&file));
    let refused = adopt_state(&Config::load(&other).unwrap()).unwrap_err().to_string();
    assert!(refused.contains("is empty") && refused.contains("entrepot state rebuild"), "{refused}");
    rebuild(&other);
    let volume = open(&other);
    assert!(volume.next_id().unwrap() >> 32 > first >> 32);
    assert!(volume.unknown_epochs().unwrap().is_some(), "what the last epoch left is not removed by itself");
    drop(volume);
    assert!(refusal(&file).contains("another state"), "the first state is the wrong one now");
    adopt_state(&Config::load(&file).unwrap()).unwrap();
    let volume = open(&file);
    assert!(volume.unknown_epochs().unwrap().is_some(), "what the last epoch left is not removed by itself");
    drop(volume);
    assert!(refusal(&other).contains("another state"), "and now the second");

    let (_dir2, second) = new_volume();
    drop(open(&second));
    let state = |file: &Path| file.parent().unwrap().join("state");
    fs::remove_dir_all(state(&second)).unwrap();
    fs::rename(state(&file), state(&second)).unwrap();
    assert!(refusal(&second).contains("is that of volume"));
    adopt_state(&Config::load(&second).unwrap()).unwrap_err();
}

/// [S-161]
#[test]
fn numbers_begin_above_all_that_exists_whatever_was_lost() {
    let (_dir, file) = new_volume();
    let root = file.parent().unwrap().to_owned();
    let mut last = 0;
    for targets_know in [true, false] {
        for _ in 0..3 {
            drop(open(&file));
        }
        let volume = open(&file);
        let number = volume.next_id().unwrap();
        assert!(number >> 32 > last >> 32, "{number:x} after {last:x}");
        last = number;
        let target = volume.targets().by_name("capacity1").unwrap();
        target.run(move |medium| medium.create(ObjectId(last))?.write_at(0, b"old")).unwrap();
        drop(volume);
        lose_state(&file);
        fs::remove_file(root.join("namespace/epoch")).unwrap();
        if !targets_know {
            for target in fs::read_dir(root.join("targets")).unwrap() {
                fs::remove_file(target.unwrap().path().join("epoch")).unwrap();
            }
        }
        rebuild(&file);
    }
    fs::write(root.join("namespace/epoch"), "no number").unwrap();
    let volume = open(&file);
    assert!(volume.next_id().unwrap() >> 32 > last >> 32);
    let target = volume.targets().by_name("capacity1").unwrap();
    let len = target.run(move |medium| medium.open(ObjectId(last))?.len()).unwrap();
    assert_eq!(len, 3, "and what was there is as it was");
}
