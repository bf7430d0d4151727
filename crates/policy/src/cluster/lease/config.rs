//! Duration of a lease, and the intervals of renewals and listings.

use crate::time::Time;

/// Durations and limits of [`super::Membership`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Duration of a lease from the request of its renewal.
    pub lease: Time,
    /// Interval of renewals.
    pub renew_every: Time,
    /// Interval of listings for the [`Config::watchers`] lowest nodes.
    pub look_every: Time,
    /// Number of lowest nodes that list at [`Config::look_every`]; [`Config::look_every_at`] is for the rest.
    pub watchers: u32,
    /// Largest difference between the rates of two nodes' clocks, as a share.
    pub drift: f64,
}

impl Default for Config {
    /// Three renewals fit into a lease, and a takeover takes less than ten seconds. The drift is a hundred times that
    /// of computer clocks.
    fn default() -> Config {
        Config {
            lease: Time::from_secs(5),
            renew_every: Time::from_millis(1600),
            look_every: Time::from_secs(1),
            watchers: 4,
            drift: 0.01,
        }
    }
}

/// Number of nodes up to which a lease has its usual duration. A guess, below the renewals that three servers of a core
/// each bear beside the nodes' other calls.
const MEMBERS_USUAL: u32 = 200;
/// Largest lease, in usual durations. It bounds a call's wait for a killed node: that node's lease, the drift, and two
/// listings.
const LONGER_MAX: f64 = 3.0;

/// Largest interval of listings. A guess: without [`super::Event::Asked`] no caller depends on a listing.
const LOOK_EVERY_MAX: Time = Time::from_secs(600);

impl Config {
    /// Configuration for a node that joins `others` nodes: in a large cluster leases are longer and renewals rarer.
    #[must_use]
    pub fn beside(self, others: usize) -> Config {
        let longer = ((others + 1) as f64 / f64::from(MEMBERS_USUAL)).clamp(1.0, LONGER_MAX);
        let span = |usual: Time| Time((usual.0 as f64 * longer) as u64);
        Config { lease: span(self.lease), renew_every: span(self.renew_every), ..self }
    }

    /// Interval of listings for a node with `lower` lower nodes. It grows with the square of the rank. So all nodes
    /// together list at most as often as two nodes per watcher would, plus once each per `LOOK_EVERY_MAX`. If the
    /// lowest `n` nodes crash at once, the next leads after a lease and two listings of a node of rank `n`.
    pub fn look_every_at(&self, lower: usize) -> Time {
        let turns = (lower as u64).saturating_add(1).max(u64::from(self.watchers)) as f64 / f64::from(self.watchers);
        let every = Time((self.look_every.0 as f64 * turns * turns) as u64);
        every.min(LOOK_EVERY_MAX.max(self.look_every))
    }

    /// Time after which a lease has ended on any other clock.
    pub fn patience(&self, lease: Time) -> Time {
        Time((lease.0 as f64 * (1.0 + self.drift)).ceil() as u64)
    }
}
