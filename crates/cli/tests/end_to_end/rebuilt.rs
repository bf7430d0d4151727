//! A lost state without a backup: `entrepot state rebuild` as in docs/guide/operate/backup.md.

use super::redis::Redis;
use crate::real::{Volume, code, err, is_over, noise, out, until};
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};

/// The commands of the operator's guide, one a line.
fn commands() -> Vec<String> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/operate/backup.md");
    let guide = fs::read_to_string(guide).expect("the guide");
    let section = guide.split("\n## ").find(|section| section.starts_with("The state is lost\n")).expect("the section");
    let part = section.split("```sh\n# ").find(|part| part.starts_with("rebuild\n")).expect("the part");
    part.lines().skip(1).take_while(|line| *line != "```").map(str::to_owned).collect()
}

fn shell(volume: &Volume, line: &str) -> Output {
    let path = std::env::var("PATH").expect("a path");
    let mut shell = Command::new("bash");
    shell.args(["-euc", line]).current_dir("/").env_remove("ENTREPOT_VOLUME");
    shell.env("PATH", format!("{}:{path}", volume.binary.parent().expect("a directory").display()));
    shell.env("VOLUME", &volume.toml).env("MOUNT", &volume.at).output().expect("bash runs")
}

/// Runs them all; the check may find what is left over or half done, and nothing else.
fn by_the_guide(volume: &Volume) {
    let mut lines = commands();
    let check = lines.pop().expect("commands");
    for line in lines {
        let done = shell(volume, &line);
        assert_eq!(code(&done), 0, "{line}: {}{}\n{}", out(&done), err(&done), volume.log_if_any());
    }
    let done = shell(volume, &format!("{check} --output json"));
    let report: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let findings = report["findings"].as_array().expect("findings");
    println!("{findings:?}");
    assert!(findings.iter().all(|found| found["kind"] == "orphan" || found["kind"] == "mirror_stale"), "{report}");
}

/// Files that lie in all ways that there are.
fn fill(volume: &Volume) -> Vec<(String, Vec<u8>)> {
    let mut files = vec![("small".to_owned(), b"a few bytes".to_vec())];
    for (n, len) in [300_000, 2 << 20, 9 << 20].into_iter().enumerate() {
        files.push((format!("d/striped-{n}"), noise(len)));
    }
    files.push(("mirrored".into(), noise(5 << 20)));
    fs::create_dir(volume.at.join("d")).expect("directory");
    for (name, bytes) in &files {
        fs::write(volume.at.join(name), bytes).expect("write");
    }
    volume.ok(&["layout", "add-mirror", "mirrored"]);
    let from = volume.dir.path().join("source");
    let bytes = noise(7 << 20);
    fs::write(&from, &bytes).expect("write");
    volume.ok(&["stage", "in", &format!("file://{}", from.display()), "staged"]);
    files.push(("staged".into(), bytes));
    files
}

fn are_there(volume: &Volume, files: &[(String, Vec<u8>)]) {
    for (name, bytes) in files {
        let read = fs::read(volume.at.join(name)).unwrap_or_else(|e| panic!("{name}: {e}\n{}", volume.log_if_any()));
        assert!(read == *bytes, "{name}");
    }
}

fn numbers(volume: &Volume) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut todo = vec![volume.toml.parent().expect("a directory").join("targets")];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).expect("list").map(|entry| entry.expect("entry")) {
            if entry.path().is_dir() {
                todo.push(entry.path());
            } else if entry.file_name().len() == 16 {
                all.insert(entry.file_name().into_string().expect("UTF-8"));
            }
        }
    }
    all
}

fn objects_of(volume: &Volume, file: &str) -> BTreeSet<String> {
    let layout = volume.json(&["layout", file]);
    let all = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let segments = all(&layout, "mirrors").into_iter().flat_map(|mirror| all(&mirror, "segments"));
    let objects = segments.flat_map(|segment| all(&segment, "objects"));
    objects.map(|object| object["object"].as_str().expect("a number").to_owned()).collect()
}

fn crash(volume: &Volume) {
    volume.kill();
    drop(Command::new("umount").arg("-l").arg(&volume.at).status());
}

fn up(volume: &Volume) -> Output {
    volume.run(&["up", volume.toml.to_str().expect("UTF-8"), "--at", volume.at.to_str().expect("UTF-8"), "--detach"])
}

