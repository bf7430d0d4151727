//! Room for slow copies on the targets of the slow tier: a share of each target stays free of copies.
//!
//! ```text
//!   |#### data ####|== copies ==|      room      |. stays free .|
//!   |############## data ##############|======= copies =====|...|    short: as many copies go as the share lacks
//! ```

use super::Location;

/// The space of a target of the slow tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowTarget {
    /// Size of the target.
    pub total_bytes: u64,
    /// Free bytes of the target.
    pub free_bytes: u64,
}

impl SlowTarget {
    /// Returns the bytes available for further copies if `free_percent` of the target stays free.
    pub fn room_bytes(&self, free_percent: u32) -> u64 {
        self.free_bytes.saturating_sub(self.stays_free(free_percent))
    }

    /// Returns the bytes of copies to drop so that the share is free again.
    pub fn short_bytes(&self, free_percent: u32) -> u64 {
        self.stays_free(free_percent).saturating_sub(self.free_bytes)
    }

    fn stays_free(&self, free_percent: u32) -> u64 {
        (u128::from(self.total_bytes) * u128::from(free_percent) / 100) as u64
    }
}

/// Returns the bytes of further copies that the slow tier has room for. A copy takes space on all targets of its
/// segment, so the fullest target decides, among those with room for a segment at all.
pub fn room_bytes(targets: impl IntoIterator<Item = SlowTarget>, free_percent: u32, segment_bytes: u64) -> u64 {
    let rooms = targets.into_iter().map(|target| target.room_bytes(free_percent));
    rooms.filter(|room| *room >= segment_bytes).min().unwrap_or(0)
}

/// Chooses the copies to drop on a target that lacks `short_bytes` bytes, in the given order; returns them and the
/// freed bytes. `frees` returns the bytes on the target that a copy's end frees.
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
