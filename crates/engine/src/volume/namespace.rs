//! The directories of the namespace, and the file that names the volume they belong to.

use super::VolumeId;
use object::host;
use object::newer::newer_than;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Newest format of a namespace, and of all its files, that this program can read.
pub const FORMAT: u32 = HOLDERS;
/// Format of a volume of one node.
const ALONE: u32 = 1;
/// Format of a volume of several nodes: stubs have pointers to records of layouts.
pub(super) const HOLDERS: u32 = 2;
const FORMAT_FILE: &str = "format";
const ID_FILE: &str = "volume.id";
const EPOCH_FILE: &str = "epoch";
const STATE_ID_FILE: &str = "state.id";
const INLINE_FILE: &str = "inline";
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC).union(OFlags::RDONLY);

/// The open directories of a namespace.
pub struct Directories {
    pub tree: OwnedFd,
    pub side: OwnedFd,
    pub open: OwnedFd,
    pub staging: OwnedFd,
}

/// Format of a namespace, which this program can read. Without a format file it is 1. The error is a cause for the
/// operator.
pub fn read_format(namespace: &Path) -> Result<u32, String> {
    let file = namespace.join(FORMAT_FILE);
    let Some(text) = read_line(&file).map_err(|error| error.to_string())? else { return Ok(ALONE) };
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("{} does not hold the number of a format", file.display())),
        Ok(known @ 1..=FORMAT) => Ok(known),
        Ok(newer) => Err(newer_than(&format!("the volume in {}", namespace.display()), newer, FORMAT)),
    }
}

/// The volume that a namespace belongs to; `None` if it is new. The error is a cause for people.
pub fn read_id(namespace: &Path) -> Result<Option<VolumeId>, String> {
    read_format(namespace)?;
    let file = namespace.join(ID_FILE);
    let Some(text) = read_line(&file).map_err(|error| error.to_string())? else { return Ok(None) };
    let id = u128::from_str_radix(&text, 16);
    id.map(|id| Some(VolumeId(id))).map_err(|_| format!("{} does not hold the number of a volume", file.display()))
}

/// Records the format of a namespace, durably.
pub(super) fn write_format(namespace: &Path, format: u32) -> std::io::Result<()> {
    write_whole(namespace, FORMAT_FILE, &format.to_string())
}

/// Gives a new namespace its format and its random identity, durably.
pub fn format(namespace: &Path) -> std::io::Result<VolumeId> {
    write_format(namespace, ALONE)?;
    let id = VolumeId::random()?;
    write_whole(namespace, ID_FILE, &id.to_string())?;
    Ok(id)
}

/// Text of a file, without the line's end; `None` if it is missing.
pub(super) fn read_line(file: &Path) -> std::io::Result<Option<String>> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(std::io::Error::new(error.kind(), format!("{} cannot be read: {error}", file.display()))),
    }
}

/// Last epoch in this namespace; 0 if it is new or its file is damaged. State store and targets have it, too.
pub fn read_epoch(namespace: &Path) -> std::io::Result<u32> {
    let text = read_line(&namespace.join(EPOCH_FILE))?;
    let number = text.as_deref().map_or(Some(0), |text| text.parse().ok());
    Ok(number.unwrap_or_else(|| {
        tracing::warn!("{} holds no number; the targets are asked instead", namespace.join(EPOCH_FILE).display());
        0
    }))
}

/// Returns the number of the state store of this namespace; `None` if it has none yet.
pub fn read_state_id(namespace: &Path) -> std::io::Result<Option<String>> {
    read_line(&namespace.join(STATE_ID_FILE))
}

/// Records the number of the state store of this namespace, durably.
pub fn write_state_id(namespace: &Path, id: &str) -> std::io::Result<()> {
    write_whole(namespace, STATE_ID_FILE, id)
}

/// Largest size ever configured for files kept in their stubs, `now` included. Recorded in the namespace.
pub fn inline_bytes_ever(namespace: &Path, now: u64) -> std::io::Result<u64> {
    let before = read_line(&namespace.join(INLINE_FILE))?.and_then(|text| text.parse().ok()).unwrap_or(0);
    if now > before {
        match write_whole(namespace, INLINE_FILE, &now.to_string()) {
            // The value is needed only after `inline_max` was lowered.
            Err(error) if error.raw_os_error() == Some(Errno::NOSPC.raw_os_error()) => {}
            written => written?,
        }
    }
    Ok(now.max(before))
}

/// Returns the inode and birth time of `tree`, which distinguish it from a copy put in its place. `None` if the file
/// system does not report them.
pub fn tree_identity(namespace: &Path) -> Option<String> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let wanted = StatxFlags::INO | StatxFlags::BTIME;
    let found = statx(CWD, namespace.join("tree"), AtFlags::SYMLINK_NOFOLLOW, wanted).ok()?;
    let said = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
    said.then(|| format!("{} {}.{:09}", found.stx_ino, found.stx_btime.tv_sec, found.stx_btime.tv_nsec))
}

/// Remembers an epoch, durably.
pub fn write_epoch(namespace: &Path, epoch: u32) -> std::io::Result<()> {
    match write_whole(namespace, EPOCH_FILE, &epoch.to_string()) {
        // A volume with a full namespace must start, or no file could be removed. The existing block takes a number
        // that only grows.
        Err(error) if error.raw_os_error() == Some(Errno::NOSPC.raw_os_error()) => {
            let mut file =
                std::fs::OpenOptions::new().write(true).open(namespace.join(EPOCH_FILE)).map_err(|_| error)?;
            writeln!(file, "{epoch}")?;
            file.sync_all()
        }
        written => written,
    }
}

pub(super) fn write_whole(namespace: &Path, name: &str, text: &str) -> std::io::Result<()> {
    let new = namespace.join(format!("{name}.new"));
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    host::rename_durably(&new, &namespace.join(name))
}

/// Opens the directories, and makes missing ones. The namespace itself is closed to other users, so that none bypasses
/// the mount. The tree inside becomes the root of the mount. A new tree of root's is sticky and open to all users, like
/// `/tmp`.
pub fn open(namespace: &Path) -> Result<Directories, Errno> {
    let root = rustix::fs::open(namespace, DIRECTORY, Mode::empty())?;
    rustix::fs::fchmod(&root, Mode::RWXU)?;
    let of_users = if rustix::process::geteuid().is_root() { 0o1777 } else { 0o755 };
    let directories = Directories {
        tree: directory(&root, "tree", Mode::from_raw_mode(of_users))?,
        side: directory(&root, "side", Mode::RWXU)?,
        open: directory(&root, "open", Mode::RWXU)?,
        staging: directory(&root, "staging", Mode::RWXU)?,
    };
    host::sync_directory(&root)?;
    Ok(directories)
}

fn directory(parent: impl AsFd, name: &str, mode: Mode) -> Result<OwnedFd, Errno> {
    let made = match rustix::fs::mkdirat(&parent, name, mode) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(errno) => return Err(errno),
    };
    let fd = rustix::fs::openat(&parent, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
    if made {
        rustix::fs::fchmod(&fd, mode)?; // whatever the umask was
    }
    Ok(fd)
}
