//! Settings of the machine.

use crate::tier::cost::Costs;
use crate::tier::reorganize::Thresholds;
use crate::tier::table::PANES_MAX;
use crate::time::Time;

/// Length of the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// Requests of applications; one that touches several locations counts once.
    Requests(u64),
    /// Span of time.
    Span(Time),
}

/// Algorithm that plans the moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Planner {
    /// The paper's Algorithm 2.
    WsRos(Thresholds),
    /// Locations with most accesses so far, without a window.
    Frequency,
    /// Our planner: expected gain against cost.
    Tuned,
}

impl Planner {
    /// Returns the panes of the window; the planner runs at the end of each. The paper's window has one.
    pub(super) fn panes(&self) -> usize {
        if matches!(self, Planner::Tuned) { PANES_MAX } else { 1 }
    }
}

/// Parameters of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The sliding window.
    pub window: Window,
    /// Most locations with statistics per region.
    pub locations_max: usize,
    /// Bytes of a location.
    pub block_bytes: u64,
    /// Bytes of the fast tier that hot data may take.
    pub fast_bytes: u64,
    /// Costs of the devices.
    pub costs: Costs,
    /// Algorithm that plans the moves.
    pub planner: Planner,
    /// Idle time of both tiers before a move begins.
    pub idle: Time,
    /// Bytes moved per second of idleness; `None`: at full speed.
    pub idle_bytes_per_s: Option<u64>,
    /// Bytes moved per second while the devices are busy; 0 waits for idleness.
    pub busy_bytes_per_s: u64,
    /// Moves under way at a time.
    pub moves_max: usize,
    /// Whether a promoted location keeps its slow copy until it is written, so that demoting it costs nothing.
    pub keep_copies: bool,
    /// Time without access after which a location on the fast tier gets a slow copy, made while the devices are idle.
    /// `None`: no such copies.
    pub copy_after: Option<Time>,
    /// Whether locations are promoted at the access, while their bytes are in memory (the tuned planner).
    pub on_access: bool,
}

impl Default for Config {
    /// The tuned planner over the paper's devices, 64 KiB locations, a window of ten thousand requests.
    fn default() -> Config {
        Config {
            window: Window::Requests(10_000),
            locations_max: 1 << 20,
            block_bytes: 64 << 10,
            fast_bytes: 256_000_000_000,
            costs: Costs::default(),
            planner: Planner::Tuned,
            idle: Time::from_millis(100),
            idle_bytes_per_s: None,
            busy_bytes_per_s: 0,
            moves_max: 1,
            keep_copies: false,
            copy_after: Some(Time::from_secs(10)),
            on_access: false,
        }
    }
}
