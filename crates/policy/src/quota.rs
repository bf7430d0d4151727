//! Quotas: up to where a user, a group or a directory may grow, and since when one is over its soft limit.
//!
//! ```text
//! used     0 ---------------- soft ---------------- hard
//! grows    | freely            | for the grace       | never
//!                              '- from T on; after T + grace not beyond soft either, until it is back at soft or below
//! ```
//! The machine hears limits, and now and then what is used. For each subject it gives a *ceiling*: whoever counts refuses
//! what would grow beyond it, and nothing else. As setquota(8) and the kernel's quotas have it: reads, overwrites, removals
//! and truncation are no growth, and one who is above a ceiling only may not grow.
//!
//! What is used is counted by the driver between two looks at all files; [`count`] brings both together.

pub mod count;

use crate::machine::Machine;
use crate::time::Time;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// How long one may be over a soft limit where nobody says otherwise: seven days, as setquota(8) and `lfs setquota` have it.
pub const GRACE: Time = Time::from_secs(7 * 86_400);

/// What has limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The owner of files, by user id.
    User(u32),
    /// The group of files, by group id.
    Group(u32),
    /// All below a directory, by a number that the driver gave it.
    Directory(u64),
}

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// The lengths of files.
    Bytes,
    /// Files, directories and whatever else has an inode.
    Files,
}

impl Resource {
    /// Both.
    pub const ALL: [Resource; 2] = [Resource::Bytes, Resource::Files];
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Resource::Bytes => "bytes",
            Resource::Files => "files",
        })
    }
}

/// One value for each resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Both<T> {
    /// For bytes.
    pub bytes: T,
    /// For files.
    pub files: T,
}

impl<T> Both<T> {
    /// That of one resource.
    pub fn of(&self, resource: Resource) -> &T {
        match resource {
            Resource::Bytes => &self.bytes,
            Resource::Files => &self.files,
        }
    }

    fn of_mut(&mut self, resource: Resource) -> &mut T {
        match resource {
            Resource::Bytes => &mut self.bytes,
            Resource::Files => &mut self.files,
        }
    }

    /// One made for each resource.
    pub fn each(mut make: impl FnMut(Resource) -> T) -> Both<T> {
        Both { bytes: make(Resource::Bytes), files: make(Resource::Files) }
    }
}

/// The limits of one resource; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// May be passed for the grace.
    pub soft: Option<u64>,
    /// Is never passed.
    pub hard: Option<u64>,
}

/// The limits of one subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of bytes and of files.
    pub of: Both<Limit>,
    /// How long one may be over a soft limit.
    pub grace: Time,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { of: Both::default(), grace: GRACE }
    }
}

impl Limits {
    /// Whether anything is limited at all.
    pub fn is_any(&self) -> bool {
        Resource::ALL.iter().any(|resource| *self.of.of(*resource) != Limit::default())
    }

    /// # Errors
    /// A soft limit above the hard one would never be passed.
    pub fn check(&self) -> Result<(), Resource> {
        let wrong = |limit: &Limit| limit.soft.zip(limit.hard).is_some_and(|(soft, hard)| soft > hard);
        Resource::ALL.iter().find(|resource| wrong(self.of.of(**resource))).map_or(Ok(()), |resource| Err(*resource))
    }
}

/// How a subject stands with a soft limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// At or below it, or there is none, or nobody knows what is used.
    #[default]
    Within,
    /// Over it, and may grow until then.
    Over {
        /// Since when.
        since: Time,
        /// Until when it may.
        until: Time,
    },
    /// Over it for longer than the grace.
    Expired {
        /// Since when it is over.
        since: Time,
    },
}

