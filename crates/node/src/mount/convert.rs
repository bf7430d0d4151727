//! Conversions between types of the namespace and of FUSE.

use fuser::{FileAttr, FileType, INodeNo, OpenFlags, Request, TimeOrNow, WriteFlags};
use meta::namespace::times::SetTime;
use meta::namespace::{Caller, NodeId};
use rustix::fs::Stat;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Converts an errno.
pub fn errno(error: rustix::io::Errno) -> fuser::Errno {
    fuser::Errno::from_i32(error.raw_os_error())
}

/// Caller of a request; `umask` if the request has one.
pub fn caller(request: &Request, umask: u32) -> Caller {
    Caller { uid: request.uid(), gid: request.gid(), umask, thread: request.pid() }
}

/// Whether a WRITE must be durable before its answer, and if so, whether only its data. Decided by the kernel's own
/// bits: O_SYNC has two, O_DSYNC is one of them, and `OFlags::DSYNC` is both. Write-back of the page cache is synced by
/// the FSYNC that follows.
pub fn synced(flags: OpenFlags, write: WriteFlags) -> Option<bool> {
    let wanted = flags.0 & libc::O_DSYNC != 0 && !write.contains(WriteFlags::FUSE_WRITE_CACHE);
    wanted.then_some(flags.0 & libc::O_SYNC != libc::O_SYNC)
}

/// FUSE attributes of an inode.
pub fn attributes(id: NodeId, stat: &Stat) -> FileAttr {
    FileAttr {
        ino: INodeNo(id),
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        atime: system_time(stat.st_atime, stat.st_atime_nsec),
        mtime: system_time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: system_time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: UNIX_EPOCH,
        kind: kind(rustix::fs::FileType::from_raw_mode(stat.st_mode)),
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: kernel_device(stat.st_rdev),
        blksize: stat.st_blksize as u32,
        flags: 0,
    }
}

/// Attributes of a file that is no inode and is readable by all users.
pub fn no_attributes(id: NodeId) -> FileAttr {
    FileAttr {
        ino: INodeNo(id),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0o444,
        nlink: 1,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// Converts a file type.
pub fn kind(kind: rustix::fs::FileType) -> FileType {
    use rustix::fs::FileType as Of;
    match kind {
        Of::Directory => FileType::Directory,
        Of::Symlink => FileType::Symlink,
        Of::Fifo => FileType::NamedPipe,
        Of::CharacterDevice => FileType::CharDevice,
        Of::BlockDevice => FileType::BlockDevice,
        Of::Socket => FileType::Socket,
        _ => FileType::RegularFile,
    }
}

/// Encodes a device number in the kernel's 32 bits.
fn kernel_device(device: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// Decodes a device number from the kernel's 32 bits.
pub fn device(kernel: u32) -> u64 {
    rustix::fs::makedev((kernel & 0xfff00) >> 8, (kernel & 0xff) | ((kernel >> 12) & 0xfff00))
}

fn system_time(seconds: i64, ns: u64) -> SystemTime {
    let whole = if seconds >= 0 {
        UNIX_EPOCH.checked_add(Duration::from_secs(seconds as u64))
    } else {
        UNIX_EPOCH.checked_sub(Duration::from_secs(seconds.unsigned_abs()))
    };
    whole.and_then(|t| t.checked_add(Duration::from_nanos(ns))).unwrap_or(UNIX_EPOCH)
}

/// Decodes the time that the kernel sent: seconds, and nanoseconds after them. Before 1970 fuser subtracts both from
/// the epoch, where nanoseconds are to be added. So the two numbers of the difference are those of the kernel.
pub fn set_time(time: TimeOrNow) -> SetTime {
    let TimeOrNow::SpecificTime(time) = time else { return SetTime::Now };
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => SetTime::At(after.as_secs() as i64, after.subsec_nanos()),
        Err(before) => SetTime::At(-(before.duration().as_secs() as i64), before.duration().subsec_nanos()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_keep_their_nanoseconds() {
        for (seconds, ns) in [(0, 0), (1, 5), (-1, 999_999_999), (-5, 0), (-5, 1), (1_700_000_000, 123_456_789)] {
            // As fuser makes it from the kernel's numbers.
            let of = |seconds: i64| Duration::new(seconds.unsigned_abs(), ns);
            let sent = if seconds < 0 { UNIX_EPOCH - of(seconds) } else { UNIX_EPOCH + of(seconds) };
            assert_eq!(set_time(TimeOrNow::SpecificTime(sent)), SetTime::At(seconds, ns));
        }
        assert_eq!(system_time(-2, 250_000_000), UNIX_EPOCH - Duration::from_millis(1750), "shown as it is");
    }

    /// [S-141]
    #[test]
    fn both_kinds_of_synced_writes_are_told_apart_from_others() {
        let wanted = |flags| synced(OpenFlags(libc::O_WRONLY | libc::O_DIRECT | flags), WriteFlags::empty());
        assert_eq!((wanted(0), wanted(libc::O_DSYNC), wanted(libc::O_SYNC)), (None, Some(true), Some(false)));
        assert_eq!(synced(OpenFlags(libc::O_SYNC), WriteFlags::FUSE_WRITE_CACHE), None, "written back");
    }

    #[test]
    fn devices_survive_the_way_there_and_back() {
        for (major, minor) in [(1, 3), (8, 17), (259, 70_000), (0xfff, 0xfffff)] {
            let device_number = rustix::fs::makedev(major, minor);
            assert_eq!(device(kernel_device(device_number)), device_number);
        }
    }
}
