//! Which of the reads that wait for a device goes next: awaited reads before prefetches.
//!
//! ```text
//!   awaited   a3 a2 a1 --\
//!                          >--> device      a prefetch that becomes awaited moves from its line to the other
//!   prefetch     p2 p1 --/
//! ```
//! A prefetch that is done before it is asked for gains nothing, and every read behind it loses. So prefetches go when
//! no awaited read waits. None starves: the oldest goes once it has waited for `expiry`, at most one between two
//! awaited reads.
//!
//! There are two exceptions, for devices that position. In a crowd of awaited reads a prefetch is merged with the read
//! that it follows. A short prefetch that continues where the device has just stopped goes at once: now it costs its
//! transfer, later it would cost the positioning as well. At most one of these goes between two awaited reads, and it
//! goes before an expired one, since an overloaded device must not seek to and fro.
//!
//! The lines themselves, and the order within one, are the driver's: the simulator's block layer sorts them by sector,
//! the file system's targets serve each in order of arrival.

use crate::time::Time;

/// Why a read waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Class {
    /// A caller waits for it.
    #[default]
    Awaited,
    /// Nobody has asked for it yet.
    Prefetch,
}

/// Who goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// An awaited read.
    Awaited,
    /// A prefetch, the oldest or whichever the driver's order has first.
    Prefetch,
    /// The prefetch that goes on where the device stopped.
    Onward,
}

impl Turn {
    /// Whose line it is.
    pub fn class(self) -> Class {
        match self {
            Turn::Awaited => Class::Awaited,
            Turn::Prefetch | Turn::Onward => Class::Prefetch,
        }
    }
}

/// How long prefetches stand back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// A prefetch that has waited so long goes before awaited reads: 500 ms, what the deadline scheduler of Linux gives
    /// a read.
    pub expiry: Time,
    /// From so many awaited reads in the queue on a prefetch goes along with the one that it follows: 4, a guess; a
    /// device that keeps up has fewer.
    pub crowd: usize,
    /// A prefetch of so many bytes at most goes on where the device stopped: 32 KiB, two milliseconds of a Cheetah 9LP,
    /// which takes eight to come back.
    pub onward_max: u64,
}

impl Default for Config {
    fn default() -> Config {
        Config { expiry: Time::from_millis(500), crowd: 4, onward_max: 32 << 10 }
    }
}

/// The order of two lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Precedence {
    config: Config,
    /// Since the last awaited read one has gone that had expired.
    expired_went: bool,
    /// Since the last awaited read one has gone that was on the way.
    onward_went: bool,
}

impl Precedence {
    /// With nothing gone yet.
    pub fn new(config: Config) -> Precedence {
        Precedence { config, expired_went: false, onward_went: false }
    }

    /// The line that goes next, of which there is one: whether an awaited read waits, since when the oldest prefetch
    /// does, and how many bytes the prefetch has that goes on where the device stopped, if there is one.
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

    /// Whether a prefetch right behind an awaited read that waits with so many others goes with it as one request: in a
    /// crowd it is the device's time that everybody waits for, and one request takes less than two.
    pub fn rides_along(&self, awaited: usize) -> bool {
        awaited >= self.config.crowd
    }

    /// It was done so, while awaited reads waited or not.
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
        /// However reads come, each awaited one has at most one prefetch go between two awaited ones, and no prefetch
        /// waits longer than its expiry and the turns of the prefetches before it, two each.
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
