//! `entrepot balance`: a new target gets its share, no file's bytes change, and the balance can be paused, stopped,
//! killed.

use crate::full::Small;
use crate::real::{Volume, code, err, noise, out, until};
use serde_json::Value;
use std::fs;

const FILES: usize = 12;

fn status(volume: &Volume) -> Value {
    volume.json(&["balance", "status"])
}

/// How full the targets of the fast tier are, in percent.
fn fills(volume: &Volume) -> Vec<f64> {
    let told = volume.json(&["df"]);
    let fast = told["targets"].as_array().expect("targets").iter().filter(|target| target["tier"] == "fast");
    let number = |target: &Value, key: &str| target[key].as_f64().expect("a number");
    fast.map(|t| 100.0 - number(t, "free_bytes") / number(t, "total_bytes") * 100.0).collect()
}

fn spread(volume: &Volume) -> f64 {
    let fills = fills(volume);
    let most = fills.iter().copied().fold(f64::MIN, f64::max);
    most - fills.iter().copied().fold(f64::MAX, f64::min)
}

/// [S-244] [S-245]
#[test]
fn a_new_target_gets_its_share_and_no_byte_changes() {
    let (Some(a), Some(b), Some(c)) = (Small::new(64), Small::new(64), Small::new(64)) else { return };
    let Some(volume) = Volume::up_with(|toml| {
        let on = [("fast0", &a), ("fast1", &b), ("fast2", &b)];
        on.iter().fold(toml.replace("# rate = 0", "rate = 4000000"), |toml, (name, small)| {
            let dir = small.dir.join(name);
            fs::create_dir(&dir).expect("directory");
            toml.replace(&format!(r#""targets/{name}""#), &format!("{dir:?}"))
        })
    }) else {
        return;
    };
    fs::create_dir(volume.at.join("d")).expect("directory");
    volume.ok(&["layout", "set", "d", "tier=fast"]);
    let data: Vec<Vec<u8>> = (0..FILES).map(|n| noise((3 << 20) + n)).collect();
    let file = |n: usize| volume.at.join(format!("d/f{n}"));
    (0..FILES).for_each(|n| fs::write(file(n), &data[n]).expect("write"));
    assert_eq!(out(&volume.run(&["balance", "status"])), "the volume was not balanced so far\n");
    let idle = volume.run(&["balance", "pause"]);
    assert!(code(&idle) == 2 && err(&idle).contains("is not being balanced"), "{}", err(&idle));
    let wrong = volume.run(&["balance", "start", "--spread", "90%"]);
    assert!(code(&wrong) == 2 && err(&wrong).contains("0.1% to 50%"), "{}", err(&wrong));
    volume.ok(&["balance", "start", "--wait"]);
    // Two targets lie on one of the two file systems, and so did more files.
    assert!(spread(&volume) <= 10.5, "{:?}", fills(&volume));

    let dir = c.dir.join("new0");
    fs::create_dir(&dir).expect("directory");
    volume.ok(&["target", "add", "new0", dir.to_str().expect("UTF-8"), "--tier", "fast"]);
    assert!(spread(&volume) > 15.0, "{:?}", fills(&volume));
    // A file in use stays where it is, so writes during the balance are safe.
    let before = volume.json(&["layout", "d/f0"]).to_string();
    let held = fs::File::open(file(0)).expect("open");
    volume.ok(&["balance", "start"]);
    until("it moves something", || {
        status(&volume)["state"] == "running" && status(&volume)["moves"].as_u64() > Some(0)
    });
    let again = volume.run(&["balance", "start"]);
    assert!(code(&again) == 6 && err(&again).contains("is being balanced"), "{}", err(&again));
    volume.ok(&["balance", "pause"]);
    assert_eq!(status(&volume)["state"], "paused");
    volume.ok(&["balance", "resume"]);
    volume.kill();
    drop(held);
    volume.up_again();
    let cut = volume.run(&["balance", "status"]);
    assert!(code(&cut) == 7 && out(&cut).contains("it was cut off: the daemon on "), "{}{}", out(&cut), err(&cut));
    let held = fs::File::open(file(0)).expect("open");
    let done = volume.run(&["balance", "start", "--wait"]);
    assert!(out(&done).contains("every target is as full as its tier, within 5 %"), "{}{}", out(&done), err(&done));
    assert!(spread(&volume) <= 10.5, "each within five of the mean: {:?}", fills(&volume));
    assert_eq!(volume.json(&["layout", "d/f0"]).to_string(), before, "it was in use all the time");
    drop(held);
    (0..FILES).for_each(|n| assert!(fs::read(file(n)).expect("read") == data[n], "f{n}"));
    let events = out(&volume.run(&["events", "--kind", "move", "--output", "json"]));
    let told: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    assert!(!told.is_empty() && told.iter().all(|event| event["by"] == "balance"), "{events}");
    assert!(told[0]["why"].as_str().is_some_and(|why| why.contains("% full, the other")), "{events}");
    volume.ok(&["check", "--deep"]);
}
