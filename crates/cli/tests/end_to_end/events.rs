//! `entrepot events`: a drain, a failure and a job, for each user, and for clients that come late.

use crate::real::{Volume, code, err, noise, out, until};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

fn told(volume: &Volume, words: &[&str]) -> Vec<Value> {
    let told = volume.run(&[&["events", "--output", "json"], words].concat());
    assert_eq!(code(&told), 0, "{words:?}: {}", err(&told));
    out(&told).lines().map(|line| serde_json::from_str(line).expect("an object on a line")).collect()
}

fn follow(volume: &Volume, words: &[&str]) -> Child {
    let mut command = Command::new(&volume.binary);
    command.env("ENTREPOT_VOLUME", &volume.toml).args(["events", "--follow"]).args(words).current_dir("/");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs")
}

fn target_of(volume: &Volume, file: &str) -> String {
    let layout = volume.json(&["layout", file]);
    layout["mirrors"][0]["segments"][0]["objects"][0]["target"].as_str().expect("target").to_owned()
}

/// [S-232] [S-234]
#[test]
fn a_drain_names_each_file_that_it_moves_where_to_and_why() {
    let Some(volume) = Volume::up() else { return };
    for n in 0..6 {
        fs::write(volume.at.join(format!("f{n}")), noise(300_000)).expect("write");
    }
    let target = target_of(&volume, "f0");
    let on_it = volume.run(&["find", "--target", &target]);
    let mut on_it: Vec<String> = out(&on_it).lines().map(str::to_owned).collect();
    on_it.sort();
    let mut follower = follow(&volume, &["--kind", "move", "--target", &target]);
    let mut lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
    volume.ok(&["target", "drain", &target]);
    let moves = told(&volume, &["--kind", "move", "--target", &target]);
    let mut moved: Vec<String> = moves.iter().map(|event| event["path"].as_str().expect("a path").to_owned()).collect();
    moved.sort();
    assert_eq!(moved, on_it, "each once");
    for event in &moves {
        assert_eq!((event["from"][0].as_str(), event["by"].as_str()), (Some(target.as_str()), Some("drain")));
        assert!(event["to"][0].as_str().is_some_and(|to| to != target), "{event}");
        assert_eq!(event["why"], format!("target {target} was being emptied"));
    }
    // A follower gets the same events, in lines for people, and Ctrl-C is a good end.
    for event in &moves {
        let line = lines.next().expect("a line").expect("UTF-8");
        let path = event["path"].as_str().expect("a path");
        assert!(line.contains(&format!("  move      {path}: replace target, {target} -> ")), "{line}");
        assert!(line.ends_with(&format!("(drain: target {target} was being emptied)")), "{line}");
    }
    let pid = rustix::process::Pid::from_raw(follower.id() as i32).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("told");
    assert_eq!(follower.wait().expect("it ends").code(), Some(0));
    let targets = told(&volume, &["--kind", "target"]);
    let said = |text: &str| targets.iter().any(|event| event["what"].as_str().is_some_and(|what| what.contains(text)));
    assert!(said(&format!("target {target} is draining")) && said(&format!("target {target} is empty")), "{targets:?}");
    assert!(told(&volume, &["--since", "1d"]).len() >= moves.len() + 2);
    let numbers: Vec<u64> = told(&volume, &[]).iter().map(|event| event["number"].as_u64().expect("number")).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    let wrong = volume.run(&["events", "--kind", "nonsense"]);
    assert!(code(&wrong) == 2 && err(&wrong).contains("possible values: move, recovery"), "{}", err(&wrong));
}

/// [S-233]
#[test]
fn users_are_told_of_their_own_files_and_jobs_and_of_targets() {
    let Some(volume) = Volume::up() else { return };
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: needs root to be another user");
    }
    fs::create_dir(volume.at.join("closed")).expect("directory");
    for name in ["mine", "closed/hidden", "roots"] {
        fs::write(volume.at.join(name), noise(300_000)).expect("write");
        volume.ok(&["layout", "add-mirror", name]);
    }
    for name in ["mine", "closed/hidden"] {
        std::os::unix::fs::chown(volume.at.join(name), Some(65534), Some(65534)).expect("chown");
        volume.ok(&["layout", "drop-mirror", name, "1"]);
    }
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(volume.at.join("closed"), mode).expect("chmod");
    volume.ok(&["target", "fail", &target_of(&volume, "roots")]);
    let script = volume.dir.path().join("job.sh");
    fs::write(&script, "#!/bin/sh\ntrue\n").expect("write");
    volume.ok(&["job", "submit", script.to_str().expect("UTF-8")]);
    until("the job is over", || {
        told(&volume, &["--kind", "job"]).iter().any(|event| event["what"] == "job 1: completed")
    });
    let seen = volume.run_as_nobody(&["events", "--output", "json"]);
    assert_eq!(code(&seen), 0, "{}", err(&seen));
    let seen = out(&seen);
    assert!(!seen.contains("roots") && !seen.contains("hidden") && !seen.contains("job 1"), "{seen}");
    let of = |kind: &str| seen.lines().filter(|line| line.contains(&format!("\"kind\":\"{kind}\""))).count();
    assert_eq!(of("move"), 1, "what happened while it was theirs: {seen}");
    assert!(of("target") >= 1, "{seen}");
    let all = told(&volume, &["--kind", "move"]);
    assert_eq!(all.len(), 5, "{all:?}");
}

/// [S-234]
#[test]
fn a_follower_goes_on_with_the_next_daemon() {
    let Some(volume) = Volume::up() else { return };
    let mut follower = follow(&volume, &["--kind", "target", "--output", "json"]);
    let mut lines = BufReader::new(follower.stdout.take().expect("a pipe")).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().expect("a line").expect("UTF-8")).expect("JSON") };
    fs::write(volume.at.join("f"), noise(300_000)).expect("write");
    let target = target_of(&volume, "f");
    volume.ok(&["target", "fail", &target]);
    assert_eq!(next()["target"], *target);
    volume.kill();
    volume.up_again();
    volume.ok(&["target", "restore", &target]);
    let back = next();
    assert!(back["what"].as_str().is_some_and(|what| what.starts_with(&format!("target {target} is ok"))), "{back}");
    follower.kill().expect("it ends");
    follower.wait().expect("it ended");
}
