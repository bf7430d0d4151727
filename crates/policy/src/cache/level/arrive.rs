//! Turns a plan into fetches, and finished fetches into answers.

use super::Level;
use super::plan::Verdict;
use crate::block::page::{DOOMED, FLYING, PLANNED};
use crate::block::slab::NIL;
use crate::block::{Block, Span};
use crate::block::{Reason, Request, RequestId};
use crate::cache::event::{Action, Fetch, FetchId, Outcome};
use crate::cache::flight::Waiting;
use crate::coordinate::du;
use crate::precedence::Class;
use crate::prefetch::{Algorithm, Prefetcher};
use crate::time::Time;

impl<A: Algorithm> Level<A> {
    /// Cuts the plan of a request into fetches, and answers it if it waits for none. With `join`, a prefetch is joined
    /// with the missing blocks that it follows.
    pub(super) fn depart(&mut self, now: Time, request: &Request, outcome: Outcome, join: bool) {
        self.say_run();
        if self.instant {
            self.arrive_at_once();
            self.deliver(request.span, None, outcome);
            return;
        }
        // A caller waits for all blocks passed through; other blocks may be mere read-ahead.
        for at in 0..self.plan.through.len() {
            let (span, reason) = self.plan.through[at];
            self.stats.fetched += u64::from(span.len);
            self.issue(now, request, span, span.len, reason, false);
        }
        self.plan.sort();
        let mut from = 0;
        while from < self.plan.placed.len() {
            let end = self.plan.run_end(from, request.span.first);
            let wanted = self.plan.placed[from..end].partition_point(|p| p.block < request.span.end());
            let wanted = if self.plan.placed[from].block < request.span.first { 0 } else { wanted };
            let cut = if join || wanted == 0 { end } else { from + wanted };
            self.issue_kept(now, request, from, cut, wanted as u32);
            from = cut;
        }
        if self.plan.waits.is_empty() {
            self.deliver(request.span, Some(request), outcome);
        } else {
            let waits = std::mem::take(&mut self.plan.waits);
            let awaited = self.waits(request.span.len, request.demand_len);
            self.flight.wait(request.id, request.span, outcome, awaited, &waits);
            self.plan.waits = waits;
        }
    }

    /// Issues a fetch of blocks that have frames.
    fn issue_kept(&mut self, now: Time, request: &Request, from: usize, end: usize, wanted_len: u32) {
        let first = self.plan.placed[from];
        let span = Span { first: first.block, len: (end - from) as u32 };
        let fetch = self.issue(now, request, span, wanted_len, first.reason, true);
        self.flight.fetch_mut(fetch).first_page = first.slot;
        for at in from..end {
            let next = if at + 1 < end { self.plan.placed[at + 1].slot } else { NIL };
            let node = self.pages.slab.node_mut(self.plan.placed[at].slot);
            node.flags &= !PLANNED;
            node.prev = fetch;
            node.next = next;
        }
    }

    fn issue(&mut self, now: Time, request: &Request, span: Span, wanted_len: u32, reason: Reason, keep: bool) -> u32 {
        self.stats.fetches += 1;
        self.stats.prefetches += u64::from(wanted_len == 0);
        let demand_end = request.span.first.plus(u64::from(request.demand_len));
        let demand_len = if wanted_len == 0 { 0 } else { demand_end.0.saturating_sub(span.first.0) };
        let demand_len = demand_len.min(u64::from(wanted_len)) as u32;
        let class = if self.waits(wanted_len, demand_len) { Class::Awaited } else { Class::Prefetch };
        let at = self.flight.depart(span, wanted_len, class, now);
        let id = self.flight.name(at);
        if wanted_len > 0 {
            self.plan.waits.push(at);
            if self.config.announce {
                let span = Span { len: wanted_len, ..span };
                self.actions.push_back(Action::Wait { request: request.id, span, fetch: id });
            }
        }
        self.actions.push_back(Action::Fetch(Fetch {
            id,
            span,
            demand_len,
            wanted_len,
            keep,
            stream: request.stream,
            client: request.client,
            file_blocks: request.file_blocks,
            reason,
            class,
        }));
        at
    }

    /// Whether a caller waits for blocks, given the numbers requested from above and demanded, as far as known here.
    fn waits(&self, wanted_len: u32, demand_len: u32) -> bool {
        wanted_len > 0 && (demand_len > 0 || !self.config.coordination.knows_labels())
    }

    /// Lets a request wait for a fetch in flight.
    pub(super) fn wait_for(&mut self, fetch: u32, block: Block, request: &Request) {
        let awaited = self.waits(request.span.len, request.demand_len);
        let flying = self.flight.fetch_mut(fetch);
        flying.waited |= block == flying.span.first.plus(u64::from(flying.wanted_len));
        if awaited && flying.class == Class::Prefetch {
            flying.class = Class::Awaited;
            let fetch = self.flight.name(fetch);
            self.actions.push_back(Action::Hurry(fetch));
        }
        if self.plan.waits.last() != Some(&fetch) {
            self.plan.waits.push(fetch);
        }
        self.say(Verdict::Wait(fetch), block, request);
    }

