//! An open file: one descriptor per connection, opened when it is first needed. Its bytes go over the connections
//! that the policy chooses.

mod append;
mod in_flight;
mod transfer;
mod write_behind;

pub(crate) use in_flight::Begun;
pub(crate) use write_behind::{Unsent, WriteBehind};

use crate::aligned::Aligned;
use crate::names::Paths;
use crate::opened::Opened;
use crate::set::Connections;
use crate::status::Status;
use crate::writers::Writers;
use meta::namespace::NodeId;
use node::mount::front::REQUEST_BYTES_MAX;
use node::mount::slow::{OWN, Slow};
use parking_lot::Mutex;
use policy::connections::{Choice, ConnectionId, Direction, Part, Request, Use};
use rustix::fs::OFlags;
use rustix::io::{Errno, Result};
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use transfer::Descriptor;
use write_behind::Queue;

/// Maximum of threads that move parts of split requests, and of threads that retry failed operations.
const HELPERS_MAX: usize = 64;
/// Time that shutdown waits for these threads.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// Shared context of all open files of a mount or target.
pub(crate) struct World {
    pub set: Arc<Connections>,
    /// Paths of the files.
    pub paths: Arc<dyn Paths>,
    /// Threads that move the other parts of split requests.
    pub helpers: Arc<Slow>,
    /// Threads that retry failed asynchronous operations, and may block.
    pub again: Arc<Slow>,
    /// Acknowledged writes that the server does not have yet.
    pub writes: WriteBehind,
}

impl World {
    /// Creates the context for a set of connections; `threads` bring requests.
    pub fn new(set: Arc<Connections>, paths: Arc<dyn Paths>, write_behind_bytes: u64, threads: usize) -> Arc<World> {
        let helpers = Slow::new(HELPERS_MAX, usize::MAX, threads);
        let again = Slow::new(HELPERS_MAX, usize::MAX, threads);
        let piece = u64::from(REQUEST_BYTES_MAX);
        let writes = WriteBehind::new(set.count(), piece, write_behind_bytes, threads);
        Arc::new(World { set, paths, helpers, again, writes })
    }

    /// Waits for operations under way, then stops all reconnection.
    pub fn end(&self) {
        self.writes.end(self.set.options.patience);
        self.again.end(END_PATIENCE);
        self.helpers.end(END_PATIENCE);
        self.set.end();
    }

    /// Returns the state of the connections.
    pub fn status(&self) -> Status {
        Status { write_behind_bytes: self.writes.room_bytes, ..self.set.status() }
    }
}

/// One open of a file.
pub(crate) struct OpenFile {
    pub id: NodeId,
    flags: OFlags,
    using: Mutex<Use>,
    descriptors: Vec<Mutex<Option<Descriptor>>>,
    /// Bit set of connections written over since the last sync.
    unsynced: AtomicU64,
    /// Connection that appends use.
    appends: Mutex<Option<ConnectionId>>,
    /// Write-behind queue of the file, shared by all its opens.
    queue: Arc<Queue>,
    /// Number of write-behind failures that this open has returned to its process.
    failures_returned: AtomicU64,
    writers: Writers,
    /// The same file, opened with `O_APPEND` if this one is not, and the other way round. A descriptor has one mode
    /// only, and a handle may change its mode.
    twin: Mutex<Option<Arc<OpenFile>>>,
}

/// Position of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// At this offset.
    At(u64),
    /// At the end of the file, which the kernel assumes at this offset.
    End(u64),
}

impl OpenFile {
    /// Opens the file for a thread, on one connection at first.
    pub fn open(world: &World, id: NodeId, flags: OFlags, thread: u32) -> Result<Arc<OpenFile>> {
        let kept = OFlags::RWMODE | OFlags::APPEND | OFlags::SYNC | OFlags::DSYNC | OFlags::NOATIME;
        let queue = world.writes.queue(id);
        let file = OpenFile {
            id,
            flags: flags & kept,
            using: Mutex::new(world.set.open(thread)),
            descriptors: (0..world.set.count()).map(|_| Mutex::default()).collect(),
            unsynced: AtomicU64::new(0),
            appends: Mutex::default(),
            failures_returned: AtomicU64::new(queue.failures()),
            writers: Writers::default(),
            twin: Mutex::default(),
            queue,
        };
        // Counts as an empty read, so that the chosen connection is one that reads would use.
        file.transfer(world, Direction::Read, 0, None, |_| Ok(0))?;
        Ok(Arc::new(file))
    }

    /// Returns a descriptor for FUSE passthrough, over the connection of the thread that opened the file.
    pub fn for_kernel(&self, world: &World) -> Result<OwnedFd> {
        let part = self.whole(&world.set, Direction::Read, 0, 0)?;
        world.set.done(Some(&self.using), Direction::Read, part, Instant::now(), Some(0));
        let root = world.set.root(part.connection).ok_or(Errno::NOTCONN)?;
        let path = world.paths.path(self.id)?;
        // All opens of the file share the descriptor. `O_APPEND` and `O_SYNC` of each open come with each write.
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        rustix::fs::openat(&root.fd, &path, flags, rustix::fs::Mode::empty())
    }

