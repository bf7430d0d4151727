//! The on-demand read-ahead of Linux since 2.6.24: a marker on a cached page triggers the next window (section 3.4).
//!
//! ```text
//!     start                  marker            start + size
//!       |----------------------|--- async_size ----|
//!        missing here: sync      touched: async, the next window begins at start + size
//! ```
//!
//! It acts only at a missing page and at a marked one, so interleaved streams in one file each find their own marker. A
//! set trigger distance moves the marker: `async_size` is at most the distance. A page of only an upper level's
//! prefetcher fires its marker, but windows do not grow and a missing one starts nothing.

use super::context::{Ahead, Context, Verdict, state};
use super::window;
use crate::block::pages::Pages;
use crate::block::{Block, Reason};

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    start: u64,
    size: u32,
    async_size: u32,
    /// Page after the last one of the previous read; 0 before the first read.
    after_previous: u64,
}

/// Windows of all streams.
#[derive(Clone, Debug)]
pub struct OnDemand {
    max: u32,
    windows: Vec<Window>,
}

impl OnDemand {
    pub(crate) fn new(max: u32) -> OnDemand {
        OnDemand { max, windows: Vec::new() }
    }

    /// Begins a request.
    pub(crate) fn before(&mut self, context: &Context) {
        state(&mut self.windows, context, Window::default);
    }

    /// Ends a request.
    pub(crate) fn after(&mut self, context: &Context) {
        if context.any_labelled() {
            self.windows[context.stream].after_previous = context.span.end().0;
        }
    }

    /// Handles a missing page.
    pub(crate) fn missed(&mut self, pages: &Pages, block: Block, context: &Context) -> Verdict {
        if !context.labelled(block) {
            return Verdict::default();
        }
        let max = self.max;
        let window = &mut self.windows[context.stream];
        let asked = (context.span.end().0 - block.0) as u32;
        let since = (block.0 + 1).checked_sub(window.after_previous);
        if block.index() == 0 {
            window.begin(block.0, asked, max);
        } else if window.expects(block.0) {
            window.go_on(true, max);
        } else if asked > max || (window.after_previous > 0 && matches!(since, Some(0 | 1))) {
            window.begin(block.0, asked, max);
        } else {
            let history = history(pages, block, max);
            if history <= asked {
                // Random: exactly the requested pages, and the state stays.
                let ahead = Some(Ahead::new(block, asked, Reason::Missing));
                return Verdict { ahead, ..Verdict::default() };
            }
            let history = if u64::from(history) >= block.index() { history * 2 } else { history };
            window.start = block.0;
            window.size = (history + asked).min(max);
            window.async_size = 1;
        }
        Verdict { sequential: true, leave: false, ahead: Some(window.submit(block.0, max, Reason::Ahead, context)) }
    }

    /// Handles a page that is here.
    pub(crate) fn hit(&mut self, pages: &mut Pages, slot: u32, block: Block, context: &Context) -> Verdict {
        if !pages.take_trigger(slot) {
            return Verdict::default();
        }
        let (max, labelled) = (self.max, context.labelled(block));
        let window = &mut self.windows[context.stream];
        let asked = (context.span.end().0 - block.0) as u32;
        if block.index() == 0 {
            window.begin(block.0, asked, max);
        } else if window.expects(block.0) {
            window.go_on(labelled, max);
        } else {
            let absent = |n: &u64| !pages.contains(block.plus(*n));
            let Some(distance) = (1..=u64::from(max)).find(absent) else { return Verdict::default() };
            window.start = block.0 + distance;
            let size = distance as u32 + asked;
            window.size = if labelled { window::next(size, max) } else { size.min(max) };
            window.async_size = window.size;
        }
        let ahead = window.submit(block.0, max, Reason::Triggered, context);
        Verdict { sequential: true, leave: false, ahead: Some(ahead) }
    }
}

impl Window {
    fn expects(&self, at: u64) -> bool {
        let end = self.start + u64::from(self.size);
        self.size > 0 && (at == end || at + u64::from(self.async_size) == end)
    }

    fn begin(&mut self, at: u64, asked: u32, max: u32) {
        self.start = at;
        self.size = window::initial(asked, max);
        self.async_size = if self.size > asked { self.size - asked } else { self.size };
    }

    fn go_on(&mut self, grow: bool, max: u32) {
        self.start += u64::from(self.size);
        if grow {
            self.size = window::next(self.size, max);
        }
        self.async_size = self.size;
    }

    fn submit(&mut self, at: u64, max: u32, reason: Reason, context: &Context) -> Ahead {
        if at == self.start && self.size == self.async_size {
            // The read would hit its own marker.
            let more = window::next(self.size, max);
            if self.size + more <= max {
                self.async_size = more;
                self.size += more;
            } else {
                self.size = max;
                self.async_size = (max / 2).max(1);
            }
        }
        if let Some(distance) = context.distance {
            self.async_size = self.async_size.min(distance.max(1));
        }
        let mark = Block(self.start + u64::from(self.size - self.async_size));
        Ahead { mark: Some(mark), ..Ahead::new(Block(self.start), self.size, reason) }
    }
}

/// Returns the number of contiguous pages that are here and end just before `block`, at most `max`.
fn history(pages: &Pages, block: Block, max: u32) -> u32 {
    let before = u64::from(max).min(block.index());
    (1..=before).take_while(|n| pages.contains(Block(block.0 - n))).count() as u32
}
