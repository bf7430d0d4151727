//! Widths of interest in the queueing model of `policy::stripe::model`.

use policy::stripe::model::{Device, Parameters};

/// Widths that stand out for some parameters.
pub trait Widths {
    /// Returns the width with the least response time; among equals the narrowest. `None` if no width is stable.
    fn optimal_width(&self) -> Option<u32>;

    /// Returns the width at which the devices' utilisation is `utilisation`, as a real number: equation 11, corrected.
    ///
    /// `h D^2 + K D + A = utilisation m / lambda` with `K` the positioning and `A` the transfer of the whole request.
    /// `None` if even one device is overloaded.
    fn width_at(&self, utilisation: f64) -> Option<f64>;

    /// Returns the largest stable width (utilisation below 1), at most all devices; `None` if none is stable.
    fn largest_stable_width(&self) -> Option<u32>;
}

impl Widths for Parameters {
    fn optimal_width(&self) -> Option<u32> {
        let mut best: Option<(f64, u32)> = None;
        for width in 1..=self.devices {
            let request_s = self.predict(width).request_s;
            if request_s.is_finite() && best.is_none_or(|(least, _)| request_s < least) {
                best = Some((request_s, width));
            }
        }
        best.map(|(_, width)| width)
    }

    fn width_at(&self, utilisation: f64) -> Option<f64> {
        let (k, a, servers) = match self.device {
            Device::Disk { revolution_s, seek_s, settle_s, track_blocks } => (
                (seek_s + revolution_s + settle_s) / 2.0,
                self.request_blocks * (revolution_s / track_blocks + self.interface_s),
                1.0,
            ),
            Device::Flash { latency_s, block_s, channels } => {
                (latency_s, self.request_blocks * (block_s + self.interface_s), channels.max(1.0))
            }
        };
        let room = utilisation * f64::from(self.devices) * servers / self.rate - a;
        if room <= 0.0 {
            return None;
        }
        let h = self.overhead_s;
        let width = if h > 0.0 { ((k * k + 4.0 * h * room).sqrt() - k) / (2.0 * h) } else { room / k };
        (width >= 1.0).then_some(width)
    }

    fn largest_stable_width(&self) -> Option<u32> {
        (1..=self.devices).rev().find(|&width| self.predict(width).utilisation < 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_optimal_widths_of_the_reference() {
        let at = |request_blocks, rate| Parameters { request_blocks, rate, ..Parameters::default() }.optimal_width();
        for (blocks, widths) in [
            (1024.0, [28, 24, 18, 11, 5]),
            (512.0, [19, 18, 15, 11, 8]),
            (256.0, [13, 12, 11, 9, 7]),
            (128.0, [8, 8, 7, 6, 5]),
            (16.0, [1; 5]),
        ] {
            let got = [1.0, 10.0, 30.0, 60.0, 100.0].map(|rate| at(blocks, rate).unwrap());
            assert_eq!(got, widths, "{blocks} blocks");
        }
        let testbed = |request_blocks, rate| {
            Parameters { devices: 24, request_blocks, rate, ..Parameters::default() }.optimal_width().unwrap()
        };
        assert_eq!([1.0, 20.0, 50.0, 100.0].map(|rate| testbed(128.0, rate)), [8, 5, 3, 1]);
        assert_eq!([1.0, 20.0, 50.0, 100.0].map(|rate| testbed(16.0, rate)), [1; 4]);
    }

    #[test]
    fn the_largest_widths_of_the_reference() {
        let p = Parameters::default();
        assert!((p.width_at(1.0).unwrap() - 45.59).abs() < 0.005);
        assert_eq!(p.largest_stable_width(), Some(45));
        let without_h = Parameters { overhead_s: 0.0, ..p };
        assert!((without_h.width_at(1.0).unwrap() - 119.28).abs() < 0.005);
        let flooded = Parameters { rate: 1000.0, ..p };
        assert_eq!(
            (flooded.width_at(1.0), flooded.largest_stable_width(), flooded.optimal_width()),
            (None, None, None)
        );
    }

    proptest! {
        #[test]
        fn utilisation_at_the_width_of_a_utilisation_is_that_utilisation(
            blocks in 16.0f64..4096.0, rate in 0.5f64..60.0, goal in 0.1f64..1.0,
        ) {
            let p = Parameters { request_blocks: blocks, rate, devices: 4096, ..Parameters::default() };
            if let Some(width) = p.width_at(goal) {
                let (below, above) = (p.predict(width.floor() as u32), p.predict(width.ceil() as u32));
                // Utilisation grows with the width: each stripe positions once more.
                prop_assert!(below.utilisation <= goal + 1e-9 && above.utilisation >= goal - 1e-9);
            }
        }
    }
}
