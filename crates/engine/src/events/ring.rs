//! The newest events, bounded in number and bytes.

use super::Event;
use std::collections::VecDeque;
use std::sync::Arc;

pub struct Ring {
    events: VecDeque<Arc<Event>>,
    events_max: usize,
    bytes: usize,
    bytes_max: usize,
}

impl Ring {
    pub fn new(events_max: usize, bytes_max: usize) -> Ring {
        Ring { events: VecDeque::new(), events_max, bytes: 0, bytes_max }
    }

    /// Adds an event; the oldest ones make room.
    pub fn push(&mut self, event: Arc<Event>) {
        self.bytes += event.bytes();
        self.events.push_back(event);
        while self.events.len() > self.events_max || self.bytes > self.bytes_max {
            let Some(oldest) = self.events.pop_front() else { return };
            self.bytes -= oldest.bytes();
        }
    }

    /// Events, newest first.
    pub fn newest(&self) -> impl Iterator<Item = &Arc<Event>> {
        self.events.iter().rev()
    }

    /// The oldest events after that number; `max + 1` of them show that there are more than `max`.
    pub fn after(&self, number: u64, max: usize) -> VecDeque<Arc<Event>> {
        let from = self.events.partition_point(|event| event.number <= number);
        self.events.range(from..).take(max.saturating_add(1)).cloned().collect()
    }
}
