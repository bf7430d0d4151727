//! `entrepot-lab sim replacement`: miss ratios of replacement policies.

use super::traces::TraceArgs;
use super::{remark, setup_problem, survey_problem};
use crate::chart::{Along, Chart, Series, Shape};
use crate::command::{plot::plottable, seconds, write_file};
use crate::failure::Result;
use crate::table::{self, Answer, Column, Output, column};
use clap::Args;
use node::control::Problem;
use rustix::time::ClockId;
use serde_json::json;
use sim::replacement::{Curve, Point, Policy, Samples, Sequence, capacities, curves};
use sim::setup::Size;
use std::path::PathBuf;

/// Compare replacement policies: miss ratios over cache sizes, without prefetching and times
///
/// Each block that a request touches is one access, reads and writes alike. The trace is decoded once and kept in
/// memory, four bytes for each access. A trace whose accounts do not close is refused, and each cache's hits and misses
/// add up to the accesses. Policies have the parameters and the misses of libCacheSim.
#[derive(Debug, Args)]
#[command(after_help = "\
POLICIES:
  fifo  lru  clock  lfu  2q  arc  lirs  s3-fifo  sieve  w-tinylfu
  s3-fifo:libcachesim, w-tinylfu:libcachesim: caches of fewer than 20 or 100 blocks keep nothing
  belady: offline, the block whose next access is farthest leaves

EXAMPLES:
  entrepot-lab sim replacement --trace OLTP.lis.zst --policy lru,arc,s3-fifo --size 1000,5%
  entrepot-lab sim replacement --trace cs.trace.gz --format lirs --curve --output csv
  entrepot-lab sim replacement --generate zipf:theta=1.0 --curve --sample 0.01
  entrepot-lab sim replacement --generate zipf --policy lru,arc,sieve --curve --plot curve.svg")]
