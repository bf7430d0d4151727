//! Order of the reads that wait for a device: awaited reads before prefetches.
//!
//! ```text
//!   awaited   a3 a2 a1 --\
//!                          >--> device      a prefetch that becomes awaited moves to the other queue
//!   prefetch     p2 p1 --/
//! ```
//! A prefetch that is done before it is requested gains nothing, and every read behind it loses. So prefetches go when
//! no awaited read waits. None starves: the oldest goes once it has waited for `expiry`, at most one between two
//! awaited reads.
//!
//! There are two exceptions, for devices with positioning times. In a crowd of awaited reads, a prefetch is merged with
//! the read that it follows. A short prefetch that continues where the device has just stopped goes at once. Now it
//! costs its transfer; later it would cost the positioning as well. At most one of these goes between two awaited
//! reads. It goes before an expired one, since an overloaded device must not seek to and fro.
//!
//! The queues themselves, and the order within one, belong to the driver. The simulator's block layer sorts by sector;
//! the file system's targets serve in order of arrival.

use crate::time::Time;

/// Class of a waiting read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Class {
    /// A caller waits for it.
    #[default]
    Awaited,
    /// No caller has requested it so far.
    Prefetch,
}

/// Next read for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// An awaited read.
    Awaited,
    /// A prefetch: the oldest, or the first in the driver's order.
    Prefetch,
    /// The prefetch that continues where the device stopped.
    Onward,
}

impl Turn {
    /// Class of the queue that it is taken from.
    pub fn class(self) -> Class {
        match self {
            Turn::Awaited => Class::Awaited,
            Turn::Prefetch | Turn::Onward => Class::Prefetch,
        }
    }
}

/// Limits on the delay of prefetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Wait after which a prefetch goes before awaited reads: 500 ms, the read expiry of Linux's deadline scheduler.
    pub expiry: Time,
    /// If at least so many awaited reads are queued, a prefetch is merged with the read before it. A guess: a device
    /// that keeps up has fewer than 4.
    pub crowd: usize,
    /// Largest prefetch that continues where the device stopped: 32 KiB, or two milliseconds of a Cheetah 9LP, which
    /// needs eight to come back.
    pub onward_max: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config { expiry: Time::from_millis(500), crowd: 4, onward_max: 32 << 10 }
    }
}

/// Order between the two queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Precedence {
    config: Config,
    /// Whether an expired prefetch has gone since the last awaited read.
    expired_went: bool,
    /// Whether a continuing prefetch has gone since the last awaited read.
    onward_went: bool,
}

impl Precedence {
    /// Begins with no read served.
    pub fn new(config: Config) -> Precedence {
        Precedence { config, expired_went: false, onward_went: false }
    }

    /// Chooses the queue to serve; one of them must have a read. `awaited`: an awaited read waits. `oldest_prefetch`:
    /// time since when the oldest prefetch waits. `onward`: bytes of the prefetch that continues where the device
    /// stopped.
    pub fn next(&self, now: Time, awaited: bool, oldest_prefetch: Option<Time>, onward: Option<u64>) -> Turn {
        let Some(since) = oldest_prefetch else { return Turn::Awaited };
        if !awaited {
            Turn::Prefetch
        } else if !self.onward_went && onward.is_some_and(|bytes| bytes <= self.config.onward_max) {
            Turn::Onward
        } else if !self.expired_went && since + self.config.expiry <= now {
            Turn::Prefetch
        } else {
            Turn::Awaited
        }
    }

    /// Whether a prefetch is merged with the awaited read that it follows, among `awaited` waiting ones. In a crowd
    /// every read waits for the device, and one request takes less of its time than two.
    pub fn rides_along(&self, awaited: usize) -> bool {
        awaited >= self.config.crowd
    }

    /// Records the served queue, and whether awaited reads were waiting.
    pub fn went(&mut self, turn: Turn, awaited: bool) {
        match turn {
            Turn::Prefetch => self.expired_went = awaited,
            Turn::Onward => self.onward_went = awaited,
            Turn::Awaited => (self.expired_went, self.onward_went) = (false, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn prefetches_go_when_nobody_waits() {
        let order = Precedence::default();
        assert_eq!(order.next(Time::ZERO, true, Some(Time::ZERO), None), Turn::Awaited);
        assert_eq!(order.next(Time::ZERO, false, Some(Time::ZERO), None), Turn::Prefetch);
        assert_eq!(order.next(Time::ZERO, true, None, None), Turn::Awaited);
    }

    #[test]
    fn an_expired_prefetch_goes_in_every_other_turn() {
        let (mut order, late) = (Precedence::default(), Time::from_millis(500));
        let mut gone = Vec::new();
        for _ in 0..6 {
            let turn = order.next(late, true, Some(Time::ZERO), None);
            order.went(turn, true);
            gone.push(turn);
        }
        assert_eq!(gone, [Turn::Prefetch, Turn::Awaited].repeat(3));
        assert_eq!(order.next(Time::from_millis(499), true, Some(Time::ZERO), None), Turn::Awaited);
    }

    #[test]
    fn a_short_prefetch_goes_on_where_the_device_stopped() {
        let mut order = Precedence::default();
        let next = |order: &Precedence, bytes| order.next(Time::ZERO, true, Some(Time::ZERO), Some(bytes));
        assert_eq!([32 << 10, 33 << 10].map(|bytes| next(&order, bytes)), [Turn::Onward, Turn::Awaited]);
        order.went(Turn::Onward, true);
        assert_eq!(next(&order, 4096), Turn::Awaited, "not two in a row before those that wait");
        let late = Time::from_millis(500);
        assert_eq!(order.next(late, true, Some(Time::ZERO), Some(4096)), Turn::Prefetch, "but one that has expired");
        order.went(Turn::Prefetch, true);
        assert_eq!(order.next(late, true, Some(Time::ZERO), Some(4096)), Turn::Awaited);
    }

    proptest! {
        /// In any arrival order, at most one prefetch goes between two awaited reads. No prefetch waits longer than its
        /// expiry and the turns of the prefetches before it, two each.
        #[test]
        fn nobody_starves(arrivals in prop::collection::vec((any::<bool>(), 0u64..3), 1..200)) {
            const TURN_MS: u64 = 10;
            let config = Config { expiry: Time::from_millis(100), ..Config::default() };
            let mut order = Precedence::new(config);
            let (mut awaited, mut ahead, mut arrivals) = (0u32, std::collections::VecDeque::new(), arrivals.into_iter());
            let (mut turn, mut passed) = (0u64, 0);
            loop {
                let now = Time::from_millis(turn * TURN_MS);
                match arrivals.next() {
                    Some((true, count)) => awaited += count as u32,
                    Some((false, count)) => (0..count).for_each(|_| ahead.push_back((now, ahead.len() as u64))),
                    None if awaited == 0 && ahead.is_empty() => break,
                    None => {}
                }
                turn += 1;
                if awaited == 0 && ahead.is_empty() {
                    continue;
                }
                let turn = order.next(now, awaited > 0, ahead.front().map(|&(since, _)| since), None);
                order.went(turn, awaited > 0);
                if turn == Turn::Awaited {
                    prop_assert!(awaited > 0);
                    (awaited, passed) = (awaited - 1, 0);
                } else {
                    let (since, before) = ahead.pop_front().unwrap();
                    prop_assert!(now.since(since) <= config.expiry + Time::from_millis((2 * before + 2) * TURN_MS));
                    passed += u32::from(awaited > 0);
                    prop_assert!(passed <= 1, "two prefetches went while somebody waited");
                }
            }
        }
    }
}
