//! The burst buffer on real devices: full ones, one that loses power, limits of a real control group, trims. Needs root
//! for loop devices.

use super::burst::{complete, tiers, versions, with_burst, write};
use super::loops::Loop;
use super::real::{self, Volume, code, err};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Puts the targets of a tier on a device.
pub fn on(device: &Loop, tier: &str, text: String) -> String {
    (0..3).fold(text, |text, n| {
        let name = format!("{tier}{n}");
        let dir = device.dir.join(&name);
        fs::create_dir_all(&dir).expect("directory");
        text.replace(&format!(r#""targets/{name}""#), &format!("{dir:?}"))
    })
}

fn burst(volume: &Volume, key: &str) -> u64 {
    volume.json(&["checkpoint", "status"])[key].as_u64().unwrap_or(0)
}

fn read(volume: &Volume, app: &str, version: &str) -> Vec<u8> {
    fs::read(volume.at.join(format!("ckpt/{app}/{version}/state"))).expect("read")
}

/// The device holds less than the configured size of the buffer, since other files lie there too: ENOSPC at once, or a
/// wait for room. [S-123]
#[test]
fn a_fast_device_that_is_really_full_gives_what_was_chosen() {
    let data = real::noise(6 << 20);
    for (full, waits) in [("enospc", false), ("wait", true)] {
        let Some(fast) = Loop::new(32, &[]) else { return };
        let more = format!("size = \"22MB\"\nfull = \"{full}\"\nfull_wait = \"60s\"\norder = \"versions\"\n");
        let edit = |text: String| on(&fast, "fast", with_burst(more.clone())(text));
        let Some(volume) = Volume::up_with(edit) else { return };
        // Another program takes half of it, past the volume.
        fs::write(fast.dir.join("other"), real::noise(12 << 20)).expect("room for that");
        write(&volume, "a", "1", &data).expect("it fits");
        real::until("it is complete", || complete(&volume, "a", "1"));
        real::until("it has left, and its copy stays", || tiers(&volume, "ckpt/a/1/state") == ["fast", "capacity"]);
        // It fits into the configured size; it does not fit on the device, even if the first, which is safe below, is
        // dropped.
        let large = real::noise(16 << 20);
        real::until("the buffer knows what room there is", || burst(&volume, "room") < 14 << 20);
        if waits {
            std::thread::scope(|scope| {
                let waits = scope.spawn(|| write(&volume, "c", "1", &large).map(|_| ()));
                real::until("it waits", || burst(&volume, "held_writes") > 0);
                fs::remove_file(fast.dir.join("other")).expect("remove");
                waits.join().expect("no panic").expect("there is room now");
            });
            real::until("it is complete", || complete(&volume, "c", "1"));
            assert!(read(&volume, "c", "1") == large);
        } else {
            let full = write(&volume, "c", "1", &large).expect_err("it does not fit");
            assert_eq!(full.kind(), std::io::ErrorKind::StorageFull, "{full}");
            real::until("it does not count", || versions(&volume, "c").iter().all(|v| v["state"] != "complete"));
        }
        assert!(read(&volume, "a", "1") == data, "what is there stays right ({full})");
    }
}

/// Another program takes the device's last space while a checkpoint with a reservation is being written: it waits as
/// configured, and goes on. [S-123]
#[test]
fn room_that_others_take_while_a_checkpoint_is_written_is_waited_for() {
    let Some(fast) = Loop::new(32, &[]) else { return };
    let more = "size = \"22MB\"\nfull = \"wait\"\nfull_wait = \"60s\"\norder = \"versions\"\n";
    let Some(volume) = Volume::up_with(|text| on(&fast, "fast", with_burst(more)(text))) else { return };
    let data = real::noise(12 << 20);
    let dir = volume.at.join("ckpt/a/1");
    fs::create_dir_all(&dir).expect("directory");
    volume.ok(&["checkpoint", "begin", "a", "--path", "ckpt/a", "--version", "1", "--size", &(12 << 20).to_string()]);
    let file = fs::File::create(dir.join("state")).expect("create");
    file.write_all_at(&data[..2 << 20], 0).expect("it has room for all of it");
    file.write_all_at(&data[(12 << 20) - 4096..], (12 << 20) - 4096).expect("all its objects are there");
    file.sync_all().expect("sync");
    // Writes all that is left, to the last block.
    let other = fs::File::create(fast.dir.join("other")).expect("create");
    let mut at = 0;
    for step in [1 << 20, 4096] {
        while other.write_all_at(&data[..step], at).is_ok() {
            at += step as u64;
        }
    }
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| file.write_all_at(&data[2 << 20..], 2 << 20));
        real::until("it waits", || burst(&volume, "held_writes") > 0);
        other.set_len(0).expect("cut");
        waits.join().expect("no panic").expect("there is room now");
    });
    drop(file);
    volume.ok(&["checkpoint", "commit", "a"]);
    assert!(complete(&volume, "a", "1") && read(&volume, "a", "1") == data);
}

