//! An operator's day: new targets, layout requests, results taken home, mounts by mount(8) and systemd.

use crate::real::{Volume, code, err, noise, out, until};
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

fn says(output: &std::process::Output, expected: i32, words: &[&str]) {
    assert_eq!(code(output), expected, "{}{}", out(output), err(output));
    for word in words {
        assert!(err(output).contains(word), "{word:?} is not in {}", err(output));
    }
}

#[test]
fn targets_and_events_have_names_and_places() {
    let Some(volume) = Volume::up() else { return };
    let df = Command::new("df").args(["--output=source"]).arg(&volume.at).output().expect("df");
    assert!(out(&df).contains("\nvol#/"), "the volume's name comes first: {}", out(&df));
    let vol = volume.toml.parent().expect("directory");
    let overlapping = vol.join("targets/fast0/objects");
    let refused = volume.run(&["target", "add", "fast9", overlapping.to_str().expect("UTF-8"), "--tier", "fast"]);
    says(&refused, 2, &["lies inside", "so:   nothing was changed"]);
    let dir = vol.join("targets/fast9");
    fs::create_dir(&dir).expect("directory");
    let added = volume.run(&["target", "add", "fast9", dir.to_str().expect("UTF-8"), "--tier", "fast"]);
    assert!(out(&added).starts_with("target fast9 was added"), "{}{}", out(&added), err(&added));
    let list = volume.json(&["target", "list"]);
    let fast9 =
        list["targets"].as_array().expect("targets").iter().find(|t| t["name"] == "fast9").expect("it is there");
    assert_eq!(fast9["path"].as_str(), dir.canonicalize().expect("real").to_str());
    assert!(fast9["total_bytes"].as_u64() > Some(0), "{fast9}");

    // Recovered files have paths, and targets have names.
    let home = volume.dir.path().join("home");
    fs::create_dir(&home).expect("directory");
    let data = noise(9_000_000);
    fs::write(home.join("big"), &data).expect("write");
    fs::create_dir(volume.at.join("d")).expect("directory");
    volume.ok(&["stage", "in", &format!("file://{}/big", home.display()), "d/big"]);
    let layout = volume.json(&["layout", "d/big"]);
    let lost = layout["mirrors"][0]["segments"][0]["objects"][0]["target"].as_str().expect("target").to_string();
    volume.ok(&["target", "fail", &lost]);
    assert!(fs::read(volume.at.join("d/big")).expect("read") == data);
    let events = volume.json(&["status"])["events"].to_string();
    let expected = format!("recovering d/big: target {lost} lost ");
    assert!(events.contains(&expected), "{expected:?} is not in {events}");
    assert!(!events.contains("object 0"), "{events}");
    let metrics = out(&volume.run(&["stats", "--prometheus"]));
    let bare = metrics.lines().find(|line| !line.starts_with('#') && !line.contains("{volume=\"vol\",node=\""));
    assert_eq!(bare, None);
}

#[test]
fn a_layout_that_cannot_be_is_refused_with_the_reason() {
    let Some(volume) = Volume::up() else { return };
    fs::create_dir(volume.at.join("d")).expect("directory");
    fs::write(volume.at.join("f"), b"data").expect("write");
    says(&volume.run(&["layout", "set", "d", "mirors=2"]), 2, &["`mirors=2`", "valid are stripe_count"]);
    says(&volume.run(&["layout", "set", "d", "stripe_size=1000"]), 2, &["a multiple of 4K"]);
    says(&volume.run(&["layout", "set", "d", "mirrors=9"]), 2, &["`mirrors=9`", "targets"]);
    says(&volume.run(&["layout", "set", "f", "mirrors=2"]), 2, &["was written to already", "on its directory"]);
    says(&volume.run(&["layout", "set", "nothere", "mirrors=2"]), 5, &["nothere"]);
    let attribute = rustix::fs::setxattr(
        volume.at.join("d"),
        "user.entrepot.layout",
        b"mirrors=9",
        rustix::fs::XattrFlags::empty(),
    );
    assert_eq!(attribute, Err(rustix::io::Errno::INVAL), "by the attribute too");
    assert!(out(&volume.run(&["layout", "d"])).contains("as set in the volume's [layout]"));
    volume.ok(&["layout", "set", "d", "mirrors=2", "tier=fast"]);
    assert_eq!(out(&volume.run(&["layout", "d"])), "new files in it: mirrors=2 tier=fast\n");
    assert_eq!(volume.json(&["layout", "d"])["request"], "mirrors=2 tier=fast");
}

