//! A volume with a target that is reached over several connections of its own making.

use crate::real::{Volume, code, err, noise, out};
use serde_json::Value;
use std::io::Write;

fn connections(volume: &Volume) -> Value {
    let status = volume.json(&["status"]);
    let targets = status["targets"].as_array().expect("targets");
    targets.iter().find(|t| t["name"] == "fast0").expect("fast0")["connections"].clone()
}

/// [S-022]
#[test]
fn a_target_over_three_connections_outlives_the_daemon() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: private mounts need root");
        return;
    }
    let backing = tempfile::tempdir().expect("temp dir");
    let lines = format!(
        "name = \"fast0\"\nconnections = 3\ntype = \"bind\"\nservers = \"{}\"\nbytes_over = \"mount\"\nwrite_behind = \"2MiB\"\n",
        backing.path().display()
    );
    let Some(volume) = Volume::up_with(|toml| toml.replace("name = \"fast0\"\n", &lines)) else { return };
    let data = noise(20 << 20);
    let mut file = std::fs::File::create(volume.at.join("f")).expect("create");
    file.write_all(&data).and_then(|()| file.sync_all()).expect("write, and what is written behind is with the server");
    drop(file);
    let shown = connections(&volume);
    let each = shown["connections"].as_array().expect("connections");
    assert_eq!((each.len(), &shown["policy"]), (3, &Value::from("load")), "{shown}");
    assert!(each.iter().all(|c| c["state"] == "in use"), "{shown}");
    assert_eq!((&shown["write_behind_bytes"], &shown["bytes_over"]), (&(2 << 20).into(), &"mount".into()), "{shown}");
    assert!(each.iter().map(|c| c["bytes_written"].as_u64().expect("bytes")).sum::<u64>() > 0, "{shown}");
    assert!(out(&volume.run(&["status"])).contains("connections of fast0 (bind, policy load)"));
    let numbers = out(&volume.run(&["stats", "--prometheus"]));
    let in_use = |line: &&str| {
        line.starts_with("entrepot_connection_in_use{") && line.contains("target=\"fast0\"") && line.ends_with(" 1.0")
    };
    assert_eq!(numbers.lines().filter(in_use).count(), 3, "{numbers}");
    assert!(backing.path().join("target.id").exists(), "the target is in the file system, not below it");

    volume.kill();
    volume.up_again();
    assert!(std::fs::read(volume.at.join("f")).expect("read") == data, "the same bytes after kill -9");
    assert_eq!(connections(&volume)["connections"].as_array().expect("connections").len(), 3);

    // Unless it is asked for, nothing is written behind: a killed daemon takes nothing with it that was acknowledged.
    volume.ok(&["down"]);
    let text = std::fs::read_to_string(&volume.toml).expect("volume.toml");
    std::fs::write(&volume.toml, text.replace("write_behind = \"2MiB\"\n", "")).expect("volume.toml");
    volume.up_again();
    assert_eq!(connections(&volume)["write_behind_bytes"], 0);
    let mut unsynced = std::fs::File::create(volume.at.join("g")).expect("create");
    unsynced.write_all(&data).expect("write");
    volume.kill();
    drop(unsynced);
    volume.up_again();
    assert!(std::fs::read(volume.at.join("g")).expect("read") == data, "the same bytes after kill -9, never synced");

    let below = volume.toml.parent().expect("directory").join("targets/fast0");
    volume.ok(&["down"]);
    assert!(std::fs::read_dir(&below).expect("directory").next().is_none(), "nothing landed there");

    // A server that is away: the target that the volume knows is failed, and the volume is there.
    let text = std::fs::read_to_string(&volume.toml).expect("volume.toml");
    let away = text.replace(&backing.path().display().to_string(), "/no/such/directory");
    std::fs::write(&volume.toml, &away).expect("volume.toml");
    volume.up_again();
    assert_eq!(volume.state_of("fast0"), "failed");
    volume.ok(&["down"]);
    assert!(std::fs::read_dir(&below).expect("directory").next().is_none());

    // A new one that cannot be reached is refused.
    std::fs::write(&volume.toml, away.replace("name = \"fast0\"", "name = \"other0\"")).expect("volume.toml");
    let refused = volume.run(&["up", volume.toml.to_str().expect("UTF-8"), "--at", volume.at.to_str().expect("UTF-8")]);
    assert_eq!(code(&refused), 1, "{}", err(&refused));
    assert!(err(&refused).contains("other0 cannot be reached") && err(&refused).contains("the volume is not opened"));
}
