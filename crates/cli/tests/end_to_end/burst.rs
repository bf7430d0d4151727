//! Checkpoints in the burst buffer: where they land, what leaves, what survives, what happens when nothing is left.

use super::real::{self, Volume, code, err, out};
use super::redis::Redis;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// `volume.toml` with a burst buffer.
pub fn with_burst(more: impl Into<String>) -> impl FnOnce(String) -> String {
    let more = more.into();
    move |text| {
        let text = text.split("\n[burst]\n").next().expect("a text").to_owned();
        format!(
            "{text}\n[burst]\nfast = \"fast\"\ncapacity = \"capacity\"\ncheckpoints = [\"ckpt/{{app}}/{{version}}/**\"]\n{more}"
        )
    }
}

pub fn versions(volume: &Volume, app: &str) -> Vec<Value> {
    volume.json(&["checkpoint", "list", app])["versions"].as_array().expect("versions").clone()
}

pub fn newest(volume: &Volume, app: &str) -> Option<Value> {
    versions(volume, app).into_iter().find(|v| v["newest"] == true)
}

/// The tiers of a file's mirrors, by the names of their targets.
pub fn tiers(volume: &Volume, file: &str) -> Vec<&'static str> {
    let layout = volume.json(&["layout", file]);
    let of = |mirror: &Value| {
        let text = mirror.to_string();
        match (text.contains("\"fast"), text.contains("\"capacity")) {
            (true, false) => "fast",
            (false, true) => "capacity",
            _ => "both",
        }
    };
    layout["mirrors"].as_array().expect("mirrors").iter().map(of).collect()
}

pub fn write(volume: &Volume, app: &str, version: &str, data: &[u8]) -> std::io::Result<PathBuf> {
    let dir = volume.at.join(format!("ckpt/{app}/{version}"));
    std::fs::create_dir_all(&dir)?;
    let path = dir.join("state");
    std::fs::write(&path, data)?;
    Ok(path)
}

pub fn until_complete(volume: &Volume, app: &str, label: &str) {
    real::until("it is complete", || complete(volume, app, label));
}

/// A number of the buffer's state.
pub fn status(volume: &Volume, name: &str) -> Option<u64> {
    volume.json(&["checkpoint", "status"])[name].as_u64()
}

pub fn complete(volume: &Volume, app: &str, label: &str) -> bool {
    versions(volume, app).iter().any(|v| v["label"] == label && v["state"] == "complete")
}

#[test]
fn a_checkpoint_has_its_turn_once_and_leaves_for_a_reason_in_words() {
    let Some(volume) = Volume::up_with(with_burst("")) else { return };
    // Longer than what is promised to one of unknown size at first, so that it asks for more room.
    write(&volume, "wave", "1", &real::noise(20_000_000)).expect("written");
    real::until("it is demoted", || tiers(&volume, "ckpt/wave/1/state") == ["fast", "capacity"]);
    let of = |kind: &str| -> Vec<Value> {
        let told = out(&volume.run(&["events", "--output", "json"]));
        let told = told.lines().map(|line| serde_json::from_str::<Value>(line).expect("an object"));
        told.filter(|event| event["kind"] == kind).collect()
    };
    real::until("the move is an event", || !of("move").is_empty());
    let turns = of("burst").iter().filter(|event| event["what"].to_string().contains("has its turn")).count();
    assert_eq!(turns, 1, "{:?}", of("burst"));
    let why = of("move")[0]["why"].as_str().expect("a reason").to_owned();
    assert_eq!(why, "a checkpoint leaves the burst buffer: the failure rate of its application is unknown");
    let status = volume.json(&["checkpoint", "status"]);
    assert_eq!((&status["policy"], &status["pattern"]), (&"predicted".into(), &"demotes in pauses".into()));
}

/// [S-120]
#[test]
fn checkpoints_land_on_the_fast_tier_leave_in_time_and_are_read_from_the_faster() {
    lands_and_leaves(Volume::up_with(with_burst(LANDS)));
}

