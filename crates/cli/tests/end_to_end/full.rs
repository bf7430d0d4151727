//! Devices that are full: the writer gets an error, nothing else suffers, and removing files helps. Needs root for
//! small file systems.

use crate::real::{Volume, code, err, noise, out, until};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small file system; taken away at the end.
pub struct Small {
    pub dir: PathBuf,
    _around: tempfile::TempDir,
}

impl Small {
    /// An ext4 file system of so many MiB: it has user attributes, which a namespace needs and a tmpfs may not have.
    pub fn new(mib: u64) -> Option<Small> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root to mount small file systems");
            return None;
        }
        let around = tempfile::Builder::new().prefix("entrepot-small").tempdir().expect("temp dir");
        let (image, dir) = (around.path().join("image"), around.path().join("dir"));
        fs::File::create(&image).and_then(|f| f.set_len(mib << 20)).expect("image");
        fs::create_dir(&dir).expect("directory");
        let mkfs = ["/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"].into_iter().find(|p| Path::new(p).exists());
        let Some(mkfs) = mkfs else {
            eprintln!("skipped: mkfs.ext4 is not installed");
            return None;
        };
        // No journal and nothing kept back for root: what is free is for us.
        let made = Command::new(mkfs).args(["-q", "-m", "0", "-O", "^has_journal"]).arg(&image).status();
        assert!(made.expect("mkfs").success());
        let mounted = Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&dir).output().expect("mount");
        if !mounted.status.success() {
            eprintln!("skipped: no loop device: {}", err(&mounted));
            return None;
        }
        Some(Small { dir, _around: around })
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.dir).status();
    }
}

/// Writes until there is no more space; what was written, and why it ended.
pub fn fill(path: &Path, block: &[u8]) -> (usize, std::io::Error) {
    let mut file = fs::File::create(path).expect("create");
    let mut written = 0;
    loop {
        match file.write(block) {
            Ok(n) => written += n,
            Err(e) => return (written, e),
        }
        assert!(written < 1 << 30, "it never fills");
    }
}

fn is_full(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::NOSPC.raw_os_error())
}

/// Expected content of a file of `fill`.
fn expected(block: &[u8], len: usize) -> Vec<u8> {
    block.iter().copied().cycle().take(len).collect()
}

