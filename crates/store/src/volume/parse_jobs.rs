//! The sections of a `volume.toml` about jobs and their data: `[jobs]`, `[replication]`, `[purge]`.

use super::config::{Jobs, Offload, Purge, QueueName, Replication, ReplicationPolicy};
use super::section::{Reading, Section};
use policy::protect::window::Share;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

pub fn jobs(section: Section<'_, '_, '_>) -> Jobs {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let jobs = Jobs {
        cores: section.count("cores", cores, 1..=65_536) as usize,
        dataxfer_concurrent: section.count("dataxfer_concurrent", 2, 1..=1024) as usize,
        check_before_job: section.boolean("check_before_job").unwrap_or(true),
        // As in the simulator of a centre.
        check_every: section.span("check_every", Duration::from_secs(300), Duration::from_millis(100)..=DAY),
        slurm_user: section.string("slurm_user").map_or_else(String::new, |(name, _)| name),
        offload: section.choice(
            "offload",
            Offload::AtEnd,
            &[("at-end", Offload::AtEnd), ("on-close", Offload::OnClose)],
        ),
        just_in_time: section.choice("stage_in", false, &[("at-once", false), ("just-in-time", true)]),
        // Guesses, all four: see `policy::schedule::just_in_time::Config`.
        stage_in_margin: section.span("stage_in_margin", Duration::from_secs(300), Duration::ZERO..=30 * DAY),
        stage_in_early: section.span("stage_in_early", Duration::from_secs(3600), Duration::ZERO..=30 * DAY),
        source_rate: section.size("source_rate", 10_000_000, 1..=1 << 50, "bytes per second, such as \"10MB\""),
        queue_poll: section.span(
            "queue_poll",
            Duration::from_secs(5),
            Duration::from_millis(100)..=Duration::from_secs(3600),
        ),
        fail_when_full: section.choice("when_full", false, &[("wait", false), ("fail", true)]),
        keep_free: section.size("keep_free", 0, 0..=1 << 60, "a size, such as \"10GB\""),
    };
    section.finish();
    jobs
}

/// The published values: alpha 0.2, T 0.01 and five seconds; two seconds between looks are a guess.
pub fn replication(reading: &Reading<'_>, section: Section<'_, '_, '_>) -> Replication {
    let second = Duration::from_secs(1);
    let replication = Replication {
        policy: section.choice(
            "policy",
            ReplicationPolicy::None,
            &[
                ("none", ReplicationPolicy::None),
                ("fcfs", ReplicationPolicy::Fcfs),
                ("shortcut", ReplicationPolicy::Shortcut),
                ("all", ReplicationPolicy::All),
            ],
        ),
        alpha: share(reading, &section, "alpha", Share::millionths(200_000)),
        threshold: share(reading, &section, "threshold", Share::millionths(10_000)),
        delay: section.span("delay", 5 * second, Duration::ZERO..=DAY),
        poll: section.span("poll", 2 * second, Duration::from_millis(100)..=3600 * second),
        eager: section.choice("remove", true, &[("eager", true), ("job-end", false)]),
        queue: section.choice(
            "queue",
            QueueName::Local,
            &[("local", QueueName::Local), ("slurm", QueueName::Slurm), ("pbs", QueueName::Pbs)],
        ),
    };
    section.finish();
    replication
}

/// A share of the system, as a text such as "0.2" or "inf", or as a number.
fn share(reading: &Reading<'_>, section: &Section<'_, '_, '_>, key: &'static str, default: Share) -> Share {
    let Some(value) = section.get(key) else { return default };
    let inner = value.get_ref();
    let text = inner.as_str().map(str::to_owned);
    let text = text.or_else(|| inner.as_float().map(|f| f.as_str().replace('_', "")));
    let text = text.or_else(|| inner.as_integer().map(|i| i.as_str().replace('_', "")));
    match text.and_then(|text| text.parse().ok()) {
        Some(share) => share,
        None => {
            let cause = format!("`{key}` is no share of the system's nodes");
            reading.problem(
                value.span(),
                cause,
                "Give a number from 0 with at most six digits behind the point, or \"inf\"",
            );
            default
        }
    }
}

pub fn purge(reading: &Reading<'_>, section: Section<'_, '_, '_>) -> Purge {
    let purge = Purge {
        age: section.span("age", Duration::ZERO, Duration::ZERO..=36_500 * DAY),
        high_percent: section.count("high_percent", 100, 1..=100) as u32,
        low_percent: section.count("low_percent", 80, 0..=100) as u32,
        every: section.span("every", Duration::ZERO, Duration::ZERO..=365 * DAY),
    };
    if purge.low_percent > purge.high_percent {
        let span = section.get("low_percent").or(section.get("high_percent")).map_or(0..0, |value| value.span());
        let cause = format!("`low_percent` is {} and `high_percent` {}", purge.low_percent, purge.high_percent);
        reading.problem(
            span,
            cause,
            "Give a lower `low_percent`: purging begins at the high one and ends at the low one",
        );
    }
    section.finish();
    purge
}
