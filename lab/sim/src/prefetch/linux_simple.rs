//! The "Linux" of the paper's simulator: groups that double while reads stay within the last two (section 3.2).
//!
//! ```text
//!        previous group        current group            next group, twice as long
//!     |-------------------|---------------------|-----------------------------------------|
//!      read here: nothing    read here: fetch it
//! ```
//!
//! Readings. A-05: only touching the current group prefetches, else every access doubles without bound. A group is the
//! prefetched blocks, so groups are 3, 6, 12, 24, 32. With `incl_demand` the first counts the requested block, and they
//! are 4, 8, 16, 32.
//!
//! A request of several blocks touches the current group if its last block is in it or beyond (section 1, rule 3). The
//! next group begins after the group or the request, whichever ends later. A request of only an upper level's
//! prefetcher fires, but groups do not grow, and outside the window it changes nothing.

use policy::cache::{Block, Reason};
use policy::prefetch::{Ahead, Context, state};

/// First block, and the one after the last.
type Group = (u64, u64);

#[derive(Clone, Copy, Debug)]
struct Window {
    previous: Group,
    current: Group,
}

const NONE: Group = (0, 0);

/// Groups of all streams.
#[derive(Clone, Debug)]
pub struct LinuxSimple {
    min: u32,
    max: u32,
    incl_demand: bool,
    windows: Vec<Window>,
}

impl LinuxSimple {
    pub(crate) fn new(min: u32, max: u32, incl_demand: bool) -> LinuxSimple {
        LinuxSimple { min, max, incl_demand, windows: Vec::new() }
    }

    /// Returns the prefetch after this request.
    pub(crate) fn before(&mut self, context: &Context) -> Option<Ahead> {
        let (first, end) = (context.span.first.0, context.span.end().0);
        let window = state(&mut self.windows, context, || Window { previous: NONE, current: NONE });
        let within = |group: Group| group.0 <= first && first < group.1;
        let labelled = context.any_labelled();
        if !within(window.previous) && !within(window.current) {
            if !labelled {
                return None;
            }
            let from = if self.incl_demand { end - 1 } else { end };
            *window = Window { previous: NONE, current: (from, end + u64::from(self.min)) };
            return Some(Ahead::new(Block(end), self.min, Reason::Ahead));
        }
        if end <= window.current.0 {
            return None;
        }
        let size = (window.current.1 - window.current.0) as u32;
        let size = if labelled { (2 * size).min(self.max) } else { size };
        let from = window.current.1.max(end);
        window.previous = window.current;
        window.current = (from, from + u64::from(size));
        Some(Ahead::new(Block(from), size, Reason::Triggered))
    }
}
