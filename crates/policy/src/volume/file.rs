//! State of one file, and the mechanism that decides on its layout.

use super::event::{Lies, Purpose};
use super::ownership::{Aspect, Mechanism, owner};
use crate::tier::Tier;

#[derive(Debug, Default)]
pub struct File {
    pub lies: Lies,
    /// Whether it is written for a checkpoint, or belongs to a complete one.
    pub checkpoint: bool,
    /// Whether it has, or will have, a replica for a job.
    pub replicated: bool,
}

impl File {
    /// Returns the mechanism that decides an aspect of it.
    pub fn owner(&self, aspect: Aspect) -> Option<Mechanism> {
        owner(aspect, |mechanism| match mechanism {
            Mechanism::Burst => self.checkpoint,
            Mechanism::Repair => self.is_damaged(),
            Mechanism::Replicas => self.is_replicated(),
            Mechanism::User => self.lies.asked_for,
            Mechanism::Tiers => !self.lies.segments.is_empty(),
            Mechanism::Stripes => !self.lies.elsewhere,
        })
    }

    pub fn is_open(&self) -> bool {
        self.lies.users > 0
    }

    /// Whether the file is unused and unclaimed by any mechanism.
    pub fn is_at_rest(&self) -> bool {
        let claimed = self.checkpoint || self.is_replicated() || self.is_damaged();
        let fast = self.lies.segments.contains(&Tier::Fast);
        !self.is_open() && !claimed && !fast && self.mirror_for(Purpose::Fork).is_none()
    }

    fn is_replicated(&self) -> bool {
        self.replicated || self.mirror_for(Purpose::Replica).is_some()
    }

    pub fn is_damaged(&self) -> bool {
        self.lies.mirrors.iter().any(|mirror| !mirror.intact)
    }

    /// Returns the number of mirrors that can be read in full.
    pub fn intact(&self) -> usize {
        self.lies.mirrors.iter().filter(|mirror| mirror.intact).count()
    }

    /// Whether that mirror can be dropped: another is intact.
    pub fn can_lose(&self, mirror: usize) -> bool {
        self.lies.mirrors.iter().enumerate().any(|(at, other)| at != mirror && other.intact)
    }

    /// Whether a mirror with that purpose can be read in full.
    pub fn has(&self, purpose: Purpose) -> bool {
        self.lies.mirrors.iter().any(|mirror| mirror.purpose == purpose && mirror.intact)
    }

    pub fn mirror_for(&self, purpose: Purpose) -> Option<usize> {
        self.lies.mirrors.iter().position(|mirror| mirror.purpose == purpose)
    }
}
