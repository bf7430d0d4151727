//! Results that leave while the script runs, and the removal of what is safe elsewhere.

use crate::real::{Volume, code, out, until};
use crate::server::{self, Nginx};
use std::fs;
use std::path::Path;

fn volume() -> Option<Volume> {
    Volume::up_with(|toml| {
        let set = |toml: String, from: &str, to: &str| {
            assert!(toml.contains(from), "{from}");
            toml.replace(from, to)
        };
        let toml = set(toml, "# offload = \"at-end\"", "offload = \"on-close\"");
        // Everything that may go is old enough.
        set(toml, "# age = \"0s\"", "age = \"1ms\"")
    })
}

fn submit(volume: &Volume, home: &Path, text: &str) {
    let script = home.join("job.sh");
    fs::write(&script, format!("#!/bin/sh\n{text}")).expect("write");
    let submitted = volume.run_in(home, &["job", "submit", script.to_str().expect("UTF-8")]);
    assert!(submitted.status.success(), "{}", crate::real::err(&submitted));
}

fn purge(volume: &Volume, words: &[&str]) -> serde_json::Value {
    volume.json(&[&["purge"], words].concat())
}

fn paths(report: &serde_json::Value) -> Vec<String> {
    let files = report["files"].as_array().expect("files");
    let mut paths: Vec<String> = files.iter().map(|f| f["path"].as_str().expect("path").to_string()).collect();
    paths.sort();
    paths
}

/// [S-073] [S-074]
#[test]
fn results_leave_when_closed_and_only_what_is_safe_is_purged() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(volume) = volume() else { return };
    let home = volume.dir.path().join("home");
    fs::create_dir(&home).expect("directory");
    let (input, result) = (server::data(8 << 20, 1), server::data(8 << 20, 2));
    fs::write(nginx.root().join("input"), &input).expect("write");
    fs::write(home.join("made"), &result).expect("write");
    let at = volume.at.display();
    let (go, more) = (home.join("go"), home.join("more"));
    let text = format!(
        "#STAGEIN entrepot stage in {uri} {at}/input\n\
         #STAGEOUT entrepot stage out {at}/result file://{home}/taken\n\
         #STAGEOUT entrepot stage out {at}/late file://{home}/late\n\
         cp {home}/made {at}/result\n\
         until [ -e {more} ]; do sleep 0.05; done\n\
         printf more >> {at}/result\n\
         until [ -e {go} ]; do sleep 0.05; done\n\
         cp {home}/made {at}/late\n",
        uri = nginx.uri("input"),
        home = home.display(),
        more = more.display(),
        go = go.display()
    );
    submit(&volume, &home, &text);

    // The result is at the other end while the script still runs.
    until("the result has left", || out(&volume.run(&["job", "show", "1"])).contains("result left early"));
    assert_eq!(volume.json(&["job", "show", "1"])["summary"]["state"], "running");
    assert!(fs::read(home.join("taken")).expect("taken home") == result);

    // The job needs its input and its results; what nobody took home stays as well.
    fs::write(volume.at.join("scratch"), &result).expect("write");
    let dry = purge(&volume, &["--dry-run"]);
    assert_eq!(paths(&dry), Vec::<String>::new(), "{dry}");
    assert_eq!((dry["kept_for_jobs"].as_u64(), dry["kept_unsaved"].as_u64()), (Some(2), Some(1)), "{dry}");

    // It is written once more: what left is not what is here, and leaves again.
    fs::write(&more, "").expect("write");
    let longer = [&result[..], b"more"].concat();
    until("the newer version has left", || fs::read(home.join("taken")).is_ok_and(|there| there == longer));
    fs::write(&go, "").expect("write");
    assert_eq!(code(&volume.run(&["job", "wait", "1"])), 0, "{}", out(&volume.run(&["job", "show", "1"])));
    assert!(fs::read(home.join("late")).expect("taken home") == result);
    let log = out(&volume.run(&["job", "log", "1", "--part", "stage-out"]));
    assert!(log.contains("is there already"), "the stage-out part sends it no third time: {log}");

    // Now all but the file that is nowhere else may go, unless it is open or was changed since.
    let open = fs::File::open(volume.at.join("input")).expect("open");
    fs::write(volume.at.join("late"), &input).expect("write");
    let dry = purge(&volume, &["--dry-run"]);
    assert_eq!(paths(&dry), ["result"], "{dry}");
    assert_eq!((dry["kept_open"].as_u64(), dry["kept_unsaved"].as_u64()), (Some(1), Some(2)), "{dry}");
    assert!(volume.at.join("result").exists(), "a dry run removes nothing");
    drop(open);
    until("it is closed", || paths(&purge(&volume, &["--dry-run"])).len() == 2);
    let done = purge(&volume, &[]);
    assert_eq!(paths(&done), ["input", "result"], "{done}");
    assert!(!volume.at.join("input").exists() && !volume.at.join("result").exists());
    assert!(fs::read(volume.at.join("scratch")).expect("kept") == result);
    assert!(fs::read(volume.at.join("late")).expect("kept") == input);
    assert_eq!(fs::read_dir(&volume.at).expect("ls").count(), 2, "no odd names are left");
    if rustix::process::geteuid().is_root() {
        assert_eq!(code(&volume.run_as_nobody(&["purge", "--dry-run"])), 4, "the operator's alone");
    }
    volume.ok(&["check"]);
}

/// [S-074] A job that only waits, and never ran.
#[test]
fn the_input_of_a_queued_job_is_not_purged() {
    let Some(nginx) = Nginx::start() else { return };
    let one_core = |toml: String| {
        let toml = toml.replace("# age = \"0s\"", "age = \"1ms\"");
        toml.replace("[jobs]", "[jobs]\ncores = 1")
    };
    let Some(volume) = Volume::up_with(one_core) else { return };
    let home = volume.dir.path().join("home");
    fs::create_dir(&home).expect("directory");
    fs::write(nginx.root().join("input"), server::data(2 << 20, 1)).expect("write");
    volume.ok(&["stage", "in", &nginx.uri("input"), "input"]);
    assert_eq!(paths(&purge(&volume, &["--dry-run"])), ["input"], "nobody needs it yet");
    submit(&volume, &home, &format!("until [ -e {}/go ]; do sleep 0.05; done\n", home.display()));
    submit(
        &volume,
        &home,
        &format!("#STAGEIN entrepot stage in --keep {} {}/input\ntrue\n", nginx.uri("input"), volume.at.display()),
    );
    until("it waits for the core", || out(&volume.run(&["job", "show", "2"])).contains("stage-in succeeded; waits"));
    let dry = purge(&volume, &[]);
    assert_eq!((paths(&dry), dry["kept_for_jobs"].as_u64()), (Vec::new(), Some(1)), "{dry}");
    // Also after a restart of the daemon.
    volume.kill();
    volume.up_again();
    let dry = purge(&volume, &[]);
    assert_eq!((paths(&dry), dry["kept_for_jobs"].as_u64()), (Vec::new(), Some(1)), "{dry}");
    volume.ok(&["job", "cancel", "2"]);
    until("nobody needs it any more", || paths(&purge(&volume, &[])) == ["input"]);
    fs::write(home.join("go"), "").expect("write");
    assert_eq!(code(&volume.run(&["job", "wait", "1"])), 0);
}
