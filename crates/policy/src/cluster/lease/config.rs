//! How long a lease lasts, and how often nodes renew theirs and look at the others'.

use crate::time::Time;

/// Spans of [`super::Membership`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// How long a lease lasts from the moment its renewal was asked for.
    pub lease: Time,
    /// From one renewal to the next.
    pub renew_every: Time,
    /// From one look at the others' lease files to the next, for one that has few lower nodes above it.
    pub look_every: Time,
    /// So many of the lowest nodes look that often. [`Config::look_every_at`] has the rest.
    pub watchers: u32,
    /// By how much one node's clock may run faster than another's, as a share.
    pub drift: f64,
}

impl Default for Config {
    /// Three renewals fit into a lease, and a takeover takes less than ten seconds; the drift is a hundred times what
    /// clocks of computers have.
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

/// Up to so many nodes each has a lease of the usual span. A guess, below what three servers of a core each renew
/// with the rest of what nodes ask of them.
const MEMBERS_USUAL: u32 = 200;
/// A lease is at most so many times the usual span. Bounded by how long a call waits for other nodes: somebody who
/// waits for one that was killed waits for its lease, the drift, and two looks.
const LONGER_MAX: f64 = 3.0;

/// No node looks more rarely. A guess: what it does not know by then nobody here waited for.
const LOOK_EVERY_MAX: Time = Time::from_secs(600);

impl Config {
    /// For a node that joins so many others: of many each renews more rarely, so that all together do not.
    #[must_use]
    pub fn beside(self, others: usize) -> Config {
        let longer = ((others + 1) as f64 / f64::from(MEMBERS_USUAL)).clamp(1.0, LONGER_MAX);
        let span = |usual: Time| Time((usual.0 as f64 * longer) as u64);
        Config { lease: span(self.lease), renew_every: span(self.renew_every), ..self }
    }

    /// From one look to the next of a node that has so many lower ones beside it. It grows with the square of the rank,
    /// so that all nodes together look at most so often as two for each watcher do, and so often as
    /// `LOOK_EVERY_MAX` has them. When the lowest `n` are gone at once, the next leads after a lease and
    /// two looks of a node of rank `n`.
    pub fn look_every_at(&self, lower: usize) -> Time {
        let turns = (lower as u64).saturating_add(1).max(u64::from(self.watchers)) as f64 / f64::from(self.watchers);
        let every = Time((self.look_every.0 as f64 * turns * turns) as u64);
        every.min(LOOK_EVERY_MAX.max(self.look_every))
    }

    /// How long a watcher waits for a lease to end on another clock.
    pub fn patience(&self, lease: Time) -> Time {
        Time((lease.0 as f64 * (1.0 + self.drift)).ceil() as u64)
    }
}
