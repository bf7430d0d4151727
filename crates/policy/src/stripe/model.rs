//! The queueing model: a request of `D` stripes on `m` disks is a fork-join of `D` requests to M/G/1 queues.
//!
//! ```text
//!   lambda_D = lambda D / m                 arrivals per disk
//!   S_D      = f/2 + c/2 + k/2              seek, rotation, third term of the paper's Table 1: half of each span
//!            + (c/t)(l/D) + i (l/D) + h D   transfer from the medium, over the interface, and work per stripe
//!   var      = (f^2 + c^2 + k^2) / 12       the three are uniform
//!   rho      = lambda_D S_D                 unstable from 1 on
//!   W_D      = lambda_D (var + S_D^2) / (2 (1 - rho)),   R_D = W_D + S_D
//!   Rmax     = gamma(D) R_D                 the last of D
//! ```
//! Flash devices have no seek or rotation: `f = c = k = 0`, with a latency and a transfer time of their own, and
//! `channels` requests served in parallel. Their queue is modelled as one server `channels` times as fast: right for
//! the load, a little optimistic for the wait.
//!
//! Source: Simitci & Reed, section 4, equations 1-11; readings A-27 (2D/(D+1) is exact), A-28 (equation 11 lacks a
//! factor 2 and the term of h), A-41 (unstable from rho = 1).

/// Ratio of the last of `D` parallel requests to the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Scaling {
    /// Response times uniform on `[0, 2R]`: `2D / (D + 1)`.
    #[default]
    Uniform,
    /// Exponential: the harmonic number `H_D` (the paper's `0.5772 + ln D` is its limit and wrong at `D = 1`).
    Exponential,
    /// Normal: `1 + (sigma_R / R) sqrt(2 ln D)`.
    Normal,
    /// Ours: only random parts grow with `D`. The slowest of `D` positionings is computed from their own distribution
    /// (a sum of three uniforms). Waits are scaled as uniform, transfer and overhead not at all.
    Positioning,
}

/// Timing of one device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Device {
    /// A disk; times in seconds.
    Disk {
        /// `c`: a revolution.
        revolution_s: f64,
        /// `f`: span of the seek time.
        seek_s: f64,
        /// `k`: span of the third uniform term.
        settle_s: f64,
        /// `t`: blocks on a track.
        track_blocks: f64,
    },
    /// A flash device; times in seconds.
    Flash {
        /// Part of the service time that does not depend on the size.
        latency_s: f64,
        /// Time to read or write a block.
        block_s: f64,
        /// Number of requests served in parallel.
        channels: f64,
    },
}

/// Inputs of the response time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// The devices, all alike.
    pub device: Device,
    /// `m`: number of devices.
    pub devices: u32,
    /// `l`: blocks of a request.
    pub request_blocks: f64,
    /// `i`: the interface or network, seconds per block.
    pub interface_s: f64,
    /// `h`: work per stripe, in seconds.
    pub overhead_s: f64,
    /// `lambda`: requests per second, over all devices.
    pub rate: f64,
    /// Scaling of the last request.
    pub scaling: Scaling,
}

impl Default for Parameters {
    /// The paper's Table 2: 128 disks, requests of 1024 blocks of 4 KiB, 30 per second.
    fn default() -> Parameters {
        Parameters {
            device: Device::Disk { revolution_s: 0.0084, seek_s: 0.018, settle_s: 0.030, track_blocks: 22.0 },
            devices: 128,
            request_blocks: 1024.0,
            interface_s: 0.0005,
            overhead_s: 0.001,
            rate: 30.0,
            scaling: Scaling::Uniform,
        }
    }
}

/// Other load of the devices, beside the predicted requests: of one device, on average.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OtherLoad {
    /// Share of the device's time.
    pub utilisation: f64,
    /// Arrivals times mean square of the service time, in seconds.
    pub moment_s: f64,
}

impl std::ops::Add for OtherLoad {
    type Output = OtherLoad;
    fn add(self, other: OtherLoad) -> OtherLoad {
        OtherLoad { utilisation: self.utilisation + other.utilisation, moment_s: self.moment_s + other.moment_s }
    }
}

impl std::ops::Sub for OtherLoad {
    type Output = OtherLoad;
    fn sub(self, other: OtherLoad) -> OtherLoad {
        let less = |a: f64, b: f64| (a - b).max(0.0);
        OtherLoad {
            utilisation: less(self.utilisation, other.utilisation),
            moment_s: less(self.moment_s, other.moment_s),
        }
    }
}

/// Prediction of the model for one width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Mean service time of a stripe, `S_D`, in seconds.
    pub service_s: f64,
    /// Arrivals per device and second, `lambda_D`.
    pub arrivals: f64,
    /// Utilisation of a device, `rho`.
    pub utilisation: f64,
    /// Mean time in the queue, `W_D`, in seconds; infinite when unstable.
    pub wait_s: f64,
    /// Mean response time of a stripe, `R_D`, in seconds; infinite when unstable.
    pub response_s: f64,
    /// Mean response time of the request, `Rmax`, in seconds; infinite when unstable.
    pub request_s: f64,
}

