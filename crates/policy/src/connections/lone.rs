//! Chooses the connection for a file whose reads come one at a time: the one with the shortest measured answers.
//!
//! Connections to one server differ even without other load. BBR, once it has estimated the rate of a connection, paces
//! the segments of an answer by a timer. Where timers are late, as in a virtual machine, a paced read takes two to
//! three times as long as an unpaced one. Whether a connection is paced depends on its earlier traffic. Connections may
//! also lead to different servers. A reader that waits for each answer never keeps a connection busy enough to measure
//! its rate. So reads are timed one by one.
//!
//! ```text
//!   resting: reads stay put --rest_windows--> a round: one window over each connection --all tried--> rest on the best
//!      ^                                         |
//!      '------------ reads stay put <------------'  disturbed
//! ```
//! A window is a few reads of one size. A read disturbs it if it overlaps another, changes its size or fails. So does a
//! read that had to use another connection because the wanted one was busier or broken. The rest doubles each time that
//! a round changes nothing.

use super::ConnectionId;
use crate::time::Time;

/// Reads per window. The first is not timed, since a connection new to the file opens it first.
const WINDOW_READS: u32 = 9;
/// Factor by which another connection must be faster. Smaller differences are noise.
const GAIN_MIN: f64 = 1.2;
/// Windows before the first round: a file that is read briefly is not worth opening elsewhere.
const REST_WINDOWS: u32 = 32;
/// Limit on the windows between rounds.
const REST_WINDOWS_MAX: u32 = 1024;

/// Reads of one open file that follow each other without overlap.
#[derive(Clone, Debug)]
pub struct Lone {
    on: Option<ConnectionId>,
    /// Start and bytes of the timed read that is under way.
    timed: Option<(Time, u64)>,
    /// Number of binary digits of the reads' length.
    digits: u32,
    reads: u32,
    busy: Time,
    /// Windows until the next round; 0 during one.
    rest: u32,
    rest_windows: u32,
    round: Round,
}

/// Measurement of all connections in turn.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    home: Option<ConnectionId>,
    /// Bit set of the connections measured so far.
    tried: u64,
    /// Best connection so far, and its seconds per read.
    best: Option<(ConnectionId, f64)>,
}

impl Default for Lone {
    fn default() -> Lone {
        let round = Round::default();
        let rest_windows = REST_WINDOWS;
        Lone { on: None, timed: None, digits: 0, reads: 0, busy: Time::ZERO, rest: rest_windows, rest_windows, round }
    }
}

impl Lone {
    /// Preferred connection of the next read: that of the last one (the server reads ahead there), or the one being
    /// measured.
    pub fn wanted(&self) -> Option<ConnectionId> {
        self.on
    }

    /// Records that the file was opened, or used otherwise, over a connection.
    pub fn opened(&mut self, connection: ConnectionId) {
        self.on.get_or_insert(connection);
    }

    /// Begins a read of `bytes` over `connection`; `alone` if no other read of the file is under way.
    pub fn begin(&mut self, now: Time, connection: ConnectionId, bytes: u64, alone: bool) {
        let digits = u64::BITS - bytes.leading_zeros();
        if !alone || digits != self.digits || self.on != Some(connection) {
            self.digits = digits;
            self.on = Some(connection);
            self.disturbed();
        }
        self.timed = alone.then_some((now, bytes));
    }

    /// Ends a read, done or given up; `usable` is the bit set of usable connections.
    pub fn done(&mut self, now: Time, connection: ConnectionId, bytes: u64, ok: bool, usable: u64) {
        let Some((began, _)) = self.timed.take().filter(|timed| ok && timed.1 == bytes && self.on == Some(connection))
        else {
            return self.disturbed();
        };
        self.reads += 1;
        if self.reads > 1 {
            self.busy = self.busy + now.since(began);
        }
        if self.reads == WINDOW_READS {
            let seconds = self.busy.as_secs_f64() / f64::from(WINDOW_READS - 1);
            (self.reads, self.busy) = (0, Time::ZERO);
            self.window(connection, seconds, usable);
        }
    }

    /// Discards the window, and ends a round.
    fn disturbed(&mut self) {
        (self.timed, self.reads, self.busy) = (None, 0, Time::ZERO);
        if self.rest == 0 {
            (self.rest, self.round) = (self.rest_windows, Round::default());
        }
    }

