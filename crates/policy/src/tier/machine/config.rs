//! How the machine is set up.

use crate::tier::cost::Costs;
use crate::tier::reorganize::Thresholds;
use crate::tier::tuned;
use crate::time::Time;

/// How long the window is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// So many requests.
    Requests(u64),
    /// A span of time.
    Span(Time),
}

/// Who plans the moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Planner {
    /// The paper's Algorithm 2.
    WsRos(Thresholds),
    /// What was accessed most often so far, without a window.
    Frequency,
    /// Ours.
    Tuned(tuned::Config),
}

/// Parameters of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The sliding window.
    pub window: Window,
    /// Panes of the window; the planner runs at the end of each. 1 for the paper's algorithm; the tuned planner needs 2
    /// at least.
    pub panes: usize,
    /// Locations that are remembered per region.
    pub locations_max: usize,
    /// Bytes of a location.
    pub block_bytes: u64,
    /// Bytes of the fast tier that hot data may take.
    pub fast_bytes: u64,
    /// The devices.
    pub costs: Costs,
    /// Who plans.
    pub planner: Planner,
    /// How long both tiers must have been idle before something is moved.
    pub idle: Time,
    /// Bytes moved per second of idleness; `None` is as fast as it goes.
    pub idle_bytes_per_s: Option<u64>,
    /// Bytes moved per second while the devices are busy; 0 waits for idleness.
    pub busy_bytes_per_s: u64,
    /// Moves under way at a time.
    pub moves_max: usize,
    /// What is promoted keeps its slow copy until it is written, so that demoting it costs nothing.
    pub keep_copies: bool,
    /// A location on the fast tier without a slow copy gets one while the devices are idle, when it was not accessed
    /// for this long. `None` makes no such copies.
    pub copy_after: Option<Time>,
    /// Promote at the access, while the bytes are at hand (the tuned planner).
    pub on_access: bool,
}

impl Default for Config {
    /// The tuned planner over the paper's devices, 64 KiB locations, a window of ten thousand requests.
    fn default() -> Config {
        Config {
            window: Window::Requests(10_000),
            panes: 4,
            locations_max: 1 << 20,
            block_bytes: 64 << 10,
            fast_bytes: 256_000_000_000,
            costs: Costs::default(),
            planner: Planner::Tuned(tuned::Config::default()),
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