#[test]
fn full_targets_refuse_the_writer_and_nobody_else() {
    let Some(small) = Small::new(24) else { return };
    let Some(volume) = Volume::up_with(|toml| {
        let names = ["fast0", "fast1", "fast2", "capacity0", "capacity1", "capacity2"];
        let toml = toml.replace(r#"# io = "auto""#, r#"io = "direct""#);
        names.iter().fold(toml, |toml, name| {
            let dir = small.dir.join(name);
            fs::create_dir(&dir).expect("directory");
            toml.replace(&format!(r#""targets/{name}""#), &format!("{dir:?}"))
        })
    }) else {
        return;
    };
    let keep = noise(3 << 20);
    fs::write(volume.at.join("keep"), &keep).expect("write");
    let block = noise(1 << 20);
    let (written, error) = fill(&volume.at.join("large"), &block);
    assert!(is_full(&error), "{error}");
    assert!(written > 8 << 20, "{written}");
    let large = fs::read(volume.at.join("large")).expect("read");
    assert!(large.len() >= written && large[..written] == expected(&block, written), "what was taken is right");
    assert!(fs::read(volume.at.join("keep")).expect("read") == keep);
    fs::write(volume.at.join("tiny"), b"fits its stub").expect("a small file needs no target");
    let staged = volume.dir.path().join("staged");
    fs::write(&staged, noise(8 << 20)).expect("write");
    let refused = volume.run(&["stage", "in", &format!("file://{}", staged.display()), "staged"]);
    assert_ne!(code(&refused), 0);
    let free = rustix::fs::statvfs(&small.dir).map(|s| s.f_bavail * s.f_frsize);
    let said = err(&refused);
    assert!(said.contains("are needed") && said.contains("are free"), "{said}{written} written, {free:?} free");
    let list = out(&volume.run(&["target", "list"]));
    assert!(!list.contains("failed") && !list.contains("suspect"), "full is not ill: {list}");

    fs::remove_file(volume.at.join("large")).expect("remove");
    until("the space is back", || fs::write(volume.at.join("again"), &block).is_ok());
    assert!(fs::read(volume.at.join("again")).expect("read") == block);
    volume.ok(&["stage", "in", &format!("file://{}", staged.display()), "staged"]);
    volume.ok(&["check"]);
}

#[test]
fn a_full_namespace_refuses_names_and_keeps_what_it_has() {
    let Some(small) = Small::new(8) else { return };
    let Some(volume) = Volume::up_with(|toml| {
        let dir = small.dir.join("namespace");
        fs::create_dir(&dir).expect("directory");
        toml.replace(r#"namespace = "namespace""#, &format!("namespace = {dir:?}"))
    }) else {
        return;
    };
    let keep = noise(6 << 20);
    fs::write(volume.at.join("keep"), &keep).expect("write");
    let block = noise(60_000); // stays in its stub
    let mut names = 0;
    let error = loop {
        match fs::write(volume.at.join(format!("f{names}")), &block) {
            Ok(()) => names += 1,
            Err(e) => break e,
        }
        assert!(names < 10_000, "it never fills");
    };
    assert!(is_full(&error), "{error}");
    assert!(names > 10, "{names}");
    for k in 0..names {
        assert!(fs::read(volume.at.join(format!("f{k}"))).expect("read") == block, "f{k}");
    }
    assert!(fs::read(volume.at.join("keep")).expect("read") == keep);
    volume.ok(&["status"]);
    volume.kill();
    volume.up_again();
    assert!(fs::read(volume.at.join("keep")).expect("read") == keep, "it starts although the namespace is full");
    fs::remove_file(volume.at.join("f0")).expect("remove");
    fs::write(volume.at.join("again"), &block[..1000]).expect("there is space again");
    volume.until_nothing_is_left();
}

/// [S-421]
#[test]
fn a_full_state_directory_is_said_clearly() {
    let Some(small) = Small::new(8) else { return };
    let Some(volume) = Volume::up_with(|toml| {
        let dir = small.dir.join("state");
        fs::create_dir(&dir).expect("directory");
        toml.replace(r#"state = "state""#, &format!("state = {dir:?}"))
    }) else {
        return;
    };
    let data = noise(6 << 20);
    fs::write(volume.at.join("f"), &data).expect("write");
    let (_, error) = fill(&small.dir.join("ballast"), &noise(100_000));
    assert!(is_full(&error), "{error}");
    let (_, error) = fill(&small.dir.join("more"), &[7; 512]);
    assert!(is_full(&error), "{error}");

    assert!(fs::read(volume.at.join("f")).expect("read") == data);
    fs::write(volume.at.join("g"), &data).expect("files need no state store");
    let order = volume.run(&["target", "restore", "fast0"]);
    assert!([0, 1].contains(&code(&order)), "an order that cannot be kept is no wrong input: {}", err(&order));
    let script = volume.dir.path().join("job.sh");
    fs::write(&script, format!("#!/bin/bash\n#ENTREPOT -n 1\n# {}\n", "x".repeat(300_000))).expect("write");
    let refused = volume.run(&["job", "submit", script.to_str().expect("UTF-8")]);
    assert_ne!(code(&refused), 0, "{}", out(&refused));
    assert!(err(&refused).to_lowercase().contains("space") || err(&refused).contains("full"), "{}", err(&refused));
    volume.ok(&["down"]);
    fill(&small.dir.join("rest"), &[7; 512]);
    let up = ["up", volume.toml.to_str().expect("UTF-8"), "--at", volume.at.to_str().expect("UTF-8"), "--detach"];
    let refused = volume.run(&up);
    assert!([0, 1].contains(&code(&refused)), "no wrong input: {} {}", code(&refused), err(&refused));
    if code(&refused) == 0 {
        volume.ok(&["down"]);
    }
    fs::remove_file(small.dir.join("ballast")).expect("remove");
    volume.up_again();
    assert!(fs::read(volume.at.join("g")).expect("read") == data);
    volume.ok(&["job", "submit", script.to_str().expect("UTF-8")]);
}
