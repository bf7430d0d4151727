//! All connections together: drives the state machines of `policy::connections`.
//!
//! An operation requests a connection, uses it, and reports the result. Threads of `reconnect` carry out the actions
//! of the machines.

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
use reconnect::{Job, Threads};
use rustix::fs::{AtFlags, Mode, OFlags, fstat, openat, statat, unlinkat};
use rustix::io::{Errno, Result, read, write};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Options of the connections.
#[derive(Clone, Debug)]
pub struct SetOptions {
    /// Number of connections; 1 to [`CONNECTIONS_MAX`].
    pub connections: u16,
    /// Policy that chooses connections.
    pub policy: Policy,
    /// Limits of the health checks.
    pub link: LinkConfig,
    /// Time that an operation waits for a usable connection before it fails.
    pub patience: Duration,
    /// Path of the bytes: mount or library.
    pub bytes_over: BytesOver,
    /// Type of the file system, for messages.
    pub kind: String,
}

/// Reason why a set of connections cannot start.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// A connection could not be mounted, or cannot use the library that was requested.
    #[error("{0}")]
    Failed(String),
    /// Two connections show different directories.
    #[error("{0}")]
    Different(String),
}

impl SetError {
    /// The first connection broke right after its mount.
    pub(crate) fn gone() -> SetError {
        SetError::Failed("connection 0 broke at once".into())
    }
}

/// State of one connection.
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
    pub(crate) threads: Threads,
    pub(crate) ended: AtomicBool,
    chooser: Mutex<Chooser>,
    links: Mutex<Vec<Link>>,
    usable: AtomicU64,
    /// Number of changes to the usable connections.
    changes: Mutex<u64>,
    changed: Condvar,
    origin: Instant,
    pub(crate) options: SetOptions,
    /// Whether a file has the same inode number through each.
    pub(crate) same_inodes: bool,
    /// Whether bytes go over the file system's client library.
    pub(crate) over_library: bool,
}

impl Connections {
    /// Mounts all connections and checks that they show the same directory.
    pub fn start(mounts: Box<dyn Mounts>, options: SetOptions) -> std::result::Result<Arc<Connections>, SetError> {
        let count = options.connections.clamp(1, CONNECTIONS_MAX);
        let mut roots = Vec::new();
        let begun = mount_all(&*mounts, count, &mut roots)
            .and_then(|()| all_the_same(&*mounts, &roots))
            .and_then(|same| Ok((same, libraries(&*mounts, &roots, options.bytes_over)?)));
        let (same_inodes, over_library) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                let mounted = roots.len() as u16;
                drop(roots);
                (0..mounted).for_each(|number| mounts.take_out(number));
                return Err(error);
            }
        };
        let links = (0..count).map(|_| Link::new(Time::ZERO, options.link.clone())).collect();
        let (slots, workers) = roots.into_iter().map(slot).unzip();
        let set = Arc::new_cyclic(|me: &Weak<Connections>| Connections {
            mounts,
            slots,
            threads: Threads::new(me.clone()),
            ended: AtomicBool::new(false),
            chooser: Mutex::new(Chooser::new(options.policy, count, WidthConfig::default())),
            links: Mutex::new(links),
            usable: AtomicU64::new(u64::MAX >> (64 - count)),
            changes: Mutex::new(0),
            changed: Condvar::new(),
            origin: Instant::now(),
            options,
            same_inodes,
            over_library,
        });
        reconnect::start(&set, workers);
        Ok(set)
    }

    /// Number of connections.
    pub fn count(&self) -> u16 {
        self.slots.len() as u16
    }

    pub(crate) fn now(&self) -> Time {
        Time(self.origin.elapsed().as_nanos() as u64)
    }

    /// Returns the mount of a connection, if it has one.
    pub fn root(&self, connection: ConnectionId) -> Option<Arc<Root>> {
        self.slots[usize::from(connection.0)].root.read().clone()
    }

    /// Bit set of usable connections.
    pub fn usable(&self) -> u64 {
        self.usable.load(Ordering::Acquire)
    }

    /// Registers an open of a file by a thread.
    pub fn open(&self, thread: u32) -> Use {
        self.chooser.lock().open(thread)
    }

    /// Removes a closed file.
    pub fn close(&self, file: &mut Use) {
        self.chooser.lock().close(file);
    }

    /// Chooses connections for an operation, except those in `not`; waits if none is usable.
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

    /// Chooses connections if one is usable now.
    pub fn choose_now(&self, file: &Mutex<Use>, request: Request) -> Option<Choice> {
        self.chooser.lock().choose(self.now(), &mut file.lock(), request, self.usable())
    }

    /// Starts a part on a connection that was chosen elsewhere.
    pub fn begin(&self, connection: ConnectionId, bytes: u64) -> Part {
        self.chooser.lock().begin(self.now(), connection, bytes);
        Part { connection, offset: 0, bytes }
    }

    /// Ends a part; `moved` is the number of bytes, `None` after an error.
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
        let mut file = file.map(Mutex::lock);
        chooser.done(now, file.as_deref_mut(), direction, part, moved.is_some(), usable);
    }

    /// Counts an operation without bytes.
    pub fn counted(&self, number: u16, began: Instant) {
        self.slots[usize::from(number)].counts.operation(began.elapsed());
    }

    /// Reports an error on this mount that means that the connection is broken.
    pub fn failed(self: &Arc<Self>, root: &Root, error: Errno) {
        let slot = &self.slots[usize::from(root.number)];
        slot.counts.failures.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(connection = root.number, %error, "an operation failed");
        self.event(root.number, root.generation, Event::OperationFailed);
    }

    /// Waits for a short time, or until the usable connections change: for a caller without another connection.
    pub fn breathe(&self) {
        const MOMENT: Duration = Duration::from_millis(20);
        let mut changes = self.changes.lock();
        self.changed.wait_for(&mut changes, MOMENT);
    }

    /// Returns a usable connection other than `broken`; waits for one.
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

    /// Passes an event of a mount of that generation to the connection's machine, and carries out its actions.
    pub(crate) fn event(self: &Arc<Self>, number: u16, generation: u64, event: Event) {
        let slot = &self.slots[usize::from(number)];
        if slot.generation.load(Ordering::Acquire) != generation {
            return; // the mount has been replaced
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
        self.threads.wake();
    }

    /// Ticks all machines; returns the time until the next deadline.
    pub(crate) fn tick(self: &Arc<Self>) -> Option<Duration> {
        for number in 0..self.count() {
            let generation = self.slots[usize::from(number)].generation.load(Ordering::Acquire);
            self.event(number, generation, Event::Tick);
        }
        let next = self.links.lock().iter().filter_map(Link::next_deadline).min();
        next.map(|at| Duration::from_nanos(at.since(self.now()).0))
    }

    /// Checks that a mount shows the same directory as another usable one. Without another one the check passes.
    pub(crate) fn is_same(&self, fresh: &Root) -> std::result::Result<(), String> {
        let usable = self.usable();
        let others = (0..self.count()).filter(|c| *c != fresh.number && usable & 1 << c != 0);
        match others.filter_map(|c| self.root(ConnectionId(c))).next() {
            Some(other) => same_directory(&other, fresh).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Returns the state of the connections; write-behind is not included.
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
            bytes_over: if self.over_library { "library" } else { "mount" }.into(),
            write_behind_bytes: 0,
            connections: self.slots.iter().enumerate().map(one).collect(),
        }
    }

    /// Ends all reconnection, and wakes all waiting operations.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
        *self.changes.lock() += 1;
        self.changed.notify_all();
        self.threads.wake();
    }

    /// Unmounts all connections by force.
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
        roots.push(Arc::new(root.map_err(|error| cannot(mounts, number, "be mounted", error))?));
    }
    Ok(())
}

