//! The marks on a block that is resident or on the way, one bit each, and the run counter of SARC.

/// On the way: in no list; its node's links are the fetch and the next node of that fetch.
pub(crate) const FLYING: u32 = 1 << 0;
/// Placed by the request that is being taken apart.
pub(crate) const PLANNED: u32 = 1 << 1;
/// Came unasked.
pub(crate) const PREFETCHED: u32 = 1 << 2;
/// Asked for from above.
pub(crate) const USED: u32 = 1 << 3;
/// On the way and no longer wanted here: its block is not in the table.
pub(crate) const DOOMED: u32 = 1 << 4;
/// Belongs to SARC's sequential list.
pub(crate) const SEQUENTIAL: u32 = 1 << 5;
/// Within the bottom of one of SARC's lists.
pub(crate) const BOTTOM: u32 = 1 << 6;
/// Touching it triggers the next prefetch.
pub(crate) const TRIGGER: u32 = 1 << 7;
/// AMP: read since it came.
pub(crate) const ACCESSED: u32 = 1 << 8;
/// AMP: had its second chance.
pub(crate) const OLD: u32 = 1 << 9;
/// Only a prefetcher of the level above has asked for it.
pub(crate) const ABOVE: u32 = 1 << 10;

const COUNT_SHIFT: u32 = 16;

/// SARC's run counter of a page.
pub(crate) fn count(flags: u32) -> u8 {
    (flags >> COUNT_SHIFT) as u8
}

/// The flags with another run counter.
pub(crate) fn with_count(flags: u32, count: u8) -> u32 {
    flags & !(0xff << COUNT_SHIFT) | u32::from(count) << COUNT_SHIFT
}
