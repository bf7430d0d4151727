//! How fast a transfer may be: by what was asked of it, and by the part that `[stage] limit` leaves to its user. The live
//! driver of `policy::throttle::Turns`.

use crate::source::SourceError;
use crate::stats::{Metric, Stats};
use crate::stop::Stop;
use parking_lot::{Condvar, Mutex};
use policy::Time;
use policy::throttle::{Turn, Turns};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A piece is what may be moved in this part of a second: 16 pieces in flight at once are a tenth of what ten seconds move.
const PIECES_PER_SECOND: u64 = 16;
/// Pieces smaller than this cost more than they smooth (a guess), and larger ones are never asked for at once.
const PIECE_BYTES: std::ops::RangeInclusive<u64> = 16 << 10..=4 << 20;
/// Whoever waits looks so often whether it is to stop.
const STOP_LOOK_EVERY: Duration = Duration::from_millis(50);
/// A transfer whose limit is less needs no other node's help (a guess: one node brings that, and a share of work is 16 MiB).
const HELPED_BYTES_S: u64 = 64 << 20;

/// Bytes per second that hold a transfer back, and what says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The rate.
    pub bytes_s: u64,
    /// `--limit` or `[stage] limit`.
    pub by: String,
}

/// Lets bytes through at a rate, by turns of the users.
pub(super) struct Limiter {
    state: Mutex<State>,
    changed: Condvar,
    began: Instant,
}

struct State {
    turns: Turns,
    /// Whose turn came.
    granted: BTreeSet<Turn>,
}

impl Limiter {
    /// So many bytes per second.
    pub fn new(bytes_s: u64) -> Limiter {
        let turns = Turns::new(Some(bytes_s), bytes_s / PIECES_PER_SECOND, Time::ZERO);
        let state = Mutex::new(State { turns, granted: BTreeSet::new() });
        Limiter { state, changed: Condvar::new(), began: Instant::now() }
    }

    pub fn bytes_s(&self) -> Option<u64> {
        self.state.lock().turns.rate()
    }

    /// Another rate from now on.
    pub fn set(&self, bytes_s: u64) {
        let mut state = self.state.lock();
        if state.turns.rate() != Some(bytes_s) {
            state.turns.set_rate(self.now(), Some(bytes_s));
            self.changed.notify_all();
        }
    }

    /// Waits for the turn of so many bytes. Whether it came: else it was told to stop.
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

/// What holds one transfer back.
pub(super) struct Pace {
    pub user: u32,
    /// Of this transfer, wherever its bytes are moved.
    pub own: Option<Limiter>,
    /// Of all that this node moves.
    pub volume: Option<Arc<Limiter>>,
    pub stop: Stop,
    pub stats: Arc<Stats>,
}

impl Pace {
    /// Whether there is nothing to wait for.
    pub fn is_free(&self) -> bool {
        self.own.is_none() && self.volume.is_none()
    }

    /// Whether other nodes should bring a part.
    pub fn wants_help(&self) -> bool {
        self.own.as_ref().and_then(Limiter::bytes_s).is_none_or(|bytes_s| bytes_s >= HELPED_BYTES_S)
    }

    /// How much is to be moved at once.
    pub fn piece_bytes(&self) -> usize {
        let rates = [self.own.as_ref(), self.volume.as_deref()].into_iter().flatten().filter_map(Limiter::bytes_s);
        let piece = rates.min().unwrap_or(u64::MAX) / PIECES_PER_SECOND;
        piece.clamp(*PIECE_BYTES.start(), *PIECE_BYTES.end()) as usize
    }

    /// Waits until this node may move so many bytes.
    pub fn take(&self, bytes: u64) -> Result<(), SourceError> {
        self.wait(bytes, [self.own.as_ref(), self.volume.as_deref()])
    }

    /// Waits until another node may move them for this transfer; its own limit it keeps itself.
    pub fn take_elsewhere(&self, bytes: u64) -> Result<(), SourceError> {
        self.wait(bytes, [self.own.as_ref(), None])
    }

    fn wait(&self, bytes: u64, limiters: [Option<&Limiter>; 2]) -> Result<(), SourceError> {
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
