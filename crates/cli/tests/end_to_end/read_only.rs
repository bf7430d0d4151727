//! A disk whose file system goes read-only, as after an error: everything on it is read, nothing new goes there, it is
//! drained. Needs root for a small file system.

use crate::full::Small;
use crate::real::{Volume, code, err, noise, until};
use std::fs;
use std::os::unix::fs::FileExt;
use std::process::Command;

const FILES: usize = 6;

/// [S-153]
#[test]
fn a_disk_that_goes_read_only_is_read_and_drained() {
    let (Some(small), Some(others)) = (Small::new(64), Small::new(64)) else { return };
    // All as large as each other, so that new objects go to all.
    let Some(volume) = Volume::up_with(|toml| {
        let names = ["fast1", "fast2", "capacity0", "capacity1", "capacity2"];
        let toml = toml.replace(r#""targets/fast0""#, &format!("{:?}", small.dir));
        names.iter().fold(toml, |toml, name| {
            let dir = others.dir.join(name);
            fs::create_dir(&dir).expect("directory");
            toml.replace(&format!(r#""targets/{name}""#), &format!("{dir:?}"))
        })
    }) else {
        return;
    };
    let data = noise(3 << 20);
    let path = |volume: &Volume, n: usize| volume.at.join(format!("f{n}"));
    for n in 0..FILES {
        fs::write(path(&volume, n), &data).expect("write");
    }
    let lies_there =
        |volume: &Volume, n: usize| volume.json(&["layout", &format!("f{n}")]).to_string().contains("\"fast0\"");
    assert!((0..FILES).any(|n| lies_there(&volume, n)));
    // Refused as long as the daemon has an object open for writing.
    let remount = || Command::new("mount").args(["-o", "remount,ro"]).arg(&small.dir).output().expect("mount");
    until("it is read-only", || remount().status.success());
    until("that is noticed", || volume.state_of("fast0") == "read-only");
    let all_well = |volume: &Volume| (0..FILES).for_each(|n| assert!(fs::read(path(volume, n)).expect("read") == data));
    all_well(&volume);
    fs::write(volume.at.join("new"), &data).expect("others take it");
    let new = volume.json(&["layout", "new"]).to_string();
    assert!(!new.contains("\"fast0\""), "{new}");

    volume.kill();
    volume.up_again();
    assert_eq!(volume.state_of("fast0"), "read-only", "not failed after a restart either");
    all_well(&volume);
    volume.ok(&["target", "drain", "fast0"]);
    assert!((0..FILES).all(|n| !lies_there(&volume, n)));
    all_well(&volume);
    for n in 0..FILES {
        let file = fs::File::options().write(true).open(path(&volume, n)).expect("open");
        file.write_all_at(b"over what was there", 1 << 20).expect("it lies where it can be written");
    }
    volume.ok(&["check"]);
    volume.ok(&["target", "remove", "fast0"]);
    volume.ok(&["down"]);
}

/// [S-354]
#[test]
fn the_mount_of_a_volume_is_made_read_only_and_writable_again() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: needs root");
    }
    let Some(volume) = Volume::up() else { return };
    let remount = |options: &str| {
        let words = Command::new(&volume.binary).arg(&volume.toml).arg(&volume.at).args(["-o", options]).output();
        words.expect("runs")
    };
    let write = || fs::write(volume.at.join("f"), b"bytes");
    write().expect("write");
    let done = remount("remount,ro");
    assert_eq!(code(&done), 0, "{}", err(&done));
    assert_eq!(write().expect_err("read-only").kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!(fs::read(volume.at.join("f")).expect("read"), b"bytes");
    let wrong = remount("remount,stripes=4");
    assert!(code(&wrong) == 2 && err(&wrong).contains("stays mounted as it was"), "{}", err(&wrong));
    let done = remount("remount,rw");
    assert_eq!(code(&done), 0, "{}", err(&done));
    write().expect("write");
    volume.ok(&["status"]);
}