impl Parameters {
    /// Returns the parameters of devices that take `factor` times as long for everything.
    pub fn slower(self, factor: f64) -> Parameters {
        let device = match self.device {
            Device::Disk { revolution_s, seek_s, settle_s, track_blocks } => Device::Disk {
                revolution_s: revolution_s * factor,
                seek_s: seek_s * factor,
                settle_s: settle_s * factor,
                track_blocks,
            },
            Device::Flash { latency_s, block_s, channels } => {
                Device::Flash { latency_s: latency_s * factor, block_s: block_s * factor, channels }
            }
        };
        let (interface_s, overhead_s) = (self.interface_s * factor, self.overhead_s * factor);
        Parameters { device, interface_s, overhead_s, ..self }
    }

    /// Predicts requests that are `width` devices wide (at least 1).
    pub fn predict(&self, width: u32) -> Prediction {
        self.predict_beside(width, OtherLoad::default(), None)
    }

    /// Returns the load that such requests add for others on the same devices.
    pub fn load(&self, width: u32) -> OtherLoad {
        let (service_s, variance, servers) = self.service(width);
        let arrivals = self.rate * f64::from(width.max(1)) / f64::from(self.devices.max(1));
        let in_queue = service_s / servers;
        let square = variance / (servers * servers) + in_queue * in_queue;
        OtherLoad { utilisation: arrivals * in_queue, moment_s: arrivals * square }
    }

    /// Returns mean and variance of the service time of a stripe, and the number served in parallel.
    fn service(&self, width: u32) -> (f64, f64, f64) {
        let d = f64::from(width.max(1));
        let share = self.request_blocks / d;
        let (positioning, variance, transfer, servers) = match self.device {
            Device::Disk { revolution_s: c, seek_s: f, settle_s: k, track_blocks } => {
                ((f + c + k) / 2.0, (f * f + c * c + k * k) / 12.0, c / track_blocks * share, 1.0)
            }
            Device::Flash { latency_s, block_s, channels } => (latency_s, 0.0, block_s * share, channels.max(1.0)),
        };
        (positioning + transfer + self.interface_s * share + self.overhead_s * d, variance, servers)
    }

    /// Returns the mean part of a service time that does not depend on the size.
    fn positioning(&self) -> f64 {
        match self.device {
            Device::Disk { revolution_s, seek_s, settle_s, .. } => (revolution_s + seek_s + settle_s) / 2.0,
            Device::Flash { latency_s, .. } => latency_s,
        }
    }

    /// Returns the mean of the slowest of `width` positionings, in seconds.
    pub fn slowest_positioning(&self, width: u32) -> f64 {
        match self.device {
            Device::Disk { revolution_s, seek_s, settle_s, .. } => {
                slowest_of([seek_s, revolution_s, settle_s], f64::from(width.max(1)))
            }
            Device::Flash { latency_s, .. } => latency_s,
        }
    }

    /// Predicts requests beside other load. `slowest`: result of [`Parameters::slowest_positioning`] for the width, if
    /// already computed.
    pub fn predict_beside(&self, width: u32, beside: OtherLoad, slowest: Option<f64>) -> Prediction {
        let d = f64::from(width.max(1));
        let (service_s, variance, servers) = self.service(width);
        let arrivals = self.rate * d / f64::from(self.devices.max(1));
        // One server `servers` times as fast: its service time counts in the queue, the full one for the request
        // itself.
        let (in_queue, spread) = (service_s / servers, variance / (servers * servers));
        let utilisation = arrivals * in_queue + beside.utilisation;
        let square = spread + in_queue * in_queue;
        if utilisation >= 1.0 {
            let (wait_s, response_s, request_s) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
            return Prediction { service_s, arrivals, utilisation, wait_s, response_s, request_s };
        }
        let wait_s = (arrivals * square + beside.moment_s) / (2.0 * (1.0 - utilisation));
        let response_s = wait_s + service_s;
        if self.scaling == Scaling::Positioning {
            let slowest = slowest.unwrap_or_else(|| self.slowest_positioning(width));
            let request_s = wait_s * 2.0 * d / (d + 1.0) + slowest + service_s - self.positioning();
            return Prediction { service_s, arrivals, utilisation, wait_s, response_s, request_s };
        }
        let gamma = match self.scaling {
            Scaling::Uniform | Scaling::Positioning => 2.0 * d / (d + 1.0),
            Scaling::Exponential => harmonic(width.max(1)),
            Scaling::Normal => {
                // Moments of a sum of symmetric uniforms around S.
                let cube = in_queue * (in_queue * in_queue + 3.0 * spread);
                let of_wait = arrivals * cube / (3.0 * (1.0 - utilisation)) + wait_s * wait_s;
                1.0 + (variance + of_wait).max(0.0).sqrt() / response_s * (2.0 * d.ln()).sqrt()
            }
        };
        Prediction { service_s, arrivals, utilisation, wait_s, response_s, request_s: gamma * response_s }
    }
}