    /// Closes the file: the last user is gone.
    pub fn close(&self, world: &World) {
        if let Err(error) = self.settle() {
            tracing::warn!(%error, node = self.id, "a write failed after its file was closed, and its error cannot be \
                returned");
        }
        if let Some(twin) = self.twin.lock().take() {
            twin.close(world);
        }
        world.set.close(&mut self.using.lock());
    }

    /// Waits until the server has all writes so far. A failed write is reported once.
    pub fn settle(&self) -> Result<()> {
        self.queue.settle();
        self.queue.take_failure(&self.failures_returned)
    }

    /// Handles the close of a descriptor by a thread: waits as [`OpenFile::settle`], unless no connection is usable
    /// and the thread's process wrote nothing. Such a process gets no write failures either; they belong to the
    /// writer.
    pub fn flush(&self, world: &World, thread: u32) -> Result<()> {
        let nobody = || self.writers.exclude(thread);
        let settled = self.queue.settle_unless(|| world.set.usable() == 0 && nobody());
        if !settled || self.queue.has_news(&self.failures_returned) && nobody() {
            Ok(())
        } else {
            self.queue.take_failure(&self.failures_returned)
        }
    }

    /// Returns a descriptor that is open, for attributes of an unlinked file.
    pub fn any(&self) -> Option<Arc<Opened>> {
        self.descriptors.iter().find_map(|slot| slot.lock().as_ref().map(|open| open.opened.clone()))
    }

    /// Reads until `buffer` is full or the file ends, after all earlier writes to the range have reached the server.
    pub fn read_at(self: &Arc<Self>, world: &Arc<World>, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.queue.settle_range(&(offset..offset.saturating_add(buffer.len() as u64)));
        self.read(world, offset, buffer, None)
    }

    /// Reads until `buffer` is full or the file ends.
    fn read(
        self: &Arc<Self>,
        world: &Arc<World>,
        offset: u64,
        buffer: &mut [u8],
        chosen: Option<Choice>,
    ) -> Result<usize> {
        let request = Request { direction: Direction::Read, bytes: buffer.len() as u64, whole: false };
        let choice = chosen.map_or_else(|| world.set.choose(&self.using, request, 0), Ok)?;
        let [first, rest @ ..] = &choice.parts[..] else { return Err(Errno::NOTCONN) };
        // Other threads read the remaining parts while this thread reads the first.
        let helped: Vec<_> = rest.iter().map(|part| self.help(world, offset, *part)).collect();
        let mine = &mut buffer[..first.bytes as usize];
        let mut got = self.read_part(world, offset, *first, mine);
        let mut end = first.bytes as usize;
        for (part, answer) in rest.iter().zip(helped) {
            let theirs: Result<Aligned> = answer.recv().unwrap_or(Err(Errno::IO));
            // A short read means that the file ends: later parts are dropped.
            if let Ok(n) = got
                && n == end
            {
                got = theirs.map(|bytes| {
                    buffer[end..end + bytes.len()].copy_from_slice(&bytes);
                    n + bytes.len()
                });
                end += part.bytes as usize;
            }
        }
        got
    }

    fn help(self: &Arc<Self>, world: &Arc<World>, offset: u64, part: Part) -> Receiver<Result<Aligned>> {
        let (file, inside) = (self.clone(), world.clone());
        hand_over(world, move || {
            let mut bytes = Aligned::room(part.bytes as usize);
            let read = file.read_part(&inside, offset + part.offset, part, &mut bytes);
            read.map(|n| {
                bytes.truncate(n);
                bytes
            })
        })
    }

    fn read_part(&self, world: &World, offset: u64, part: Part, buffer: &mut [u8]) -> Result<usize> {
        let buffer = std::cell::RefCell::new(buffer);
        self.transfer(world, Direction::Read, part.bytes, Some(part), |file| {
            file.read(offset, &mut buffer.borrow_mut())
        })
    }

    /// Writes all of `data`. With write-behind, returns the pieces to send after the writer has been answered; with
    /// `now`, writes through.
    pub fn write(
        self: &Arc<Self>,
        world: &Arc<World>,
        thread: u32,
        place: Place,
        data: &[u8],
        now: bool,
    ) -> Result<Option<Unsent>> {
        if matches!(place, Place::End(_)) != self.flags.contains(OFlags::APPEND) {
            return self.twin(world, thread)?.write(world, thread, place, data, now);
        }
        self.queue.take_failure(&self.failures_returned)?;
        self.write_to(world, thread, place, data, now)
    }

    /// Writes bytes of an object, whose owner repeats failed writes. So the failure of an earlier write is returned
    /// until [`OpenFile::sync_object`] has returned it.
    pub fn write_object(self: &Arc<Self>, world: &Arc<World>, offset: u64, data: &[u8]) -> Result<Option<Unsent>> {
        self.queue.failed()?;
        self.write_to(world, 0, Place::At(offset), data, false)
    }

