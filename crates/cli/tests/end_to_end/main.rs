//! The real binary with a real mount: set up, use, fail, kill, restart, end. Skipped, with the reason, where users
//! cannot mount.

mod accounting;
mod advice;
mod as_user;
mod attack;
mod automounted;
mod backup;
mod balance;
#[path = "../monitoring/boards.rs"]
mod boards;
mod burst;
mod burst_devices;
mod burst_full;
mod burst_replicas;
mod cache;
mod connections;
mod dashboard;
mod datawarp;
mod df;
mod doctor;
mod drained;
mod early;
mod emulated;
mod events;
mod find;
#[path = "../house/folders.rs"]
mod folders;
mod formats;
mod full;
mod hostile;
mod hung_target;
mod idle;
mod installed;
mod interrupted;
mod job_watch;
mod just_in_time;
mod kept;
mod killed;
#[path = "../house/laboratory.rs"]
mod laboratory;
mod lanes;
mod logged;
mod loops;
mod manifests;
mod merged;
mod mirrors;
mod operator;
mod packaged;
mod programs;
mod purge;
mod quota;
mod quota_random;
mod read_only;
mod real;
mod rebuilt;
mod recovery;
mod redis;
mod replication;
mod scrub;
#[allow(dead_code, reason = "some of it is for the tests of sources alone")]
#[path = "../../../source/tests/server/mod.rs"]
mod server;
mod sources;
mod staged;
mod stripes;
mod tab;
mod tiers;
mod top;
mod traced;
mod waiting_input;
mod watched;

use real::{Volume, code, err, out};
use std::process::{Command, Stdio};

#[test]
fn files_outlive_the_daemon() {
    let Some(volume) = Volume::up() else { return };
    let data = real::noise(20 << 20);
    std::fs::write(volume.at.join("large"), &data).expect("write");
    std::fs::write(volume.at.join("small"), b"a few bytes").expect("write");

    let layout = volume.json(&["layout", "large"]);
    assert_eq!(layout["size"], data.len());
    let targets = layout["mirrors"][0]["segments"][1]["objects"].as_array().expect("objects").len();
    assert!(targets > 1, "a large file is striped: {layout}");
    assert_eq!(volume.json(&["layout", "small"])["inline"], true);
    assert!(out(&volume.run(&["explain", "large"])).contains("neither a second mirror nor a source"));
    assert!(out(&volume.run(&["explain", "small"])).contains("stub"));

    let stats = out(&volume.run(&["stats", "--count", "2", "--interval", "10ms"]));
    assert_eq!(stats.lines().count(), 4, "two lines of heading, two of numbers: {stats}");
    let raw = volume.json(&["stats", "--count", "1"]);
    let written = raw["ops"].as_array().expect("ops").iter().find(|op| op["op"] == "write").expect("write");
    assert!(written["bytes"].as_u64().expect("bytes") >= data.len() as u64, "{written}");
    let metrics = out(&volume.run(&["stats", "--prometheus"]));
    assert!(metrics.contains("# TYPE entrepot_op counter") && metrics.ends_with("# EOF\n"), "{metrics}");

    volume.ok(&["down"]);
    assert!(!volume.at.join("large").exists(), "it is unmounted");
    assert_eq!(code(&volume.run(&["status"])), 3, "no daemon answers");
    volume.up_again();
    assert!(std::fs::read(volume.at.join("large")).expect("read") == data, "the same bytes after a clean end");

    volume.kill();
    assert_eq!(code(&volume.run(&["status"])), 3);
    volume.up_again();
    assert!(std::fs::read(volume.at.join("large")).expect("read") == data, "the same bytes after kill -9");
    assert_eq!(std::fs::read(volume.at.join("small")).expect("read"), b"a few bytes");
}

