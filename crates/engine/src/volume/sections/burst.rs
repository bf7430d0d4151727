//! `[burst]`: the fast tier as a buffer for checkpoints.

use super::super::keys::{DAY, SECOND, choice, flag, optional, parsed, rate, section, size, span, tier};
use super::super::section::{Given, Section};
use policy::Time;
use policy::burst::admission;
use policy::burst::buffer::{self, Scheme};
use policy::burst::control::Device;
use policy::burst::pattern::Pattern;
use policy::burst::tables::{Baselines, Order};
use std::time::Duration;

/// A speed that nothing reaches.
const UNLIMITED: f64 = 1e15;

const ORDERS: &[(&str, Order)] = &[
    ("versions", Order::VersionsThenMtbf),
    ("throughout", Order::Throughout),
    ("mtbf", Order::Mtbf),
    ("fifo", Order::Fifo),
    ("lru", Order::Lru),
];

const SIZE: &str = "a size, such as \"2TB\", or 0";

section! {
    /// `[burst]`
    Burst {
        /// The tier that buffers checkpoints. Without this line there is no burst buffer, and the rest is not looked at.
        fast: Option<u8> = optional(tier), "fast" else None;
        /// The tier that they are demoted to; the default is the last.
        capacity: u8 = tier, "capacity" else u8::MAX;
        /// A tier that gets another copy of what was demoted.
        replicas: Option<u8> = optional(tier), "capacity" else None;
        /// Bytes of the buffer; 0 is what the fast tier has.
        size: u64 = size(0..=u64::MAX, SIZE), 0;
        /// Patterns of checkpoint files, with their application and version. `entrepot checkpoint begin` announces others.
        checkpoints: Vec<Pattern> = patterns, ["ckpt/{app}/{version}/**"] else Vec::new();
        /// The policy that sets the rates of writing and demotion: bbos, predicted, maxeff, maxbw, static:0.9.
        policy: Scheme = parsed(scheme), "predicted";
        /// The order in which versions leave: versions, throughout, mtbf, fifo, lru.
        order: Order = choice(ORDERS), "throughout";
        /// Whether applications write one at a time.
        scheduler: bool = flag, true;
        /// Longest time for which an application may be passed over.
        wait: Duration = span(Duration::ZERO..=DAY), "10min";
        /// When the buffer is full a checkpoint waits ("wait") for room, or fails at once ("enospc").
        full: bool = choice(&[("wait", true), ("enospc", false)]), "wait";
        /// The longest wait for room.
        full_wait: Duration = span(SECOND..=DAY), "10min";
        /// Whether checkpoints of applications that hardly ever fail go straight to the capacity tier when more is written
        /// than fits.
        direct: bool = flag, false;
        /// Time after which most applications have written once.
        period: Duration = span(SECOND..=30 * DAY), "1h";
        /// The bytes that the first such period is expected to write.
        period_bytes: u64 = size(0..=u64::MAX, SIZE), 0;
        /// Bytes per second that the devices write beside the least demotion; 0 is no limit for this and the next four.
        write_max: u64 = rate, 0;
        /// Bytes per second that the devices write beside the most demotion.
        write_min: u64 = rate, 0;
        /// Bytes per second that the devices demote at most beside writing.
        demote_max: u64 = rate, 0;
        /// Bytes per second of demotion that cost no write rate.
        demote_min: u64 = rate, 0;
        /// Bytes per second that the devices demote while nothing is written.
        demote_idle: u64 = rate, 0;
        /// Time between failures of an application that gives none (0: learned from its restarts).
        mtbf: Duration = span(Duration::ZERO..=36_500 * DAY), "0s";
        /// Time between failures of one node.
        node_mtbf: Duration = span(SECOND..=36_500 * DAY), "43800h";
        /// Limits are set in control groups where the host has them ("auto"), or by token buckets alone ("buckets").
        cgroups in "limits": bool = choice(&[("auto", true), ("buckets", false)]), "auto";
        /// How often the file systems of the fast tier are trimmed; 0 is never.
        trim: Duration = span(Duration::ZERO..=365 * DAY), "0s";
    }
}

impl Burst {
    pub(in crate::volume) fn checked(section: &Section<'_, '_, '_>) -> Burst {
        let mut burst = Burst::read(section);
        if section.get("capacity").is_none() {
            burst.capacity = section.reading.tiers.borrow().len().saturating_sub(1) as u8;
        } else if burst.fast == Some(burst.capacity) {
            section.problem("capacity", "`capacity` is the tier of `fast`", "Name two tiers");
        }
        let is_ordered = burst.write_max > burst.write_min
            && burst.write_min > 0
            && burst.demote_max > burst.demote_min
            && burst.demote_idle > 0;
        if burst.is_limited() && !is_ordered {
            let mend = "Give all of write_max > write_min > 0, demote_max > demote_min, demote_idle > 0, or none \
                        (docs/guide/operate/checkpoints.md describes how to measure them)";
            section.problem("write_max", "the speeds of `[burst]` do not fit together", mend);
        }
        burst
    }

    /// Whether speeds are limited at all.
    pub fn is_limited(&self) -> bool {
        self.write_max > 0
    }

    /// The machine: rates, order, turns, period, what a full buffer does. Its capacity is known when the volume is open.
    pub fn admission(&self) -> admission::Config {
        let limited = Device {
            write_max: self.write_max as f64,
            write_min: self.write_min as f64,
            demote_max: self.demote_max as f64,
            demote_min: self.demote_min as f64,
            demote_idle: self.demote_idle as f64,
            capacity: 0.0,
        };
        let unlimited = Device {
            write_max: UNLIMITED,
            write_min: UNLIMITED * 0.9,
            demote_max: UNLIMITED * 0.5,
            demote_min: 1.0,
            demote_idle: UNLIMITED,
            capacity: 0.0,
        };
        let time = |span: Duration| Time(span.as_nanos() as u64);
        admission::Config {
            buffer: buffer::Config {
                device: if self.is_limited() { limited } else { unlimited },
                scheme: self.policy,
                order: self.order,
                // A volume keeps demoted copies until room is short, in any order.
                baselines: Baselines::Keep,
                direct: self.direct,
                turns: self.scheduler,
                wait_max: (!self.wait.is_zero()).then_some(time(self.wait)),
                period: time(self.period),
                dwpp: self.period_bytes as f64,
                replicas: self.replicas.is_some(),
            },
            full_waits: self.full,
            full_wait: time(self.full_wait),
        }
    }
}

fn patterns(given: &Given<'_>) -> Result<Vec<Pattern>, String> {
    let example = "Give a list of texts such as [\"ckpt/{app}/{version}/**\"]";
    let list = given.value.as_array().ok_or(example)?;
    let pattern = |text: &str| text.parse().map_err(|why| format!("{why}. {example}"));
    list.iter().map(|item| pattern(item.get_ref().as_str().unwrap_or_default())).collect()
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
