//! A target in a directory: objects are plain files under `objects/HH/`, with an identity file beside them.
//!
//! ```text
//! PATH/target.id            identity: volume and target
//! PATH/target.probe         written by probes
//! PATH/epoch                the last epoch on this target, so that numbers never start again
//! PATH/objects/00 .. ff/    by the low byte of the object's number
//! PATH/objects/2a/000000010000002a
//! ```
//! Every probe reopens the directory. If another file system is mounted there by then, the medium moves to it if the
//! identity file is ours. If not, the medium is gone (`ENODEV`).

mod ahead;
mod file;
mod identity;

pub use identity::{Identity, IdentityError};

use super::medium::{Handle, Medium, Space};
use crate::host;
use file::Below;
pub use file::FileHandle;
use parking_lot::{Mutex, RwLock};
use policy::ObjectId;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name of the file with the last epoch.
const EPOCH: &str = "epoch";
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC).union(OFlags::RDONLY);
const FILE: OFlags = OFlags::RDWR.union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);
const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);

/// Access to the directory of a target.
pub trait DirectoryAccess: Send + Sync + 'static {
    /// Opens the directory in its present state.
    fn open(&self) -> Result<OwnedFd, Errno>;
    /// Path of the directory, if it has one.
    fn path(&self) -> Option<&Path> {
        None
    }
}

impl DirectoryAccess for PathBuf {
    fn open(&self) -> Result<OwnedFd, Errno> {
        rustix::fs::open(self, DIRECTORY, Mode::empty())
    }

    fn path(&self) -> Option<&Path> {
        Some(self)
    }
}

/// A directory on an existing file system.
pub struct DirectoryMedium {
    way: Box<dyn DirectoryAccess>,
    identity: Identity,
    place: RwLock<Option<Arc<Place>>>,
    /// Directories under `objects/` with creations or removals that may not be durable. At first all of them, since a
    /// killed daemon may have left some.
    touched: Mutex<BTreeSet<u8>>,
    /// Held during their sync: a caller that finds nothing touched must still wait for a sync under way.
    syncing: Mutex<()>,
}

/// The directory as of its last opening.
struct Place {
    objects: OwnedFd,
    device: u64,
    inode: u64,
    below: Below,
    over_network: bool,
    /// Whether other machines may use its file system.
    is_shared: bool,
    cuts_requests: bool,
}

/// Types of shared file systems with a client in user space.
const SHARED_FUSE: [&str; 5] = ["fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.juicefs", "fuse.mfs"];

fn bucket(id: ObjectId) -> u8 {
    id.0 as u8
}

/// Path of an object below `objects`.
fn object_path(id: ObjectId) -> String {
    format!("{:02x}/{id}", bucket(id))
}

impl DirectoryMedium {
    /// Makes the directory a target: object directories first, the identity last, so that a target with an identity is
    /// complete. Existing directories are taken over; an identity is replaced only by the same one.
    pub fn format(path: &Path, identity: &Identity) -> Result<(), IdentityError> {
        DirectoryMedium::format_at(&rustix::fs::open(path, DIRECTORY, Mode::empty())?, identity)
    }

