//! The columns of `entrepot-lab sim tier`, and the text above them.

use super::Case;
use crate::table::{Column, column};
use sim::tier::{Figures, Setup};

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

/// A case with its results.
pub(super) type Row<'a> = (&'a Case, &'a Figures);

/// In an open loop schemes are compared by mean response time, in a closed loop by the time of all requests.
pub(super) fn columns<'a>(rows: &[Row<'a>], open: bool) -> Vec<Column<'a, Row<'a>>> {
    let time = move |of: &Figures| if open { of.mean_ms } else { of.span_s };
    let of = |scheme: &str| rows.iter().find(|(case, _)| case.scheme == scheme).map(|(_, of)| time(of));
    let (plain, best) = (of("round-robin"), of("optimum"));
    let ratio = move |a: Option<f64>, of: &Figures| a.map(|a| a / time(of).max(1e-12));
    let longest = rows.iter().map(|(_, of)| of.span_s).fold(0.0, f64::max);
    vec![
        column("case", |(case, _): &Row<'_>| case.label.clone()).shown("case", 0),
        column("scheme", |(case, _): &Row<'_>| case.scheme.clone()),
        column("requests", |(_, of): &Row<'_>| of.requests),
        column("span_s", |(_, of): &Row<'_>| of.span_s).digits(6).shown("time s", 4),
        column("", move |(_, of): &Row<'_>| ratio(plain, of)).shown("speed-up", 2),
        column("", move |(_, of): &Row<'_>| ratio(best, of)).shown("of optimum", 2),
        column("mean_ms", |(_, of): &Row<'_>| of.mean_ms).digits(6).shown("mean ms", 4),
        column("p95_ms", |(_, of): &Row<'_>| of.p95_ms).digits(6).shown("p95 ms", 4),
        column("fast_share", |(_, of): &Row<'_>| of.fast_share).digits(6).percent("fast %", 1),
        column("fast_busy", |(_, of): &Row<'_>| of.fast_busy).digits(6).percent("fast busy %", 1),
        column("slow_busy", |(_, of): &Row<'_>| of.slow_busy).digits(6).percent("slow busy %", 1),
        column("promoted", |(_, of): &Row<'_>| of.promoted).shown("promoted", 0),
        column("demoted", |(_, of): &Row<'_>| of.demoted).shown("demoted", 0),
        column("failed", |(_, of): &Row<'_>| of.failed),
        column("moved_mib", |(_, of): &Row<'_>| of.moved_mib).digits(3).shown("moved MiB", 1),
        column("copied", |(_, of): &Row<'_>| of.copied).shown("copied", 0),
        column("copies_mib", |(_, of): &Row<'_>| of.copies_mib).digits(3),
        column("", |(_, of): &Row<'_>| of.threshold).shown("H", 0),
        column("", move |(_, of): &Row<'_>| "#".repeat((of.span_s / longest.max(1e-12) * 30.0).round() as usize))
            .shown("time", 0),
    ]
}
