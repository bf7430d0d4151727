//! Demand labels: how much of a request counts as demanded (section 4.1).
//!
//! The upper level says how many blocks from the first the application waits for. What it merely prefetches is looked up,
//! inserted and touched here as usual and fires triggers, but adapts nothing: no run counter, no `p` or `g`, no window, no
//! marginal utility. RA is not affected: it appends after the whole request.

use crate::cache::Request;

/// How many blocks of the request, from the first, count as demanded.
pub(crate) fn labelled(labels: bool, request: &Request) -> u32 {
    if labels { request.demand_len.min(request.span.len) } else { request.span.len }
}
