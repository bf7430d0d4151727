//! What may be removed from scratch, and what of it is: by age, and by space from the high mark down to the low one.
//!
//! ```text
//!  used  100 % |
//!        high  |-----------------x  above: the files unused for longest go ...
//!              |                  \
//!        low   |-------------------x  ... until so much is left
//! ```
//! Three things keep a file whatever its age: a job that waits or runs needs it; its bytes are nowhere else (it was
//! written here and not, or not in this version, taken home); somebody has it open. The driver says `Begin`, names
//! every file, and says `Scanned`; then it carries out the removals one by one, and answers each, since a file may have
//! changed between the look and the removal. What could not be removed does not count, and the next one goes instead.
//!
//! Source: the issue's own; the paper leaves results that leave early to future work (Zhang, section 4.7).

use crate::machine::Machine;
use crate::time::Time;
use std::collections::VecDeque;

/// Settings of [`Purge`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Unused for so long, a file goes; `None`: none by age.
    pub age: Option<Time>,
    /// Percent of the space from which on files go; 100: none for space.
    pub high_percent: u32,
    /// Percent of the space at which that ends.
    pub low_percent: u32,
}

/// Where else the bytes of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elsewhere {
    /// Nowhere, as far as one knows.
    No,
    /// At the source that it was staged in from, and it was not modified since.
    Source,
    /// Where it was staged out to, in this version.
    Offloaded,
}

/// A file that was looked at. `id` is a number of the driver's choosing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The driver's number of the file.
    pub id: u64,
    /// Bytes that its removal frees.
    pub bytes: u64,
    /// When it was last read or written.
    pub used: Time,
    /// Where else its bytes are.
    pub elsewhere: Elsewhere,
    /// Whether a job that waits or runs needs it.
    pub needed: bool,
    /// Whether somebody has it open.
    pub open: bool,
}

/// Events of [`Purge`]: a look over all files, and what became of the removals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A look begins; so many bytes are used of so many.
    Begin {
        /// Bytes of all targets in use at the start.
        used: u64,
        /// Bytes that all targets have.
        total: u64,
    },
    /// A file was looked at.
    Seen(Candidate),
    /// All files were looked at.
    Scanned,
    /// A removal was carried out.
    Removed {
        /// The file of a [`Remove`].
        id: u64,
    },
    /// It was left: it is in use again, has changed, or could not be removed.
    Left {
        /// The file of a [`Remove`] that could not be removed.
        id: u64,
    },
}

/// What the driver has to do: remove this file, if it still is what was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remove {
    /// The file to remove, by the driver's number.
    pub id: u64,
    /// Age, or space.
    pub reason: Reason,
}

/// Why a file goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Unused for so long.
    Age(Time),
    /// So many percent of the space are used.
    Space(u32),
}

/// What a look found; files and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Files looked at.
    pub seen: u64,
    /// Kept for a job.
    pub needed: u64,
    /// Kept because their bytes are nowhere else.
    pub unsafe_: u64,
    /// Kept because they are open.
    pub open: u64,
    /// Files removed.
    pub removed: u64,
    /// Bytes removed.
    pub removed_bytes: u64,
    /// To be removed, and left by the driver.
    pub left: u64,
}

/// One look after the other.
#[derive(Clone, Debug)]
pub struct Purge {
    config: Config,
    /// In the unit of [`Candidate::used`].
    now: Time,
    used: u64,
    total: u64,
    /// Files that may go; after `Scanned` in the order in which they do.
    may_go: VecDeque<Candidate>,
    scanned: bool,
    /// What the driver is at.
    current: Option<Candidate>,
    stats: Stats,
}

impl Purge {
    /// Nothing seen yet.
    pub fn new(config: Config) -> Purge {
        let low_percent = config.low_percent.min(config.high_percent);
        Purge {
            config: Config { low_percent, ..config },
            now: Time::ZERO,
            used: 0,
            total: 0,
            may_go: VecDeque::new(),
            scanned: false,
            current: None,
            stats: Stats::default(),
        }
    }

    /// What this look found so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }
}

impl Machine for Purge {
    type Event = Event;
    type Action = Remove;

    fn handle(&mut self, now: Time, event: Event) {
        self.now = now;
        match event {
            Event::Begin { used, total } => {
                *self = Purge { now, used, total, ..Purge::new(self.config.clone()) };
            }
            Event::Seen(file) => {
                self.stats.seen += 1;
                // The order of these questions is the order in which the reasons are told.
                let kept = if file.needed {
                    &mut self.stats.needed
                } else if file.elsewhere == Elsewhere::No {
                    &mut self.stats.unsafe_
                } else if file.open {
                    &mut self.stats.open
                } else {
                    self.may_go.push_back(file);
                    return;
                };
                *kept += 1;
            }
            Event::Scanned => {
                // Longest unused first; of those equal, the largest.
                self.may_go.make_contiguous().sort_by_key(|f| (f.used, u64::MAX - f.bytes, f.id));
                self.scanned = true;
            }
            Event::Removed { id } => {
                if let Some(file) = self.current.take_if(|file| file.id == id) {
                    self.stats.removed += 1;
                    self.stats.removed_bytes += file.bytes;
                    self.used = self.used.saturating_sub(file.bytes);
                }
            }
            Event::Left { id } => {
                if self.current.take_if(|file| file.id == id).is_some() {
                    self.stats.left += 1;
                }
            }
        }
    }

