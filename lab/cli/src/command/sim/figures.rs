//! Formats the figures of simulations.

use crate::command::write_file;
use crate::failure::Result;
use crate::table::{self, Answer, Column, Output, column};
use serde::Serialize;
use serde_json::json;
use sim::grid::Cell;
use sim::setup::{LevelSetup, Setup};
use sim::simulate::{LevelFigures, Report, Times, rounded};
use sim::world::{Answered, Sample};
use std::fmt::Write;
use std::path::Path;

/// A case and its report.
#[derive(Serialize)]
pub(super) struct Done {
    pub cell: Cell,
    pub setup: Setup,
    pub report: Report,
}

/// Formats one run as text.
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
        let rows: Vec<_> = report.clients.iter().enumerate().collect();
        let columns = [
            column("", |(at, _): &(usize, &Times)| *at).shown("client", 0),
            column("", |(_, of): &(usize, &Times)| of.count).shown("reads", 0),
            column("", |(_, of): &(usize, &Times)| of.mean_ms).shown("mean ms", 3),
            column("", |(_, of): &(usize, &Times)| of.p95_ms).shown("p95 ms", 3),
        ];
        text += &format!("\n{}", table::text(&columns, &rows));
    }
    streams(&mut text, report);
    text
}

fn levels(text: &mut String, setup: &Setup, report: &Report) {
    type Row<'a> = (usize, &'a LevelFigures, &'a LevelSetup);
    let rows = report.levels.iter().zip(&setup.levels).enumerate();
    let rows: Vec<Row<'_>> = rows.map(|(at, (level, words))| (at, level, words)).collect();
    let columns = [
        column("", |(at, ..): &Row<'_>| format!("L{}", at + 1)).shown("level", 0),
        column("", |(.., words): &Row<'_>| words.prefetch.clone()).shown("prefetcher", 0),
        column("", |(_, of, _): &Row<'_>| of.capacity_blocks).shown("blocks", 0),
        column("", |(_, of, _): &Row<'_>| of.asked).shown("asked", 0),
        column("", |(_, of, _): &Row<'_>| of.hit_ratio).percent("hit %", 2),
        column("", |(_, of, _): &Row<'_>| of.prefetched).shown("prefetched", 0),
        column("", |(_, of, _): &Row<'_>| of.prefetch_used).shown("used", 0),
        column("", |(_, of, _): &Row<'_>| of.prefetch_late).shown("late", 0),
        column("", |(_, of, _): &Row<'_>| of.prefetch_wasted).shown("wasted", 0),
        column("", |(_, of, _): &Row<'_>| of.prefetch_unused).shown("unused", 0),
        column("", |(_, of, _): &Row<'_>| of.coverage).percent("coverage %", 1),
        column("", |(_, of, _): &Row<'_>| of.accuracy).percent("accuracy %", 1),
        column("", |(_, of, _): &Row<'_>| of.fetches).shown("fetches", 0),
    ];
    *text += &table::text(&columns, &rows);
    for (at, of, _) in rows.iter().filter(|(_, of, _)| of.bypassed + of.silent > 0) {
        let _ = writeln!(text, "L{}: PFC bypassed {} blocks, {} silent hits", at + 1, of.bypassed, of.silent);
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

/// Formats one run as CSV: a heading and a line.
pub(super) fn csv_of_one(setup: &Setup, report: &Report) -> String {
    let levels = setup.levels.iter().enumerate();
    let cell: Cell = levels.map(|(at, level)| (format!("l{}", at + 1), level.prefetch.clone())).collect();
    csv(&[Done { cell, setup: setup.clone(), report: report.clone() }])
}

/// Formats several runs for comparison.
pub(super) fn compared(done: &[Done], output: Output) -> Answer {
    match output {
        Output::Csv => Answer::Text(csv(done)),
        Output::Json => Answer::Json(json!({ "cases": done })),
        Output::Text => Answer::Text(cases(done)),
    }
}

/// Formats cases as a table; the last column compares each with the first.
fn cases(done: &[Done]) -> String {
    let Some(first) = done.first() else { return String::new() };
    let label = |one: &Done| one.cell.values().map(String::as_str).collect::<Vec<_>>().join(" ");
    let mut columns = vec![column("", label).shown("policy", 0)];
    columns.extend(figures(first.report.levels.len()));
    let first_ms = first.report.reads.mean_ms;
    if first_ms > 0.0 {
        let change = move |one: &Done| one.report.reads.mean_ms / first_ms - 1.0;
        columns.push(column("", move |one| format!("{:+.1}%", change(one) * 100.0)).shown("to first", 0));
    }
    table::text(&columns, done)
}

/// Formats cases as CSV: axes and figures.
fn csv(done: &[Done]) -> String {
    let Some(first) = done.first() else { return String::new() };
    let axis = |axis| column(axis, move |one: &Done| one.cell.get(axis).cloned().unwrap_or_default());
    let mut columns: Vec<_> = first.cell.keys().map(axis).collect();
    columns.extend(figures(first.report.levels.len()));
    table::csv(&columns, done)
}

fn figures(levels: usize) -> Vec<Column<'static, Done>> {
    let mut columns = vec![
        column("reads", |one: &Done| one.report.reads.count),
        column("mean_ms", |one: &Done| rounded(one.report.reads.mean_ms)).shown("mean ms", 3),
        column("p50_ms", |one: &Done| rounded(one.report.reads.p50_ms)),
        column("p95_ms", |one: &Done| rounded(one.report.reads.p95_ms)).shown("p95 ms", 3),
        column("p99_ms", |one: &Done| rounded(one.report.reads.p99_ms)),
        column("disk_requests", |one: &Done| one.report.disk_requests).shown("disk req", 0),
        column("disk_mib", |one: &Done| rounded(one.report.disk_mib)).shown("disk MiB", 1),
        column("disk_busy", |one: &Done| rounded(one.report.disk_busy)),
    ];
    for at in 0..levels {
        let (n, of) = (at + 1, move |one: &Done| one.report.levels[at].clone());
        columns.extend([
            column(format!("l{n}_hit_ratio"), move |one| rounded(of(one).hit_ratio)).percent(format!("L{n} hit %"), 2),
            column(format!("l{n}_prefetched"), move |one| of(one).prefetched).shown(format!("L{n} prefetched"), 0),
            column(format!("l{n}_unused"), move |one| of(one).prefetch_unused).shown(format!("L{n} unused"), 0),
            column(format!("l{n}_coverage"), move |one| rounded(of(one).coverage)),
            column(format!("l{n}_accuracy"), move |one| rounded(of(one).accuracy)),
        ]);
    }
    columns
}

/// Writes samples as comma-separated values.
pub(super) fn timeline(path: &Path, samples: &[Sample]) -> Result<()> {
    let columns = [
        column("time_s", |s: &Sample| s.at.as_secs_f64()).digits(6),
        column("level", |s: &Sample| s.level),
        column("client", |s: &Sample| s.client),
        column("stream", |s: &Sample| s.stream),
        column("inventory_blocks", |s: &Sample| s.inventory),
        column("trigger_distance_blocks", |s: &Sample| s.trigger_distance).digits(3),
        column("rate_blocks_s", |s: &Sample| s.rate).digits(3),
    ];
    write_file(path, &table::csv(&columns, samples))
}

/// Writes the answered requests, in the order of their answers.
pub(super) fn log(path: &Path, answered: &[Answered]) -> Result<()> {
    let columns = [
        column("time_s", |of: &Answered| of.at.as_secs_f64()).digits(9),
        column("client", |of: &Answered| of.client),
        column("stream", |of: &Answered| of.stream),
        column("file", |of: &Answered| of.span.first.file()),
        column("first_block", |of: &Answered| of.span.first.index()),
        column("blocks", |of: &Answered| of.span.len),
        column("op", |of: &Answered| if of.write { "write" } else { "read" }),
        column("response_ms", |of: &Answered| of.took.as_secs_f64() * 1e3).digits(6),
    ];
    write_file(path, &table::csv(&columns, answered))
}
