//! `kill -9` in the middle of a drain, again and again: each start goes on with it, and it comes to its end.

use crate::real::{Volume, noise, until};
use meta::state::{SqliteState, State};
use std::process::Stdio;

const FILES: usize = 12;

/// Moves that are half done according to the state store, which no daemon uses now.
fn journal(volume: &Volume) -> usize {
    let file = volume.toml.parent().expect("a directory").join("state/state.db");
    SqliteState::open(&file).and_then(|state| state.journal()).expect("journal").len()
}

/// Files that still lie on a target.
fn left_on(volume: &Volume, target: &str) -> usize {
    let lies_there =
        |n: &usize| volume.json(&["layout", &format!("f{n}")]).to_string().contains(&format!("\"{target}\""));
    (0..FILES).filter(lies_there).count()
}

/// [S-024] [S-033]
#[test]
fn killed_in_the_middle_of_a_drain() {
    let slow = |toml: String| toml.replace("# rate = 0", "rate = 2000000");
    let Some(volume) = Volume::up_with(slow) else { return };
    let data = noise(5 << 20);
    for n in 0..FILES {
        std::fs::write(volume.at.join(format!("f{n}")), &data).expect("write");
    }
    let layout = volume.json(&["layout", "f0"]);
    let victim = layout["mirrors"][0]["segments"][1]["objects"][0]["target"].as_str().expect("target").to_string();
    let mut left = left_on(&volume, &victim);
    assert!(left > 3, "there is something to be moved: {left}");
    let mut command = std::process::Command::new(&volume.binary);
    command.args(["target", "drain", &victim]).current_dir(&volume.at).stdout(Stdio::null()).stderr(Stdio::null());
    let mut drain = command.spawn().expect("it runs");
    let mut interrupted = 0;
    while left > 1 && interrupted < 6 {
        until("the drain goes on", || volume.count("mover", "running") > 0 || left_on(&volume, &victim) < left);
        // A user opens a file during the drain.
        let user = std::fs::File::options().append(true).open(volume.at.join("f1")).expect("open");
        drop(user);
        volume.kill();
        interrupted += usize::from(journal(&volume) > 0);
        volume.up_again();
        assert_eq!(volume.state_of(&victim), "draining", "it goes on by itself");
        left = left_on(&volume, &victim);
    }
    let _ = drain.wait().expect("the client of the first daemon ends");
    assert!(interrupted > 0, "no move was ever interrupted");
    until("it comes to its end", || left_on(&volume, &victim) == 0 && volume.count("mover", "running") == 0);
    volume.ok(&["check"]);
    for n in 0..FILES {
        assert!(std::fs::read(volume.at.join(format!("f{n}"))).expect("read") == data, "f{n}");
    }
    volume.ok(&["target", "remove", &victim]);
    volume.ok(&["down"]);
    assert_eq!(journal(&volume), 0);
}

/// [S-370]
#[test]
fn a_file_that_is_removed_in_the_middle_of_its_move_leaves_nothing() {
    let slow = |toml: String| toml.replace("# rate = 0", "rate = 2000000");
    let Some(volume) = Volume::up_with(slow) else { return };
    std::fs::write(volume.at.join("f"), noise(40 << 20)).expect("write");
    let layout = volume.json(&["layout", "f"]);
    let victim = layout["mirrors"][0]["segments"][1]["objects"][0]["target"].as_str().expect("target").to_string();
    let mut command = std::process::Command::new(&volume.binary);
    command.args(["target", "drain", &victim]).current_dir(&volume.at).stdout(Stdio::null()).stderr(Stdio::null());
    let mut drain = command.spawn().expect("it runs");
    until("the file is moved", || volume.count("mover", "running") > 0);
    std::fs::remove_file(volume.at.join("f")).expect("remove");
    drain.wait().expect("the drain ends");
    volume.until_nothing_is_left();
    let targets = volume.json(&["target", "list"]);
    assert_eq!(targets["targets"].as_array().expect("targets").iter().filter(|t| t["state"] == "failed").count(), 0);
}