/// [S-033]
#[test]
fn targets_fail_come_back_and_are_emptied() {
    let Some(volume) = Volume::up() else { return };
    let data = real::noise(12 << 20);
    std::fs::write(volume.at.join("f"), &data).expect("write");
    volume.ok(&["layout", "add-mirror", "f"]);
    let layout = volume.json(&["layout", "f"]);
    assert_eq!(layout["mirrors"].as_array().expect("mirrors").len(), 2);
    let victim = layout["mirrors"][0]["segments"][0]["objects"][0]["target"].as_str().expect("target").to_string();

    let metric = |name: &str| volume.counted(name);
    assert_eq!((metric("mover_changes"), metric("mirrors_stale")), (1, 0));
    assert!(metric("mover_bytes") >= data.len() as u64);
    volume.ok(&["target", "fail", &victim]);
    assert_eq!(volume.state_of(&victim), "failed");
    real::drop_caches_of(&volume.at.join("f"));
    assert!(std::fs::read(volume.at.join("f")).expect("read") == data, "the other mirror is read");
    assert!(out(&volume.run(&["explain", "f"])).contains(&format!("Target {victim} is failed")));
    volume.ok(&["target", "restore", &victim]);
    assert_eq!(volume.state_of(&victim), "ok");

    // The volume may run the resync itself just now, and is then busy.
    real::until("it is resynced", || volume.run(&["layout", "resync", "f"]).status.success());
    volume.ok(&["layout", "drop-mirror", "f", "1"]);
    volume.ok(&["target", "drain", &victim]);
    let layout = volume.json(&["layout", "f"]).to_string();
    assert!(!layout.contains(&format!("\"{victim}\"")), "nothing is left on it: {layout}");
    volume.ok(&["target", "remove", &victim]);
    assert!(std::fs::read(volume.at.join("f")).expect("read") == data);

    let wrong = volume.run(&["target", "fail", "nobody"]);
    assert_eq!(code(&wrong), 2);
    assert!(err(&wrong).contains("there is no target") && err(&wrong).contains("nothing was changed"));

    let spare = volume.dir.path().join("spare");
    std::fs::create_dir(&spare).expect("directory");
    volume.ok(&["target", "add", "spare", spare.to_str().expect("UTF-8"), "--tier", "fast"]);
    volume.ok(&["layout", "move", "f", "--segment", "0", "--to", "spare"]);
    let layout = volume.json(&["layout", "f"]);
    assert_eq!(layout["mirrors"][0]["segments"][0]["objects"][0]["target"], "spare");
    assert!(std::fs::read(volume.at.join("f")).expect("read") == data);
}

#[test]
fn a_second_daemon_is_refused() {
    let Some(volume) = Volume::up() else { return };
    let elsewhere = volume.dir.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("directory");
    for at in [&volume.at, &elsewhere] {
        let second = volume.run(&["up", volume.toml.to_str().expect("UTF-8"), "--at", at.to_str().expect("UTF-8")]);
        assert_eq!(code(&second), 2, "{}", err(&second));
        assert!(err(&second).contains("  next: "), "{}", err(&second));
    }
    volume.ok(&["status"]);
}

/// [S-034]
#[test]
fn the_end_is_refused_while_in_use_and_forced_all_the_same() {
    let Some(volume) = Volume::up() else { return };
    let file = volume.at.join("f");
    std::fs::write(&file, b"x").expect("write");
    let mut user = Command::new("cat").current_dir(&volume.at).stdin(Stdio::piped()).spawn().expect("cat");
    let refused = volume.run(&["down"]);
    let said = err(&refused);
    volume.ok(&["status"]);
    let open = std::fs::File::open(&file).expect("still mounted");
    let forced = volume.run(&["down", "--force"]);
    let call = std::os::unix::fs::FileExt::read_at(&open, &mut [0; 1], 0);
    drop(user.stdin.take());
    user.wait().expect("cat ends");
    assert_eq!(code(&refused), 6, "{said}");
    assert!(said.contains(&format!("cat ({})", user.id())), "{said}");
    assert_eq!(code(&forced), 0, "{}", err(&forced));
    assert!(call.is_err(), "a call on the dead mount is an error, and it returns");
    drop(open);
    volume.up_again();
    assert_eq!(std::fs::read(&file).expect("read"), b"x");
}