/// Returns the mean of the largest of `d` sums of three uniforms on `[0, span]`: the integral of `1 - F^d`.
///
/// `F(x) = sum over subsets S of the spans of (-1)^|S| max(0, x - sum S)^3 / (6 product of the spans)`.
fn slowest_of(spans: [f64; 3], d: f64) -> f64 {
    const STEPS: u32 = 256;
    let [a, b, c] = spans.map(|span| span.max(1e-9));
    let total = a + b + c;
    let below = |x: f64| {
        let cube = |less: f64| (x - less).max(0.0).powi(3);
        let sum = cube(0.0) - cube(a) - cube(b) - cube(c) + cube(a + b) + cube(a + c) + cube(b + c) - cube(total);
        (sum / (6.0 * a * b * c)).clamp(0.0, 1.0)
    };
    // Midpoints: the integrand is smooth.
    let step = total / f64::from(STEPS);
    (0..STEPS).map(|n| 1.0 - below((f64::from(n) + 0.5) * step).powf(d)).sum::<f64>() * step
}

/// Returns `1 + 1/2 + ... + 1/n`.
fn harmonic(n: u32) -> f64 {
    (1..=n).map(|k| 1.0 / f64::from(k)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-6 * b.abs().max(1.0)
    }

    #[test]
    fn the_check_values_of_the_reference() {
        let p = Parameters::default();
        let rows = [
            (1, 0.932182, 0.234375, 0.218480, 0.130316, 1.062497, 1.062497),
            (2, 0.481691, 0.46875, 0.225793, 0.070274, 0.551965, 0.735953),
            (4, 0.257945, 0.9375, 0.241824, 0.041203, 0.299149, 0.478638),
            (8, 0.149073, 1.875, 0.279511, 0.029057, 0.178129, 0.316674),
            (16, 0.100636, 3.75, 0.377386, 0.030824, 0.131461, 0.247455),
            (32, 0.088418, 7.5, 0.663136, 0.088229, 0.176647, 0.342589),
            (45, 0.093266, 10.546875, 0.983668, 2.843455, 2.936721, 5.745758),
        ];
        for (d, s, a, rho, w, r, max) in rows {
            let of = p.predict(d);
            let got = [of.service_s, of.arrivals, of.utilisation, of.wait_s, of.response_s, of.request_s];
            for (got, said) in got.into_iter().zip([s, a, rho, w, r, max]) {
                assert!((got - said).abs() < 2e-6, "width {d}: {got} and {said}");
            }
        }
        let over = p.predict(46);
        assert!((over.utilisation - 1.011605).abs() < 1e-6 && over.request_s.is_infinite());
    }

    #[test]
    fn one_wide_nothing_is_joined_and_the_scalings_grow() {
        for scaling in [Scaling::Uniform, Scaling::Exponential, Scaling::Normal] {
            let p = Parameters { scaling, ..Parameters::default() };
            let ratio = |d| p.predict(d).request_s / p.predict(d).response_s;
            assert!(near(ratio(1), 1.0), "{scaling:?}");
            assert!((1..40).all(|d| ratio(d + 1) > ratio(d) - 1e-12), "{scaling:?}");
        }
    }

    #[test]
    fn the_slowest_positioning_is_the_mean_for_one_and_near_the_end_for_many() {
        let spans = [0.018, 0.0084, 0.030];
        assert!(near(slowest_of(spans, 1.0), 0.0282));
        let slowest = [2.0, 8.0, 64.0, 4096.0].map(|d| slowest_of(spans, d));
        assert!(slowest.windows(2).all(|pair| pair[0] < pair[1]) && slowest[3] < 0.0564 && slowest[3] > 0.050);
        let ours = Parameters { scaling: Scaling::Positioning, ..Parameters::default() };
        assert!(near(ours.predict(1).request_s, ours.predict(1).response_s));
        assert!(ours.predict(16).request_s < Parameters::default().predict(16).request_s);
    }

    #[test]
    fn flash_has_no_seek_and_its_channels_share_the_load() {
        let device = Device::Flash { latency_s: 1e-4, block_s: 1e-5, channels: 1.0 };
        let one = Parameters { device, devices: 8, request_blocks: 256.0, rate: 500.0, ..Parameters::default() };
        let one = Parameters { interface_s: 0.0, overhead_s: 1e-5, ..one };
        let many = Parameters { device: Device::Flash { latency_s: 1e-4, block_s: 1e-5, channels: 8.0 }, ..one };
        let (a, b) = (one.predict(4), many.predict(4));
        assert!(near(a.service_s, 1e-4 + 64e-5 + 4e-5) && near(a.service_s, b.service_s));
        assert!(near(a.utilisation, 8.0 * b.utilisation) && b.wait_s < a.wait_s);
    }

    proptest! {
        #[test]
        fn response_grows_with_the_rate(rate in 0.5f64..100.0, width in 1u32..40) {
            let at = |rate| Parameters { rate, ..Parameters::default() }.predict(width).request_s;
            prop_assert!(at(rate * 1.1) >= at(rate));
        }
    }
}