/// A capacity device that is full stops demotion and nothing else; once there is space demotion goes on. [S-123]
#[test]
fn a_capacity_device_that_is_really_full_only_stops_demotion() {
    let Some(slow) = Loop::new(32, &[]) else { return };
    let edit = |text: String| on(&slow, "capacity", with_burst("size = \"20MB\"\nfull = \"enospc\"\n")(text));
    let Some(volume) = Volume::up_with(edit) else { return };
    fs::write(slow.dir.join("other"), real::noise(22 << 20)).expect("room for that");
    let data = real::noise(8 << 20);
    for app in ["a", "b"] {
        write(&volume, app, "1", &data).expect("it fits");
        real::until("it is complete", || complete(&volume, app, "1"));
    }
    real::until("a demotion failed", || burst(&volume, "failed") > 0);
    for app in ["a", "b"] {
        assert_eq!(tiers(&volume, &format!("ckpt/{app}/1/state")), ["fast"], "nothing changed");
        assert!(read(&volume, app, "1") == data);
    }
    let full = write(&volume, "c", "1", &data).expect_err("nothing can leave");
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull, "{full}");
    fs::remove_file(slow.dir.join("other")).expect("remove");
    real::until("demotion goes on", || burst(&volume, "demoted") > 0);
    real::until("there is room", || write(&volume, "c", "2", &data).is_ok());
    real::until("it is complete", || complete(&volume, "c", "2"));
    for (app, version) in [("a", "1"), ("b", "1"), ("c", "2")] {
        assert!(read(&volume, app, version) == data, "{app} {version}");
    }
}

/// The limits stand in the kernel's own files, for the device that the buffer is on, and are gone afterwards.
#[test]
fn limits_are_set_in_a_real_control_group() {
    let Some(fast) = Loop::new(64, &[]) else { return };
    let Some(group) = Group::new() else { return };
    let speeds = "size = \"40MB\"\npolicy = \"maxbw\"\nwrite_max = \"30MB\"\nwrite_min = \"20MB\"\ndemote_max = \"10MB\"\ndemote_min = \"1MB\"\n\
        demote_idle = \"10MB\"\n";
    let edit = |text: String| on(&fast, "fast", with_burst(speeds)(text));
    // The process that starts the daemon is in the group, and so is the daemon.
    let Some(volume) = group.around(|| Volume::up_with(edit)) else { return };
    let limits = volume.json(&["checkpoint", "status"])["limits"].as_str().expect("limits").to_owned();
    assert!(limits.contains(group.kind) && limits.contains(group.dir.to_str().expect("UTF-8")), "{limits}");
    write(&volume, "a", "1", &real::noise(8 << 20)).expect("write");
    real::until("it is complete", || complete(&volume, "a", "1"));
    let device = fast.device();
    // 30 MB/s and a tenth: the token bucket is to bite first.
    real::until("the group has the limit", || group.limit(&device) == Some(33_000_000));
    assert_eq!(code(&volume.run(&["down"])), 0);
    real::until("the limit is gone", || group.limit(&device).is_none());
}

