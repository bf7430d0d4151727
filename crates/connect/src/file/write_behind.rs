//! Writes that were acknowledged and are on their way: `policy::connections::Behind` with the bytes and the threads
//! that send them.
//!
//! The bytes stay here until a connection says that the server has them, so a connection that breaks loses none of
//! them: they are sent over another one. What cannot be written is told at the next write, sync or close of the file.
//! Sync and close wait for everything; so does whoever asks for the attributes of the file, and a reader waits for the
//! bytes that it reads.

use super::{Begun, OpenFile, World};
use crate::aligned::Aligned;
use crate::readers::about_to_wait;
use parking_lot::{Condvar, Mutex, MutexGuard};
use policy::connections::{Behind, BehindConfig, Choice, PieceId, Put};
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use store::mount::slow::{OWN, Slow};
use store::namespace::NodeId;

/// Pieces that are sent at once, per connection: enough to keep it busy, few enough that a probe is answered soon.
const SENDERS_PER_CONNECTION: usize = 4;
/// And in all.
const SENDERS: std::ops::RangeInclusive<usize> = 8..=64;
/// How often whoever closes looks whether there is anything to wait for.
const LOOK: Duration = Duration::from_millis(100);
/// A write below that is copied where it belongs, without a buffer of its own.
const SMALL: usize = 64 << 10;
/// So many files at once are looked through for those that nobody has open any more.
const SWEEP: usize = 1024;

/// The writes behind of all files.
pub(crate) struct WriteBehind {
    queues: Mutex<HashMap<NodeId, Weak<Queue>>>,
    config: BehindConfig,
    /// Bytes that all files may keep together; 0 if nothing is written behind.
    room_bytes: u64,
    taken: Mutex<u64>,
    given: Condvar,
    senders: Arc<Slow>,
}

/// The writes behind of one file, whoever has it open.
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// Bytes that are kept, to be seen without the lock.
    kept: AtomicU64,
}

struct State {
    behind: Behind<Errno>,
    pieces: HashMap<PieceId, Kept>,
}

/// A piece and the open file that it was written through.
struct Kept {
    file: Arc<OpenFile>,
    bytes: Aligned,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A piece that is under way.
struct Piece {
    id: PieceId,
    range: Range<u64>,
    kept: Arc<Kept>,
}

/// What is to be sent as soon as its writer has been answered.
#[must_use]
pub(crate) struct Unsent {
    queue: Arc<Queue>,
    pieces: Vec<Piece>,
}

impl Unsent {
    /// Sends it, or has it sent by others where that may take long.
    pub fn send(self, world: &Arc<World>) {
        for piece in self.pieces {
            if let Err((piece, chosen)) = self.queue.begin(world, piece) {
                self.queue.hand_over(world, piece, chosen);
            }
        }
    }
}

impl State {
    /// Takes everything that may be sent.
    fn start(&mut self) -> Vec<Piece> {
        let mut ready = Vec::new();
        while let Some((id, range)) = self.behind.start() {
            if let Some(kept) = self.pieces.remove(&id) {
                ready.push(Piece { id, range, kept: Arc::new(kept) });
            }
        }
        ready
    }
}

impl WriteBehind {
    /// For so many connections and bytes.
    pub fn new(connections: u16, piece_bytes: u64, room_bytes: u64, fuse_threads: usize) -> WriteBehind {
        let senders = (SENDERS_PER_CONNECTION * usize::from(connections)).clamp(*SENDERS.start(), *SENDERS.end());
        WriteBehind {
            queues: Mutex::default(),
            config: BehindConfig::for_connections(connections, piece_bytes),
            room_bytes,
            taken: Mutex::new(0),
            given: Condvar::new(),
            senders: Slow::new(senders, usize::MAX, fuse_threads),
        }
    }

    /// Whether anything is written behind.
    pub fn is_on(&self) -> bool {
        self.room_bytes > 0
    }

    /// Bytes that all files may keep together.
    pub fn room_bytes(&self) -> u64 {
        self.room_bytes
    }

    /// The queue of a file that is being opened.
    pub fn queue(&self, id: NodeId) -> Arc<Queue> {
        let mut queues = self.queues.lock();
        if let Some(queue) = queues.get(&id).and_then(Weak::upgrade) {
            return queue;
        }
        if queues.len() >= SWEEP {
            queues.retain(|_, queue| queue.strong_count() > 0);
        }
        let state = State { behind: Behind::new(self.config), pieces: HashMap::new() };
        let queue = Arc::new(Queue { state: Mutex::new(state), changed: Condvar::new(), kept: AtomicU64::new(0) });
        queues.insert(id, Arc::downgrade(&queue));
        queue
    }

    /// An open file is gone; its queue too, if nobody else has it.
    pub fn forget(&self, id: NodeId) {
        let mut queues = self.queues.lock();
        if queues.get(&id).is_some_and(|queue| queue.strong_count() == 0) {
            queues.remove(&id);
        }
    }

    /// Waits until the server has what is kept of a file; whether there was anything.
    pub fn settle(&self, id: NodeId) -> bool {
        let queue = self.queues.lock().get(&id).and_then(Weak::upgrade);
        queue.is_some_and(|queue| queue.settle())
    }

    /// Lets what is under way end.
    pub fn end(&self, patience: Duration) -> bool {
        self.senders.end(patience)
    }

    fn take_room(&self, bytes: u64) {
        let mut taken = self.taken.lock();
        while *taken > 0 && *taken + bytes > self.room_bytes {
            about_to_wait();
            self.given.wait(&mut taken);
        }
        *taken += bytes;
    }