    /// As [`DirectoryMedium::format`], of an open directory.
    pub fn format_at(root: &OwnedFd, identity: &Identity) -> Result<(), IdentityError> {
        match Identity::read_at(root) {
            Ok(found) if found == *identity => {}
            Ok(found) => return Err(IdentityError::Foreign { found: Box::new(found) }),
            Err(IdentityError::Missing) => {}
            Err(error) => return Err(error),
        }
        make_directory(root, "objects")?;
        let objects = rustix::fs::openat(root, "objects", DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
        for byte in 0..=u8::MAX {
            make_directory(&objects, &format!("{byte:02x}"))?;
        }
        host::sync_directory(&objects)?;
        identity.write(root)
    }

    /// Makes the target in `path`. Until the first successful probe, all operations fail with `ENODEV`.
    pub fn new(path: &Path, identity: Identity) -> DirectoryMedium {
        DirectoryMedium::reached(Box::new(path.to_owned()), identity)
    }

    /// As [`DirectoryMedium::new`], for a directory without a path.
    pub fn reached(way: Box<dyn DirectoryAccess>, identity: Identity) -> DirectoryMedium {
        DirectoryMedium {
            way,
            identity,
            place: RwLock::new(None),
            touched: Mutex::new((0..=u8::MAX).collect()),
            syncing: Mutex::default(),
        }
    }

    /// The path of an object below the directory.
    pub fn path_of(id: ObjectId) -> PathBuf {
        Path::new("objects").join(object_path(id))
    }

    /// Reopens the directory, even if it seems to be the same as before.
    pub fn move_along(&self) -> Result<(), Errno> {
        self.enter(true).map(drop)
    }

    /// Whether a probe has found it.
    pub fn is_found(&self) -> bool {
        self.place.read().is_some()
    }

    fn place(&self) -> Result<Arc<Place>, Errno> {
        self.place.read().clone().ok_or(Errno::NODEV)
    }

    /// Writes and reads back the text of a probe. Returns the file; `None` on a medium that is full.
    fn write_probe(&self) -> Result<Option<OwnedFd>, Errno> {
        const TEXT: &[u8] = b"written by probes, may be removed\n";
        let root = self.look()?;
        let fd = rustix::fs::openat(&root, "target.probe", FILE | OFlags::CREATE, PRIVATE_FILE)?;
        match rustix::io::pwrite(&fd, TEXT, 0) {
            Ok(n) if n == TEXT.len() => {}
            Ok(_) | Err(Errno::NOSPC | Errno::DQUOT) => return Ok(None), // full, and otherwise well
            Err(errno) => return Err(errno),
        }
        let mut back = [0; TEXT.len()];
        let n = rustix::io::pread(&fd, &mut back, 0)?;
        if n == TEXT.len() && back == *TEXT { Ok(Some(fd)) } else { Err(Errno::IO) }
    }

    /// Opens the directory, and moves there if it is ours.
    fn look(&self) -> Result<OwnedFd, Errno> {
        self.enter(false)
    }

    fn enter(&self, reopened: bool) -> Result<OwnedFd, Errno> {
        let root = self.way.open().map_err(absent)?;
        let found = Identity::read_at(&root).map_err(|error| match error {
            IdentityError::Io(errno) => errno,
            IdentityError::Missing
            | IdentityError::Foreign { .. }
            | IdentityError::Newer { .. }
            | IdentityError::Unreadable { .. } => Errno::NODEV,
        })?;
        if (found.volume, found.target) != (self.identity.volume, self.identity.target) {
            return Err(Errno::NODEV);
        }
        let objects = rustix::fs::openat(&root, "objects", DIRECTORY | OFlags::NOFOLLOW, Mode::empty());
        let objects = objects.map_err(absent)?;
        let stat = crate::host::remembered(&objects)?;
        let here = self.place.read().as_ref().is_some_and(|p| (p.device, p.inode) == (stat.st_dev, stat.st_ino));
        if reopened || !here {
            let fuse_type = crate::host::fuse_type(&objects);
            let on_entrepot = fuse_type.as_deref() == Some("fuse.entrepot");
            let below = Below { on_entrepot, knows_holes: crate::host::is_local(&objects) };
            let over_network = rustix::fs::fstatfs(&objects).is_ok_and(|fs| is_network(fs.f_type as u64));
            let is_shared = over_network || fuse_type.is_some_and(|kind| SHARED_FUSE.contains(&&*kind));
            let (device, inode) = (stat.st_dev, stat.st_ino);
            let cuts_requests = crate::host::is_fuse(&objects);
            let place = Place { objects, device, inode, below, over_network, is_shared, cuts_requests };
            *self.place.write() = Some(Arc::new(place));
        }
        Ok(root)
    }
}

/// Maps the errors of a missing directory to those of a missing medium. A missing object has another error.
fn absent(errno: Errno) -> Errno {
    if matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP) { Errno::NODEV } else { errno }
}

/// Whether a file system of this `f_type` reaches its devices over a network. The numbers are from the kernel's
/// `magic.h` and, for Lustre and GPFS, their own headers. FUSE may be anything, and counts as local.
fn is_network(f_type: u64) -> bool {
    const NFS: u64 = 0x6969;
    const SMB: [u64; 3] = [0x517b, 0xff53_4d42, 0xfe53_4d42];
    const OTHERS: [u64; 6] = [0x0102_1997, 0x5346_414f, 0x6b41_4653, 0x00c3_6400, 0x0bd0_0bd0, 0x4750_4653];
    // Where the field is signed, the bits above 31 are only its sign.
    let f_type = f_type & 0xffff_ffff;
    f_type == NFS || SMB.contains(&f_type) || OTHERS.contains(&f_type)
}

fn make_directory(parent: &OwnedFd, name: &str) -> Result<(), Errno> {
    match rustix::fs::mkdirat(parent, name, Mode::RWXU) {
        Err(Errno::EXIST) => Ok(()),
        other => other,
    }
}

impl Medium for DirectoryMedium {
    fn directory(&self) -> Option<&Path> {
        self.way.path()
    }

    fn create(&self, id: ObjectId) -> Result<Arc<dyn Handle>, Errno> {
        let flags = FILE | OFlags::CREATE | OFlags::EXCL;
        let place = self.place()?;
        let fd = rustix::fs::openat(&place.objects, object_path(id), flags, PRIVATE_FILE)?;
        self.touched.lock().insert(bucket(id));
        Ok(Arc::new(FileHandle::new(fd, place.below)))
    }

    fn open(&self, id: ObjectId) -> Result<Arc<dyn Handle>, Errno> {
        let place = self.place()?;
        let open = |flags| rustix::fs::openat(&place.objects, object_path(id), flags, Mode::empty());
        let for_reading = FILE.difference(OFlags::RDWR).union(OFlags::RDONLY);
        if place.below.on_entrepot {
            // The volume below uses the page cache for files open for writing, and then its block cache sees no reads.
            return Ok(Arc::new(FileHandle::new(open(for_reading)?, place.below).writing_later()));
        }
        match open(FILE) {
            Err(Errno::ROFS) => Ok(Arc::new(FileHandle::new(open(for_reading)?, place.below).for_reading())),
            opened => Ok(Arc::new(FileHandle::new(opened?, place.below))),
        }
    }

