//! All connections together: `policy::connections` with its eyes and hands.
//!
//! Whoever has an operation asks for a connection, does it, and says how it went. What the machines then want is done by threads of
//! their own: `reconnect`.

mod reconnect;

use crate::counts::Counts;
use crate::measure::measure;
use crate::mounts::{Mounts, Root};
use crate::status::{Connection, Status};
use parking_lot::{Condvar, Mutex, RwLock};
use policy::Time;
pub use policy::connections::BytesOver;
use policy::connections::{
    Action, CONNECTIONS_MAX, Choice, Chooser, ConnectionId, Direction, Event, Link, LinkConfig, Part, Policy, Request,
    Use, WidthConfig, usable,
};
use policy::machine::Machine;
use reconnect::{Job, Waker};
use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, statat, unlinkat};
use rustix::io::{Errno, Result, read, write};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// How connections behave.
#[derive(Clone, Debug)]
pub struct SetOptions {
    /// How many; 1 to [`CONNECTIONS_MAX`].
    pub connections: u16,
    /// Who chooses.
    pub policy: Policy,
    /// Limits of health.
    pub link: LinkConfig,
    /// How long an operation waits for a connection when none can be used, before it fails.
    pub patience: Duration,
    /// Which way bytes go.
    pub bytes_over: BytesOver,
    /// Type of the file system, for people.
    pub kind: String,
}

/// Why there is no set of connections.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// One could not be mounted.
    #[error("connection {number} to {source_name} cannot be mounted: {error}")]
    Mount {
        /// Which.
        number: u16,
        /// Where it leads.
        source_name: String,
        /// Why.
        error: io::Error,
    },
    /// The library was asked for and cannot be used.
    #[error("connection {number} to {source_name} cannot have the client library: {error}")]
    Library {
        /// Which.
        number: u16,
        /// Where it leads.
        source_name: String,
        /// Why.
        error: io::Error,
    },
    /// The first one broke as soon as it was there.
    #[error("connection 0 broke at once")]
    Gone,
    /// Two show different directories.
    #[error("connection {number} to {source_name} does not show the same directory as connection 0 ({first}): {why}")]
    Different {
        /// Which.
        number: u16,
        /// Where it leads.
        source_name: String,
        /// Where the first leads.
        first: String,
        /// What differs.
        why: String,
    },
}

/// One connection.
pub(crate) struct Slot {
    pub root: RwLock<Option<Arc<Root>>>,
    pub counts: Counts,
    pub jobs: Sender<Job>,
    pub generation: AtomicU64,
}

/// All connections to one directory.
pub struct Connections {
    pub(crate) mounts: Box<dyn Mounts>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) waker: Waker,
    pub(crate) ended: AtomicBool,
    chooser: Mutex<Chooser>,
    links: Mutex<Vec<Link>>,
    usable: AtomicU64,
    /// Counts changes of what is usable.
    changes: Mutex<u64>,
    changed: Condvar,
    origin: Instant,
    options: SetOptions,
    /// Whether a file has the same inode number through each.
    same_inodes: bool,
    /// Whether bytes go over the library.
    library: bool,
}

