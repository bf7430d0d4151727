//! Distribution of stripes over devices: round robin, or in proportion to the devices' speeds.
//!
//! The paper's model: `n` requests of `s` bytes over one device of each tier, with latencies `l` and `gamma * l`. Round
//! robin ends with the slow device, at `n s gamma l / 2`. In proportion, the fast device takes the share
//! `gamma / (gamma + 1)`, both end together at `n s gamma l / (gamma + 1)`, and the gain is `(gamma + 1) / 2`: 5.5 for
//! `gamma = 10`, 2.5 for `gamma = 4`.
//!
//! Source: WS-ROS, "Motivating Analysis"; the reference, section 11.

/// Deals stripes to devices by weight, so that each has its share over any longer run.
///
/// For each stripe, every permitted device gains its weight in credit. The one with most (the first of several) takes
/// the stripe and pays the sum of the gains.
#[derive(Clone, Debug)]
pub struct Split {
    weights: Vec<f64>,
    credit: Vec<f64>,
}

impl Split {
    /// Makes a split for speeds in any unit. Weights that are not above 0 get no stripes; without any positive weight,
    /// all are equal.
    pub fn new(weights: &[f64]) -> Split {
        let mut weights: Vec<f64> = weights.iter().map(|w| if w.is_finite() && *w > 0.0 { *w } else { 0.0 }).collect();
        if weights.iter().sum::<f64>() <= 0.0 {
            weights.fill(1.0);
        }
        Split { credit: vec![0.0; weights.len()], weights }
    }

    /// Returns the device of the next stripe; `None` if no device is permitted by `may`. Others gain no credit.
    pub fn next(&mut self, may: impl Fn(usize) -> bool) -> Option<usize> {
        let mut total = 0.0;
        let mut best: Option<usize> = None;
        for at in 0..self.weights.len() {
            if self.weights[at] > 0.0 && may(at) {
                self.credit[at] += self.weights[at];
                total += self.weights[at];
                if best.is_none_or(|best| self.credit[at] > self.credit[best]) {
                    best = Some(at);
                }
            }
        }
        self.credit[best?] -= total;
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_weights_are_round_robin_and_full_devices_are_passed_over() {
        let mut split = Split::new(&[1.0, 1.0, 1.0]);
        let dealt: Vec<_> = (0..6).filter_map(|_| split.next(|_| true)).collect();
        assert_eq!(dealt, [0, 1, 2, 0, 1, 2]);
        assert_eq!(split.next(|at| at == 1), Some(1));
        assert_eq!(split.next(|_| false), None);
    }

    proptest! {
        #[test]
        fn nobody_is_off_its_share_by_more_than_a_round(
            weights in prop::collection::vec(1u32..100, 1..9),
            stripes in 1usize..400,
        ) {
            let weights: Vec<f64> = weights.into_iter().map(f64::from).collect();
            let total: f64 = weights.iter().sum();
            let mut split = Split::new(&weights);
            let mut dealt = vec![0u32; weights.len()];
            (0..stripes).filter_map(|_| split.next(|_| true)).for_each(|at| dealt[at] += 1);
            for (at, weight) in weights.iter().enumerate() {
                let share = stripes as f64 * weight / total;
                // Smooth weighted round robin keeps within as many stripes as there are devices.
                prop_assert!((f64::from(dealt[at]) - share).abs() < weights.len() as f64, "{dealt:?} of {weights:?}");
            }
        }
    }
}
