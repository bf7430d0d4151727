//! Files with two mirrors while a target fails and comes back.

use crate::real::{Volume, code, err, noise, until};
use std::os::unix::fs::FileExt;

/// Two mirrors of everything, past the page cache.
fn mirrored(toml: String) -> String {
    toml.replace("# mirrors = 1", "mirrors = 2").replace(r#"# io = "auto""#, r#"io = "direct""#)
}

/// [S-021]
#[test]
fn reads_and_writes_go_on_and_both_mirrors_come_in_sync_again() {
    let Some(volume) = Volume::up_with(mirrored) else { return };
    let mut data = noise(10_000_000);
    let path = volume.at.join("f");
    std::fs::write(&path, &data).expect("write");
    let states = |volume: &Volume| {
        let layout = volume.json(&["layout", "f"]);
        let mirrors = layout["mirrors"].as_array().expect("mirrors").iter();
        mirrors.map(|m| m["state"].as_str().expect("a state").to_string()).collect::<Vec<_>>()
    };
    assert_eq!(states(&volume), ["in_sync", "in_sync"]);
    let victim = volume.json(&["layout", "f"])["mirrors"][0]["segments"][1]["objects"][0]["target"].clone();
    let victim = victim.as_str().expect("a name");

    let file = std::fs::File::options().read(true).write(true).open(&path).expect("open");
    let mut buf = vec![0; 500_000];
    for (k, from) in (0..data.len()).step_by(buf.len()).enumerate() {
        if k == 5 {
            volume.ok(&["target", "fail", victim]);
        }
        file.read_exact_at(&mut buf, from as u64).expect("read");
        assert!(buf == data[from..from + buf.len()], "from {from}");
        buf.iter_mut().for_each(|b| *b = !*b);
        file.write_all_at(&buf, from as u64).expect("write");
        data[from..from + buf.len()].copy_from_slice(&buf);
    }
    file.sync_all().expect("sync");
    drop(file);
    assert!(std::fs::read(&path).expect("read") == data, "from the mirror that is left");
    assert!(states(&volume).contains(&"stale".to_string()), "who missed a write is known to have");

    volume.ok(&["target", "restore", victim]);
    until("it is resynced, by itself", || states(&volume) == ["in_sync", "in_sync"]);
    // Either mirror alone has everything.
    for target in ["fast0", "fast1", "fast2", "capacity0", "capacity1", "capacity2"] {
        volume.ok(&["target", "fail", target]);
        assert!(std::fs::read(&path).expect("read") == data, "without {target}");
        volume.ok(&["target", "restore", target]);
        until("it is ok", || volume.state_of(target) == "ok");
    }
    volume.ok(&["check"]);
}

/// A request for a resync during another one, of the volume itself or of a user, returns with the end of that one.
#[test]
fn a_resync_joins_the_one_that_is_under_way() {
    let Some(volume) = Volume::up_with(|toml| mirrored(toml).replace("# rate = 0\n# Files", "rate = 2000000\n# Files"))
    else {
        return;
    };
    let path = volume.at.join("f");
    std::fs::write(&path, noise(6_000_000)).expect("write");
    let victim = volume.json(&["layout", "f"])["mirrors"][0]["segments"][0]["objects"][0]["target"].clone();
    let victim = victim.as_str().expect("a name");
    volume.ok(&["target", "fail", victim]);
    let data = noise(6_000_001)[1..].to_vec();
    let file = std::fs::File::options().write(true).open(&path).expect("open");
    file.write_all_at(&data, 0).expect("write");
    file.sync_all().expect("sync");
    drop(file);
    volume.ok(&["target", "restore", victim]);
    let moves = || volume.json(&["status"])["mover"]["moves"].to_string();
    let (mut first, mut second) = (None, None);
    std::thread::scope(|scope| {
        let one = scope.spawn(|| volume.run(&["layout", "resync", "f"]));
        until("it is under way", || moves().contains("resync of ") || one.is_finished());
        let other = scope.spawn(|| volume.run(&["layout", "resync", "f"]));
        (first, second) = (one.join().ok(), other.join().ok());
    });
    for done in [first.expect("it ran"), second.expect("it ran")] {
        assert_eq!(code(&done), 0, "{}", err(&done));
    }
    let layout = volume.json(&["layout", "f"]);
    assert!(layout["mirrors"].as_array().expect("mirrors").iter().all(|m| m["state"] == "in_sync"), "{layout}");
    for target in ["fast0", "fast1", "fast2", "capacity0", "capacity1", "capacity2"] {
        volume.ok(&["target", "fail", target]);
        assert!(std::fs::read(&path).expect("read") == data, "without {target}");
        volume.ok(&["target", "restore", target]);
        until("it is ok", || volume.state_of(target) == "ok");
    }
}
