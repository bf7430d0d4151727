//! A stub that is an open file of the namespace.

mod record;

use super::locks::Locker;
use super::{InUse, Inode, Mark, Stub, names};
use crate::descent::Met;
use crate::unsynced::Unsynced;
use crate::{Error, Result};
use object::host::{self, descriptor_path, remembered};
use parking_lot::RwLock;
use policy::Time;
use policy::layout::Layout;
pub(super) use record::decode;
pub use record::{LAYOUT_ATTRIBUTE, ROOM, is_laid_out, layout_at, number_at};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, AtFlags, FallocateFlags, FileType, Mode, OFlags, SeekFrom, Timespec, Timestamps, XattrFlags};
use rustix::io::{self, Errno};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The attribute of the source record.
pub const SOURCE_ATTRIBUTE: &str = "user.entrepot.source";

/// Attribute set while the kernel writes the object by itself.
pub const KERNEL_ATTRIBUTE: &str = "user.entrepot.kernel";
/// Attribute set on a file that grew beyond its stub's bytes without needing objects.
pub const INLINE_ATTRIBUTE: &str = "user.entrepot.inline";

/// Limit of an attribute on Linux.
pub(super) const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;

/// A stub that is an open file of the namespace.
pub struct FdStub {
    /// Best descriptor so far: a writable one, if any was offered.
    fd: RwLock<Arc<OwnedFd>>,
    inode: Option<Inode>,
    side: PathBuf,
    open: PathBuf,
    /// Set if several nodes use the stub.
    shared: bool,
    /// Set after a side file was replaced, until the next sync.
    side_unsynced: Unsynced<Errno>,
}

impl FdStub {
    /// Makes a stub of a descriptor. A read-only one is reopened for writing if the file's mode permits it.
    pub fn new(fd: OwnedFd, namespace: &Path) -> FdStub {
        FdStub::sharing(Arc::new(fd), namespace, false)
    }

    /// Opens the stub that a walk has met; `None` if it is gone, or no regular file.
    pub fn met(met: &Met, namespace: &Path, shared: bool) -> rustix::io::Result<Option<FdStub>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match fs::openat(&met.directory, &*met.name, flags, Mode::empty()) {
            Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(None),
            opened => opened?,
        };
        let is_file = FileType::from_raw_mode(remembered(&fd)?.st_mode) == FileType::RegularFile;
        Ok(is_file.then(|| FdStub::sharing(Arc::new(fd), namespace, shared)))
    }

    /// As [`FdStub::new`], for a descriptor that others use too; `shared`: several nodes have the volume.
    pub fn sharing(fd: Arc<OwnedFd>, namespace: &Path, shared: bool) -> FdStub {
        let fd = if is_writable(&fd) { fd } else { reopen(&fd).map_or(fd, Arc::new) };
        leave_access_time(&fd);
        FdStub {
            inode: remembered(&*fd).ok().map(|stat| (stat.st_dev, stat.st_ino)),
            fd: RwLock::new(fd),
            side: namespace.join("side"),
            open: namespace.join("open"),
            shared,
            side_unsynced: Unsynced::unchanged(),
        }
    }

    /// Offers another descriptor of the same file. It replaces the present one if only it can write.
    pub fn offer(&self, fd: Arc<OwnedFd>) {
        if is_writable(&fd) && !is_writable(&self.fd()) {
            leave_access_time(&fd);
            *self.fd.write() = fd;
        }
    }

    /// The descriptor in use.
    pub fn fd(&self) -> Arc<OwnedFd> {
        self.fd.read().clone()
    }

    pub(super) fn side(&self) -> &Path {
        &self.side
    }

    pub(super) fn attribute(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let fd = self.fd();
        match names::value(|value| permitted(fd.as_fd(), || fs::fgetxattr(&*fd, name, &mut *value))) {
            Ok(value) => Ok(Some(value)),
            Err(Errno::NODATA) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The result of an access to a mark or time, or `without` it if another node has removed the file. Its other users go
    /// on with the layout that they know. A server that is away may hide a file that is there.
    pub(super) fn unless_removed<T>(&self, done: Result<T>, without: T) -> Result<T> {
        match done {
            Err(error) if error.is_gone() && self.is_removed() => Ok(without),
            done => done,
        }
    }

    /// Sets an attribute, or removes it with `None`.
    pub(super) fn set_attribute(&self, name: &str, value: Option<&[u8]>) -> Result<()> {
        let Some(value) = value else { return self.take(name).map(drop) };
        let fd = self.fd();
        Ok(permitted(fd.as_fd(), || fs::fsetxattr(&*fd, name, value, XattrFlags::empty()))?)
    }

    /// As [`FdStub::set_attribute`], for an attribute that has no value, only presence.
    fn flag(&self, name: &str, set: bool) -> Result<()> {
        self.set_attribute(name, set.then_some(b"1"))
    }
}

/// Runs `act` on attributes. The file's mode binds even its owner, so an ordinary user's daemon widens it for a moment
/// if necessary. Root need not.
pub(super) fn permitted<T>(fd: BorrowedFd<'_>, mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    match act() {
        Err(Errno::ACCESS) => {}
        done => return done,
    }
    let mode = Mode::from_raw_mode(host::fstat(fd)?.st_mode & 0o7777);
    fs::fchmod(fd, mode | Mode::RUSR | Mode::WUSR)?;
    let done = act();
    fs::fchmod(fd, mode)?;
    done
}

