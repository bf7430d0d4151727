//! Remaining bytes of a layout change: size and time of the next step. Moves between tiers yield to requests
//! (`policy::tier::yielding`).

use policy::tier::yielding::{Turn, Yielding};
use policy::time::Time;

/// Bytes whose step has not begun.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    left: u64,
    bytes: u64,
    yielding: Option<Yielding>,
}

impl Steps {
    /// Creates the steps of `left` bytes with the machine's `pace`; without one, in steps of `bytes`.
    pub fn new(left: u64, pace: Option<(Yielding, u64)>, bytes: u64) -> Steps {
        let bytes = pace.map_or(bytes, |(_, bytes)| bytes);
        Steps { left, bytes, yielding: pace.map(|(yielding, _)| yielding) }
    }

    /// Returns whether no step is left.
    pub fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Returns all remaining bytes without yielding, for data that are already in memory.
    pub fn next_at_once(&mut self) -> (Turn, u64) {
        (Turn::Go, std::mem::take(&mut self.left))
    }

    /// Returns whether the next step may begin, and its bytes. `used` is the time of a device's last request, if any.
    pub fn next(&mut self, now: Time, used: Option<Time>) -> (Turn, u64) {
        let turn = self.yielding.as_mut().map_or(Turn::Go, |yielding| yielding.next(now, used));
        let bytes = if turn == Turn::Go { self.left.min(self.bytes) } else { 0 };
        self.left -= bytes;
        (turn, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bytes_are_copied_once_and_those_that_give_way_wait() {
        let mut plain = Steps::new(10, None, 4);
        let go = |bytes| (Turn::Go, bytes);
        let steps = std::array::from_fn(|_| plain.next(Time(5), Some(Time(5))));
        assert_eq!((steps, plain.is_done()), ([go(4), go(4), go(2)], true));
        let mut paced = Steps::new(10, Some((Yielding::new(Time(3)), 8)), 4);
        assert_eq!(paced.next(Time(5), Some(Time(4))), (Turn::Wait(Time(7)), 0));
        assert_eq!((paced.next(Time(7), Some(Time(4))), paced.next(Time(9), None)), (go(8), go(2)));
    }
}
