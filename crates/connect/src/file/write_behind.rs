//! Write-behind: acknowledged writes that are on their way. Couples `policy::connections::Behind` with the bytes and
//! the threads that send them.
//!
//! The bytes stay here until a connection reports that the server has them, so a broken connection loses none: they
//! are sent over another one. A failed write is reported at the next write, sync or close of the file; of an object,
//! at each write until a sync has reported it. Sync, close and reads of attributes wait for all bytes; a reader waits
//! for the bytes that it reads.

use super::{Begun, OpenFile, World};
use crate::aligned::Aligned;
use crate::readers::about_to_wait;
use meta::namespace::NodeId;
use node::mount::slow::{OWN, Slow};
use parking_lot::{Condvar, Mutex, MutexGuard};
use policy::connections::{Behind, BehindConfig, Choice, PieceId, Put};
use rustix::io::{Errno, Result};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Pieces sent at once per connection: enough to keep it busy, few enough for a prompt answer to a probe.
const SENDERS_PER_CONNECTION: usize = 4;
/// Limits of senders for all connections together.
const SENDERS: std::ops::RangeInclusive<usize> = 8..=64;
/// Interval at which a close checks whether it still has to wait.
const LOOK: Duration = Duration::from_millis(100);
/// Smaller writes are copied straight into their piece, without a buffer of their own.
const SMALL: usize = 64 << 10;
/// Number of queues at which those of closed files are removed.
const SWEEP: usize = 1024;

/// Write-behind of all files.
pub(crate) struct WriteBehind {
    queues: Mutex<HashMap<NodeId, Weak<Queue>>>,
    /// Queues of closed objects whose failure no sync has returned yet.
    failed: Mutex<HashMap<NodeId, Arc<Queue>>>,
    config: BehindConfig,
    /// Maximum of bytes kept for all files together; 0 disables write-behind.
    pub room_bytes: u64,
    taken: Mutex<u64>,
    given: Condvar,
    senders: Arc<Slow>,
}

/// Write-behind of one file, shared by all its opens.
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// Number of kept bytes, readable without the lock.
    kept: AtomicU64,
}

struct State {
    behind: Behind<Errno>,
    pieces: HashMap<PieceId, PendingPiece>,
    /// Latest failure since the last sync of the object, through any open.
    failed: Option<Errno>,
}

/// A piece and the open file that it was written through.
struct PendingPiece {
    file: Arc<OpenFile>,
    bytes: Aligned,
}

impl AsRef<[u8]> for PendingPiece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A piece that is being sent.
struct Piece {
    id: PieceId,
    range: Range<u64>,
    kept: Arc<PendingPiece>,
}

/// Pieces to be sent as soon as their writer has been answered.
#[must_use]
pub(crate) struct Unsent {
    queue: Arc<Queue>,
    pieces: Vec<Piece>,
}

impl Unsent {
    /// Begins to send the pieces; hands those that may block to other threads.
    pub fn send(self, world: &Arc<World>) {
        for piece in self.pieces {
            if let Err((piece, chosen)) = self.queue.begin(world, piece) {
                self.queue.hand_over(world, piece, chosen);
            }
        }
    }
}

impl State {
    /// Takes all pieces that may be sent.
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
    /// Creates the queues for a number of connections and bytes.
    pub fn new(connections: u16, piece_bytes: u64, room_bytes: u64, fuse_threads: usize) -> WriteBehind {
        let senders = (SENDERS_PER_CONNECTION * usize::from(connections)).clamp(*SENDERS.start(), *SENDERS.end());
        WriteBehind {
            queues: Mutex::default(),
            failed: Mutex::default(),
            config: BehindConfig::for_connections(connections, piece_bytes),
            room_bytes,
            taken: Mutex::new(0),
            given: Condvar::new(),
            senders: Slow::new(senders, usize::MAX, fuse_threads),
        }
    }

    /// Returns whether write-behind is on.
    pub fn is_on(&self) -> bool {
        self.room_bytes > 0
    }

    /// Returns the queue of a file that is being opened.
    pub fn queue(&self, id: NodeId) -> Arc<Queue> {
        let mut queues = self.queues.lock();
        if let Some(queue) = queues.get(&id).and_then(Weak::upgrade) {
            return queue;
        }
        if queues.len() >= SWEEP {
            queues.retain(|_, queue| queue.strong_count() > 0);
        }
        let state = State { behind: Behind::new(self.config), pieces: HashMap::new(), failed: None };
        let queue = Arc::new(Queue { state: Mutex::new(state), changed: Condvar::new(), kept: AtomicU64::new(0) });
        queues.insert(id, Arc::downgrade(&queue));
        queue
    }

    /// Removes the queue of a closed file unless another open still uses it.
    pub fn forget(&self, id: NodeId) {
        let mut queues = self.queues.lock();
        if queues.get(&id).is_some_and(|queue| queue.strong_count() == 0) {
            queues.remove(&id);
        }
    }