impl Connections {
    /// Mounts all of them and looks whether they show the same directory.
    pub fn start(mounts: Box<dyn Mounts>, options: SetOptions) -> std::result::Result<Arc<Connections>, SetError> {
        let count = options.connections.clamp(1, CONNECTIONS_MAX);
        let mut roots = Vec::new();
        let begun = mount_all(&*mounts, count, &mut roots)
            .and_then(|()| all_the_same(&*mounts, &roots))
            .and_then(|same| Ok((same, libraries(&*mounts, &roots, options.bytes_over)?)));
        let (same_inodes, library) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                let mounted = roots.len() as u16;
                drop(roots);
                (0..mounted).for_each(|number| mounts.take_out(number));
                return Err(error);
            }
        };
        let link = |_| Link::new(Time::ZERO, options.link.clone());
        let (slots, workers) = roots.into_iter().map(slot).unzip();
        let set = Arc::new(Connections {
            mounts,
            slots,
            waker: Waker::default(),
            ended: AtomicBool::new(false),
            chooser: Mutex::new(Chooser::new(options.policy, count, WidthConfig::default())),
            links: Mutex::new((0..count).map(link).collect()),
            usable: AtomicU64::new(u64::MAX >> (64 - count)),
            changes: Mutex::new(0),
            changed: Condvar::new(),
            origin: Instant::now(),
            options,
            same_inodes,
            library,
        });
        reconnect::start(&set, workers);
        Ok(set)
    }

    /// How many there are.
    pub fn count(&self) -> u16 {
        self.slots.len() as u16
    }

    /// How they behave.
    pub fn options(&self) -> &SetOptions {
        &self.options
    }

    /// Whether a file has the same inode number through each connection.
    pub fn same_inodes(&self) -> bool {
        self.same_inodes
    }

    /// Whether bytes go over the file system's client library.
    pub fn over_library(&self) -> bool {
        self.library
    }

    pub(crate) fn now(&self) -> Time {
        Time(self.origin.elapsed().as_nanos() as u64)
    }

    /// The mount of a connection, if it has one.
    pub fn root(&self, connection: ConnectionId) -> Option<Arc<Root>> {
        self.slots[usize::from(connection.0)].root.read().clone()
    }

    /// What can be chosen now, a bit for each.
    pub fn usable(&self) -> u64 {
        self.usable.load(Ordering::Acquire)
    }

    /// A file was opened by a thread.
    pub fn open(&self, thread: u32) -> Use {
        self.chooser.lock().open(thread)
    }

    /// And closed.
    pub fn close(&self, file: &mut Use) {
        self.chooser.lock().close(file);
    }

    /// Chooses for an operation, but for those in `not`; waits for one to come back if none can be used.
    pub fn choose(&self, file: &Mutex<Use>, request: Request, not: u64) -> Result<Choice> {
        let until = Instant::now() + self.options.patience;
        loop {
            let seen = *self.changes.lock();
            let choice = self.chooser.lock().choose(self.now(), &mut file.lock(), request, self.usable() & !not);
            match choice {
                Some(choice) => return Ok(choice),
                None if not != 0 && self.usable() != 0 => return Err(Errno::NOTCONN),
                None => self.wait(seen, until)?,
            }
        }
    }

    /// Chooses if one can be used now.
    pub fn choose_now(&self, file: &Mutex<Use>, request: Request) -> Option<Choice> {
        self.chooser.lock().choose(self.now(), &mut file.lock(), request, self.usable())
    }

    /// Takes a connection that was chosen otherwise.
    pub fn begin(&self, connection: ConnectionId, bytes: u64) -> Part {
        self.chooser.lock().begin(self.now(), connection, bytes);
        Part { connection, offset: 0, bytes }
    }

    /// A part is done, `bytes` of it moved.
    pub fn done(
        &self,
        file: Option<&Mutex<Use>>,
        direction: Direction,
        part: Part,
        began: Instant,
        moved: Option<u64>,
    ) {
        let slot = &self.slots[usize::from(part.connection.0)];
        slot.counts.operation(began.elapsed());
        slot.counts.bytes(direction == Direction::Write, moved.unwrap_or(0));
        let (now, usable) = (self.now(), self.usable());
        let mut chooser = self.chooser.lock();
        match file {
            Some(file) => chooser.done(now, Some(&mut file.lock()), direction, part, moved.is_some(), usable),
            None => chooser.done(now, None, direction, part, moved.is_some(), usable),
        }
    }

    /// An operation without bytes ended.
    pub fn counted(&self, number: u16, began: Instant) {
        self.slots[usize::from(number)].counts.operation(began.elapsed());
    }

    /// An operation on this mount ended with an error that says that the connection is broken.
    pub fn failed(self: &Arc<Self>, root: &Root, error: Errno) {
        let slot = &self.slots[usize::from(root.number)];
        slot.counts.failures.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(connection = root.number, %error, "an operation failed");
        self.event(root.number, root.generation, Event::OperationFailed);
    }

    /// Waits until what is usable changes from what it was at `seen`, for a moment at most: for whoever has nowhere else to go.
    pub fn breathe(&self) {
        const MOMENT: Duration = Duration::from_millis(20);
        let mut changes = self.changes.lock();
        self.changed.wait_for(&mut changes, MOMENT);
    }

    /// Some usable connection other than one that was seen to be broken; waits for it.
    pub fn other_than(&self, broken: &Root) -> Result<Arc<Root>> {
        let until = Instant::now() + self.options.patience;
        loop {
            let seen = *self.changes.lock();
            let usable = self.usable();
            let those = (0..self.count()).filter(|c| usable & 1 << c != 0).filter_map(|c| self.root(ConnectionId(c)));
            let mut good = those.filter(|root| (root.number, root.generation) != (broken.number, broken.generation));
            match good.next() {
                Some(root) => return Ok(root),
                None => self.wait(seen, until)?,
            }
        }
    }

    fn wait(&self, seen: u64, until: Instant) -> Result<()> {
        let mut changes = self.changes.lock();
        while *changes == seen {
            if self.ended.load(Ordering::Acquire) || self.changed.wait_until(&mut changes, until).timed_out() {
                return Err(Errno::NOTCONN);
            }
        }
        Ok(())
    }

    /// Tells a connection's machine what happened to its mount of that generation, and does what it wants.
    pub(crate) fn event(self: &Arc<Self>, number: u16, generation: u64, event: Event) {
        let slot = &self.slots[usize::from(number)];
        if slot.generation.load(Ordering::Acquire) != generation {
            return; // about a mount that is gone
        }
        let actions: Vec<Action> = {
            let mut links = self.links.lock();
            let link = &mut links[usize::from(number)];
            link.handle(self.now(), event);
            let actions = link.drain().collect();
            self.usable.store(usable(&links), Ordering::Release);
            actions
        };
        if actions.is_empty() {
            return;
        }
        *self.changes.lock() += 1;
        self.changed.notify_all();
        for action in actions {
            reconnect::act(self, number, action);
        }
        self.waker.wake();
    }

    /// When the first machine wants to be ticked; ticks those that are due.
    pub(crate) fn tick(self: &Arc<Self>) -> Option<Duration> {
        for number in 0..self.count() {
            let generation = self.slots[usize::from(number)].generation.load(Ordering::Acquire);
            self.event(number, generation, Event::Tick);
        }
        let next = self.links.lock().iter().filter_map(Link::next_deadline).min();
        next.map(|at| Duration::from_nanos(at.since(self.now()).0))
    }

    /// Whether a mount shows what the others show. With nobody to compare with, the root's inode number has to do.
    pub(crate) fn is_same(&self, fresh: &Root) -> std::result::Result<(), String> {
        let usable = self.usable();
        let others = (0..self.count()).filter(|c| *c != fresh.number && usable & 1 << c != 0);
        match others.filter_map(|c| self.root(ConnectionId(c))).next() {
            Some(other) => same_directory(&other, fresh).map(|_| ()),
            None => Ok(()),
        }
    }

    /// What the connections do; of what is written behind nothing is known here.
    pub fn status(&self) -> Status {
        let links = self.links.lock();
        let chooser = self.chooser.lock();
        let one = |(number, slot): (usize, &Slot)| {
            let counts = &slot.counts;
            let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            let operations = get(&counts.operations);
            let id = ConnectionId(number as u16);
            Connection {
                number: id.0,
                source: self.mounts.source(id.0),
                state: links[number].state().to_string(),
                operations,
                bytes_read: get(&counts.bytes_read),
                bytes_written: get(&counts.bytes_written),
                outstanding_bytes: chooser.outstanding_bytes(id),
                latency_us: get(&counts.busy_ns) / 1000 / operations.max(1),
                rate_bytes_per_s: chooser.rate(id) as u64,
                failures: get(&counts.failures),
                mounted_again: get(&counts.mounted_again),
            }
        };
        Status {
            policy: self.options.policy.to_string(),
            kind: self.options.kind.clone(),
            bytes_over: if self.library { "library" } else { "mount" }.into(),
            write_behind_bytes: 0,
            connections: self.slots.iter().enumerate().map(one).collect(),
        }
    }

    /// No more mounts are made, and nobody waits for one any more.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
        *self.changes.lock() += 1;
        self.changed.notify_all();
        self.waker.wake();
    }

    /// Unmounts all of them by force.
    pub(crate) fn take_out(&self) {
        (0..self.count()).for_each(|number| reconnect::take_out(self, number));
    }
}

