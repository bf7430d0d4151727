//! `entrepot doctor` on a healthy volume, on an unhealthy one, and on one without a daemon.

use crate::real::{Volume, code, err, out};
use crate::redis::Redis;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn findings(volume: &Volume) -> (Vec<Value>, i32) {
    let told = volume.run(&["doctor", "--output", "json"]);
    let json: Value = serde_json::from_slice(&told.stdout).unwrap_or_else(|e| panic!("{e}: {}", err(&told)));
    (json["findings"].as_array().expect("findings").clone(), code(&told))
}

/// Findings of a subject that are not ok.
fn bad<'a>(findings: &'a [Value], subject: &str) -> Vec<&'a Value> {
    findings.iter().filter(|f| f["subject"] == subject && f["state"] != "ok").collect()
}

/// All names below, each with the time of its last change.
fn all_below(dir: &Path) -> Vec<(PathBuf, i64)> {
    use std::os::unix::fs::MetadataExt;
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).expect("directory").flatten() {
        let about = entry.metadata().expect("metadata");
        all.push((entry.path(), about.ctime_nsec() ^ about.ctime()));
        if about.is_dir() {
            all.extend(all_below(&entry.path()));
        }
    }
    all.sort();
    all
}

/// [S-238]
#[test]
fn it_finds_what_is_wrong_and_changes_nothing() {
    let Some(volume) = Volume::up() else { return };
    let home = volume.toml.parent().expect("directory").to_path_buf();
    let (told, status) = findings(&volume);
    assert_eq!(status, 0, "{told:?}");
    assert!(told.iter().any(|f| f["subject"] == "daemon" && f["state"] == "ok"), "{told:?}");
    let from_inside = volume.run_in(&volume.at, &["--volume", volume.at.to_str().expect("UTF-8"), "doctor"]);
    assert!(out(&from_inside).contains("ok       target fast0: "), "{}{}", out(&from_inside), err(&from_inside));

    volume.ok(&["target", "fail", "fast1"]);
    assert_eq!(bad(&findings(&volume).0, "target fast1").len(), 1);
    volume.ok(&["target", "restore", "fast1"]);
    volume.ok(&["down"]);
    // The state directory's own time alone changes: its store is locked while it is read.
    let all = || all_below(&home).into_iter().filter(|(path, _)| !path.ends_with("state")).collect::<Vec<_>>();
    let before = all();
    assert_eq!(findings(&volume).1, 0);
    assert!(all() == before, "looking changes nothing");

    // Names and bytes that others can reach beside the mount.
    for dir in ["targets/fast0", "targets/fast0/objects"] {
        fs::set_permissions(home.join(dir), PermissionsExt::from_mode(0o755)).expect("chmod");
    }
    fs::remove_dir_all(home.join("targets/capacity0")).expect("remove");
    let (told, status) = findings(&volume);
    assert_eq!(status, 1);
    let open = bad(&told, "target fast0");
    assert!(open.len() == 1 && open[0]["change"].as_str().is_some_and(|c| c.starts_with("chmod 700 ")), "{told:?}");
    assert_eq!(bad(&told, "target capacity0").len(), 1, "{told:?}");

    // `doctor` reports refusals of `up` in the words of `up`.
    let text = fs::read_to_string(&volume.toml).expect("volume.toml");
    fs::write(&volume.toml, format!("bogus = 1\n{text}")).expect("volume.toml");
    let (told, status) = findings(&volume);
    assert_eq!(status, 1);
    assert!(bad(&told, "volume.toml")[0]["what"].as_str().is_some_and(|w| w.contains(":1:1: unknown key `bogus`")));
}

/// [S-391]
#[test]
fn it_tries_the_mount_as_another_user() {
    let Some(volume) = Volume::up() else { return };
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: needs root to be another user");
    }
    let above: Vec<&Path> =
        volume.at.ancestors().skip(1).take_while(|dir| dir.starts_with(std::env::temp_dir())).collect();
    let set = |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("chmod");
    let users = || {
        let found = findings(&volume).0.into_iter().find(|f| f["subject"] == "users").expect("a finding");
        (found["state"].as_str().expect("a state").to_owned(), found["what"].as_str().expect("a text").to_owned())
    };
    above.iter().filter(|dir| **dir != std::env::temp_dir()).for_each(|dir| set(dir, 0o755));
    fs::write(volume.at.join("file"), "data").expect("write");
    assert_eq!(fs::metadata(&volume.at).expect("stat").permissions().mode() & 0o7777, 0o1777, "a new volume of root's");
    assert_eq!(users().0, "ok", "{:?}", users());
    set(&volume.at, 0o755);
    assert!(users().0 == "warning" && users().1.contains("only root can create"), "{:?}", users());
    set(&volume.at, 0o700);
    assert!(users().0 == "warning" && users().1.contains("only root can list"), "{:?}", users());
    volume.ok(&["down"]);
    volume.ok(&["up", volume.toml.to_str().expect("UTF-8"), "--at", volume.at.to_str().expect("UTF-8"), "--detach"]);
    assert_eq!(fs::metadata(&volume.at).expect("stat").permissions().mode() & 0o7777, 0o700, "of one that exists");
}

/// [S-238]
#[test]
fn it_asks_the_server_of_the_state() {
    let Some(mut redis) = Redis::start() else { return };
    let Some(volume) = Volume::up_with(|text| redis.keeps_state(&text)) else { return };
    let (told, status) = findings(&volume);
    assert_eq!((status, bad(&told, "state").len()), (0, 0), "{told:?}");
    assert!(told.iter().any(|f| f["subject"] == "state"), "{told:?}");
    redis.end();
    let (told, status) = findings(&volume);
    assert_eq!((status, bad(&told, "state").len()), (1, 1), "{told:?}");
}

#[test]
fn a_user_without_permission_gets_an_error() {
    let Some(volume) = Volume::up() else { return };
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: needs root to be another user");
    }
    let told = volume.run_as_nobody(&["doctor"]);
    let text = out(&told);
    assert!(text.contains("path of the volume's file") && !text.contains("target fast0"), "{text}{}", err(&told));
}
