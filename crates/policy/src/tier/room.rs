//! Room for slow copies on the targets of the slow tier: a share of each stays free of them.
//!
//! ```text
//!   |#### data ####|== copies ==|      room      |. stays free .|
//!   |############## data ##############|======= copies =====|...|    short: as many copies go as the share lacks
//! ```

use super::Location;

/// The space of a target of the slow tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowTarget {
    /// All of it.
    pub total_bytes: u64,
    /// What is free.
    pub free_bytes: u64,
}

impl SlowTarget {
    /// Bytes that further copies may take where `free_percent` of the target stays free.
    pub fn room_bytes(&self, free_percent: u32) -> u64 {
        self.free_bytes.saturating_sub(self.stays_free(free_percent))
    }

    /// Bytes of copies that go, so that as much is free again.
    pub fn short_bytes(&self, free_percent: u32) -> u64 {
        self.stays_free(free_percent).saturating_sub(self.free_bytes)
    }

    fn stays_free(&self, free_percent: u32) -> u64 {
        (u128::from(self.total_bytes) * u128::from(free_percent) / 100) as u64
    }
}

/// Bytes of further copies that the slow tier has room for. A copy takes its part of as many targets as its segment, so
/// the fullest target decides, of those that have room for a segment at all.
pub fn room_bytes(targets: impl IntoIterator<Item = SlowTarget>, free_percent: u32, segment_bytes: u64) -> u64 {
    let rooms = targets.into_iter().map(|target| target.room_bytes(free_percent));
    rooms.filter(|room| *room >= segment_bytes).min().unwrap_or(0)
}

/// Of a target that is short of so many bytes: the copies that go, in the order in which they are given, and how many
/// bytes that frees. `frees` says what the end of a copy frees there.
pub fn give_up(
    copies: impl IntoIterator<Item = Location>,
    short_bytes: u64,
    frees: impl Fn(Location) -> u64,
) -> (Vec<Location>, u64) {
    let (mut go, mut freed, mut copies) = (Vec::new(), 0u64, copies.into_iter());
    while freed < short_bytes
        && let Some(location) = copies.next()
    {
        let bytes = frees(location);
        if bytes > 0 {
            freed = freed.saturating_add(bytes);
            go.push(location);
        }
    }
    (go, freed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_a_target_stays_free_and_what_it_lacks_is_what_copies_give_back() {
        let target = |free_bytes| SlowTarget { total_bytes: 1000, free_bytes };
        assert_eq!((target(70).room_bytes(5), target(70).short_bytes(5)), (20, 0));
        assert_eq!((target(50).room_bytes(5), target(50).short_bytes(5)), (0, 0));
        assert_eq!((target(20).room_bytes(5), target(20).short_bytes(5)), (0, 30));
    }

    #[test]
    fn the_fullest_target_decides_unless_it_has_no_room_at_all() {
        let targets = [300, 120, 59].map(|free_bytes| SlowTarget { total_bytes: 1000, free_bytes });
        assert_eq!(room_bytes(targets, 5, 9), 9);
        assert_eq!(room_bytes(targets, 5, 10), 70);
        assert_eq!(room_bytes(targets, 5, 251), 0);
    }
}
