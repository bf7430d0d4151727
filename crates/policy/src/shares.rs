//! Shares of a bounded resource: a limit for each user, so that one user at the limit leaves enough for the rest.
//!
//! ```text
//! 0            used             limit - reserve        limit
//! |--- held ---|------ free ----------|-- operator alone --|
//! ```
//! A user may take an amount that leaves at least as much free as the user then holds. This is the dynamic threshold of
//! Choudhury and Hahne (IEEE/ACM Transactions on Networking 6(2), 1998) with factor 1. One user alone gets half, two at
//! their limit a third each, and the next user always finds a part free. Only the limit itself binds the operator.

use std::collections::BTreeMap;

/// User that takes from the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taker {
    /// Numeric user id.
    pub uid: u32,
    /// Whether this is root or the user that runs the daemon: the reserve is for them.
    pub operator: bool,
}

/// Cause of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The user is at the limit of one user.
    Share {
        /// Amount that the user holds.
        held: u64,
    },
    /// The limit for users, or for the operator too, is reached.
    Full,
}

/// Limit of the resource, and the amount that each user holds.
#[derive(Clone, Debug)]
pub struct Shares {
    limit: u64,
    reserve: u64,
    used: u64,
    held: BTreeMap<u32, u64>,
}

impl Shares {
    /// A resource of `limit` in all; users leave `reserve` of it to the operator.
    pub fn new(limit: u64, reserve: u64) -> Shares {
        Shares { limit, reserve: reserve.min(limit), used: 0, held: BTreeMap::new() }
    }

    /// Amount held by all users together.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Amount that a user holds.
    pub fn held(&self, uid: u32) -> u64 {
        self.held.get(&uid).copied().unwrap_or(0)
    }

    /// Checks whether `who` may take `n` more now.
    pub fn admits(&self, who: Taker, n: u64) -> Result<(), Refusal> {
        let reserved = if who.operator { 0 } else { self.reserve };
        let left = (self.limit - reserved).checked_sub(self.used.saturating_add(n)).ok_or(Refusal::Full)?;
        let held = self.held(who.uid);
        if who.operator || held.saturating_add(n) <= left { Ok(()) } else { Err(Refusal::Share { held }) }
    }

    /// Takes `n`, if that is admitted.
    pub fn take(&mut self, who: Taker, n: u64) -> Result<(), Refusal> {
        self.admits(who, n)?;
        self.force(who.uid, n);
        Ok(())
    }

    /// Counts `n` that a user already holds, admitted or not.
    pub fn force(&mut self, uid: u32, n: u64) {
        if n > 0 {
            self.used += n;
            *self.held.entry(uid).or_default() += n;
        }
    }

    /// Releases `n` of a user's amount.
    pub fn give_back(&mut self, uid: u32, n: u64) {
        let Some(held) = self.held.get_mut(&uid) else { return };
        let n = n.min(*held);
        *held -= n;
        self.used -= n;
        if *held == 0 {
            self.held.remove(&uid);
        }
    }
}

/// Division of the daemon's file descriptors. The parts are guesses; each purpose needs a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// Directories kept open because the kernel caches them.
    pub directories: u64,
    /// Open files and directories of users, including the objects behind them.
    pub files: u64,
    /// Part of `files` that is reserved for the operator.
    pub operator: u64,
}

impl Descriptors {
    /// Divides `limit` descriptors. An eighth (at least 192) stays for the daemon itself: probes, the control socket,
    /// the state store, the mover, repair, staging.
    pub fn of(limit: u64) -> Descriptors {
        let own = (limit / 8).max(192);
        let directories = (limit / 4).max(16);
        let files = limit.saturating_sub(own + directories).max(16);
        Descriptors { directories, files, operator: files / 8 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Shares {
        /// Panics if an invariant is broken.
        fn check(&self) {
            assert_eq!(self.used, self.held.values().sum::<u64>());
            assert!(self.held.values().all(|held| *held > 0), "who holds nothing is forgotten");
        }
    }

    const ROOT: Taker = Taker { uid: 0, operator: true };

    fn user(uid: u32) -> Taker {
        Taker { uid, operator: false }
    }

    fn takes_all(shares: &mut Shares, who: Taker) -> u64 {
        while shares.take(who, 1).is_ok() {}
        shares.check();
        shares.held(who.uid)
    }

    /// [S-170]
    #[test]
    fn one_user_gets_half_and_the_next_still_finds_something() {
        let mut shares = Shares::new(64, 8);
        assert_eq!(takes_all(&mut shares, user(1)), 28, "half of what is not reserved");
        assert_eq!(shares.admits(user(1), 1), Err(Refusal::Share { held: 28 }));
        assert_eq!(takes_all(&mut shares, user(2)), 14);
        assert_eq!(takes_all(&mut shares, user(3)), 7);
        for uid in 4..100 {
            takes_all(&mut shares, user(uid));
        }
        assert!(shares.used() <= 56, "whatever users do, the reserve is left");
        assert_eq!(takes_all(&mut shares, ROOT), 64 - shares.used() + shares.held(0), "the operator gets all the rest");
        assert_eq!(shares.admits(ROOT, 1), Err(Refusal::Full));
        assert_eq!(shares.admits(user(200), 1), Err(Refusal::Full));
        shares.give_back(0, 64);
        shares.check();
        assert_eq!(shares.held(0), 0);
    }

    #[test]
    fn what_is_counted_by_force_keeps_its_holder_from_taking_more() {
        let mut shares = Shares::new(10, 0);
        shares.force(1, 12);
        assert_eq!(shares.admits(user(1), 1), Err(Refusal::Full));
        shares.give_back(1, 9);
        assert_eq!(shares.take(user(1), 2), Ok(()));
        assert_eq!(shares.take(user(1), 1), Err(Refusal::Share { held: 5 }));
        assert_eq!(shares.take(user(2), 2), Ok(()));
    }

    /// [S-171]
    #[test]
    fn the_daemon_keeps_descriptors_for_itself() {
        for limit in [512, 1024, 4096, 1 << 20] {
            let parts = Descriptors::of(limit);
            assert!(parts.files + parts.directories + 192 <= limit, "{limit}: {parts:?}");
            assert!(parts.files >= limit / 4 - 64 && parts.operator > 0, "{limit}: {parts:?}");
        }
    }

    proptest! {
        /// Tests the rule in another form: after an admitted take, at least as much is free as the taker holds.
        #[test]
        fn an_admitted_take_leaves_as_much_as_the_taker_holds(
            limit in 0u64..200, reserve in 0u64..50, steps in prop::collection::vec((0u32..4, 0u64..40, any::<bool>()), 0..200)
        ) {
            let mut shares = Shares::new(limit, reserve);
            for (uid, n, gives) in steps {
                if gives {
                    shares.give_back(uid, n);
                } else if shares.take(user(uid), n).is_ok() {
                    prop_assert!(shares.used() + shares.held(uid) + reserve.min(limit) <= limit);
                }
                shares.check();
            }
        }
    }
}
