//! The link between two levels: what a message costs, and whether messages wait for each other.
//!
//! A reply of `n` blocks takes `alpha + n * beta` (reference, section 5). A request costs nothing of its own unless told
//! so: the published `alpha` is that of an exchange. On a *shared* link one reply's `n * beta` begins when the one before is
//! through, so that bandwidth is shared first come, first served; `alpha` overlaps.

use policy::time::Time;

/// Parameters of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Part of a reply that does not depend on its size.
    pub alpha: Time,
    /// Per block.
    pub beta: Time,
    /// What a request takes on its way down.
    pub request: Time,
    /// Whether replies share the bandwidth.
    pub shared: bool,
}

impl Link {
    /// No link: levels on one machine.
    pub const NONE: Link = Link { alpha: Time::ZERO, beta: Time::ZERO, request: Time::ZERO, shared: false };
    /// The one of the PFC paper: 6 ms and 0.03 ms per page.
    pub const PUBLISHED: Link =
        Link { alpha: Time::from_millis(6), beta: Time(30_000), request: Time::ZERO, shared: false };

    /// What a reply of `blocks` takes on an idle link.
    pub fn reply(&self, blocks: u64) -> Time {
        self.alpha + Time(self.beta.0 * blocks)
    }
}

/// A link in use.
#[derive(Debug)]
pub struct Wire {
    link: Link,
    free: Time,
    /// Replies carried.
    pub replies: u64,
    /// Blocks carried.
    pub blocks: u64,
}

impl Wire {
    /// An idle link.
    pub fn new(link: Link) -> Wire {
        Wire { link, free: Time::ZERO, replies: 0, blocks: 0 }
    }

    /// When a request sent at `now` is there.
    pub fn request_at(&self, now: Time) -> Time {
        now + self.link.request
    }

    /// When a reply of `blocks` sent at `now` is there.
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