    fn write_to(
        self: &Arc<Self>,
        world: &Arc<World>,
        thread: u32,
        place: Place,
        data: &[u8],
        now: bool,
    ) -> Result<Option<Unsent>> {
        let offset = match place {
            Place::At(offset) => offset,
            Place::End(expected) => {
                self.queue.settle();
                return self.append(world, expected, data).map(|()| None);
            }
        };
        let now = now || !world.writes.is_on();
        if now {
            self.queue.settle_range(&(offset..offset.saturating_add(data.len() as u64)));
            return self.write_through(world, offset, data, None).map(|()| None);
        }
        self.writers.add(thread);
        Ok(Some(self.queue.put(world, self, offset, data)))
    }

    fn twin(&self, world: &World, thread: u32) -> Result<Arc<OpenFile>> {
        let mut twin = self.twin.lock();
        if let Some(twin) = &*twin {
            return Ok(twin.clone());
        }
        let opened = OpenFile::open(world, self.id, self.flags ^ OFlags::APPEND, thread)?;
        Ok(twin.insert(opened).clone())
    }

    /// Writes all of `data` to the server, over `chosen` or a new choice of connections.
    pub fn write_through(
        self: &Arc<Self>,
        world: &Arc<World>,
        offset: u64,
        data: &[u8],
        chosen: Option<Choice>,
    ) -> Result<()> {
        let request = Request { direction: Direction::Write, bytes: data.len() as u64, whole: false };
        let choice = chosen.map_or_else(|| world.set.choose(&self.using, request, 0), Ok)?;
        let [first, rest @ ..] = &choice.parts[..] else { return Err(Errno::NOTCONN) };
        let piece = |part: &Part| &data[part.offset as usize..(part.offset + part.bytes) as usize];
        let help = |part: &Part| {
            let (file, inside, part, bytes) = (self.clone(), world.clone(), *part, Aligned::copy_of(piece(part)));
            hand_over(world, move || file.write_part(&inside, offset + part.offset, part, &bytes))
        };
        let helped: Vec<_> = rest.iter().map(help).collect();
        let mine = self.write_part(world, offset, *first, piece(first));
        // All parts must have ended before the first error is returned.
        helped.into_iter().fold(mine, |so_far, answer| so_far.and(answer.recv().unwrap_or(Err(Errno::IO))))
    }

    fn write_part(&self, world: &World, offset: u64, part: Part, data: &[u8]) -> Result<()> {
        self.transfer(world, Direction::Write, part.bytes, Some(part), |file| file.write(offset, data)).map(|_| ())
    }

    /// Makes all writes durable. Syncs over each connection that was written over; another connection replaces a
    /// broken one, since acknowledged bytes are on the server.
    pub fn sync(&self, world: &World, data_only: bool) -> Result<()> {
        let sent = self.settle();
        let twin = self.twin.lock().clone();
        if let Some(twin) = twin {
            twin.sync(world, data_only)?;
        }
        let mut over = self.unsynced.swap(0, Ordering::Relaxed);
        if over == 0 {
            over = 1 << 63; // another open may have written; any connection will do
        }
        for number in (0..64u16).filter(|c| over & 1 << c != 0) {
            let usable = world.set.usable() & 1 << number != 0 && number < world.set.count();
            let chosen = usable.then(|| {
                let part = self.whole(&world.set, Direction::Read, 0, !(1 << number));
                part.unwrap_or_else(|_| world.set.begin(ConnectionId(number), 0))
            });
            let has_failed = Cell::new(false);
            let synced = self.transfer(world, Direction::Read, 0, chosen, |file| {
                let file = file.mounted();
                let synced = if data_only { rustix::fs::fdatasync(file) } else { rustix::fs::fsync(file) };
                match synced {
                    // The bytes may be lost. A sync over another connection would succeed without them.
                    Err(Errno::IO) => has_failed.set(true),
                    synced => synced?,
                }
                Ok(0)
            });
            let synced = if has_failed.get() { Err(Errno::IO) } else { synced };
            if let Err(error) = synced {
                self.unsynced.fetch_or(over, Ordering::Relaxed);
                return Err(error);
            }
        }
        sent
    }

    /// As [`OpenFile::sync`] of the data of an object. Also returns failures of writes through earlier opens.
    pub fn sync_object(&self, world: &World) -> Result<()> {
        let synced = self.sync(world, true);
        let failed = self.queue.take_failed();
        world.writes.drop_failed(self.id);
        synced.and(failed)
    }

    /// As [`OpenFile::close`] of an object. A failed write is returned by the next sync, through a later open.
    pub fn close_object(&self, world: &World) {
        let _ = self.settle();
        world.writes.keep_failed(self.id, &self.queue);
        self.close(world);
    }
}

/// Runs `work` on a helper thread; on this thread if none is free.
fn hand_over<T: Send + 'static>(world: &World, work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (answer, answered) = channel();
    if let Err(work) = world.helpers.push_now(OWN, Box::new(move || drop(answer.send(work())))) {
        work();
    }
    answered
}
