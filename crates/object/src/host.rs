//! Facts about this process and this machine in `/proc`, and files with secrets.

use rustix::fs::{AtFlags, CWD, Stat, StatxFlags, statat, statx};
use rustix::io::Result;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Path that names a descriptor for calls that take only paths.
pub fn descriptor_path(fd: impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}

/// Attributes of an open file from the kernel's cache, for constant ones: device, inode and kind. Sends no request to a
/// server.
pub fn remembered(fd: impl AsFd) -> Result<Stat> {
    // The call uses the path, because the kernel ignores the flag for a call without one.
    statat(CWD, descriptor_path(&fd), AtFlags::STATX_DONT_SYNC)
}

/// Attributes of an open file as they are now. The system's `fstat` may return what the kernel remembers.
pub fn fstat(fd: impl AsFd) -> Result<Stat> {
    statat(CWD, descriptor_path(&fd), AtFlags::STATX_FORCE_SYNC)
}

/// Birth time of a file, in nanoseconds since 1970; `None` if its file system does not report it.
pub fn born_ns(file: impl AsFd) -> Result<Option<u64>> {
    let attributes = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME)?;
    let has_birth = StatxFlags::from_bits_retain(attributes.stx_mask).contains(StatxFlags::BTIME);
    let ns = |seconds: u64, rest| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
    Ok(has_birth.then(|| ns(attributes.stx_btime.tv_sec.try_into().unwrap_or(0), attributes.stx_btime.tv_nsec.into())))
}

/// Returns the secret in a file, or the reason for a refusal, such as a file that other users can read.
pub fn read_secret(file: &Path) -> std::result::Result<String, String> {
    let about = std::fs::metadata(file).map_err(|error| error.to_string())?;
    if about.permissions().mode() & 0o007 != 0 {
        return Err(format!("any user may read or change it. Correct its mode: chmod 600 {}", file.display()));
    }
    let text = std::fs::read_to_string(file).map_err(|error| error.to_string())?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err("it is empty".into()),
        secret => Ok(secret.to_owned()),
    }
}

/// Whether it is a local file system whose SEEK_HOLE and SEEK_DATA report bytes that are only in memory yet, and which
/// hides removed files that are open. Other ones count as unknown: network file systems may query the server or give
/// removed files another name, and some local ones ignored dirty pages in some versions.
pub fn is_local(file: impl AsFd) -> bool {
    const EXT: u64 = 0xef53;
    const XFS: u64 = 0x5846_5342;
    const BTRFS: u64 = 0x9123_683e;
    const TMPFS: u64 = 0x0102_1994;
    // Where the field is signed, the bits above 31 are only its sign.
    let kind = rustix::fs::fstatfs(file).map(|fs| fs.f_type as u64 & 0xffff_ffff);
    kind.is_ok_and(|kind| matches!(kind, EXT | XFS | BTRFS | TMPFS))
}

/// `f_type` of FUSE, from the kernel's `magic.h`.
const FUSE_MAGIC: u64 = 0x6573_5546;

/// Whether a file lies on a FUSE mount.
pub fn is_fuse(file: impl AsFd) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|fs| fs.f_type as u64 == FUSE_MAGIC)
}

/// Type of the FUSE mount that a directory lies on, as tables of mounts show it; `None` for other file systems.
pub fn fuse_type(directory: impl AsFd) -> Option<String> {
    if !is_fuse(&directory) {
        return None;
    }
    let stat = remembered(&directory).ok()?;
    let device = format!("{}:{}", rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    crate::mounts::all().into_iter().find(|mounted| mounted.device == device).map(|mounted| mounted.kind)
}

/// This process's file mode creation mask, read where reading does not change it.
pub fn umask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| u32::from_str_radix(line.strip_prefix("Umask:")?.trim(), 8).ok())
}

/// Makes the names in a directory durable. After an XFS has shut down because its device failed, `fsync` of a directory
/// succeeds without effect, but the directory has no attributes any more.
///
/// # Errors
/// The names may be lost.
pub fn sync_directory(directory: impl AsFd) -> rustix::io::Result<()> {
    rustix::fs::fsync(&directory)?;
    fstat(&directory).map(drop)
}

/// Renames a file, and makes its new name durable.
///
/// # Errors
/// The file has the old name, or its new one may be lost.
pub fn rename_durably(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::rename(from, to)?;
    let directory = to.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(sync_directory(std::fs::File::open(directory)?)?)
}

/// The name of this host, as the kernel has it.
pub fn name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// Returns the identifier of this boot of the machine; empty if the kernel reports none.
pub fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_kernel_tells() {
        let file = tempfile::tempfile().expect("a file");
        let again = std::fs::metadata(descriptor_path(&file)).expect("it is open");
        assert_eq!(again.ino(), file.metadata().expect("its own").ino());
        let remembered = remembered(&file).expect("it is open");
        assert_eq!((remembered.st_dev, remembered.st_ino), (again.dev(), again.ino()));
        assert!(umask().is_some_and(|mask| mask <= 0o777));
        assert_eq!((boot().len(), boot()), (36, boot()));
    }

    #[test]
    fn only_fuse_mounts_have_a_fuse_type() {
        assert_eq!(fuse_type(std::fs::File::open("/proc").unwrap()), None);
    }
}