/// The previous test with the tables in Redis. [S-120] [S-122]
#[test]
fn with_its_tables_in_redis_the_buffer_does_the_same() {
    let Some(mut redis) = Redis::start() else { return };
    lands_and_leaves(Volume::up_with(|text| redis.keeps_state(&with_burst(LANDS)(text))));
    let volume = Volume::up_with(|text| redis.keeps_state(&with_burst(KILLED)(text)));
    let Some(volume) = volume else { return };
    killed(&volume, 2);
    assert!(!volume.toml.with_file_name("state/state.db").exists(), "nothing is kept in a file");
    // With the server gone, existing files can be read; a new version does not count, and fails in bounded time.
    let newest = newest(&volume, "app0").expect("one");
    let file = volume.at.join(newest["files"][0].as_str().expect("a file"));
    redis.end();
    assert!(std::fs::read(&file).is_ok_and(|bytes| bytes.len() == 1 << 20));
    let refused = volume.run(&["checkpoint", "begin", "other", "--path", volume.at.to_str().expect("UTF-8")]);
    assert!(code(&refused) != 0 && err(&refused).contains("cannot be reached"), "{}", err(&refused));
}

const LANDS: &str = "size = \"20MB\"\norder = \"versions\"\npolicy = \"bbos\"\n";

fn lands_and_leaves(volume: Option<Volume>) {
    let Some(volume) = volume else { return };
    let data: Vec<Vec<u8>> = (0..5u8).map(|n| real::noise((8 << 20) + n as usize)).collect();
    write(&volume, "wave", "1", &data[1]).expect("write");
    until_complete(&volume, "wave", "1");
    assert_eq!(newest(&volume, "wave").expect("one")["label"], "1");
    real::until("it is in both places", || tiers(&volume, "ckpt/wave/1/state") == ["fast", "capacity"]);
    real::until("the list says so", || newest(&volume, "wave").expect("one")["place"] == "both");

    // Two more do not fit beside it: the oldest leaves the buffer.
    for label in ["2", "3"] {
        write(&volume, "wave", label, &data[label.parse::<usize>().expect("a number")]).expect("write");
    }
    real::until("they are complete", || complete(&volume, "wave", "3"));
    real::until("the first has left", || tiers(&volume, "ckpt/wave/1/state") == ["capacity"]);
    assert_eq!(newest(&volume, "wave").expect("one")["label"], "3");
    assert!(tiers(&volume, "ckpt/wave/3/state").contains(&"fast"), "the newest stays in the buffer");
    for (n, written) in data.iter().enumerate().take(4).skip(1) {
        let path = volume.at.join(format!("ckpt/wave/{n}/state"));
        assert!(std::fs::read(&path).expect("read") == *written, "version {n}");
    }
    let burst = volume.json(&["status"])["burst"].clone();
    assert!(burst["used"].as_u64().expect("used") <= 20_000_000, "{burst}");
    assert!(
        burst["demoted"].as_u64().expect("demoted") >= 1 && burst["limits"].as_str().expect("limits").contains("token")
    );
    assert!(out(&volume.run(&["status"])).contains("burst "));
    real::until("the read of the newest was a restart", || status(&volume, "restarts_from_buffer") == Some(1));
    let shown = out(&volume.run(&["checkpoint", "status"]));
    assert!(shown.contains("wave") && shown.contains("learned"), "{shown}");
    assert_eq!(code(&volume.run(&["checkpoint", "advise", "wave"])), 0);

    // Files of one version that are written one after the other are one version.
    for rank in ["a", "b"] {
        std::fs::create_dir_all(volume.at.join("ckpt/many/1")).expect("directory");
        std::fs::write(volume.at.join("ckpt/many/1").join(rank), &data[0][..100_000]).expect("write");
        until_complete(&volume, "many", "1");
    }
    real::until("both belong to it", || {
        newest(&volume, "many").is_some_and(|v| v["files"].as_array().map(Vec::len) == Some(2))
    });
    assert_eq!(versions(&volume, "many").len(), 1);

    // A version that its owner removes is no version.
    std::fs::remove_file(volume.at.join("ckpt/wave/3/state")).expect("remove");
    real::until("the one before is the newest", || newest(&volume, "wave").is_some_and(|v| v["label"] == "2"));
    // A file written again under the same name is another version, on the fast tier again.
    write(&volume, "wave", "1", &data[4]).expect("write");
    real::until("it is the newest", || newest(&volume, "wave").is_some_and(|v| v["label"] == "1"));
    assert!(std::fs::read(volume.at.join("ckpt/wave/1/state")).expect("read") == data[4]);
    real::until("it came to the fast tier", || tiers(&volume, "ckpt/wave/1/state").contains(&"fast"));
    // Other files are not touched.
    std::fs::write(volume.at.join("other"), &data[0]).expect("write");
    assert!(std::fs::read(volume.at.join("other")).expect("read") == data[0]);
}

