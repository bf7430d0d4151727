//! Sequential prefetchers and the trigger distances that are set over them.

mod amp;
mod context;
mod linux_2618;
mod linux_simple;
mod markov;
mod on_demand;
mod prefetcher;
mod ra;
mod sarc;
mod stream;
#[cfg(test)]
mod tests;
pub mod trigger;
mod window;

use std::fmt;
use std::str::FromStr;

pub(crate) use context::{Ahead, Context, Verdict};
pub(crate) use prefetcher::{Prefetcher, check};
pub use trigger::{Share, Trigger};

/// Largest degree or window that can be set: 4 GiB in blocks of 4 KiB.
pub const DEGREE_MAX: u32 = 1 << 20;

/// Which blocks are fetched unasked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Prefetch {
    /// None.
    None,
    /// A fixed number of blocks after every request (section 3.1).
    Ra {
        /// How many: 4.
        degree: u32,
    },
    /// The groups that double of the paper's simulator (section 3.2).
    LinuxSimple {
        /// First group: 3.
        min: u32,
        /// Largest group: 32.
        max: u32,
        /// Whether the first group counts the block asked for, so that groups are 4, 8, 16, 32 instead of 3, 6, 12, 24, 32
        ///
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
    /// Read-ahead per stream with separate degree and trigger distance, what ETS and ESF are about (section 2). With a
    /// degree of 32 and a fixed distance of 32 it is Linux 2.6.18 for a steady stream.
    Stream {
        /// Largest degree: 48. It grows 4, 8, 16, 32.
        degree_max: u32,
        /// Trigger distance unless a [`Trigger`] sets it: 24.
        distance: u32,
    },
    /// SARC's run counters with fixed degree and distance (section 3.5).
    Sarc {
        /// Degree: 8.
        degree: u32,
        /// Trigger distance `g`, counted without the block that is read: 4.
        distance: u32,
        /// Contiguous blocks, the one that is read included, that make a run sequential: 4.
        threshold: u8,
    },
    /// AMP: degree and distance adapted per stream, kept in pages (section 3.6).
    Amp {
        /// Asynchronous only above this degree: 4.
        apt: u32,
        /// Largest degree: 256.
        degree_max: u32,
        /// Blocks before a miss that must be cached to call it sequential: 1.
        run: u32,
    },
    /// The ranges that a hidden Markov model of the steps between a file's requests foretells (Simitci & Reed, future work).
    Markov {
        /// Requests ahead, at most: 2.
        degree: u32,
    },
}

impl Prefetch {
    /// Whether a [`Trigger`] other than the native can be set over it.
    pub fn has_trigger_distance(self) -> bool {
        !matches!(self, Prefetch::None | Prefetch::Ra { .. } | Prefetch::LinuxSimple { .. } | Prefetch::Markov { .. })
    }

    /// The name by which it is chosen.
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
            Prefetch::Markov { .. } => "markov",
        }
    }

    /// All of them, with the reference's parameters.
    pub const ALL: [Prefetch; 9] = [
        Prefetch::None,
        Prefetch::Ra { degree: 4 },
        Prefetch::LinuxSimple { min: 3, max: 32, incl_demand: false },
        Prefetch::Linux2618 { min: 4, max: 32 },
        Prefetch::OnDemand { max: 32 },
        Prefetch::Stream { degree_max: 48, distance: 24 },
        Prefetch::Sarc { degree: 8, distance: 4, threshold: 4 },
        Prefetch::Amp { apt: 4, degree_max: 256, run: 1 },
        Prefetch::Markov { degree: 2 },
    ];
}

impl FromStr for Prefetch {
    type Err = UnknownPrefetch;

    /// By name, with the reference's parameters.
    fn from_str(name: &str) -> Result<Prefetch, UnknownPrefetch> {
        Prefetch::ALL.into_iter().find(|p| p.name() == name).ok_or_else(|| UnknownPrefetch(name.to_owned()))
    }
}

/// No prefetcher has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPrefetch(pub String);

impl fmt::Display for UnknownPrefetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no prefetcher {:?}; choose one of", self.0)?;
        Prefetch::ALL.iter().try_for_each(|p| write!(f, " {}", p.name()))
    }
}

impl std::error::Error for UnknownPrefetch {}

/// Why a prefetcher or a trigger cannot be had.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ConfigError {
    /// A degree or window of 0, or a smallest above the largest.
    Degree {
        /// Of which prefetcher.
        prefetch: &'static str,
    },
    /// A trigger distance where the prefetcher has none.
    NoTriggerDistance {
        /// Of which prefetcher.
        prefetch: &'static str,
    },
    /// A trigger distance that does not lie within the degree.
    Distance {
        /// What was asked for.
        distance: u32,
        /// The degree.
        degree: u32,
    },
    /// A smallest distance above the largest, or a sampling period of 0.
    Share,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Degree { prefetch } => {
                write!(f, "{prefetch} cannot prefetch so much; set its smallest degree to 1 to the largest degree")
            }
            ConfigError::NoTriggerDistance { prefetch } => write!(
                f,
                "{prefetch} has no trigger distance, so none can be set; choose the native trigger or stream, \
                 linux-2.6.18, on-demand, sarc or amp"
            ),
            ConfigError::Distance { distance, degree } => write!(
                f,
                "a trigger distance of {distance} never fires within a degree of {degree}; set it to at most the degree"
            ),
            ConfigError::Share => f.write_str(
                "the trigger distances cannot be shared out; set distance_min to at most distance_max, and the sampling \
                 period and the time constant above 0",
            ),
        }
    }
}

impl std::error::Error for ConfigError {}
