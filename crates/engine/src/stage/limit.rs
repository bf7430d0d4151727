//! Rate limit of a transfer: its own limit, and its user's part of `[stage] limit`. Live driver of
//! `policy::throttle::Turns`.

use crate::source::{Result, SourceError};
use crate::stats::{Metric, Stats};
use object::stop::Stop;
use parking_lot::{Condvar, Mutex};
use policy::Time;
use policy::throttle::{Turn, Turns};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pieces per second at the limit: 16 pieces in flight are a tenth of the bytes of ten seconds.
const PIECES_PER_SECOND: u64 = 16;
/// Smallest and largest piece. Smaller pieces cost more than they smooth (a guess).
const PIECE_BYTES: std::ops::RangeInclusive<u64> = 16 << 10..=4 << 20;
/// Interval of checks of the stop flag while waiting.
const STOP_LOOK_EVERY: Duration = Duration::from_millis(50);
/// A transfer with a lower limit gets no help from other nodes (a guess: one node reaches that rate, and a share of
/// work is 16 MiB).
const HELPED_BYTES_S: u64 = 64 << 20;

/// A limit in force and its origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Rate in bytes per second.
    pub bytes_s: u64,
    /// `--limit` or `[stage] limit`.
    pub by: String,
}

/// Rate limiter that serves users in turns.
pub(super) struct Limiter {
    state: Mutex<State>,
    changed: Condvar,
    began: Instant,
}

struct State {
    turns: Turns,
    /// Turns granted and not yet taken.
    granted: BTreeSet<Turn>,
}

impl Limiter {
    /// Creates a limiter of `bytes_s` bytes per second.
    pub fn new(bytes_s: u64) -> Limiter {
        let turns = Turns::new(Some(bytes_s), bytes_s / PIECES_PER_SECOND, Time::ZERO);
        let state = Mutex::new(State { turns, granted: BTreeSet::new() });
        Limiter { state, changed: Condvar::new(), began: Instant::now() }
    }

    pub fn bytes_s(&self) -> Option<u64> {
        self.state.lock().turns.rate()
    }

    /// Changes the rate.
    pub fn set(&self, bytes_s: u64) {
        let mut state = self.state.lock();
        if state.turns.rate() != Some(bytes_s) {
            state.turns.set_rate(self.now(), Some(bytes_s));
            self.changed.notify_all();
        }
    }

    /// Waits for a turn of `bytes`. Returns false if the transfer was stopped.
    fn take(&self, user: u32, bytes: u64, stop: &Stop) -> bool {
        let mut state = self.state.lock();
        let turn = state.turns.ask(user, bytes);
        loop {
            let now = self.now();
            while let Some(granted) = state.turns.poll(now) {
                state.granted.insert(granted);
                self.changed.notify_all();
            }
            if state.granted.remove(&turn) {
                return true;
            }
            if stop.is_set() {
                state.turns.give_up(turn);
                self.changed.notify_all();
                return false;
            }
            let left = state.turns.next_deadline().map(|at| Duration::from_nanos(at.since(now).0));
            self.changed.wait_for(&mut state, left.unwrap_or(STOP_LOOK_EVERY).min(STOP_LOOK_EVERY));
        }
    }

    fn now(&self) -> Time {
        Time(self.began.elapsed().as_nanos() as u64)
    }
}

/// Limits of one transfer.
pub(super) struct Pace {
    pub user: u32,
    /// Limiter of this transfer on all nodes.
    pub own: Option<Limiter>,
    /// Limiter of all transfers on this node.
    pub volume: Option<Arc<Limiter>>,
    pub stop: Stop,
    pub stats: Arc<Stats>,
}

impl Pace {
    /// Whether there is no limit.
    pub fn is_free(&self) -> bool {
        self.own.is_none() && self.volume.is_none()
    }

    /// Whether other nodes should fetch shares.
    pub fn wants_help(&self) -> bool {
        self.own.as_ref().and_then(Limiter::bytes_s).is_none_or(|bytes_s| bytes_s >= HELPED_BYTES_S)
    }

    /// Maximum bytes per request.
    pub fn piece_bytes(&self) -> usize {
        let rates = [self.own.as_ref(), self.volume.as_deref()].into_iter().flatten().filter_map(Limiter::bytes_s);
        let piece = rates.min().unwrap_or(u64::MAX) / PIECES_PER_SECOND;
        piece.clamp(*PIECE_BYTES.start(), *PIECE_BYTES.end()) as usize
    }

    /// Waits until this node may transfer `bytes`.
    pub fn take(&self, bytes: u64) -> Result<()> {
        self.wait(bytes, [self.own.as_ref(), self.volume.as_deref()])
    }

    /// Waits until another node may transfer `bytes` for this transfer; that node applies its own volume limit.
    pub fn take_elsewhere(&self, bytes: u64) -> Result<()> {
        self.wait(bytes, [self.own.as_ref(), None])
    }

    fn wait(&self, bytes: u64, limiters: [Option<&Limiter>; 2]) -> Result<()> {
        let began = Instant::now();
        let came = limiters.into_iter().flatten().all(|limiter| limiter.take(self.user, bytes, &self.stop));
        self.stats.add(Metric::StageHeldNs, began.elapsed().as_nanos() as u64);
        if came { Ok(()) } else { Err(SourceError::Passing("stopped".into())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_let_go_when_told_to_stop_and_others_have_their_turn() {
        let limiter = Arc::new(Limiter::new(1));
        let stop = Stop::default();
        let (other, told) = (limiter.clone(), stop.clone());
        let waits = std::thread::spawn(move || other.take(1, 1 << 40, &told));
        stop.set();
        assert!(!waits.join().expect("no panic"));
        limiter.set(1 << 60);
        assert!(limiter.take(2, 1, &Stop::default()));
    }

    #[test]
    fn pieces_are_small_against_the_rate() {
        let pace = |own: Option<u64>, volume: Option<u64>| Pace {
            user: 0,
            own: own.map(Limiter::new),
            volume: volume.map(|rate| Arc::new(Limiter::new(rate))),
            stop: Stop::default(),
            stats: Arc::default(),
        };
        assert_eq!(pace(Some(16 << 20), Some(32 << 20)).piece_bytes(), 1 << 20);
        assert_eq!([pace(Some(1), None).piece_bytes(), pace(None, None).piece_bytes()], [16 << 10, 4 << 20]);
        assert!(pace(None, Some(1)).wants_help() && !pace(Some(1 << 20), None).wants_help());
        assert!(pace(None, None).is_free() && !pace(None, Some(1)).is_free());
    }
}
