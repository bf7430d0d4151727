//! Backup and restore as in docs/guide/operate/backup.md, another daemon on the same namespace, a state store that is
//! full or that other processes read.

use crate::full::Small;
use crate::real::{Volume, code, err, noise, out, until};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The commands of the operator's guide, one a line.
fn commands(heading: &str) -> Vec<String> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/operate/backup.md");
    let guide = fs::read_to_string(guide).expect("the guide");
    let section =
        guide.split("\n## ").find(|section| section.starts_with("Back up and restore\n")).expect("the section");
    let part = section.split("```sh\n# ").find(|part| part.starts_with(heading)).expect("the part");
    part.lines().skip(1).take_while(|line| *line != "```").map(str::to_owned).collect()
}

struct Guide<'a> {
    volume: &'a Volume,
    backup: PathBuf,
}

impl Guide<'_> {
    fn run(&self, line: &str) -> Output {
        let root = self.volume.toml.parent().expect("a directory");
        let path = std::env::var("PATH").expect("a path");
        let mut shell = Command::new("bash");
        shell.args(["-euc", line]).current_dir("/").env_remove("ENTREPOT_VOLUME");
        shell.env("PATH", format!("{}:{path}", self.volume.binary.parent().expect("a directory").display()));
        shell
            .env("VOLUME", &self.volume.toml)
            .env("NAMESPACE", root.join("namespace"))
            .env("STATE", root.join("state"));
        shell.env("BACKUP", &self.backup).env("MOUNT", &self.volume.at);
        shell.output().expect("bash runs")
    }

    fn must(&self, line: &str) {
        let done = self.run(line);
        assert_eq!(code(&done), 0, "{line}: {}{}", err(&done), self.volume.log_if_any());
    }

    /// Loses the volume, and restores it from the backup; the report of the check.
    fn restore(&self) -> Value {
        self.volume.kill();
        drop(Command::new("umount").arg("-l").arg(&self.volume.at).status());
        let root = self.volume.toml.parent().expect("a directory");
        for lost in ["namespace", "state"] {
            fs::remove_dir_all(root.join(lost)).expect("removed");
        }
        fs::remove_file(&self.volume.toml).expect("removed");
        let mut lines = commands("restore");
        let check = lines.pop().expect("commands");
        lines.iter().for_each(|line| self.must(line));
        let done = self.run(&format!("{check} --output json"));
        assert!(matches!(code(&done), 0 | 7), "{check}: {}", err(&done));
        serde_json::from_slice(&done.stdout).expect("JSON")
    }
}

/// Byte `at` of a file: never zero, never the same as in another file.
fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| ((at * 31 + at / 251 + seed * 97) % 255 + 1) as u8).collect()
}

/// Files that only grow, each with its pattern; some are renamed and some removed.
fn load(at: &Path, worker: usize, stop: &AtomicBool, steps: &AtomicUsize) {
    for round in 0.. {
        let seed = worker * 100_000 + round;
        let path = at.join(format!("load-{seed}"));
        let bytes = pattern(seed, 20_000 << (round % 6));
        let mut file = fs::File::create(&path).expect("create");
        for piece in bytes.chunks(15_000) {
            if stop.load(Ordering::Acquire) {
                return;
            }
            file.write_all(piece).expect("write");
        }
        drop(file);
        match round % 4 {
            0 => fs::rename(&path, at.join(format!("moved-{seed}"))).expect("rename"),
            1 => fs::remove_file(&path).expect("remove"),
            _ => {}
        }
        steps.fetch_add(1, Ordering::AcqRel);
    }
}

/// [S-166]
#[test]
fn a_backup_under_load_made_and_put_back_by_the_guide_leaves_every_file_right_or_named() {
    let Some(volume) = Volume::up() else { return };
    let guide = Guide { volume: &volume, backup: volume.dir.path().join("backup") };
    fs::create_dir(&guide.backup).expect("directory");
    let before: Vec<(String, Vec<u8>)> =
        (0..12).map(|n| (format!("before-{n}"), pattern(900_000 + n, 3_000 << n))).collect();
    for (name, bytes) in &before {
        fs::write(volume.at.join(name), bytes).expect("write");
    }
    let told = Command::new("setfattr").args(["-n", "user.mine", "-v", "yes"]).arg(volume.at.join("before-1")).status();
    assert!(told.is_ok_and(|told| told.success()), "setfattr is installed by scripts/setup.sh");
    let (stop, steps) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for worker in 0..2 {
            let (at, stop, steps) = (volume.at.clone(), &stop, &steps);
            scope.spawn(move || load(&at, worker, stop, steps));
        }
        let wait_for = |more: usize| {
            let until_now = steps.load(Ordering::Acquire);
            until("the load goes on", || steps.load(Ordering::Acquire) >= until_now + more);
        };
        // A quarter of the files is removed again.
        wait_for(20);
        commands("back up").iter().for_each(|line| guide.must(line));
        wait_for(10);
        stop.store(true, Ordering::Release);
    });
    let report = guide.restore();
    assert!(report["unseen"].as_array().expect("a list").is_empty(), "{report}");
    let named = |f: &Value| f["path"].as_str().expect("a path").to_string();
    let named: BTreeSet<String> = report["findings"].as_array().expect("findings").iter().map(named).collect();
    for (name, bytes) in &before {
        assert!(fs::read(volume.at.join(name)).expect("read") == *bytes, "{name}: nobody touched it");
    }
    let mut seen = 0;
    for entry in fs::read_dir(&volume.at).expect("list") {
        let name = entry.expect("entry").file_name().into_string().expect("UTF-8");
        let Some(seed) = name.strip_prefix("load-").or(name.strip_prefix("moved-")) else { continue };
        seen += 1;
        let right = fs::read(volume.at.join(&name))
            .is_ok_and(|found| found == pattern(seed.parse().expect("a number"), found.len()));
        assert!(right || named.contains(&name), "{name} is wrong and nobody says so: {report}");
    }
    assert!(seen >= 10, "the load was in the backup");
    let kept =
        Command::new("getfattr").args(["-n", "user.mine", "--only-values"]).arg(volume.at.join("before-1")).output();
    assert_eq!(out(&kept.expect("getfattr")), "yes");

    // Files from after the backup stay until the operator gives them up.
    let orphans = |words: &[&str]| -> Vec<bool> {
        let report = volume.run(&[words, &["--output", "json"]].concat());
        let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
        let all = report["findings"].as_array().expect("findings");
        all.iter().filter(|f| f["kind"] == "orphan").map(|f| f["outcome"] == "repaired").collect()
    };
    let stay = orphans(&["check", "--repair"]);
    assert!(!stay.is_empty() && stay.iter().all(|repaired| !repaired), "{stay:?}");
    let go = orphans(&["check", "--repair", "--drop-unknown"]);
    assert!(go.len() == stay.len() && go.iter().all(|repaired| *repaired), "{go:?}");
    assert!(orphans(&["check"]).is_empty());
    for (name, bytes) in &before {
        assert!(fs::read(volume.at.join(name)).expect("read") == *bytes);
    }
}