/// A control group of our own below the machine's.
struct Group {
    dir: PathBuf,
    kind: &'static str,
}

impl Group {
    fn new() -> Option<Group> {
        let name = format!("entrepot-test-{}", std::process::id());
        let (one, two) = (Path::new("/sys/fs/cgroup/blkio"), Path::new("/sys/fs/cgroup"));
        let has_io = fs::read_to_string(two.join("cgroup.subtree_control")).is_ok_and(|on| on.contains("io"));
        let (dir, kind) = if one.join("blkio.throttle.write_bps_device").exists() {
            (one.join(name), "blkio")
        } else if has_io {
            (two.join(name), "io.max")
        } else {
            eprintln!("skipped: neither blkio (v1) nor io.max (v2) is to be had here");
            return None;
        };
        match fs::create_dir(&dir) {
            Ok(()) => Some(Group { dir, kind }),
            Err(error) => {
                eprintln!("skipped: no control group can be made: {error}");
                None
            }
        }
    }

    /// Runs something on a thread that is in the group; what it starts is too.
    fn around<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let tasks = if self.kind == "blkio" { "tasks" } else { "cgroup.threads" };
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                fs::write(self.dir.join(tasks), "0").expect("into the group");
                act()
            });
            inside.join().expect("no panic")
        })
    }

    /// Bytes per second that the group may write to a device.
    fn limit(&self, device: &str) -> Option<u64> {
        let file = if self.kind == "blkio" { "blkio.throttle.write_bps_device" } else { "io.max" };
        let text = fs::read_to_string(self.dir.join(file)).ok()?;
        let of = text.lines().find_map(|line| line.strip_prefix(device)?.strip_prefix(' '))?;
        let words =
            of.split(' ').find_map(|word| word.strip_prefix("wbps=").or((self.kind == "blkio").then_some(word)));
        words?.parse().ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The processes are gone with the volume; the kernel takes a moment to notice.
        for _ in 0..200 {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        eprintln!("{} stays", self.dir.display());
    }
}

/// Space freed in the buffer is returned to the device below: its image shrinks.
#[test]
fn room_that_was_freed_is_trimmed() {
    let Some(fast) = Loop::new(64, &[]) else { return };
    let edit = |text: String| on(&fast, "fast", with_burst("size = \"40MB\"\ntrim = \"1s\"\n")(text));
    let Some(volume) = Volume::up_with(edit) else { return };
    let data = real::noise(16 << 20);
    write(&volume, "a", "1", &data).expect("write");
    real::until("it is complete", || complete(&volume, "a", "1"));
    real::until("it is on the device", || fast.allocated() > 16 << 20);
    fs::remove_file(volume.at.join("ckpt/a/1/state")).expect("remove");
    real::until("its blocks are trimmed", || fast.allocated() < 8 << 20);
    real::until("and that is told", || burst(&volume, "trims") > 0);
}

/// Bytes that say which version of which application they are, and where in it.
fn stamped(app: u64, version: u64, len: usize) -> Vec<u8> {
    (0..len / 8).flat_map(|n| (app << 48 | version << 32 | n as u64).to_le_bytes()).collect()
}

