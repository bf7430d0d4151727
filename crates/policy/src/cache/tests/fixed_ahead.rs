//! A prefetcher for tests: a fixed number of blocks after every request.

use crate::block::Reason;
use crate::prefetch::{Ahead, Algorithm, Context, Pages, Prefetcher};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FixedAhead(pub(super) u32);

impl Algorithm for FixedAhead {
    type State = FixedAhead;

    fn name(self) -> &'static str {
        "fixed-ahead"
    }

    fn is_none(self) -> bool {
        false
    }

    fn has_trigger_distance(self) -> bool {
        false
    }

    fn degrees(self) -> (u32, u32) {
        (self.0, self.0)
    }

    fn state(self) -> FixedAhead {
        self
    }
}

impl Prefetcher for FixedAhead {
    fn before(&mut self, _pages: &Pages, context: &Context, out: &mut Vec<Ahead>) {
        out.push(Ahead::new(context.span.end(), self.0, Reason::Ahead));
    }
}
