//! Loss of power where the namespace is a file system of its own: an image of it, taken while it runs, is what the disk
//! would hold.

#[allow(dead_code)]
#[path = "mount/volume.rs"]
mod volume;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use volume::{Volume, Wanted};

/// A file system on a loop device.
struct Disk(PathBuf);

/// An ext4 that makes nothing durable by itself for a long time.
const EXT4: &str = "loop,commit=300";

impl Disk {
    fn mount(image: &Path, at: &Path, options: &str) -> Option<Disk> {
        fs::create_dir_all(at).unwrap();
        let mounted = Command::new("mount").args(["-o", options]).arg(image).arg(at).status();
        mounted.is_ok_and(|status| status.success()).then(|| Disk(at.to_path_buf()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let status = Command::new("umount").arg(&self.0).status();
        if !status.is_ok_and(|status| status.success()) {
            eprintln!("{} stays mounted", self.0.display());
        }
    }
}

/// Shuts an XFS down as it does by itself after an error of its device (XFS_IOC_GOINGDOWN).
struct Shutdown(u32);

// SAFETY: the kernel reads a number of 32 bits.
unsafe impl rustix::ioctl::Ioctl for Shutdown {
    type Output = ();
    const IS_MUTATING: bool = false;
    fn opcode(&self) -> rustix::ioctl::Opcode {
        rustix::ioctl::opcode::read::<u32>(b'X', 125)
    }
    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        std::ptr::from_mut(&mut self.0).cast()
    }
    unsafe fn output_from_ptr(_: rustix::ioctl::IoctlOutput, _: *mut std::ffi::c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// [S-150]
#[test]
fn a_sync_of_a_directory_fails_once_the_disk_has_failed() {
    const WITHOUT_LOG: u32 = 2;
    if volume::cannot_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    File::create(&image).unwrap().set_len(320 << 20).unwrap();
    let made = Command::new("mkfs.xfs").arg("-q").arg(&image).status();
    if !rustix::process::geteuid().is_root() || !made.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: needs root and mkfs.xfs");
    }
    let Some(disk) = Disk::mount(&image, &dir.path().join("disk"), "loop") else {
        return eprintln!("skipped: needs loop devices");
    };
    let volume = Volume::start(&disk.0, Wanted::default());
    fs::write(volume.at.join("new"), b"bytes").unwrap();
    let directory = File::open(&volume.at).unwrap();
    directory.sync_all().unwrap();
    fs::rename(volume.at.join("new"), volume.at.join("name")).unwrap();
    // SAFETY: the file system is this test's own.
    unsafe { rustix::ioctl::ioctl(File::open(&disk.0).unwrap(), Shutdown(WITHOUT_LOG)) }.unwrap();
    let error = directory.sync_all().expect_err("the rename is lost");
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    drop(directory);
    drop(volume);
}

fn objects(dir: &Path) -> usize {
    let entries = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let targets = entries(dir.to_path_buf()).filter(|path| path.join("objects").is_dir());
    targets.flat_map(|target| entries(target.join("objects"))).flat_map(entries).count()
}

fn wait_for_objects(dir: &Path, count: usize) {
    let until = Instant::now() + Duration::from_secs(30);
    while objects(dir) != count {
        assert!(Instant::now() < until, "there are {} objects, not {count}", objects(dir));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// [S-026]
#[test]
fn a_name_that_comes_back_after_a_loss_of_power_has_its_objects() {
    if volume::cannot_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    File::create(&image).unwrap().set_len(64 << 20).unwrap();
    let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).status();
    if !rustix::process::geteuid().is_root() || !made.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: needs root and mkfs.ext4");
    }
    let Some(_disk) = Disk::mount(&image, &dir.path().join("namespace"), EXT4) else {
        return eprintln!("skipped: no loop device can be had");
    };
    let volume = Volume::start(dir.path(), Wanted::default());
    let write = |name: &str| {
        let mut file = File::create(volume.at.join(name)).unwrap();
        file.write_all(&[7; 1 << 20]).unwrap();
        file.sync_all().unwrap();
    };
    ["unlinked", "replaced", "new"].into_iter().for_each(write);
    File::open(dir.path().join("namespace")).map(|namespace| rustix::fs::syncfs(namespace).unwrap()).unwrap();
    let before = objects(dir.path());
    fs::remove_file(volume.at.join("unlinked")).unwrap();
    fs::rename(volume.at.join("new"), volume.at.join("replaced")).unwrap();
    wait_for_objects(dir.path(), before / 3);

    let after = dir.path().join("after");
    fs::copy(&image, &after).unwrap();
    let Some(_after) = Disk::mount(&after, &dir.path().join("seen"), EXT4) else {
        return eprintln!("skipped: no second loop device can be had");
    };
    let mut names: Vec<_> =
        fs::read_dir(dir.path().join("seen/tree")).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["replaced"], "the other names are gone for good before their objects are");
}
