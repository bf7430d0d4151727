//! Interface between a level and its prefetcher: an algorithm with its parameters, and the state that it creates.
//!
//! There are two kinds of prefetchers. Some work on requests, as the stream read-ahead. They decide before the blocks
//! are looked up, and their prefetches are placed after the requested blocks. The others work on pages, as the
//! on-demand read-ahead. They decide block by block, and their prefetches are placed at once, so that the next block
//! already sees them.

use super::context::{Ahead, Context, Verdict};
use super::{Trigger, never_fires};
use crate::block::pages::Pages;
use crate::block::{Block, ConfigError, Replacement, Setting, Span};
use std::fmt;

/// Choice of the prefetched blocks, with its parameters.
pub trait Algorithm: Copy + PartialEq + fmt::Debug {
    /// State of the algorithm in a level.
    type State: Prefetcher;

    /// Name in the configuration.
    fn name(self) -> &'static str;

    /// Whether it never prefetches.
    fn is_none(self) -> bool;

    /// Whether a [`Trigger`] other than the native one can be set over it.
    fn has_trigger_distance(self) -> bool;

    /// Its usual replacement.
    fn replacement(self) -> Replacement {
        Replacement::Lru
    }

    /// Smallest and largest number of blocks of a prefetch.
    fn degrees(self) -> (u32, u32);

    /// Checks its own trigger distance, if it has one.
    fn check_distance(self) -> Result<(), String> {
        Ok(())
    }

    /// Creates the state.
    fn state(self) -> Self::State;
}

/// State of a prefetcher, called by a level for each request.
pub trait Prefetcher: fmt::Debug {
    /// Whether it keeps state per stream.
    fn needs_streams(&self) -> bool {
        false
    }

    /// Begins a request; adds the prefetches that are placed after it.
    fn before(&mut self, _pages: &Pages, _context: &Context, _out: &mut Vec<Ahead>) {}

    /// Ends a request.
    fn after(&mut self, _context: &Context) {}

    /// Handles a missing block; `slot` is its new frame, if it got one.
    #[inline]
    fn missed(&mut self, _pages: &mut Pages, _slot: Option<u32>, _block: Block, _context: &Context) -> Verdict {
        Verdict::default()
    }

    /// Handles a block that is resident or in flight.
    #[inline]
    fn hit(&mut self, _pages: &mut Pages, _slot: u32, _block: Block, _context: &Context) -> Verdict {
        Verdict::default()
    }

    /// Records that a frame got a new block.
    #[inline]
    fn fresh(&mut self, _slot: u32, _block: Block) {}

    /// Records that the blocks of a prefetch are resident or in flight, as far as there were frames.
    fn placed(&mut self, _pages: &mut Pages, _set: Span, _context: &Context) {}

    /// Whether a page about to be evicted stays for another round.
    #[inline]
    fn keeps(&mut self, _pages: &mut Pages, _slot: u32) -> bool {
        false
    }

    /// Records that a set arrived while a reader waited for its first block.
    fn late(&mut self, _pages: &Pages, _first: Block) {}

    /// Returns the first inconsistency of its state.
    fn check(&self, _pages: &Pages) -> Result<(), String> {
        Ok(())
    }
}

/// Checks the parameters of a prefetcher and of the trigger over it.
pub(crate) fn check(prefetch: impl Algorithm, trigger: Trigger) -> Result<(), ConfigError> {
    let name = prefetch.name();
    let (least, most) = prefetch.degrees();
    let wrong = |setting, why| Err(ConfigError::new(setting, why));
    if least == 0 || least > most || most > super::DEGREE_MAX {
        let why = format!("{name} cannot prefetch so much; set its smallest degree to 1 to the largest degree");
        return wrong(Setting::Prefetch, why);
    }
    if let Err(why) = prefetch.check_distance() {
        return wrong(Setting::Prefetch, why);
    }
    match trigger {
        Trigger::Native => Ok(()),
        _ if !prefetch.has_trigger_distance() => wrong(
            Setting::Trigger,
            format!(
                "{name} has no trigger distance, so none can be set; choose the native trigger, or a prefetcher that \
                 has one, such as stream or on-demand"
            ),
        ),
        Trigger::Fixed { distance: 0 } => wrong(Setting::Trigger, never_fires(0, most)),
        Trigger::Ets(share) | Trigger::Esf(share) if !share.is_valid() => wrong(
            Setting::Trigger,
            "the trigger distances cannot be shared out; set distance_min to at most distance_max, and the sampling \
             period and the time constant above 0"
                .into(),
        ),
        Trigger::Fixed { .. } | Trigger::Ets(_) | Trigger::Esf(_) => Ok(()),
    }
}
