//! Sensors: request rate, mean size and concurrency over a moving window, cheap enough to be always on.
//!
//! The window is a ring of panes; a request adds to the present one, and panes are emptied as time passes over them. A reading costs as many
//! additions as there are panes; a request costs two and a comparison.

use crate::time::Time;

const PANES: usize = 8;

/// Counts of one stream of requests.
#[derive(Clone, Debug)]
pub struct Sensor {
    pane: Time,
    /// Requests and bytes per pane.
    counts: [(u64, u64); PANES],
    /// Which pane the present one is, counted from the start of time.
    present: u64,
    began: Time,
    under_way: u64,
}

/// What a sensor says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// Requests per second.
    pub rate: f64,
    /// Mean bytes of a request; 0 without requests.
    pub bytes: f64,
    /// Requests under way.
    pub under_way: u64,
}

impl Sensor {
    /// A sensor whose window is `window` long (at least 8 ns).
    pub fn new(window: Time, now: Time) -> Sensor {
        let pane = Time((window.0 / PANES as u64).max(1));
        Sensor { pane, counts: [(0, 0); PANES], present: now.0 / pane.0, began: now, under_way: 0 }
    }

    /// A request begins.
    pub fn begin(&mut self, now: Time, bytes: u64) {
        self.pass(now);
        let (requests, sum) = &mut self.counts[self.present as usize % PANES];
        *requests += 1;
        *sum += bytes;
        self.under_way += 1;
    }

    /// A request ends.
    pub fn end(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// What the window holds.
    pub fn read(&mut self, now: Time) -> Reading {
        self.pass(now);
        let (requests, bytes) = self.counts.iter().fold((0, 0), |(a, b), (c, d)| (a + c, b + d));
        // The present pane is not over, and at the start there was nothing before.
        let passed = Time(now.0 % self.pane.0 + (PANES as u64 - 1) * self.pane.0);
        let span = passed.min(now.since(self.began)).as_secs_f64();
        let rate = if span > 0.0 { requests as f64 / span } else { 0.0 };
        let bytes = if requests > 0 { bytes as f64 / requests as f64 } else { 0.0 };
        Reading { rate, bytes, under_way: self.under_way }
    }

    fn pass(&mut self, now: Time) {
        let present = now.0 / self.pane.0;
        let passed = present.saturating_sub(self.present).min(PANES as u64);
        for n in 1..=passed {
            self.counts[(self.present + n) as usize % PANES] = (0, 0);
        }
        // After a long pause the ring is empty wherever it stands.
        self.present = self.present.max(present);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_even_stream_is_read_as_what_it_is() {
        let mut sensor = Sensor::new(Time::from_secs(8), Time::ZERO);
        for n in 0..2000u64 {
            sensor.begin(Time::from_millis(n * 10), 4096);
            sensor.end();
        }
        let reading = sensor.read(Time::from_millis(20_000));
        assert!((reading.rate - 100.0).abs() < 1.0, "{reading:?}");
        assert_eq!((reading.bytes, reading.under_way), (4096.0, 0));
    }

    #[test]
    fn the_start_is_not_diluted_and_a_pause_empties_the_window() {
        let mut sensor = Sensor::new(Time::from_secs(8), Time::from_secs(100));
        (0..10).for_each(|n| sensor.begin(Time::from_secs(100) + Time::from_millis(n * 100), 10));
        assert!((sensor.read(Time::from_secs(101)).rate - 10.0).abs() < 1e-9);
        assert_eq!(sensor.read(Time::from_secs(101)).under_way, 10);
        assert_eq!(sensor.read(Time::from_secs(500)).rate, 0.0);
    }
}
