//! How the figures of simulations are shown.

use super::cache::Output;
use crate::failure::Result;
use crate::shown;
use serde_json::json;
use sim::grid::{Cell, Done, TraceWish};
use sim::setup::Setup;
use sim::simulate::Report;
use sim::world::Sample;
use std::fmt::Write;
use std::path::Path;

/// One run for people.
pub(super) fn text(setup: &Setup, report: &Report) -> String {
    let mut text = String::new();
    let t = &report.reads;
    if setup.has_no_device() {
        let _ = writeln!(text, "world      no device: nothing takes time, {} requests", t.count + report.writes);
        let misses = report.levels.iter().map(|level| 1.0 - level.hit_ratio).next().unwrap_or(0.0);
        let _ = writeln!(text, "misses     {misses:.4} of the blocks read\n");
        levels(&mut text, setup, report);
        return text;
    }
    let arrival = if setup.closed { "closed loop" } else { "open loop" };
    let _ = writeln!(text, "world      {}, {} requests, {:.3} s", arrival, t.count + report.writes, report.span_s);
    let _ = writeln!(
        text,
        "response   mean {:.3} ms, median {:.3}, p95 {:.3}, p99 {:.3}, longest {:.3} ({} reads)",
        t.mean_ms, t.p50_ms, t.p95_ms, t.p99_ms, t.max_ms, t.count
    );
    let _ = writeln!(text, "rate       {:.2} MB/s read by applications", report.read_mb_s);
    if report.writes + report.dropped_writes > 0 {
        let _ = writeln!(text, "writes     {}, {} left out", report.writes, report.dropped_writes);
    }
    let _ = writeln!(
        text,
        "disk       {} requests ({} writes), {:.1} MiB, waited {:.3} ms, busy {:.1} %\n",
        report.disk_requests,
        report.disk_writes,
        report.disk_mib,
        report.disk_wait_ms,
        report.disk_busy * 100.0
    );
    levels(&mut text, setup, report);
    if report.clients.len() > 1 {
        text += "\nclient      reads    mean ms     p95 ms\n";
        for (at, times) in report.clients.iter().enumerate() {
            let _ = writeln!(text, "{at:<6} {:>10} {:>10.3} {:>10.3}", times.count, times.mean_ms, times.p95_ms);
        }
    }
    streams(&mut text, report);
    text
}

fn levels(text: &mut String, setup: &Setup, report: &Report) {
    *text += "level prefetcher        blocks      asked   hit %  prefetched       used       late     wasted     unused  coverage  accuracy    fetches\n";
    for (at, (level, words)) in report.levels.iter().zip(&setup.levels).enumerate() {
        let _ = writeln!(
            text,
            "L{:<4} {:<16} {:>7} {:>10} {:>7.2} {:>11} {:>10} {:>10} {:>10} {:>10} {:>8.1}% {:>8.1}% {:>10}",
            at + 1,
            words.prefetch,
            level.capacity_blocks,
            level.asked,
            level.hit_ratio * 100.0,
            level.prefetched,
            level.prefetch_used,
            level.prefetch_late,
            level.prefetch_wasted,
            level.prefetch_unused,
            level.coverage * 100.0,
            level.accuracy * 100.0,
            level.fetches
        );
        if level.bypassed + level.silent > 0 {
            let _ = writeln!(text, "      PFC bypassed {} blocks, {} silent hits", level.bypassed, level.silent);
        }
    }
}

fn streams(text: &mut String, report: &Report) {
    if report.streams.is_empty() {
        return;
    }
    *text += "\nstream       reads    mean ms longest ms   level by level: hit %, prefetched, wasted\n";
    for stream in &report.streams {
        let _ =
            write!(text, "{:<6} {:>11} {:>10.3} {:>10.3}", stream.stream, stream.reads, stream.mean_ms, stream.max_ms);
        for level in &report.levels {
            let found = level.streams.iter().filter(|of| of.stream == stream.stream);
            for of in found {
                let _ = write!(text, "   {:.1} {} {}", of.hit_ratio * 100.0, of.prefetched, of.prefetch_wasted);
            }
        }
        text.push('\n');
    }
}

/// One run for spreadsheets: a heading and a line.
pub(super) fn csv(setup: &Setup, report: &Report) -> String {
    let levels = setup.levels.iter().enumerate();
    let cell: Cell = levels.map(|(at, level)| (format!("l{}", at + 1), level.prefetch.clone())).collect();
    sim::grid::csv(&[Done { cell, wish: TraceWish::default(), setup: setup.clone(), report: report.clone() }])
}

/// Several runs side by side.
pub(super) fn compared(done: &[Done], output: Output) -> Result<u8> {
    match output {
        Output::Csv => shown::text(&sim::grid::csv(done))?,
        Output::Json => shown::json(&json!({ "cases": done }))?,
        Output::Text => shown::text(&cases(done))?,
    }
    Ok(0)
}

/// Cases as a table; the last column holds each against the first.
pub(super) fn cases(done: &[Done]) -> String {
    let Some(first) = done.first() else { return String::new() };
    let label = |done: &Done| done.cell.values().map(String::as_str).collect::<Vec<_>>().join(" ");
    let width = done.iter().map(|one| label(one).len()).max().unwrap_or(0).max(6);
    let mut text = format!("{:<width$}    mean ms     p95 ms", "policy");
    for level in 1..=first.report.levels.len() {
        let _ = write!(text, "  L{level} hit %  L{level} prefetched   L{level} unused");
    }
    text += "   disk req   disk MiB  to first\n";
    for one in done {
        let report = &one.report;
        let _ = write!(text, "{:<width$} {:>10.3} {:>10.3}", label(one), report.reads.mean_ms, report.reads.p95_ms);
        for level in &report.levels {
            let hit = level.hit_ratio * 100.0;
            let _ = write!(text, "  {hit:>8.2}  {:>13}  {:>10}", level.prefetched, level.prefetch_unused);
        }
        let _ = write!(text, " {:>10} {:>10.1}", report.disk_requests, report.disk_mib);
        if first.report.reads.mean_ms > 0.0 {
            let _ = write!(text, "  {:>+7.1}%", (report.reads.mean_ms / first.report.reads.mean_ms - 1.0) * 100.0);
        }
        text.push('\n');
    }
    text
}

/// Samples as comma-separated values.
pub(super) fn timeline(path: &Path, samples: &[Sample]) -> Result<()> {
    let mut text = String::from("time_s,level,client,stream,inventory_blocks,trigger_distance_blocks,rate_blocks_s\n");
    for s in samples {
        let at = s.at.as_secs_f64();
        let _ = writeln!(
            text,
            "{at:.6},{},{},{},{},{:.3},{:.3}",
            s.level, s.client, s.stream, s.inventory, s.trigger_distance, s.rate
        );
    }
    std::fs::write(path, text)?;
    Ok(())
}
