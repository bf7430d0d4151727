//! Sequential prefetchers of a mount, and the trigger distances set over them.
//!
//! The laboratory has others, which gained nothing over these; it brings them in as [`Algorithm`].

mod context;
mod on_demand;
mod prefetcher;
mod stream;
#[cfg(test)]
mod tests;
pub mod trigger;
pub mod window;

use std::str::FromStr;

pub use crate::block::page;
pub use crate::block::pages::Pages;
pub use context::{Ahead, Context, Verdict, state};
use on_demand::OnDemand;
pub(crate) use prefetcher::check;
pub use prefetcher::{Algorithm, Prefetcher};
use stream::Streams;
pub use trigger::{Share, Trigger};

use crate::block::Block;

/// Largest configurable degree or window: 4 GiB in blocks of 4 KiB.
pub const DEGREE_MAX: u32 = 1 << 20;

/// Choice of the prefetched blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Prefetch {
    /// No prefetching at all.
    None,
    /// The on-demand read-ahead with a marker of Linux since 2.6.24 (section 3.4).
    OnDemand {
        /// Largest window: 32.
        max: u32,
    },
    /// Read-ahead per stream with separate degree and trigger distance, as assumed by ETS and ESF (section 2). With a
    /// degree and a fixed distance of 32 it is Linux 2.6.18 for a steady stream.
    Stream {
        /// Largest degree: 48. It grows 4, 8, 16, 32.
        degree_max: u32,
        /// Trigger distance unless a [`Trigger`] sets it: 24.
        distance: u32,
    },
}

impl Prefetch {
    /// Every prefetcher, with the reference's parameters.
    pub const ALL: [Prefetch; 3] =
        [Prefetch::None, Prefetch::OnDemand { max: 32 }, Prefetch::Stream { degree_max: 48, distance: 24 }];
}

impl Algorithm for Prefetch {
    type State = LivePrefetcher;

    fn name(self) -> &'static str {
        match self {
            Prefetch::None => "none",
            Prefetch::OnDemand { .. } => "on-demand",
            Prefetch::Stream { .. } => "stream",
        }
    }

    fn is_none(self) -> bool {
        self == Prefetch::None
    }

    fn has_trigger_distance(self) -> bool {
        !self.is_none()
    }

    fn degrees(self) -> (u32, u32) {
        match self {
            Prefetch::None => (1, 1),
            Prefetch::OnDemand { max } => (max, max),
            Prefetch::Stream { degree_max, .. } => (1, degree_max),
        }
    }

    fn check_distance(self) -> Result<(), String> {
        match self {
            Prefetch::Stream { degree_max, distance } if distance == 0 || distance > degree_max => {
                Err(never_fires(distance, degree_max))
            }
            _ => Ok(()),
        }
    }

    fn state(self) -> LivePrefetcher {
        match self {
            Prefetch::None => LivePrefetcher::None,
            Prefetch::OnDemand { max } => LivePrefetcher::OnDemand(OnDemand::new(max)),
            Prefetch::Stream { degree_max, distance } => LivePrefetcher::Stream(Streams::new(degree_max, distance)),
        }
    }
}

impl FromStr for Prefetch {
    type Err = String;

    /// Parses a name; the parameters are the reference's.
    fn from_str(name: &str) -> Result<Prefetch, String> {
        Prefetch::ALL.into_iter().find(|p| p.name() == name).ok_or_else(|| {
            "choose none, on-demand or stream; the other prefetchers gained nothing over on-demand, so \
             `entrepot-lab sim cache` alone has them"
                .to_owned()
        })
    }
}

/// Message about a trigger distance that is 0 or greater than the degree.
pub fn never_fires(distance: u32, degree: u32) -> String {
    format!("a trigger distance of {distance} never fires within a degree of {degree}; set it to at most the degree")
}

/// State of a mount's prefetcher.
#[derive(Clone, Debug)]
pub enum LivePrefetcher {
    /// State of a level without prefetching.
    None,
    /// Windows of all streams, and marks on pages.
    OnDemand(OnDemand),
    /// Positions of all streams.
    Stream(Streams),
}

impl Prefetcher for LivePrefetcher {
    fn needs_streams(&self) -> bool {
        !matches!(self, LivePrefetcher::None)
    }

    fn before(&mut self, _pages: &Pages, context: &Context, out: &mut Vec<Ahead>) {
        match self {
            LivePrefetcher::None => {}
            LivePrefetcher::OnDemand(linux) => linux.before(context),
            LivePrefetcher::Stream(streams) => out.extend(streams.before(context)),
        }
    }

    fn after(&mut self, context: &Context) {
        if let LivePrefetcher::OnDemand(linux) = self {
            linux.after(context);
        }
    }

    #[inline]
    fn missed(&mut self, pages: &mut Pages, _slot: Option<u32>, block: Block, context: &Context) -> Verdict {
        match self {
            LivePrefetcher::OnDemand(linux) => linux.missed(pages, block, context),
            LivePrefetcher::None | LivePrefetcher::Stream(_) => Verdict::default(),
        }
    }

    #[inline]
    fn hit(&mut self, pages: &mut Pages, slot: u32, block: Block, context: &Context) -> Verdict {
        match self {
            LivePrefetcher::OnDemand(linux) => linux.hit(pages, slot, block, context),
            LivePrefetcher::None | LivePrefetcher::Stream(_) => Verdict::default(),
        }
    }
}
