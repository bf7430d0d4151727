//! `entrepot stats`: rates of the mount, a line per interval.

use crate::connect::Context;
use crate::failure::Result;
use crate::shown::{self, Output};
use clap::Args;
use engine::stats::{Metric, Snapshot};
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

/// Sums over the operations of one kind.
#[derive(Clone, Copy, Default)]
struct Sum {
    count: u64,
    failed: u64,
    bytes: u64,
    total_ns: u64,
}

fn sum(snapshot: &Snapshot, of: impl Fn(&str) -> bool) -> Sum {
    snapshot.ops.iter().filter(|op| of(&op.op)).fold(Sum::default(), |sum, op| Sum {
        count: sum.count + op.count,
        failed: sum.failed + op.failed,
        bytes: sum.bytes + op.bytes,
        total_ns: sum.total_ns + op.total_ns,
    })
}

fn line(before: &Snapshot, now: &Snapshot) -> String {
    let span_s = (now.uptime_ns.saturating_sub(before.uptime_ns) as f64 / 1e9).max(1e-9);
    let change = |of: &dyn Fn(&str) -> bool| {
        let (b, n) = (sum(before, of), sum(now, of));
        Sum {
            count: n.count.saturating_sub(b.count),
            failed: n.failed.saturating_sub(b.failed),
            bytes: n.bytes.saturating_sub(b.bytes),
            total_ns: n.total_ns.saturating_sub(b.total_ns),
        }
    };
    let rate = |n: u64| n as f64 / span_s;
    let size = |n: u64| shown::bytes(rate(n) as u64);
    let number = |metric| now.number(metric).saturating_sub(before.number(metric));
    let (read, write) = (change(&|op| op == "read"), change(&|op| op == "write"));
    let other = change(&|op| op != "read" && op != "write");
    let failed = read.failed + write.failed + other.failed;
    format!(
        "{:>12} {:>11.0} {:>12} {:>11.0} {:>6.0} {:>4} {:>7} {:>7} {:>9} {:>9}\n",
        size(read.bytes),
        rate(read.count),
        size(write.bytes),
        rate(write.count),
        rate(other.count),
        failed,
        mean(read),
        mean(write),
        size(number(Metric::MoverBytes)),
        size(number(Metric::RecoveryBytes)),
    )
}

fn mean(sum: Sum) -> String {
    shown::mean_span(sum.total_ns, sum.count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::stats::OpCounts;

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
