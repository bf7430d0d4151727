//! Queue for a target's workers: in order of arrival, but awaited work before prefetches (`policy::precedence`).

use super::pool::Work;
use policy::Time;
use policy::precedence::{Class, Precedence};
use std::collections::VecDeque;
use std::sync::Arc;

/// The two queues.
#[derive(Default)]
pub struct Lines {
    awaited: VecDeque<Arc<dyn Work>>,
    prefetches: VecDeque<(Time, Arc<dyn Work>)>,
    precedence: Precedence,
}

impl Lines {
    pub fn len(&self) -> usize {
        self.awaited.len() + self.prefetches.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends work to the queue of its class.
    pub fn push(&mut self, now: Time, work: Arc<dyn Work>, class: Class) {
        match class {
            Class::Awaited => self.awaited.push_back(work),
            Class::Prefetch => self.prefetches.push_back((now, work)),
        }
    }

    /// Removes the newest work of a class.
    pub fn unpush(&mut self, class: Class) {
        match class {
            Class::Awaited => drop(self.awaited.pop_back()),
            Class::Prefetch => drop(self.prefetches.pop_back()),
        }
    }

    /// Removes the next work.
    pub fn pop(&mut self, now: Time) -> Option<Arc<dyn Work>> {
        let awaited = !self.awaited.is_empty();
        let oldest_prefetch = self.prefetches.front().map(|&(since, _)| since);
        // The position of the device is unknown here.
        let turn = self.precedence.next(now, awaited, oldest_prefetch, None);
        let work = match turn.class() {
            Class::Awaited => self.awaited.pop_front(),
            Class::Prefetch => self.prefetches.pop_front().map(|(_, work)| work),
        }?;
        self.precedence.went(turn, awaited);
        Some(work)
    }

    /// Moves `work` from the prefetches to the awaited work. Returns whether it was still queued.
    pub fn raise(&mut self, work: &Arc<dyn Work>) -> bool {
        let same = |other: &Arc<dyn Work>| Arc::as_ptr(other).addr() == Arc::as_ptr(work).addr();
        let Some(at) = self.prefetches.iter().position(|(_, other)| same(other)) else { return false };
        let raised = self.prefetches.remove(at).map(|(_, work)| work);
        self.awaited.extend(raised);
        true
    }

    /// Removes all work.
    pub fn drain(&mut self) -> Vec<Arc<dyn Work>> {
        let prefetches = self.prefetches.drain(..).map(|(_, work)| work);
        self.awaited.drain(..).chain(prefetches).collect()
    }
}
