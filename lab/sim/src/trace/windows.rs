//! Amount of requested data per window of time, and the best-fitting gamma distribution (Zhang, section 2.4, figure
//! 2.3).
//!
//! A trace is cut into windows of equal length; each with any request is a sample, in KiB, rounded up. Shape and
//! scale are those of greatest likelihood (Thom's closed form, some thousandths off). The fit is judged by the
//! largest distance between the two distribution functions: everywhere, and at or above the gamma's peak, where the
//! paper found it good.

use super::Record;
use serde::Serialize;
use std::collections::BTreeMap;

/// Counts windows of records. Memory is linear in the number of different amounts.
#[derive(Clone, Debug)]
pub struct Windows {
    width_ns: u64,
    current: Option<u64>,
    bytes: u64,
    first: u64,
    /// Number of windows by amount in KiB.
    counts: BTreeMap<u64, u64>,
}

/// Results of the windows. Amounts are of windows with any request.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WindowsReport {
    /// Length of a window.
    pub width_ns: u64,
    /// Number of windows from the first record to the last.
    pub windows: u64,
    /// Windows without any request.
    pub empty: u64,
    /// Mean amount, KiB.
    pub mean_kib: f64,
    /// Standard deviation of the amounts.
    pub deviation_kib: f64,
    /// Most frequent amount.
    pub mode_kib: u64,
    /// Shape of the gamma distribution; 0 if all amounts are equal and there is none.
    pub gamma_shape: f64,
    /// Scale of the gamma distribution.
    pub gamma_scale_kib: f64,
    /// Amount at which its density is highest.
    pub gamma_peak_kib: f64,
    /// Largest distance between the distribution functions.
    pub distance: f64,
    /// Largest distance at and above the peak.
    pub distance_above_peak: f64,
    /// Amount in KiB, number of windows, number of windows expected by the gamma distribution.
    pub histogram: Vec<(u64, u64, f64)>,
}

impl Windows {
    /// Creates windows of that length, at least a nanosecond.
    pub fn new(width_ns: u64) -> Windows {
        Windows { width_ns: width_ns.max(1), current: None, bytes: 0, first: 0, counts: BTreeMap::new() }
    }

    /// Counts a record. A record earlier than the previous one counts in the same window as that one.
    pub fn add(&mut self, record: &Record) {
        let window = record.time_ns / self.width_ns;
        match self.current {
            None => (self.first, self.current) = (window, Some(window)),
            Some(current) if window > current => {
                self.close();
                self.current = Some(window);
            }
            Some(_) => {}
        }
        self.bytes += u64::from(record.length);
    }

    fn close(&mut self) {
        let kib = std::mem::take(&mut self.bytes).div_ceil(1024);
        if kib > 0 {
            *self.counts.entry(kib).or_default() += 1;
        }
    }

    /// Returns the results.
    pub fn report(mut self) -> WindowsReport {
        let Some(last) = self.current else {
            return WindowsReport { width_ns: self.width_ns, ..WindowsReport::default() };
        };
        self.close();
        let windows = last - self.first + 1;
        let full: u64 = self.counts.values().sum();
        let n = full.max(1) as f64;
        let sum = |of: &dyn Fn(f64) -> f64| self.counts.iter().map(|(&kib, &c)| of(kib as f64) * c as f64).sum::<f64>();
        let mean = sum(&|kib| kib) / n;
        let deviation = (sum(&|kib| (kib - mean).powi(2)) / n).sqrt();
        // Logarithm of the mean minus the mean of the logarithms: 0 if all amounts are equal.
        let spread = mean.ln() - sum(&f64::ln) / n;
        let shape = if spread > 1e-9 {
            (3.0 - spread + ((spread - 3.0).powi(2) + 24.0 * spread).sqrt()) / (12.0 * spread)
        } else {
            0.0
        };
        let scale = if shape > 0.0 { mean / shape } else { 0.0 };
        let peak = ((shape - 1.0) * scale).max(0.0);
        let below = |kib: f64| if shape > 0.0 { gamma_below(shape, kib / scale) } else { 0.0 };
        let (mut seen, mut before, mut distance, mut above) = (0, 0.0, 0.0_f64, 0.0_f64);
        let mut histogram = Vec::new();
        for (&kib, &count) in &self.counts {
            seen += count;
            // An amount stands for all amounts between the next smaller one and itself.
            let expected = below(kib as f64);
            let off = (expected - seen as f64 / n).abs();
            distance = distance.max(off);
            if kib as f64 >= peak {
                above = above.max(off);
            }
            histogram.push((kib, count, (expected - before) * n));
            before = expected;
        }
        let fits = shape > 0.0;
        WindowsReport {
            width_ns: self.width_ns,
            windows,
            empty: windows - full,
            mean_kib: mean,
            deviation_kib: deviation,
            mode_kib: self.counts.iter().max_by_key(|(kib, count)| (**count, u64::MAX - **kib)).map_or(0, |(&k, _)| k),
            gamma_shape: shape,
            gamma_scale_kib: scale,
            gamma_peak_kib: peak,
            distance: if fits { distance } else { 0.0 },
            distance_above_peak: if fits { above } else { 0.0 },
            histogram,
        }
    }
}