fn cannot(mounts: &dyn Mounts, number: u16, what: &'static str, error: io::Error) -> SetError {
    SetError::Failed(format!("connection {number} to {} cannot {what}: {error}", mounts.source(number)))
}

/// Gives each connection its library's, if requested; with `Auto`, only if it is faster. Returns whether they have
/// it.
fn libraries(mounts: &dyn Mounts, roots: &[Arc<Root>], wanted: BytesOver) -> std::result::Result<bool, SetError> {
    if wanted == BytesOver::Mount {
        return Ok(false);
    }
    for root in roots {
        let client = match mounts.client(root.number) {
            Ok(client) => client,
            Err(error) if wanted == BytesOver::Library => {
                return Err(cannot(mounts, root.number, "have the client library", error));
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
    match probe_name().and_then(|(name, _)| measure(root, &name)) {
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

/// Checks that all show the same directory; returns whether their inode numbers agree.
fn all_the_same(mounts: &dyn Mounts, roots: &[Arc<Root>]) -> std::result::Result<bool, SetError> {
    let mut same_inodes = true;
    for root in &roots[1..] {
        let different = |why| {
            let [own, first] = [root.number, 0].map(|number| mounts.source(number));
            let what = format!("does not show the same directory as connection 0 ({first})");
            SetError::Different(format!("connection {} to {own} {what}: {why}", root.number))
        };
        same_inodes &= same_directory(&roots[0], root).map_err(different)?;
    }
    Ok(same_inodes)
}

/// Writes a probe file through one mount and reads it through the other. In a read-only directory the roots' inode
/// numbers must agree. Returns whether the inode numbers of the mounts agree.
fn same_directory(one: &Root, other: &Root) -> std::result::Result<bool, String> {
    let (name, word) = probe_name().map_err(|error| error.to_string())?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = match openat(&one.fd, &name, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => file,
        Err(Errno::ROFS | Errno::ACCESS | Errno::PERM | Errno::NOSPC | Errno::DQUOT) => return by_inode(one, other),
        Err(error) => return Err(format!("a probe file cannot be written: {error}")),
    };
    let compared = (|| {
        write(&file, &word)?;
        let inode = fstat(&file)?.st_ino;
        let seen = openat(&other.fd, &name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut found = [0; 16];
        let len = read(&seen, &mut found)?;
        Ok::<_, Errno>((
            len == 16 && found == word,
            inode == statat(&other.fd, &name, AtFlags::SYMLINK_NOFOLLOW)?.st_ino,
        ))
    })();
    drop(file);
    let _ = unlinkat(&one.fd, &name, AtFlags::empty());
    match compared {
        Ok((true, same_inodes)) => Ok(same_inodes),
        Ok((false, _)) => Err("a probe file has other bytes there".into()),
        Err(Errno::NOENT) => Err("a probe file is not there".into()),
        Err(error) => Err(format!("a probe file cannot be read there: {error}")),
    }
}

fn by_inode(one: &Root, other: &Root) -> std::result::Result<bool, String> {
    let inode = |root: &Root| fstat(&root.fd).map(|stat| stat.st_ino).map_err(|error| error.to_string());
    if inode(one)? == inode(other)? { Ok(true) } else { Err("the directory has another inode number there".into()) }
}

/// Returns a random file name and the bytes for the file.
fn probe_name() -> Result<(String, [u8; 16])> {
    let mut word = [0; 16];
    rustix::rand::getrandom(&mut word, rustix::rand::GetRandomFlags::empty())?;
    Ok((format!(".entrepot-connect-{:032x}", u128::from_ne_bytes(word)), word))
}

#[cfg(test)]
mod tests;
