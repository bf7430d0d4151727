//! Windows of requests with a known pattern: training and test data of the classifier of `policy::pattern`.
//!
//! Windows are not clean: they contain some foreign requests, a few percent of writes in a read-only pattern, and jumps
//! between runs. The amount of disturbance is a guess. The label is the intended pattern, whatever the disturbance.

pub mod recent;
pub mod train;

use crate::generate::Rng;
use policy::pattern::features::{Features, WINDOW, WINDOW_MIN, features};
use policy::pattern::network::Network;
use policy::pattern::{Classifier, Label, Mix, Order, Request, Sizes};

const FILE_BYTES: u64 = 1 << 36;

/// Draws a window of that pattern, with up to this share of disturbance.
pub fn window(rng: &mut Rng, label: Label, noise: f64) -> Vec<Request> {
    let len = if rng.chance(0.2) { WINDOW_MIN as u64 + rng.below((WINDOW - WINDOW_MIN) as u64) } else { WINDOW as u64 };
    let noise = noise * rng.unit();
    let unit = 512u64 << rng.below(12);
    let size = |rng: &mut Rng| match label.sizes {
        Sizes::Uniform => unit,
        Sizes::Variable => (1 + rng.below(40)) * 512,
    };
    let writes = match label.mix {
        Mix::ReadOnly => 0.0,
        Mix::WriteOnly => 1.0,
        Mix::Mixed => 0.15 + 0.7 * rng.unit(),
    };
    // A stride is from start to start, and never sequential.
    let stride = unit.max(40 * 512) * (2 + rng.below(64));
    let backwards = label.order == Order::Strided && rng.chance(0.2);
    let mut at = FILE_BYTES / 2 + rng.below(1 << 20) * 512;
    let mut all: Vec<Request> = Vec::new();
    while (all.len() as u64) < len {
        let bytes = size(rng);
        let offset = match label.order {
            Order::Sequential => all.last().map_or(at, |last| last.offset + last.len),
            Order::Strided if backwards => at.wrapping_sub(stride * all.len() as u64),
            Order::Strided => at + stride * all.len() as u64,
            Order::Random => rng.below(FILE_BYTES / 512) * 512,
        };
        let disturbed = rng.chance(noise);
        if disturbed && label.order != Order::Random {
            // A jump: the pattern continues elsewhere from here.
            at = FILE_BYTES / 2 + rng.below(1 << 20) * 512;
            let elsewhere =
                if label.order == Order::Sequential { at } else { offset.wrapping_add(rng.below(1 << 20) * 512) };
            all.push(Request { write: rng.chance(writes), offset: elsewhere, len: bytes });
            continue;
        }
        all.push(Request { write: rng.chance(writes), offset, len: bytes });
    }
    all
}

/// Features of a window, with its label.
type Sample = (Features, Label);

/// Draws `each` windows of every pattern.
pub fn samples(seed: u64, each: usize, noise: f64) -> Vec<Sample> {
    let mut rng = Rng::new(seed, 0);
    let mut all = Vec::new();
    for _ in 0..each {
        for label in Label::all() {
            let seen = features(&window(&mut rng, label, noise));
            all.extend(seen.map(|features| (features, label)));
        }
    }
    all
}

/// Parameters of a network's training.
#[derive(Clone, Copy, Debug)]
pub struct Training {
    /// Seed of windows, first weights and order.
    pub seed: u64,
    /// Windows of every pattern.
    pub each: usize,
    /// Passes over all windows.
    pub epochs: usize,
    /// Size of the steps.
    pub rate: f64,
    /// Maximum share of disturbance in windows.
    pub noise: f64,
}

impl Default for Training {
    fn default() -> Training {
        Training { seed: 1, each: 200, epochs: 60, rate: 0.1, noise: 0.2 }
    }
}

/// Trains a network on generated windows.
pub fn train(how: Training) -> Network {
    let mut samples = samples(how.seed, how.each, how.noise);
    let mut rng = Rng::new(how.seed, 1);
    let mut network = train::untrained(|| rng.unit() - 0.5);
    let mut order = Rng::new(how.seed, 2);
    for epoch in 0..how.epochs {
        order.shuffle(&mut samples);
        let rate = how.rate / (1.0 + epoch as f64 / how.epochs.max(1) as f64 * 4.0);
        samples.iter().for_each(|(features, label)| train::learn(&mut network, features, *label, rate));
    }
    network
}

/// Shares of correctly classified windows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Accuracy {
    /// Number of windows.
    pub windows: usize,
    /// Share with the right mix of reads and writes.
    pub mix: f64,
    /// Share with the right order.
    pub order: f64,
    /// Share with the right sizes.
    pub sizes: f64,
    /// Share with all three right.
    pub all: f64,
}

/// Measures a classifier.
pub fn accuracy(classifier: &dyn Classifier, windows: impl Iterator<Item = (Vec<Request>, Label)>) -> Accuracy {
    let (mut n, mut right) = (0usize, [0usize; 4]);
    for (window, label) in windows {
        let Some(said) = classifier.classify(&window) else { continue };
        n += 1;
        let same = [said.mix == label.mix, said.order == label.order, said.sizes == label.sizes, said == label];
        right.iter_mut().zip(same).for_each(|(sum, same)| *sum += usize::from(same));
    }
    let [mix, order, sizes, all] = right.map(|right| right as f64 / n.max(1) as f64);
    Accuracy { windows: n, mix, order, sizes, all }
}

/// Generates windows with labels, from other random numbers than the training windows.
pub fn windows(seed: u64, each: usize, noise: f64) -> impl Iterator<Item = (Vec<Request>, Label)> {
    let mut rng = Rng::new(seed, 3);
    (0..each).flat_map(move |_| Label::all().map(|label| (window(&mut rng, label, noise), label)).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::pattern::network::BUILT_IN;
    use policy::pattern::rules::RulesOfThumb;

    #[test]
    fn both_classifiers_know_generated_windows() {
        let network = Network::parse(BUILT_IN).unwrap();
        for (noise, least) in [(0.0, 0.97), (0.2, 0.93)] {
            let of = |classifier: &dyn Classifier| accuracy(classifier, windows(99, 50, noise));
            let (rules, trained) = (of(&RulesOfThumb), of(&network));
            assert!(trained.all >= least && trained.windows == 900, "noise {noise}: {trained:?}");
            assert!(rules.all >= least - 0.1, "noise {noise}: {rules:?}");
        }
    }

    #[test]
    fn training_is_repeatable_and_learns() {
        let short = Training { each: 20, epochs: 10, ..Training::default() };
        let network = train(short);
        assert_eq!(network, train(short));
        let untrained = train(Training { epochs: 0, ..short });
        let of = |network: &Network| accuracy(network, windows(99, 20, 0.1)).all;
        assert!(of(&network) > 2.0 * of(&untrained) && of(&network) > 0.7, "{} {}", of(&network), of(&untrained));
    }
}