/// [S-160]
#[test]
fn a_daemon_with_another_state_is_refused_while_the_first_runs_and_after() {
    let Some(volume) = Volume::up() else { return };
    let root = volume.toml.parent().expect("a directory");
    fs::create_dir(root.join("state2")).expect("directory");
    let other = root.join("other.toml");
    let text = fs::read_to_string(&volume.toml).expect("read").replace("state = \"state\"", "state = \"state2\"");
    fs::write(&other, text).expect("write");
    let at = volume.dir.path().join("elsewhere");
    fs::create_dir(&at).expect("directory");
    let up = || volume.run(&["up", other.to_str().expect("UTF-8"), "--at", at.to_str().expect("UTF-8"), "--detach"]);
    let refused = up();
    assert_eq!(code(&refused), 2, "{}", err(&refused));
    assert!(
        err(&refused).contains("is open already, in process") && err(&refused).contains("  next: "),
        "{}",
        err(&refused)
    );
    volume.ok(&["down"]);
    let refused = up();
    assert_eq!(code(&refused), 2, "{}", err(&refused));
    assert!(
        err(&refused).contains("another state") && err(&refused).contains("entrepot state load"),
        "{}",
        err(&refused)
    );
    volume.up_again();
}

/// [S-165]
#[test]
fn others_can_open_nothing_of_a_volume_but_its_socket() {
    let Some(volume) = Volume::up() else { return };
    if !rustix::process::geteuid().is_root() {
        return;
    }
    fs::write(volume.at.join("f"), noise(3 << 20)).expect("write");
    let script = volume.at.join("job.sh");
    fs::write(&script, "#!/bin/sh\necho secret\n").expect("write");
    volume.ok(&["job", "submit", script.to_str().expect("UTF-8")]);
    volume.ok(&["job", "wait", "1"]);
    let mut open = Vec::new();
    let mut todo = vec![volume.toml.parent().expect("a directory").to_path_buf()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).expect("list").map(|entry| entry.expect("entry")) {
            let metadata = entry.metadata().expect("there");
            let others = metadata.permissions().mode() & 0o7;
            if metadata.is_dir() && others & 1 != 0 {
                todo.push(entry.path());
            }
            if others & 0o6 != 0 {
                open.push(entry.file_name().into_string().expect("UTF-8"));
            }
        }
    }
    open.sort();
    assert_eq!(open, ["control.sock", "volume.toml"]);
}

/// [S-165]
#[test]
fn a_full_file_system_of_the_state_is_an_error_and_nothing_worse() {
    let Some(small) = Small::new(8) else { return };
    let state = small.dir.join("state");
    fs::create_dir(&state).expect("directory");
    let with_state = |text: String| text.replace("state = \"state\"", &format!("state = {state:?}"));
    let Some(volume) = Volume::up_with(with_state) else { return };
    fs::write(volume.at.join("f"), b"x").expect("write");
    let full = small.dir.join("full");
    let fill = || {
        let mut file = fs::File::create(&full).expect("create");
        while file.write_all(&[1; 4096]).is_ok() {}
        while file.write_all(&[1; 1]).is_ok() {}
    };
    fill();
    // Changes of the state fail once the log has no room; the daemon lives.
    let told = (0..40).map(|n| volume.run(&["target", if n % 2 == 0 { "fail" } else { "restore" }, "fast0"]));
    let refused: Vec<String> = told.filter(|told| !told.status.success()).map(|told| err(&told)).collect();
    assert!(!refused.is_empty() && refused.iter().all(|said| said.contains("full")), "{refused:?}");
    assert_eq!(fs::read(volume.at.join("f")).expect("read"), b"x");
    volume.kill();
    let up = volume.run(&[
        "up",
        volume.toml.to_str().expect("UTF-8"),
        "--at",
        volume.at.to_str().expect("UTF-8"),
        "--detach",
    ]);
    assert!(!up.status.success() && err(&up).contains("error:"), "{}", err(&up));
    assert!(!err(&up).contains("signal"), "{}", err(&up));
    fs::remove_file(&full).expect("removed");
    volume.up_again();
    assert_eq!(fs::read(volume.at.join("f")).expect("read"), b"x");
}
