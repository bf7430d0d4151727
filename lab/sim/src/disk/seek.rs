//! The seek curve: nanoseconds by cylinders crossed, one table entry per distance.

use super::model::Model;

/// Seek curve of one model.
#[derive(Debug)]
pub struct SeekCurve {
    by_distance_ns: Box<[u32]>,
}

impl SeekCurve {
    /// Computes the curve through the model's measured points, linear between them and constant beyond the last.
    pub fn new(model: &Model) -> SeekCurve {
        let points = &model.seeks;
        let at = |distance: u32| -> u32 {
            let after = points.partition_point(|&(cylinders, _)| cylinders < distance);
            match (after.checked_sub(1).map(|before| points[before]), points.get(after)) {
                (_, Some(&(cylinders, us))) if cylinders == distance => us * 1000,
                (None, Some(&(_, us))) => us * 1000,
                (Some((c0, us0)), Some(&(c1, us1))) => {
                    let (low, high) = (i64::from(us0) * 1000, i64::from(us1) * 1000);
                    (low + (high - low) * i64::from(distance - c0) / i64::from(c1 - c0)) as u32
                }
                (Some((_, us)), None) => us * 1000,
                (None, None) => 0,
            }
        };
        let by_distance_ns = (0..model.cylinders).map(|distance| if distance == 0 { 0 } else { at(distance) });
        SeekCurve { by_distance_ns: by_distance_ns.collect() }
    }

    /// Returns the time to move the arm across `cylinders`.
    pub fn ns(&self, cylinders: u32) -> u64 {
        u64::from(self.by_distance_ns[cylinders as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::model::CHEETAH9LP;

    /// The two-piece fit of the reference (section 5), within 0.33 ms of every measured point according to it.
    fn fit_ms(distance: u32) -> f64 {
        let d = f64::from(distance);
        if distance <= 1000 { 1.0631 + 0.09779 * d.sqrt() } else { 3.1021 + 0.0010809 * d }
    }

    #[test]
    fn the_curve_goes_through_the_measured_points_and_near_the_published_fit() {
        let curve = SeekCurve::new(&CHEETAH9LP);
        assert_eq!(curve.ns(0), 0);
        assert_eq!(curve.ns(1), 831_000);
        assert_eq!(curve.ns(1000), 4_118_000);
        assert_eq!(curve.ns(6894), 10_627_000);
        assert_eq!(curve.ns(6961), 10_627_000);
        for (distance, spot_ms) in [(1, 1.161), (100, 2.041), (1000, 4.155), (3000, 6.345), (6894, 10.554)] {
            assert!((fit_ms(distance) - spot_ms).abs() < 0.001);
        }
        for distance in 1..6962 {
            let apart = (curve.ns(distance) as f64 / 1e6 - fit_ms(distance)).abs();
            assert!(apart < 0.34, "{distance} cylinders: {apart} ms from the fit");
        }
    }

    #[test]
    fn the_mean_seek_between_uniform_cylinders_is_the_references() {
        let curve = SeekCurve::new(&CHEETAH9LP);
        let n = 6962u64;
        let weighted: f64 = (1..n).map(|d| (2 * (n - d)) as f64 * curve.ns(d as u32) as f64).sum();
        let mean_ms = weighted / (n * n) as f64 / 1e6;
        assert!((mean_ms - 5.47).abs() < 0.05, "{mean_ms}");
    }
}
