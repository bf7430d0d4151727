//! A server that takes calls in turn.

use policy::Time;

#[derive(Clone, Debug, Default)]
pub struct Queue {
    free_at: Time,
    asked: Time,
    calls: u64,
}

impl Queue {
    /// Takes a call of this cost; returns the time of its end.
    pub fn take(&mut self, now: Time, cost: Time) -> Time {
        self.free_at = self.free_at.max(now) + cost;
        self.asked = self.asked + cost;
        self.calls += 1;
        self.free_at
    }

    /// Work requested since the last count.
    pub fn asked(&self) -> Time {
        self.asked
    }

    pub fn calls(&self) -> u64 {
        self.calls
    }

    pub fn count_anew(&mut self) {
        (self.asked, self.calls) = (Time::ZERO, 0);
    }

    /// Returns the lag of the server.
    pub fn lag(&self, now: Time) -> Time {
        self.free_at.since(now)
    }
}