/// [S-365]
#[test]
fn a_checkpoint_that_meets_a_quota_names_the_quota_and_the_file() {
    let Some(volume) = Volume::up_with(with_burst("")) else { return };
    let dir = volume.at.join("run");
    std::fs::create_dir(&dir).expect("directory");
    volume.ok(&["quota", "set", "--directory", "run", "--hard", "1MiB"]);
    volume.ok(&["checkpoint", "begin", "own", "--path", dir.to_str().expect("UTF-8"), "--version", "1"]);
    let written = std::fs::write(dir.join("rank0"), real::noise(4 << 20));
    assert!(written.is_err_and(|error| error.raw_os_error() == Some(rustix::io::Errno::DQUOT.raw_os_error())));
    let refused = volume.run(&["checkpoint", "commit", "own"]);
    assert_eq!(code(&refused), 1, "{}", err(&refused));
    for word in ["run/rank0", "the quota of the directory", "is used up"] {
        assert!(err(&refused).contains(word) && !err(&refused).contains("busy"), "{word}: {}", err(&refused));
    }
}

/// [S-364]
#[test]
fn names_of_applications_belong_to_users_and_the_path_finds_the_volume() {
    let Some(volume) = Volume::up_with(with_burst("")) else { return };
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root to be another user");
        return;
    }
    let [mine, theirs] = ["mine", "theirs"].map(|name| volume.at.join(name));
    std::fs::create_dir(&mine).expect("directory");
    std::fs::create_dir(&theirs).expect("directory");
    std::os::unix::fs::chown(&theirs, Some(65534), Some(65534)).expect("chown");
    volume.ok(&["checkpoint", "begin", "wave", "--path", mine.to_str().expect("UTF-8"), "--version", "m"]);
    let begun = volume.run_as_nobody(&["checkpoint", "begin", "wave", "--path", "theirs", "--version", "t"]);
    assert_eq!(code(&begun), 0, "{}", err(&begun));
    std::fs::write(mine.join("state"), real::noise(100_000)).expect("write");
    std::fs::write(theirs.join("state"), real::noise(200_000)).expect("write");
    let ended = volume.run_as_nobody(&["checkpoint", "commit", "wave", "--abandon"]);
    assert_eq!(code(&ended), 0, "{}", err(&ended));
    volume.ok(&["checkpoint", "commit", "wave"]);
    let labels = |volume: &Volume| versions(volume, "wave").iter().map(|v| v["label"].clone()).collect::<Vec<_>>();
    assert_eq!(labels(&volume), ["m"]);
    // From elsewhere, with nothing but the path.
    let program = volume.binary.to_str().expect("UTF-8");
    let words = ["checkpoint", "begin", "other", "--path", mine.to_str().expect("UTF-8")];
    let mut command = std::process::Command::new(program);
    let found = command.args(words).current_dir("/").env_remove("ENTREPOT_VOLUME").output().expect("it runs");
    assert_eq!(code(&found), 0, "{}", err(&found));
}

