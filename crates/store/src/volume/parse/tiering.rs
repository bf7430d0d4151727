//! `[tiering]`, in the words of `entrepot-lab sim tier`, and the speeds of `[tier.NAME]`.

use super::super::config::{Tiering, TieringPolicy};
use super::super::section::{Reading, Section};
use policy::tier::cost::DeviceCost;
use policy::tier::machine::Window;
use policy::tier::table::PANES_MAX;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// The published H, L and free space; the rest are guesses.
pub fn tiering(
    reading: &Reading<'_>,
    section: Section<'_, '_, '_>,
    tiers: &[String],
    speeds: Vec<Option<DeviceCost>>,
    segment: u64,
) -> Tiering {
    let names: Vec<(&str, u8)> = tiers.iter().zip(0..).map(|(name, number)| (name.as_str(), number)).collect();
    let policy = section.choice(
        "policy",
        TieringPolicy::Off,
        &[
            ("off", TieringPolicy::Off),
            ("tuned", TieringPolicy::Tuned),
            ("ws-ros", TieringPolicy::WsRos),
            ("lfu", TieringPolicy::Lfu),
        ],
    );
    let tiering = Tiering {
        policy,
        fast: section.choice("fast", 0, &names),
        slow: section.choice("slow", 1, &names),
        window: window(reading, &section),
        panes: section.count("panes", 4, 2..=PANES_MAX as u64) as usize,
        hot: section.count("hot", 3, 0..=65_535) as u32,
        cold: section.count("cold", 2, 0..=65_535) as u32,
        free_percent: section.count("free_percent", 8, 0..=100) as u32,
        read_wins: section.boolean("read_wins").unwrap_or(false),
        idle: section.span("idle", Duration::from_millis(500), Duration::ZERO..=HOUR),
        idle_rate: section.size("idle_rate", 0, 0..=u64::MAX, RATE),
        busy_rate: section.size("busy_rate", 0, 0..=u64::MAX, RATE),
        keep_copies: section.boolean("keep_copies").unwrap_or(true),
        copy_after: section.span("copy_after", Duration::from_secs(10), Duration::ZERO..=24 * HOUR),
        copies_free_percent: section.count("copies_free_percent", 5, 1..=100) as u32,
        on_access: section.boolean("on_access").unwrap_or(false),
        share_percent: section.count("share_percent", 50, 1..=100) as u32,
        locations: section.count("locations", 1 << 20, 1 << 10..=1 << 26) as usize,
        proportional: section.choice("placement", true, &[("proportional", true), ("round-robin", false)]),
        speeds,
    };
    if policy != TieringPolicy::Off {
        let span = || section.get("policy").map_or(section.span.clone(), |value| value.span());
        if tiers.len() < 2 || tiering.fast == tiering.slow {
            let mend = "Declare `[tier.fast]` and `[tier.capacity]`, give each its targets, and name two of them here";
            reading.problem(span(), "tiering moves data between two tiers, and `fast` and `slow` are not two", mend);
        }
        if segment == 0 {
            let mend = "Set `[layout] segment`, such as \"4MiB\": that is what is placed and moved as a whole";
            reading.problem(span(), "tiering moves segments of files, and files have none", mend);
        }
    }
    section.finish();
    tiering
}

const RATE: &str = "bytes per second, such as \"20MB\", or 0";

/// A number of requests, or a span of time.
fn window(reading: &Reading<'_>, section: &Section<'_, '_, '_>) -> Window {
    let default = Window::Requests(10_000);
    let Some(value) = section.get("window") else { return default };
    let inner = value.get_ref();
    let requests = inner.as_integer().and_then(|n| n.as_str().replace('_', "").parse::<u64>().ok());
    let span = inner.as_str().and_then(policy::units::span_ns).map(policy::Time);
    match (requests, span) {
        (Some(requests), _) if requests > 0 => Window::Requests(requests),
        (_, Some(span)) if span >= policy::Time::from_millis(100) => Window::Span(span),
        _ => {
            let cause = format!("`window` is {}", &reading.text[value.span()]);
            reading.problem(
                value.span(),
                cause,
                "Give a number of requests, such as 10000, or a span, such as \"60s\"",
            );
            default
        }
    }
}

/// `speed` and `latency` of one device of a tier, as the simulator's `--fast-speed` and `--fast-latency` have them.
pub fn speed(section: &Section<'_, '_, '_>) -> Option<DeviceCost> {
    let latency_ns =
        section.span("latency", Duration::ZERO, Duration::ZERO..=Duration::from_secs(60)).as_nanos() as f64;
    let wrong = || "Give megabytes (10^6) per second, reading/writing, such as \"200/40\"".to_owned();
    section.words("speed", None, |text| {
        let (read, write) = text.split_once('/').ok_or_else(wrong)?;
        let number = |text: &str| {
            let n = text.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
            n.map(|mb_s| 1e3 / mb_s).ok_or_else(wrong)
        };
        Ok(Some(DeviceCost {
            read_latency_ns: latency_ns,
            write_latency_ns: latency_ns,
            read_ns_per_byte: number(read)?,
            write_ns_per_byte: number(write)?,
        }))
    })
}
