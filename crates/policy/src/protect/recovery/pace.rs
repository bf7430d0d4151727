//! Limit on the fetches under way before an unrequested row is fetched, while readers are active.
//!
//! Fetches ahead use the source. With twelve rows under way at six rows per second, a requested row takes two seconds
//! instead of a sixth of one. So while readers are active, the limit grows as long as rows arrive within a goal, and
//! shrinks when they take longer. It approaches the number of rows that the source delivers in that time: many for a
//! fast source, few for a slow one. It is never below [`FLOOR`], which keeps the source busy between two requests.
//!
//! Without recent waits no reader can be delayed, and only the configured limits apply.
//!
//! Source: ours; additive increase and multiplicative decrease as in congestion control by delay.

use crate::time::Time;

/// Fetches that are always permitted: the next row is on its way while the last is written.
const FLOOR: usize = 2;
/// Fetches permitted before the first measurement.
const FIRST: usize = 4;
/// Time after the last blocked read for which readers count as active. A guess: longer than a program computes between
/// two reads.
const READERS_STAY: Time = Time::from_secs(10);

/// The limit, and its inputs.
#[derive(Debug, Default)]
pub(super) struct Pace {
    goal: Time,
    max: usize,
    /// Twice the limit, so that it grows by halves.
    halves: usize,
    /// Time of the last blocked read.
    read: Option<Time>,
}

impl Pace {
    /// Makes a pace for rows within `goal`, with a limit of at most `max`.
    pub(super) fn new(goal: Time, max: usize) -> Pace {
        Pace { goal, max: max.max(FLOOR), halves: 2 * FIRST.min(max.max(FLOOR)), read: None }
    }

    /// Records a blocked read.
    pub(super) fn waits(&mut self, now: Time) {
        self.read = Some(now);
    }

    /// Records a row that arrived `took` after its request, with `under_way` fetches until then.
    pub(super) fn came(&mut self, took: Time, under_way: usize) {
        if took > self.goal {
            self.halves = (self.halves * 3 / 4).max(2 * FLOOR);
        } else if under_way >= self.halves / 2 {
            self.halves = (self.halves + 1).min(2 * self.max); // an unused limit is no evidence for a larger one
        }
    }

    /// Whether an unrequested row may join the fetches under way.
    pub(super) fn allows(&self, now: Time, under_way: usize) -> bool {
        let alone = self.read.is_none_or(|read| now.since(read) >= READERS_STAY);
        alone || under_way < self.halves / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOAL: Time = Time::from_millis(500);

    /// Keeps the permitted number under way at a source with one row per `row`; returns the limit after `rows` rows.
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
