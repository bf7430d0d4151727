//! Demand labels: how much of a request counts as demanded (section 4.1).
//!
//! The upper level sends the number of blocks, from the first, that the application waits for. Its mere prefetches are
//! looked up, inserted and touched here as usual and fire triggers. But they adapt nothing: no run counter, no `p` or
//! `g`, no window, no marginal utility. RA is not affected: it appends after the whole request.
//!
//! ```text
//!   random      | s | s+1 .. s+4 |                     the tail of a miss shows nothing about the application
//!   sequential  | s | s+1 .. s+4 |  then  | s+5 |      it has read on: s+5 continues where s+1 .. s+4 ended
//! ```
//! As published ([`Labels::Published`]) the second request teaches nothing either. So under a level that reads ahead at
//! each request no stream is ever found here. [`Labels::Onward`], ours, counts it: a level goes beyond its own prefetch
//! only because its application asked for more there. Each page remembers whether only a prefetcher has requested it.

use super::config::Labels;
use crate::block::Request;
use crate::block::page::ABOVE;
use crate::block::pages::Pages;

/// Returns how many blocks of the request, from the first, count as demanded.
pub(crate) fn labelled(labels: Labels, request: &Request, pages: &Pages) -> u32 {
    let goes_on = || pages.find_before(request.span.first).is_some_and(|slot| pages.flags(slot) & ABOVE != 0);
    match labels {
        Labels::Ignored => request.span.len,
        Labels::Onward if goes_on() => request.span.len,
        Labels::Published | Labels::Onward => request.demand_len.min(request.span.len),
    }
}

/// Marks the pages of a request as demanded or as prefetched by the level above.
pub(crate) fn remember(request: &Request, pages: &mut Pages) {
    let demanded_end = request.span.first.plus(u64::from(request.demand_len));
    for block in request.span.blocks() {
        if let Some(slot) = pages.find(block) {
            let flags = pages.flags_mut(slot);
            *flags = if block < demanded_end { *flags & !ABOVE } else { *flags | ABOVE };
        }
    }
}
