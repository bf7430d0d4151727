//! One queue: its capacity, its waiting and running jobs, and the promise to the head.

use super::running::Running;
use super::waiting::Waiting;
use super::{Charge, JobId, Queue};
use crate::time::Time;

/// Capacity left beside the blocked head of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    /// Time at which the head fits, by the estimates of running jobs.
    pub shadow: Time,
    /// Capacity that is free beside the head at that time.
    pub extra: i64,
}

/// One queue's state.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub queue: Queue,
    /// Free capacity; negative while jobs use more than a lowered capacity allows.
    pub free: i64,
    pub waiting: Waiting,
    /// The place of the first job that entered since the queue was last scheduled.
    pub fresh: Option<u64>,
    pub running: Running,
    /// Room beside the head at the last scan; `None` when a job ended since.
    pub room: Option<Room>,
    /// The head with the first start promised to it.
    pub promise: Option<(JobId, Time)>,
}

impl Line {
    /// An empty queue.
    pub(super) fn new(queue: Queue) -> Line {
        Line { queue, free: i64::from(queue.capacity), ..Line::default() }
    }

    /// Share of the capacity that a job takes.
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

    /// Time at which a job that does not fit now will, and the capacity free beside it then. Jobs that run past their
    /// estimate count as ending now.
    pub(super) fn room_beside(&self, need: u32, now: Time) -> Room {
        let need = i64::from(need);
        let (shadow, freed) = self.running.frees(need - self.free, now);
        Room { shadow, extra: self.free + freed - need }
    }
}