pub struct Replacement {
    #[command(flatten)]
    traces: TraceArgs,
    /// Policies, separated by commas.
    #[arg(
        long,
        value_name = "POLICIES",
        default_value = "fifo,lru,clock,lfu,2q,arc,lirs,s3-fifo,sieve,w-tinylfu,belady"
    )]
    policy: String,
    /// Sizes, separated by commas: parts of the footprint, bytes, or blocks.
    #[arg(long, value_name = "SIZES", default_value = "1%,5%,10%,20%")]
    size: String,
    /// Miss-ratio curves: twenty sizes from 0.1 % to all of the footprint, in equal ratios.
    #[arg(long, conflicts_with = "size")]
    curve: bool,
    /// Estimate the miss ratios from this share of the blocks, with an error of two standard errors.
    #[arg(long, value_name = "SHARE")]
    sample: Option<f64>,
    /// Number of samples of an estimate.
    #[arg(long, value_name = "N", default_value_t = 5, requires = "sample", value_parser = clap::value_parser!(u64).range(2..=1000))]
    samples: u64,
    /// Size of a block.
    #[arg(long, default_value = "4KiB", value_name = "SIZE", value_parser = super::words::size)]
    block: u64,
    /// Leave writes out.
    #[arg(long)]
    reads_only: bool,
    /// Also draw the miss ratios as an SVG file: lines of a curve, otherwise bars for each size.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Caches that run side by side; without it, as many as there are cores.
    #[arg(long, value_name = "N", value_parser = super::words::threads)]
    threads: Option<usize>,
    /// How to write it.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl Replacement {
    pub fn answer(&self) -> Result<Answer> {
        let policies = self.policies()?;
        let block = u32::try_from(self.block).ok().filter(|block| block % 512 == 0);
        let block = block.ok_or_else(|| Problem::wrong("--block is no multiple of 512 below 4 GiB"))?;
        if self.sample.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
            return Err(Problem::wrong("--sample is a share of the blocks above 0 and at most 1").into());
        }
        if let Some(path) = &self.plot {
            plottable(path)?;
        }
        let sizes: Vec<Size> = self
            .size
            .split(',')
            .map(|text| text.trim().parse::<Size>())
            .collect::<std::result::Result<_, _>>()
            .map_err(|error| setup_problem(&error))?;
        let (began, sequence) = (seconds(ClockId::ProcessCPUTime), self.sequence(block)?);
        let decoded = seconds(ClockId::ProcessCPUTime) - began;
        let [requests, accesses, blocks] =
            [sequence.requests(), sequence.accesses().len() as u64, sequence.blocks() as u64];
        let speed = accesses as f64 / decoded / 1e6;
        say(&format!(
            "trace      {requests} requests, {accesses} accesses to {blocks} blocks; decoded at {speed:.2} million \
             accesses per CPU-second"
        ))?;
        let capacities = capacities((!self.curve).then_some(&sizes[..]), &sequence, block);
        let began = seconds(ClockId::ProcessCPUTime);
        let samples = self.sample.map(|share| Samples::draw(&sequence, share, self.samples));
        let curves = curves(&policies, &capacities, &sequence, samples.as_ref(), self.threads);
        let took = seconds(ClockId::ProcessCPUTime) - began;
        let caches = policies.len() * capacities.len();
        say(&format!("simulated  {caches} caches in {took:.3} CPU-seconds"))?;
        if let Some(path) = &self.plot {
            write_file(path, &self.drawn(&curves, block))?;
        }
        let worst = curves.iter().flat_map(|curve| &curve.points).map(|point| point.error).fold(0.0, f64::max);
        if self.sample.is_some() {
            say(&format!("error      at most {worst:.4} (two standard errors over {} samples)", self.samples))?;
        }
        Ok(self.shown(&curves, &capacities, &sequence))
    }

    fn drawn(&self, curves: &[Curve], block: u32) -> String {
        let sizes = curves[0].points.iter().map(|point| point.capacity.to_string()).collect();
        let series = curves.iter().map(|curve| Series {
            label: curve.policy.text().to_owned(),
            points: (curve.points.iter().enumerate())
                .map(|(at, point)| (if self.curve { point.capacity } else { at } as f64, point.miss_ratio))
                .collect(),
        });
        let chart = Chart {
            title: if self.sample.is_some() { "Estimated miss ratios" } else { "Miss ratios" },
            x: &format!("size of the cache (blocks of {block} bytes)"),
            y: "misses / accesses",
            along: if self.curve { Along::Logarithmic } else { Along::Labels(sizes) },
            shape: if self.curve { Shape::Lines } else { Shape::Bars },
            series: series.collect(),
        };
        chart.document()
    }

    fn policies(&self) -> Result<Vec<Policy>> {
        let words = self.policy.split(',').map(str::trim).filter(|word| !word.is_empty());
        let named = words.map(|word| {
            Policy::named(word).ok_or_else(|| {
                Problem::wrong(format!("there is no replacement policy `{word}`"))
                    .so("nothing was simulated")
                    .try_this(format!("choose some of {}", Policy::names()))
            })
        });
        Ok(named.collect::<std::result::Result<_, _>>()?)
    }

    fn sequence(&self, block: u32) -> Result<Sequence> {
        let traces = self.traces.named(block)?;
        let readers = traces.iter().map(|trace| trace.opener.open()).collect::<std::result::Result<Vec<_>, _>>();
        let readers = readers.map_err(|error| super::super::trace::problem(&error))?;
        let read = Sequence::read(readers, block, self.traces.limit_requests, self.reads_only);
        let (sequence, accounts) = read.map_err(|error| survey_problem(&error))?;
        for account in accounts.iter().filter(|account| account.skipped_sum() > 0) {
            say(&format!("skipped    {} malformed records", account.skipped_sum()))?;
        }
        Ok(sequence)
    }

    fn shown(&self, curves: &[Curve], capacities: &[usize], sequence: &Sequence) -> Answer {
        type Row<'a> = (&'a Curve, &'a Point);
        let rows: Vec<Row<'_>> =
            curves.iter().flat_map(|curve| curve.points.iter().map(move |point| (curve, point))).collect();
        match self.output {
            Output::Json => {
                let points = rows.iter().map(|(curve, point)| {
                    json!({ "policy": curve.policy.text(), "blocks": point.capacity, "miss_ratio": point.miss_ratio,
                        "error": self.sample.map(|_| point.error), "accounts": point.tally })
                });
                let [requests, accesses, bytes] =
                    [sequence.requests(), sequence.accesses().len() as u64, sequence.bytes()];
                let points: Vec<_> = points.collect();
                Answer::Json(json!({ "requests": requests, "accesses": accesses, "bytes": bytes, "points": points }))
            }
            Output::Csv => {
                let columns = [
                    column("policy", |(curve, _): &Row<'_>| curve.policy.text()),
                    column("blocks", |(_, point): &Row<'_>| point.capacity),
                    column("miss_ratio", |(_, point): &Row<'_>| point.miss_ratio).digits(6),
                    column("error", |(_, point): &Row<'_>| point.error).digits(6),
                ];
                Answer::Text(table::csv(&columns, &rows))
            }
            Output::Text if self.curve => {
                let sizes: Vec<_> = (0..capacities.len()).collect();
                let first = column("", |at: &usize| capacities[*at]).shown("blocks", 0);
                let others = curves
                    .iter()
                    .map(|curve| column("", |at: &usize| curve.points[*at].miss_ratio).shown(curve.policy.text(), 4));
                let columns: Vec<Column<'_, usize>> = std::iter::once(first).chain(others).collect();
                Answer::Text(table::text(&columns, &sizes))
            }
            Output::Text => {
                let first = column("", |curve: &Curve| curve.policy.text()).shown("misses at", 0);
                let others = (0..capacities.len()).map(|at| {
                    column("", move |curve: &Curve| curve.points[at].miss_ratio)
                        .shown(format!("{}", curves[0].points[at].capacity), 4)
                });
                let columns: Vec<Column<'_, Curve>> = std::iter::once(first).chain(others).collect();
                Answer::Text(table::text(&columns, curves))
            }
        }
    }
}

/// Writes a remark to standard error.
fn say(text: &str) -> Result<()> {
    remark(Output::Json, &format!("{text}\n"))
}