    /// Keeps the queue of an object that is being closed, if no sync has returned its failure.
    pub fn keep_failed(&self, id: NodeId, queue: &Arc<Queue>) {
        if queue.failed().is_err() {
            self.failed.lock().insert(id, queue.clone());
        }
    }

    /// Drops a kept queue, after a sync or the removal of the object.
    pub fn drop_failed(&self, id: NodeId) {
        let dropped = self.failed.lock().remove(&id);
        drop(dropped);
    }

    /// Waits until the server has the kept bytes of a file; returns whether there were any.
    pub fn settle(&self, id: NodeId) -> bool {
        let queue = self.queues.lock().get(&id).and_then(Weak::upgrade);
        queue.is_some_and(|queue| queue.settle())
    }

    /// Waits for the senders to end.
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
    /// Adds a write of an open file.
    pub fn put(self: &Arc<Self>, world: &Arc<World>, file: &Arc<OpenFile>, offset: u64, data: &[u8]) -> Unsent {
        let len = data.len() as u64;
        world.writes.take_room(len);
        // Only small copies are made under the lock, and most of them join another piece.
        let mut copy = (data.len() >= SMALL).then(|| Aligned::copy_of(data));
        let mut state = self.state.lock();
        loop {
            match state.behind.put(offset, len) {
                Put::Fresh(id) => {
                    let bytes = copy.take().unwrap_or_else(|| Aligned::copy_of(data));
                    state.pieces.insert(id, PendingPiece { file: file.clone(), bytes });
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

    /// Begins to send a piece. Returns it, with the connections chosen for it, if sending needs a thread that may
    /// block.
    fn begin(self: &Arc<Self>, world: &Arc<World>, piece: Piece) -> std::result::Result<(), (Piece, Option<Choice>)> {
        let Piece { id, range, kept } = piece;
        let (queue, inside, file, all) = (self.clone(), world.clone(), kept.file.clone(), range.clone());
        let node = file.id;
        let done = move |sent| {
            // This is the library's thread, which must not block, so others send the next pieces.
            for next in queue.sent(&inside, node, id, &all, sent) {
                queue.hand_over(&inside, next, None);
            }
        };
        match file.begin_write(world, range.start, &kept, done) {
            Begun::Yes => Ok(()),
            Begun::No(chosen) => Err((Piece { id, range, kept }, chosen)),
        }
    }

    /// Sends a piece on a thread that may block.
    fn hand_over(self: &Arc<Self>, world: &Arc<World>, piece: Piece, chosen: Option<Choice>) {
        let (queue, inside) = (self.clone(), world.clone());
        if let Err(work) = world.writes.senders.push_now(OWN, Box::new(move || queue.work(&inside, piece, chosen))) {
            work(); // shutting down
        }
    }

    /// Sends a piece and all that become ready after it.
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

    /// Records the result of a piece. Returns the pieces that may be sent now.
    fn sent(&self, world: &World, node: NodeId, id: PieceId, range: &Range<u64>, sent: Result<()>) -> Vec<Piece> {
        if let Err(error) = sent {
            tracing::warn!(%error, node, offset = range.start, "bytes that were acknowledged cannot be written");
        }
        let len = range.end - range.start;
        let mut state = self.state.lock();
        state.failed = sent.err().or(state.failed);
        state.behind.done(id, sent);
        self.kept.fetch_sub(len, Ordering::Release);
        self.changed.notify_all();
        let next = state.start();
        drop(state);
        world.writes.give_room(len);
        next
    }

    /// Waits until the server has all bytes kept now; returns whether there were any.
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

    /// Waits as [`Queue::settle`], until `gives_up` returns true. Returns whether the server has everything.
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

    /// Waits until the server has the kept bytes of `range`.
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

    /// Returns the number of failures so far, for an open of the file to start from.
    pub fn failures(&self) -> u64 {
        self.state.lock().behind.failures()
    }

    /// Returns whether an error occurred after `seen`.
    pub fn has_news(&self, seen: &AtomicU64) -> bool {
        self.state.lock().behind.failed_since(seen.load(Ordering::Relaxed)).is_some()
    }

    /// Returns the latest failure that no sync of the object has returned.
    pub fn failed(&self) -> Result<()> {
        self.state.lock().failed.map_or(Ok(()), Err)
    }

    /// As [`Queue::failed`], for the sync that returns it.
    pub fn take_failed(&self) -> Result<()> {
        self.state.lock().failed.take().map_or(Ok(()), Err)
    }

    /// Returns an error that occurred after `seen`, once.
    pub fn take_failure(&self, seen: &AtomicU64) -> Result<()> {
        let state = self.state.lock();
        let before = seen.swap(state.behind.failures(), Ordering::Relaxed);
        state.behind.failed_since(before).map_or(Ok(()), Err)
    }
}