    /// Ends a window with its mean seconds per read.
    fn window(&mut self, connection: ConnectionId, seconds: f64, usable: u64) {
        if self.rest > 1 {
            self.rest -= 1;
            return;
        }
        let Round { home, mut tried, mut best } = std::mem::take(&mut self.round);
        let home = home.unwrap_or(connection);
        self.rest = 0;
        tried |= 1 << connection.0;
        if best.is_none_or(|(_, so_far)| seconds * GAIN_MIN < so_far) {
            best = Some((connection, seconds));
        }
        let left = usable & !tried;
        if left != 0 {
            self.round = Round { home: Some(home), tried, best };
            self.on = Some(ConnectionId(left.trailing_zeros() as u16));
            return;
        }
        let best = best.map_or(home, |(best, _)| best);
        self.rest_windows = if best == home { (2 * self.rest_windows).min(REST_WINDOWS_MAX) } else { REST_WINDOWS };
        (self.on, self.rest) = (Some(best), self.rest_windows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads one after the other; a read over connection `c` takes `micros[c]`. Returns the connections used.
    fn read(lone: &mut Lone, reads: usize, bytes: u64, micros: &[u64]) -> Vec<u16> {
        let (mut now, mut over) = (Time::ZERO, Vec::new());
        for _ in 0..reads {
            let on = lone.wanted().unwrap_or_default();
            lone.begin(now, on, bytes, true);
            now = now + Time(1000 * micros[usize::from(on.0)]);
            lone.done(now, on, bytes, true, (1 << micros.len()) - 1);
            over.push(on.0);
        }
        over
    }

    const WINDOW: usize = WINDOW_READS as usize;
    const REST: usize = REST_WINDOWS as usize;

    #[test]
    fn the_fastest_is_found_and_kept_and_the_others_are_tried_ever_less_often() {
        let mut lone = Lone::default();
        let over = read(&mut lone, 20_000, 128 << 10, &[840, 800, 320, 330]);
        assert!(over[..REST * WINDOW].iter().all(|c| *c == 0), "nothing is tried for a file that is read for a moment");
        let rest = &over[(REST + 3) * WINDOW..];
        let elsewhere = rest.iter().filter(|c| **c != 2).count();
        assert!(elsewhere <= rest.len() / 50, "{elsewhere} of {} reads went elsewhere", rest.len());
    }

    #[test]
    fn one_that_becomes_slow_is_left() {
        let mut lone = Lone::default();
        read(&mut lone, 1000, 4096, &[100, 110]);
        assert_eq!(lone.wanted(), Some(ConnectionId(0)), "so little is noise");
        let over = read(&mut lone, 2 * REST * WINDOW + 1000, 4096, &[300, 110]);
        assert_eq!(over.last(), Some(&1));
    }

    #[test]
    fn a_round_that_is_disturbed_stays_where_it_is() {
        let mut lone = Lone::default();
        read(&mut lone, REST * WINDOW + 3, 4096, &[100, 10, 10]);
        assert_eq!(lone.wanted(), Some(ConnectionId(1)), "a round is under way");
        lone.begin(Time::ZERO, ConnectionId(0), 4096, true); // the other one was busier
        lone.done(Time(1), ConnectionId(0), 4096, true, 0b111);
        assert_eq!(lone.wanted(), Some(ConnectionId(0)));
        let over = read(&mut lone, REST * WINDOW, 4096, &[100, 10, 10]);
        assert!(over[..REST * WINDOW - 1].iter().all(|c| *c == 0), "it rests again first");
        // Overlap, another size, a failure, and an unusable connection.
        lone.begin(Time::ZERO, ConnectionId(2), 4096, false);
        lone.done(Time(1), ConnectionId(2), 4096, true, 0b111);
        lone.begin(Time::ZERO, ConnectionId(2), 1 << 20, true);
        lone.done(Time(1), ConnectionId(2), 1 << 20, false, 0b011);
        let over = read(&mut lone, 2 * REST * WINDOW, 4096, &[10, 20, 30]);
        assert_eq!((over[0], *over.last().unwrap()), (2, 0));
    }

    #[test]
    fn a_single_connection_has_nothing_to_try() {
        let over = read(&mut Lone::default(), 5000, 4096, &[100]);
        assert!(over.iter().all(|c| *c == 0));
    }
}
