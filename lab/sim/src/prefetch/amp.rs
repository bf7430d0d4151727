//! AMP: adapts prefetch degree `p` and trigger distance `g` per stream (section 3.6). They are kept in the last page of
//! each prefetch set, so that no table of streams is needed.
//!
//! `p` grows when the last page of a set is read: the whole set was useful. It shrinks when a page is about to be
//! evicted unread: the set came too early. `g` grows when a reader waits for the first page of a set: it came too late.
//! A stream has no misses iff fetching `p` pages takes no longer than reading `g + 1`; `p = rate * cache life` is
//! optimal.
//!
//! Invariant: `g < p` wherever `p > 0`.
//!
//! Readings. A read of several pages is split into runs of missing and of present pages; a run's length is its
//! `read size`. A degree is at most `degree_max` on every path. A page of only an upper level's prefetcher fires its tag
//! and changes no `p` or `g`. A set trigger distance `T` replaces `g` when a page is tagged: `T - 1`, within `p`; `g`
//! itself still adapts.

use policy::cache::{Block, Reason, Span};
use policy::prefetch::Pages;
use policy::prefetch::page::{ACCESSED, OLD, TRIGGER};
use policy::prefetch::{Ahead, Context, Verdict};

/// AMP's state of a page, beside its marks.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    /// Last page of its set.
    last: u64,
    degree: u32,
    distance: u32,
}

/// Run of missing pages of the present request.
#[derive(Clone, Copy, Debug)]
struct Run {
    last: u64,
    degree: u32,
    ahead: u32,
}

/// Parameters, and the state of all pages.
#[derive(Clone, Debug)]
pub struct Amp {
    apt: u32,
    degree_max: u32,
    run: u32,
    pages: Vec<Page>,
    missing: Option<Run>,
}

impl Amp {
    pub(crate) fn new(apt: u32, degree_max: u32, run: u32) -> Amp {
        Amp { apt, degree_max, run, pages: Vec::new(), missing: None }
    }

    fn page(&mut self, slot: u32) -> &mut Page {
        &mut self.pages[slot as usize]
    }

    /// Resets the state of a frame that got a new block.
    pub(crate) fn fresh(&mut self, slot: u32, block: Block) {
        if slot as usize >= self.pages.len() {
            self.pages.resize(slot as usize + 1, Page::default());
        }
        *self.page(slot) = Page { last: block.0, degree: 0, distance: 0 };
    }

    /// Begins a request.
    pub(crate) fn before(&mut self) {
        self.missing = None;
    }

    /// Handles a missing page; `slot` is its frame, if it got one.
    pub(crate) fn missed(&mut self, pages: &mut Pages, slot: Option<u32>, block: Block, context: &Context) -> Verdict {
        let Some(slot) = slot else { return Verdict::default() };
        *pages.flags_mut(slot) |= ACCESSED;
        if !context.labelled(block) {
            return Verdict::default();
        }
        let run = match self.missing.filter(|run| block.0 <= run.last) {
            Some(run) => run,
            None => self.begin_run(pages, block, context),
        };
        self.page(slot).last = run.last;
        let sequential = run.ahead > 0;
        if block.0 < run.last {
            return Verdict { sequential, ..Verdict::default() };
        }
        let distance = if run.degree > self.apt { self.apt / 2 } else { 0 };
        let page = self.page(slot);
        page.degree = run.degree;
        page.distance = distance.min(run.degree - 1);
        let ahead = sequential.then(|| Ahead::new(block.plus(1), run.ahead, Reason::Ahead));
        Verdict { sequential, leave: false, ahead }
    }

    /// Begins a run of missing pages: its length, and the degree that follows from the page before.
    fn begin_run(&mut self, pages: &Pages, block: Block, context: &Context) -> Run {
        let end = context.span.end().0.min(context.labelled_end.0);
        let mut last = block.0;
        while last + 1 < end && !pages.contains(Block(last + 1)) {
            last += 1;
        }
        let read = (last - block.0 + 1) as u32;
        let before = pages.find_before(block).map_or(0, |slot| self.pages[slot as usize].degree);
        let back = u64::from(self.run);
        let sequential = block.index() >= back && (1..=back).all(|n| pages.contains(Block(block.0 - n)));
        let ahead = match (sequential, before) {
            (false, _) => 0,
            (true, 0) => read,
            (true, before) => before,
        };
        let run = Run { last, degree: (before + read).min(self.degree_max), ahead };
        self.missing = Some(run);
        run
    }

