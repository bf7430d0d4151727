//! Choice of the checkpoint interval.
//!
//! For a checkpoint of `d` seconds and a mean time `M` between failures: Young, `sqrt(2 d M)`; Daly, `sqrt(2 d M) (1 +
//! sqrt(d / 2M) / 3 + (d / 2M) / 9) - d` for `d < 2 M`, else `M`. The interval is the computing time between two
//! checkpoints.
//!
//! Source: J. W. Young (1974); J. T. Daly (2006), equation 37; the reference, section 6.8.

/// Returns Young's interval, in seconds.
pub fn young_s(cost_s: f64, mtbf_s: f64) -> f64 {
    (2.0 * cost_s * mtbf_s).sqrt()
}

/// Returns Daly's interval, in seconds.
pub fn daly_s(cost_s: f64, mtbf_s: f64) -> f64 {
    if cost_s >= 2.0 * mtbf_s {
        return mtbf_s;
    }
    let ratio = cost_s / (2.0 * mtbf_s);
    young_s(cost_s, mtbf_s) * (1.0 + ratio.sqrt() / 3.0 + ratio / 9.0) - cost_s
}

/// Returns the share of time lost with an interval: writing checkpoints, and restarts with repeated computation (half
/// an interval and a checkpoint on average). First order: right while all of it is small against the time between
/// failures.
pub fn lost(interval_s: f64, cost_s: f64, restart_s: f64, mtbf_s: f64) -> f64 {
    let writing = cost_s / (interval_s + cost_s);
    let again = ((interval_s + cost_s) / 2.0 + restart_s) / mtbf_s;
    (writing + again).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_intervals_of_the_reference() {
        let (hour, minute) = (3600.0, 60.0);
        for (mtbf, minutes) in [(24.0 * hour, 116.7), (6.0 * hour, 56.7), (15.0 * minute, 9.14)] {
            assert!((daly_s(5.0 * minute, mtbf) / minute - minutes).abs() < 0.06, "{}", daly_s(300.0, mtbf) / minute);
        }
        assert_eq!(daly_s(100.0, 50.0), 50.0);
        assert_eq!(young_s(2.0, 100.0), 20.0);
    }

    #[test]
    fn the_advised_interval_loses_least() {
        let (cost, mtbf) = (60.0, 86_400.0);
        let best = lost(daly_s(cost, mtbf), cost, 0.0, mtbf);
        assert!(best < lost(daly_s(cost, mtbf) * 2.0, cost, 0.0, mtbf));
        assert!(best < lost(daly_s(cost, mtbf) / 2.0, cost, 0.0, mtbf));
    }
}
