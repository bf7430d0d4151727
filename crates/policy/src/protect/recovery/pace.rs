//! How many fetches may be under way before one that nobody waits for is begun, while there are readers.
//!
//! What is fetched ahead takes its share of the source until it is there: twelve rows under way at a source that gives six a second
//! make a row that a reader asks for now come in two seconds, not in a sixth of one. So while readers are about, the number goes up
//! as long as rows come within a goal and down when they take longer: about as many as the source gives in that time. A fast source has many
//! under way, a slow one few, and never fewer than [`FLOOR`], which keep it busy between two questions.
//!
//! Where nothing has waited lately there is nothing to be late for, and only the limits of the configuration hold.
//!
//! Source: ours; additive increase and multiplicative decrease as in congestion control by delay.

use crate::time::Time;

/// So many are always allowed: the next row is on its way while the last is written.
const FLOOR: usize = 2;
/// Allowed at first, as long as nothing is known of the source.
const FIRST: usize = 4;
/// After the last blocked read, readers count as being there for so long. A guess: longer than a program computes between two reads.
const READERS_STAY: Time = Time::from_secs(10);

/// The number, and what it follows from.
#[derive(Debug)]
pub(super) struct Pace {
    goal: Time,
    max: usize,
    /// Twice the number, so that it grows by halves.
    halves: usize,
    /// When a read was blocked last.
    read: Option<Time>,
}

impl Pace {
    /// Rows shall come within `goal`; never are more than `max` allowed.
    pub(super) fn new(goal: Time, max: usize) -> Pace {
        Pace { goal, max: max.max(FLOOR), halves: 2 * FIRST.min(max.max(FLOOR)), read: None }
    }

    /// A read is blocked.
    pub(super) fn waits(&mut self, now: Time) {
        self.read = Some(now);
    }

    /// A row came, this long after it was asked for, with so many under way until then.
    pub(super) fn came(&mut self, took: Time, under_way: usize) {
        if took > self.goal {
            self.halves = (self.halves * 3 / 4).max(2 * FLOOR);
        } else if under_way >= self.halves / 2 {
            self.halves = (self.halves + 1).min(2 * self.max); // what was not made use of says nothing about more
        }
    }

    /// Whether one that nobody waits for may join those under way.
    pub(super) fn allows(&self, now: Time, under_way: usize) -> bool {
        let alone = self.read.is_none_or(|read| now.since(read) >= READERS_STAY);
        alone || under_way < self.halves / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOAL: Time = Time::from_millis(500);

    /// As many as are allowed are under way at a source that gives a row in `row`; how many that is after `rows` of them.
    fn settles(pace: &mut Pace, row: Time, rows: usize) -> usize {
        let allowed = |pace: &Pace| (0..100).find(|n| !pace.allows(Time::ZERO, *n)).expect("bounded");
        for _ in 0..rows {
            let under_way = allowed(pace);
            pace.came(Time(row.0 * under_way as u64), under_way);
        }
        allowed(pace)
    }

    #[test]
    fn as_many_are_under_way_as_the_source_gives_in_the_goal() {
        let mut pace = Pace::new(GOAL, 32);
        pace.waits(Time::ZERO);
        assert_eq!(settles(&mut pace, Time::from_millis(3), 100), 32, "a fast source");
        let slow = settles(&mut pace, Time::from_millis(166), 100);
        assert!((2..=4).contains(&slow), "{slow} of a slow one");
        assert_eq!(settles(&mut pace, Time::from_secs(5), 100), FLOOR, "never nothing");
        assert!(settles(&mut pace, Time::from_millis(30), 100) >= 10, "it becomes fast again");
    }

    #[test]
    fn what_is_not_made_use_of_does_not_grow() {
        let mut pace = Pace::new(GOAL, 32);
        pace.waits(Time::ZERO);
        (0..100).for_each(|_| pace.came(Time::from_millis(1), 1));
        assert!(pace.allows(Time::ZERO, FIRST - 1) && !pace.allows(Time::ZERO, FIRST));
    }

    #[test]
    fn with_nobody_waiting_it_is_not_slowed_down() {
        let mut pace = Pace::new(GOAL, 32);
        assert!(pace.allows(Time::ZERO, 31), "nobody came yet");
        pace.waits(Time::from_secs(1));
        assert!(!pace.allows(Time::from_secs(10), 31));
        assert!(pace.allows(Time::from_secs(11), 31), "nobody came for ten seconds");
    }
}
