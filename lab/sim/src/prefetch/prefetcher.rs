//! State of any prefetcher: that of a live one, or of one that only the laboratory has.
//!
//! RA and the Linux ones with windows work on requests; SARC and AMP work on pages (see [`Prefetcher`]).

use super::amp::Amp;
use super::linux_2618::Linux2618;
use super::linux_simple::LinuxSimple;
use super::ra;
use super::sarc::Sarc;
use policy::cache::{Block, Span};
use policy::prefetch::{Ahead, Context, LivePrefetcher, Pages, Prefetcher, Verdict};

/// Prefetcher with its state.
#[derive(Clone, Debug)]
pub enum AnyPrefetcher {
    /// One that a mount has too.
    Live(LivePrefetcher),
    /// RA with its degree.
    Ra(u32),
    /// Groups of each stream that double (section 3.2).
    LinuxSimple(LinuxSimple),
    /// Two windows of each stream (section 3.3).
    Linux2618(Linux2618),
    /// Parameters of SARC, whose state is in pages.
    Sarc(Sarc),
    /// Degree and distance per stream, in pages.
    Amp(Box<Amp>),
}

impl Prefetcher for AnyPrefetcher {
    fn needs_streams(&self) -> bool {
        match self {
            AnyPrefetcher::Live(live) => live.needs_streams(),
            AnyPrefetcher::LinuxSimple(_) | AnyPrefetcher::Linux2618(_) => true,
            AnyPrefetcher::Ra(_) | AnyPrefetcher::Sarc(_) | AnyPrefetcher::Amp(_) => false,
        }
    }

    fn before(&mut self, pages: &Pages, context: &Context, out: &mut Vec<Ahead>) {
        match self {
            AnyPrefetcher::Live(live) => live.before(pages, context, out),
            AnyPrefetcher::Ra(degree) => out.push(ra::ahead(*degree, context)),
            AnyPrefetcher::LinuxSimple(linux) => out.extend(linux.before(context)),
            AnyPrefetcher::Linux2618(linux) => linux.before(context, |block| pages.contains(block), out),
            AnyPrefetcher::Sarc(_) => {}
            AnyPrefetcher::Amp(amp) => amp.before(),
        }
    }

    fn after(&mut self, context: &Context) {
        if let AnyPrefetcher::Live(live) = self {
            live.after(context);
        }
    }

    #[inline]
    fn missed(&mut self, pages: &mut Pages, slot: Option<u32>, block: Block, context: &Context) -> Verdict {
        match self {
            AnyPrefetcher::Live(live) => live.missed(pages, slot, block, context),
            AnyPrefetcher::Sarc(sarc) => sarc.missed(pages, slot, block, context),
            AnyPrefetcher::Amp(amp) => amp.missed(pages, slot, block, context),
            _ => Verdict::default(),
        }
    }

    #[inline]
    fn hit(&mut self, pages: &mut Pages, slot: u32, block: Block, context: &Context) -> Verdict {
        match self {
            AnyPrefetcher::Live(live) => live.hit(pages, slot, block, context),
            AnyPrefetcher::Sarc(sarc) => sarc.hit(pages, slot, block, context),
            AnyPrefetcher::Amp(amp) => amp.hit(pages, slot, block, context),
            _ => Verdict::default(),
        }
    }

    #[inline]
    fn fresh(&mut self, slot: u32, block: Block) {
        if let AnyPrefetcher::Amp(amp) = self {
            amp.fresh(slot, block);
        }
    }

    fn placed(&mut self, pages: &mut Pages, set: Span, context: &Context) {
        match self {
            AnyPrefetcher::Sarc(sarc) => sarc.placed(pages, set, context),
            AnyPrefetcher::Amp(amp) => amp.placed(pages, set, context),
            _ => {}
        }
    }

    #[inline]
    fn keeps(&mut self, pages: &mut Pages, slot: u32) -> bool {
        match self {
            AnyPrefetcher::Amp(amp) => amp.keeps(pages, slot),
            _ => false,
        }
    }

    fn late(&mut self, pages: &Pages, first: Block) {
        if let AnyPrefetcher::Amp(amp) = self {
            amp.late(pages, first);
        }
    }

    fn check(&self, pages: &Pages) -> Result<(), String> {
        match self {
            AnyPrefetcher::Amp(amp) => amp.check(pages, pages.slots()),
            _ => Ok(()),
        }
    }
}
