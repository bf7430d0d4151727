//! Chooses the number of connections for a file's writes or a split read: one, unless more were measured to be faster.
//!
//! Writes of one file over several connections wait for each other at the server: its file system locks the inode for
//! each. The waiting is 11 and 50 times as long at four and eight connections (paper 001, figure 4.9). So a file begins
//! with one. Where the connection is the bottleneck and not the server, more are faster all the same. Trials decide:
//! double the width, measure, keep it if that pays, otherwise go back and try again much later.
//!
//! ```text
//!   width 1 --measured r1--> try 2 --r2 >= 1.2 r1--> try 4 --r4 < 1.2 r2--> back to 2, rest for `rest_windows`
//! ```
//! A trial needs writes that overlap, or that are large enough to be split. Reads take no such lock, so several of them
//! go to the least loaded connections. Whether splitting one read pays depends on the bottleneck, and is measured in
//! the same way.

use crate::time::Time;

/// Limits of measurements and trials.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Bytes after which a window ends.
    pub window_bytes: u64,
    /// Shortest window, so that one burst decides nothing.
    pub window_min: Time,
    /// Gain in rate that keeps a wider step. A guess between noise and the hoped-for factor of 2.
    pub gain_min: f64,
    /// Windows to rest after a step that did not pay.
    pub rest_windows: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config { window_bytes: 8 << 20, window_min: Time::from_millis(50), gain_min: 1.2, rest_windows: 32 }
    }
}

/// Width of one open file's writes, or of its split reads.
#[derive(Clone, Debug)]
pub struct Width {
    now: u16,
    /// Width and rate before the step being tried.
    before: Option<(u16, f64)>,
    began: Option<Time>,
    bytes: u64,
    /// Largest number of operations under way at once in this window.
    together: u32,
    /// Largest number of parts that one operation could be split into.
    parts: u16,
    rest: u32,
}

impl Default for Width {
    fn default() -> Width {
        Width { now: 1, before: None, began: None, bytes: 0, together: 0, parts: 0, rest: 0 }
    }
}

impl Width {
    /// Number of connections to use now.
    pub fn get(&self) -> u16 {
        self.now
    }

    /// Begins an operation that could be split into `parts`, as one of `under_way` on the file.
    pub fn begin(&mut self, now: Time, under_way: u32, parts: u16) {
        self.began.get_or_insert(now);
        self.together = self.together.max(under_way);
        self.parts = self.parts.max(parts);
    }

    /// Ends an operation; `all` connections are usable.
    pub fn done(&mut self, now: Time, bytes: u64, all: u16, config: &Config) {
        self.bytes += bytes;
        let Some(began) = self.began else { return };
        let span = now.since(began);
        if self.bytes < config.window_bytes || span < config.window_min {
            return;
        }
        let rate = self.bytes as f64 / span.as_secs_f64().max(1e-9);
        let overlapping = self.together > u32::from(self.now) || self.parts > self.now;
        (self.began, self.bytes, self.together, self.parts) = (Some(now), 0, 0, 0);
        self.step(rate, overlapping, all, config);
    }

    /// Discards the window: rates before and after a pause are not comparable.
    pub fn pause(&mut self) {
        (self.began, self.bytes, self.together, self.parts) = (None, 0, 0, 0);
    }

    fn step(&mut self, rate: f64, overlapping: bool, all: u16, config: &Config) {
        if let Some((width, rate_before)) = self.before.take()
            && rate < config.gain_min * rate_before
        {
            self.now = width;
            self.rest = config.rest_windows;
            return;
        }
        if self.rest > 0 {
            self.rest -= 1;
        } else if overlapping && self.now < all {
            self.before = Some((self.now, rate));
            self.now = (self.now * 2).min(all);
        }
    }
}
