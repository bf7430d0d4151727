//! `entrepot-lab trace stats`: the census of a trace.

use super::{Reading, failed};
use crate::failure::{Failure, Result};
use crate::shown::{self, Output};
use crate::table::Answer;
use clap::Args;
use node::control::Problem;
use policy::time::Time;
use serde_json::json;
use sim::trace::{self, Accounting, Census, Format, Identity, Report, Windows, WindowsReport};
use std::fmt::Write;
use std::path::PathBuf;

/// Count a trace: requests, reads, footprint, sequentiality, rates, span
///
/// Every line is accounted for: it is a record, was passed over for a stated reason, or was malformed.
#[derive(Debug, Args)]
#[command(after_help = "\
EXAMPLES:
  entrepot-lab trace stats Financial1.spc
  entrepot-lab trace stats sda.blktrace.0 sda.blktrace.1     files of several CPUs or clients, merged by time
  entrepot-lab trace stats Financial1.spc --window 10ms      how much is asked for per window
  entrepot-lab trace stats P3.lis.zst --block-size 512 --output json")]
pub(super) struct Stats {
    /// The trace; several files are merged by time.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Also cut it into windows of this length and show how the amounts asked for are distributed, beside a gamma
    /// distribution.
    #[arg(long, value_name = "TIME", value_parser = window)]
    window: Option<Time>,
    #[command(flatten)]
    reading: Reading,
    /// How to write it.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl Stats {
    pub(super) fn run(self) -> Result<u8> {
        self.answer()?.write()
    }

    pub(super) fn answer(&self) -> Result<Answer> {
        let options = self.reading.options();
        let identity = trace::identify(&self.files[0], &options).map_err(failed)?;
        let mut reader = trace::open_all(&self.files, &options).map_err(failed)?;
        let mut census = Census::new(identity.block_bytes);
        let mut windows = self.window.map(|width| Windows::new(width.0));
        for record in reader.by_ref() {
            let record = record.map_err(failed)?;
            census.add(&record);
            if let Some(windows) = &mut windows {
                windows.add(&record);
            }
        }
        let accounting = reader.accounting();
        if !census.agrees(accounting) {
            let cause =
                format!("the accounts do not close: {} lines, {} records", accounting.lines, accounting.records);
            let problem = Problem::failed(cause).so("the figures can't be trusted and are not shown");
            return Err(Failure::Problem(problem.try_this("report this with the trace; the reader is wrong")));
        }
        let report = census.report();
        let windows = windows.map(Windows::report);
        Ok(match self.output {
            Output::Json => Answer::Json(json!({
                "format": identity.format,
                "units": identity.format.units(),
                "accounting": accounting,
                "census": report,
                "windows": windows,
            })),
            Output::Text => {
                let shown = text(identity, reader.has_times(), options.block_bytes.is_none(), accounting, &report);
                Answer::Text(shown + &windows.as_ref().map(distribution).unwrap_or_default())
            }
        })
    }
}

fn text(identity: Identity, has_times: bool, block_assumed: bool, accounting: &Accounting, r: &Report) -> String {
    let mut out = String::new();
    let mut line = |what: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(out, "{what:<12}{value}");
    };
    let format: Format = identity.format;
    let assumed =
        if format.needs_block_bytes() && block_assumed { "; a block is taken as so many bytes: " } else { "" };
    let block = if assumed.is_empty() { String::new() } else { format!("{assumed}{}", identity.block_bytes) };
    line("format", format!("{format}: {}{block}", format.units()));
    line("lines", format!("{} = {} records{}", accounting.lines, accounting.records, parts(accounting)));
    for (reason, count, first) in accounting.skipped() {
        line("  skipped", format!("{count} {}, first at line {first}", reason.text()));
    }
    let share = |part: u64| if r.requests == 0 { 0.0 } else { 100.0 * part as f64 / r.requests as f64 };
    line("requests", format!("{}: {} reads ({:.2} %), {} writes", r.requests, r.reads, share(r.reads), r.writes));
    if r.trims + r.syncs > 0 {
        line("others", format!("{} trims, {} syncs", r.trims, r.syncs));
    }
    line("data", format!("{} read, {} written", shown::bytes(r.read_bytes), shown::bytes(r.write_bytes)));
    line("size", format!("mean {:.0} B, {} to {}", r.length_mean_bytes, r.length_min_bytes, r.length_max_bytes));
    line("references", format!("{} to blocks of {} B", r.references, r.block_bytes));
    let least = if r.footprint_exact { "" } else { "at least " };
    line("footprint", format!("{least}{}, {} blocks", shown::bytes(r.footprint_bytes), r.footprint_blocks));
    line(
        "sequential",
        format!(
            "{:.1} % strictly, {:.1} % within 32 requests of a device",
            100.0 * r.sequential_strict,
            100.0 * r.sequential_streams
        ),
    );
    line(
        "addresses",
        format!(
            "{} devices, {} files, {} clients, up to {}",
            r.devices,
            r.files,
            r.clients,
            shown::bytes(r.address_end_bytes)
        ),
    );
    if !has_times {
        line("span", "no times: closed loop only".into());
        return out;
    }
    if r.span_s == 0.0 {
        line("span", format!("none: all at {:.3} s", r.first_ns as f64 / 1e9));
        return out;
    }
    line("span", format!("{:.3} s, from {:.3} s", r.span_s, r.first_ns as f64 / 1e9));
    line(
        "rates",
        format!(
            "{:.1} requests/s, {}/s, gaps vary by {:.2}",
            r.records_per_s,
            shown::bytes(r.bytes_per_s as u64),
            r.gap_variation
        ),
    );
    if r.out_of_order > 0 {
        line("order", format!("{} records are earlier than the one before; --sort mends it", r.out_of_order));
    }
    out
}

