//! The I/O scheduler: one application writes at a time, so that none slows another.
//!
//! Each application has a queue, served in order of arrival. A request that has waited longer than the bound goes next,
//! whatever its application. If switched off, all applications write at once.
//!
//! Source: Sung, section 5.2.1 (I/O scheduler); the reference, section 8.4.

use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Application number, assigned by the driver.
pub type App = u64;

/// Requests that write, and requests that wait.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    serialise: bool,
    waiting: BTreeMap<App, VecDeque<(Time, u64)>>,
    order: VecDeque<App>,
    writing: BTreeSet<u64>,
    current: Option<App>,
    wait_max: Option<Time>,
}

impl Turns {
    /// Makes a scheduler without requests. Without `serialise`, no request waits. `wait_max` bounds the time for which
    /// requests of the current application overtake others.
    pub fn new(serialise: bool, wait_max: Option<Time>) -> Turns {
        Turns { serialise, wait_max, ..Turns::default() }
    }

    /// Adds request `request` (unique) of an application.
    pub fn arrive(&mut self, now: Time, app: App, request: u64) {
        let queue = self.waiting.entry(app).or_default();
        if queue.is_empty() {
            self.order.push_back(app);
        }
        queue.push_back((now, request));
    }

    /// Returns the next request that may write; call until `None`.
    pub fn next(&mut self, now: Time) -> Option<(App, u64)> {
        if !self.serialise {
            let app = *self.order.front()?;
            return self.take(app);
        }
        if !self.writing.is_empty() {
            // Requests of the current application are one phase, unless another has waited too long.
            let app = self.current?;
            let other_waited = self.order.iter().filter(|other| **other != app).any(|other| self.late(now, *other));
            return if other_waited { None } else { self.take(app) };
        }
        let late = self.order.iter().copied().find(|app| self.late(now, *app));
        let app = late.or_else(|| self.order.front().copied())?;
        self.current = Some(app);
        self.take(app)
    }

    /// Removes a completed request.
    pub fn done(&mut self, request: u64) {
        self.writing.remove(&request);
        if self.writing.is_empty() {
            self.current = None;
        }
    }

    /// Removes a request that is complete or was given up.
    pub fn leave(&mut self, app: App, request: u64) {
        if let Some(queue) = self.waiting.get_mut(&app) {
            queue.retain(|(_, other)| *other != request);
            if queue.is_empty() {
                self.waiting.remove(&app);
                self.order.retain(|other| *other != app);
            }
        }
        self.done(request);
    }

    /// Returns the number of waiting requests.
    pub fn waiting(&self) -> usize {
        self.waiting.values().map(VecDeque::len).sum()
    }

    fn late(&self, now: Time, app: App) -> bool {
        let since = self.waiting.get(&app).and_then(|queue| queue.front()).map(|(since, _)| *since);
        self.wait_max.zip(since).is_some_and(|(max, since)| now.since(since) > max)
    }

    fn take(&mut self, app: App) -> Option<(App, u64)> {
        let queue = self.waiting.get_mut(&app)?;
        let (_, request) = queue.pop_front()?;
        if queue.is_empty() {
            self.waiting.remove(&app);
            self.order.retain(|other| *other != app);
        }
        self.writing.insert(request);
        Some((app, request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_application_at_a_time_in_the_order_of_arrival() {
        let mut turns = Turns::new(true, None);
        for (app, request) in [(1, 10), (2, 20), (1, 11), (3, 30)] {
            turns.arrive(Time::ZERO, app, request);
        }
        assert_eq!((turns.next(Time(1)), turns.next(Time(1))), (Some((1, 10)), Some((1, 11))), "one phase");
        assert_eq!(turns.next(Time(1)), None);
        turns.done(10);
        assert_eq!(turns.next(Time(2)), None);
        turns.done(11);
        assert_eq!((turns.next(Time(3)), turns.next(Time(3)), turns.waiting()), (Some((2, 20)), None, 1));
    }

    #[test]
    fn who_waited_too_long_is_not_passed_over() {
        let mut turns = Turns::new(true, Some(Time(10)));
        turns.arrive(Time(0), 1, 10);
        turns.arrive(Time(0), 2, 20);
        assert_eq!(turns.next(Time(0)), Some((1, 10)));
        turns.arrive(Time(5), 1, 11);
        assert_eq!(turns.next(Time(20)), None, "application 2 has waited longer than the bound");
        turns.done(10);
        assert_eq!(turns.next(Time(20)), Some((2, 20)));
    }

    #[test]
    fn without_turns_everybody_writes() {
        let mut turns = Turns::new(false, None);
        (0..3).for_each(|app| turns.arrive(Time::ZERO, app, app));
        assert_eq!((0..4).map(|_| turns.next(Time::ZERO)).filter(Option::is_some).count(), 3);
    }
}
