//! Over how many connections the writes of one file go, and how many share one large read: one, unless more were measured to be faster.
//!
//! Writes of one file that reach the server over several connections wait there for each other, since the server's file system
//! locks the inode for each (paper 001, figure 4.9: 11 and 50 times the waiting at four and eight connections). So a file begins with one.
//! Where the connection and not the server is the bottleneck, more are faster all the same. That is found out by trying: double the
//! width, measure, keep it if that was worth it, go back if not, and try again much later.
//!
//! ```text
//!   width 1 --measured r1--> try 2 --r2 >= 1.2 r1--> try 4 --r4 < 1.2 r2--> back to 2, rest for `rest_windows`
//! ```
//! Trying needs writes that overlap, or that are large enough to be split. Reads take no such lock, so several of them go wherever
//! there is least to do; but whether splitting one read pays depends on who is short of what, and is measured in the same way.

use crate::time::Time;

/// When to measure and what is worth it.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// A window ends after so many bytes ...
    pub window_bytes: u64,
    /// ... but takes at least this long, so that one burst decides nothing.
    pub window_min: Time,
    /// A wider step stays if its rate is at least so many times the rate before. A guess between noise and the factor of 2 hoped for.
    pub gain_min: f64,
    /// Windows to rest after a step that was not worth it.
    pub rest_windows: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config { window_bytes: 8 << 20, window_min: Time::from_millis(50), gain_min: 1.2, rest_windows: 32 }
    }
}

/// The width of one open file's writes, or of its split reads.
#[derive(Clone, Debug)]
pub struct Width {
    now: u16,
    /// While a step is being tried: the width and the rate before it.
    before: Option<(u16, f64)>,
    began: Option<Time>,
    bytes: u64,
    /// Most operations under way at once in this window.
    together: u32,
    /// Into so many parts the model would have split one.
    parts: u16,
    rest: u32,
}

impl Default for Width {
    fn default() -> Width {
        Width { now: 1, before: None, began: None, bytes: 0, together: 0, parts: 0, rest: 0 }
    }
}

impl Width {
    /// Connections that they go over now.
    pub fn get(&self) -> u16 {
        self.now
    }

    /// An operation came while `under_way` of the same file, it included, are not done; it may be split into `parts`.
    pub fn begin(&mut self, now: Time, under_way: u32, parts: u16) {
        self.began.get_or_insert(now);
        self.together = self.together.max(under_way);
        self.parts = self.parts.max(parts);
    }

    /// One is done; `all` connections can be used.
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

    /// The file was quiet: what was measured before the pause and after it says nothing about each other.
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