/// [S-050]
#[test]
fn users_do_not_command_targets() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root to act as another user");
        return;
    }
    let Some(volume) = Volume::up() else { return };
    std::fs::write(volume.at.join("f"), real::noise(1 << 20)).expect("write");
    std::fs::write(volume.at.join("secret"), real::noise(1 << 20)).expect("write");
    let closed = volume.at.join("closed");
    std::fs::create_dir(&closed).expect("directory");
    std::fs::write(closed.join("f"), b"x").expect("write");
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).expect("chmod");
    };
    mode(&closed, 0o700);
    let before = out(&volume.run(&["target", "list"]));
    for command in [&["target", "fail", "fast0"][..], &["target", "drain", "fast0"], &["down"], &["check"]] {
        let denied = volume.run_as_nobody(command);
        assert_eq!(code(&denied), 4, "{command:?}: {}", err(&denied));
        assert!(err(&denied).contains("operator"), "{}", err(&denied));
    }
    assert_eq!(out(&volume.run(&["target", "list"])), before, "nothing was changed");
    assert_eq!(code(&volume.run_as_nobody(&["layout", "f"])), 0, "what she can reach she may look at");
    assert_eq!(code(&volume.run_as_nobody(&["layout", "add-mirror", "f"])), 4, "and not change");
    assert_ne!(code(&volume.run_as_nobody(&["layout", "closed/f"])), 0, "what she cannot reach she may not see");
    assert_eq!(code(&volume.run_as_nobody(&["status"])), 0);
}

/// [S-188]
#[test]
fn a_job_runs_with_its_data() {
    let Some(volume) = Volume::up() else { return };
    let home = volume.dir.path().join("home");
    std::fs::create_dir(&home).expect("directory");
    let data = real::noise(3 << 20);
    std::fs::write(home.join("input"), &data).expect("write");
    let script = home.join("job.sh");
    let (at, from) = (volume.at.display(), home.display());
    let text = format!(
        "#!/bin/bash\n#ENTREPOT -n 1 -t 00:01:00\n#STAGEIN -retry 1\n\
         #STAGEIN entrepot stage in file://{from}/input {at}/input\n\
         #STAGEOUT entrepot stage out {at}/result file://{from}/result\n\
         cat {at}/input {at}/input > {at}/result\n"
    );
    std::fs::write(&script, text).expect("write");
    let submitted = volume.run_in(&home, &["job", "submit", script.to_str().expect("UTF-8")]);
    assert_eq!(out(&submitted), "job 1\n", "{}", err(&submitted));
    let waited = volume.run(&["job", "wait", "1"]);
    assert_eq!(code(&waited), 0, "{}{}", out(&waited), out(&volume.run(&["job", "show", "1"])));
    assert!(std::fs::read(home.join("result")).expect("the result is home") == [data.clone(), data].concat());
    // The script runs again: its input is there, from the same source and unchanged.
    let again = volume.run_in(&home, &["job", "submit", "--wait", script.to_str().expect("UTF-8")]);
    assert!(code(&again) == 0 && out(&again).starts_with("job 2\n"), "{}{}", out(&again), err(&again));
    let said = out(&volume.run(&["job", "log", "2", "--part", "stage-in"]));
    assert!(said.contains("(0 B transferred now)"), "{said}");
    assert_eq!(["submitted", "completed", "failed"].map(|name| volume.counted(&format!("jobs_{name}"))), [2, 2, 0]);
    let shown = volume.json(&["job", "show", "1"]);
    assert_eq!(shown["summary"]["state"], "completed");
    let source = volume.json(&["source", "get", "input"]);
    assert_eq!(source["sources"][0]["uri"], format!("file://{from}/input"));
    // The same through the attribute, and nothing else is believed.
    let (input, attribute) = (volume.at.join("input"), "user.entrepot.source");
    let set = |uri: &str| rustix::fs::setxattr(&input, attribute, uri.as_bytes(), rustix::fs::XattrFlags::empty());
    set("").expect("forgotten");
    assert!(volume.json(&["source", "get", "input"]).is_null());
    set(&format!("file://{from}/input")).expect("set");
    assert_eq!(volume.json(&["source", "get", "input"]), source);
    set(&format!("file://{from}/job.sh")).expect_err("other bytes");
    set("https://user:password@example.org/input").expect_err("a password");
}
