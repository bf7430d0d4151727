//! The two windows of Linux 2.6.18 per open file (section 3.3).
//!
//! ```text
//!      start          start + size = astart             astart + asize
//!        |-- current window --|------- ahead window -------|
//!               ^ prev              reading here makes it the current one and opens the next
//! ```
//!
//! With a separate trigger distance `T`, the next window opens when at most `T` blocks of the ahead window are left.
//! The last block inspected counts among them. The kernel's own `T` is the ahead window's size; 24-48 is this machine
//! with `T` = 24, `P` = 48. A request of only an upper level's prefetcher moves the windows and fires, but windows do
//! not grow. Out of sequence it changes nothing.

use policy::cache::{Block, Reason};
use policy::prefetch::window;
use policy::prefetch::{Ahead, Context, state};

/// Consecutive hits after which read-ahead is switched off.
const HITS_MAX: u32 = 256;

#[derive(Clone, Copy, Debug, Default)]
struct Windows {
    /// Page after the last one inspected.
    next: u64,
    start: u64,
    /// 0: no window.
    size: u32,
    /// Start of the ahead window; `None`: no such window, and `ahead_end` is the end of the last one.
    ahead_start: Option<u64>,
    ahead_end: u64,
    miss: bool,
    in_cache: bool,
    hits: u32,
}

/// Windows of all streams.
#[derive(Clone, Debug)]
pub struct Linux2618 {
    min: u32,
    max: u32,
    windows: Vec<Windows>,
}

/// One call of the kernel's function.
struct Call<'a, C> {
    limits: (u32, u32),
    labelled: bool,
    distance: Option<u32>,
    cached: C,
    out: &'a mut Vec<Ahead>,
}

impl Linux2618 {
    pub(crate) fn new(min: u32, max: u32) -> Linux2618 {
        Linux2618 { min, max, windows: Vec::new() }
    }

    /// Adds the prefetches around this request; where the kernel submits both together, spans include the requested
    /// blocks.
    pub(crate) fn before(&mut self, context: &Context, cached: impl Fn(Block) -> bool, out: &mut Vec<Ahead>) {
        let (limits, span) = ((self.min, self.max), context.span);
        let windows = state(&mut self.windows, context, || Windows::new(span.first));
        let labelled = context.any_labelled();
        if !labelled && (windows.size == 0 || span.first.0 != windows.next) {
            return;
        }
        let mut call = Call { limits, labelled, distance: context.distance, cached: &cached, out: &mut *out };
        let (mut at, end) = (span.first.0, span.end().0);
        while at < end {
            at = windows.call(at, (end - at) as u32, &mut call).max(at + 1);
        }
        let gone = |block: &Block| !cached(*block) && !out.iter().any(|ahead| ahead.span.contains(*block));
        if span.blocks().any(|block| gone(&block)) {
            windows.page_cache_miss();
        }
    }
}

impl Windows {
    /// State at open: the next page is the file's first.
    fn new(first: Block) -> Windows {
        Windows { next: Block::new(first.file(), 0).0, ..Windows::default() }
    }

    /// The kernel's `page_cache_readahead`. Returns the page after those inspected.
    fn call<C: Fn(Block) -> bool>(&mut self, mut at: u64, mut asked: u32, call: &mut Call<'_, C>) -> u64 {
        let (_, max) = call.limits;
        if at + 1 == self.next {
            asked -= 1;
            at += u64::from(asked > 0);
        }
        let sequential = at == self.next;
        self.next = at + 1;
        let len = asked.min(max);
        if len == 0 || self.in_cache {
            return self.next;
        }
        self.next = at + u64::from(len);
        if !sequential {
            self.close();
            self.submit(at, len, Reason::Missing, call);
        } else if self.size == 0 {
            self.size = window::initial(len, max);
            self.start = at;
            if self.submit(at, self.size, Reason::Ahead, call) && asked >= max {
                self.open_ahead(true, call);
            }
        } else {
            self.advance(call);
        }
        self.next
    }

    /// Handles a sequential read with an open window.
    fn advance<C: Fn(Block) -> bool>(&mut self, call: &mut Call<'_, C>) {
        if self.ahead_start.is_none() && !self.open_ahead(false, call) {
            self.next = self.next.min(self.ahead_end);
            return;
        }
        let Some(start) = self.ahead_start else { return };
        let size = self.ahead_end - start;
        let distance = call.distance.map_or(size, |distance| u64::from(distance.max(1)).min(size));
        if self.next - 1 + distance >= self.ahead_end {
            self.start = start;
            self.size = size as u32;
            self.open_ahead(false, call);
            self.next = self.next.min(self.ahead_end);
        }
    }

    fn open_ahead<C: Fn(Block) -> bool>(&mut self, force: bool, call: &mut Call<'_, C>) -> bool {
        let (min, max) = call.limits;
        let size = match (self.miss, call.labelled) {
            (true, _) => shrunk(self.size, min, max),
            (false, true) => window::next(self.size, max),
            (false, false) => self.size,
        };
        self.miss = false;
        let start = self.start + u64::from(self.size);
        self.ahead_start = Some(start);
        self.ahead_end = start + u64::from(size);
        let submitted = self.submit(start, size, Reason::Triggered, call);
        if !submitted && !force {
            self.ahead_start = None;
        }
        submitted
    }

