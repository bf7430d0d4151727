//! Targets of a volume on file servers: object names over one connection, bytes over those that the policy chooses.
//!
//! ```text
//!   object::target -> Target (a Medium)  identity, names and space of objects: names::Names, over one connection
//!                 -> Object (a Handle)  bytes: file::OpenFile, a descriptor per connection
//! ```
//! There is no mount point and no page cache of ours in between. The kernel gets no descriptor: it would stay with
//! one connection, and its operations cannot be repeated over another.

use crate::aligned::Aligned;
use crate::file::{OpenFile, World};
use crate::mounts::{Mounts, Root};
use crate::names::{Looked, Names, Paths, Tree};
use crate::private::Private;
use crate::recipe::Recipe;
use crate::set::{Connections, SetError, SetOptions};
use engine::volume::{ConnectionsConfig, FileServer, FileServers};
use meta::namespace::NodeId;
use object::target::{DirectoryAccess, DirectoryMedium, FileHandle, Handle, Identity, Medium, Space};
use parking_lot::{Mutex, RwLock};
use policy::ObjectId;
use policy::connections::{ConnectionId, LinkConfig, Operation};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::{Errno, Result, fcntl_dupfd_cloexec};
use std::io::IoSliceMut;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Time that an operation waits for a usable connection. The target has missed its deadline long before.
const PATIENCE: Duration = Duration::from_secs(300);
/// Assumed number of threads that bring requests: workers of a mount and a target. A guess.
const THREADS: usize = 64;

/// File servers that a daemon is connected to for its targets.
#[derive(Default)]
pub struct Servers(Mutex<Vec<Arc<World>>>);

impl Servers {
    /// Connects over these mounts.
    pub fn over(
        &self,
        mounts: Box<dyn Mounts>,
        options: SetOptions,
        write_behind_bytes: u64,
    ) -> std::result::Result<Box<dyn FileServer>, SetError> {
        let set = Connections::start(mounts, options)?;
        let root = set.root(ConnectionId(0)).ok_or_else(SetError::gone)?;
        let world = World::new(set, Arc::new(ObjectPaths), write_behind_bytes, THREADS);
        self.0.lock().push(world.clone());
        Ok(Box::new(Server { world, root }))
    }

    /// Sends all acknowledged writes, then unmounts by force, so that no hanging call outlives the daemon.
    pub fn end(&self) {
        for world in self.0.lock().drain(..) {
            world.end();
            world.set.take_out();
        }
    }
}

impl FileServers for Servers {
    fn reach(&self, target: &ConnectionsConfig) -> std::result::Result<Box<dyn FileServer>, String> {
        let words = |text: &str| text.split(',').map(|word| word.trim().to_owned()).collect::<Vec<_>>();
        let options = if target.options.is_empty() { Vec::new() } else { words(&target.options) };
        let recipe = Recipe { kind: target.kind.clone(), servers: words(&target.servers), options };
        recipe.check()?;
        let mounts = Private::new(recipe, target.count);
        let mounts = mounts.map_err(|error| format!("mounts of its own cannot be made: {error}; only root may"))?;
        let options = SetOptions {
            connections: target.count,
            policy: target.policy,
            link: LinkConfig::default(),
            patience: PATIENCE,
            bytes_over: target.bytes_over,
            kind: target.kind.clone(),
        };
        self.over(Box::new(mounts), options, target.write_behind).map_err(|error| error.to_string())
    }
}

/// A connected file server.
struct Server {
    world: Arc<World>,
    root: Arc<Root>,
}

impl FileServer for Server {
    fn root(&self) -> Result<OwnedFd> {
        directory(&self.root)
    }

    fn medium(self: Box<Self>, identity: Identity) -> Arc<dyn Medium> {
        let Server { world, root } = *self;
        let way = Over(Arc::new(RwLock::new(root.clone())));
        let directory = DirectoryMedium::reached(Box::new(way.clone()), identity);
        let names = Names::new(world.set.clone(), root, Objects { way, directory });
        Arc::new(Target { world, names })
    }
}