/// [S-363]
#[test]
fn a_file_that_a_version_lacks_is_named_and_the_version_does_not_count() {
    let Some(volume) = Volume::up_with(with_burst("")) else { return };
    let dir = volume.at.join("run/1");
    std::fs::create_dir_all(&dir).expect("directory");
    std::fs::create_dir(volume.at.join("aside")).expect("directory");
    std::fs::write(dir.join("input"), "older than the version").expect("write");
    let at = dir.display().to_string();
    volume.ok(&["checkpoint", "begin", "own", "--path", &at, "--version", "1"]);
    std::fs::write(dir.join("rank0"), real::noise(1 << 20)).expect("write");
    // No record connects the file with the version, as after the end of the node that wrote it.
    std::fs::write(volume.at.join("aside/rank1"), real::noise(1 << 20)).expect("write");
    std::fs::rename(volume.at.join("aside/rank1"), dir.join("rank1")).expect("rename");
    std::fs::write(dir.join("empty"), "").expect("write");
    let refused = volume.run(&["checkpoint", "commit", "own"]);
    assert_eq!(code(&refused), 7, "{}{}", out(&refused), err(&refused));
    assert!(err(&refused).contains("run/1/rank1") && !err(&refused).contains("input"), "{}", err(&refused));
    assert!(!complete(&volume, "own", "1"));
    // Written under a name of its own and renamed, it is a part of the version.
    volume.ok(&["checkpoint", "begin", "own", "--path", &at, "--version", "2"]);
    for rank in ["rank0", "rank1"] {
        std::fs::write(dir.join("new"), real::noise(1 << 20)).expect("write");
        std::fs::rename(dir.join("new"), dir.join(rank)).expect("rename");
    }
    volume.ok(&["checkpoint", "commit", "own"]);
    assert!(complete(&volume, "own", "2"));
}

/// [S-121]
#[test]
fn a_version_that_was_begun_counts_once_it_was_committed() {
    let Some(volume) = Volume::up_with(with_burst("")) else { return };
    let dir = volume.at.join("run7");
    std::fs::create_dir(&dir).expect("directory");
    let begin = |label: &str| {
        volume.ok(&[
            "checkpoint",
            "begin",
            "wave",
            "--path",
            dir.to_str().expect("UTF-8"),
            "--version",
            label,
            "--size",
            "4MiB",
            "--nodes",
            "512",
        ])
    };
    begin("a");
    for rank in 0..3 {
        std::fs::write(dir.join(format!("rank-{rank}")), real::noise(1 << 20)).expect("write");
    }
    assert_eq!(versions(&volume, "wave")[0]["state"], "writing");
    assert!(newest(&volume, "wave").is_none(), "closing the files does not complete it");
    let again = volume.run(&["checkpoint", "begin", "wave"]);
    assert_eq!(code(&again), 6, "{}", err(&again));
    volume.ok(&["checkpoint", "commit", "wave"]);
    let one = newest(&volume, "wave").expect("one");
    assert_eq!((&one["label"], one["files"].as_array().map(Vec::len)), (&Value::from("a"), Some(3)));
    let numbers = out(&volume.run(&["stats", "--prometheus"]));
    for (name, value) in [("checkpoints_committed_total", "1.0"), ("burst_versions", "1.0"), ("burst_waiting", "0.0")] {
        let is_it =
            |line: &str| line.starts_with(&format!("entrepot_{name}{{")) && line.ends_with(&format!(" {value}"));
        assert!(numbers.lines().any(is_it), "{name} in {numbers}");
    }
    let known = volume.json(&["checkpoint", "status"])["applications"][0].clone();
    assert_eq!((&known["mtbf_from"], known["mtbf_s"].as_u64()), (&Value::from("nodes"), Some(43_800 * 3600 / 512)));

    // Begun, written in part, and the daemon is killed: the version before it is the newest.
    begin("b");
    std::fs::write(dir.join("rank-9"), real::noise(1 << 20)).expect("write");
    volume.kill();
    volume.up_again();
    let left = versions(&volume, "wave");
    assert_eq!((left.len(), &left[0]["label"], &left[0]["newest"]), (1, &Value::from("a"), &Value::from(true)));

    begin("c");
    volume.ok(&["checkpoint", "commit", "wave", "--abandon"]);
    begin("d");
    let nothing = volume.run(&["checkpoint", "commit", "wave"]);
    assert!(code(&nothing) != 0 && err(&nothing).contains("no file of version"), "{}", err(&nothing));
    let outside = volume.run_in(std::path::Path::new("/"), &["checkpoint", "begin", "wave"]);
    assert_eq!(code(&outside), 2, "{}", err(&outside));
    assert_eq!(code(&volume.run(&["checkpoint", "commit", "nobody"])), 5);
}