fn lose_embedded(volume: &Volume) {
    let state = volume.toml.parent().expect("a directory").join("state");
    for name in ["state.db", "state.db-wal", "files.db"] {
        drop(fs::remove_file(state.join(name)));
    }
}

fn rebuild(volume: &Volume, words: &[&str]) -> Output {
    let toml = volume.toml.to_str().expect("UTF-8");
    volume.run_in(Path::new("/"), &[&["--volume", toml, "state", "rebuild"], words].concat())
}

/// A move takes long enough to die in it.
fn slow_moves(toml: &str) -> String {
    let line = toml.lines().find(|line| line.starts_with("# rate = ")).expect("the mover's rate");
    toml.replacen(line, "rate = \"4MB\"", 1)
}

/// Checks that nothing is lost and new files take no old number. Existing objects stay, except for a rebuilt mirror.
/// Once no name is missing, nothing is left over.
fn is_as_before(volume: &Volume, files: &[(String, Vec<u8>)], before: &BTreeSet<String>, made_anew: &BTreeSet<String>) {
    are_there(volume, files);
    let first: Vec<_> = (0..4).map(|n| (format!("new-{n}"), noise((3 << 20) + n))).collect();
    for (name, bytes) in &first {
        fs::write(volume.at.join(name), bytes).expect("write");
    }
    let repaired = volume.run(&["check", "--repair"]);
    let after = numbers(volume);
    println!("{}{}", out(&repaired), err(&repaired));
    assert!(before.difference(&after).all(|gone| made_anew.contains(gone)), "no object is removed by itself");
    let epoch = |number: &String| u32::from_str_radix(&number[..8], 16).expect("a number");
    let last = before.iter().map(epoch).max().expect("objects");
    assert!(after.difference(before).all(|number| epoch(number) > last), "{before:?} {after:?}");
    are_there(volume, &first);
    volume.ok(&["check", "--deep", "--repair", "--drop-unknown"]);
    volume.ok(&["check"]);
    are_there(volume, files);
}

/// [S-220] [S-221]
#[test]
fn a_state_that_is_lost_costs_no_byte() {
    let Some(volume) = Volume::up() else { return };
    let mut files = fill(&volume);
    let made_anew = objects_of(&volume, "mirrored");
    let refused = rebuild(&volume, &[]);
    assert!(code(&refused) == 2 && err(&refused).contains("open already, in process"), "{}", err(&refused));
    // A mirror that missed a write is known by the file alone; that its target is failed, only by the state.
    let mirror = || volume.json(&["layout", "mirrored"])["mirrors"].take();
    let failed = mirror()[0]["segments"][0]["objects"][0]["target"].as_str().expect("a target").to_owned();
    volume.ok(&["target", "fail", &failed]);
    let (_, bytes) = files.iter_mut().find(|(name, _)| name == "mirrored").expect("the file");
    bytes[..500_000].fill(7);
    let file = fs::File::options().write(true).open(volume.at.join("mirrored")).expect("open");
    file.write_all_at(&bytes[..500_000], 0).expect("write");
    file.sync_all().expect("sync");
    drop(file);
    crash(&volume);
    let refused = rebuild(&volume, &[]);
    assert!(code(&refused) == 2 && err(&refused).contains("in use already"), "{}", err(&refused));
    lose_embedded(&volume);
    let refused = up(&volume);
    assert!(code(&refused) == 2 && err(&refused).contains("entrepot state rebuild"), "{}", err(&refused));
    let before = numbers(&volume);
    by_the_guide(&volume);
    is_as_before(&volume, &files, &before, &made_anew);
    volume.ok(&["down"]);
    let refused = rebuild(&volume, &[]);
    assert!(code(&refused) == 2 && err(&refused).contains("in use already"), "{}", err(&refused));
    volume.up_again();
    are_there(&volume, &files);
}

