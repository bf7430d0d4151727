//! Second copies of input files, as the queue of the built-in runner asks for them: made, failed over to, removed.

use crate::real::{Volume, err, out, until};
use crate::server::{self, Nginx};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Six targets, of which files take two, so that two copies and a spare fit; the runner has one core.
fn volume() -> Option<Volume> {
    Volume::up_with(|toml| {
        let set = |toml: String, from: &str, to: &str| {
            assert!(toml.contains(from), "{from}");
            toml.replace(from, to)
        };
        let toml = set(toml, "# stripe_count = 4", "stripe_count = 2");
        let toml = set(toml, "# policy = \"none\"", "policy = \"all\"");
        let toml = set(toml, "# delay = \"5s\"", "delay = \"500ms\"");
        let toml = set(toml, "# poll = \"2s\"", "poll = \"100ms\"");
        let toml = set(toml, "# cores = 8", "cores = 1");
        let toml = set(toml, "# passthrough = \"auto\"", "passthrough = \"off\"");
        set(toml, "# io = \"auto\"", "io = \"direct\"")
    })
}

fn submit(volume: &Volume, home: &Path, name: &str, text: &str) {
    let script: PathBuf = home.join(name);
    fs::write(&script, format!("#!/bin/sh\n{text}")).expect("write");
    let submitted = volume.run_in(home, &["job", "submit", script.to_str().expect("UTF-8")]);
    assert!(submitted.status.success(), "{}", err(&submitted));
}

fn mirrors(volume: &Volume, file: &str) -> usize {
    volume.json(&["layout", file])["mirrors"].as_array().expect("mirrors").len()
}

/// Targets of a mirror's objects.
fn targets(volume: &Volume, file: &str, mirror: usize) -> Vec<String> {
    let layout = volume.json(&["layout", file]);
    let segments = layout["mirrors"][mirror]["segments"].as_array().expect("segments").clone();
    let objects = segments.iter().flat_map(|s| s["objects"].as_array().expect("objects").clone());
    objects.map(|o| o["target"].as_str().expect("target").to_string()).collect()
}

/// [S-070] [S-071] [S-072] [S-186]
#[test]
fn input_of_a_waiting_job_gets_a_second_copy_that_takes_over() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(volume) = volume() else { return };
    let home = volume.dir.path().join("home");
    fs::create_dir(&home).expect("directory");
    let data = server::data(16 << 20, 3);
    fs::write(nginx.root().join("f"), &data).expect("write");

    // The first job holds the one core until a file appears, so that the second waits with its data in place.
    let (go, open, opened, close) = (home.join("go"), home.join("open"), home.join("opened"), home.join("close"));
    submit(&volume, &home, "first.sh", &format!("while [ ! -e {} ]; do sleep 0.05; done\n", go.display()));
    let text = format!(
        "#STAGEIN entrepot stage in {} {}/f\nwhile [ ! -e {} ]; do sleep 0.05; done\nexec 3< {1}/f\ntouch {}\nwhile [ ! -e {} ]; do sleep 0.05; done\nexec 3<&-\nsleep 600\n",
        nginx.uri("f"),
        volume.at.display(),
        open.display(),
        opened.display(),
        close.display()
    );
    submit(&volume, &home, "second.sh", &text);
    until("its input has a second copy", || volume.at.join("f").exists() && mirrors(&volume, "f") == 2);
    until("replication knows", || out(&volume.run(&["job", "show", "2"])).contains("a second copy is complete"));
    let shown = volume.run(&["job", "show", "2"]);
    let said = || format!("{}{}{}", out(&shown), err(&shown), volume.log());
    assert!(out(&shown).contains("2 copies, and its source"), "{}", said());
    let (first, second) = (targets(&volume, "f", 0), targets(&volume, "f", 1));
    assert_eq!(first.len(), second.len(), "striped alike");
    assert!(first.iter().all(|t| !second.contains(t)), "on other targets: {first:?} {second:?}");

    // A target fails: the replica takes over at once, and what it lacks is made on another target.
    let lost = first[0].clone();
    volume.ok(&["target", "fail", &lost]);
    until("the replica took over", || volume.counted("failovers") == 1);
    assert!(!targets(&volume, "f", 0).contains(&lost));
    assert!(fs::read(volume.at.join("f")).expect("read") == data);
    until("what the copy lacks is made anew", || {
        volume.counted("replicas_rebuilt") >= 1 && !targets(&volume, "f", 1).contains(&lost)
    });
    assert_eq!(volume.count("repair", "bytes_fetched"), 0, "nothing was fetched from the source");

    // The copy outlives the daemon, and goes when the job has closed the file, while it still runs.
    volume.kill();
    volume.up_again();
    assert_eq!(mirrors(&volume, "f"), 2);
    fs::write(&go, "").expect("write");
    until("replication has seen it run", || out(&volume.run(&["job", "show", "2"])).contains("in use"));
    // Another process reads the file before the job does: that is no evidence about the job.
    assert!(fs::read(volume.at.join("f")).expect("read") == data);
    fs::write(&open, "").expect("write");
    until("the job has its input open", || opened.exists());
    assert_eq!(mirrors(&volume, "f"), 2, "as long as it is open");
    fs::write(&close, "").expect("write");
    until("the copy is gone", || mirrors(&volume, "f") == 1);
    assert_eq!(volume.json(&["job", "show", "2"])["summary"]["state"], "running");
    assert!(fs::read(volume.at.join("f")).expect("read") == data);
    assert_eq!(volume.counted("replication_at_risk"), 0);
    volume.ok(&["job", "cancel", "2"]);
    volume.ok(&["target", "restore", &lost]);
    volume.ok(&["check"]);
}

#[test]
fn the_recovery_benchmark_finds_its_metrics() {
    let Some(volume) = Volume::up() else { return };
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/recovery/run.sh");
    let script = fs::read_to_string(path).expect("the benchmark");
    let metric = script.lines().find(|line| line.starts_with("metric() ")).expect("its function");
    let begin = "set -eo pipefail\nep() { \"$entrepot\" \"$@\"; }";
    let text = format!("{begin}\n{metric}\nfor n in failovers failover_ns recovery_stripes; do metric $n; done");
    let mut bash = Command::new("bash");
    bash.args(["-c", &text]).env("entrepot", &volume.binary).env("ENTREPOT_VOLUME", &volume.toml).current_dir("/");
    let run = bash.output().expect("bash runs");
    assert_eq!(out(&run), "0\n0\n0\n", "{}", err(&run));
}
