//! The purge: removes files from scratch by rules, by age, and by space from the high mark down to the low mark.
//!
//! ```text
//!  used  100 % |
//!        high  |-----------------x  above: the files unused for longest are removed ...
//!              |                  \
//!        low   |-------------------x  ... until this is reached
//! ```
//! Four conditions keep a file whatever its age: an exception covers it; a waiting or running job needs it; its bytes
//! exist nowhere else (it was written here and this version was not staged out); or it is open or being staged. A rule
//! may remove files whose bytes exist nowhere else if it is set up for that. The driver sends `Begin`, then each file,
//! then `Scanned`. Then it carries out the removals one by one and answers each, since a file may have changed after
//! the scan. A file that could not be removed does not count, and the next one is removed instead.
//!
//! Files that a rule selects are removed first, longest unused first; space is checked after the rules.
//!
//! Source: ours; the paper leaves early removal of results to future work (Zhang, section 4.7).

use crate::glob::Glob;
use crate::machine::Machine;
use crate::time::Time;
use std::collections::VecDeque;

/// Settings of [`Purge`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Files unused for this time are removed; `None`: no removal by age.
    pub age: Option<Time>,
    /// Percentage of used space at which removal by space begins; 100: never.
    pub high_percent: u32,
    /// Percentage of used space at which removal by space ends.
    pub low_percent: u32,
    /// Paths that are never removed, with everything below them.
    pub keep: Vec<Glob>,
    /// Rules, in the order of evaluation.
    pub rules: Vec<Rule>,
}

/// A rule that selects files for removal. All given conditions must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Paths that the rule covers.
    pub path: Glob,
    /// Paths among these that it keeps, with everything below them.
    pub keep: Vec<Glob>,
    /// Least time since the last read or write.
    pub older: Option<Time>,
    /// Least time since the last write.
    pub unwritten: Option<Time>,
    /// Size in bytes that the file must exceed.
    pub larger: Option<u64>,
    /// Owners of the files, by user id.
    pub users: Option<Vec<u32>>,
    /// Groups of the files, by group id.
    pub groups: Option<Vec<u32>>,
    /// Whether files are removed whose bytes exist nowhere else, and are lost then.
    pub even_if_only_here: bool,
}

impl Rule {
    fn takes(&self, file: &Candidate, now: Time) -> bool {
        let among = |ids: &Option<Vec<u32>>, id| ids.as_ref().is_none_or(|ids| ids.contains(&id));
        (self.even_if_only_here || !file.only_here)
            && self.older.is_none_or(|span| now.since(file.used) >= span)
            && self.unwritten.is_none_or(|span| now.since(file.written) >= span)
            && self.larger.is_none_or(|bytes| file.size > bytes)
            && among(&self.users, file.uid)
            && among(&self.groups, file.gid)
            && self.path.matches(&file.path)
            && !self.keep.iter().any(|keep| keep.covers(&file.path))
    }
}

/// A scanned file. `id` is a number of the driver's choosing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The driver's number of the file.
    pub id: u64,
    /// Path relative to the mount's root.
    pub path: String,
    /// User id of its owner.
    pub uid: u32,
    /// Group id of the file.
    pub gid: u32,
    /// Length of the file in bytes.
    pub size: u64,
    /// Bytes on targets that its removal frees.
    pub bytes: u64,
    /// Time of the last read or write.
    pub used: Time,
    /// Time of the last write.
    pub written: Time,
    /// Whether no other copy of its bytes is known: neither an unmodified one at the source from which it was staged in,
    /// nor one of this version where it was staged out.
    pub only_here: bool,
    /// Whether a waiting or running job needs it.
    pub needed: bool,
    /// Whether it is open or being staged.
    pub open: bool,
}

/// A file that may be removed.
#[derive(Clone, Copy, Debug)]
struct MayGo {
    id: u64,
    size: u64,
    bytes: u64,
    used: Time,
    /// The rule that selects it.
    rule: Option<usize>,
}

/// Events of [`Purge`]: a scan of all files, and the results of removals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A scan begins.
    Begin {
        /// Bytes of all targets in use at the start.
        used: u64,
        /// Bytes that all targets have.
        total: u64,
    },
    /// A file was scanned.
    Seen(Candidate),
    /// All files were scanned.
    Scanned,
    /// A removal was carried out.
    Removed {
        /// The file of a [`Remove`].
        id: u64,
    },
    /// A file was kept: it is in use again, has changed, or could not be removed.
    Left {
        /// The file of a [`Remove`] that could not be removed.
        id: u64,
    },
}

/// Request to the driver: remove this file if it has not changed since the scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remove {
    /// The file to remove, by the driver's number.
    pub id: u64,
    /// The rule, age, or space that selected it.
    pub reason: Reason,
}

