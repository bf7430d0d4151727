//! `entrepot-lab emulate-disk` as a user runs it: in the foreground until a signal, and in the background.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits until something is so; a minute is for ever.
fn until(what: &str, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < Duration::from_secs(60), "it never came to pass: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_emulated_disk_says_what_it_did_and_ends_with_a_signal_or_its_mount() {
    if std::fs::File::options().read(true).write(true).open("/dev/fuse").is_err() {
        return eprintln!("skipped: /dev/fuse cannot be opened");
    }
    let dir = tempfile::tempdir().expect("temp dir");
    let (backing, at) = (dir.path().join("backing"), dir.path().join("mnt"));
    [&backing, &at].into_iter().for_each(|path| std::fs::create_dir(path).expect("mkdir"));
    std::fs::write(backing.join("there"), b"bytes").expect("write");
    let binary = env!("CARGO_BIN_EXE_entrepot-lab");
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

    let detached = words(&["--model", "plain", "--latency", "1ms", "--detach"]).output().expect("it runs");
    assert!(code(&detached) == 0 && out(&detached).starts_with("mounted at "), "{}", err(&detached));
    assert_eq!(std::fs::read(at.join("there")).expect("read"), b"bytes");
    let stats = std::fs::read(at.join(".stats")).expect("stats");
    let figures: serde_json::Value = serde_json::from_slice(&stats).expect("JSON");
    assert_eq!(figures["reads"].as_u64(), Some(1), "{figures}");
    assert!(Command::new("umount").arg("-l").arg(&at).status().expect("umount").success());
}