fn is_writable(fd: &OwnedFd) -> bool {
    fs::fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::RDWR) || flags.contains(OFlags::WRONLY))
}

/// Stops reads from setting the access time. Handles share the descriptor, so it is unknown here whether a read should
/// set it. Where the namespace refuses this, its own rules hold.
fn leave_access_time(fd: &OwnedFd) {
    let _ = fs::fcntl_setfl(fd, OFlags::NOATIME);
}

fn reopen(fd: &OwnedFd) -> Option<OwnedFd> {
    fs::open(descriptor_path(fd), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok()
}

fn sync_directory(path: &Path) -> Result<()> {
    let fd = fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(object::host::sync_directory(&fd)?)
}

/// Writes a file and makes its bytes durable.
pub(super) fn write_synced(path: &Path, bytes: &[u8]) -> Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let fd = fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
    write_all(fd.as_fd(), 0, bytes)?;
    Ok(fs::fsync(&fd)?)
}

fn write_all(fd: BorrowedFd<'_>, mut offset: u64, mut data: &[u8]) -> Result<()> {
    while !data.is_empty() {
        match io::pwrite(fd, data, offset) {
            Ok(0) => return Err(Errno::IO.into()),
            Ok(written) => {
                data = &data[written..];
                offset += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

impl Stub for FdStub {
    fn layout(&self) -> Result<Option<Layout>> {
        if self.shared { self.newest_layout() } else { self.plain_layout() }
    }

    fn locker(&self) -> Result<Box<dyn Locker>> {
        self.open_locker()
    }

    fn grow_to(&self, size: u64) -> Result<()> {
        // Writes one byte that is never read. Setting the size could cut bytes that other nodes wrote beyond.
        if size > 0 { self.write_at(size - 1, &[0]) } else { Ok(()) }
    }

    fn set_layout(&self, layout: &Layout) -> Result<()> {
        self.set_plain_layout(layout)
    }

    fn renew(&self) -> Result<()> {
        let lost = self.fd();
        let access = if is_writable(&lost) { OFlags::RDWR } else { OFlags::RDONLY };
        let fd = fs::open(descriptor_path(&lost), access | OFlags::CLOEXEC, Mode::empty())?;
        leave_access_time(&fd);
        *self.fd.write() = Arc::new(fd);
        Ok(())
    }

    fn source(&self) -> Result<Option<String>> {
        let Some(value) = self.unless_removed(self.attribute(SOURCE_ATTRIBUTE), None)? else { return Ok(None) };
        String::from_utf8(value).map(Some).map_err(|_| Error::Invalid("the source record is not text".into()))
    }

    fn set_source(&self, record: Option<&str>) -> Result<()> {
        self.unless_removed(self.set_attribute(SOURCE_ATTRIBUTE, record.map(str::as_bytes)), ())
    }

    fn size(&self) -> Result<u64> {
        Ok(host::fstat(&*self.fd())?.st_size as u64)
    }

    fn set_size(&self, size: u64) -> Result<()> {
        Ok(fs::ftruncate(&*self.fd(), size)?)
    }

    fn touch(&self, modified: Time) -> Result<()> {
        let last_modification =
            Timespec { tv_sec: (modified.0 / 1_000_000_000) as i64, tv_nsec: (modified.0 % 1_000_000_000) as _ };
        let last_access = Timespec { tv_sec: 0, tv_nsec: fs::UTIME_OMIT as _ };
        let set = fs::futimens(&*self.fd(), &Timestamps { last_access, last_modification });
        self.unless_removed(set.map_err(Error::from), ())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let fd = self.fd();
        let mut done = 0;
        while done < buf.len() {
            match io::pread(&*fd, &mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(done)
    }

    fn read_first(&self, buf: &mut [u8]) -> Result<usize> {
        let fd = self.fd();
        Ok(io::retry_on_intr(|| io::pread(&*fd, &mut *buf, 0))?)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        write_all(self.fd().as_fd(), offset, data)
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        let fd = self.fd();
        match fs::fallocate(&*fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            result => return Ok(result?),
        }
        let end = offset.saturating_add(len).min(self.size()?);
        let zeros = [0; 4096];
        let mut at = offset;
        while at < end {
            let step = (end - at).min(4096);
            write_all(fd.as_fd(), at, &zeros[..step as usize])?;
            at += step;
        }
        Ok(())
    }

    fn seek_data(&self, offset: u64) -> Result<u64> {
        Ok(fs::seek(&*self.fd(), SeekFrom::Data(offset))?)
    }

    fn seek_hole(&self, offset: u64) -> Result<u64> {
        Ok(fs::seek(&*self.fd(), SeekFrom::Hole(offset))?)
    }

    fn mark_in_use(&self, by: InUse, mark: Mark) -> Result<()> {
        let name = self.open.join(by.to_string());
        if mark != Mark::None {
            let fd = self.fd();
            match fs::linkat(fs::CWD, descriptor_path(fd), fs::CWD, &name, AtFlags::SYMLINK_FOLLOW) {
                Ok(()) | Err(Errno::EXIST) => {}
                // The file was unlinked and ends with its last user, so there is nothing to settle after a crash.
                Err(Errno::NOENT) => return Ok(()),
                Err(e) => return Err(e.into()),
            }
            return if mark == Mark::Durable { sync_directory(&self.open) } else { Ok(()) };
        }
        match fs::unlink(&name) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn set_kernel_writes(&self, writes: bool) -> Result<()> {
        self.unless_removed(self.flag(KERNEL_ATTRIBUTE, writes), ())
    }

    fn kernel_writes(&self) -> Result<bool> {
        Ok(self.unless_removed(self.attribute(KERNEL_ATTRIBUTE), None)?.is_some())
    }

    fn mark_inline(&self, inline: bool) -> Result<()> {
        self.unless_removed(self.flag(INLINE_ATTRIBUTE, inline), ())
    }

    fn is_marked_inline(&self) -> Result<bool> {
        self.unless_removed(self.attribute(INLINE_ATTRIBUTE).map(|mark| mark.is_some()), true)
    }

    fn discard(&self, by: InUse) -> Result<()> {
        let file = by.file;
        let sums = ["sums", "closed"].map(|kind| self.side.join(format!("{file}.{kind}")));
        let beside = [self.side_file(file), self.open.join(by.to_string())].into_iter().chain(sums);
        for path in beside {
            match fs::unlink(&path) {
                // Another node may have removed the mark first.
                Ok(()) | Err(Errno::NOENT | Errno::STALE) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    fn inode(&self) -> Option<Inode> {
        self.inode
    }

    fn owner(&self) -> Option<(u32, u32)> {
        host::fstat(&*self.fd()).ok().map(|stat| (stat.st_uid, stat.st_gid))
    }

    fn path(&self) -> Option<PathBuf> {
        std::fs::read_link(descriptor_path(self.fd())).ok()
    }

    fn links(&self) -> Option<u64> {
        match host::fstat(&*self.fd()) {
            Ok(stat) => Some(stat.st_nlink),
            // A shared file system drops a file whose last link was removed.
            Err(Errno::NOENT | Errno::STALE) => Some(0),
            Err(_) => None,
        }
    }

    fn is_removed(&self) -> bool {
        host::fstat(&*self.fd()).is_ok_and(|stat| stat.st_nlink == 0)
    }

    fn has_mark(&self, by: InUse) -> bool {
        let mark = fs::statat(fs::CWD, self.open.join(by.to_string()), AtFlags::SYMLINK_NOFOLLOW);
        let own = remembered(&*self.fd());
        matches!((mark, own), (Ok(mark), Ok(own)) if (mark.st_dev, mark.st_ino) == (own.st_dev, own.st_ino))
    }

    fn sync(&self) -> Result<()> {
        self.side_unsynced.sync(|| sync_directory(&self.side).map_err(|error| error.errno()))?;
        Ok(fs::fsync(&*self.fd())?)
    }
}

#[cfg(test)]
mod tests;
