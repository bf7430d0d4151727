//! What may be removed from scratch, and what of it is: by rules, by age, and by space from the high mark down to the low one.
//!
//! ```text
//!  used  100 % |
//!        high  |-----------------x  above: the files unused for longest go ...
//!              |                  \
//!        low   |-------------------x  ... until so much is left
//! ```
//! Four things keep a file whatever its age: an exception says so; a job that waits or runs needs it; its bytes are nowhere else (it
//! was written here and not, or not in this version, taken home), but for a rule that says otherwise in so many words; it is open,
//! or being staged. The driver says `Begin`, names every file, and says `Scanned`; then it carries out the removals one by one, and
//! answers each, since a file may have changed between the look and the removal. What could not be removed does not count, and the
//! next one goes instead.
//!
//! What the first rule takes goes first, longest unused first; space is looked at when the rules are done.
//!
//! Source: the issue's own; the paper leaves results that leave early to future work (Zhang, section 4.7).

use crate::glob::Glob;
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
    /// What nothing takes, and all below it.
    pub keep: Vec<Glob>,
    /// In the order in which they are asked.
    pub rules: Vec<Rule>,
}

/// What takes files that are like this. All that is given must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Their paths.
    pub path: Glob,
    /// What of these it leaves, and all below it.
    pub keep: Vec<Glob>,
    /// Neither read nor written for so long.
    pub older: Option<Time>,
    /// Not written for so long.
    pub unwritten: Option<Time>,
    /// Of more bytes.
    pub larger: Option<u64>,
    /// Of one of these users.
    pub users: Option<Vec<u32>>,
    /// Of one of these groups.
    pub groups: Option<Vec<u32>>,
    /// Also what is nowhere else: its bytes are lost then.
    pub even_if_only_here: bool,
}

impl Rule {
    fn takes(&self, file: &Candidate, now: Time) -> bool {
        let among = |ids: &Option<Vec<u32>>, id| ids.as_ref().is_none_or(|ids| ids.contains(&id));
        (self.even_if_only_here || file.elsewhere != Elsewhere::No)
            && self.older.is_none_or(|span| now.since(file.used) >= span)
            && self.unwritten.is_none_or(|span| now.since(file.written) >= span)
            && self.larger.is_none_or(|bytes| file.size > bytes)
            && among(&self.users, file.uid)
            && among(&self.groups, file.gid)
            && self.path.matches(&file.path)
            && !self.keep.iter().any(|keep| keep.covers(&file.path))
    }
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The driver's number of the file.
    pub id: u64,
    /// Its path, relative to the mount's root.
    pub path: String,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its bytes.
    pub size: u64,
    /// Bytes on targets that its removal frees.
    pub bytes: u64,
    /// When it was last read or written.
    pub used: Time,
    /// When it was last written.
    pub written: Time,
    /// Where else its bytes are.
    pub elsewhere: Elsewhere,
    /// Whether a job that waits or runs needs it.
    pub needed: bool,
    /// Whether somebody has it open, or it is being staged.
    pub open: bool,
}

/// What is remembered of one that may go.
#[derive(Clone, Copy, Debug)]
struct MayGo {
    id: u64,
    size: u64,
    bytes: u64,
    used: Time,
    /// The rule that takes it.
    rule: Option<usize>,
}

/// Events of [`Purge`]: a look over all files, and what became of the removals.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// A rule, age, or space.
    pub reason: Reason,
}