/// Reason for the removal of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A rule selects the file.
    Rule {
        /// Its number in [`Config::rules`].
        rule: usize,
        /// Time since the last use.
        unused: Time,
    },
    /// Unused for this time.
    Age(Time),
    /// Percentage of the space in use.
    Space(u32),
}

/// Counts of files and bytes of one scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Files that were scanned.
    pub seen: u64,
    /// Files kept by an exception.
    pub excepted: u64,
    /// Files kept for a job.
    pub needed: u64,
    /// Files kept because their bytes exist nowhere else.
    pub unsafe_: u64,
    /// Files kept because they are open.
    pub open: u64,
    /// Files that were removed.
    pub removed: u64,
    /// Bytes of the removed files.
    pub removed_bytes: u64,
    /// Selected files that the driver kept.
    pub left: u64,
}

/// The purge, for one scan after the other.
#[derive(Clone, Debug, Default)]
pub struct Purge {
    config: Config,
    /// In the unit of [`Candidate::used`].
    now: Time,
    used: u64,
    total: u64,
    /// Files that a rule selects, and files that may go by age or space; sorted by order of removal after `Scanned`.
    by_rule: VecDeque<MayGo>,
    may_go: VecDeque<MayGo>,
    scanned: bool,
    /// Used bytes after the removals by rule.
    used_after_rules: Option<u64>,
    /// The removal that the driver works on.
    current: Option<MayGo>,
    stats: Stats,
}

impl Purge {
    /// Makes a purge that has seen no file.
    pub fn new(config: Config) -> Purge {
        let low_percent = config.low_percent.min(config.high_percent);
        Purge { config: Config { low_percent, ..config }, ..Purge::default() }
    }

    /// Returns the counts of this scan so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Returns the number of files that may be removed so far; the driver need not keep others.
    pub fn may_go(&self) -> usize {
        self.by_rule.len() + self.may_go.len()
    }

    fn seen(&mut self, file: &Candidate) {
        self.stats.seen += 1;
        let rule = self.config.rules.iter().position(|rule| rule.takes(file, self.now));
        // The order of these checks is the order in which reports list the reasons.
        let kept = if self.config.keep.iter().any(|keep| keep.covers(&file.path)) {
            &mut self.stats.excepted
        } else if file.needed {
            &mut self.stats.needed
        } else if file.only_here && rule.is_none() {
            &mut self.stats.unsafe_
        } else if file.open {
            &mut self.stats.open
        } else {
            let Candidate { id, size, bytes, used, .. } = *file;
            let file = MayGo { id, size, bytes, used, rule };
            if rule.is_some() {
                self.by_rule.push_back(file);
            } else if self.is_old(&file) || self.is_high(self.used) {
                self.may_go.push_back(file);
            }
            return;
        };
        *kept += 1;
    }

    fn percent(&self, used: u64) -> u32 {
        (u128::from(used) * 100 / u128::from(self.total.max(1))) as u32
    }

    fn is_old(&self, file: &MayGo) -> bool {
        self.config.age.is_some_and(|age| self.now.since(file.used) >= age)
    }

    /// Whether removal by space begins at this usage.
    fn is_high(&self, used: u64) -> bool {
        self.config.high_percent < 100 && self.percent(used) >= self.config.high_percent
    }

    /// Returns the file unused for longest that is old enough, or that frees needed space.
    fn next_for_age_or_space(&mut self) -> Option<MayGo> {
        // A removal by space that began at the high mark goes on to the low mark.
        let begun_at = *self.used_after_rules.get_or_insert(self.used);
        let began_high = self.is_high(begun_at);
        while let Some(next) = self.may_go.pop_front() {
            let over = began_high && self.percent(self.used) > self.config.low_percent;
            if self.is_old(&next) || over && next.bytes > 0 {
                return Some(next);
            }
            if !over {
                self.may_go.clear(); // the rest was used later
            }
        }
        None
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
            Event::Seen(file) => self.seen(&file),
            Event::Scanned => {
                // Longest unused first; at equal times, the largest first.
                for files in [&mut self.by_rule, &mut self.may_go] {
                    files.make_contiguous().sort_by_key(|f| (f.used, u64::MAX - f.size, f.id));
                }
                self.scanned = true;
            }
            Event::Removed { id } => {
                if let Some(file) = self.current.take_if(|file| file.id == id) {
                    self.stats.removed += 1;
                    self.stats.removed_bytes += file.size;
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
        let next = self.by_rule.pop_front().or_else(|| self.next_for_age_or_space())?;
        let unused = self.now.since(next.used);
        let reason = match (next.rule, self.config.age) {
            (Some(rule), _) => Reason::Rule { rule, unused },
            (None, Some(age)) if unused >= age => Reason::Age(unused),
            _ => Reason::Space(self.percent(self.used)),
        };
        self.current = Some(next);
        Some(Remove { id: next.id, reason })
    }
}

#[cfg(test)]
mod tests;
