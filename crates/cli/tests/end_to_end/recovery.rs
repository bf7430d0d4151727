//! Lost targets under running readers, with real servers as sources.

use crate::real::{Volume, code, err, out, until};
use crate::server::{self, Nginx, Sshd};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Barrier;

/// Large enough for many stripes on each of four targets.
const SIZE: usize = 40_000_000;

/// Past the page cache, so that every read asks the daemon.
pub fn direct(toml: String) -> String {
    toml.replace(r#"# io = "auto""#, r#"io = "direct""#)
}

/// Four readers read everything; a target fails when each of them is at an eighth, and two of them wait until it has.
fn four_readers_while_it_fails(volume: &Volume, data: &[u8], target: &str) {
    let (at_an_eighth, failed) = (Barrier::new(5), Barrier::new(3));
    std::thread::scope(|scope| {
        for reader in 0..4 {
            let (at_an_eighth, failed) = (&at_an_eighth, &failed);
            scope.spawn(move || {
                let file = File::open(volume.at.join("f")).expect("open");
                let mut buf = vec![0; 200_000];
                for from in (0..data.len()).step_by(buf.len()) {
                    if from == data.len() / 8 {
                        at_an_eighth.wait();
                        if reader % 2 == 0 {
                            failed.wait();
                        }
                    }
                    file.read_exact_at(&mut buf, from as u64).expect("read");
                    assert!(buf == data[from..from + buf.len()], "the bytes from {from}");
                }
            });
        }
        at_an_eighth.wait();
        volume.ok(&["target", "fail", target]);
        failed.wait();
    });
}

fn recovers_exactly_what_was_lost(volume: &Volume, data: &[u8]) {
    let target = "fast1";
    let lost = volume.ranges_on("f", target);
    assert!(lost.len() > 5, "{lost:?}");
    four_readers_while_it_fails(volume, data, target);
    until("every lost stripe is patched", || volume.count("repair", "recoveries_completed") > 0);
    // The bytes are made durable before the layout calls the object complete, which takes as long as the disk is busy.
    until("the object is complete", || volume.run(&["check"]).status.success());
    let share: usize = lost.iter().map(std::ops::Range::len).sum();
    assert_eq!(volume.count("repair", "bytes_fetched"), share as u64);
    assert_eq!(volume.count("repair", "recoveries_started"), 1, "four readers cause one reconstruction");
    assert_eq!(volume.count("repair", "stripes_recovered"), lost.len() as u64);
    assert_eq!(volume.count("repair", "stripes_lost"), lost.len() as u64);
    assert!(volume.ranges_on("f", target).is_empty(), "another target took its place");
}

/// [S-041] [S-043]
#[test]
fn readers_get_every_byte_while_a_target_fails_http() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(volume) = Volume::up_with(direct) else { return };
    let data = server::data(SIZE, 1);
    std::fs::write(nginx.root().join("f"), &data).expect("write");
    volume.ok(&["stage", "in", &nginx.uri("f"), "f"]);
    let before = nginx.sent_bytes();
    let lost: usize = volume.ranges_on("f", "fast1").iter().map(std::ops::Range::len).sum();
    recovers_exactly_what_was_lost(&volume, &data);
    // The server logs a transfer a moment after its arrival.
    until("the server logged it", || nginx.sent_bytes() - before >= lost as u64);
    let sent = nginx.sent_bytes() - before;
    // A probe is one byte; those of staging may be logged late, too. Nothing else but the lost bytes was sent.
    assert!((lost as u64..=lost as u64 + 16).contains(&sent), "{sent} sent for {lost}");
}

