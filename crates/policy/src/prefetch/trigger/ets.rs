//! ETS: trigger distances in proportion to the streams' rates (section 2, rule 3).
//!
//! `T_i = R_i / sum(R_j) * T_total`, within a floor and a cap. Distance above the cap is not given to other streams
//! so ETS needs less memory than a fixed distance. With `redistribute` the rest is distributed again until
//! nothing is left.

/// Returns the distances for these rates; `bounds` are floor and cap. If all rates are 0: equal parts, not clamped.
pub fn ets(rates: &[f64], total: f64, bounds: (f64, f64), redistribute: bool) -> Vec<f64> {
    let sum: f64 = rates.iter().sum();
    if sum <= 0.0 {
        return vec![total / rates.len() as f64; rates.len()];
    }
    if redistribute {
        return fill(rates, total, bounds);
    }
    rates.iter().map(|rate| (total * rate / sum).clamp(bounds.0, bounds.1)).collect()
}

/// Water-filling: the side that clamping violates more is fixed first, which makes the result exact.
fn fill(rates: &[f64], total: f64, (floor, cap): (f64, f64)) -> Vec<f64> {
    let mut distances: Vec<Option<f64>> = vec![None; rates.len()];
    let mut budget = total;
    loop {
        let free: Vec<usize> = (0..rates.len()).filter(|&i| distances[i].is_none()).collect();
        let sum: f64 = free.iter().map(|&i| rates[i]).sum();
        let part = |i: usize| if sum > 0.0 { budget * rates[i] / sum } else { budget / free.len() as f64 };
        let over: f64 = free.iter().map(|&i| (part(i) - cap).max(0.0)).sum();
        let under: f64 = free.iter().map(|&i| (floor - part(i)).max(0.0)).sum();
        let violates = |i: usize| if over >= under { part(i) > cap } else { part(i) < floor };
        let fixed: Vec<usize> = free.iter().copied().filter(|&i| violates(i)).collect();
        if fixed.is_empty() {
            for &i in &free {
                distances[i] = Some(part(i));
            }
            return distances.into_iter().map(|distance| distance.unwrap_or(floor)).collect();
        }
        let bound = if over >= under { cap } else { floor };
        for i in fixed {
            distances[i] = Some(bound);
            budget = (budget - bound).max(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOUNDS: (f64, f64) = (4.0, 48.0);

    fn rounded(distances: &[f64]) -> Vec<f64> {
        distances.iter().map(|distance| (distance * 1000.0).round() / 1000.0).collect()
    }

    #[test]
    fn the_published_two_streams() {
        for (rate, expected) in [(3000.0, [12.0, 36.0]), (5000.0, [8.0, 40.0]), (7000.0, [6.0, 42.0])] {
            assert_eq!(ets(&[1000.0, rate], 48.0, BOUNDS, false), expected);
        }
    }

    #[test]
    fn clamping_alone_gives_the_surplus_to_nobody() {
        assert_eq!(rounded(&ets(&[100.0, 9900.0], 48.0, BOUNDS, false)), [4.0, 47.52]);
        assert_eq!(ets(&[100.0, 9900.0], 48.0, BOUNDS, true), [4.0, 44.0]);
    }

    #[test]
    fn sixteen_video_streams() {
        let rates: Vec<f64> = [4.0, 8.0, 16.0, 32.0].repeat(4);
        let clamped = ets(&rates, 384.0, BOUNDS, false);
        assert_eq!(rounded(&clamped[..4]), [6.4, 12.8, 25.6, 48.0]);
        assert_eq!(rounded(&[clamped.iter().sum()]), [371.2]);
        assert_eq!(rounded(&ets(&rates, 384.0, BOUNDS, true)[..4]), [6.857, 13.714, 27.429, 48.0]);
    }

    #[test]
    fn idle_streams_share_equally() {
        assert_eq!(ets(&[0.0, 0.0], 48.0, BOUNDS, false), [24.0, 24.0]);
    }

    proptest! {
        /// Water-filling distributes the whole total if the bounds allow it, and stays within them.
        #[test]
        fn redistribution_spends_the_total(rates in prop::collection::vec(0.1f64..1e5, 1..20)) {
            let n = rates.len() as f64;
            let shares = ets(&rates, 24.0 * n, BOUNDS, true);
            prop_assert!((shares.iter().sum::<f64>() - 24.0 * n).abs() < 1e-6 * n);
            prop_assert!(shares.iter().all(|share| (4.0 - 1e-9..=48.0 + 1e-9).contains(share)));
        }
    }
}