    fn link(&self, id: ObjectId, name: ObjectId) -> Result<Arc<dyn Handle>, Errno> {
        let objects = &self.place()?.objects;
        match rustix::fs::linkat(objects, object_path(id), objects, object_path(name), AtFlags::empty()) {
            // Errors by which file systems report that they have no links.
            Err(Errno::PERM | Errno::NOSYS | Errno::MLINK) => return Err(Errno::OPNOTSUPP),
            done => done?,
        }
        self.touched.lock().insert(bucket(name));
        self.open(name)
    }

    fn remove(&self, id: ObjectId) -> Result<(), Errno> {
        let remove = || rustix::fs::unlinkat(&self.place()?.objects, object_path(id), AtFlags::empty());
        // On a shared file system the name may lead to an object that another node has removed: the next lookup shows it.
        match remove().or_else(|errno| if errno == Errno::STALE { remove() } else { Err(errno) }) {
            Ok(()) => {
                self.touched.lock().insert(bucket(id));
                Ok(())
            }
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    fn sync_names(&self) -> Result<(), Errno> {
        let place = self.place()?;
        let _syncing = self.syncing.lock();
        let touched = std::mem::take(&mut *self.touched.lock());
        let sync = |byte: &u8| {
            let name = format!("{byte:02x}");
            rustix::fs::fsync(rustix::fs::openat(&place.objects, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?)
        };
        if touched.is_empty() {
            return Ok(());
        }
        // As in `host::sync_directory`, once for all: a file system that has shut down shows it at any directory.
        let shows = || crate::host::fstat(&place.objects).map(drop);
        let synced = touched.iter().try_for_each(sync).and_then(|()| shows());
        if synced.is_err() {
            self.touched.lock().extend(touched); // the next attempt does them all again
        }
        synced
    }

    fn list(&self) -> Result<Vec<ObjectId>, Errno> {
        let place = self.place()?;
        let mut ids = Vec::new();
        for byte in 0..=u8::MAX {
            let name = format!("{byte:02x}");
            let fd = rustix::fs::openat(&place.objects, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?;
            for entry in Dir::new(fd)? {
                let name = entry?.file_name().to_str().ok().map(str::to_owned);
                let id = name.filter(|n| n.len() == 16).and_then(|n| n.parse().ok());
                ids.extend(id.filter(|id| bucket(*id) == byte));
            }
        }
        Ok(ids)
    }

    fn probe(&self) -> Result<(), Errno> {
        self.write_probe().map(drop)
    }

    fn probe_durable(&self) -> Result<(), Errno> {
        match self.write_probe()? {
            None => Ok(()),
            Some(probe) => rustix::fs::fsync(&probe).map_err(|errno| {
                tracing::debug!("target {} cannot be synced: {errno}", self.identity.name);
                Errno::ROFS
            }),
        }
    }

    fn disown(&self) -> Result<(), Errno> {
        let root = self.look()?;
        Identity::remove(&root)
    }

    fn epoch(&self) -> Result<Option<u32>, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = match rustix::fs::openat(self.look()?, EPOCH, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened?,
        };
        let mut text = [0; 16];
        let read = rustix::io::pread(&fd, &mut text, 0)?;
        // A damaged epoch counts as missing: the objects then show it.
        Ok(std::str::from_utf8(&text[..read]).ok().and_then(|text| text.trim().parse().ok()))
    }

    /// Overwrites the old epoch, so that there is room on a full target: a number that only grows has no fewer digits.
    /// After a loss of power a torn number is damaged or no smaller than before.
    fn set_epoch(&self, epoch: u32) -> Result<(), Errno> {
        let root = self.look()?;
        let fd = rustix::fs::openat(&root, EPOCH, FILE | OFlags::CREATE, PRIVATE_FILE)?;
        rustix::io::pwrite(&fd, format!("{epoch}\n").as_bytes(), 0)?;
        rustix::fs::fsync(&fd)?;
        host::sync_directory(&root)
    }

    fn over_network(&self) -> bool {
        self.place.read().as_ref().is_some_and(|place| place.over_network)
    }

    fn shared_file_system(&self) -> Option<u64> {
        self.place.read().as_ref().filter(|place| place.is_shared).map(|place| place.device)
    }

    fn cuts_requests(&self) -> bool {
        self.place.read().as_ref().is_some_and(|place| place.cuts_requests)
    }

    fn space(&self) -> Result<Space, Errno> {
        let place = self.place()?;
        let vfs = rustix::fs::fstatvfs(&place.objects)?;
        Ok(Space {
            total_bytes: vfs.f_blocks * vfs.f_frsize,
            free_bytes: vfs.f_bavail * vfs.f_frsize,
            device: Some(place.device),
        })
    }
}

#[cfg(test)]
mod tests;
