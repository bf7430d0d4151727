//! Answer of `events.show`.

use engine::events::Event;
use serde::{Deserialize, Serialize};

/// A line of progress, and the last line.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EventLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<Event>,
    /// Number of events that were lost before this line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<u64>,
    /// Resume point: the daemon, by its start in milliseconds since 1970, and the number of the last event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<(u64, u64)>,
}
