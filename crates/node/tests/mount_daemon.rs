//! A mount whose daemon dies, is stopped at once, or finds the remains of an earlier one.

#[allow(dead_code)]
#[path = "mount/volume.rs"]
mod volume;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Variable with the volume's directory, for a copy of this test that runs as a daemon.
const DIRECTORY: &str = "ENTREPOT_TEST_DAEMON";

/// The daemon's side of the tests below: this very program, started again.
#[test]
fn daemon() {
    let Ok(dir) = std::env::var(DIRECTORY) else { return };
    let volume = volume::Volume::start(Path::new(&dir), volume::Wanted::default());
    println!("\nmounted");
    std::io::stdout().flush().unwrap();
    volume.mount.wait().unwrap();
}

struct Daemon {
    child: Child,
    at: PathBuf,
}

impl Daemon {
    fn start(dir: &Path) -> Daemon {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "daemon", "--nocapture"])
            .env(DIRECTORY, dir)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line == "mounted"), "the daemon mounts");
        Daemon { child, at: dir.join("mnt") }
    }

    fn kill(&mut self) {
        kill_process(Pid::from_child(&self.child), Signal::KILL).unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = rustix::mount::unmount(&self.at, rustix::mount::UnmountFlags::DETACH);
    }
}

/// [S-022] [S-034]
#[test]
fn files_survive_a_killed_daemon_and_callers_get_errors() {
    if volume::cannot_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut daemon = Daemon::start(dir.path());
    let (small, large) = (daemon.at.join("small"), daemon.at.join("large"));
    let bytes: Vec<u8> = (0..900_000u32).map(|n| (n % 253) as u8).collect();
    fs::write(&small, b"small").unwrap();
    let mut file = File::create(&large).unwrap();
    file.write_all(&bytes).unwrap();
    daemon.kill();
    let after = file.write_all(b"more").unwrap_err().raw_os_error();
    assert!([Errno::NOTCONN, Errno::CONNABORTED, Errno::IO].map(|e| Some(e.raw_os_error())).contains(&after));
    let lookup = fs::metadata(&small).unwrap_err();
    assert_eq!(lookup.raw_os_error(), Some(Errno::NOTCONN.raw_os_error()));
    drop(file);
    // The next daemon clears what the first one left at the mount point.
    let again = Daemon::start(dir.path());
    assert_eq!(fs::read(again.at.join("small")).unwrap(), b"small");
    assert!(fs::read(again.at.join("large")).unwrap() == bytes, "acknowledged bytes survive");
}

/// [S-034]
#[test]
fn an_aborted_mount_answers_with_errors() {
    if volume::cannot_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let volume = volume::Volume::start(dir.path(), volume::Wanted::default());
    fs::write(volume.at.join("file"), b"bytes").unwrap();
    let mut open = File::open(volume.at.join("file")).unwrap();
    let busy = volume.unmount().unwrap_err().to_string();
    assert!(busy.contains("cannot be ended"), "{busy}");
    volume.mount.abort().unwrap();
    let mut byte = [0];
    // Cached bytes may still be read; a new look at the attributes is a request.
    let _ = open.read(&mut byte);
    assert!(File::open(volume.at.join("file")).is_err() || !volume.at.join("file").exists());
    assert!(open.sync_all().is_err());
    volume.mount.wait().unwrap();
    assert_eq!(fs::read(dir.path().join("namespace/tree/file")).unwrap(), b"bytes");
}

#[test]
fn an_ordinary_user_mounts_for_herself() {
    if volume::cannot_mount() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        eprintln!("the other tests here ran as an ordinary user already");
        return;
    }
    let helper = Command::new("fusermount3").arg("-V").stdout(Stdio::null()).status();
    let device = fs::metadata("/dev/fuse").map(|m| std::os::unix::fs::PermissionsExt::mode(&m.permissions()));
    if helper.is_err() || device.is_ok_and(|mode| mode & 0o006 != 0o006) {
        eprintln!("skipped: needs fusermount3 and a /dev/fuse that everybody may open");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(dir.path(), Some(65534), Some(65534)).unwrap();
    let program = dir.path().join("daemon");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut child = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&program)
        .args(["--exact", "daemon", "--nocapture"])
        .env(DIRECTORY, dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mounted = lines.map_while(Result::ok).any(|line| line == "mounted");
    let daemon = Daemon { child, at: dir.path().join("mnt") };
    assert!(mounted, "the daemon mounts");
    let script = "cd mnt && head -c 700000 /dev/urandom > file && chmod 400 file && cp file copy && cmp file copy && \
                  mkdir d && mv copy d/ && rm -f d/copy && test $(stat -c %u file) = 65534";
    let status = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", script])
        .current_dir(dir.path())
        .status()
        .unwrap();
    assert!(status.success());
    drop(daemon);
}