/// A job's script marks its checkpoints: by the local runner, with nothing in `volume.toml`.
#[test]
fn a_job_marks_its_checkpoints_in_its_script() {
    let edit = |text: String| with_burst("")(text).replace("checkpoints = [\"ckpt/{app}/{version}/**\"]\n", "");
    let Some(volume) = Volume::up_with(edit) else { return };
    let run = volume.at.join("run7");
    std::fs::create_dir(&run).expect("directory");
    let script = volume.dir.path().join("job.sh");
    let submit = |directive: &str, body: &str| {
        std::fs::write(&script, format!("#!/bin/sh\n#ENTREPOT -J wave\n{directive}\n{body}\n")).expect("write");
        volume.run_in(&run, &["job", "submit", script.to_str().expect("UTF-8")])
    };
    for (bad, cause) in [
        ("#CHECKPOINT path=/etc/x", "not in the volume"),
        ("#CHECKPOINT path=a nodes=few", "nodes is"),
        ("# CHECKPOINT path=a", "ordinary comment"),
    ] {
        let refused = submit(bad, "touch ran");
        assert!(
            code(&refused) != 0 && err(&refused).contains("line 3") && err(&refused).contains(cause),
            "{}",
            err(&refused)
        );
    }
    assert!(!run.join("ran").exists(), "what is refused does not run");

    // The awaited file lies outside the volume: the job's own directory disappears with the killed daemon.
    let go = volume.dir.path().join("go");
    let body = format!(
        "for n in 1 2; do mkdir -p step-$n; head -c 3000000 /dev/urandom > step-$n/rank-0; \
        cp step-$n/rank-0 step-$n/rank-1; done; echo over > log; while [ ! -e {} ]; do sleep 0.1; done",
        go.display()
    );
    let submitted = submit("#CHECKPOINT path=step-{version}/** nodes=512 interval=1h", &body);
    assert_eq!(code(&submitted), 0, "{}", err(&submitted));
    real::until("both versions are complete", || {
        newest(&volume, "wave").is_some_and(|v| v["label"] == "2" && v["files"].as_array().map(Vec::len) == Some(2))
    });
    let known = volume.json(&["checkpoint", "status"])["applications"][0].clone();
    assert_eq!((&known["mtbf_from"], known["interval_s"].as_u64()), (&Value::from("nodes"), Some(3600)));
    assert!(tiers(&volume, "run7/step-2/rank-1").contains(&"fast"));
    assert_eq!(versions(&volume, "wave").len(), 2, "the log is no checkpoint");

    // The job lives on while the daemon dies, and what it marks is known again.
    volume.kill();
    volume.up_again();
    std::fs::create_dir(run.join("step-9")).expect("directory");
    std::fs::write(run.join("step-9/rank-0"), real::noise(1 << 20)).expect("write");
    real::until("a file that matches is a checkpoint still", || newest(&volume, "wave").expect("one")["label"] == "9");
    std::fs::write(&go, "").expect("write");
    real::until("the job is over", || volume.json(&["job", "list"]).as_array().is_some_and(Vec::is_empty));
    std::fs::create_dir(run.join("step-10")).expect("directory");
    std::fs::write(run.join("step-10/rank-0"), real::noise(1 << 20)).expect("write");
    // A restart is seen also when no job marks the files any more.
    assert_eq!(std::fs::read(run.join("step-9/rank-0")).expect("read").len(), 1 << 20);
    real::until("the restart was seen", || {
        volume.json(&["checkpoint", "status"])["applications"][0]["restarts"].as_u64() == Some(1)
    });
    assert_eq!(newest(&volume, "wave").expect("one")["label"], "9", "after the job its patterns mean nothing");
}

