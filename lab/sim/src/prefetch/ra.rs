//! RA: a fixed number of blocks after every request, hit or miss, sequential or not (section 3.1).

use policy::cache::Reason;
use policy::prefetch::{Ahead, Context};

/// Returns the `degree` blocks after the request. At L1 they are fetched together with the missing ones.
pub(crate) fn ahead(degree: u32, context: &Context) -> Ahead {
    Ahead::new(context.span.end(), degree, Reason::Ahead)
}
