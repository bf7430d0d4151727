//! `entrepot stats`: rates of the mount, a line per interval.

use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, Output};
use clap::Args;
use engine::stats::{Metric, OpCounts, Snapshot};
use node::control::answers::{self, read};
use node::control::{Client, Problem, Request};
use std::time::Duration;

/// Show the activity of the mount, line by line: reads, writes, other operations, moves, recovery
///
/// The first line has means since the start of the daemon, each further line those of the interval.
#[derive(Debug, Args)]
#[command(after_help = "\
COLUMNS:
  read, write   bytes per second, and operations per second
  other         other operations per second (create, stat, ...), and how many of all failed
  wait          mean time of a read and of a write
  move, heal    bytes per second that the mover copied, and that recovery fetched

EXAMPLES:
  entrepot stats
  entrepot stats --interval 5s --count 12
  entrepot stats --count 1 --output json
  entrepot stats --prometheus > /var/lib/node_exporter/entrepot.prom")]
pub struct Stats {
    /// Lines to show; without it, until interrupted.
    #[arg(long, short = 'c', value_name = "N")]
    count: Option<u64>,
    /// Time between two lines.
    #[arg(long, short = 'i', default_value = "1s", value_parser = humantime::parse_duration)]
    interval: Duration,
    /// All metrics once, in Prometheus' text format.
    #[arg(long)]
    prometheus: bool,
    /// Format of the output; `json` has all counters since the start, one object per line.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

/// Lines between two headings, for terminals that scroll.
const HEADING_EVERY: u64 = 20;

const HEADING: &str = "\
----------read---------- ---------write---------- ---other--- ------wait----- ---move-- ---heal--
     bytes/s       ops/s      bytes/s       ops/s  ops/s fail    read   write   bytes/s   bytes/s
";

impl Stats {
    pub fn run(self, context: &Context) -> Result<u8> {
        let mut client = context.connect()?;
        if self.prometheus {
            shown::text(&ask(&mut client)?.prometheus)?;
            return Ok(0);
        }
        if self.interval.is_zero() {
            return Err(Problem::wrong("--interval 0s shows nothing").try_this("give at least 1ms").into());
        }
        let mut before = Snapshot::default();
        let mut shown_lines = 0;
        loop {
            let now = ask(&mut client)?.snapshot;
            match self.output {
                Output::Json => shown::json_line(&now)?,
                Output::Text => {
                    if shown_lines % HEADING_EVERY == 0 {
                        shown::text(HEADING)?;
                    }
                    shown::text(&line(&before, &now))?;
                }
            }
            shown_lines += 1;
            if self.count.is_some_and(|count| shown_lines >= count) {
                return Ok(0);
            }
            before = now;
            std::thread::sleep(self.interval);
        }
    }
}

fn ask(client: &mut Client) -> Result<answers::Stats> {
    Ok(read(client.ask(&Request::Stats {}, &mut |_| {})?)?)
}

fn line(before: &Snapshot, now: &Snapshot) -> String {
    let span_s = (now.uptime_ns.saturating_sub(before.uptime_ns) as f64 / 1e9).max(1e-9);
    let change = |of: fn(&str) -> bool, counter: fn(&OpCounts) -> u64| {
        let sum = |snapshot: &Snapshot| snapshot.ops.iter().filter(|op| of(&op.op)).map(counter).sum::<u64>();
        sum(now).saturating_sub(sum(before))
    };
    let rate = |of| change(of, |op| op.count) as f64 / span_s;
    let size = |n: u64| shown::bytes((n as f64 / span_s) as u64);
    let moved = |of| size(change(of, |op| op.bytes));
    let mean = |of| shown::mean_span(change(of, |op| op.total_ns), change(of, |op| op.count));
    let number = |metric| size(now.number(metric).saturating_sub(before.number(metric)));
    let kinds: [fn(&str) -> bool; 3] = [|op| op == "read", |op| op == "write", |op| op != "read" && op != "write"];
    let [read, write, other] = kinds;
    let failed: u64 = kinds.into_iter().map(|of| change(of, |op| op.failed)).sum();
    format!(
        "{:>12} {:>11.0} {:>12} {:>11.0} {:>6.0} {:>4} {:>7} {:>7} {:>9} {:>9}\n",
        moved(read),
        rate(read),
        moved(write),
        rate(write),
        rate(other),
        failed,
        mean(read),
        mean(write),
        number(Metric::MoverBytes),
        number(Metric::RecoveryBytes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(uptime_s: u64, count: u64, bytes: u64) -> Snapshot {
        let read = OpCounts { op: "read".into(), count, bytes, total_ns: count * 5_000, ..OpCounts::default() };
        Snapshot { uptime_ns: uptime_s * 1_000_000_000, ops: vec![read], ..Snapshot::default() }
    }

    #[test]
    fn a_line_shows_the_interval_and_fits_under_its_heading() {
        let shown = line(&at(10, 100, 1 << 20), &at(12, 300, 5 << 20));
        assert!(shown.contains("2.0 MiB         100"), "{shown}");
        assert!(shown.contains("5 us"), "{shown}");
        assert_eq!(shown.len(), HEADING.lines().nth(1).unwrap().len() + 1, "{shown}{HEADING}");
    }
}