fn directory(root: &Root) -> Result<OwnedFd> {
    openat(&root.fd, ".", OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// Paths of objects, which never change.
struct ObjectPaths;

impl Paths for ObjectPaths {
    fn path(&self, id: NodeId) -> Result<PathBuf> {
        Ok(DirectoryMedium::path_of(ObjectId(id)))
    }

    fn is(&self, _id: NodeId, _found: BorrowedFd<'_>) -> Result<bool> {
        Ok(true)
    }
}

/// Root directory of a target: that of the connection that its names use.
#[derive(Clone)]
struct Over(Arc<RwLock<Arc<Root>>>);

impl DirectoryAccess for Over {
    fn open(&self) -> Result<OwnedFd> {
        directory(&self.0.read().clone())
    }
}

/// Names of a target's objects.
struct Objects {
    way: Over,
    directory: DirectoryMedium,
}

impl Tree for Objects {
    fn move_to(&self, root: &Arc<Root>) -> Result<()> {
        *self.way.0.write() = root.clone();
        self.directory.move_along()
    }
}

/// A target on file servers.
struct Target {
    world: Arc<World>,
    names: Names<Objects>,
}

impl Target {
    /// Runs an operation that may be repeated.
    fn run<R>(&self, operation: Operation, act: impl Fn(&DirectoryMedium) -> Result<R>) -> Result<R> {
        self.run_or_look(operation, act, |_| Looked::Unknown)
    }

    fn run_or_look<R>(
        &self,
        operation: Operation,
        act: impl Fn(&DirectoryMedium) -> Result<R>,
        look: impl Fn(&DirectoryMedium) -> Looked<Option<R>>,
    ) -> Result<R> {
        // `NODEV` means that the target is missing on every connection. The connections must not count it as their own
        // error.
        let act = |objects: &Objects| match act(&objects.directory) {
            Err(Errno::NODEV) => Ok(None),
            done => done.map(Some),
        };
        self.names.run_or_look(operation, act, |objects| look(&objects.directory))?.ok_or(Errno::NODEV)
    }

    /// Creates a name that must not exist before.
    fn make(
        &self,
        id: ObjectId,
        make: impl Fn(&DirectoryMedium) -> Result<Arc<dyn Handle>>,
    ) -> Result<Arc<dyn Handle>> {
        let look = |directory: &DirectoryMedium| match directory.open(id) {
            Err(Errno::NOENT) => Looked::NotDone,
            _ => Looked::Unknown,
        };
        self.run_or_look(Operation::Make, |directory| make(directory).map(drop), look)?;
        self.open(id)
    }
}

impl Medium for Target {
    fn create(&self, id: ObjectId) -> Result<Arc<dyn Handle>> {
        self.make(id, |directory| directory.create(id))
    }

    fn open(&self, id: ObjectId) -> Result<Arc<dyn Handle>> {
        if !self.names.tree.directory.is_found() {
            return Err(Errno::NODEV);
        }
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let open = |flags| OpenFile::open(&self.world, id.0, flags, thread);
        let (file, read_only) = match open(OFlags::RDWR) {
            Err(Errno::ROFS) => (open(OFlags::RDONLY)?, true),
            opened => (opened?, false),
        };
        Ok(Arc::new(Object { world: self.world.clone(), file, read_only }))
    }

    /// Refused with write-behind: kept bytes belong to one name, so a second name would show the object without them.
    fn link(&self, id: ObjectId, name: ObjectId) -> Result<Arc<dyn Handle>> {
        if self.world.writes.is_on() {
            return Err(Errno::OPNOTSUPP);
        }
        self.make(name, |directory| directory.link(id, name))
    }

    fn remove(&self, id: ObjectId) -> Result<()> {
        self.run(Operation::Write, |directory| directory.remove(id))?;
        self.world.writes.drop_failed(id.0);
        Ok(())
    }

    fn sync_names(&self) -> Result<()> {
        self.run(Operation::Write, DirectoryMedium::sync_names)
    }

    fn list(&self) -> Result<Vec<ObjectId>> {
        self.run(Operation::Read, DirectoryMedium::list)
    }

    fn probe(&self) -> Result<()> {
        self.run(Operation::Write, DirectoryMedium::probe)
    }

    fn probe_durable(&self) -> Result<()> {
        self.run(Operation::Write, DirectoryMedium::probe_durable)
    }

    fn disown(&self) -> Result<()> {
        self.run(Operation::Unmake, DirectoryMedium::disown)
    }

    fn epoch(&self) -> Result<Option<u32>> {
        self.run(Operation::Read, DirectoryMedium::epoch)
    }

    fn set_epoch(&self, epoch: u32) -> Result<()> {
        self.run(Operation::Write, |directory| directory.set_epoch(epoch))
    }

    fn space(&self) -> Result<Space> {
        self.run(Operation::Read, DirectoryMedium::space)
    }

    fn over_network(&self) -> bool {
        true
    }

    fn connections(&self) -> Option<serde_json::Value> {
        serde_json::to_value(self.world.status()).ok()
    }

    fn descriptors_per_object(&self) -> u64 {
        u64::from(self.world.set.count())
    }
}

/// An open object.
struct Object {
    world: Arc<World>,
    file: Arc<OpenFile>,
    read_only: bool,
}

impl Object {
    /// Runs an operation that may be repeated on the object as open on a mount.
    fn on_mount<R>(&self, act: impl Fn(&FileHandle) -> Result<R>) -> Result<R> {
        self.file.run(&self.world, |fd| act(&FileHandle::plain(fcntl_dupfd_cloexec(fd, 0)?)))
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        self.file.close_object(&self.world);
        self.world.writes.forget(self.file.id);
    }
}

impl Handle for Object {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if Aligned::is(buf) {
            return self.file.read_at(&self.world, offset, buf);
        }
        self.read_vectored_at(offset, &mut [IoSliceMut::new(buf)], usize::MAX)
    }

    /// Reads with one request, since each request costs a round trip.
    fn read_vectored_at(&self, offset: u64, buffers: &mut [IoSliceMut<'_>], _demand_bytes: usize) -> Result<usize> {
        let mut all = Aligned::room(buffers.iter().map(|buffer| buffer.len()).sum());
        let read = self.file.read_at(&self.world, offset, &mut all)?;
        let mut rest = &all[..read];
        for buffer in buffers {
            let (now, later) = rest.split_at(buffer.len().min(rest.len()));
            buffer[..now.len()].copy_from_slice(now);
            rest = later;
        }
        Ok(read)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        let copy = (!self.world.writes.is_on() && !Aligned::is(data)).then(|| Aligned::copy_of(data));
        let data = copy.as_deref().unwrap_or(data);
        let unsent = self.file.write_object(&self.world, offset, data)?;
        unsent.into_iter().for_each(|unsent| unsent.send(&self.world));
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.on_mount(|file| file.set_len(len))
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        self.on_mount(|file| file.punch(offset, len))
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.on_mount(|file| file.allocate(offset, len))
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<()> {
        self.on_mount(|file| file.reserve(offset, len))
    }

    fn knows_holes(&self) -> bool {
        false
    }

    fn seek_data(&self, offset: u64) -> Result<u64> {
        self.on_mount(|file| file.seek_data(offset))
    }

    fn seek_hole(&self, offset: u64) -> Result<u64> {
        self.on_mount(|file| file.seek_hole(offset))
    }

    fn len(&self) -> Result<u64> {
        self.on_mount(FileHandle::len)
    }

    fn allocated(&self) -> Result<u64> {
        self.on_mount(FileHandle::allocated)
    }

    fn names(&self) -> Result<u64> {
        self.on_mount(FileHandle::names)
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_object(&self.world)
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
