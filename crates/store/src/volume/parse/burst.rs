//! `[burst]`: the fast tier as a buffer for checkpoints.

use super::super::section::{Reading, Section};
use policy::Time;
use policy::burst::admission;
use policy::burst::buffer::{self, Scheme};
use policy::burst::control::Device;
use policy::burst::pattern::Pattern;
use policy::burst::tables::Order;
use std::ops::Range;
use std::time::Duration;

/// A speed that nothing reaches.
const UNLIMITED: f64 = 1e15;

/// `[burst]`
#[derive(Clone, Debug)]
pub struct Burst {
    /// The tier that is the buffer; `None`: there is none.
    pub fast: Option<u8>,
    /// The tier that checkpoints are demoted to.
    pub capacity: u8,
    /// The tier that gets another copy of what was demoted.
    pub replicas: Option<u8>,
    /// Bytes of the buffer; 0: what the fast tier has.
    pub size: u64,
    /// Which files are checkpoints.
    pub checkpoints: Vec<Pattern>,
    /// The machine: rates, order, turns, period, what a full buffer does. Its capacity is filled in when the volume is open.
    pub admission: admission::Config,
    /// Whether speeds are limited at all.
    pub limited: bool,
    /// How long an application runs between failures, where nobody knows better; zero: it is learned.
    pub mtbf: Duration,
    /// How long one node runs between failures.
    pub node_mtbf: Duration,
    /// Whether limits are set in control groups too.
    pub cgroups: bool,
    /// Between two trims of the buffer's file systems; zero: never.
    pub trim: Duration,
}

pub fn burst(reading: &Reading<'_>, section: Section<'_, '_, '_>, tiers: &[String]) -> Burst {
    let (second, day) = (Duration::from_secs(1), Duration::from_secs(86_400));
    let tier = |key: &'static str| -> Option<(u8, Range<usize>)> {
        let (name, span) = section.string(key)?;
        let found = tiers.iter().position(|tier| *tier == name);
        if found.is_none() {
            let mend = format!("Use one of {}", tiers.join(", "));
            reading.problem(span.clone(), format!("`{key}` is \"{name}\", which is no tier"), mend);
        }
        Some((found.unwrap_or(0) as u8, span))
    };
    let (fast, capacity) = (tier("fast"), tier("capacity"));
    let replicas = tier("replicas").map(|(tier, _)| tier);
    if let (Some((fast, _)), Some((capacity, span))) = (&fast, &capacity)
        && fast == capacity
    {
        reading.problem(span.clone(), "`capacity` is the tier of `fast`", "Name two tiers");
    }
    let speed = |key: &'static str| {
        let what = "bytes per second, such as \"200MB\", or 0 for no limit";
        section.size(key, 0, 0..=u64::MAX, what)
    };
    let speeds =
        [speed("write_max"), speed("write_min"), speed("demote_max"), speed("demote_min"), speed("demote_idle")];
    let [write_max, write_min, demote_max, demote_min, demote_idle] = speeds;
    let limited = write_max > 0;
    let ordered = write_max > write_min && write_min > 0 && demote_max > demote_min && demote_idle > 0;
    if limited && !ordered {
        let span = section.get("write_max").map_or(0..0, |value| value.span());
        let mend = "Give all of write_max > write_min > 0, demote_max > demote_min, demote_idle > 0, or none (docs/guide/operate/checkpoints.md says how to measure them)";
        reading.problem(span, "the speeds of `[burst]` do not fit together", mend);
    }
    let device = if limited && ordered {
        Device {
            write_max: write_max as f64,
            write_min: write_min as f64,
            demote_max: demote_max as f64,
            demote_min: demote_min as f64,
            demote_idle: demote_idle as f64,
            capacity: 0.0,
        }
    } else {
        Device {
            write_max: UNLIMITED,
            write_min: UNLIMITED * 0.9,
            demote_max: UNLIMITED * 0.5,
            demote_min: 1.0,
            demote_idle: UNLIMITED,
            capacity: 0.0,
        }
    };
    let order = [
        ("versions", Order::VersionsThenMtbf),
        ("throughout", Order::Throughout),
        ("mtbf", Order::Mtbf),
        ("fifo", Order::Fifo),
        ("lru", Order::Lru),
    ];
    let wait = section.span("wait", 600 * second, Duration::ZERO..=day);
    let period = section.span("period", 3600 * second, second..=30 * day);
    let what = "a size, such as \"2TB\", or 0";
    let config = Burst {
        fast: fast.map(|(tier, _)| tier),
        capacity: capacity.map_or(tiers.len().saturating_sub(1) as u8, |(tier, _)| tier),
        replicas,
        size: section.size("size", 0, 0..=u64::MAX, what),
        checkpoints: patterns(reading, &section),
        admission: admission::Config {
            buffer: buffer::Config {
                device,
                scheme: section.words("policy", Scheme::Predicted, scheme),
                order: section.choice("order", Order::Throughout, &order),
                direct: section.boolean("direct").unwrap_or(false),
                turns: section.boolean("scheduler").unwrap_or(true),
                wait_max: (!wait.is_zero()).then_some(Time(wait.as_nanos() as u64)),
                period: Time(period.as_nanos() as u64),
                dwpp: section.size("period_bytes", 0, 0..=u64::MAX, what) as f64,
                replicas: replicas.is_some(),
            },
            full_waits: section.choice("full", true, &[("wait", true), ("enospc", false)]),
            full_wait: Time(section.span("full_wait", 600 * second, second..=day).as_nanos() as u64),
        },
        limited,
        mtbf: section.span("mtbf", Duration::ZERO, Duration::ZERO..=36_500 * day),
        node_mtbf: section.span("node_mtbf", 5 * 365 * day, second..=36_500 * day),
        cgroups: section.choice("limits", true, &[("auto", true), ("buckets", false)]),
        trim: section.span("trim", Duration::ZERO, Duration::ZERO..=365 * day),
    };
    section.finish();
    config
}

fn patterns(reading: &Reading<'_>, section: &Section<'_, '_, '_>) -> Vec<Pattern> {
    let Some(value) = section.get("checkpoints") else { return Vec::new() };
    let example = "Give a list of texts such as [\"ckpt/{app}/{version}/**\"]";
    let Some(list) = value.get_ref().as_array() else {
        reading.problem(value.span(), "`checkpoints` is no list", example);
        return Vec::new();
    };
    let mut patterns = Vec::new();
    for item in list {
        match item.get_ref().as_str().unwrap_or_default().parse() {
            Ok(pattern) => patterns.push(pattern),
            Err(why) => reading.problem(
                item.span(),
                "a pattern of `checkpoints` is not understood",
                format!("{why}. {example}"),
            ),
        }
    }
    patterns
}

fn scheme(text: &str) -> Result<Scheme, String> {
    let share = |text: &str| text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    match text {
        "bbos" => Ok(Scheme::Bbos),
        "predicted" => Ok(Scheme::Predicted),
        "maxeff" => Ok(Scheme::MaxEff),
        "maxbw" => Ok(Scheme::MaxBw),
        _ => text.strip_prefix("static:").and_then(share).map(Scheme::Static).ok_or_else(|| {
            "Choose bbos, predicted, maxeff, maxbw or static:SHARE with a share from 0 to 1, such as static:0.9".into()
        }),
    }
}
