//! Properties that survive the daemon: names, attributes and layouts; and users' secrets that it keeps private.

use super::real::{self, Volume, code, err};
use rustix::fs::XattrFlags;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// Everything that `stat`, the extended attributes and `layout` say of what is below a directory.
fn describe(volume: &Volume, dir: &Path, lines: &mut Vec<String>) {
    let mut entries: Vec<_> = std::fs::read_dir(dir).expect("dir").map(|e| e.expect("entry").path()).collect();
    entries.sort();
    for path in entries {
        let stat = std::fs::symlink_metadata(&path).expect("there");
        let mut line = format!("{} {:o} {} links", path.display(), stat.mode(), stat.nlink());
        line += &format!(" {}:{} {}.{:09}", stat.uid(), stat.gid(), stat.mtime(), stat.mtime_nsec());
        if stat.is_symlink() {
            line += &format!(" -> {}", std::fs::read_link(&path).expect("link").display());
        } else {
            for name in ["user.colour", "user.entrepot.layout", "user.entrepot.source"] {
                let mut value = [0; 4096];
                let len = rustix::fs::getxattr(&path, name, &mut value);
                line += &format!(" {name}={:?}", len.map(|len| String::from_utf8_lossy(&value[..len]).into_owned()));
            }
        }
        if stat.is_file() {
            let bytes = std::fs::read(&path).expect("readable");
            let layout = volume.json(&["layout", path.to_str().expect("UTF-8")]);
            line += &format!(" {} bytes, {} {layout}", stat.len(), blake3::hash(&bytes));
        }
        lines.push(line);
        if stat.is_dir() {
            describe(volume, &path, lines);
        }
    }
}

/// [S-002]
#[test]
fn names_attributes_and_layouts_survive_a_killed_daemon() {
    let Some(volume) = Volume::up() else { return };
    let at = |name: &str| volume.at.join(name);
    std::fs::create_dir_all(at("d/inner")).expect("directories");
    rustix::fs::setxattr(at("d"), "user.entrepot.layout", b"stripe_count=2", XattrFlags::empty()).expect("set");
    std::fs::write(at("first"), real::noise(9 << 20)).expect("write");
    std::fs::write(at("d/small"), b"small").expect("write");
    std::fs::write(at("d/wide"), real::noise(7 << 20)).expect("write");
    std::fs::hard_link(at("d/wide"), at("d/inner/other name")).expect("link");
    std::os::unix::fs::symlink("d/wide", at("to wide")).expect("link");
    std::fs::rename(at("first"), at("d/renamed")).expect("rename");
    std::fs::write(at("gone"), real::noise(2 << 20)).expect("write");
    std::fs::remove_file(at("gone")).expect("remove");
    for (name, mode) in [("d/small", 0o4751), ("d/renamed", 0o640), ("d/inner", 0o1750)] {
        std::fs::set_permissions(at(name), PermissionsExt::from_mode(mode)).expect("chmod");
    }
    rustix::fs::setxattr(at("d/wide"), "user.colour", b"blue", XattrFlags::empty()).expect("set");
    let when = UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
    std::fs::File::options().write(true).open(at("d/renamed")).expect("open").set_modified(when).expect("touch");
    volume.ok(&["layout", "add-mirror", "d/renamed"]);
    let mut before = Vec::new();
    describe(&volume, &volume.at, &mut before);
    assert!(before.iter().any(|l| l.contains("1234567890.123456789") && l.contains("640")), "{before:#?}");

    volume.kill();
    volume.up_again();
    let mut after = Vec::new();
    describe(&volume, &volume.at, &mut after);
    assert_eq!(after, before);
}