fn window(text: &str) -> std::result::Result<Time, String> {
    let width = sim::setup::duration("window", text).map_err(|error| error.why)?;
    if width > Time::ZERO { Ok(width) } else { Err("a window has a length, like 10ms".into()) }
}

/// Most bars of a histogram.
const BARS: u64 = 20;

/// Histogram of the bytes requested per window, up to the 99th percentile.
fn distribution(windows: &WindowsReport) -> String {
    let full = windows.windows - windows.empty;
    let ms = windows.width_ns as f64 / 1e6;
    let mut out = format!(
        "\nwindows     {} of {ms} ms, {} of them with nothing; {:.1} KiB in the others, deviation {:.1}, most often {} KiB\n",
        windows.windows, windows.empty, windows.mean_kib, windows.deviation_kib, windows.mode_kib
    );
    if full == 0 || windows.gamma_shape == 0.0 {
        return out + "gamma       none: the amounts do not differ\n";
    }
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "gamma       shape {:.2}, scale {:.2} KiB, peak at {:.1} KiB; off by {:.1} % at most, by {:.1} % from the peak on\n",
        windows.gamma_shape,
        windows.gamma_scale_kib,
        windows.gamma_peak_kib,
        windows.distance * 100.0,
        windows.distance_above_peak * 100.0
    );
    let mut left = full / 100;
    let shown = windows.histogram.iter().rev().find(|(_, count, _)| {
        let all = left >= *count;
        left = left.saturating_sub(*count);
        !all
    });
    let end = shown.map_or(1, |(kib, ..)| *kib);
    let width = end.div_ceil(BARS);
    let _ = writeln!(out, "{:>11}  {:>9} {:>9}", "KiB", "windows", "gamma");
    for from in (0..end).step_by(width as usize) {
        let within = windows.histogram.iter().filter(|(kib, ..)| (from + 1..=from + width).contains(kib));
        let (count, expected) = within.fold((0, 0.0), |sum, (_, count, expected)| (sum.0 + count, sum.1 + expected));
        let _ = writeln!(out, "{:>11}  {count:>9} {expected:>9.0}", format!("{}-{}", from + 1, from + width));
    }
    out
}

/// Lines of a trace that became no records, by kind.
fn parts(accounting: &Accounting) -> String {
    let passed = accounting.passed().map(|(p, n)| format!(" + {n} {}", p.text()));
    let skipped = Some(accounting.skipped_sum()).filter(|n| *n > 0).map(|n| format!(" + {n} malformed"));
    passed.chain(skipped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::trace::{Passed, Reason, Record};

    #[test]
    fn the_census_in_words_shows_the_account_and_what_was_assumed() {
        let mut census = Census::new(4096);
        for n in 0..3 {
            census.add(&Record { offset: n * 4096, length: 4096, ..Record::default() });
        }
        let mut accounting = Accounting::default();
        (accounting.lines, accounting.records) = (5, 3);
        accounting.pass(Passed::Mark);
        accounting.skip(Reason::NotANumber, 4);
        assert!(census.agrees(&accounting));
        let identity = Identity { format: Format::Lirs, block_bytes: 4096, has_times: false };
        let shown = text(identity, false, true, &accounting, &census.report());
        for part in [
            "5 = 3 records + 1 mark + 1 malformed",
            "1 not a number, first at line 4",
            "so many bytes: 4096",
            "12.0 KiB, 3 blocks",
            "66.7 % strictly",
            "closed loop only",
        ] {
            assert!(shown.contains(part), "{part}\n{shown}");
        }
    }
}