fn slot(root: Arc<Root>) -> (Slot, reconnect::Worker) {
    let (jobs, todo) = std::sync::mpsc::channel();
    let number = root.number;
    let generation = AtomicU64::new(root.generation);
    (
        Slot { root: RwLock::new(Some(root)), counts: Counts::default(), jobs, generation },
        reconnect::Worker { number, todo },
    )
}

fn mount_all(mounts: &dyn Mounts, count: u16, roots: &mut Vec<Arc<Root>>) -> std::result::Result<(), SetError> {
    for number in 0..count {
        let root = mounts.mount(number).and_then(|fd| Ok(Root::new(fd, number, 0)?));
        let wrong = |error| SetError::Mount { number, source_name: mounts.source(number), error };
        roots.push(Arc::new(root.map_err(wrong)?));
    }
    Ok(())
}

/// Gives each connection its library's, if that is wanted and, unless it must be, faster. Whether they have it.
fn libraries(mounts: &dyn Mounts, roots: &[Arc<Root>], wanted: BytesOver) -> std::result::Result<bool, SetError> {
    if wanted == BytesOver::Mount {
        return Ok(false);
    }
    for root in roots {
        let client = match mounts.client(root.number) {
            Ok(client) => client,
            Err(error) if wanted == BytesOver::Library => {
                return Err(SetError::Library { number: root.number, source_name: mounts.source(root.number), error });
            }
            Err(error) => {
                tracing::debug!(%error, "bytes go over the mounts");
                roots.iter().for_each(|root| root.clear_client());
                return Ok(false);
            }
        };
        root.set_client(client);
        if root.number == 0 && wanted == BytesOver::Auto && !measured_faster(root) {
            root.clear_client();
            return Ok(false);
        }
    }
    Ok(true)
}

