//! Changes of one thing (an object, a stub) that are not durable yet. One sync runs at a time for all its callers.
//!
//! ```text
//! changes    1  2  3        4           5
//! sync A            |---- device ----|             covers 3
//! sync B                     |.......|-- device --| waits for A, which does not cover 4; then one of its own
//! ```
//! A change is counted when it is over. A sync covers the changes counted when it began, and makes them durable only if
//! it succeeds. So no caller is informed before the device has finished.

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of changes and syncs of one thing. `E` is the error of a failed sync.
pub struct Unsynced<E> {
    /// Changes so far.
    changes: AtomicU64,
    syncs: Mutex<Syncs<E>>,
    ended: Condvar,
}

struct Syncs<E> {
    /// Number of durable changes.
    durable: u64,
    /// The number of the sync under way.
    under_way: Option<u64>,
    /// Syncs begun so far.
    begun: u64,
    /// The last failed sync, by its number.
    failed: Option<(u64, E)>,
}

/// Next step of a caller that needs a thing to be durable.
pub enum Turn<'a, E: Clone> {
    /// The changes are durable already.
    Durable,
    /// The caller syncs it and reports the result.
    Mine(Syncing<'a, E>),
    /// The caller waits for a sync of another thread, with [`Unsynced::wait`].
    Other(u64),
}

/// A sync under way. If it is dropped without a result, it covers nothing.
pub struct Syncing<'a, E: Clone> {
    of: &'a Unsynced<E>,
    number: u64,
    covers: u64,
    ended: Option<Result<(), E>>,
}

impl<E: Clone> Unsynced<E> {
    /// State of a thing without changes.
    pub fn unchanged() -> Unsynced<E> {
        let syncs = Syncs { durable: 0, under_way: None, begun: 0, failed: None };
        Unsynced { changes: AtomicU64::new(0), syncs: Mutex::new(syncs), ended: Condvar::new() }
    }

    /// State of a thing that a previous holder may have left unsynced.
    pub fn unknown() -> Unsynced<E> {
        let unsynced = Unsynced::unchanged();
        unsynced.changed();
        unsynced
    }

    /// A change is over, whether or not it succeeded.
    pub fn changed(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    /// Marks all changes durable. The caller excludes writers.
    pub fn all_durable(&self) {
        self.syncs.lock().durable = self.changes();
    }

    /// Number of changes so far, which a sync requested now must cover.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Returns the next step to make `needed` changes durable.
    pub fn turn(&self, needed: u64) -> Turn<'_, E> {
        let mut syncs = self.syncs.lock();
        if syncs.durable >= needed {
            return Turn::Durable;
        }
        if let Some(number) = syncs.under_way {
            return Turn::Other(number);
        }
        syncs.begun += 1;
        syncs.under_way = Some(syncs.begun);
        Turn::Mine(Syncing { of: self, number: syncs.begun, covers: self.changes(), ended: None })
    }

    /// Waits for the end of another thread's sync; all waiters get its error.
    pub fn wait(&self, number: u64) -> Result<(), E> {
        let mut syncs = self.syncs.lock();
        while syncs.under_way == Some(number) {
            self.ended.wait(&mut syncs);
        }
        match &syncs.failed {
            Some((failed, error)) if *failed >= number => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Makes all changes so far durable, by `sync` or by another thread's sync.
    pub fn sync(&self, mut sync: impl FnMut() -> Result<(), E>) -> Result<(), E> {
        let needed = self.changes();
        loop {
            match self.turn(needed) {
                Turn::Durable => return Ok(()),
                Turn::Other(number) => self.wait(number)?,
                Turn::Mine(mine) => return mine.end(sync()),
            }
        }
    }
}

impl<E: Clone> Syncing<'_, E> {
    /// Ends the sync with its result.
    pub fn end(mut self, result: Result<(), E>) -> Result<(), E> {
        self.ended = Some(result.clone());
        result
    }
}

impl<E: Clone> Drop for Syncing<'_, E> {
    fn drop(&mut self) {
        let mut syncs = self.of.syncs.lock();
        syncs.under_way = None;
        match self.ended.take() {
            Some(Ok(())) => syncs.durable = syncs.durable.max(self.covers),
            Some(Err(error)) => syncs.failed = Some((self.number, error)),
            None => {}
        }
        drop(syncs);
        self.of.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    type Counts = Unsynced<u8>;

    fn mine(counts: &Counts) -> Syncing<'_, u8> {
        match counts.turn(counts.changes()) {
            Turn::Mine(mine) => mine,
            Turn::Durable | Turn::Other(_) => panic!("it is nobody else's"),
        }
    }

    #[test]
    fn nothing_is_durable_before_the_sync_has_ended() {
        let counts = Counts::unknown();
        let first = mine(&counts);
        assert!(matches!(counts.turn(counts.changes()), Turn::Other(1)));
        first.end(Ok(())).unwrap();
        assert!(matches!(counts.turn(counts.changes()), Turn::Durable));
        assert_eq!(counts.sync(|| panic!("nothing changed since")), Ok(()));
    }

    #[test]
    fn a_sync_covers_what_had_changed_when_it_began() {
        let counts = Counts::unknown();
        let first = mine(&counts);
        counts.changed();
        let needed = counts.changes();
        first.end(Ok(())).unwrap();
        assert!(matches!(counts.turn(needed), Turn::Mine(_)), "the change came after it had begun");
        assert!(matches!(counts.turn(needed), Turn::Mine(_)), "a sync that says nothing covers nothing");
    }

    #[test]
    fn all_who_wait_get_the_error_and_the_next_tries_again() {
        let counts = Counts::unknown();
        let first = mine(&counts);
        let (begun, told) = channel();
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..3)
                .map(|_| {
                    let (counts, begun) = (&counts, begun.clone());
                    let Turn::Other(number) = counts.turn(1) else { panic!("the first is under way") };
                    scope.spawn(move || {
                        begun.send(()).unwrap();
                        counts.wait(number)
                    })
                })
                .collect();
            waiters.iter().for_each(|_| told.recv().unwrap());
            assert_eq!(first.end(Err(7)), Err(7));
            // Also those that look only after the next one has ended well.
            assert_eq!(counts.sync(|| Ok(())), Ok(()));
            waiters.into_iter().for_each(|w| assert_eq!(w.join().unwrap(), Err(7)));
        });
    }
}
