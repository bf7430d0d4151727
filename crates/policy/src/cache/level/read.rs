//! Path of a request: through the coordinator, then each block through table, prefetcher and lists, then fetches.

use super::Level;
use super::plan::Verdict;
use crate::block::page::{FLYING, PLANNED, PREFETCHED, SEQUENTIAL, USED};
use crate::block::{Block, Span};
use crate::block::{Reason, Request};
use crate::cache::event::{Action, Outcome};
use crate::coordinate::pfc::Split;
use crate::coordinate::{Labels, labels};
use crate::prefetch::{Ahead, Algorithm, Context, Prefetcher, Trigger, Verdict as PrefetchVerdict};
use crate::time::Time;

impl<A: Algorithm> Level<A> {
    pub(super) fn request(&mut self, now: Time, request: &Request) -> Outcome {
        if request.write {
            self.write(request);
            return Outcome::default();
        }
        debug_assert!(request.span.len > 0, "a request of nothing");
        self.stats.requests += 1;
        self.stats.asked += u64::from(request.span.len);
        self.plan.clear();
        let outcome = self.read(now, request);
        self.stats.hit += u64::from(outcome.hit);
        self.stats.late += u64::from(outcome.late);
        self.stats.missed += u64::from(outcome.missed);
        outcome
    }

    fn read(&mut self, now: Time, request: &Request) -> Outcome {
        if let Some(tally) = &mut self.tally {
            tally.enter(request.stream).asked += u64::from(request.span.len);
        }
        if let Some(adaptive) = &mut self.adaptive {
            let is_ours = self.trial.is_ours(request.span.len);
            // Aside, it goes on learning but reads nothing ahead, as if others were waiting.
            let waiting = if is_ours { self.flight.awaited() } else { usize::MAX };
            let course = adaptive.course(request, waiting);
            if is_ours {
                let outcome = self.follow(request, course);
                self.tell_stream(request, outcome);
                // The read-ahead is a fetch of its own: no caller waits for it.
                self.depart(now, request, outcome, false);
                return outcome;
            }
        }
        let full = self.frames_used() >= self.pages.capacity;
        let split = match &mut self.pfc {
            Some(pfc) => pfc.split(request, |block| self.pages.contains(block), full),
            None => Split { direct: 0, readmore: 0 },
        };
        let mut outcome = Outcome::default();
        self.direct(request, split.direct, &mut outcome);
        let first = request.span.first.plus(u64::from(split.direct));
        let native = Span { first, len: request.span.len - split.direct + split.readmore };
        if native.len > 0 {
            self.native(now, request, native, &mut outcome);
        }
        self.tell_stream(request, outcome);
        self.depart(now, request, outcome, self.config.join);
        outcome
    }

    fn tell_stream(&mut self, request: &Request, outcome: Outcome) {
        if let Some(tally) = &mut self.tally {
            let stream = tally.enter(request.stream);
            stream.hit += u64::from(outcome.hit);
            stream.late += u64::from(outcome.late);
            stream.missed += u64::from(outcome.missed);
        }
    }

    /// Serves PFC's bypass: resident blocks from here, others straight from below. The native cache sees none of it.
    fn direct(&mut self, request: &Request, len: u32, outcome: &mut Outcome) {
        for block in (Span { len, ..request.span }).blocks() {
            match self.pages.find(block) {
                Some(slot) => {
                    self.stats.silent += 1;
                    self.found(slot, block, request, outcome);
                }
                None => {
                    outcome.missed += 1;
                    self.stats.bypassed += 1;
                    self.plan.pass(block, Reason::Bypass);
                }
            }
        }
    }

    fn native(&mut self, now: Time, request: &Request, span: Span, outcome: &mut Outcome) {
        let labels = self.config.coordination.labels;
        let labelled = labels::labelled(labels, request, &self.pages);
        let mut context = Context {
            span,
            labelled_end: request.span.first.plus(u64::from(labelled)),
            stream: 0,
            fresh: false,
            distance: None,
        };
        // PFC's readmore is an ordinary part of the request to the native prefetcher.
        if labelled == request.span.len {
            context.labelled_end = span.end();
        }
        self.follow_stream(now, request, &mut context);
        self.aheads.clear();
        self.prefetcher.before(&self.pages, &context, &mut self.aheads);
        let wanted_end = request.span.end();
        for block in span.blocks() {
            self.visit(block, request, &context, block < wanted_end, outcome);
        }
        for at in 0..self.aheads.len() {
            let ahead = self.aheads[at];
            self.place(&ahead, request, span.end(), &context);
        }
        self.prefetcher.after(&context);
        if labels == Labels::Onward {
            labels::remember(request, &mut self.pages);
        }
    }

