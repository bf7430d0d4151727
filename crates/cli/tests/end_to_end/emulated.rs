//! A volume whose targets lie on emulated disks.

use crate::real::{Volume, code, err, noise, out, until};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// An emulated disk of the real binary; taken away whatever the test did.
struct Disk {
    at: PathBuf,
}

impl Disk {
    fn start(dir: &Path, name: &str, words: &[&str]) -> Disk {
        let (backing, at) = (dir.join(format!("{name}.backing")), dir.join(name));
        [&backing, &at].into_iter().for_each(|path| std::fs::create_dir(path).expect("mkdir"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_entrepot"));
        let started = command.arg("emulate-disk").args(words).arg(&backing).arg(&at).arg("--detach").output();
        let started = started.expect("it runs");
        assert!(started.status.success(), "{}", err(&started));
        Disk { at }
    }

    fn stats(&self) -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(self.at.join(".stats")).expect("stats")).expect("JSON")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.at).stderr(Stdio::null()).status());
    }
}

#[test]
fn a_volume_on_two_emulated_disks_keeps_its_bytes_and_waits_for_them() {
    let place_of_disks = tempfile::tempdir().expect("temp dir");
    if std::fs::File::options().read(true).write(true).open("/dev/fuse").is_err() {
        return eprintln!("skipped: /dev/fuse cannot be opened");
    }
    let mut disks = Vec::new();
    let volume = Volume::up_with(|toml| {
        let dir = place_of_disks.path();
        for name in ["fast", "slow"] {
            let rate = if name == "fast" { "200MB" } else { "20MB" };
            let words = [
                "--no-sync",
                "--model",
                "plain",
                "--read-bandwidth",
                rate,
                "--write-bandwidth",
                rate,
                "--latency",
                "1ms",
            ];
            disks.push(Disk::start(dir, name, &words));
        }
        let place = |name: &str, disk: &Disk, toml: String| {
            let path = disk.at.join(name);
            std::fs::create_dir(&path).expect("mkdir");
            toml.replace(&format!("\"targets/{name}\""), &format!("\"{}\"", path.display()))
        };
        let on_fast = ["fast0", "fast1", "fast2"].into_iter().fold(toml, |toml, name| place(name, &disks[0], toml));
        ["capacity0", "capacity1", "capacity2"].into_iter().fold(on_fast, |toml, name| place(name, &disks[1], toml))
    });
    let Some(volume) = volume else { return };
    let data = noise(8 << 20);
    let begun = Instant::now();
    std::fs::write(volume.at.join("file"), &data).expect("write");
    std::fs::File::open(volume.at.join("file")).and_then(|file| file.sync_all()).expect("sync");
    assert!(std::fs::read(volume.at.join("file")).expect("read") == data);
    let written: Vec<u64> = disks.iter().map(|disk| disk.stats()["bytes_written"].as_u64().expect("bytes")).collect();
    assert!(written.iter().sum::<u64>() >= 8 << 20 && written.iter().all(|bytes| *bytes > 0), "{written:?}");
    let least = Duration::from_secs_f64(written[1] as f64 / 20e6);
    assert!(begun.elapsed() >= least, "{:?} for {} bytes on the slow disk", begun.elapsed(), written[1]);
    volume.ok(&["down"]);
}

#[test]
fn an_emulated_disk_ends_with_a_signal_and_says_what_it_did() {
    if std::fs::File::options().read(true).write(true).open("/dev/fuse").is_err() {
        return eprintln!("skipped: /dev/fuse cannot be opened");
    }
    let dir = tempfile::tempdir().expect("temp dir");
    let (backing, at) = (dir.path().join("backing"), dir.path().join("mnt"));
    [&backing, &at].into_iter().for_each(|path| std::fs::create_dir(path).expect("mkdir"));
    std::fs::write(backing.join("there"), b"bytes").expect("write");
    let binary = env!("CARGO_BIN_EXE_entrepot");
    let words = |more: &[&str]| {
        let mut command = Command::new(binary);
        command.args(["emulate-disk", "--output", "json"]).args(more).arg(&backing).arg(&at);
        command
    };
    let refused = words(&["--model", "ssd", "--latency", "1ms"]).output().expect("it runs");
    assert_eq!(code(&refused), 2);
    assert!(err(&refused).contains("--model plain"), "{}", err(&refused));
    let refused = words(&["--model", "floppy", "--detach"]).output().expect("it runs");
    assert!(code(&refused) == 2 && err(&refused).contains("cheetah9lp"), "{}", err(&refused));

    let mut child = words(&[]).stdout(Stdio::piped()).spawn().expect("it runs");
    until("it is mounted", || at.join("there").exists());
    assert_eq!(std::fs::read(at.join("there")).expect("read"), b"bytes");
    let pid = rustix::process::Pid::from_child(&child);
    // Refused while a child that another test forked just now still holds the file that was read; then again.
    until("it ends", || {
        let ended = child.try_wait().expect("a child").is_some();
        if !ended {
            rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("signal");
        }
        ended
    });
    let ended = child.wait_with_output().expect("it ended");
    assert_eq!(code(&ended), 0);
    let said = out(&ended);
    let (_, json) = said.split_once('\n').expect("a line, then figures");
    let figures: serde_json::Value = serde_json::from_str(json).expect("JSON");
    assert_eq!((figures["reads"].as_u64(), figures["model"].as_str()), (Some(1), Some("cheetah9lp")), "{said}");
    assert!(!at.join("there").exists());
}
