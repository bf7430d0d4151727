//! Common interface of all prefetchers, called by a level for each request.
//!
//! There are two kinds. Some work on requests: RA, the Linux ones with windows, the stream read-ahead. They decide
//! before the blocks are looked up, and their prefetches are placed after the requested blocks. The others work on
//! pages: on-demand, SARC, AMP. They decide block by block, and their prefetches are placed at once, so that the next
//! block already sees them.

use super::amp::Amp;
use super::context::{Ahead, Context, Verdict};
use super::linux_2618::Linux2618;
use super::linux_simple::LinuxSimple;
use super::on_demand::OnDemand;
use super::sarc::Sarc;
use super::stream::Streams;
use super::{Prefetch, Trigger, ra};
use crate::block::pages::Pages;
use crate::block::{Block, ConfigError, Setting, Span};

/// Prefetcher with its state.
#[derive(Clone, Debug)]
pub(crate) enum Prefetcher {
    None,
    Ra(u32),
    LinuxSimple(LinuxSimple),
    Linux2618(Linux2618),
    OnDemand(OnDemand),
    Stream(Streams),
    Sarc(Sarc),
    Amp(Box<Amp>),
}

impl Prefetcher {
    pub(crate) fn new(prefetch: Prefetch) -> Prefetcher {
        match prefetch {
            Prefetch::None => Prefetcher::None,
            Prefetch::Ra { degree } => Prefetcher::Ra(degree),
            Prefetch::LinuxSimple { min, max, incl_demand } => {
                Prefetcher::LinuxSimple(LinuxSimple::new(min, max, incl_demand))
            }
            Prefetch::Linux2618 { min, max } => Prefetcher::Linux2618(Linux2618::new(min, max)),
            Prefetch::OnDemand { max } => Prefetcher::OnDemand(OnDemand::new(max)),
            Prefetch::Stream { degree_max, distance } => Prefetcher::Stream(Streams::new(degree_max, distance)),
            Prefetch::Sarc { degree, distance, threshold } => Prefetcher::Sarc(Sarc { degree, distance, threshold }),
            Prefetch::Amp { apt, degree_max, run } => Prefetcher::Amp(Box::new(Amp::new(apt, degree_max, run))),
        }
    }

    /// Whether it keeps state per stream.
    pub(crate) fn needs_streams(&self) -> bool {
        matches!(
            self,
            Prefetcher::LinuxSimple(_) | Prefetcher::Linux2618(_) | Prefetcher::OnDemand(_) | Prefetcher::Stream(_)
        )
    }

    /// Begins a request.
    pub(crate) fn before(&mut self, pages: &Pages, context: &Context, out: &mut Vec<Ahead>) {
        match self {
            Prefetcher::None | Prefetcher::Sarc(_) => {}
            Prefetcher::Ra(degree) => out.push(ra::ahead(*degree, context)),
            Prefetcher::LinuxSimple(linux) => out.extend(linux.before(context)),
            Prefetcher::Linux2618(linux) => linux.before(context, |block| pages.contains(block), out),
            Prefetcher::OnDemand(linux) => linux.before(context),
            Prefetcher::Stream(streams) => out.extend(streams.before(context)),
            Prefetcher::Amp(amp) => amp.before(),
        }
    }

    /// Ends a request.
    pub(crate) fn after(&mut self, context: &Context) {
        if let Prefetcher::OnDemand(linux) = self {
            linux.after(context);
        }
    }

    /// Handles a missing block; `slot` is its new frame, if it got one.
    #[inline]
    pub(crate) fn missed(&mut self, pages: &mut Pages, slot: Option<u32>, block: Block, context: &Context) -> Verdict {
        match self {
            Prefetcher::OnDemand(linux) => linux.missed(pages, block, context),
            Prefetcher::Sarc(sarc) => sarc.missed(pages, slot, block, context),
            Prefetcher::Amp(amp) => amp.missed(pages, slot, block, context),
            _ => Verdict::default(),
        }
    }

