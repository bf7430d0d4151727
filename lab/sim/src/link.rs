//! The link between two levels: cost of a message, and sharing of the bandwidth.
//!
//! A reply of `n` blocks takes `alpha + n * beta` (reference, section 5). A request is free unless configured
//! otherwise: the published `alpha` is that of an exchange. On a *shared* link one reply's `n * beta` begins at the
//! end of the previous one, so bandwidth is first come, first served; `alpha` overlaps.

use policy::time::Time;

/// Parameters of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Fixed part of a reply's time.
    pub alpha: Time,
    /// Time per block.
    pub beta: Time,
    /// Time of a request.
    pub request: Time,
    /// Whether replies share the bandwidth.
    pub shared: bool,
}

impl Link {
    /// No link: levels on one machine.
    pub const NONE: Link = Link { alpha: Time::ZERO, beta: Time::ZERO, request: Time::ZERO, shared: false };
    /// The link of the PFC paper: 6 ms and 0.03 ms per page.
    pub const PUBLISHED: Link =
        Link { alpha: Time::from_millis(6), beta: Time(30_000), request: Time::ZERO, shared: false };

    /// Returns the time of a reply of `blocks` on an idle link.
    pub fn reply(&self, blocks: u64) -> Time {
        self.alpha + Time(self.beta.0 * blocks)
    }
}

/// A link in use.
#[derive(Debug)]
pub struct Wire {
    link: Link,
    free: Time,
    /// Number of replies.
    pub replies: u64,
    /// Blocks in the replies.
    pub blocks: u64,
}

impl Wire {
    /// Creates an idle link.
    pub fn new(link: Link) -> Wire {
        Wire { link, free: Time::ZERO, replies: 0, blocks: 0 }
    }

    /// Returns the arrival of a request sent at `now`.
    pub fn request_at(&self, now: Time) -> Time {
        now + self.link.request
    }

    /// Returns the arrival of a reply of `blocks` sent at `now`.
    pub fn reply_at(&mut self, now: Time, blocks: u64) -> Time {
        self.replies += 1;
        self.blocks += blocks;
        if !self.link.shared {
            return now + self.link.reply(blocks);
        }
        self.free = self.free.max(now) + Time(self.link.beta.0 * blocks);
        self.free + self.link.alpha
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_costs_what_the_reference_computes() {
        for (blocks, us) in [(1, 6030), (5, 6150), (8, 6240), (32, 6960), (36, 7080)] {
            assert_eq!(Link::PUBLISHED.reply(blocks), Time(us * 1000));
            assert_eq!(Wire::new(Link::PUBLISHED).reply_at(Time(7), blocks), Time(us * 1000 + 7));
        }
    }

    #[test]
    fn replies_on_a_shared_link_follow_each_other() {
        let mut wire = Wire::new(Link { shared: true, ..Link::PUBLISHED });
        assert_eq!(wire.reply_at(Time::ZERO, 10), Time(6_300_000));
        assert_eq!(wire.reply_at(Time::ZERO, 10), Time(6_600_000));
        assert_eq!(wire.reply_at(Time(10_000_000), 1), Time(16_030_000));
    }
}
