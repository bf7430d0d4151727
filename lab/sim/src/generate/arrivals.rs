//! Arrival processes of one stream: evenly, at random, or in bursts of a given strength.

use super::Rng;

/// A process of arrivals with a mean rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// One request every 1 / rate.
    Constant,
    /// Independent requests: the number in one second has the square root of the rate as standard deviation.
    Poisson,
    /// The rate changes from window to window, with a standard deviation of `sigma` times its mean (as near as two
    /// rates allow). Up to 1 the rates are `1 - sigma` and `1 + sigma` times the mean, in pairs of windows in random
    /// order. Above 1, one window of `1 + sigma^2` has all the requests of its group, evenly.
    Bursty {
        /// Standard deviation of the rate, as a multiple of the mean.
        sigma: f64,
        /// Length of a window.
        window_ns: u64,
    },
    /// Gaps of a gamma distribution, with this standard deviation as a multiple of their mean.
    Gamma(f64),
}

/// Clock of one stream: the time of each request, in order.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    arrivals: Arrivals,
    rate_per_s: f64,
    gap_ns: f64,
    start_ns: f64,
    count: u64,
    rng: Rng,
    now_ns: f64,
    /// Bursty: index of the window; the group holds the rate in it and the remaining rates, as multiples of the mean.
    window: u64,
    group: Vec<f64>,
}

impl Clock {
    /// Starts a clock at `start_ns`; the rate is per second.
    pub(super) fn new(arrivals: Arrivals, rate_per_s: f64, start_ns: u64, rng: Rng) -> Clock {
        let (rate_per_s, start_ns) = (rate_per_s.max(1e-9), start_ns as f64);
        let (gap_ns, group) = (1e9 / rate_per_s, Vec::new());
        let mut clock =
            Clock { arrivals, rate_per_s, gap_ns, start_ns, count: 0, rng, now_ns: start_ns, window: 0, group };
        if let Arrivals::Bursty { window_ns, .. } = arrivals {
            clock.window = (start_ns / window_ns.max(1) as f64) as u64;
        }
        clock
    }

    /// Returns the time of the next request.
    pub(super) fn next(&mut self) -> u64 {
        let at = match self.arrivals {
            Arrivals::Constant => {
                // Computed from the count, not as a sum of gaps, so that errors do not accumulate.
                let at = self.start_ns + self.count as f64 * 1e9 / self.rate_per_s;
                self.count += 1;
                at
            }
            Arrivals::Poisson => {
                self.now_ns += self.rng.exponential(self.gap_ns);
                self.now_ns
            }
            Arrivals::Gamma(variation) => {
                self.now_ns += self.rng.gamma(variation) * self.gap_ns;
                self.now_ns
            }
            Arrivals::Bursty { sigma, window_ns } => self.next_in_burst(sigma, window_ns.max(1) as f64),
        };
        at as u64
    }

    fn next_in_burst(&mut self, sigma: f64, window_ns: f64) -> f64 {
        loop {
            if self.group.is_empty() {
                self.group = group(sigma);
                self.rng.shuffle(&mut self.group);
            }
            let end_ns = (self.window + 1) as f64 * window_ns;
            let rate = self.group.last().copied().unwrap_or(0.0);
            if rate > 0.0 && self.now_ns < end_ns {
                let at = self.now_ns;
                self.now_ns += self.gap_ns / rate;
                return at;
            }
            // The part of a gap beyond the end of the window continues in the next window that has requests.
            let over_ns =
                if rate > 0.0 { (self.now_ns - end_ns).max(0.0) * rate } else { self.now_ns - end_ns + window_ns };
            self.group.pop();
            self.window += 1;
            let next = self.group.last().copied().filter(|r| *r > 0.0);
            self.now_ns = end_ns + next.map_or(over_ns.min(window_ns), |r| over_ns / r);
        }
    }
}

/// Returns the rates of a group of windows, as multiples of the mean; their mean is 1, their standard deviation
/// `sigma`.
fn group(sigma: f64) -> Vec<f64> {
    if sigma <= 1.0 {
        return vec![1.0 - sigma, 1.0 + sigma];
    }
    let windows = (1.0 + sigma * sigma).round();
    let mut rates = vec![0.0; windows as usize];
    rates[0] = windows;
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Returns mean and standard deviation of the number of requests per window.
    fn windows(arrivals: Arrivals, rate: f64, window_ns: u64, count: usize) -> (f64, f64) {
        let mut clock = Clock::new(arrivals, rate, 0, Rng::new(5, 5));
        let mut counts = vec![0u32; count];
        let mut last = 0;
        loop {
            let at = clock.next();
            assert!(at >= last, "time goes back");
            last = at;
            match counts.get_mut((at / window_ns) as usize) {
                Some(n) => *n += 1,
                None => break,
            }
        }
        let mean = counts.iter().map(|n| f64::from(*n)).sum::<f64>() / count as f64;
        let square = counts.iter().map(|n| (f64::from(*n) - mean) * (f64::from(*n) - mean)).sum::<f64>();
        (mean, (square / count as f64).sqrt())
    }

    #[test]
    fn even_arrivals_have_no_deviation_and_random_ones_the_root() {
        assert_eq!(windows(Arrivals::Constant, 1000.0, SECOND_NS, 50), (1000.0, 0.0));
        let (mean, deviation) = windows(Arrivals::Poisson, 1000.0, SECOND_NS, 1000);
        assert!((mean - 1000.0).abs() < 5.0 && (deviation - 1000f64.sqrt()).abs() < 3.0, "{mean} {deviation}");
    }

    #[test]
    fn bursts_have_the_mean_and_deviation_asked_for() {
        let window_ns = SECOND_NS / 10;
        for sigma in [0.095, 0.5, 1.0, 3.0, 5.0, 7.0] {
            let (mean, deviation) = windows(Arrivals::Bursty { sigma, window_ns }, 1000.0, window_ns, 5000);
            assert!((mean - 100.0).abs() < 1.5, "sigma {sigma}: mean {mean}");
            assert!((deviation / 100.0 - sigma).abs() < 0.03 * sigma.max(1.0), "sigma {sigma}: {deviation}");
        }
    }
}
