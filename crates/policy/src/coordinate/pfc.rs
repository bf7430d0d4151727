//! PFC: hides part of a request from a level's native prefetcher, or extends the request (section 4.2).
//!
//! ```text
//!     request      s ............................. e
//!                  |-- bypass --|---- native ------|-- readmore --|-- readmore window --|
//!                   silent hit or  seen by the native cache        remembered in readmore_q
//!                   straight from below, remembered in bypass_q
//! ```
//!
//! A hit in `bypass_q` means that bypassing was wrong: the block is requested again. A hit in `readmore_q` means that
//! reading more would have paid. If all blocks ahead are here already, the native prefetcher is aggressive enough.
//! Readings:
//!
//! - A-09: the code, with the text as an option.
//! - A-10: ranges begin one block after the end.
//! - A-11: `bypass_length` is cut per request, never below 0, and uncapped unless configured.
//! - A-40: the mean is that of earlier requests, and the first request defines it. Requests larger than twice the mean
//!   do not enter it.
//! - The end of the condition on cache hits: the code as printed sets `readmore_length` only if no block is cached; the
//!   prose has no such condition ([`Config::prose`]).
//!
//! With early requests ([`super::Coordination::early`]) the level above sends its application's blocks and its own
//! prefetch as two requests. The second is the rest of the first: it takes the same way and adapts nothing. Otherwise
//! each prefetch would be found in `readmore_q`, as if the application had read on.

use super::config::{Large, Pfc as Config, Scope};
use crate::block::recent::Recent;
use crate::block::{Block, Request, Span};

/// One set of parameters.
#[derive(Clone, Copy, Debug, Default)]
struct Parameters {
    bypass_length: u32,
    readmore_length: u32,
    sum: u64,
    count: u64,
}

/// PFC's state at one level.
#[derive(Clone, Debug)]
pub(crate) struct Pfc {
    config: Config,
    contexts: Recent,
    parameters: Vec<Parameters>,
    bypass_queue: Recent,
    readmore_queue: Recent,
    /// Ends of demanded requests, one per recent stream; `None` without early requests.
    ends: Option<Ends>,
}

/// Ends of demanded requests, each with whether the whole request bypassed.
#[derive(Clone, Debug)]
struct Ends {
    of: Recent,
    bypassed: Vec<bool>,
}

/// Decision of PFC about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    /// Number of blocks, from the first, that bypass the native cache.
    pub(crate) direct: u32,
    /// Number of blocks after the last to read as well.
    pub(crate) readmore: u32,
}

impl Pfc {
    /// Makes a PFC without knowledge. `early`: the level above sends its prefetches as requests of their own.
    pub(crate) fn new(config: Config, capacity: u32, contexts_max: u32, early: bool) -> Pfc {
        let queue = ((f64::from(capacity) * config.queue_fraction) as u32).max(1);
        Pfc {
            config,
            ends: early.then(|| Ends { of: Recent::new(contexts_max), bypassed: Vec::new() }),
            contexts: Recent::new(contexts_max),
            parameters: Vec::new(),
            bypass_queue: Recent::new(queue),
            readmore_queue: Recent::new(queue),
        }
    }

    fn context(&mut self, request: &Request) -> usize {
        let key = match self.config.scope {
            Scope::Level => 0,
            Scope::File => u64::from(request.span.first.file()),
            Scope::Client => u64::from(request.client),
        };
        let entered = self.contexts.enter(key);
        if entered.at >= self.parameters.len() {
            self.parameters.resize(entered.at + 1, Parameters::default());
        }
        if entered.fresh {
            self.parameters[entered.at] = Parameters::default();
        }
        entered.at
    }

    /// Sets the parameters and splits the request. `cached`: whether the level holds a block; `full`: no frame is free.
    pub(crate) fn split(&mut self, request: &Request, cached: impl Fn(Block) -> bool, full: bool) -> Split {
        let before = self.ends.as_mut().and_then(|ends| ends.take(request.span.first));
        if let Some(bypassed) = before.filter(|_| request.demand_len == 0) {
            let direct = if bypassed { request.span.len } else { 0 };
            self.bypass(request.span, direct);
            return Split { direct, readmore: 0 };
        }
        let split = self.decide(request, cached, full);
        if let Some(ends) = self.ends.as_mut().filter(|_| request.demand_len > 0) {
            ends.add(request.span.end(), split.direct == request.span.len);
        }
        split
    }

