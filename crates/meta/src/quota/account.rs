//! One account: its usage, its limit, and the sums of its growth and shrinkage.

use policy::quota::{Both, Resource, Subject};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// Increase or decrease of bytes and files.
pub type Changed = Both<u64>;

/// Account of one subject.
pub struct Account {
    subject: Subject,
    /// False until a scan of all files has ended: before, usage counts only changes.
    is_known: AtomicBool,
    /// Negative for a moment if a removal is counted before the growth that it undoes.
    used: Both<AtomicI64>,
    most: Both<AtomicU64>,
    grown: Both<AtomicU64>,
    shrunk: Both<AtomicU64>,
}

impl Account {
    /// Account without a limit, with its usage if known.
    pub fn new(subject: Subject, used: Option<Both<u64>>) -> Account {
        let start = used.unwrap_or_default();
        Account {
            subject,
            is_known: AtomicBool::new(used.is_some()),
            used: Both::each(|resource| AtomicI64::new(i64::try_from(*start.of(resource)).unwrap_or(i64::MAX))),
            most: Both::each(|_| AtomicU64::new(u64::MAX)),
            grown: Both::each(|_| AtomicU64::new(0)),
            shrunk: Both::each(|_| AtomicU64::new(0)),
        }
    }

    /// Subject of the account.
    pub fn subject(&self) -> Subject {
        self.subject
    }

    /// Present usage, if it is known.
    pub fn used(&self) -> Option<Both<u64>> {
        let used = |resource| u64::try_from(self.used.of(resource).load(Ordering::Relaxed)).unwrap_or(0);
        self.is_known.load(Ordering::Acquire).then(|| Both::each(used))
    }

    /// Limit of the account.
    pub fn most(&self) -> Both<u64> {
        Both::each(|resource| self.most.of(resource).load(Ordering::Relaxed))
    }

    /// Sets the limit of the account.
    pub fn set_most(&self, most: Both<u64>) {
        for resource in Resource::ALL {
            self.most.of(resource).store(*most.of(resource), Ordering::Relaxed);
        }
    }

    /// Sums of all growth and all shrinkage.
    pub fn changes(&self) -> (Both<u64>, Both<u64>) {
        let read = |all: &Both<AtomicU64>| Both::each(|resource| all.of(resource).load(Ordering::Relaxed));
        (read(&self.grown), read(&self.shrunk))
    }

    /// Counts of this moment, for [`Account::correct`].
    pub fn counted(&self) -> Both<i64> {
        Both::each(|resource| self.used.of(resource).load(Ordering::Relaxed))
    }

    /// Corrects the counts of a moment after a scan: `right` maps a counted value to the right one. Changes since that
    /// moment stay counted.
    pub fn correct(&self, counted: Both<i64>, mut right: impl FnMut(Resource, Option<u64>) -> u64) {
        let is_known = self.is_known.load(Ordering::Acquire);
        for resource in Resource::ALL {
            let before = *counted.of(resource);
            let now = right(resource, is_known.then(|| u64::try_from(before).unwrap_or(0)));
            let now = i64::try_from(now).unwrap_or(i64::MAX);
            self.used.of(resource).fetch_add(now.saturating_sub(before), Ordering::Relaxed);
        }
        self.is_known.store(true, Ordering::Release);
    }

    /// Adds a change made by another node.
    pub fn add(&self, grown: Both<u64>, shrunk: Both<u64>) {
        for resource in Resource::ALL {
            let (more, less) = (*grown.of(resource), *shrunk.of(resource));
            let net = i64::try_from(i128::from(more) - i128::from(less)).unwrap_or(i64::MAX);
            self.used.of(resource).fetch_add(net, Ordering::Relaxed);
            self.grown.of(resource).fetch_add(more, Ordering::Relaxed);
            self.shrunk.of(resource).fetch_add(less, Ordering::Relaxed);
        }
    }

    /// Counts a move to another name: as growth and as shrinkage, since a running scan may see both names or none.
    pub(super) fn moves(&self, resource: Resource, amount: u64) {
        self.grown.of(resource).fetch_add(amount, Ordering::Relaxed);
        self.shrunk.of(resource).fetch_add(amount, Ordering::Relaxed);
    }

    /// Sets the usage from the sum over all nodes; `since` returns this node's changes that the sum does not include.
    pub fn set_from_sum(&self, used: Both<u64>, since: impl FnOnce(Both<u64>, Both<u64>) -> (Both<u64>, Both<u64>)) {
        let (grown, shrunk) = self.changes();
        let (grown, shrunk) = since(grown, shrunk);
        for resource in Resource::ALL {
            let now = used.of(resource).saturating_add(*grown.of(resource)).saturating_sub(*shrunk.of(resource));
            let before = self.used.of(resource).load(Ordering::Relaxed);
            let now = i64::try_from(now).unwrap_or(i64::MAX);
            self.used.of(resource).fetch_add(now.saturating_sub(before), Ordering::Relaxed);
        }
        self.is_known.store(true, Ordering::Release);
    }

    /// Charges an amount unless it exceeds the limit. An amount of zero is never refused.
    pub(super) fn take(&self, resource: Resource, more: u64) -> bool {
        if more == 0 {
            return true;
        }
        let most = self.most.of(resource).load(Ordering::Relaxed);
        let fits = |used: i64| {
            let now = u64::try_from(used).unwrap_or(0).checked_add(more)?;
            (now <= most).then(|| used.saturating_add(i64::try_from(more).unwrap_or(i64::MAX)))
        };
        let taken = self.used.of(resource).fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok();
        if taken {
            self.grown.of(resource).fetch_add(more, Ordering::Relaxed);
        }
        taken
    }

    /// Counts growth, even beyond the limit.
    pub(super) fn force(&self, resource: Resource, more: u64) {
        self.used.of(resource).fetch_add(i64::try_from(more).unwrap_or(i64::MAX), Ordering::Relaxed);
        self.grown.of(resource).fetch_add(more, Ordering::Relaxed);
    }

    /// Counts a decrease of usage.
    pub(super) fn give(&self, resource: Resource, less: u64) {
        self.used.of(resource).fetch_sub(i64::try_from(less).unwrap_or(i64::MAX), Ordering::Relaxed);
        self.shrunk.of(resource).fetch_add(less, Ordering::Relaxed);
    }
}
