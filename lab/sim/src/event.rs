//! The event queue of a world: a heap with a total order, so that a run never depends on chance.
//!
//! Order: (1) earlier time first; (2) at the same time by [`Rank`]: completions, timers, arrivals; (3) order of
//! insertion. So an arriving request finds the result of one that completes at the same time.

use policy::time::Time;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Kind of event, which gives the order at the same instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// An operation under way ends: a device finishes, a message is delivered.
    Completion = 0,
    /// A timer that a model has set for itself.
    Timer = 1,
    /// New work from outside.
    Arrival = 2,
}

/// Events that wait for their time.
#[derive(Debug, Default)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Entry<E>>,
    pushed: u64,
    now: Time,
}

#[derive(Debug)]
struct Entry<E> {
    at: Time,
    /// Rank in the top byte, sequence number below: one comparison covers both.
    order: u64,
    event: E,
}

impl<E> EventQueue<E> {
    /// Creates an empty queue at time zero.
    pub fn new() -> EventQueue<E> {
        EventQueue { heap: BinaryHeap::new(), pushed: 0, now: Time::ZERO }
    }

    /// Schedules `event` at `at`, which must not be in the past.
    pub fn push(&mut self, at: Time, rank: Rank, event: E) {
        assert!(at >= self.now, "an event at {at} was pushed at {}: time would run backwards", self.now);
        let order = (rank as u64) << 56 | self.pushed;
        self.pushed += 1;
        self.heap.push(Entry { at, order, event });
    }

    /// Removes the next event; the time of the world becomes its time.
    pub fn pop(&mut self) -> Option<(Time, E)> {
        let entry = self.heap.pop()?;
        self.now = entry.at;
        Some((entry.at, entry.event))
    }

    /// Sets the time for an event that was not queued; no queued event is before it.
    pub fn advance(&mut self, at: Time) {
        debug_assert!(at >= self.now && self.next_at().is_none_or(|next| next > at));
        self.now = at;
    }

    /// Returns the time of the next event.
    pub fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// Returns the time of the last event.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns whether any queued event satisfies `such`.
    pub fn any(&self, such: impl Fn(&E) -> bool) -> bool {
        self.heap.iter().any(|entry| such(&entry.event))
    }

    /// Number of queued events.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Returns whether no event is queued.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

// The heap is a maximum heap; the earliest entry is the greatest.
impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_go_before_timers_before_arrivals_then_in_order_of_pushing() {
        let mut queue = EventQueue::new();
        queue.push(Time(5), Rank::Arrival, "arrival 1");
        queue.push(Time(5), Rank::Arrival, "arrival 2");
        queue.push(Time(5), Rank::Timer, "timer");
        queue.push(Time(5), Rank::Completion, "completion");
        queue.push(Time(4), Rank::Arrival, "earlier");
        let order: Vec<_> = std::iter::from_fn(|| queue.pop().map(|(_, event)| event)).collect();
        assert_eq!(order, ["earlier", "completion", "timer", "arrival 1", "arrival 2"]);
    }

    #[test]
    #[should_panic(expected = "backwards")]
    fn the_past_cannot_be_changed() {
        let mut queue = EventQueue::new();
        queue.push(Time(5), Rank::Timer, ());
        queue.pop();
        queue.push(Time(4), Rank::Timer, ());
    }
}