/// [S-193]
#[test]
fn results_go_into_directories_that_are_there_or_made() {
    let Some(volume) = Volume::up() else { return };
    let home = volume.dir.path().join("home");
    fs::create_dir(&home).expect("directory");
    let data = noise(3_000_000);
    fs::write(volume.at.join("result 1"), &data).expect("write");
    let uri = |path: &str| format!("file://{}/{path}", home.display());
    volume.ok(&["stage", "out", "result 1", &uri("")]);
    assert!(fs::read(home.join("result 1")).expect("under its own name") == data);
    volume.ok(&["stage", "out", "result 1", &uri("new/deep/r")]);
    assert!(fs::read(home.join("new/deep/r")).expect("directories are made") == data);
    volume.ok(&["stage", "out", "result 1", &uri("new")]);
    assert!(fs::read(home.join("new/result 1")).expect("into the directory") == data);
    says(&volume.run(&["stage", "out", "result 1", &uri("result%201/x")]), 5, &["result 1"]);
    says(&volume.run(&["stage", "out", "nothere", &uri("y")]), 5, &["nothere", "check the path in the mount"]);
    says(&volume.run(&["stage", "in", &uri("nothere"), "y"]), 5, &["nothere", "no file was put in place"]);
    says(&volume.run(&["stage", "in", "gs://bucket/x", "y"]), 5, &["gs", "http, https, webdav"]);
    let sum = ["stage", "in", &uri("new/deep/r"), "y", "--sha256", "abc"].map(str::to_string);
    says(&volume.run(&sum.iter().map(String::as_str).collect::<Vec<_>>()), 2, &["64 hexadecimal digits"]);
    if rustix::process::geteuid().is_root() {
        fs::set_permissions(&home, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("chmod");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&volume.at, open).expect("chmod");
        let refused = volume.run_as_nobody(&["stage", "out", "result 1", &uri("mine")]);
        says(&refused, 4, &[&format!("{}/mine: Permission denied", home.display())]);
    }
    let names: Vec<_> = fs::read_dir(&home).expect("ls").map(|e| e.expect("entry").file_name()).collect();
    assert_eq!(names.len(), 2, "nothing else is left: {names:?}");
}

#[test]
fn mount_and_down_know_it_by_its_mount_point() {
    let Some(volume) = Volume::up() else { return };
    let (toml, at) = (volume.toml.to_str().expect("UTF-8"), volume.at.to_str().expect("UTF-8"));
    let elsewhere = |words: &[&str]| {
        Command::new(&volume.binary).args(words).env_remove("ENTREPOT_VOLUME").current_dir("/").output().expect("runs")
    };
    assert!(out(&elsewhere(&["--volume", at, "status"])).contains("vol"));
    let down = elsewhere(&["down", at]);
    assert_eq!(code(&down), 0, "{}", err(&down));
    says(&elsewhere(&["down", at]), 2, &["no volume is mounted at"]);

    if rustix::process::geteuid().is_root() && std::path::Path::new("/sbin/mount.fuse").exists() {
        let mount = |options: &str| {
            let path = format!("{}:{}", volume.dir.path().display(), std::env::var("PATH").unwrap_or_default());
            // The program that mount(8) executes; mount(8) itself searches only the system's own directories.
            let words = [toml, at, "-t", "fuse.entrepot", "-o", options];
            Command::new("/sbin/mount.fuse").args(words).env("PATH", path).output().expect("mount.fuse")
        };
        says(&mount("rw,stripes=4"), 2, &["`stripes=4` is not understood"]);
        for again in [false, true] {
            let mounted = mount("nosuid,nodev,nofail");
            assert_eq!(code(&mounted), 0, "again: {again}: {}", err(&mounted));
        }
        let table = fs::read_to_string("/proc/self/mountinfo").expect("table");
        let lines: Vec<_> = table.lines().filter(|line| line.contains(at)).collect();
        assert!(matches!(lines[..], [line] if line.contains("nosuid,nodev")), "{lines:?}");
        fs::write(volume.at.join("f"), b"written").expect("write");
        assert_eq!(code(&elsewhere(&["down", at])), 0);
    }

    // As systemd starts it: ready when it is mounted, and no colours where no terminal is.
    let socket = volume.dir.path().join("notify");
    let systemd = UnixDatagram::bind(&socket).expect("socket");
    let mut daemon = Command::new(&volume.binary)
        .args(["up", toml, "--at", at])
        .env("NOTIFY_SOCKET", &socket)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut word = [0; 64];
    systemd.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("timeout");
    let len = systemd.recv(&mut word).expect("a word");
    assert_eq!(&word[..len], b"READY=1");
    fs::write(volume.at.join("g"), b"ready").expect("it is mounted");
    assert_eq!(code(&elsewhere(&["down", at])), 0);
    let len = systemd.recv(&mut word).expect("a word");
    assert_eq!(&word[..len], b"STOPPING=1");
    let mut said = String::new();
    std::io::Read::read_to_string(&mut daemon.stderr.take().expect("piped"), &mut said).expect("read");
    until("it has ended", || daemon.try_wait().expect("wait").is_some());
    assert!(said.contains("mounted") && !said.contains('\u{1b}'), "{said:?}");
    volume.up_again();
}
