//! Prefetchers of the papers: those that a mount has, and those that gained nothing over them and stay here.

mod amp;
mod linux_2618;
mod linux_simple;
mod prefetcher;
mod ra;
mod sarc;
mod words;

pub use prefetcher::AnyPrefetcher;
pub use words::prefetch;

use amp::Amp;
use linux_2618::Linux2618;
use linux_simple::LinuxSimple;
use policy::cache::{Replacement, TwoLists};
use policy::prefetch::{self as live, Algorithm};
use sarc::Sarc;
use std::str::FromStr;

/// A cache level with any prefetcher.
pub type Level = policy::cache::Level<Prefetch>;

/// Configuration of a cache level with any prefetcher.
pub type LevelConfig = policy::cache::LevelConfig<Prefetch>;

/// Choice of the prefetched blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Prefetch {
    /// One that a mount has too.
    Live(live::Prefetch),
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
    /// No prefetching at all.
    pub const NONE: Prefetch = Prefetch::Live(live::Prefetch::None);

    /// Every prefetcher, with the reference's parameters.
    pub const ALL: [Prefetch; 8] = [
        Prefetch::NONE,
        Prefetch::Ra { degree: 4 },
        Prefetch::LinuxSimple { min: 3, max: 32, incl_demand: false },
        Prefetch::Linux2618 { min: 4, max: 32 },
        Prefetch::Live(live::Prefetch::OnDemand { max: 32 }),
        Prefetch::Live(live::Prefetch::Stream { degree_max: 48, distance: 24 }),
        Prefetch::Sarc { degree: 8, distance: 4, threshold: 4 },
        Prefetch::Amp { apt: 4, degree_max: 256, run: 1 },
    ];
}

impl From<live::Prefetch> for Prefetch {
    fn from(prefetch: live::Prefetch) -> Prefetch {
        Prefetch::Live(prefetch)
    }
}

impl Algorithm for Prefetch {
    type State = AnyPrefetcher;

    fn name(self) -> &'static str {
        match self {
            Prefetch::Live(live) => live.name(),
            Prefetch::Ra { .. } => "ra",
            Prefetch::LinuxSimple { .. } => "linux",
            Prefetch::Linux2618 { .. } => "linux-2.6.18",
            Prefetch::Sarc { .. } => "sarc",
            Prefetch::Amp { .. } => "amp",
        }
    }

    fn is_none(self) -> bool {
        self == Prefetch::NONE
    }

    fn has_trigger_distance(self) -> bool {
        match self {
            Prefetch::Live(live) => live.has_trigger_distance(),
            Prefetch::Ra { .. } | Prefetch::LinuxSimple { .. } => false,
            Prefetch::Linux2618 { .. } | Prefetch::Sarc { .. } | Prefetch::Amp { .. } => true,
        }
    }

    /// SARC has a replacement of its own (section 4.4).
    fn replacement(self) -> Replacement {
        match self {
            Prefetch::Sarc { .. } => Replacement::Sarc(TwoLists::default()),
            _ => Replacement::Lru,
        }
    }

    fn degrees(self) -> (u32, u32) {
        match self {
            Prefetch::Live(live) => live.degrees(),
            Prefetch::Ra { degree } => (degree, degree),
            Prefetch::LinuxSimple { min, max, .. } | Prefetch::Linux2618 { min, max } => (min, max),
            Prefetch::Sarc { degree, threshold, .. } => (degree.min(u32::from(threshold)), degree.max(1)),
            // A degree that never exceeds the threshold would never prefetch asynchronously.
            Prefetch::Amp { apt, degree_max, run } => (run.min(apt + 1), if apt < degree_max { degree_max } else { 0 }),
        }
    }

    fn check_distance(self) -> Result<(), String> {
        match self {
            Prefetch::Live(live) => live.check_distance(),
            Prefetch::Sarc { degree, distance, .. } if distance >= degree => Err(live::never_fires(distance, degree)),
            _ => Ok(()),
        }
    }

    fn state(self) -> AnyPrefetcher {
        match self {
            Prefetch::Live(live) => AnyPrefetcher::Live(live.state()),
            Prefetch::Ra { degree } => AnyPrefetcher::Ra(degree),
            Prefetch::LinuxSimple { min, max, incl_demand } => {
                AnyPrefetcher::LinuxSimple(LinuxSimple::new(min, max, incl_demand))
            }
            Prefetch::Linux2618 { min, max } => AnyPrefetcher::Linux2618(Linux2618::new(min, max)),
            Prefetch::Sarc { degree, distance, threshold } => AnyPrefetcher::Sarc(Sarc { degree, distance, threshold }),
            Prefetch::Amp { apt, degree_max, run } => AnyPrefetcher::Amp(Box::new(Amp::new(apt, degree_max, run))),
        }
    }
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
