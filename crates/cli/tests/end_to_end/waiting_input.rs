//! The input of jobs that wait loses a target: it is whole again before the jobs start.

use crate::real::{Volume, err, until};
use crate::server::{self, Nginx};
use std::fs;
use std::path::Path;

fn volume() -> Option<Volume> {
    Volume::up_with(|toml| {
        let set = |toml: String, from: &str, to: &str| {
            assert!(toml.contains(from), "{from}");
            toml.replace(from, to)
        };
        let toml = set(toml, "# delay = \"5s\"", "delay = \"500ms\"");
        let toml = set(toml, "# queue_poll = \"5s\"", "queue_poll = \"100ms\"");
        set(toml, "# cores = 8", "cores = 1")
    })
}

fn submit(volume: &Volume, home: &Path, name: &str, text: &str) {
    let script = home.join(name);
    fs::write(&script, format!("#!/bin/sh\n{text}")).expect("write");
    let submitted = volume.run_in(home, &["job", "submit", script.to_str().expect("UTF-8")]);
    assert!(submitted.status.success(), "{}", err(&submitted));
}

fn targets(volume: &Volume, file: &str) -> Vec<String> {
    let layout = volume.json(&["layout", file]);
    let segments = layout["mirrors"][0]["segments"].as_array().expect("segments").clone();
    let objects = segments.iter().flat_map(|s| s["objects"].as_array().expect("objects").clone());
    objects.map(|o| o["target"].as_str().expect("target").to_string()).collect()
}

/// [S-185]
#[test]
fn what_waiting_jobs_lost_is_brought_back_while_they_wait() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(volume) = volume() else { return };
    let home = volume.dir.path().join("home");
    fs::create_dir(&home).expect("directory");
    let go = home.join("go");
    submit(&volume, &home, "first.sh", &format!("while [ ! -e {} ]; do sleep 0.05; done\n", go.display()));
    for (seed, name) in [(1, "f"), (2, "g")] {
        let at = volume.at.join(name);
        fs::write(nginx.root().join(name), server::data(16 << 20, seed)).expect("write");
        let text = format!(
            "#STAGEIN entrepot stage in {} {1}\ncmp {1} {2}\n",
            nginx.uri(name),
            at.display(),
            nginx.root().join(name).display()
        );
        submit(&volume, &home, &format!("{name}.sh"), &text);
    }
    let state = |id: &str| volume.json(&["job", "show", id])["summary"]["state"].as_str().expect("state").to_string();
    until("both wait with their data", || {
        ["f", "g"].iter().all(|name| volume.at.join(name).exists()) && ["2", "3"].iter().all(|id| state(id) == "queued")
    });
    let others = targets(&volume, "g");
    let lost = targets(&volume, "f").into_iter().find(|t| others.contains(t)).expect("four of six targets each");
    volume.ok(&["target", "fail", &lost]);
    until("what it held is elsewhere", || ["f", "g"].iter().all(|f| !targets(&volume, f).contains(&lost)));
    until("and whole", || volume.run(&["check", "f", "g"]).status.success());
    assert!(volume.count("repair", "bytes_fetched") > 0, "from the source");
    assert_eq!([state("1"), state("2"), state("3")], ["running", "queued", "queued"]);
    fs::write(&go, "").expect("write");
    until("both have compared their data", || ["2", "3"].iter().all(|id| state(id) == "completed"));
    for id in ["2", "3"] {
        assert_eq!(
            volume.json(&["job", "show", id])["check"]["n_repaired"],
            0,
            "nothing was left to be done at its start"
        );
    }
    volume.ok(&["target", "restore", &lost]);
    volume.ok(&["check"]);
}