    /// Reads the absent pages. Returns false if there were none for so many pages that read-ahead is switched off.
    fn submit<C: Fn(Block) -> bool>(&mut self, at: u64, len: u32, reason: Reason, call: &mut Call<'_, C>) -> bool {
        if (at..at + u64::from(len)).any(|page| !(call.cached)(Block(page))) {
            self.hits = 0;
            call.out.push(Ahead::new(Block(at), len, reason));
            return true;
        }
        self.hits += len;
        if self.hits < HITS_MAX {
            return true;
        }
        self.close();
        self.in_cache = true;
        false
    }

    fn close(&mut self) {
        self.start = 0;
        self.size = 0;
        self.miss = false;
        self.in_cache = false;
        self.ahead_start = None;
    }

    /// Records that a page fetched by read-ahead was evicted before its use.
    fn page_cache_miss(&mut self) {
        self.miss = true;
        self.in_cache = false;
        self.hits = 0;
    }
}

/// Returns the window after one of `size` blocks whose pages were evicted before they were read.
fn shrunk(size: u32, min: u32, max: u32) -> u32 {
    size.saturating_sub(2).max(min).min(max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::cache::Span;
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    struct Machine {
        linux: Linux2618,
        cache: RefCell<BTreeSet<u64>>,
        distance: Option<u32>,
        begun: bool,
    }

    impl Machine {
        fn new(max: u32) -> Machine {
            Machine { linux: Linux2618::new(4, max), cache: RefCell::default(), distance: None, begun: false }
        }

        /// Pages that a read submits, absent ones only, as (start, length).
        fn read(&mut self, at: u64, len: u32) -> Vec<(u64, u32)> {
            let span = Span::new(0, at, len);
            let labelled_end = span.end();
            let context = Context { span, labelled_end, stream: 0, fresh: !self.begun, distance: self.distance };
            self.begun = true;
            let mut out = Vec::new();
            self.linux.before(&context, |block| self.cache.borrow().contains(&block.0), &mut out);
            let mut cache = self.cache.borrow_mut();
            let mut submitted = Vec::new();
            for ahead in out {
                let absent: Vec<u64> = ahead.span.blocks().map(|b| b.0).filter(|b| cache.insert(*b)).collect();
                submitted.push((absent[0], absent.len() as u32));
            }
            cache.extend(span.blocks().map(|b| b.0));
            submitted
        }
    }

    #[test]
    fn one_page_reads_open_windows_of_4_8_16_32() {
        let mut machine = Machine::new(32);
        let issued: Vec<_> = (0..64).flat_map(|at| machine.read(at, 1).into_iter().map(move |io| (at, io))).collect();
        assert_eq!(issued, [(0, (0, 4)), (1, (4, 8)), (4, (12, 16)), (12, (28, 32)), (28, (60, 32)), (60, (92, 32))]);
    }

    #[test]
    fn random_reads_get_exactly_what_they_ask_for() {
        let mut machine = Machine::new(32);
        let issued: Vec<_> = [100, 7, 55].into_iter().flat_map(|at| machine.read(at, 2)).collect();
        assert_eq!(issued, [(100, 2), (7, 2), (55, 2)]);
    }

    #[test]
    fn a_first_read_of_two_windows_opens_both_and_the_kernel_comes_back_for_the_rest() {
        let span = Span::new(0, 0, 64);
        let mut windows = Windows::new(span.first);
        let mut out = Vec::new();
        let mut call = Call { limits: (4, 32), labelled: true, distance: None, cached: |_| false, out: &mut out };
        assert_eq!(windows.call(0, 64, &mut call), 32, "it looked at pages up to 31");
        let spans: Vec<_> = out.iter().map(|ahead| (ahead.span.first.index(), ahead.span.len)).collect();
        assert_eq!(spans, [(0, 32), (32, 32)]);
    }

    #[test]
    fn a_cached_file_switches_read_ahead_off_and_a_miss_on_again() {
        let mut machine = Machine::new(32);
        machine.cache.borrow_mut().extend(0..1000);
        let issued: Vec<_> = (0..600).flat_map(|at| machine.read(at, 1)).collect();
        assert_eq!(issued, []);
        assert!(machine.linux.windows[0].in_cache);
        machine.cache.borrow_mut().remove(&600);
        machine.read(600, 1);
        assert!(!machine.linux.windows[0].in_cache);
        assert!(machine.linux.windows[0].miss);
    }

    #[test]
    fn a_window_shrinks_when_its_pages_were_gone() {
        let mut machine = Machine::new(32);
        for at in 0..40 {
            machine.read(at, 1);
        }
        machine.cache.borrow_mut().remove(&40);
        machine.read(40, 1);
        let issued: Vec<_> = (41..70).flat_map(|at| machine.read(at, 1)).collect();
        assert_eq!(issued, [(92, 30)], "32 - 2 after the miss");
    }

    #[test]
    fn a_smaller_trigger_distance_fires_later() {
        let mut machine = Machine::new(48);
        machine.distance = Some(24);
        let issued: Vec<_> = (0..200).flat_map(|at| machine.read(at, 1).into_iter().map(move |io| (at, io))).collect();
        for (at, (start, len)) in issued.into_iter().filter(|(at, _)| *at > 60) {
            assert_eq!((start - at, len), (24, 48), "at {at}");
        }
    }

    #[test]
    fn a_window_shrinks_by_two_down_to_the_smallest() {
        assert_eq!((shrunk(32, 4, 32), shrunk(5, 4, 32)), (30, 4));
    }
}
