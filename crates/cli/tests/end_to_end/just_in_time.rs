//! Data that come when the queue's estimate of their job's start is near, and that wait for space.

use crate::real::{Volume, code, out, until};
use crate::server::{self, Nginx};
use std::fs;
use std::path::Path;

fn volume(edits: &[(&str, &str)]) -> Option<Volume> {
    Volume::up_with(|toml| {
        let usual = [("# cores = 8", "cores = 1"), ("# queue_poll = \"5s\"", "queue_poll = \"100ms\"")];
        usual.iter().chain(edits).fold(toml, |toml, (from, to)| {
            assert!(toml.contains(from), "{from}");
            toml.replace(from, to)
        })
    })
}

fn submit(volume: &Volume, home: &Path, text: &str) {
    let script = home.join("job.sh");
    fs::write(&script, format!("#!/bin/sh\n{text}")).expect("write");
    let submitted = volume.run_in(home, &["job", "submit", script.to_str().expect("UTF-8")]);
    assert!(submitted.status.success(), "{}", crate::real::err(&submitted));
}

fn shown(volume: &Volume, job: &str) -> String {
    out(&volume.run(&["job", "show", job]))
}

/// When a job entered a state, in milliseconds since 1970.
fn entered(volume: &Volume, job: &str, state: &str) -> Option<u64> {
    let detail = volume.json(&["job", "show", job]);
    let moments = detail["timeline"].as_array().expect("timeline").clone();
    moments.iter().find(|moment| moment["state"] == state)?["at_ms"].as_u64()
}

/// Bytes per second that a job's source is reckoned with.
fn rate(volume: &Volume, job: &str) -> u64 {
    volume.json(&["job", "show", job])["arrival"]["rate"].as_u64().expect("a rate")
}

/// [S-088]
#[test]
fn data_come_when_the_queue_says_that_the_job_will_start() {
    let Some(nginx) = Nginx::start() else { return };
    let edits = [
        ("# stage_in = \"at-once\"", "stage_in = \"just-in-time\""),
        ("# stage_in_margin = \"5min\"", "stage_in_margin = \"1s\""),
        ("# source_rate = \"10MB\"", "source_rate = \"1MB\""),
    ];
    let Some(volume) = volume(&edits) else { return };
    let home = volume.dir.path().join("home");
    fs::create_dir(&home).expect("directory");
    fs::write(nginx.root().join("input"), server::data(2_000_000, 1)).expect("write");
    let stage =
        |name: &str| format!("#STAGEIN entrepot stage in {} {}/{name}\n", nginx.uri("input"), volume.at.display());

    // The first has the one core for eight seconds. The second's data take two by what is known of their source, and
    // the margin is one and half of that: they are due four seconds before.
    submit(&volume, &home, "#ENTREPOT -t 8s\nsleep 600\n");
    until("the first runs", || entered(&volume, "1", "running").is_some());
    submit(&volume, &home, &(stage("second") + "test -s $ENTREPOT_MOUNT/second\n"));
    until("its data are not due", || shown(&volume, "2").contains("its data begin to come in"));
    assert!(shown(&volume, "2").contains("1.9 MiB from http://127.0.0.1"), "{}", shown(&volume, "2"));
    assert_eq!(rate(&volume, "2"), 1_000_000, "as configured");
    assert_eq!(code(&volume.run(&["job", "wait", "2"])), 0, "{}", shown(&volume, "2"));
    let waited = entered(&volume, "2", "staging-in").expect("staged") - entered(&volume, "1", "running").expect("ran");
    assert!(waited >= 3000, "its data came {waited} ms after the first began, not when they were due");
    assert!(shown(&volume, "2").contains("its data came") && shown(&volume, "2").contains("before its start"));
    assert_eq!((volume.counted("staging_in_time"), volume.counted("staging_too_late")), (1, 0));

    // The queue errs: the job before ends an hour early. The bytes still to come then are counted.
    submit(&volume, &home, "#ENTREPOT -t 1h\nsleep 3600\n");
    until("it has the core", || entered(&volume, "3", "running").is_some());
    submit(&volume, &home, &(stage("fourth") + "test -s $ENTREPOT_MOUNT/fourth\n"));
    until("its data are not due", || shown(&volume, "4").contains("its data begin to come in"));
    // The estimate survives the daemon, and so does the rate of the source.
    volume.kill();
    volume.up_again();
    until("they are not due", || shown(&volume, "4").contains("its data begin to come in"));
    assert_ne!(rate(&volume, "4"), 1_000_000, "one was seen, and remembered");
    volume.ok(&["job", "cancel", "3"]);
    assert_eq!(code(&volume.run(&["job", "wait", "4"])), 0, "{}", shown(&volume, "4"));
    assert!(shown(&volume, "4").contains("its data came too late"), "{}", shown(&volume, "4"));
    assert_eq!(volume.counted("staging_too_late"), 1);
    // Cancelled before they were due: nothing came.
    submit(&volume, &home, "#ENTREPOT -t 1h\nsleep 3600\n");
    submit(&volume, &home, &(stage("sixth") + "true\n"));
    until("its data are not due", || shown(&volume, "6").contains("its data begin to come in"));
    volume.ok(&["job", "cancel", "6"]);
    assert_eq!(volume.json(&["job", "show", "6"])["summary"]["state"], "cancelled");
    assert!(!volume.at.join("sixth").exists());
    volume.ok(&["job", "cancel", "5"]);
}

/// [S-089]
#[test]
fn data_that_find_no_space_wait_or_fail_as_configured() {
    let Some(nginx) = Nginx::start() else { return };
    fs::write(nginx.root().join("input"), server::data(2_000_000, 2)).expect("write");
    for when_full in ["wait", "fail"] {
        let when = format!("when_full = \"{when_full}\"");
        let edits = [("# when_full = \"wait\"", when.as_str()), ("# keep_free = \"0\"", "keep_free = \"100000TB\"")];
        let Some(volume) = volume(&edits) else { return };
        let home = volume.dir.path().join("home");
        fs::create_dir(&home).expect("directory");
        let uri = nginx.uri("input");
        submit(&volume, &home, &format!("#STAGEIN entrepot stage in {uri} {}/input\ntrue\n", volume.at.display()));
        if when_full == "fail" {
            assert_eq!(code(&volume.run(&["job", "wait", "1"])), 1);
            let said = shown(&volume, "1");
            assert!(
                said.contains("failed: stage-in was not begun: no space") && said.contains("1.9 MiB needed"),
                "{said}"
            );
            assert_eq!(volume.counted("staging_refused"), 1);
        } else {
            until("it waits for space", || shown(&volume, "1").contains("no space for its data: 1.9 MiB needed"));
            assert_eq!(volume.json(&["job", "show", "1"])["summary"]["state"], "queued");
            assert!(volume.counted("staging_no_space") >= 1);
            volume.ok(&["job", "cancel", "1"]);
        }
        assert!(!volume.at.join("input").exists(), "nothing was begun");
    }
}