    /// Looks up the index of the stream's state, and its trigger distance.
    fn follow_stream(&mut self, now: Time, request: &Request, context: &mut Context) {
        if let Some(streams) = &mut self.streams {
            let entered = streams.enter(u64::from(request.stream));
            context.stream = entered.at;
            context.fresh = entered.fresh;
        }
        if let Trigger::Fixed { distance } = self.config.trigger {
            context.distance = Some(distance);
        }
        if let Some(rates) = &mut self.rates {
            rates.read(now, context.stream, context.fresh, request.span);
            context.distance = Some(rates.distance(context.stream));
        }
    }

    /// Handles one block of the native cache's request; `wanted` is false for PFC's readmore.
    fn visit(&mut self, block: Block, request: &Request, context: &Context, wanted: bool, outcome: &mut Outcome) {
        let adapt = context.labelled(block);
        let verdict = match self.pages.find(block) {
            Some(slot) => {
                if wanted {
                    self.found(slot, block, request, outcome);
                }
                let verdict = self.prefetcher.hit(&mut self.pages, slot, block, context);
                if !verdict.leave && self.pages.flags(slot) & FLYING == 0 {
                    self.pages.lists.hit(&mut self.pages.slab, slot, adapt);
                }
                verdict
            }
            None => self.miss(block, request, context, wanted, outcome),
        };
        if let Some(ahead) = verdict.ahead {
            self.place(&ahead, request, block.plus(1), context);
        }
    }

    fn miss(
        &mut self,
        block: Block,
        request: &Request,
        context: &Context,
        wanted: bool,
        outcome: &mut Outcome,
    ) -> PrefetchVerdict {
        let flags = FLYING | PLANNED | if wanted { USED } else { PREFETCHED };
        let slot = self.frame(block, flags, request.stream);
        let verdict = self.prefetcher.missed(&mut self.pages, slot, block, context);
        let ahead = |ahead: &Ahead| ahead.reason != Reason::Missing && ahead.span.contains(block);
        let sequential = verdict.sequential || self.aheads.iter().any(ahead);
        if context.labelled(block) {
            self.pages.lists.missed(sequential);
        }
        outcome.missed += u32::from(wanted);
        match slot {
            Some(slot) => {
                if sequential || !wanted {
                    *self.pages.flags_mut(slot) |= SEQUENTIAL;
                }
                if !wanted {
                    self.count_prefetched(request.stream);
                }
                self.send_for(slot, block, if wanted { Reason::Missing } else { Reason::Readmore });
            }
            None if wanted => {
                self.stats.passed_through += 1;
                self.plan.pass(block, Reason::NoRoom);
            }
            None => self.stats.prefetch_dropped += 1,
        }
        verdict
    }

    /// Counts a requested block that is resident or in flight.
    pub(super) fn found(&mut self, slot: u32, block: Block, request: &Request, outcome: &mut Outcome) {
        let node = self.pages.slab.node_mut(slot);
        let (flags, owner) = (node.flags, node.owner);
        node.flags |= USED;
        let first_use = flags & (PREFETCHED | USED) == PREFETCHED;
        if flags & PLANNED != 0 {
            outcome.missed += 1;
            if first_use {
                // The request's own prefetch placed the block: not a prefetch at all.
                node.flags &= !PREFETCHED;
                self.stats.prefetched -= 1;
                if let Some(stream) = self.tally.as_mut().and_then(|tally| tally.find(owner)) {
                    stream.prefetched -= 1;
                    stream.inventory = stream.inventory.saturating_sub(1);
                }
            }
            return;
        }
        let late = flags & FLYING != 0;
        if late {
            outcome.late += 1;
            let fetch = node.prev;
            self.wait_for(fetch, block, request);
        } else {
            outcome.hit += 1;
            self.say(Verdict::Hit, block, request);
        }
        if first_use {
            self.stats.prefetch_used += 1;
            self.stats.prefetch_late += u64::from(late);
            if let Some(stream) = self.tally.as_mut().and_then(|tally| tally.find(owner)) {
                stream.prefetch_used += 1;
                stream.inventory = stream.inventory.saturating_sub(1);
            }
        }
    }

    /// Handles a write of whole blocks: they become resident, nothing is fetched.
    fn write(&mut self, request: &Request) {
        self.stats.written += u64::from(request.span.len);
        self.plan.clear();
        for block in request.span.blocks() {
            match self.pages.find(block) {
                Some(slot) if self.pages.flags(slot) & FLYING == 0 => {
                    self.count_wasted(slot);
                    *self.pages.flags_mut(slot) &= !PREFETCHED;
                    self.pages.lists.hit(&mut self.pages.slab, slot, false);
                    self.say(Verdict::Written, block, request);
                    continue;
                }
                // A block in flight may be older than the write.
                Some(slot) => self.drop_slot(slot),
                None => {}
            }
            if let Some(slot) = self.frame(block, 0, request.stream) {
                self.insert(slot);
                self.say(Verdict::Written, block, request);
            }
        }
        self.say_run();
        if !self.instant {
            self.actions.push_back(Action::Deliver { request: request.id, outcome: Outcome::default() });
        }
    }
}
