//! Small real file systems on loop devices; unmounted whatever the test did.

use super::real::{err, until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An ext4 file system on a loop device.
pub struct Loop {
    /// Mount point of the file system.
    pub dir: PathBuf,
    image: PathBuf,
    _around: tempfile::TempDir,
}

impl Loop {
    /// Makes a file system of `mib` MiB, with further mount options; `None` after a message if that is not possible.
    pub fn new(mib: u64, options: &[&str]) -> Option<Loop> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root to mount small file systems");
            return None;
        }
        let around = tempfile::Builder::new().prefix("entrepot-loop").tempdir().expect("temp dir");
        let image = around.path().join("image");
        fs::File::create(&image).and_then(|f| f.set_len(mib << 20)).expect("image");
        let mkfs = ["/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"].into_iter().find(|p| Path::new(p).exists());
        let Some(mkfs) = mkfs else {
            eprintln!("skipped: mkfs.ext4 is not installed");
            return None;
        };
        let lazy = "lazy_itable_init=0,lazy_journal_init=0";
        let made = Command::new(mkfs).args(["-q", "-m", "0", "-E", lazy, "-J", "size=4"]).arg(&image).output();
        let made = made.expect("mkfs");
        assert!(made.status.success(), "{}", err(&made));
        Loop::mount(around, image, options)
    }

    /// Mounts a file system of an existing image; the image stays.
    pub fn of(image: &Path) -> Option<Loop> {
        let around = tempfile::Builder::new().prefix("entrepot-loop").tempdir().expect("temp dir");
        Loop::mount(around, image.to_owned(), &[])
    }

    fn mount(around: tempfile::TempDir, image: PathBuf, options: &[&str]) -> Option<Loop> {
        let dir = around.path().join("dir");
        fs::create_dir(&dir).expect("directory");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(around.path(), open).expect("chmod");
        let options = [&["loop"], options].concat().join(",");
        let mounted = Command::new("mount").args(["-o", &options]).arg(&image).arg(&dir).output().expect("mount");
        if !mounted.status.success() {
            eprintln!("skipped: no loop device: {}", err(&mounted));
            return None;
        }
        Some(Loop { dir, image, _around: around })
    }

    /// Number of the device, as `major:minor`.
    pub fn device(&self) -> String {
        let device = fs::metadata(&self.dir).expect("it is mounted").dev();
        format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device))
    }

    /// Bytes that its image takes.
    pub fn allocated(&self) -> u64 {
        fs::metadata(&self.image).expect("the image").blocks() * 512
    }

    /// A copy of what the device holds, taken while a daemon stands still: what was not made durable is in it or not,
    /// as after a loss of power.
    pub fn image_while_stopped(&self, daemon: Pid, name: &str) -> PathBuf {
        let copy = self.image.with_file_name(name);
        kill_process(daemon, Signal::STOP).expect("it lives");
        // A thread finishes its system call before it stops.
        let tasks = format!("/proc/{}/task", daemon.as_raw_nonzero());
        until("all threads stand still", || {
            let tasks = fs::read_dir(&tasks).expect("tasks").flatten();
            tasks
                .map(|task| fs::read_to_string(task.path().join("stat")).unwrap_or_default())
                .all(|stat| stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T')))
        });
        fs::copy(&self.image, &copy).expect("copy");
        kill_process(daemon, Signal::CONT).expect("it lives");
        copy
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.dir).status();
    }
}
