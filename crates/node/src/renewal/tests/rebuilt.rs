//! Volumes whose state is rebuilt: targets, numbers, and the state that counts.

use super::*;
use engine::volume::adopt_state;

impl World {
    /// Another `volume.toml` for the same namespace and targets, with a state of its own.
    fn with_other_state(&self) -> World {
        fs::create_dir(self.at("state2")).unwrap();
        let text = fs::read_to_string(&self.file).unwrap();
        assert!(text.contains("state = \"state\""), "{text}");
        let other = World { dir: self.dir.clone(), file: self.at("other.toml") };
        fs::write(&other.file, text.replace("state = \"state\"", "state = \"state2\"")).unwrap();
        other
    }

    fn refusal(&self) -> String {
        self.refusal_to_open().expect("refused")
    }

    fn adopt(&self) -> Result<(), String> {
        adopt_state(&Config::load(&self.file).unwrap()).map(drop).map_err(|problems| problems.to_string())
    }
}

#[test]
fn targets_are_found_again_when_the_state_store_is_lost() {
    let (world, _) = World::new();
    let volume = world.open();
    let number = volume.next_id().unwrap();
    let before: Vec<_> = volume.targets().all().iter().map(|t| (t.id(), t.name().to_owned())).collect();
    drop(volume);
    world.lose_state();
    world.rebuild(&Wish::default()).unwrap();
    let volume = world.open();
    let after: Vec<_> = volume.targets().all().iter().map(|t| (t.id(), t.name().to_owned())).collect();
    assert_eq!(after, before);
    assert!(volume.next_id().unwrap() >> 32 > number >> 32, "no number is given again");
}

/// [S-160]
#[test]
fn another_daemon_or_another_state_is_refused_until_the_operator_says_which_state_it_is() {
    let (world, _) = World::new();
    let other = world.with_other_state();
    let volume = world.open();
    let first = volume.next_id().unwrap();
    let refused = other.refusal();
    let holder = format!("in process {}", std::process::id());
    assert!(refused.contains(&holder) && refused.contains("with state in"), "{refused}");
    drop(volume);
    let refused = other.refusal();
    assert!(refused.contains("another state") && refused.contains("entrepot state adopt"), "{refused}");
    drop(world.open());
    let refused = other.adopt().unwrap_err();
    assert!(refused.contains("is empty") && refused.contains("entrepot state rebuild"), "{refused}");
    other.rebuild(&Wish::default()).unwrap();
    let volume = other.open();
    assert!(volume.next_id().unwrap() >> 32 > first >> 32);
    assert!(volume.unknown_epochs().unwrap().is_some(), "what the last epoch left is not removed by itself");
    drop(volume);
    assert!(world.refusal().contains("another state"), "the first state is the wrong one now");
    world.adopt().unwrap();
    let volume = world.open();
    assert!(volume.unknown_epochs().unwrap().is_some(), "what the last epoch left is not removed by itself");
    drop(volume);
    assert!(other.refusal().contains("another state"), "and now the second");

    let (second, _) = World::new();
    fs::remove_dir_all(second.at("state")).unwrap();
    fs::rename(world.at("state"), second.at("state")).unwrap();
    assert!(second.refusal().contains("is that of volume"));
    second.adopt().unwrap_err();
}

/// [S-161]
#[test]
fn numbers_begin_above_all_that_exists_whatever_was_lost() {
    let (world, _) = World::new();
    let mut last = 0;
    for targets_know in [true, false] {
        for _ in 0..3 {
            drop(world.open());
        }
        let volume = world.open();
        let number = volume.next_id().unwrap();
        assert!(number >> 32 > last >> 32, "{number:x} after {last:x}");
        last = number;
        let target = volume.targets().by_name("capacity1").unwrap();
        target.run(move |medium| medium.create(ObjectId(last))?.write_at(0, b"old")).unwrap();
        drop(volume);
        world.lose_state();
        fs::remove_file(world.at("namespace/epoch")).unwrap();
        if !targets_know {
            for target in fs::read_dir(world.at("targets")).unwrap() {
                fs::remove_file(target.unwrap().path().join("epoch")).unwrap();
            }
        }
        world.rebuild(&Wish::default()).unwrap();
    }
    fs::write(world.at("namespace/epoch"), "no number").unwrap();
    let volume = world.open();
    assert!(volume.next_id().unwrap() >> 32 > last >> 32);
    let target = volume.targets().by_name("capacity1").unwrap();
    let len = target.run(move |medium| medium.open(ObjectId(last))?.len()).unwrap();
    assert_eq!(len, 3, "and what was there is as it was");
}
