//! `[tiering]`, in the words of `entrepot-lab sim tier`.

use super::super::keys::{DAY, HOUR, choice, count, flag, percent, section, size, span, tier};
use super::super::section::{Given, Section, integer};
use policy::Time;
use policy::named;
use policy::tier::cost::DeviceCost;
use policy::tier::machine::Window;
use std::time::Duration;

const RATE: &str = "bytes per second, such as \"20MB\", or 0";

named! {
    /// Policy of moves between the tiers, with the names of `entrepot-lab sim tier`.
    TieringPolicy {
        /// Nothing is moved.
        Off = "off",
        /// By expected gain against cost.
        Tuned = "tuned",
        /// The paper's thresholds.
        WsRos = "ws-ros",
        /// By how often anything was accessed so far.
        Lfu = "lfu",
    }
}

// H, L and the free space are published; the rest are guesses.
section! {
    /// `[tiering]`, and the speeds of `[tier.NAME]`.
    Tiering {
        /// The policy that places segments of files on the fast tier: "off" moves nothing, "tuned" compares the gain of a
        /// move with its cost, "ws-ros" has the paper's thresholds, "lfu" counts for ever. It needs `segment` above, the unit
        /// of placement and moves. Reads and writes of such files go through the daemon, never past it (`passthrough`).
        policy: TieringPolicy = choice(TieringPolicy::NAMES), "off";
        /// The tier for hot data; the default is the first.
        fast: u8 = tier, "fast" else 0;
        /// The tier for all other data; the default is the second.
        slow: u8 = tier, "capacity" else 1;
        /// The sliding window in which accesses count: a number of requests, or a span such as "60s".
        window: Window = window, 10000;
        /// ws-ros: read more often within the window is hot.
        hot: u32 = count(0..=65_535), 3;
        /// ws-ros: read less often is cold.
        cold: u32 = count(0..=65_535), 2;
        /// ws-ros: cold data leave while less than so many percent of the share are free.
        free_percent: u32 = percent, 8;
        /// ws-ros: what is hot in reads and in writes goes to the slow tier, unless reads win.
        read_wins: bool = flag, false;
        /// Idle time of the devices of both tiers before moves begin.
        idle: Duration = span(Duration::ZERO..=HOUR), "500ms";
        /// Bytes moved per second while the devices are idle; 0 is no limit.
        idle_rate: u64 = size(0..=u64::MAX, RATE), 0;
        /// Bytes moved per second while they are busy; 0 is none.
        busy_rate: u64 = size(0..=u64::MAX, RATE), 0;
        /// "tuned": a promoted segment keeps its slow copy until it is written, so that its demotion copies nothing. A segment on
        /// the fast tier without a copy gets one while the devices are idle (`idle`, `idle_rate`).
        keep_copies: bool = flag, true;
        /// Time since the last use of a segment before it gets a slow copy.
        copy_after: Duration = span(Duration::ZERO..=DAY), "10s";
        /// No copy is made that would leave less of a slow target free, and those on it go when there is less.
        copies_free_percent: u32 = count(1..=100), 5;
        /// "tuned": promote at the access, while the bytes are in memory; under load only with `busy_rate`.
        on_access: bool = flag, false;
        /// Part of the fast tier's space that hot data may take, in percent; the rest is left to others, such as the
        /// burst buffer.
        share_percent: u32 = count(1..=100), 50;
        /// Segments whose accesses are remembered.
        locations: usize = count(1 << 10..=1 << 26), 1048576;
        /// New segments go to the devices in proportion to their speed ("proportional") or in turn ("round-robin").
        proportional in "placement": bool = choice(&[("proportional", true), ("round-robin", false)]), "proportional";
        + /// What one device of each tier takes, where the file says it; by tier.
        speeds: Vec<Option<DeviceCost>>;
    }
}

impl Tiering {
    pub(in crate::volume) fn checked(
        section: &Section<'_, '_, '_>,
        speeds: Vec<Option<DeviceCost>>,
        segment: u64,
    ) -> Tiering {
        let tiering = Tiering { speeds, ..Tiering::read(section) };
        if tiering.policy != TieringPolicy::Off {
            if section.reading.tiers.borrow().len() < 2 || tiering.fast == tiering.slow {
                let cause = "tiering moves data between two tiers, and `fast` and `slow` are not two";
                let mend =
                    "Declare `[tier.fast]` and `[tier.capacity]`, give each its targets, and name two of them here";
                section.problem("policy", cause, mend);
            }
            if segment == 0 {
                let mend = "Set `[layout] segment`, such as \"4MiB\": segments are placed and moved as a whole";
                section.problem("policy", "tiering moves segments of files, and files have none", mend);
            }
        }
        tiering
    }
}

/// A number of requests, or a span of time.
fn window(given: &Given<'_>) -> Result<Window, String> {
    let requests = integer(given.value).filter(|&requests| requests > 0).map(Window::Requests);
    let span = given.value.as_str().and_then(policy::units::span_ns).map(Time);
    requests
        .or(span.filter(|&span| span >= Time::from_millis(100)).map(Window::Span))
        .ok_or_else(|| "Give a number of requests, such as 10000, or a span, such as \"60s\"".to_owned())
}