    fn decide(&mut self, request: &Request, cached: impl Fn(Block) -> bool, full: bool) -> Split {
        let context = self.context(request);
        let (span, n) = (request.span, request.span.len);
        let mut parameters = self.parameters[context];
        let mean = parameters.mean(n);
        let window = (f64::from(n).max(mean)).ceil() as u32;
        let large = match self.config.large {
            Large::Literal => f64::from(n) > mean && full,
            Large::Text { factor } => f64::from(n) > factor * mean && full,
        };
        let ahead = clipped(span.end(), n, request.file_blocks);
        let mut direct = n;
        if large {
            parameters.readmore_length = 0;
        }
        if large && self.config.large != Large::Literal {
            // The text bypasses the whole request and returns; `bypass_length` stays.
        } else if ahead.len > 0 && ahead.blocks().all(&cached) {
            parameters.bypass_length = n;
            parameters.readmore_length = 0;
        } else {
            self.adapt(&mut parameters, span, window, cached);
            direct = parameters.bypass_length.min(n);
        }
        if !self.config.bypass {
            direct = 0;
            parameters.bypass_length = 0;
        }
        if !self.config.readmore {
            parameters.readmore_length = 0;
        }
        self.parameters[context] = parameters;
        let readmore = clipped(span.end(), parameters.readmore_length, request.file_blocks);
        self.remember(span, direct, clipped(readmore.end(), window, request.file_blocks));
        Split { direct, readmore: readmore.len }
    }

    /// The inner part of the algorithm: adapts by the requested blocks found in the queues and the cache.
    fn adapt(&mut self, parameters: &mut Parameters, span: Span, window: u32, cached: impl Fn(Block) -> bool) {
        let hit = span.blocks().any(cached);
        let (mut in_bypass, mut in_readmore) = (false, false);
        for block in span.blocks() {
            in_bypass |= self.bypass_queue.touch(block.0);
            in_readmore |= self.readmore_queue.touch(block.0);
        }
        if !in_bypass {
            let max = self.config.bypass_max.unwrap_or(u32::MAX);
            parameters.bypass_length = parameters.bypass_length.saturating_add(1).min(max);
        }
        if !hit && in_bypass {
            parameters.bypass_length = parameters.bypass_length.saturating_sub(1);
        }
        if !hit || self.config.prose {
            parameters.readmore_length = if in_readmore { window } else { 0 };
        }
    }

    fn bypass(&mut self, span: Span, direct: u32) {
        for block in (Span { len: direct, ..span }).blocks() {
            self.bypass_queue.enter(block.0);
        }
    }

    fn remember(&mut self, span: Span, direct: u32, window: Span) {
        self.bypass(span, direct);
        if self.config.readmore {
            for block in window.blocks() {
                self.readmore_queue.enter(block.0);
            }
        }
    }
}

impl Ends {
    fn add(&mut self, end: Block, bypassed: bool) {
        let at = self.of.enter(end.0).at;
        if at >= self.bypassed.len() {
            self.bypassed.resize(at + 1, false);
        }
        self.bypassed[at] = bypassed;
    }

    /// Removes the end at `first`, of the stream that goes on there; returns whether its last request bypassed.
    fn take(&mut self, first: Block) -> Option<bool> {
        let at = self.of.find(first.0)?;
        self.of.forget(first.0);
        Some(self.bypassed[at])
    }
}

impl Parameters {
    /// Returns the mean size of the earlier requests, and adds this one unless it is larger than twice the mean.
    fn mean(&mut self, n: u32) -> f64 {
        let mean = if self.count == 0 { f64::from(n) } else { self.sum as f64 / self.count as f64 };
        if f64::from(n) <= 2.0 * mean {
            self.sum += u64::from(n);
            self.count += 1;
        }
        mean
    }
}

/// Returns `len` blocks from `first`, clipped to the end of the file.
pub(crate) fn clipped(first: Block, len: u32, file_blocks: u64) -> Span {
    let left = file_blocks.min(crate::block::INDEX_MAX + 1).saturating_sub(first.index());
    Span { first, len: len.min(u32::try_from(left).unwrap_or(u32::MAX)) }
}

#[cfg(test)]
mod tests;