/// [S-220]
#[test]
fn a_second_lost_target_is_recovered_from_source_or_mirror() {
    let Some(volume) = Volume::up_with(super::recovery::direct) else { return };
    let files = fill(&volume);
    let on = |file: &str, target: &str| !volume.ranges_on(file, target).is_empty();
    let all = ["fast0", "fast1", "fast2", "capacity0", "capacity1", "capacity2"];
    let gone =
        all.into_iter().find(|target| on("d/striped-2", target) && on("staged", target) && on("mirrored", target));
    let gone = gone.expect("files of that size meet");
    let alone = volume.ranges_on("d/striped-2", gone);
    volume.ok(&["down"]);
    lose_embedded(&volume);
    let targets = volume.toml.parent().expect("a directory").join("targets");
    fs::rename(targets.join(gone), targets.join("away")).expect("rename");
    fs::create_dir(targets.join(gone)).expect("a mount point");
    let refused = rebuild(&volume, &[]);
    let said = err(&refused);
    assert!(code(&refused) == 2 && said.contains(&format!("target \"{gone}\" cannot be checked")), "{said}");
    assert!(said.contains(&format!("--lost {gone}")) && said.contains("nothing was changed"), "{said}");
    assert!(!volume.toml.parent().expect("a directory").join("state/state.db").exists());
    let said: Value =
        serde_json::from_slice(&rebuild(&volume, &["--lost", gone, "--output", "json"]).stdout).expect("JSON");
    let found = said["targets"].as_array().expect("targets").iter().find(|target| target["name"] == gone);
    let found = found.expect("the target");
    assert!(found["state"] == "failed" && found["files_that_name_it"].as_u64() > Some(2), "{said}");
    volume.up_again();
    assert_eq!(volume.state_of(gone), "failed");
    // The target is failed and not empty: data without mirror and source are an error, and no zeros.
    let file = fs::File::open(volume.at.join("d/striped-2")).expect("open");
    let mut byte = [0; 4096];
    assert!(file.read_exact_at(&mut byte, alone[0].start as u64).is_err());
    drop(file);
    let has_another = |name: &str| name == "staged" || name == "mirrored" || name == "small";
    let (safe, lone): (Vec<_>, Vec<_>) = files.into_iter().partition(|(name, _)| has_another(name));
    are_there(&volume, &safe);
    assert!(!targets.join(format!("{gone}/target.id")).exists(), "nobody made it anew");
    // The target was only unavailable.
    fs::remove_dir(targets.join(gone)).expect("empty");
    fs::rename(targets.join("away"), targets.join(gone)).expect("rename");
    volume.ok(&["target", "restore", gone]);
    are_there(&volume, &lone);
    are_there(&volume, &safe);
    until("all is in order", || volume.run(&["check", "--repair", "--drop-unknown"]).status.success());
}

/// [S-220] [S-221]
#[test]
fn a_redis_server_that_forgot_everything_costs_no_byte() {
    let Some(redis) = Redis::start() else { return };
    let Some(volume) = Volume::up_with(|text| redis.keeps_state(&slow_moves(&text))) else { return };
    let files = fill(&volume);
    let made_anew = objects_of(&volume, "mirrored");
    let refused = rebuild(&volume, &[]);
    assert!(code(&refused) == 2 && err(&refused).contains("open already, in process"), "{}", err(&refused));
    // The daemon dies in a move, and its lease stays.
    volume.ok(&["target", "drain", "fast0", "--no-wait"]);
    let journals = || {
        let mut ask = Command::new("redis-cli");
        ask.arg("-s").arg(redis.socket()).args(["--scan", "--pattern", "entrepot:*:journal"]);
        out(&ask.output().expect("redis-cli")).trim().len()
    };
    let pid = volume.pid().expect("a daemon");
    until("it stands still in a move", || {
        kill_process(pid, Signal::STOP).expect("stopped");
        let moves = journals() > 0;
        if !moves {
            kill_process(pid, Signal::CONT).expect("goes on");
        }
        moves
    });
    kill_process(pid, Signal::KILL).expect("kill");
    until("it is gone", || is_over(pid));
    drop(Command::new("umount").arg("-l").arg(&volume.at).status());
    let refused = rebuild(&volume, &[]);
    assert!(code(&refused) == 2 && err(&refused).contains("in use already"), "{}", err(&refused));
    let flushed = Command::new("redis-cli").arg("-s").arg(redis.socket()).arg("FLUSHALL").output().expect("redis-cli");
    assert!(flushed.status.success(), "{}", err(&flushed));
    let refused = up(&volume);
    assert!(code(&refused) == 2 && err(&refused).contains("entrepot state rebuild"), "{}", err(&refused));
    let before = numbers(&volume);
    let dry = rebuild(&volume, &["--dry-run"]);
    assert!(code(&dry) == 0 && out(&dry).contains("1 node that stood still would be over"), "{}", out(&dry));
    by_the_guide(&volume);
    is_as_before(&volume, &files, &before, &made_anew);
}