/// The whole volume on one device, whose image is taken while checkpoints are committed, demoted and dropped: the
/// content of a disk after a loss of power. A daemon on it, after a simulated restart of the machine, has every
/// committed version whole. [S-122]
#[test]
fn a_loss_of_power_leaves_every_committed_version_whole() {
    const LEN: usize = 1 << 20;
    let Some(disk) = Loop::new(192, &["commit=300"]) else { return };
    let volume = Volume::up_at(disk.dir.join("vol"), with_burst("size = \"6MB\"\norder = \"versions\"\n"));
    let Some(volume) = volume else { return };
    // Number of versions that each application may write by now: the disk must not fill while an image is checked.
    let allowed = AtomicU64::new(0);
    let mut demoted_at = Vec::new();
    std::thread::scope(|scope| {
        let end = End(&allowed);
        for app in 0..2u64 {
            let (volume, allowed) = (&volume, &allowed);
            scope.spawn(move || {
                let mut n = 0;
                loop {
                    match allowed.load(Ordering::Acquire) {
                        u64::MAX => return,
                        some if n >= some => std::thread::sleep(Duration::from_millis(5)),
                        _ => {
                            n += 1;
                            let data = stamped(app, n, LEN);
                            write(volume, &format!("app{app}"), &format!("{n:04}"), &data).expect("write");
                        }
                    }
                }
            });
        }
        for round in 1..=3u64 {
            let (committed, demoted) = (burst(&volume, "committed"), burst(&volume, "demoted"));
            allowed.store(20 * round, Ordering::Release);
            real::until("checkpoints are committed, and leave", || {
                burst(&volume, "committed") >= committed + 6 && burst(&volume, "demoted") >= demoted + 2
            });
            let known: Vec<Vec<u64>> = (0..2).map(|app| numbers(&versions(&volume, &format!("app{app}")))).collect();
            let image = disk.image_while_stopped(volume.pid().expect("a daemon"), &format!("after-{round}"));
            demoted_at.push(burst(&volume, "demoted"));
            look_at(&volume, &image, &known, LEN);
        }
        drop(end);
    });
    assert!(demoted_at.windows(2).all(|pair| pair[0] < pair[1]), "versions left between the looks: {demoted_at:?}");
}

/// Ends the writers, also when a look fails.
struct End<'a>(&'a AtomicU64);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(u64::MAX, Ordering::Release);
    }
}

/// The numbers of the complete versions.
fn numbers(rows: &[Value]) -> Vec<u64> {
    let complete = rows.iter().filter(|v| v["state"] == "complete");
    complete.map(|v| v["label"].as_str().expect("a label").parse().expect("a number")).collect()
}

/// Starts a daemon on an image, after a simulated restart of the machine, and reads all versions that it reports as
/// complete.
fn look_at(volume: &Volume, image: &Path, known: &[Vec<u64>], len: usize) {
    let Some(seen) = Loop::of(image) else { panic!("there was a loop device before") };
    let anew = seen.dir.parent().expect("a parent").join("boot_id");
    fs::write(&anew, "00000000-0000-4000-8000-000000000000\n").expect("write");
    let at = seen.dir.parent().expect("a parent").join("mnt");
    fs::create_dir(&at).expect("mount point");
    // A namespace of its own with another boot id, as after a restart; the mount is read through the daemon's `/proc`.
    let script = "mount --bind \"$1\" /proc/sys/kernel/random/boot_id && exec \"$2\" up \"$3\" --at \"$4\" --detach";
    let toml = seen.dir.join("vol/volume.toml");
    let up = Command::new("unshare")
        .args(["-m", "--propagation", "private", "sh", "-c", script, "sh"])
        .args([&anew, &volume.binary, &toml, &at])
        .output()
        .expect("unshare");
    assert!(up.status.success(), "{}", err(&up));
    let ask = |words: &[&str]| {
        let done = Command::new(&volume.binary).args(words).env("ENTREPOT_VOLUME", &toml).output().expect("entrepot");
        assert!(done.status.success(), "{words:?}: {}", err(&done));
        serde_json::from_slice::<Value>(&done.stdout).unwrap_or(Value::Null)
    };
    let pid = ask(&["status", "--output", "json"])["pid"].as_u64().expect("a process");
    for (app, known) in known.iter().enumerate() {
        let name = format!("app{app}");
        let rows =
            ask(&["checkpoint", "list", &name, "--output", "json"])["versions"].as_array().expect("rows").clone();
        let there = numbers(&rows);
        for version in known {
            assert!(there.contains(version), "{name}: {version} was committed, and {there:?} are there");
        }
        for version in there {
            let file = format!("/proc/{pid}/root{}/ckpt/{name}/{version:04}/state", at.display());
            let bytes = fs::read(&file).unwrap_or_else(|error| panic!("{name} {version}: {error}"));
            assert!(bytes == stamped(app as u64, version, len), "{name} {version} is whole");
        }
    }
    ask(&["down"]);
}
