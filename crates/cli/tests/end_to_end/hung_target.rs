//! A target or a namespace that does not answer any more: it lies in another file system, whose daemon is stopped.

use crate::real::{Volume, code, err, noise, until};
use crate::server::{self, Nginx};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::Duration;
use tempfile::TempDir;

/// A process that stands still until this is dropped: dropped first, so that nothing waits for it at the end of a test.
struct Stopped(Pid);

impl Stopped {
    fn new(pid: Pid) -> Stopped {
        kill_process(pid, Signal::STOP).expect("stop");
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// A volume whose target `fast1` is a directory in another one. Its daemon sees every read: none goes past it.
fn with_a_target_in_another() -> Option<(Volume, Volume)> {
    let inner = Volume::up_with(|toml| {
        let toml = toml.replace(r#"# passthrough = "auto""#, r#"passthrough = "off""#);
        toml.replace(r#"# io = "auto""#, r#"io = "direct""#)
    })?;
    let dir = inner.at.join("target");
    fs::create_dir(&dir).expect("directory");
    let outer = Volume::up_with(|toml| {
        let toml = toml.replace(r#"path = "targets/fast1""#, &format!("path = {dir:?}"));
        let toml = toml.replace(r#"# deadline = "5s""#, r#"deadline = "3s""#);
        let toml = toml.replace("# stripe_count = 4", "stripe_count = 6");
        toml.replace(r#"# io = "auto""#, r#"io = "direct""#)
    })?;
    Some((inner, outer))
}

#[test]
fn a_hung_target_delays_nobody_else_and_is_failed() {
    let Some(nginx) = Nginx::start() else { return };
    let Some((inner, outer)) = with_a_target_in_another() else { return };
    let data = noise(1 << 20);
    let (mut there, mut elsewhere) = (Vec::new(), Vec::new());
    for k in 0..12 {
        let name = format!("f{k}");
        fs::write(outer.at.join(&name), &data).expect("write");
        let on_it = !outer.ranges_on(&name, "fast1").is_empty();
        if on_it { there.push(outer.at.join(name)) } else { elsewhere.push(outer.at.join(name)) }
    }
    assert!(!there.is_empty() && elsewhere.len() > 3, "{there:?} {elsewhere:?}");
    let large = server::data(8 << 20, 1);
    fs::write(outer.at.join("mirrored"), &large).expect("write");
    outer.ok(&["layout", "add-mirror", "mirrored"]);
    fs::write(nginx.root().join("f"), &large).expect("write");
    outer.ok(&["stage", "in", &nginx.uri("f"), "sourced"]);
    assert!(!outer.ranges_on("sourced", "fast1").is_empty());

    let stopped = Stopped::new(inner.pid().expect("a daemon"));
    std::thread::scope(|scope| {
        let alone = scope.spawn(|| fs::read(&there[0]));
        let mirrored = scope.spawn(|| fs::read(outer.at.join("mirrored")));
        let sourced = scope.spawn(|| fs::read(outer.at.join("sourced")));
        for path in &elsewhere {
            assert!(fs::read(path).expect("another target answers") == data);
        }
        assert_eq!(fs::read_dir(&outer.at).expect("ls").count(), 14);
        assert_eq!(fs::metadata(&there[0]).expect("stat").len(), data.len() as u64);
        assert!(!alone.is_finished(), "all this took less than the deadline of the target that hangs");
        let refused = alone.join().expect("reader").expect_err("nobody else has its bytes");
        assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()), "{refused}");
        assert!(mirrored.join().expect("reader").expect("the other mirror") == large);
        assert!(sourced.join().expect("reader").expect("the source") == large);
    });
    until("it is failed", || outer.state_of("fast1") == "failed");
    assert!(outer.log().contains("fast1 (2) is suspect"), "{}", outer.log());
    fs::write(outer.at.join("new"), &large).expect("a new file goes elsewhere");
    assert!(outer.ranges_on("new", "fast1").is_empty());

    // The end comes though threads hang there, and so does a start.
    let daemon = outer.pid().expect("a daemon");
    outer.ok(&["down"]);
    until("the process is gone", || test_kill_process(daemon).is_err() || crate::real::is_zombie(daemon));
    outer.up_again();
    until("it is failed again", || outer.state_of("fast1") == "failed");
    assert!(fs::read(&elsewhere[0]).expect("read") == data);
    fs::read(&there[0]).expect_err("its target is away");
    let open = fs::File::open(&elsewhere[0]).expect("open");
    assert_eq!(code(&outer.run(&["down"])), 6, "somebody has a file open");
    let forced = outer.run(&["down", "--force"]);
    assert_eq!(code(&forced), 0, "{}", err(&forced));
    drop(open);

    drop(stopped);
    outer.up_again();
    outer.ok(&["target", "restore", "fast1"]);
    assert_eq!(outer.state_of("fast1"), "ok");
    for path in there.iter().chain(&elsewhere) {
        assert!(fs::read(path).expect("read") == data, "nothing was lost");
    }
    assert!(fs::read(outer.at.join("mirrored")).expect("read") == large);
    outer.ok(&["check", "--repair"]);
}

/// [S-239]
#[test]
fn the_doctor_names_what_hangs_and_does_not_hang() {
    let Some((inner, outer)) = with_a_target_in_another() else { return };
    let stopped = Stopped::new(inner.pid().expect("a daemon"));
    let told = outer.run(&["doctor"]);
    drop(stopped);
    let text = crate::real::out(&told);
    assert_eq!(code(&told), 1, "{text}{}", err(&told));
    assert!(text.contains("FAILURE  target fast1: no answer within 15 s"), "{text}");
    assert!(text.contains("ok       target fast0: ") && text.contains("ok       namespace: "), "{text}");
}

/// A directory behind a FUSE file system that caches nothing: a GlusterFS client over one local directory.
struct Uncached {
    client: Child,
    at: PathBuf,
    _around: TempDir,
}

impl Uncached {
    /// `None` after a message if there is no such client.
    fn mount() -> Option<Uncached> {
        let around = tempfile::tempdir().expect("temp dir");
        let [back, at, graph] = ["back", "at", "graph"].map(|name| around.path().join(name));
        [&back, &at].into_iter().for_each(|dir| fs::create_dir(dir).expect("directory"));
        let posix = format!("volume a\ntype storage/posix\noption directory {}\nend-volume\n", back.display());
        fs::write(&graph, posix + "volume b\ntype features/locks\nsubvolumes a\nend-volume\n").expect("written");
        let mut command = Command::new("glusterfs");
        command.args(["-N", "--attribute-timeout=0", "--entry-timeout=0", "--log-file=/dev/null", "-f"]);
        let Ok(client) = command.arg(&graph).arg(&at).spawn() else {
            eprintln!("skipped: glusterfs is not installed");
            return None;
        };
        let device = |path: &Path| fs::metadata(path).expect("a directory").dev();
        until("it is mounted", || device(&at) != device(&back));
        Some(Uncached { client, at, _around: around })
    }
}

impl Drop for Uncached {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
        let _ = self.client.kill().and_then(|()| self.client.wait());
    }
}

/// [S-426]
#[test]
fn status_top_and_metrics_come_while_the_namespace_hangs() {
    let Some(uncached) = Uncached::mount() else { return };
    let namespace = uncached.at.join("namespace");
    fs::create_dir(&namespace).expect("directory");
    let volume = Volume::up_with(|toml| {
        let toml = toml.replace(r#"# deadline = "5s""#, r#"deadline = "1s""#);
        toml.replace(r#"namespace = "namespace""#, &format!("namespace = {namespace:?}"))
    });
    let Some(volume) = volume else { return };
    fs::write(volume.at.join("f"), noise(1 << 20)).expect("write");
    let open = fs::File::open(volume.at.join("f")).expect("open");
    let top = ["top", "--once", "--output", "json"];
    let files = |top: &Output| {
        let top: serde_json::Value = serde_json::from_slice(&top.stdout).expect("JSON");
        top["files"].as_array().map(Vec::len)
    };
    assert_eq!(files(&volume.run_in(Path::new("/"), &top)), Some(1));
    let stopped = Stopped::new(Pid::from_child(&uncached.client));
    let answers = [&["status"][..], &top, &["stats", "--prometheus"]].map(|words| volume.run_in(Path::new("/"), words));
    drop(stopped);
    for answer in &answers {
        assert_eq!(code(answer), 0, "{}", err(answer));
    }
    assert_eq!(files(&answers[1]), Some(0), "they are looked up in the namespace");
    drop(open);
    volume.ok(&["down"]);
}

#[test]
fn forced_down_while_calls_hang_there() {
    let Some((inner, outer)) = with_a_target_in_another() else { return };
    let data = noise(12 << 20);
    fs::write(outer.at.join("f"), &data).expect("write");
    assert!(!outer.ranges_on("f", "fast1").is_empty());
    let stopped = Stopped::new(inner.pid().expect("a daemon"));
    let daemon = outer.pid().expect("a daemon");
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4).map(|_| scope.spawn(|| fs::read(outer.at.join("f")))).collect();
        let forced = outer.run(&["down", "--force"]);
        assert_eq!(code(&forced), 0, "{}", err(&forced));
        for reader in readers {
            reader.join().expect("the call returns").expect_err("with an error");
        }
    });
    until("the process is gone", || test_kill_process(daemon).is_err() || crate::real::is_zombie(daemon));
    drop(stopped);
    outer.up_again();
    assert!(fs::read(outer.at.join("f")).expect("read") == data);
}

/// [S-030]
#[test]
fn a_daemon_that_stood_still_fails_nothing_for_it() {
    let Some((inner, outer)) = with_a_target_in_another() else { return };
    let data = noise(1 << 20);
    let there = (0..100).map(|k| format!("f{k}")).find(|name| {
        fs::write(outer.at.join(name), &data).expect("write");
        !outer.ranges_on(name, "fast1").is_empty()
    });
    let path = outer.at.join(there.expect("one of so many lies there"));
    let theirs = Stopped::new(inner.pid().expect("a daemon"));
    let read = std::thread::spawn(move || fs::read(path));
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!read.is_finished(), "it waits for the target");
    let ours = Stopped::new(outer.pid().expect("a daemon"));
    drop(theirs);
    std::thread::sleep(Duration::from_secs(4));
    drop(ours);
    assert!(read.join().expect("no panic").expect("the target answered") == data);
    assert!(outer.state_of("fast1") == "ok" && !outer.log().contains("no answer within"), "{}", outer.log());
}
