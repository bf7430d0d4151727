//! One level of a hierarchy of block caches, as a state machine: replacement, prefetcher, trigger and coordinator.
//!
//! ```text
//!             requests from above (application or upper level)          Deliver
//!                  |                                                       ^
//!                  v                                                       |
//!     coordinate: demand labels, PFC  -->  prefetch: on demand, stream      |
//!                  |  direct                     |  plan                   |
//!                  |                             v                         |
//!                  |            pages: table + slab, lists: LRU or SARC's two, DU on top
//!                  v                             v
//!             Fetch to below (next level, or a device) ---- FetchDone -----+
//! ```
//!
//! A level sees no time but the `now` of each event, and nothing of the levels above and below it. The simulator stacks
//! levels to any depth, and the live cache drives one level with the mount as its client.

mod config;
mod event;
mod flight;
mod level;
mod stats;
#[cfg(test)]
pub(crate) mod tests;

pub use crate::block::{
    Block, ConfigError, FILE_MAX, INDEX_MAX, Reason, Replacement, Request, RequestId, Setting, Span, TwoLists,
};
pub use config::LevelConfig;
pub use event::{Action, Event, Fetch, FetchId, Logged, Outcome};
pub use level::Level;
pub use stats::{Stats, StreamStats};

/// Largest number of blocks of a level: slots are numbered in 32 bits with room for marks.
pub const CAPACITY_MAX: u32 = 1 << 30;