fn measured_faster(root: &Root) -> bool {
    let measured = probe_name().and_then(|(name, _)| measure(root, &name));
    match measured {
        Ok(measured) => {
            let faster = measured.library_is_faster();
            tracing::info!(mount = ?measured.mount, library = ?measured.library, faster, "measured the client library");
            faster
        }
        Err(error) => {
            tracing::debug!(%error, "the client library cannot be measured; bytes go over the mounts");
            false
        }
    }
}

/// Whether all show the same directory; says whether they agree on inode numbers.
fn all_the_same(mounts: &dyn Mounts, roots: &[Arc<Root>]) -> std::result::Result<bool, SetError> {
    let mut same_inodes = true;
    for root in &roots[1..] {
        let different = |why| SetError::Different {
            number: root.number,
            source_name: mounts.source(root.number),
            first: mounts.source(0),
            why,
        };
        same_inodes &= same_directory(&roots[0], root).map_err(different)?;
    }
    Ok(same_inodes)
}

/// Puts a file with a word into the directory through one mount and looks for it through the other. Where nothing can be put there (it is
/// read-only), the roots' inode numbers have to agree. Says whether the mounts agree on inode numbers.
fn same_directory(one: &Root, other: &Root) -> std::result::Result<bool, String> {
    let (name, word) = probe_name().map_err(|error| error.to_string())?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = match openat(one.fd(), &name, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => file,
        Err(Errno::ROFS | Errno::ACCESS | Errno::PERM | Errno::NOSPC | Errno::DQUOT) => return by_inode(one, other),
        Err(error) => return Err(format!("a probe file cannot be written: {error}")),
    };
    let compared = (|| {
        write(&file, &word)?;
        let inode = fstat(&file)?.st_ino;
        let seen = openat(other.fd(), &name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut found = [0; 16];
        let len = read(&seen, &mut found)?;
        Ok::<_, Errno>((
            len == 16 && found == word,
            inode == statat(other.fd(), &name, AtFlags::SYMLINK_NOFOLLOW)?.st_ino,
        ))
    })();
    drop(file);
    let _ = unlinkat(one.fd(), &name, AtFlags::empty());
    match compared {
        Ok((true, same_inodes)) => Ok(same_inodes),
        Ok((false, _)) => Err("a probe file has other bytes there".into()),
        Err(Errno::NOENT) => Err("a probe file is not there".into()),
        Err(error) => Err(format!("a probe file cannot be read there: {error}")),
    }
}

fn by_inode(one: &Root, other: &Root) -> std::result::Result<bool, String> {
    let inode = |root: &Root| fstat(root.fd()).map(|stat| stat.st_ino).map_err(|error| error.to_string());
    if inode(one)? == inode(other)? { Ok(true) } else { Err("the directory has another inode number there".into()) }
}

/// A name that nobody has, and the word in it.
fn probe_name() -> Result<(String, [u8; 16])> {
    let mut word = [0; 16];
    rustix::rand::getrandom(&mut word, rustix::rand::GetRandomFlags::empty())?;
    Ok((format!(".entrepot-connect-{:032x}", u128::from_ne_bytes(word)), word))
}

#[cfg(test)]
mod tests;