    fn poll(&mut self) -> Option<Remove> {
        if !self.scanned || self.current.is_some() {
            return None;
        }
        let next = *self.may_go.front()?;
        let unused = self.now.since(next.used);
        let percent = |used: u64| (u128::from(used) * 100 / u128::from(self.total.max(1))) as u32;
        // Once begun at the high mark it goes on to the low one.
        let began_high = percent(self.used + self.stats.removed_bytes) >= self.config.high_percent;
        let over = self.config.high_percent < 100 && began_high && percent(self.used) > self.config.low_percent;
        let reason = match self.config.age {
            Some(age) if unused >= age => Reason::Age(unused),
            _ if over => Reason::Space(percent(self.used)),
            _ => return None, // those behind were used later still
        };
        self.may_go.pop_front();
        self.current = Some(next);
        Some(Remove { id: next.id, reason })
    }

    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(id: u64, bytes: u64, used: u64) -> Candidate {
        let elsewhere = Elsewhere::Offloaded;
        Candidate { id, bytes, used: Time::from_secs(used), elsewhere, needed: false, open: false }
    }

    fn run(config: Config, used: u64, files: &[Candidate], now: u64) -> (Vec<u64>, Stats) {
        let mut purge = Purge::new(config);
        let now = Time::from_secs(now);
        purge.handle(now, Event::Begin { used, total: 1000 });
        files.iter().for_each(|f| purge.handle(now, Event::Seen(*f)));
        assert_eq!(purge.poll(), None, "not before all are seen");
        purge.handle(now, Event::Scanned);
        let mut gone = Vec::new();
        while let Some(remove) = purge.poll() {
            assert_eq!(purge.poll(), None, "one at a time");
            gone.push(remove.id);
            purge.handle(now, Event::Removed { id: remove.id });
        }
        (gone, purge.stats())
    }

    fn by(age: Option<u64>, high_percent: u32, low_percent: u32) -> Config {
        Config { age: age.map(Time::from_secs), high_percent, low_percent }
    }

    #[test]
    fn by_age_those_unused_for_long_enough() {
        let files = [file(1, 10, 50), file(2, 10, 10), file(3, 10, 90)];
        assert_eq!(run(by(Some(50), 100, 80), 999, &files, 100).0, [2, 1]);
        assert!(run(by(None, 100, 80), 1000, &files, 100).0.is_empty(), "100 percent is never");
    }

    #[test]
    fn for_space_the_longest_unused_until_the_low_mark() {
        let files = [file(1, 100, 3), file(2, 100, 1), file(3, 100, 2), file(4, 100, 4)];
        assert_eq!(run(by(None, 90, 75), 900, &files, 100).0, [2, 3]);
        assert!(run(by(None, 90, 75), 899, &files, 100).0.is_empty(), "below the high mark");
    }

    #[test]
    fn what_is_needed_unsafe_or_open_stays() {
        let files = [
            Candidate { needed: true, ..file(1, 100, 1) },
            Candidate { elsewhere: Elsewhere::No, ..file(2, 100, 1) },
            Candidate { open: true, ..file(3, 100, 1) },
            Candidate { elsewhere: Elsewhere::Source, ..file(4, 100, 1) },
        ];
        let (gone, stats) = run(by(Some(1), 10, 0), 1000, &files, 100);
        assert_eq!(gone, [4]);
        assert_eq!((stats.needed, stats.unsafe_, stats.open, stats.removed_bytes), (1, 1, 1, 100));
    }

    #[test]
    fn what_the_driver_left_frees_nothing() {
        let mut purge = Purge::new(by(None, 90, 75));
        purge.handle(Time::ZERO, Event::Begin { used: 900, total: 1000 });
        for id in 1..=3 {
            purge.handle(Time::ZERO, Event::Seen(file(id, 150, id)));
        }
        purge.handle(Time::ZERO, Event::Scanned);
        assert_eq!(purge.poll(), Some(Remove { id: 1, reason: Reason::Space(90) }));
        purge.handle(Time::ZERO, Event::Left { id: 1 });
        assert_eq!(purge.poll(), Some(Remove { id: 2, reason: Reason::Space(90) }));
        purge.handle(Time::ZERO, Event::Removed { id: 2 });
        assert_eq!(purge.poll(), None);
    }

    proptest! {
        #[test]
        fn never_what_must_stay_and_no_more_than_is_needed(
            files in prop::collection::vec((0u64..200, 0u64..100, 0u8..3, any::<bool>(), any::<bool>()), 0..40),
            (used, age, high, low) in (0u64..1000, prop::option::of(0u64..100), 1u32..=100, 0u32..=100),
        ) {
            let elsewhere = [Elsewhere::No, Elsewhere::Source, Elsewhere::Offloaded];
            let files: Vec<Candidate> = files.into_iter().enumerate().map(|(id, (bytes, at, e, needed, open))| {
                Candidate { elsewhere: elsewhere[usize::from(e)], needed, open, ..file(id as u64, bytes, at) }
            }).collect();
            let (gone, stats) = run(by(age, high, low), used, &files, 100);
            for id in &gone {
                let f = files[*id as usize];
                prop_assert!(!f.needed && !f.open && f.elsewhere != Elsewhere::No);
            }
            if age.is_none() && (high == 100 || used * 100 / 1000 < u64::from(high)) {
                prop_assert!(gone.is_empty());
            }
            // Without the last one it would not have been enough.
            if let (None, Some(last)) = (age, gone.last()) {
                let before = used.saturating_sub(stats.removed_bytes - files[*last as usize].bytes);
                prop_assert!(before * 100 / 1000 > u64::from(low.min(high)));
            }
        }
    }
}