    fn give_room(&self, bytes: u64) {
        *self.taken.lock() -= bytes;
        self.given.notify_all();
    }
}

impl Queue {
    /// Keeps a write of an open file.
    pub fn put(self: &Arc<Self>, world: &Arc<World>, file: &Arc<OpenFile>, offset: u64, data: &[u8]) -> Unsent {
        let len = data.len() as u64;
        world.writes.take_room(len);
        // Under the lock only what is small, and most of that joins another piece.
        let mut copy = (data.len() >= SMALL).then(|| Aligned::copy_of(data));
        let mut state = self.state.lock();
        loop {
            match state.behind.put(offset, len) {
                Put::Fresh(id) => {
                    let bytes = copy.take().unwrap_or_else(|| Aligned::copy_of(data));
                    state.pieces.insert(id, Kept { file: file.clone(), bytes });
                    break;
                }
                Put::Joined(id) => {
                    if let Some(kept) = state.pieces.get_mut(&id) {
                        kept.bytes.extend(data, world.writes.config.piece_bytes as usize);
                    }
                    break;
                }
                Put::Wait => {
                    about_to_wait();
                    self.changed.wait(&mut state);
                }
            }
        }
        self.kept.fetch_add(len, Ordering::Release);
        Unsent { queue: self.clone(), pieces: state.start() }
    }

    /// Begins to send a piece; gives it back, with what was chosen for it, if that has to be done by a thread that may
    /// wait.
    fn begin(self: &Arc<Self>, world: &Arc<World>, piece: Piece) -> std::result::Result<(), (Piece, Option<Choice>)> {
        let Piece { id, range, kept } = piece;
        let (queue, inside, file, all) = (self.clone(), world.clone(), kept.file.clone(), range.clone());
        let node = file.id;
        let done = move |sent| {
            // The library's thread, which must not wait, so others send what follows.
            for next in queue.sent(&inside, node, id, &all, sent) {
                queue.hand_over(&inside, next, None);
            }
        };
        match file.begin_write(world, range.start, &kept, done) {
            Begun::Yes => Ok(()),
            Begun::No(chosen) => Err((Piece { id, range, kept }, chosen)),
        }
    }

    /// Has a piece sent by a thread that may wait.
    fn hand_over(self: &Arc<Self>, world: &Arc<World>, piece: Piece, chosen: Option<Choice>) {
        let (queue, inside) = (self.clone(), world.clone());
        if let Err(work) = world.writes.senders.push_now(OWN, Box::new(move || queue.work(&inside, piece, chosen))) {
            work(); // the end has come
        }
    }

    /// Sends a piece and what follows.
    fn work(self: &Arc<Self>, world: &Arc<World>, piece: Piece, mut chosen: Option<Choice>) {
        let mut pieces = vec![piece];
        while let Some(mut piece) = pieces.pop() {
            if chosen.is_none() {
                match self.begin(world, piece) {
                    Ok(()) => continue,
                    Err((same, so_far)) => (piece, chosen) = (same, so_far),
                }
            }
            let Piece { id, range, kept } = piece;
            let sent = kept.file.write_through(world, range.start, &kept.bytes, chosen.take());
            let node = kept.file.id;
            drop(kept);
            pieces.extend(self.sent(world, node, id, &range, sent));
        }
    }

    /// A piece is with the server, or cannot be. Gives what may be sent now.
    fn sent(&self, world: &World, node: NodeId, id: PieceId, range: &Range<u64>, sent: Result<()>) -> Vec<Piece> {
        if let Err(error) = sent {
            tracing::warn!(%error, node, offset = range.start, "bytes that were acknowledged cannot be written");
        }
        let len = range.end - range.start;
        let mut state = self.state.lock();
        state.behind.done(id, sent);
        self.kept.fetch_sub(len, Ordering::Release);
        self.changed.notify_all();
        let next = state.start();
        drop(state);
        world.writes.give_room(len);
        next
    }

    /// Waits until the server has what is kept now; whether there was anything.
    pub fn settle(&self) -> bool {
        if self.kept.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut state = self.state.lock();
        let mark = state.behind.mark();
        while state.behind.has_older(mark) {
            about_to_wait();
            self.changed.wait(&mut state);
        }
        true
    }

    /// Waits as [`Queue::settle`], until `gives_up` says so. Whether the server has everything.
    pub fn settle_unless(&self, gives_up: impl Fn() -> bool) -> bool {
        if self.kept.load(Ordering::Acquire) == 0 {
            return true;
        }
        let mut state = self.state.lock();
        let mark = state.behind.mark();
        while state.behind.has_older(mark) {
            if self.changed.wait_for(&mut state, LOOK).timed_out() && MutexGuard::unlocked(&mut state, &gives_up) {
                return false;
            }
        }
        true
    }

    /// Waits until the server has what is kept of that range.
    pub fn settle_range(&self, range: &Range<u64>) {
        if self.kept.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut state = self.state.lock();
        while state.behind.touches(range) {
            about_to_wait();
            self.changed.wait(&mut state);
        }
    }

    /// Failures so far, to be remembered by whoever opens the file.
    pub fn failures(&self) -> u64 {
        self.state.lock().behind.failures()
    }

    /// Whether there is a failure that whoever has heard of those in `seen` was not told of.
    pub fn has_news(&self, seen: &AtomicU64) -> bool {
        self.state.lock().behind.failed_since(seen.load(Ordering::Relaxed)).is_some()
    }

    /// Tells whoever has heard of the failures in `seen` of a later one, once.
    pub fn told(&self, seen: &AtomicU64) -> Result<()> {
        let state = self.state.lock();
        let before = seen.swap(state.behind.failures(), Ordering::Relaxed);
        state.behind.failed_since(before).map_or(Ok(()), Err)
    }
}
