//! Recorder of reads and writes: off by default, and bounded while a client records.
//!
//! ```text
//! threads of the mount --add--> queue, bounded --take--> the one recording
//! ```
//! An operation is added when it is answered. A full queue drops it, so a recording never delays an operation.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Operations in the queue, 72 bytes each: half a second at 100,000 operations a second. A guess.
const QUEUE_MAX: usize = 50_000;

/// Position of a read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Number of the file.
    pub file: u64,
    /// Number of the open.
    pub open: u64,
    /// First byte of the range.
    pub offset: u64,
}

/// An answered read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Time of its arrival.
    pub began: Instant,
    /// Time until its answer.
    pub took: Duration,
    /// Position in the file.
    pub position: Position,
    /// Bytes that were read or written.
    pub bytes: u64,
    /// Whether it is a write.
    pub write: bool,
}

/// Recorder of a mount.
#[derive(Debug, Default)]
pub struct Recorder {
    is_on: AtomicBool,
    queue: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    operations: Vec<Recorded>,
    dropped: u64,
}

impl Recorder {
    /// Whether a recording runs.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Adds an operation, if a recording runs and the queue has room.
    pub fn add(&self, operation: Recorded) {
        let mut queue = self.queue.lock();
        if !self.is_on() {
            return;
        }
        if queue.operations.len() < QUEUE_MAX {
            queue.operations.push(operation);
        } else {
            queue.dropped += 1;
        }
    }

    /// Starts a recording; `None` if one runs.
    pub fn start(&self) -> Option<Recording<'_>> {
        let _queue = self.queue.lock();
        (!self.is_on.swap(true, Ordering::Relaxed)).then(|| Recording(self))
    }
}

/// A running recording; it ends when it is dropped.
#[derive(Debug)]
pub struct Recording<'a>(&'a Recorder);

impl Recording<'_> {
    /// Moves the queue's operations to `batch`, in order of their answers. Returns the number of dropped ones since the
    /// last call.
    pub fn take(&self, batch: &mut Vec<Recorded>) -> u64 {
        batch.clear();
        let mut queue = self.0.queue.lock();
        std::mem::swap(&mut queue.operations, batch);
        std::mem::take(&mut queue.dropped)
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue.lock();
        self.0.is_on.store(false, Ordering::Relaxed);
        *queue = Queue::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(offset: u64) -> Recorded {
        let position = Position { file: 1, open: 2, offset };
        Recorded { began: Instant::now(), took: Duration::ZERO, position, bytes: 4096, write: false }
    }

    #[test]
    fn one_recording_at_a_time_has_what_came_during_it() {
        let (recorder, mut batch) = (Recorder::default(), Vec::new());
        recorder.add(operation(0));
        let recording = recorder.start().expect("none runs");
        assert!(recorder.is_on() && recorder.start().is_none());
        recorder.add(operation(4096));
        assert_eq!(recording.take(&mut batch), 0);
        assert_eq!(batch.iter().map(|op| op.position.offset).collect::<Vec<_>>(), [4096]);
        recorder.add(operation(8192));
        drop(recording);
        assert!(!recorder.is_on());
        let next = recorder.start().expect("the first has ended");
        assert_eq!((next.take(&mut batch), batch.len()), (0, 0), "the rest of the first is not in the second");
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let (recorder, mut batch) = (Recorder::default(), Vec::new());
        let recording = recorder.start().expect("none runs");
        (0..QUEUE_MAX as u64 + 7).for_each(|at| recorder.add(operation(at)));
        assert_eq!(recording.take(&mut batch), 7);
        assert_eq!(batch.len(), QUEUE_MAX);
        assert_eq!(recording.take(&mut batch), 0, "each is counted once");
    }
}