/// [S-047] However a source refuses, and however much is logged.
#[test]
fn secrets_stand_in_no_answer_log_or_state() {
    let Some(volume) = Volume::up() else { return };
    volume.ok(&["down"]);
    let mut up = std::process::Command::new(&volume.binary);
    up.env("ENTREPOT_LOG", "trace").arg("up").arg(&volume.toml).arg("--at").arg(&volume.at).arg("--detach");
    assert!(up.status().expect("the binary runs").success());
    let (secret, id) = ("hunter2-the-secret", "AKIDEXAMPLE-not-secret");
    let file = volume.dir.path().join("credentials.toml");
    let text = format!(
        "[\"*\"]\nuser = \"alice\"\npassword = \"{secret}\"\naccess_key_id = \"{id}\"\n\
         secret_access_key = \"{secret}\"\nregion = \"here\"\nendpoint = \"http://127.0.0.1:9\"\n"
    );
    std::fs::write(&file, text).expect("write");
    let mode = |mode: u32| std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).expect("chmod");
    mode(0o600);
    let here = &|name: &str| volume.at.join(name).to_str().expect("UTF-8").to_string();
    std::fs::write(here("result"), b"result").expect("write");
    let credentials = file.to_str().expect("UTF-8");
    let refused = &|words: &[&str]| {
        let output = volume.run(words);
        assert_ne!(code(&output), 0, "{words:?}");
        let said = format!("{}{}", real::out(&output), err(&output));
        assert!(!said.contains(secret), "{said}");
    };
    let schemes = ["http", "ftp", "sftp", "webdav", "s3"];
    std::thread::scope(|scope| {
        for scheme in schemes {
            scope.spawn(move || {
                // There is no server on that port.
                let uri = format!("{scheme}://127.0.0.1:9/x");
                refused(&["stage", "in", &uri, &here("in"), "--credentials", credentials]);
                refused(&["stage", "out", &here("result"), &uri, "--credentials", credentials]);
                refused(&["stage", "in", &format!("{scheme}://alice:{secret}@127.0.0.1:9/x"), &here("in")]);
            });
        }
    });
    mode(0o644);
    for scheme in schemes {
        refused(&["stage", "in", &format!("{scheme}://127.0.0.1:9/x"), &here("in"), "--credentials", credentials]);
    }
    let log = volume.log();
    assert!(!log.is_empty() && !log.contains(secret), "the log is there, and does not say it");
    let mut looked = 0;
    for place in ["state", "namespace"] {
        looked += no_file_holds(&volume.toml.parent().expect("a directory").join(place), secret);
    }
    assert!(looked > 2, "state store, log and names were looked at");
}

/// Checks that no file contains the secret; returns the number of files checked.
fn no_file_holds(dir: &Path, secret: &str) -> usize {
    let mut looked = 0;
    for entry in std::fs::read_dir(dir).expect("dir") {
        let path = entry.expect("entry").path();
        let kind = std::fs::symlink_metadata(&path).expect("there").file_type();
        if kind.is_dir() {
            looked += no_file_holds(&path, secret);
        } else if kind.is_file() {
            let bytes = std::fs::read(&path).expect("readable");
            assert!(!bytes.windows(secret.len()).any(|w| w == secret.as_bytes()), "{}", path.display());
            looked += 1;
        }
    }
    looked
}

/// A way to write to a file.
type Write = fn(&std::fs::File);

/// [S-045] By whatever way it is written to.
#[test]
fn a_file_that_was_written_to_is_modified() {
    let Some(volume) = Volume::up() else { return };
    let origin = volume.dir.path().join("origin");
    std::fs::write(&origin, real::noise(3 << 20)).expect("write");
    let ways: [(&str, Write); 3] = [
        ("write", |f| std::os::unix::fs::FileExt::write_all_at(f, b"x", 100).expect("write")),
        ("truncate", |f| f.set_len(100).expect("truncate")),
        ("punch", |f| {
            let how = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(f, how, 0, 4096).expect("punch");
        }),
    ];
    for (name, write) in ways {
        let uri = format!("file://{}", origin.display());
        volume.ok(&["stage", "in", &uri, volume.at.join(name).to_str().expect("UTF-8")]);
        let modified = || volume.json(&["source", "get", name])["modified"] == true;
        assert!(!modified(), "{name}");
        let file = std::fs::File::options().read(true).write(true).open(volume.at.join(name)).expect("open");
        assert!(!modified(), "{name}: opened for writing, not written");
        write(&file);
        file.sync_all().expect("sync");
        assert!(modified(), "{name}");
    }
}
