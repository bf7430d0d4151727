//! One queue: its capacity, who waits (as a list through the jobs), who runs, and what the head was promised.

use super::{Charge, JobId, Queue};
use crate::time::Time;
use std::collections::BTreeMap;

/// What is left beside the blocked head of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// When the head fits, by the estimates of those that run.
    pub shadow: Time,
    /// What is free then beside the head.
    pub extra: i64,
}

/// One queue's state.
#[derive(Debug)]
pub(super) struct Line {
    pub queue: Queue,
    /// Negative while more runs than a lowered capacity allows.
    pub free: i64,
    pub head: Option<u32>,
    pub tail: Option<u32>,
    /// The first job that entered since the queue was last scheduled.
    pub fresh: Option<u32>,
    /// Who runs, by the end they estimate, and what they take.
    pub running: BTreeMap<(Time, JobId), u32>,
    /// What the last look left beside the head; `None` when something ended since.
    pub room: Option<Room>,
    /// The head and when it was first told to start.
    pub promise: Option<(JobId, Time)>,
}

impl Line {
    /// An empty queue.
    pub(super) fn new(queue: Queue) -> Line {
        Line {
            queue,
            free: i64::from(queue.capacity),
            head: None,
            tail: None,
            fresh: None,
            running: BTreeMap::new(),
            room: None,
            promise: None,
        }
    }

    /// What a job takes of the capacity.
    pub(super) fn need(&self, cores: u32) -> u32 {
        match self.queue.charge {
            Charge::Cores => cores.max(1),
            Charge::Slot => 1,
        }
    }

    /// Whether a job fits now.
    pub(super) fn fits(&self, need: u32) -> bool {
        i64::from(need) <= self.free
    }

    /// When a job that does not fit now will, and what is free beside it then. Those that run past their estimate
    /// count as ending now.
    pub(super) fn room_beside(&self, need: u32, now: Time) -> Room {
        let mut free = self.free;
        let mut shadow = now;
        for ((end, _), taken) in &self.running {
            let end = (*end).max(now);
            if free >= i64::from(need) && end > shadow {
                break; // all that end at the shadow time itself count
            }
            free += i64::from(*taken);
            shadow = end;
        }
        Room { shadow, extra: free - i64::from(need) }
    }
}
