//! Path of a request under our per-stream coordinator: past the native prefetcher, into the native replacement.

use super::Level;
use crate::block::page::{ACCESSED, FLYING, PLANNED, PREFETCHED, SEQUENTIAL, USED};
use crate::block::{Block, Span};
use crate::block::{Reason, Request};
use crate::cache::event::Outcome;
use crate::coordinate::adaptive::Course;
use crate::prefetch::Algorithm;

impl<A: Algorithm> Level<A> {
    /// Serves the requested blocks and reads ahead.
    pub(super) fn follow(&mut self, request: &Request, course: Course) -> Outcome {
        let mut outcome = Outcome::default();
        for block in request.span.blocks() {
            match self.pages.find(block) {
                Some(slot) => self.served(slot, block, request, course, &mut outcome),
                None => self.fetched(block, request, course, &mut outcome),
            }
        }
        self.read_ahead(course.ahead, request);
        outcome
    }

    fn served(&mut self, slot: u32, block: Block, request: &Request, course: Course, outcome: &mut Outcome) {
        self.found(slot, block, request, outcome);
        let flags = self.pages.flags_mut(slot);
        *flags |= ACCESSED;
        if *flags & FLYING != 0 {
            return;
        }
        if course.keep {
            self.pages.lists.hit(&mut self.pages.slab, slot, true);
        } else {
            self.pages.demote(slot);
        }
    }

    fn fetched(&mut self, block: Block, request: &Request, course: Course, outcome: &mut Outcome) {
        outcome.missed += 1;
        self.pages.lists.missed(course.sequential);
        if !course.keep {
            self.stats.bypassed += 1;
            self.plan.pass(block, Reason::Bypass);
            return;
        }
        let sequential = if course.sequential { SEQUENTIAL } else { 0 };
        match self.frame(block, FLYING | PLANNED | USED | ACCESSED | sequential, request.stream) {
            Some(slot) => self.send_for(slot, block, Reason::Missing),
            None => {
                self.stats.passed_through += 1;
                self.plan.pass(block, Reason::NoRoom);
            }
        }
    }

    fn read_ahead(&mut self, span: Span, request: &Request) {
        for block in span.blocks() {
            if self.pages.contains(block) {
                continue;
            }
            let flags = FLYING | PLANNED | PREFETCHED | SEQUENTIAL;
            let Some(slot) = self.frame(block, flags, request.stream) else {
                self.stats.prefetch_dropped += span.end().0 - block.0;
                break;
            };
            self.count_prefetched(request.stream);
            self.send_for(slot, block, Reason::Readmore);
        }
    }
}
