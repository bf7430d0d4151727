//! Marks of a block that is resident or in flight, one bit each, and SARC's run counter.

/// In flight: in no list; its node's links are the fetch and the next node of that fetch.
pub(crate) const FLYING: u32 = 1 << 0;
/// Placed by the present request.
pub const PLANNED: u32 = 1 << 1;
/// Fetched before any request.
pub(crate) const PREFETCHED: u32 = 1 << 2;
/// Requested from above.
pub(crate) const USED: u32 = 1 << 3;
/// The page is in flight and not needed here any more: its block is not in the table.
pub(crate) const DOOMED: u32 = 1 << 4;
/// Belongs to SARC's sequential list.
pub const SEQUENTIAL: u32 = 1 << 5;
/// Within the bottom of one of SARC's lists.
pub(crate) const BOTTOM: u32 = 1 << 6;
/// Touching it triggers the next prefetch.
pub const TRIGGER: u32 = 1 << 7;
/// AMP: read since its arrival.
pub const ACCESSED: u32 = 1 << 8;
/// AMP: had its second chance.
pub const OLD: u32 = 1 << 9;
/// Requested only by a prefetcher of the level above.
pub(crate) const ABOVE: u32 = 1 << 10;

const COUNT_SHIFT: u32 = 16;

/// Returns SARC's run counter of a page.
pub fn count(flags: u32) -> u8 {
    (flags >> COUNT_SHIFT) as u8
}

/// Returns the flags with another run counter.
pub fn with_count(flags: u32, count: u8) -> u32 {
    flags & !(0xff << COUNT_SHIFT) | u32::from(count) << COUNT_SHIFT
}
