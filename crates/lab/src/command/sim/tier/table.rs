//! The figures of `entrepot-lab sim tier` as a table for people, and for spreadsheets.

use super::Case;
use sim::tier::{Figures, Setup};
use std::fmt::Write as _;

/// Whether the working set of the windows fits the fast tier.
pub(super) fn fit(sets: &[u64], setup: &Setup) -> String {
    let mib = |locations: f64| locations * setup.block_bytes as f64 / f64::from(1 << 20);
    let room = setup.fast_bytes / setup.block_bytes;
    let mean = sets.iter().sum::<u64>() as f64 / sets.len().max(1) as f64;
    let most = sets.iter().max().copied().unwrap_or(0);
    format!(
        "working set of a window {:.1} MiB on average, {:.1} at most; the fast tier has room for {:.1} MiB: it fits in {} of {} windows\n\n",
        mib(mean),
        mib(most as f64),
        mib(room as f64),
        sets.iter().filter(|set| **set <= room).count(),
        sets.len()
    )
}

/// At the times of the trace a faster tier shows in the response times; clients that wait are done earlier.
pub(super) fn table(cases: &[Case], figures: &[Figures], open: bool) -> String {
    let time = |of: &Figures| if open { of.mean_ms } else { of.span_s };
    let of = |scheme: &str| cases.iter().position(|case| case.scheme == scheme).map(|at| time(&figures[at]));
    let (plain, best) = (of("round-robin"), of("optimum"));
    let ratio = |a: Option<f64>, b: f64| a.map_or("-".to_owned(), |a| format!("{:.2}", a / b.max(1e-12)));
    let width = cases.iter().map(|case| case.label.len()).max().unwrap_or(0).max(6);
    let longest = figures.iter().map(|of| of.span_s).fold(0.0, f64::max);
    let mut text = format!(
        "{:<width$}      time s  speed-up  of optimum    mean ms     p95 ms  fast %  busy fast/slow %  promoted  demoted  copied  moved MiB  H  time\n",
        "scheme"
    );
    for (case, of) in cases.iter().zip(figures) {
        let bar = "#".repeat((of.span_s / longest.max(1e-12) * 30.0).round() as usize);
        let threshold = of.threshold.map_or("-".to_owned(), |h| h.to_string());
        let _ = writeln!(
            text,
            "{:<width$}  {:>10.4}  {:>8}  {:>10}  {:>9.4}  {:>9.4}  {:>6.1}  {:>8.1}/{:<7.1}  {:>8}  {:>7}  {:>6}  {:>9.1}  {threshold}  {bar}",
            case.label,
            of.span_s,
            ratio(plain, time(of)),
            ratio(best, time(of)),
            of.mean_ms,
            of.p95_ms,
            of.fast_share * 100.0,
            of.fast_busy * 100.0,
            of.slow_busy * 100.0,
            of.promoted,
            of.demoted,
            of.copied,
            of.moved_mib,
        );
    }
    text
}

/// One line for each case.
pub(super) fn csv(cases: &[Case], figures: &[Figures]) -> String {
    let mut text = String::from(
        "case,scheme,requests,span_s,mean_ms,p95_ms,fast_share,fast_busy,slow_busy,promoted,demoted,failed,moved_mib,copied,copies_mib\n",
    );
    for (case, of) in cases.iter().zip(figures) {
        let _ = writeln!(
            text,
            "{},{},{},{:.6},{:.6},{:.6},{:.6},{:.6},{:.6},{},{},{},{:.3},{},{:.3}",
            case.label,
            case.scheme,
            of.requests,
            of.span_s,
            of.mean_ms,
            of.p95_ms,
            of.fast_share,
            of.fast_busy,
            of.slow_busy,
            of.promoted,
            of.demoted,
            of.failed,
            of.moved_mib,
            of.copied,
            of.copies_mib
        );
    }
    text
}