/// Returns the probability that a gamma variate of that shape and scale 1 is at most `x`. Uses the series below the
/// shape, and the continued fraction above it (Abramowitz and Stegun 6.5.29, 6.5.31).
fn gamma_below(shape: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let factor = (shape * x.ln() - x - ln_gamma(shape)).exp();
    if x < shape + 1.0 {
        let (mut term, mut sum) = (1.0 / shape, 1.0 / shape);
        for n in 1..1000 {
            term *= x / (shape + f64::from(n));
            sum += term;
            if term < sum * 1e-14 {
                break;
            }
        }
        return factor * sum;
    }
    let mut fraction = 0.0;
    for n in (1..200).rev() {
        let n = f64::from(n);
        fraction = n * (n - shape) / (x + 2.0 * n + 1.0 - shape - fraction);
    }
    1.0 - factor / (x + 1.0 - shape - fraction)
}

/// Returns the logarithm of the gamma function of a positive number: Stirling's series beyond 10, extended downwards
/// by the recurrence.
fn ln_gamma(x: f64) -> f64 {
    let (mut at, mut product) = (x, 1.0);
    while at < 10.0 {
        product *= at;
        at += 1.0;
    }
    let series = 1.0 / (12.0 * at) - 1.0 / (360.0 * at.powi(3)) + 1.0 / (1260.0 * at.powi(5));
    (at - 0.5) * at.ln() - at + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - product.ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Rng;

    fn record(time_ns: u64, kib: u32) -> Record {
        Record { time_ns, length: kib * 1024, ..Record::default() }
    }

    #[test]
    fn the_distribution_function_has_the_tabulated_values() {
        // Abramowitz and Stegun, table 26.7: chi-square with 2 a degrees of freedom at 2 x.
        for (shape, x, value) in
            [(0.5, 0.5, 0.682_69), (1.0, 1.0, 0.632_12), (3.0, 2.0, 0.323_32), (5.0, 10.0, 0.970_75)]
        {
            assert!((gamma_below(shape, x) - value).abs() < 1e-5, "{shape} {x}: {}", gamma_below(shape, x));
        }
    }

    #[test]
    fn amounts_of_a_gamma_distribution_are_recognised() {
        // The sum of four exponentials of mean 3 has shape 4, scale 3 and its peak at 9.
        let mut rng = Rng::new(1, 0);
        let mut windows = Windows::new(10);
        for n in 0..40_000u64 {
            let kib: f64 = (0..4).map(|_| rng.exponential(3.0)).sum();
            windows.add(&Record { length: (kib * 1024.0) as u32, ..record(n * 20, 0) });
        }
        let report = windows.report();
        assert_eq!((report.windows, report.empty), (79_999, 39_999));
        // Rounding up adds half a KiB.
        assert!((report.gamma_shape - 4.0).abs() < 0.5 && (report.mean_kib - 12.5).abs() < 0.1, "{report:?}");
        assert!((report.gamma_peak_kib - 9.5).abs() < 0.5 && report.mode_kib.abs_diff(9) <= 2);
        assert!(report.distance < 0.05 && report.distance_above_peak <= report.distance, "{report:?}");
    }

    #[test]
    fn windows_hold_what_came_in_them_whatever_its_order() {
        let mut windows = Windows::new(10);
        [(3, 1), (9, 2), (25, 4), (24, 4), (1, 1)].into_iter().for_each(|(t, kib)| windows.add(&record(t, kib)));
        let report = windows.report();
        assert_eq!((report.windows, report.empty), (3, 1));
        assert_eq!(report.histogram.iter().map(|h| (h.0, h.1)).collect::<Vec<_>>(), [(3, 1), (9, 1)]);
        let mut equal = Windows::new(10);
        (0..5).for_each(|n| equal.add(&record(n * 10, 4)));
        let report = equal.report();
        assert_eq!((report.mode_kib, report.gamma_shape, report.distance), (4, 0.0, 0.0), "no distribution at all");
        assert_eq!(Windows::new(1).report().windows, 0);
    }
}
