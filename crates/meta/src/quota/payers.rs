//! Accounts that one file is charged to: all of them are charged, or none.

use super::account::{Account, Changed};
use object::error::Refused;
use policy::quota::{Resource, Subject};
use std::sync::Arc;

/// Accounts that pay for a file.
#[derive(Clone, Default)]
pub struct Payers {
    accounts: Option<Arc<[Arc<Account>]>>,
    /// A limited directory that may be above the file, whose path is unknown: growth is refused.
    perhaps: Option<Subject>,
}

impl Payers {
    pub(super) fn of(accounts: Vec<Arc<Account>>) -> Payers {
        Payers { accounts: (!accounts.is_empty()).then(|| accounts.into()), perhaps: None }
    }

    pub(super) fn and_perhaps(self, directory: Option<Subject>) -> Payers {
        Payers { perhaps: directory, ..self }
    }

    fn all(&self) -> &[Arc<Account>] {
        self.accounts.as_deref().unwrap_or_default()
    }

    /// Whether the file has no account, and so no limit.
    pub fn is_empty(&self) -> bool {
        self.all().is_empty() && self.perhaps.is_none()
    }

    fn is_same(&self, other: &Payers) -> bool {
        self.perhaps == other.perhaps
            && self.all().len() == other.all().len()
            && self.all().iter().zip(other.all()).all(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// Calls `act` for each account.
    pub fn each(&self, act: impl FnMut(&Arc<Account>)) {
        self.all().iter().for_each(act);
    }

    /// Fails for any growth if a limited directory may be above the file.
    fn admit_there(&self, more: Changed) -> Result<(), Refused> {
        let wanted = Resource::ALL.into_iter().find(|resource| *more.of(*resource) > 0);
        match self.perhaps.zip(wanted) {
            Some((subject, resource)) => Err(Refused { subject, resource, used: 0, most: 0 }),
            None => Ok(()),
        }
    }

    /// Whether `more` fits within all limits now.
    pub fn admit(&self, more: Changed) -> Result<(), Refused> {
        self.admit_there(more)?;
        let fits = |account: &Account, resource| {
            let (more, most) = (*more.of(resource), *account.most().of(resource));
            let used = account.used().map_or(0, |used| *used.of(resource));
            let fits = more == 0 || used.checked_add(more).is_some_and(|now| now <= most);
            if fits { Ok(()) } else { Err(Refused { subject: account.subject(), resource, used, most }) }
        };
        self.all().iter().try_for_each(|account| Resource::ALL.iter().try_for_each(|of| fits(account, *of)))
    }

    /// Charges `more` to all accounts, or to none.
    pub(super) fn take(&self, more: Changed) -> Result<(), Refused> {
        self.admit_there(more)?;
        let wanted = self.all().iter().flat_map(|account| Resource::ALL.map(|resource| (account, resource)));
        for (at, (account, resource)) in wanted.clone().enumerate() {
            if !account.take(resource, *more.of(resource)) {
                wanted.take(at).for_each(|(account, resource)| account.give(resource, *more.of(resource)));
                let (used, most) = (account.used().map_or(0, |used| *used.of(resource)), *account.most().of(resource));
                return Err(Refused { subject: account.subject(), resource, used, most });
            }
        }
        Ok(())
    }

    /// Adds growth to all accounts, even beyond the limits.
    pub fn force(&self, more: Changed) {
        self.each(|account| Resource::ALL.iter().for_each(|of| account.force(*of, *more.of(*of))));
    }

    /// Counts a file that gets another name, or loses one and stays open. The usage stays.
    pub fn moves(&self, all: Changed) {
        self.each(|account| Resource::ALL.iter().for_each(|of| account.moves(*of, *all.of(*of))));
    }

    /// Subtracts removed bytes and files from all.
    pub fn give(&self, less: Changed) {
        self.each(|account| Resource::ALL.iter().for_each(|of| account.give(*of, *less.of(*of))));
    }
}

/// Reservation for a file that does not exist yet; given back when dropped.
pub struct Reserved {
    payers: Payers,
    more: Changed,
}

impl Reserved {
    pub(super) fn new(payers: Payers, more: Changed) -> Reserved {
        Reserved { payers, more }
    }

    /// Keeps the reservation: the file exists and the expected accounts pay for it.
    pub fn keep_all(mut self) {
        self.payers = Payers::default();
    }

    /// Keeps the reservation for a created file, and moves it to `payers` if other accounts pay than expected.
    pub fn keep(mut self, payers: Payers) {
        let thought = std::mem::take(&mut self.payers);
        if !thought.is_same(&payers) {
            payers.force(self.more);
            thought.give(self.more);
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.payers.give(self.more);
    }
}