    /// Handles the report of the level above that a caller waits for a request.
    pub(super) fn hurry(&mut self, request: RequestId) {
        if self.config.coordination.knows_labels() {
            let actions = &mut self.actions;
            self.flight.hurry(request, |fetch| actions.push_back(Action::Hurry(fetch)));
        }
    }

    /// Ends the plan of a replay, which has no fetches: its placed blocks are resident already.
    fn arrive_at_once(&mut self) {
        for at in 0..self.plan.placed.len() {
            let placed = self.plan.placed[at];
            if self.pages.find(placed.block) == Some(placed.slot) {
                *self.pages.flags_mut(placed.slot) &= !PLANNED;
            }
        }
        let through: u64 = self.plan.through.iter().map(|(span, _)| u64::from(span.len)).sum();
        self.stats.fetched += through;
        self.stats.fetches += u64::from(through > 0 || !self.plan.placed.is_empty());
    }

    pub(super) fn fetch_done(&mut self, now: Time, fetch: FetchId) {
        let Some(flying) = self.flight.arrive(fetch) else { return };
        if let Some(rates) = self.rates.as_mut().filter(|_| flying.wanted_len == 0) {
            rates.fetched(now.since(flying.issued_at));
        }
        let mut slot = flying.first_page;
        while slot != NIL {
            let next = self.pages.slab.node(slot).next;
            if self.pages.flags(slot) & DOOMED != 0 {
                self.pages.slab.give(slot);
            } else {
                *self.pages.flags_mut(slot) &= !FLYING;
                self.insert(slot);
                self.say_stored(slot, fetch);
            }
            slot = next;
        }
        if flying.waited {
            self.prefetcher.late(&self.pages, flying.span.first.plus(u64::from(flying.wanted_len)));
        }
        self.release(&flying, false);
    }

    pub(super) fn fetch_failed(&mut self, fetch: FetchId) {
        let Some(flying) = self.flight.arrive(fetch) else { return };
        self.stats.failed += u64::from(flying.span.len);
        let mut slot = flying.first_page;
        while slot != NIL {
            let next = self.pages.slab.node(slot).next;
            if self.pages.flags(slot) & DOOMED == 0 {
                self.count_wasted(slot);
                let block = self.pages.block(slot);
                self.pages.table.remove(block.0, slot);
            }
            self.pages.slab.give(slot);
            slot = next;
        }
        self.release(&flying, true);
    }

    fn release(&mut self, flying: &crate::cache::flight::Flying, failed: bool) {
        let mut done = std::mem::take(&mut self.done);
        self.flight.release(flying, failed, &mut done);
        for Waiting { id, span, outcome, failed, .. } in done.drain(..) {
            if failed {
                self.actions.push_back(Action::Fail(id));
            } else {
                if self.config.coordination.du {
                    du::sent(&mut self.pages, span);
                }
                self.actions.push_back(Action::Deliver { request: id, outcome });
            }
        }
        self.done = done;
    }

    fn deliver(&mut self, span: Span, request: Option<&Request>, outcome: Outcome) {
        if self.config.coordination.du {
            du::sent(&mut self.pages, span);
        }
        if let Some(request) = request {
            self.actions.push_back(Action::Deliver { request: request.id, outcome });
        }
    }

    /// Announces how a block of the request arrives, joined into runs.
    pub(super) fn say(&mut self, verdict: Verdict, block: Block, request: &Request) {
        if !self.config.announce || (self.instant && matches!(verdict, Verdict::Wait(_))) {
            return;
        }
        match &mut self.plan.verdict {
            Some((of, span)) if *of == verdict && span.end() == block => span.len += 1,
            _ => {
                self.say_run();
                self.plan.verdict = Some((verdict, Span { first: block, len: 1 }));
                self.plan.said_for = request.id;
            }
        }
    }

    /// Announces that a block of a fetch is resident, joined to the one before.
    fn say_stored(&mut self, slot: u32, fetch: FetchId) {
        if !self.config.announce {
            return;
        }
        let block = self.pages.block(slot);
        match self.actions.back_mut() {
            Some(Action::Store { span, fetch: Some(of) }) if *of == fetch && span.end() == block => span.len += 1,
            _ => self.actions.push_back(Action::Store { span: Span { first: block, len: 1 }, fetch: Some(fetch) }),
        }
    }

    /// Sends the run gathered so far.
    pub(super) fn say_run(&mut self) {
        let Some((verdict, span)) = self.plan.verdict.take() else { return };
        let request = self.plan.said_for;
        self.actions.push_back(match verdict {
            Verdict::Hit => Action::Hit { request, span },
            Verdict::Written => Action::Store { span, fetch: None },
            Verdict::Wait(fetch) => Action::Wait { request, span, fetch: self.flight.name(fetch) },
        });
    }
}
