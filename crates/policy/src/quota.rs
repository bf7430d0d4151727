//! Quotas: limits on the growth of users, groups and directories, with a grace period above the soft limit.
//!
//! ```text
//! used     0 ---------------- soft ---------------- hard
//! grows    | freely            | for the grace       | never
//!                              '- from T on; after T + grace not beyond soft either, until it is back at soft or below
//! ```
//! The machine receives limits and, now and then, usage. For each subject it returns a *ceiling*: the driver refuses
//! growth beyond it, and nothing else. As in setquota(8) and the kernel's quotas, reads, overwrites, removals and
//! truncation are no growth. A subject above its ceiling may do all of them.
//!
//! The driver counts usage between two scans of all files; [`count`] reconciles both.

pub mod count;

use crate::machine::Machine;
use crate::named;
use crate::time::Time;
use std::collections::{BTreeMap, VecDeque};

/// Default grace period above a soft limit: seven days, as in setquota(8) and `lfs setquota`.
pub const GRACE: Time = Time::from_secs(7 * 86_400);

/// Owner of a set of limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The owner of files, by user id.
    User(u32),
    /// The group of files, by group id.
    Group(u32),
    /// A directory tree, by a number that the driver assigned.
    Directory(u64),
}

named! {
    /// Resources that have limits.
    #[derive(PartialOrd, Ord)]
    Resource {
        /// The lengths of files.
        Bytes = "bytes",
        /// Files, directories and all other inodes.
        Files = "files",
    }
}

/// One value for each resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Both<T> {
    /// The value for bytes.
    pub bytes: T,
    /// The value for files.
    pub files: T,
}

impl<T> Both<T> {
    /// Returns the value of one resource.
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

    /// Makes one value for each resource.
    pub fn each(mut make: impl FnMut(Resource) -> T) -> Both<T> {
        Both { bytes: make(Resource::Bytes), files: make(Resource::Files) }
    }
}

/// The limits of one resource; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// Limit that may be exceeded during the grace period.
    pub soft: Option<u64>,
    /// Limit that is never exceeded.
    pub hard: Option<u64>,
}

/// The limits of one subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Limits of bytes and of files.
    pub of: Both<Limit>,
    /// Grace period above a soft limit.
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

    /// Checks that no soft limit is above its hard limit.
    ///
    /// # Errors
    /// The resource whose soft limit would never be exceeded.
    pub fn check(&self) -> Result<(), Resource> {
        let wrong = |limit: &Limit| limit.soft.zip(limit.hard).is_some_and(|(soft, hard)| soft > hard);
        Resource::ALL.iter().find(|resource| wrong(self.of.of(**resource))).map_or(Ok(()), |resource| Err(*resource))
    }
}

/// State of a subject towards a soft limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// At or below the soft limit; also without a limit, or with unknown usage.
    #[default]
    Within,
    /// Above the soft limit, within the grace period.
    Over {
        /// Time at which the limit was exceeded.
        since: Time,
        /// End of the grace period.
        until: Time,
    },
    /// Above the soft limit for longer than the grace period.
    Expired {
        /// Time at which the limit was exceeded.
        since: Time,
    },
}

impl Standing {
    /// Returns the time at which the limit was exceeded, if it is.
    pub fn since(self) -> Option<Time> {
        match self {
            Standing::Within => None,
            Standing::Over { since, .. } | Standing::Expired { since } => Some(since),
        }
    }
}

/// Events that drivers report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The limits of a subject. `since` is the saved time at which a soft limit was exceeded; the machine's own time
    /// takes precedence.
    Limited {
        /// The limited subject.
        subject: Subject,
        /// All its limits.
        limits: Limits,
        /// Saved time at which each soft limit was exceeded.
        since: Both<Option<Time>>,
    },
    /// The limits of a subject were removed.
    Unlimited(Subject),
    /// Usage of a subject.
    Used {
        /// The subject measured.
        subject: Subject,
        /// Usage of each resource.
        used: Both<u64>,
    },
}

/// Actions that the driver carries out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Refuse growth beyond this from now on; [`u64::MAX`] is no ceiling.
    Ceiling {
        /// The limited subject.
        subject: Subject,
        /// Ceilings of bytes and of files.
        most: Both<u64>,
    },
    /// The standing of a subject changed: report it, and save it for restarts.
    Stands {
        /// The subject whose standing changed.
        subject: Subject,
        /// The resource whose limit matters.
        resource: Resource,
        /// The new standing.
        standing: Standing,
        /// The soft limit; 0 if it was removed.
        soft: u64,
        /// Current usage of the resource.
        used: u64,
    },
}

#[derive(Clone, Debug, Default)]
struct Account {
    limits: Limits,
    /// Usage; while it is unknown, nothing is refused.
    used: Option<Both<u64>>,
    standing: Both<Standing>,
    most: Option<Both<u64>>,
}

/// The quota machine of a volume.
#[derive(Clone, Debug, Default)]
pub struct Quota {
    now: Time,
    accounts: BTreeMap<Subject, Account>,
    actions: VecDeque<Action>,
}

impl Quota {
    /// Returns the standing of a subject; `Within` if it has no limits.
    pub fn standing(&self, subject: Subject) -> Both<Standing> {
        self.accounts.get(&subject).map_or_else(Both::default, |account| account.standing)
    }

    /// Whether the usage of a subject is known, so that its limits apply.
    pub fn is_known(&self, subject: Subject) -> bool {
        self.accounts.get(&subject).is_some_and(|account| account.used.is_some())
    }

    /// Returns the limits of a subject, if it has any.
    pub fn limits(&self, subject: Subject) -> Option<Limits> {
        self.accounts.get(&subject).map(|account| account.limits)
    }

    /// Counts subjects above a soft limit, and those of them with an expired grace period, over both resources.
    pub fn over(&self) -> (usize, usize) {
        let any = |is: fn(&Standing) -> bool| {
            let has = |account: &&Account| Resource::ALL.iter().any(|r| is(account.standing.of(*r)));
            self.accounts.values().filter(has).count()
        };
        (any(|standing| *standing != Standing::Within), any(|standing| matches!(standing, Standing::Expired { .. })))
    }

    /// Recomputes standing and ceiling of a subject, and queues the changes.
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
                    // A saved time in the future is from a clock that was ahead.
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
        }
    }

    fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }
}

#[cfg(test)]
mod tests;
