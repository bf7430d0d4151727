//! DU, exclusive caching: what was sent up goes first, for the level above has it (section 4.3).
//!
//! A sent block moves to the least recently used end, so that the most recently sent goes first: the level above will keep
//! that one longest. Works on either replacement; with SARC's lists a block stays in its list. Blocks that were prefetched
//! and not sent are not touched.

use crate::cache::Span;
use crate::cache::pages::Pages;

/// The blocks of a request were sent, in ascending order.
pub(crate) fn sent(pages: &mut Pages, span: Span) {
    for block in span.blocks() {
        if let Some(slot) = pages.find(block) {
            pages.demote(slot);
        }
    }
}
