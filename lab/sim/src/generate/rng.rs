//! Our own random numbers: a counter through a mixing function, identical on all machines.

use super::arithmetic;

/// The odd number nearest to 2^64 over the golden ratio, so that consecutive steps are far apart.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of random numbers. The mixing is that of SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates a stream of a seed; streams of one seed with different numbers are independent.
    pub fn new(seed: u64, stream: u64) -> Rng {
        Rng(mix(mix(seed).wrapping_add(mix(stream ^ STEP))))
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// Returns a number below `n` (0 if `n` is 0).
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// Returns a number from 0 up to, but not including, 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns true with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Returns an exponentially distributed number.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -arithmetic::ln(1.0 - self.unit()) * mean
    }

    /// Returns a number of a gamma distribution with mean 1 and this standard deviation above 0. Source: Marsaglia and
    /// Tsang 2000, with their power of a uniform number for shapes below 1.
    pub fn gamma(&mut self, variation: f64) -> f64 {
        let shape = 1.0 / (variation * variation);
        let d = shape.max(1.0 + shape * f64::from(u8::from(shape < 1.0))) - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        let of_shape = loop {
            let x = self.normal();
            let v = (1.0 + c * x) * (1.0 + c * x) * (1.0 + c * x);
            if v > 0.0 && arithmetic::ln(1.0 - self.unit()) < 0.5 * x * x + d - d * v + d * arithmetic::ln(v) {
                break d * v;
            }
        };
        if shape >= 1.0 {
            return of_shape / shape;
        }
        of_shape / shape * arithmetic::exp((arithmetic::ln(1.0 - self.unit()) / shape).max(-700.0))
    }

    /// Returns a normally distributed number (Marsaglia's polar method).
    fn normal(&mut self) -> f64 {
        loop {
            let (u, v) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let s = u * u + v * v;
            if s > 1e-300 && s < 1.0 {
                return u * (-2.0 * arithmetic::ln(s) / s).sqrt();
            }
        }
    }

    /// Returns a number below `n` whose logarithm is uniform: small ones are likely, like short reuse distances.
    pub fn small_below(&mut self, n: u64) -> u64 {
        let rank = arithmetic::exp(self.unit() * arithmetic::ln(n as f64 + 1.0)) as u64;
        rank.clamp(1, n.max(1)) - 1
    }

    /// Puts a slice into random order.
    pub fn shuffle<T>(&mut self, slice: &mut [T]) {
        for last in (1..slice.len()).rev() {
            slice.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_splitmix64() {
        // Published first outputs for the state 0.
        let mut rng = Rng(0);
        assert_eq!([rng.bits(), rng.bits()], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
    }

    #[test]
    fn moments_are_right_and_streams_differ() {
        let mut rng = Rng::new(1, 0);
        let n = 100_000;
        let mean = |values: &mut dyn FnMut() -> f64| (0..n).map(|_| values()).sum::<f64>() / f64::from(n);
        assert!((mean(&mut || rng.unit()) - 0.5).abs() < 0.005);
        assert!((mean(&mut || rng.exponential(3.0)) - 3.0).abs() < 0.05);
        assert!((mean(&mut || rng.below(10) as f64) - 4.5).abs() < 0.05);
        for variation in [0.5, 1.0, 3.0] {
            let (mut sum, mut squares) = (0.0, 0.0);
            (0..n).map(|_| rng.gamma(variation)).for_each(|x| (sum, squares) = (sum + x, squares + x * x));
            let mean = sum / f64::from(n);
            let deviation = (squares / f64::from(n) - mean * mean).sqrt();
            assert!((mean - 1.0).abs() < 0.05 && (deviation / variation - 1.0).abs() < 0.05, "{mean} {deviation}");
        }
        // Log-uniform ranks: half of them below the root of the range.
        assert!((mean(&mut || f64::from(u8::from(rng.small_below(9_999) < 99))) - 0.5).abs() < 0.01);
        assert!((0..1000).all(|_| rng.small_below(3) < 3));
        assert_ne!(Rng::new(1, 0).bits(), Rng::new(1, 1).bits());
        assert_ne!(Rng::new(1, 0).bits(), Rng::new(2, 0).bits());
    }
}
