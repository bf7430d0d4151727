//! Sequential prefetchers, and the trigger distances set over them.

mod amp;
mod context;
mod linux_2618;
mod linux_simple;
mod on_demand;
mod prefetcher;
mod ra;
mod sarc;
mod stream;
#[cfg(test)]
mod tests;
pub mod trigger;
mod window;

use std::str::FromStr;

pub(crate) use context::{Ahead, Context, Verdict};
pub(crate) use prefetcher::{Prefetcher, check};
pub use trigger::{Share, Trigger};

/// Largest configurable degree or window: 4 GiB in blocks of 4 KiB.
pub const DEGREE_MAX: u32 = 1 << 20;

/// Choice of the prefetched blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Prefetch {
    /// No prefetching at all.
    None,
    /// A fixed number of blocks after every request (section 3.1).
    Ra {
        /// Number of blocks: 4.
        degree: u32,
    },
    /// The doubling groups of the paper's simulator (section 3.2).
    LinuxSimple {
        /// First group: 3.
        min: u32,
        /// Largest group: 32.
        max: u32,
        /// Whether the first group counts the requested block, so that groups are 4, 8, 16, 32 instead of 3, 6, 12, 24,
        /// 32.
        incl_demand: bool,
    },
    /// The two windows of Linux 2.6.18 (section 3.3).
    Linux2618 {
        /// Smallest window after thrashing: 4.
        min: u32,
        /// Largest window: 32.
        max: u32,
    },
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
    /// SARC's run counters with fixed degree and distance (section 3.5).
    Sarc {
        /// Number of blocks: 8.
        degree: u32,
        /// Trigger distance `g`, counted without the block being read: 4.
        distance: u32,
        /// Contiguous blocks, including the one being read, that make a run sequential: 4.
        threshold: u8,
    },
    /// AMP: degree and distance adapted per stream, kept in pages (section 3.6).
    Amp {
        /// Largest degree with synchronous prefetching only: 4.
        apt: u32,
        /// Largest degree: 256.
        degree_max: u32,
        /// Cached blocks before a miss that make it sequential: 1.
        run: u32,
    },
}

impl Prefetch {
    /// Whether a [`Trigger`] other than the native one can be set over it.
    pub fn has_trigger_distance(self) -> bool {
        !matches!(self, Prefetch::None | Prefetch::Ra { .. } | Prefetch::LinuxSimple { .. })
    }

    /// Name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Prefetch::None => "none",
            Prefetch::Ra { .. } => "ra",
            Prefetch::LinuxSimple { .. } => "linux",
            Prefetch::Linux2618 { .. } => "linux-2.6.18",
            Prefetch::OnDemand { .. } => "on-demand",
            Prefetch::Stream { .. } => "stream",
            Prefetch::Sarc { .. } => "sarc",
            Prefetch::Amp { .. } => "amp",
        }
    }

    /// Every prefetcher, with the reference's parameters.
    pub const ALL: [Prefetch; 8] = [
        Prefetch::None,
        Prefetch::Ra { degree: 4 },
        Prefetch::LinuxSimple { min: 3, max: 32, incl_demand: false },
        Prefetch::Linux2618 { min: 4, max: 32 },
        Prefetch::OnDemand { max: 32 },
        Prefetch::Stream { degree_max: 48, distance: 24 },
        Prefetch::Sarc { degree: 8, distance: 4, threshold: 4 },
        Prefetch::Amp { apt: 4, degree_max: 256, run: 1 },
    ];
}

impl FromStr for Prefetch {
    type Err = String;

    /// Parses a name; the parameters are the reference's.
    fn from_str(name: &str) -> Result<Prefetch, String> {
        Prefetch::ALL.into_iter().find(|p| p.name() == name).ok_or_else(|| {
            let names = Prefetch::ALL.map(Prefetch::name).join(" ");
            format!("there is no prefetcher {name:?}; choose one of {names}")
        })
    }
}