/// [S-041] [S-043]
#[test]
fn readers_get_every_byte_while_a_target_fails_sftp() {
    let Some(sshd) = Sshd::start() else { return };
    let Some(volume) = Volume::up_with(direct) else { return };
    let data = server::data(SIZE, 2);
    let path = sshd.dir().join("f");
    std::fs::write(&path, &data).expect("write");
    // The daemon recovers later, when no client passes its environment on: so the key stands in the user's file.
    let credentials = sshd.dir().join("credentials.toml");
    let who = sshd.who();
    let text = format!(
        "[\"*\"]\nkey = \"{}\"\nknown_hosts = \"{}\"\n",
        who.environment["ENTREPOT_SFTP_KEY"], who.environment["ENTREPOT_SFTP_KNOWN_HOSTS"]
    );
    std::fs::write(&credentials, text).expect("write");
    std::fs::set_permissions(&credentials, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("chmod");
    let credentials = credentials.to_str().expect("UTF-8");
    volume.ok(&["stage", "in", &sshd.uri(&path), "f", "--credentials", credentials]);
    recovers_exactly_what_was_lost(&volume, &data);
}

/// [S-042]
#[test]
fn healthy_stripes_are_read_while_the_source_hangs() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(volume) = Volume::up_with(direct) else { return };
    let data = server::data(8 << 20, 3);
    std::fs::write(nginx.root().join("f"), &data).expect("write");
    volume.ok(&["stage", "in", &nginx.uri("f"), "f"]);
    let lost = volume.ranges_on("f", "fast0");
    nginx.pause();
    volume.ok(&["target", "fail", "fast0"]);
    std::thread::scope(|scope| {
        let blocked = scope.spawn(|| read(&volume.at.join("f"), lost[0].clone()));
        until("the reader waits", || volume.count("repair", "recoveries_running") == 1);
        for from in (0..data.len()).step_by(1 << 20).filter(|from| !lost.iter().any(|l| l.contains(from))) {
            let range = from..from + (1 << 20);
            assert!(read(&volume.at.join("f"), range.clone()).expect("healthy") == data[range], "from {from}");
        }
        assert!(!blocked.is_finished(), "nobody gave the lost stripe");
        nginx.go_on();
        let came = blocked.join().expect("reader").expect("recovered");
        assert!(came == data[lost[0].clone()]);
    });
}

/// Reads a range of a file.
pub fn read(path: &Path, range: std::ops::Range<usize>) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; range.len()];
    File::open(path)?.read_exact_at(&mut bytes, range.start as u64)?;
    Ok(bytes)
}

/// [S-041]
#[test]
fn check_reports_and_repairs_only_what_is_missing() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(volume) = Volume::up() else { return };
    let data = server::data(12_345_678, 4);
    for name in ["f", "g"] {
        std::fs::write(nginx.root().join(name), &data).expect("write");
        volume.ok(&["stage", "in", &nginx.uri(name), name]);
    }
    let lost = |name: &str| volume.ranges_on(name, "capacity0").iter().map(std::ops::Range::len).sum::<usize>() as u64;
    let (of_f, of_g) = (lost("f"), lost("g"));
    assert!(of_f > 0 && of_g > 0, "both lie there");
    volume.ok(&["target", "fail", "capacity0"]);

    let report = volume.run(&["check"]);
    assert_eq!(code(&report), 7, "{}", out(&report));
    assert!(out(&report).contains("capacity0") && out(&report).contains("repairable"), "{}", out(&report));
    assert_eq!(volume.count("repair", "bytes_fetched"), 0, "a report fetches nothing");

    let sent = nginx.sent_bytes();
    volume.ok(&["check", "--before-job", "g"]);
    assert_eq!(volume.count("repair", "bytes_fetched"), of_g, "only what the job needs");
    volume.ok(&["check", "--repair"]);
    assert_eq!(volume.count("repair", "bytes_fetched"), of_g + of_f);
    until("the server logged it", || nginx.sent_bytes() - sent >= of_f + of_g);
    volume.ok(&["check"]);
    for name in ["f", "g"] {
        assert!(std::fs::read(volume.at.join(name)).expect("read") == data);
    }
}

#[test]
fn a_job_says_what_was_recovered_under_it() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(volume) = Volume::up_with(direct) else { return };
    std::fs::write(nginx.root().join("f"), server::data(8 << 20, 5)).expect("write");
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root, whose job may fail a target");
        return;
    }
    let home = volume.dir.path().join("home");
    std::fs::create_dir(&home).expect("directory");
    let (at, entrepot) = (volume.at.display(), volume.binary.display());
    let text = format!(
        "#!/bin/bash\n#ENTREPOT -n 1 -t 00:01:00\n#STAGEIN entrepot stage in {} {at}/f\n\
         cd {at} && {entrepot} target fail fast0 && cat f > /dev/null\n",
        nginx.uri("f")
    );
    let script = home.join("job.sh");
    std::fs::write(&script, text).expect("write");
    let submitted = volume.run_in(&home, &["job", "submit", script.to_str().expect("UTF-8")]);
    assert_eq!(code(&submitted), 0, "{}", err(&submitted));
    let waited = volume.run(&["job", "wait", "1"]);
    assert_eq!(code(&waited), 0, "{}{}", out(&waited), out(&volume.run(&["job", "show", "1"])));
    let shown = volume.json(&["job", "show", "1"]);
    let recovery = &shown["recoveries"][0];
    assert_eq!(recovery["path"], volume.at.join("f").to_str().expect("UTF-8"), "{shown}");
    assert!(recovery["n_stripes"].as_u64() > Some(0) && recovery["fetched_bytes"].as_u64() > Some(0), "{recovery}");
    let shown = out(&volume.run(&["job", "show", "1"]));
    assert!(shown.contains(&format!("{at}/f: ")) && shown.contains("fetched, a reader waited at most"), "{shown}");
}
