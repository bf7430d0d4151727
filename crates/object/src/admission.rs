//! Counts the shares of a bounded resource that users hold. [`policy::shares`] decides whether a user may take more.

use parking_lot::Mutex;
use policy::shares::{Refusal, Shares, Taker};
use std::sync::Arc;

/// A bounded resource.
#[derive(Debug)]
pub struct Admission {
    shares: Mutex<Shares>,
    /// User that runs the daemon.
    own: u32,
}

/// A user's share, returned when dropped.
#[derive(Debug)]
pub struct Held {
    of: Arc<Admission>,
    uid: u32,
    n: u64,
}

impl Admission {
    /// A resource of size `limit`, of which `reserve` is for root and for the user that runs the daemon.
    pub fn new(limit: u64, reserve: u64) -> Arc<Admission> {
        let own = rustix::process::geteuid().as_raw();
        Arc::new(Admission { shares: Mutex::new(Shares::new(limit, reserve)), own })
    }

    fn taker(&self, uid: u32) -> Taker {
        Taker { uid, operator: uid == 0 || uid == self.own }
    }

    /// Takes a share of size `n` for a user.
    pub fn take(self: &Arc<Self>, uid: u32, n: u64) -> Result<Held, Refusal> {
        self.shares.lock().take(self.taker(uid), n)?;
        Ok(Held { of: self.clone(), uid, n })
    }

    /// Counts a share of size `n` for a user without a check.
    pub fn force(self: &Arc<Self>, uid: u32, n: u64) -> Held {
        self.shares.lock().force(uid, n);
        Held { of: self.clone(), uid, n }
    }

    /// Returns the sum of all shares.
    pub fn used(&self) -> u64 {
        self.shares.lock().used()
    }
}

impl Held {
    /// Returns the size of the share.
    pub fn n(&self) -> u64 {
        self.n
    }

    /// Returns the user that holds the share.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// Checks whether `more` would be admitted now.
    pub fn admits(&self, more: u64) -> Result<(), Refusal> {
        self.of.shares.lock().admits(self.of.taker(self.uid), more)
    }

    /// Changes the size of the share to `n`, if that is admitted.
    pub fn resize(&mut self, n: u64) -> Result<(), Refusal> {
        if n > self.n {
            self.of.shares.lock().take(self.of.taker(self.uid), n - self.n)?;
            self.n = n;
        } else {
            self.set(n);
        }
        Ok(())
    }

    /// Changes the size of the share to `n` without a check.
    pub fn set(&mut self, n: u64) {
        let mut shares = self.of.shares.lock();
        shares.give_back(self.uid, self.n.saturating_sub(n));
        shares.force(self.uid, n.saturating_sub(self.n));
        self.n = n;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.shares.lock().give_back(self.uid, self.n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_given_back() {
        let all = Admission::new(10, 0);
        let user = all.own + 7;
        let mut held = all.take(user, 2).unwrap();
        assert_eq!(held.resize(5), Ok(()));
        assert_eq!(held.resize(6), Err(Refusal::Share { held: 5 }));
        assert_eq!((held.admits(1), all.used()), (Err(Refusal::Share { held: 5 }), 5));
        assert_eq!(held.resize(1), Ok(()));
        held.set(9);
        assert_eq!(all.used(), 9);
        assert!(all.take(user + 1, 2).is_err());
        let forced = all.force(user + 1, 2);
        assert_eq!((forced.uid(), all.used()), (user + 1, 11));
        drop(forced);
        drop(held);
        assert_eq!(all.used(), 0);
    }
}