/// Why a file goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A rule takes it.
    Rule {
        /// Its number in [`Config::rules`].
        rule: usize,
        /// Unused for so long.
        unused: Time,
    },
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
    /// Kept because an exception says so.
    pub excepted: u64,
    /// Kept for a job.
    pub needed: u64,
    /// Kept because their bytes are nowhere else.
    pub unsafe_: u64,
    /// Kept because they are open.
    pub open: u64,
    /// Files removed.
    pub removed: u64,
    /// Their bytes.
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
    /// Files that a rule takes, and those that may go for age or space; after `Scanned` in the order in which they do.
    by_rule: VecDeque<MayGo>,
    may_go: VecDeque<MayGo>,
    scanned: bool,
    /// What was used when the rules were done.
    used_after_rules: Option<u64>,
    /// What the driver is at.
    current: Option<MayGo>,
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
            by_rule: VecDeque::new(),
            may_go: VecDeque::new(),
            scanned: false,
            used_after_rules: None,
            current: None,
            stats: Stats::default(),
        }
    }

    /// What this look found so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// How many files of this look may go so far; the driver need not remember others.
    pub fn may_go(&self) -> usize {
        self.by_rule.len() + self.may_go.len()
    }

    fn seen(&mut self, file: &Candidate) {
        self.stats.seen += 1;
        let rule = self.config.rules.iter().position(|rule| rule.takes(file, self.now));
        // The order of these questions is the order in which the reasons are told.
        let kept = if self.config.keep.iter().any(|keep| keep.covers(&file.path)) {
            &mut self.stats.excepted
        } else if file.needed {
            &mut self.stats.needed
        } else if file.elsewhere == Elsewhere::No && rule.is_none() {
            &mut self.stats.unsafe_
        } else if file.open {
            &mut self.stats.open
        } else {
            let Candidate { id, size, bytes, used, .. } = *file;
            let files = if rule.is_some() { &mut self.by_rule } else { &mut self.may_go };
            files.push_back(MayGo { id, size, bytes, used, rule });
            return;
        };
        *kept += 1;
    }

    fn percent(&self, used: u64) -> u32 {
        (u128::from(used) * 100 / u128::from(self.total.max(1))) as u32
    }

    /// The longest unused that is old enough, or whose bytes are wanted.
    fn next_for_age_or_space(&mut self) -> Option<MayGo> {
        // Once begun at the high mark it goes on to the low one.
        let begun_at = *self.used_after_rules.get_or_insert(self.used);
        let began_high = self.percent(begun_at) >= self.config.high_percent;
        while let Some(next) = self.may_go.pop_front() {
            let over =
                began_high && self.config.high_percent < 100 && self.percent(self.used) > self.config.low_percent;
            let is_old = self.config.age.is_some_and(|age| self.now.since(next.used) >= age);
            if is_old || over && next.bytes > 0 {
                return Some(next);
            }
            if !over {
                self.may_go.clear(); // those behind were used later still
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
                // Longest unused first; of those equal, the largest.
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

    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(id: u64, bytes: u64, used: u64) -> Candidate {
        let (path, used) = (format!("tmp/{id}"), Time::from_secs(used));
        let elsewhere = Elsewhere::Offloaded;
        let (uid, gid, size, written) = (7, 8, bytes, used);
        Candidate { id, path, uid, gid, size, bytes, used, written, elsewhere, needed: false, open: false }
    }

    fn run(config: Config, used: u64, files: &[Candidate], now: u64) -> (Vec<u64>, Stats) {
        let mut purge = Purge::new(config);
        let now = Time::from_secs(now);
        purge.handle(now, Event::Begin { used, total: 1000 });
        files.iter().for_each(|f| purge.handle(now, Event::Seen(f.clone())));
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
        Config { age: age.map(Time::from_secs), high_percent, low_percent, keep: Vec::new(), rules: Vec::new() }
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

    fn rule(path: &str) -> Rule {
        Rule {
            path: path.parse().unwrap(),
            keep: Vec::new(),
            older: None,
            unwritten: None,
            larger: None,
            users: None,
            groups: None,
            even_if_only_here: false,
        }
    }

    fn ruled(rules: Vec<Rule>) -> Config {
        Config { rules, ..by(None, 100, 80) }
    }

    #[test]
    fn a_rule_takes_what_all_it_says_holds_for() {
        let files = [
            file(1, 100, 50),
            Candidate { path: "run/x".into(), ..file(2, 100, 50) },
            file(3, 100, 60),
            Candidate { uid: 9, ..file(4, 100, 50) },
            Candidate { gid: 9, ..file(5, 100, 50) },
            file(6, 99, 50),
            Candidate { written: Time::from_secs(40), ..file(7, 100, 50) },
            Candidate { path: "tmp/keep/me".into(), ..file(8, 100, 50) },
        ];
        let all = Rule {
            keep: vec!["*/keep".parse().unwrap()],
            older: Some(Time::from_secs(50)),
            larger: Some(99),
            users: Some(vec![1, 7]),
            groups: Some(vec![8]),
            ..rule("tmp/**")
        };
        assert_eq!(run(ruled(vec![all.clone()]), 999, &files, 100).0, [1, 7]);
        let unwritten = Rule { unwritten: Some(Time::from_secs(60)), ..all };
        assert_eq!(run(ruled(vec![unwritten]), 999, &files, 100).0, [7]);
    }

    #[test]
    fn only_a_rule_that_says_so_takes_what_is_nowhere_else_and_none_what_is_kept() {
        let only_here = |id| Candidate { elsewhere: Elsewhere::No, ..file(id, 100, 1) };
        let files = [
            only_here(1),
            Candidate { needed: true, ..only_here(2) },
            Candidate { open: true, ..only_here(3) },
            Candidate { path: "tmp/keep/me".into(), ..only_here(4) },
        ];
        let (gone, stats) = run(ruled(vec![rule("tmp/**")]), 999, &files, 100);
        assert_eq!((gone, stats.unsafe_, stats.needed), (vec![], 3, 1));
        let config = ruled(vec![rule("tmp/**"), Rule { even_if_only_here: true, ..rule("**") }]);
        let config = Config { keep: vec!["tmp/keep".parse().unwrap()], ..config };
        let (gone, stats) = run(config.clone(), 999, &files, 100);
        assert_eq!((gone, stats.needed, stats.open, stats.excepted), (vec![1], 1, 1, 1));
        let mut purge = Purge::new(config);
        purge.handle(Time::ZERO, Event::Begin { used: 0, total: 1 });
        purge.handle(Time::ZERO, Event::Seen(only_here(1)));
        purge.handle(Time::ZERO, Event::Scanned);
        let reason = Reason::Rule { rule: 1, unused: Time::ZERO };
        assert_eq!(purge.poll(), Some(Remove { id: 1, reason }), "the rule that may");
    }

    #[test]
    fn what_rules_freed_is_not_freed_again_for_space() {
        let files = [file(1, 100, 3), Candidate { path: "run/x".into(), ..file(2, 100, 1) }];
        let config = Config { rules: vec![rule("tmp/**")], ..by(None, 90, 75) };
        assert_eq!(run(config.clone(), 900, &files, 100).0, [1], "the rest is below the high mark now");
        assert_eq!(run(config, 1000, &files, 100).0, [1, 2]);
        let in_its_stub = Candidate { bytes: 0, ..file(3, 10, 0) };
        assert_eq!(run(by(None, 90, 75), 900, &[in_its_stub, file(1, 150, 3)], 100).0, [1], "frees nothing there");
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
                let f = &files[*id as usize];
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
