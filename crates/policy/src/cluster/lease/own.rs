//! The own lease: its renewal, its end, and doubts about it.

use super::{Action, Membership, Seen};
use crate::time::Time;

/// State of the own lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnLease {
    /// The lease is not known to be lost, but may have expired.
    Held,
    /// The lease file did not have its expected name, at this time.
    Unsure(Time),
    /// The node is giving it up.
    Leaving,
    /// The number is over.
    Lost,
}

impl Membership {
    pub(super) fn renewed(&mut self, beat: u64, asked: Time) {
        if beat != self.beat + 1 {
            return;
        }
        (self.beat, self.asked, self.renewing, self.first_asked) = (beat, self.asked.max(asked), false, None);
        self.renew_at = self.asked + self.config.renew_every;
        match self.own {
            OwnLease::Unsure(_) => self.own = OwnLease::Held,
            OwnLease::Leaving => self.leave(),
            OwnLease::Held | OwnLease::Lost => {}
        }
    }

    pub(super) fn renew_later(&mut self, now: Time) {
        let answered = std::mem::take(&mut self.renewing);
        self.renew_at = now + Time(self.config.renew_every.0 / 8);
        if answered && self.own == OwnLease::Leaving {
            self.leave();
        }
    }

    pub(super) fn gone(&mut self, now: Time) {
        if self.renewing && self.own == OwnLease::Held {
            self.own = OwnLease::Unsure(now);
            self.look_at = now;
        }
        self.renew_later(now);
    }

    /// Gives the lease up at once, and the file as soon as no renewal is outstanding.
    pub(super) fn leave(&mut self) {
        self.own = OwnLease::Leaving;
        if !self.renewing {
            let (node, beat) = (self.node, Some(self.beat));
            self.actions.push_back(Action::Expel { node, beat, silent: Time::ZERO });
        }
    }

    pub(super) fn lose(&mut self) {
        if self.own != OwnLease::Lost {
            self.own = OwnLease::Lost;
            self.actions.push_back(Action::Lost);
        }
    }

    /// Decides an unsure lease: only a listing begun after the failed rename shows whether the next beat exists.
    pub(super) fn resolve(&mut self, now: Time, asked: Time, leases: &[Seen]) {
        let OwnLease::Unsure(since) = self.own else { return };
        if asked < since {
            return;
        }
        let own = leases.iter().filter(|seen| seen.node == self.node).map(|seen| seen.beat).max();
        match own {
            Some(beat) if beat == self.beat + 1 => self.renewed(beat, self.first_asked.unwrap_or(self.asked)),
            _ if now >= since + self.config.patience(self.config.lease) => self.lose(),
            _ => {}
        }
    }
}