    /// Handles a block that is resident or in flight.
    #[inline]
    pub(crate) fn hit(&mut self, pages: &mut Pages, slot: u32, block: Block, context: &Context) -> Verdict {
        match self {
            Prefetcher::OnDemand(linux) => linux.hit(pages, slot, block, context),
            Prefetcher::Sarc(sarc) => sarc.hit(pages, slot, block, context),
            Prefetcher::Amp(amp) => amp.hit(pages, slot, block, context),
            _ => Verdict::default(),
        }
    }

    /// Records that a frame got a new block.
    #[inline]
    pub(crate) fn fresh(&mut self, slot: u32, block: Block) {
        if let Prefetcher::Amp(amp) = self {
            amp.fresh(slot, block);
        }
    }

    /// Records that the blocks of a prefetch are resident or in flight, as far as there were frames.
    pub(crate) fn placed(&mut self, pages: &mut Pages, set: Span, mark: Option<Block>, context: &Context) {
        match self {
            Prefetcher::Sarc(sarc) => sarc.placed(pages, set, context),
            Prefetcher::Amp(amp) => amp.placed(pages, set, context),
            _ => {}
        }
        if let Some(mark) = mark {
            pages.set_trigger_if_new(mark);
        }
    }

    /// Whether a page about to be evicted stays for another round.
    #[inline]
    pub(crate) fn keeps(&mut self, pages: &mut Pages, slot: u32) -> bool {
        match self {
            Prefetcher::Amp(amp) => amp.keeps(pages, slot),
            _ => false,
        }
    }

    /// Records that a set arrived while a reader waited for its first block.
    pub(crate) fn late(&mut self, pages: &Pages, first: Block) {
        if let Prefetcher::Amp(amp) = self {
            amp.late(pages, first);
        }
    }

    /// Returns the first inconsistency of its state.
    pub(crate) fn check(&self, pages: &Pages) -> Result<(), String> {
        match self {
            Prefetcher::Amp(amp) => amp.check(pages, pages.slots()),
            _ => Ok(()),
        }
    }
}

/// Checks the parameters of a prefetcher and of the trigger over it.
pub(crate) fn check(prefetch: Prefetch, trigger: Trigger) -> Result<(), ConfigError> {
    let name = prefetch.name();
    let (least, most) = match prefetch {
        Prefetch::None => (1, 1),
        Prefetch::Ra { degree } => (degree, degree),
        Prefetch::LinuxSimple { min, max, .. } | Prefetch::Linux2618 { min, max } => (min, max),
        Prefetch::OnDemand { max } => (max, max),
        Prefetch::Stream { degree_max, .. } => (1, degree_max),
        Prefetch::Sarc { degree, threshold, .. } => (degree.min(u32::from(threshold)), degree.max(1)),
        // A degree that never exceeds the threshold would never prefetch asynchronously.
        Prefetch::Amp { apt, degree_max, run } => (run.min(apt + 1), if apt < degree_max { degree_max } else { 0 }),
    };
    let wrong = |setting, why| Err(ConfigError::new(setting, why));
    let distant = |distance: u32, degree: u32| {
        format!(
            "a trigger distance of {distance} never fires within a degree of {degree}; set it to at most the degree"
        )
    };
    if least == 0 || least > most || most > super::DEGREE_MAX {
        let why = format!("{name} cannot prefetch so much; set its smallest degree to 1 to the largest degree");
        return wrong(Setting::Prefetch, why);
    }
    match prefetch {
        Prefetch::Stream { degree_max, distance } if distance == 0 || distance > degree_max => {
            return wrong(Setting::Prefetch, distant(distance, degree_max));
        }
        Prefetch::Sarc { degree, distance, .. } if distance >= degree => {
            return wrong(Setting::Prefetch, distant(distance, degree));
        }
        _ => {}
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
        Trigger::Fixed { distance: 0 } => wrong(Setting::Trigger, distant(0, most)),
        Trigger::Ets(share) | Trigger::Esf(share) if !share.is_valid() => wrong(
            Setting::Trigger,
            "the trigger distances cannot be shared out; set distance_min to at most distance_max, and the sampling \
             period and the time constant above 0"
                .into(),
        ),
        Trigger::Fixed { .. } | Trigger::Ets(_) | Trigger::Esf(_) => Ok(()),
    }
}