impl Standing {
    /// Since when it is over, if it is.
    pub fn since(self) -> Option<Time> {
        match self {
            Standing::Within => None,
            Standing::Over { since, .. } | Standing::Expired { since } => Some(since),
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A subject has these limits now. `since` says since when it is over a soft one, as was remembered: it counts unless the
    /// machine knows better.
    Limited {
        /// Which.
        subject: Subject,
        /// All of them.
        limits: Limits,
        /// Since when it is over.
        since: Both<Option<Time>>,
    },
    /// A subject has no limits any more.
    Unlimited(Subject),
    /// So much is used.
    Used {
        /// By which.
        subject: Subject,
        /// How much.
        used: Both<u64>,
    },
    /// Time went by.
    Tick,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// From now on what would grow beyond this is refused; [`u64::MAX`] is no ceiling.
    Ceiling {
        /// Of which.
        subject: Subject,
        /// Of bytes and of files.
        most: Both<u64>,
    },
    /// It stands otherwise than before: to be told, and remembered over restarts.
    Stands {
        /// Which.
        subject: Subject,
        /// With what.
        resource: Resource,
        /// How.
        standing: Standing,
        /// The soft limit that it is about; 0 where there is none any more.
        soft: u64,
        /// What is used.
        used: u64,
    },
}

#[derive(Clone, Debug, Default)]
struct Account {
    limits: Limits,
    /// As long as nobody knows what is used, nothing is refused.
    used: Option<Both<u64>>,
    standing: Both<Standing>,
    most: Option<Both<u64>>,
}

/// The machine.
#[derive(Clone, Debug, Default)]
pub struct Quota {
    now: Time,
    accounts: BTreeMap<Subject, Account>,
    actions: VecDeque<Action>,
}

impl Quota {
    /// How a subject stands; within, if it has no limits.
    pub fn standing(&self, subject: Subject) -> Both<Standing> {
        self.accounts.get(&subject).map_or_else(Both::default, |account| account.standing)
    }

    /// Whether it is known what a subject has, so that its limits hold.
    pub fn is_known(&self, subject: Subject) -> bool {
        self.accounts.get(&subject).is_some_and(|account| account.used.is_some())
    }

    /// What has limits.
    pub fn subjects(&self) -> impl Iterator<Item = Subject> + '_ {
        self.accounts.keys().copied()
    }

    /// The limits of a subject, if it has any.
    pub fn limits(&self, subject: Subject) -> Option<Limits> {
        self.accounts.get(&subject).map(|account| account.limits)
    }

    /// Whether more than a soft limit is used, and whether the grace is over, of whichever resource.
    pub fn over(&self) -> (usize, usize) {
        let any = |is: fn(&Standing) -> bool| {
            let has = |account: &&Account| Resource::ALL.iter().any(|r| is(account.standing.of(*r)));
            self.accounts.values().filter(has).count()
        };
        (any(|standing| *standing != Standing::Within), any(|standing| matches!(standing, Standing::Expired { .. })))
    }

    /// Looks at one subject anew.
    fn judge(&mut self, subject: Subject) {
        let now = self.now;
        let Some(account) = self.accounts.get_mut(&subject) else { return };
        let Some(used) = account.used else { return };
        for resource in Resource::ALL {
            let (limit, used) = (account.limits.of.of(resource), *used.of(resource));
            let is_over = limit.soft.is_some_and(|soft| used > soft);
            let since = is_over.then(|| account.standing.of(resource).since().unwrap_or(now));
            let standing = match since {
                None => Standing::Within,
                Some(since) if since + account.limits.grace <= now => Standing::Expired { since },
                Some(since) => Standing::Over { since, until: since + account.limits.grace },
            };
            let before = std::mem::replace(account.standing.of_mut(resource), standing);
            if before != standing {
                let soft = limit.soft.unwrap_or(0);
                self.actions.push_back(Action::Stands { subject, resource, standing, soft, used });
            }
        }
        let most = account.ceiling();
        if account.most.replace(most) != Some(most) {
            self.actions.push_back(Action::Ceiling { subject, most });
        }
    }

    /// What must always hold.
    pub fn check(&self) {
        for account in self.accounts.values() {
            let Some(used) = account.used else { continue };
            for resource in Resource::ALL {
                let (limit, standing) = (account.limits.of.of(resource), account.standing.of(resource));
                let is_over = limit.soft.is_some_and(|soft| *used.of(resource) > soft);
                assert_eq!(is_over, standing.since().is_some(), "{resource}: {account:?}");
                let hard = limit.hard.unwrap_or(u64::MAX);
                assert!(*account.ceiling().of(resource) <= hard, "{resource}: {account:?}");
            }
        }
    }
}

impl Account {
    fn ceiling(&self) -> Both<u64> {
        Both::each(|resource| {
            let Limit { soft, hard } = *self.limits.of.of(resource);
            let soft = soft.filter(|_| matches!(self.standing.of(resource), Standing::Expired { .. }));
            soft.into_iter().chain(hard).min().unwrap_or(u64::MAX)
        })
    }
}

impl Machine for Quota {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Time, event: Event) {
        self.now = self.now.max(now);
        match event {
            Event::Limited { subject, limits, since } => {
                let account = self.accounts.entry(subject).or_default();
                account.limits = limits;
                for resource in Resource::ALL {
                    let known = account.standing.of(resource).since();
                    // From a clock that was ahead: it can't be over since a time to come.
                    if let Some(since) = known.or(since.of(resource).map(|since| since.min(self.now))) {
                        *account.standing.of_mut(resource) = Standing::Over { since, until: since + limits.grace };
                    }
                }
                self.judge(subject);
            }
            Event::Unlimited(subject) => {
                self.accounts.remove(&subject);
            }
            Event::Used { subject, used } => {
                if let Some(account) = self.accounts.get_mut(&subject) {
                    account.used = Some(used);
                }
                self.judge(subject);
            }
            Event::Tick => {
                for subject in self.accounts.keys().copied().collect::<Vec<_>>() {
                    self.judge(subject);
                }
            }
        }
    }

    fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn next_deadline(&self) -> Option<Time> {
        let until = |standing: &Standing| match standing {
            Standing::Over { until, .. } => Some(*until),
            Standing::Within | Standing::Expired { .. } => None,
        };
        let of = |account: &Account| Resource::ALL.iter().filter_map(|r| until(account.standing.of(*r))).min();
        self.accounts.values().filter_map(of).min()
    }
}

#[cfg(test)]
mod tests;
