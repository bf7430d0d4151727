//! Fair queueing: equal parts of one rate for all users, however many transfers each has.
//!
//! ```text
//!   user a  | 4 | 4 | 4 |        the least start goes first, pays at the bucket, and passes once it is paid
//!   user b  | 1 | 1 | 1 | 1 |    start = max(the start that goes now, the end of the user's last); end = start + bytes
//! ```
//! Source: start-time fair queueing, all weights alike (Goyal, Vin and Cheng, SIGCOMM 1996, section 2).

use super::Throttle;
use crate::time::Time;
use std::collections::{BTreeMap, VecDeque};

/// Number of a waiting piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn(u64);

#[derive(Debug, Default)]
struct Line {
    /// Start of the user's next piece, in bytes of virtual time.
    start: u128,
    pieces: VecDeque<(Turn, u64)>,
}

/// Waiting pieces, and the bucket that limits them.
#[derive(Debug)]
pub struct Turns {
    throttle: Throttle,
    lines: BTreeMap<u32, Line>,
    /// Start of the piece that goes now, or went last.
    virtual_bytes: u128,
    /// Piece whose turn it is, and the time when it is paid.
    paying: Option<(Turn, Time)>,
    next: u64,
}

impl Turns {
    /// Begins without pieces. No rate means no limit.
    pub fn new(rate_bytes_per_sec: Option<u64>, burst_bytes: u64, now: Time) -> Turns {
        let throttle = Throttle::new(rate_bytes_per_sec, burst_bytes, now);
        Turns { throttle, lines: BTreeMap::new(), virtual_bytes: 0, paying: None, next: 0 }
    }

    /// Adds a piece to the queue of a user.
    pub fn ask(&mut self, user: u32, bytes: u64) -> Turn {
        let turn = Turn(self.next);
        self.next += 1;
        let line = self.lines.entry(user).or_default();
        if line.pieces.is_empty() {
            line.start = line.start.max(self.virtual_bytes);
        }
        line.pieces.push_back((turn, bytes));
        turn
    }

    /// Cancels a piece. Bytes already taken from the bucket are lost.
    pub fn give_up(&mut self, turn: Turn) {
        self.paying = self.paying.filter(|(paying, _)| *paying != turn);
        self.lines.values_mut().for_each(|line| line.pieces.retain(|(other, _)| *other != turn));
    }

    /// Returns the next piece that may be sent now. Call it until `None`, after each `ask` and at the deadline.
    pub fn poll(&mut self, now: Time) -> Option<Turn> {
        if self.paying.is_none() {
            let (user, start) = self.first()?;
            let line = self.lines.get_mut(&user)?;
            let (turn, bytes) = line.pieces.pop_front()?;
            line.start = start + u128::from(bytes);
            self.virtual_bytes = start;
            let virtual_bytes = self.virtual_bytes;
            self.lines.retain(|_, line| !line.pieces.is_empty() || line.start > virtual_bytes);
            self.paying = Some((turn, self.throttle.take(now, bytes)));
        }
        let (turn, at) = self.paying?;
        (at <= now).then(|| {
            self.paying = None;
            turn
        })
    }

    fn first(&self) -> Option<(u32, u128)> {
        let waiting = self.lines.iter().filter(|(_, line)| !line.pieces.is_empty());
        waiting.map(|(user, line)| (*user, line.start)).min_by_key(|(user, start)| (*start, *user))
    }

    /// Time when the piece whose turn it is will be paid.
    pub fn next_deadline(&self) -> Option<Time> {
        self.paying.map(|(_, at)| at)
    }

    /// Changes the rate from now on.
    pub fn set_rate(&mut self, now: Time, rate_bytes_per_sec: Option<u64>) {
        self.throttle.set_rate(now, rate_bytes_per_sec);
        self.paying = self.paying.map(|(turn, _)| (turn, self.throttle.take(now, 0)));
    }

