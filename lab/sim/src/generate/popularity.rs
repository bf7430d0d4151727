//! Zipf's law: the k-th most popular of `n` items is requested with a probability in proportion to `1 / k^theta`.

use super::{Rng, arithmetic};

/// Draws ranks, 0 the most popular. Memory: 8 bytes per item.
#[derive(Clone, Debug)]
pub(super) struct Popularity {
    /// Cumulative weights up to each rank.
    sums: Vec<f64>,
}

impl Popularity {
    /// Creates the distribution over `n` items (at least 1) with exponent `theta` (0 is uniform).
    pub(super) fn new(n: usize, theta: f64) -> Popularity {
        let mut sum = 0.0;
        let weight = |rank: usize| arithmetic::exp((-theta * arithmetic::ln(rank as f64)).max(-700.0));
        let sums = (1..=n.max(1)).map(|rank| {
            sum += weight(rank);
            sum
        });
        Popularity { sums: sums.collect() }
    }

    pub(super) fn draw(&self, rng: &mut Rng) -> usize {
        let at = rng.unit() * self.sums[self.sums.len() - 1];
        self.sums.partition_point(|&sum| sum <= at).min(self.sums.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_follow_the_law() {
        let popularity = Popularity::new(1000, 1.0);
        let mut counts = vec![0u32; 1000];
        let mut rng = Rng::new(1, 0);
        (0..200_000).for_each(|_| counts[popularity.draw(&mut rng)] += 1);
        let harmonic: f64 = (1..=1000).map(|k| 1.0 / f64::from(k)).sum();
        for rank in [0, 1, 9] {
            let expected = 200_000.0 / harmonic / (rank as f64 + 1.0);
            assert!((f64::from(counts[rank]) / expected - 1.0).abs() < 0.05, "rank {rank}");
        }
        let flat = Popularity::new(4, 0.0);
        assert!((0..1000).map(|_| flat.draw(&mut rng)).all(|rank| rank < 4));
    }
}
