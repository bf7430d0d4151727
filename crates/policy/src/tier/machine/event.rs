//! Events, actions and counters of the machine.

use crate::machine;
use crate::tier::{Location, Move, Region, Tier};

/// Input of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An access of `bytes`.
    Access {
        /// Location of the access.
        location: Location,
        /// Reading or writing.
        region: Region,
        /// Bytes of the access.
        bytes: u64,
        /// Whether it is the last location of its request: [`super::Window::Requests`] counts these.
        ends_request: bool,
    },
    /// A location has data now, on this tier.
    Placed {
        /// Location that was placed.
        location: Location,
        /// Tier of the location.
        tier: Tier,
    },
    /// A file is gone with all its locations.
    Removed(u64),
    /// A location became reachable or unreachable, because a target of it failed. An unreachable location is neither
    /// moved nor copied.
    Reach {
        /// Location on that target.
        location: Location,
        /// Whether all of it can be read.
        reached: bool,
    },
    /// All devices of the tier are idle.
    Idle(Tier),
    /// A device of the tier is busy.
    Busy(Tier),
    /// A move was carried out.
    Moved(Location),
    /// A move was given up, so the location stays; or a copy was given up.
    Failed(Location),
    /// A location on the fast tier has an equal copy on the slow one now.
    Copied(Location),
    /// A location has no slow copy any more.
    CopyGone(Location),
    /// Present room of the fast tier for hot data.
    FastBytes(u64),
    /// Present room of the slow tier for further copies, including copies under way.
    CopyBytes(u64),
    /// Moves are suspended by the operator, or resumed. Moves under way go on to their end.
    Paused(bool),
    /// Time has passed.
    Tick,
}

/// Output of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// Move this; answer with [`Event::Moved`] or [`Event::Failed`].
    Move(Move),
    /// Make a slow copy of this location, which stays on the fast tier; answer with [`Event::Copied`] or [`Event::Failed`].
    Copy(Location),
}

/// A line of the machine's log.
pub type Logged = machine::Logged<Event, Action>;

/// Counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Locations moved to the fast tier.
    pub promoted: u64,
    /// Locations moved to the slow tier.
    pub demoted: u64,
    /// Moves that were given up.
    pub failed: u64,
    /// Moves that were planned.
    pub planned: u64,
    /// Moves that were dropped because the next plan came first.
    pub dropped: u64,
    /// Moves that another of the same plan undid.
    pub cancelled: u64,
    /// Slow copies that were made while the devices were idle.
    pub copied: u64,
    /// Slow copies that were given up, usually because of a write.
    pub copies_failed: u64,
    /// Accesses to the fast tier.
    pub fast_accesses: u64,
    /// Total of accesses.
    pub accesses: u64,
    /// Panes that ended.
    pub panes: u64,
}