    /// Rate in bytes per second; `None` is no limit.
    pub fn rate(&self) -> Option<u64> {
        self.throttle.rate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each user adds a piece as soon as one of theirs went. Returns the bytes of each user at the end.
    fn run(users: &[(u32, usize, u64)], rate: u64, seconds: u64) -> BTreeMap<u32, u64> {
        let mut turns = Turns::new(Some(rate), 0, Time::ZERO);
        let (mut of, mut moved) = (BTreeMap::new(), BTreeMap::new());
        for (user, pieces, bytes) in users {
            of.extend((0..*pieces).map(|_| (turns.ask(*user, *bytes), (*user, *bytes))));
        }
        let mut now = Time::ZERO;
        loop {
            while let Some(turn) = turns.poll(now) {
                let (user, bytes) = of.remove(&turn).expect("asked for");
                *moved.entry(user).or_default() += bytes;
                of.insert(turns.ask(user, bytes), (user, bytes));
            }
            now = turns.next_deadline().expect("somebody waits");
            if now > Time::from_secs(seconds) {
                return moved;
            }
        }
    }

    /// [S-310]
    #[test]
    fn a_user_with_many_transfers_leaves_another_half_of_the_rate() {
        let moved = run(&[(1, 200, 4000), (2, 1, 1000)], 100_000, 100);
        assert_eq!(moved.values().sum::<u64>(), 10_000_000 / 4000 * 4000);
        assert!(moved[&2].abs_diff(5_000_000) <= 4000 + 1000, "{moved:?}");
    }

    #[test]
    fn one_alone_gets_all_and_who_comes_later_saved_nothing_up() {
        let mut turns = Turns::new(Some(100), 0, Time::ZERO);
        let first = turns.ask(1, 100);
        assert_eq!((turns.poll(Time::ZERO), turns.next_deadline()), (None, Some(Time::from_secs(1))));
        assert_eq!(turns.poll(Time::from_secs(1)), Some(first));
        let (a, b, c) = (turns.ask(1, 100), turns.ask(1, 100), turns.ask(2, 50));
        let mut order = Vec::new();
        for half in 2..9 {
            order.extend(std::iter::from_fn(|| turns.poll(Time::from_millis(half * 500))));
        }
        assert_eq!(order, [c, a, b], "the other had had a turn; then nobody else was there");
    }

    #[test]
    fn what_is_given_up_holds_nobody_back_and_a_new_rate_counts_at_once() {
        let mut turns = Turns::new(Some(10), 0, Time::ZERO);
        let (a, b) = (turns.ask(1, 100), turns.ask(2, 100));
        assert_eq!(turns.poll(Time::ZERO), None);
        turns.give_up(b);
        turns.set_rate(Time::ZERO, Some(100));
        assert_eq!((turns.next_deadline(), turns.rate()), (Some(Time::from_secs(1)), Some(100)));
        turns.give_up(a);
        assert_eq!((turns.poll(Time::from_secs(9)), turns.next_deadline()), (None, None));
        turns.set_rate(Time::from_secs(9), None);
        let c = turns.ask(1, u64::MAX);
        assert_eq!(turns.poll(Time::from_secs(9)), Some(c));
    }

    proptest! {
        /// A user with constant demand is never further behind another than one piece of each.
        #[test]
        fn users_that_always_wait_get_the_same(
            pieces in prop::collection::vec((1usize..5, 1u64..5000), 2..6), rate in 1000u64..1_000_000
        ) {
            let users: Vec<_> = pieces.iter().zip(1..).map(|((n, bytes), user)| (user, *n, *bytes)).collect();
            let moved = run(&users, rate, 60);
            for (one, _, one_bytes) in &users {
                for (other, _, other_bytes) in &users {
                    let (a, b) = (moved.get(one).unwrap_or(&0), moved.get(other).unwrap_or(&0));
                    prop_assert!(a.abs_diff(*b) <= one_bytes + other_bytes, "{moved:?} of {users:?}");
                }
            }
        }
    }
}