/// Bytes that say whose and which they are, and where.
fn stamped(app: u64, version: u64, len: usize) -> Vec<u8> {
    let word = |n: usize| (app << 48 | version << 32 | n as u64).to_le_bytes();
    (0..len / 8).flat_map(word).collect()
}

/// Killed at many points, with the page cache dropped: the newest complete version of every application is there,
/// whole, and none that was committed before is lost. [S-122]
#[test]
fn no_committed_checkpoint_is_lost_or_half_after_a_kill() {
    let Some(volume) = Volume::up_with(with_burst(KILLED)) else { return };
    killed(&volume, 4);
}

const KILLED: &str = "size = \"12MB\"\n";

fn killed(volume: &Volume, rounds: u64) {
    const LEN: usize = 1 << 20;
    let mut number = 0;
    for round in 0..rounds {
        let committed: [AtomicU64; 2] = Default::default();
        let first = number + 1;
        std::thread::scope(|scope| {
            for app in 0..2u64 {
                let committed = &committed;
                scope.spawn(move || {
                    for n in first..first + 40 {
                        let name = format!("app{app}");
                        if write(volume, &name, &format!("{n:04}"), &stamped(app, n, LEN)).is_err() {
                            return;
                        }
                        // Not with a working directory in the mount, which may be killed at any moment.
                        let list = volume.run_in(Path::new("/"), &["checkpoint", "list", &name, "--output", "json"]);
                        let Ok(list) = serde_json::from_slice::<Value>(&list.stdout) else { return };
                        let labels =
                            list["versions"].as_array().into_iter().flatten().filter(|v| v["state"] == "complete");
                        let newest = labels.filter_map(|v| v["label"].as_str()?.parse::<u64>().ok()).max();
                        committed[app as usize].fetch_max(newest.unwrap_or(0), Ordering::AcqRel);
                    }
                });
            }
            // Later in each round, so that demotions and deletions are under way too.
            let enough = first + 2 + 3 * round;
            real::until("some are committed", || committed.iter().all(|c| c.load(Ordering::Acquire) >= enough));
            volume.kill();
        });
        volume.up_again();
        for app in 0..2u64 {
            let name = format!("app{app}");
            let known = committed[app as usize].load(Ordering::Acquire);
            let newest = newest(volume, &name).expect("a version");
            let label = newest["label"].as_str().expect("a label").parse::<u64>().expect("a number");
            assert!(label >= known, "{name}: {label} is newest, {known} was complete");
            for version in versions(volume, &name).iter().filter(|v| v["state"] == "complete") {
                let n = version["label"].as_str().expect("a label").parse::<u64>().expect("a number");
                let path = volume.at.join(version["files"][0].as_str().expect("a file"));
                real::drop_caches_of(&path);
                assert!(std::fs::read(&path).expect("read") == stamped(app, n, LEN), "{name} version {n} is whole");
            }
            number = number.max(first + 40);
        }
    }
}

#[test]
fn a_volume_without_a_buffer_says_so() {
    let Some(volume) = Volume::up() else { return };
    let refused = volume.run(&["checkpoint", "list"]);
    assert_eq!(code(&refused), 2, "{}", err(&refused));
    assert!(err(&refused).contains("no burst buffer") && err(&refused).contains("[burst]"));
    assert!(volume.json(&["status"])["burst"].is_null());
}
