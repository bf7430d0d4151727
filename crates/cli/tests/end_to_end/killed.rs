//! `kill -9` of the daemon during a fetch, and during writes.

use crate::real::{Volume, code, err, noise, out, until};
use crate::recovery::direct;
use crate::server::{self, Nginx};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};

/// [S-022]
#[test]
fn killed_in_the_middle_of_a_recovery() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(volume) = Volume::up_with(direct) else { return };
    let data = server::data(24_000_000, 1);
    std::fs::write(nginx.root().join("f"), &data).expect("write");
    volume.ok(&["stage", "in", &nginx.uri("f"), "f"]);
    volume.ok(&["source", "set", "f", &nginx.uri("slow/f")]);
    let lost = volume.ranges_on("f", "fast0");
    volume.ok(&["target", "fail", "fast0"]);
    let mut reader = Command::new("cat").arg(volume.at.join("f")).stdout(Stdio::null()).spawn().expect("cat");
    until("a part is recovered", || volume.count("repair", "stripes_recovered") > 0);
    assert_eq!(volume.count("repair", "recoveries_completed"), 0, "it is in the middle");
    volume.kill();
    assert!(!reader.wait().expect("cat ends").success(), "its call is an error, and it returns");
    volume.up_again();
    volume.ok(&["source", "set", "f", &nginx.uri("f")]);
    assert!(std::fs::read(volume.at.join("f")).expect("read") == data, "no hole is taken for data");
    until("it is complete", || volume.count("repair", "recoveries_completed") > 0);
    let (fetched, lost) =
        (volume.count("repair", "bytes_fetched"), lost.iter().map(std::ops::Range::len).sum::<usize>());
    assert!(fetched < lost as u64, "what was patched is not fetched again: {fetched} of {lost}");
    volume.ok(&["check", "--repair"]);
    volume.ok(&["check"]);
}

/// [S-040]
#[test]
fn killed_in_the_middle_of_a_stage_in() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(volume) = Volume::up() else { return };
    let data = server::data(160_000_000, 2);
    std::fs::write(nginx.root().join("f"), &data).expect("write");
    let mut stage = Command::new(&volume.binary);
    stage.args(["stage", "in", &nginx.uri("slow/f"), "f"]).current_dir(&volume.at);
    let stage = stage.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
    until("so much is fetched that a note of it was taken", || nginx.sent_bytes() > 70_000_000);
    volume.kill();
    let ended = stage.wait_with_output().expect("it ends");
    assert_eq!(code(&ended), 3, "the client says that it failed");
    assert!(err(&ended).contains("next:") && err(&ended).contains("daemon"), "{}", err(&ended));
    volume.up_again();
    assert!(!volume.at.join("f").exists(), "half a file is none");
    let before = nginx.sent_bytes();
    let staged = volume.json(&["stage", "in", &nginx.uri("slow/f"), "f"]);
    let fetched = staged["fetched_bytes"].as_u64().expect("bytes");
    assert!(fetched < data.len() as u64, "only the rest: {fetched}");
    assert!(fetched > 0, "there was a rest");
    assert!(nginx.sent_bytes() - before <= fetched + 2, "and a probe");
    assert!(std::fs::read(volume.at.join("f")).expect("read") == data);
    volume.until_nothing_is_left();
}

/// [S-049]
#[test]
fn killed_under_the_stage_in_of_a_job() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(volume) = Volume::up() else { return };
    let data = server::data(40_000_000, 3);
    std::fs::write(nginx.root().join("f"), &data).expect("write");
    let script = volume.dir.path().join("job.sh");
    let at = volume.at.display();
    let text = format!("#!/bin/sh\n#STAGEIN entrepot stage in {} {at}/f\ncmp {at}/f {at}/f\n", nginx.uri("slow/f"));
    std::fs::write(&script, text).expect("write");
    volume.ok(&["job", "submit", script.to_str().expect("UTF-8")]);
    until("some of it came", || nginx.sent_bytes() > 8_000_000);
    volume.kill();
    volume.up_again();
    let waited = volume.run(&["job", "wait", "1"]);
    assert_eq!(code(&waited), 0, "it went on: {}{}", out(&waited), err(&waited));
    assert!(std::fs::read(volume.at.join("f")).expect("read") == data);
}

/// [S-022]
#[test]
fn killed_while_somebody_writes() {
    let Some(volume) = Volume::up() else { return };
    let data = noise(64 << 20);
    let path = volume.at.join("f");
    let mut written = 0;
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let (data, path) = (&data, &path);
        scope.spawn(move || {
            let file = std::fs::File::create(path).expect("create");
            for (k, block) in data.chunks(300_000).enumerate() {
                // Bytes count as acknowledged once fsync has returned; the rest may or may not be there.
                let done = file.write_all_at(block, k as u64 * 300_000).and_then(|()| file.sync_data());
                if done.is_err() || tell.send((k + 1) * 300_000).is_err() {
                    return;
                }
            }
        });
        while written < 10_000_000 {
            written = told.recv().expect("it goes on");
        }
        volume.kill();
        written = told.iter().last().unwrap_or(written).min(data.len());
    });
    volume.up_again();
    let found = std::fs::read(&path).expect("read");
    assert!(found.len() >= written, "{} of {written}", found.len());
    assert!(found[..written] == data[..written], "what was synced is there");
    volume.ok(&["check", "--repair"]);
    volume.ok(&["check"]);
}

/// [S-372]
#[test]
fn killed_between_the_removal_of_a_file_and_that_of_its_objects() {
    let Some(volume) = Volume::up() else { return };
    let data = noise(3 << 20);
    for name in ["f", "g"] {
        std::fs::write(volume.at.join(name), &data).expect("write");
    }
    let segments = volume.json(&["layout", "f"])["mirrors"][0]["segments"].as_array().expect("segments").clone();
    let objects: usize = segments.iter().map(|s| s["objects"].as_array().expect("objects").len()).sum();
    volume.kill();
    // The daemon has come as far as this: the name is gone.
    let stub = volume.toml.parent().expect("a directory").join("namespace/tree/f");
    std::fs::remove_file(stub).expect("the name");
    volume.up_again();
    until("the objects are removed", || volume.count_if_any("left", "objects").is_some());
    assert_eq!(volume.count("left", "objects"), objects as u64);
    assert!(volume.count("left", "bytes") >= data.len() as u64);
    let (status, events) = (out(&volume.run(&["status"])), out(&volume.run(&["events"])));
    assert!(status.contains(&format!("{objects} objects with")), "{status}");
    assert!(events.contains(&format!("{objects} objects with")), "{events}");
    volume.ok(&["check"]);
    assert!(std::fs::read(volume.at.join("g")).expect("read") == data);
    volume.ok(&["down"]);
    volume.up_again();
    assert_eq!(volume.json(&["status"])["left"], serde_json::Value::Null, "it ended in order");
}