    /// Handles a page that is here.
    pub(crate) fn hit(&mut self, pages: &mut Pages, slot: u32, block: Block, context: &Context) -> Verdict {
        let flags = pages.flags(slot);
        *pages.flags_mut(slot) |= ACCESSED;
        let leave = flags & ACCESSED == 0;
        let (read, last) = (context.read_len(), self.page(slot).last);
        if last == block.0
            && flags & OLD == 0
            && context.labelled(block)
            && let Some(newest) = self.newest(pages, slot)
        {
            let degree_max = self.degree_max;
            let page = self.page(newest);
            if page.degree + read < degree_max {
                page.degree += read;
            }
        }
        if !pages.take_trigger(slot) {
            return Verdict { sequential: true, leave, ahead: None };
        }
        let degree = pages.find(Block(last)).map_or(0, |slot| self.page(slot).degree);
        let degree = if degree == 0 { read } else { degree };
        let ahead = Ahead::new(Block(last + 1), degree, Reason::Triggered);
        Verdict { sequential: true, leave, ahead: Some(ahead) }
    }

    /// Returns the last page of the newest set of a page's stream.
    fn newest(&mut self, pages: &Pages, slot: u32) -> Option<u32> {
        let last = self.page(slot).last;
        let at = pages.find(Block(last))?;
        let degree = u64::from(self.page(at).degree);
        let follows = pages.contains(Block(last + 1));
        pages.find(Block(last + degree)).filter(|_| follows).or(Some(at))
    }

    /// Records that a set was placed.
    pub(crate) fn placed(&mut self, pages: &mut Pages, set: Span, context: &Context) {
        let last = set.end().0 - 1;
        for block in set.blocks() {
            if let Some(slot) = pages.find(block) {
                self.page(slot).last = last;
                *pages.flags_mut(slot) &= !(ACCESSED | OLD);
                pages.renew(slot);
            }
        }
        let Some(slot) = pages.find(Block(last)) else { return };
        let (degree, distance) = match pages.find_before(set.first) {
            Some(before) => {
                let Page { degree, distance, .. } = *self.page(before);
                (degree.max(distance + 1), distance)
            }
            None => (set.len.min(self.degree_max), (set.len.min(self.degree_max)) / 2),
        };
        let page = self.page(slot);
        page.degree = degree;
        page.distance = distance;
        if degree > self.apt || distance > 0 {
            let tag = context.distance.map_or(distance, |distance| (distance.max(1) - 1).min(degree - 1));
            // The tag may lie before the set, on any cached page, but never before the file.
            let tag = u64::from(tag).min(last - Block::new(Block(last).file(), 0).0);
            pages.set_trigger(Block(last - tag));
        }
    }

    /// Whether a page that is about to be evicted gets a second chance.
    pub(crate) fn keeps(&mut self, pages: &mut Pages, slot: u32) -> bool {
        if pages.flags(slot) & (ACCESSED | OLD) != 0 {
            return false;
        }
        let flags = pages.flags_mut(slot);
        *flags = *flags & !TRIGGER | OLD;
        pages.renew(slot);
        if let Some(newest) = self.newest(pages, slot) {
            let page = self.page(newest);
            page.degree = page.degree.saturating_sub(1).max(1);
            page.distance = page.distance.saturating_sub(1).min(page.degree - 1);
        }
        true
    }

    /// Records that a set arrived while a reader waited for its first page.
    pub(crate) fn late(&mut self, pages: &Pages, first: Block) {
        let Some(slot) = pages.find(first) else { return };
        let Some(last) = pages.find(Block(self.page(slot).last)) else { return };
        let page = self.page(last);
        page.distance = (page.distance + 1).min(page.degree.saturating_sub(1));
    }

    /// Returns the first inconsistency of the pages.
    pub(crate) fn check(&self, pages: &Pages, slots: impl Iterator<Item = u32>) -> Result<(), String> {
        for slot in slots {
            let Page { degree, distance, .. } = self.pages[slot as usize];
            if degree > 0 && distance >= degree || degree > self.degree_max.max(1) {
                return Err(format!("AMP has p = {degree} and g = {distance} at {:?}", pages.block(slot)));
            }
        }
        Ok(())
    }
}
