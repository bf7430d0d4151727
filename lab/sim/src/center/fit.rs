//! Failure processes fitted to records: exponential and Weibull times between failures, by maximum likelihood.
//!
//! A time runs from the beginning of the records, or the end of an outage, to the node's next outage. The time after
//! the last failure counts as a censored one, at least as long as observed. Without these, nodes that rarely fail
//! would not count. Repairs are drawn from the recorded ones.
//!
//! For the Weibull distribution with shape `k` over failures x and all times y: `sum(y^k ln y) / sum(y^k) - 1/k = mean(ln
//! x)`, solved by bisection; the scale is `(sum(y^k) / failures)^(1/k)`.

use super::records::Records;
use crate::generate::arithmetic::{exp, ln};
use policy::time::Time;
use std::fmt;

/// Result of a fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Number of the system.
    pub system: u32,
    /// Times between failures.
    pub failures: usize,
    /// Times that were cut off.
    pub censored: usize,
    /// Mean time between failures of a node in hours, from the exponential fit: all time over all failures.
    pub mtbf_h: f64,
    /// The Weibull shape: below 1, a node that has just failed is likelier to fail again.
    pub shape: f64,
    /// The Weibull scale in hours.
    pub scale_h: f64,
    /// Logarithms of the likelihoods, exponential and Weibull.
    pub log_likelihood: [f64; 2],
    /// Repair times in order.
    pub repairs: Vec<Time>,
}

impl Fit {
    /// Fits both distributions; `None` with fewer than two failures.
    pub fn of(records: &Records) -> Option<Fit> {
        let (mut failures, mut censored, mut repairs) = (Vec::new(), Vec::new(), Vec::new());
        let hours = |from: Time, to: Time| to.since(from).as_secs_f64() / 3600.0;
        for outages in records.outages.values() {
            let mut up = Time::ZERO;
            for (from, to) in outages {
                failures.push(hours(up, *from));
                repairs.push(to.since(*from));
                up = *to;
            }
            censored.push(hours(up, records.span));
        }
        let silent = records.nodes as usize - records.outages.len().min(records.nodes as usize);
        censored.extend(std::iter::repeat_n(hours(Time::ZERO, records.span), silent));
        failures.retain(|x| *x > 0.0);
        censored.retain(|x| *x > 0.0);
        if failures.len() < 2 {
            return None;
        }
        repairs.sort_unstable();
        let n = failures.len() as f64;
        let total: f64 = failures.iter().chain(&censored).sum();
        let mean_ln = failures.iter().map(|x| ln(*x)).sum::<f64>() / n;
        let power = |k: f64| failures.iter().chain(&censored).map(move |y| exp(k * ln(*y)));
        let gap = |k: f64| {
            let weighted: f64 = failures.iter().chain(&censored).map(|y| exp(k * ln(*y)) * ln(*y)).sum();
            weighted / power(k).sum::<f64>() - 1.0 / k - mean_ln
        };
        let (mut low, mut high) = (0.05, 20.0);
        for _ in 0..60 {
            let k = (low + high) / 2.0;
            if gap(k) < 0.0 { low = k } else { high = k }
        }
        let shape = (low + high) / 2.0;
        let powers: f64 = power(shape).sum();
        let scale_h = exp(ln(powers / n) / shape);
        let mtbf_h = total / n;
        let exponential = -n * ln(mtbf_h) - n;
        let weibull = n * (ln(shape) - shape * ln(scale_h)) + (shape - 1.0) * mean_ln * n - n;
        Some(Fit {
            system: records.system,
            failures: failures.len(),
            censored: censored.len(),
            mtbf_h,
            shape,
            scale_h,
            log_likelihood: [exponential, weibull],
            repairs,
        })
    }

    /// Returns the mean repair time in hours.
    pub fn repair_mean_h(&self) -> f64 {
        let total: f64 = self.repairs.iter().map(|t| t.as_secs_f64()).sum();
        total / 3600.0 / self.repairs.len().max(1) as f64
    }
}

impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [exponential, weibull] = self.log_likelihood;
        let median = self.repairs.get(self.repairs.len() / 2).map_or(0.0, |t| t.as_secs_f64() / 3600.0);
        writeln!(
            f,
            "  fitted       {} times between failures of a node of system {}, {} cut off",
            self.failures, self.system, self.censored
        )?;
        writeln!(f, "  exponential  mean {:.1} days (log likelihood {exponential:.1})", self.mtbf_h / 24.0)?;
        writeln!(
            f,
            "  Weibull      shape {:.3}, scale {:.1} days (log likelihood {weibull:.1}: {} by {:.1})",
            self.shape,
            self.scale_h / 24.0,
            if weibull > exponential { "better" } else { "no better" },
            (weibull - exponential).abs()
        )?;
        write!(
            f,
            "  repairs      mean {:.2} h, median {median:.2} h, drawn from the recorded ones",
            self.repair_mean_h()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Rng;

    /// Nodes that fail after Weibull times and are repaired in an hour.
    fn drawn(shape: f64, scale_h: f64) -> Records {
        let mut rng = Rng::new(3, 0);
        let span = Time::from_secs(1000 * 86_400);
        let mut records = Records { system: 1, nodes: 300, span, ..Records::default() };
        for node in 0..300 {
            let (mut at, mut outages) = (Time::ZERO, Vec::new());
            loop {
                let x = exp(ln(rng.exponential(1.0).max(1e-12)) / shape) * scale_h;
                at = at + Time((x * 3.6e12) as u64);
                if at > span {
                    break;
                }
                outages.push((at, at + Time::from_secs(3600)));
                at = at + Time::from_secs(3600);
            }
            if !outages.is_empty() {
                records.outages.insert(node, outages);
            }
        }
        records
    }

    #[test]
    fn shape_and_scale_are_found_again() {
        for (shape, scale) in [(0.7, 2000.0), (1.0, 4000.0), (1.5, 3000.0)] {
            let fit = Fit::of(&drawn(shape, scale)).unwrap();
            assert!((fit.shape / shape - 1.0).abs() < 0.06, "{fit}");
            assert!((fit.scale_h / scale - 1.0).abs() < 0.08, "{fit}");
            assert_eq!((fit.repair_mean_h(), fit.repairs.len() >= fit.failures), (1.0, true));
            let [exponential, weibull] = fit.log_likelihood;
            assert!(weibull >= exponential - 1e-6, "the exponential is one of the Weibull distributions: {fit}");
            assert!(shape == 1.0 || weibull > exponential + 10.0, "{fit}");
        }
    }

    #[test]
    fn too_little_to_go_by() {
        assert_eq!(Fit::of(&Records { nodes: 3, ..Records::default() }), None);
    }
}
