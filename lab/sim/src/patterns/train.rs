//! Training of the network: plain stochastic gradient descent on the cross entropy of each group.
//!
//! Everything random (first weights, order of the samples) is passed in, so the same numbers give the same network.

use policy::pattern::features::{FEATURES, Features};
use policy::pattern::network::{HIDDEN, Network};
use policy::pattern::{Label, Mix, Order, Sizes};
use std::fmt::Write as _;

/// Returns the output of each group that stands for a label.
fn targets(label: Label) -> [usize; 3] {
    let mix = match label.mix {
        Mix::ReadOnly => 0,
        Mix::WriteOnly => 1,
        Mix::Mixed => 2,
    };
    let order = match label.order {
        Order::Sequential => 3,
        Order::Strided => 4,
        Order::Random => 5,
    };
    [mix, order, if label.sizes == Sizes::Uniform { 6 } else { 7 }]
}

/// Creates a network with first weights from `random`, between -1 and 1.
pub fn untrained(mut random: impl FnMut() -> f64) -> Network {
    let mut network = Network::default();
    network.hidden.iter_mut().flatten().for_each(|weight| *weight = random());
    network.output.iter_mut().flatten().for_each(|weight| *weight = random());
    network
}

/// Makes one step of gradient descent on one sample.
pub fn learn(network: &mut Network, features: &Features, label: Label, rate: f64) {
    let (hidden, output) = network.forward(features);
    let wanted = targets(label);
    let mut back = [0.0; HIDDEN];
    for (n, weights) in network.output.iter_mut().enumerate() {
        let error = output[n] - f64::from(u8::from(wanted.contains(&n)));
        for (unit, weight) in back.iter_mut().zip(weights.iter()) {
            *unit += error * weight;
        }
        for (weight, unit) in weights.iter_mut().zip(&hidden) {
            *weight -= rate * error * unit;
        }
        weights[HIDDEN] -= rate * error;
    }
    for ((weights, unit), back) in network.hidden.iter_mut().zip(&hidden).zip(&back) {
        let slope = back * unit * (1.0 - unit);
        for (weight, x) in weights.iter_mut().zip(features) {
            *weight -= rate * slope * x;
        }
        weights[FEATURES] -= rate * slope;
    }
}

/// Returns the text of a weights file; `record` describes the training, line by line.
pub fn to_text(network: &Network, record: &str) -> String {
    let mut text = String::new();
    record.lines().for_each(|line| text += &format!("# {line}\n"));
    let mut rows = |name: &str, row: &[f64]| {
        let weights: Vec<String> = row.iter().map(|weight| format!("{weight:.6}")).collect();
        let _ = writeln!(text, "{name} {}", weights.join(" "));
    };
    network.hidden.iter().for_each(|row| rows("hidden", row));
    network.output.iter().for_each(|row| rows("output", row));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed;
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1u32 << 30) - 1.0
        }
    }

    #[test]
    fn learning_is_down_the_gradient_and_repeatable() {
        let train = || {
            let mut network = untrained(random(1));
            let reads = |x: f64| [x, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0];
            let of = |mix| Label { mix, order: Order::Sequential, sizes: Sizes::Uniform };
            for _ in 0..2000 {
                learn(&mut network, &reads(1.0), of(Mix::ReadOnly), 0.1);
                learn(&mut network, &reads(0.0), of(Mix::WriteOnly), 0.1);
                learn(&mut network, &reads(0.5), of(Mix::Mixed), 0.1);
            }
            let said = [1.0, 0.0, 0.5].map(|x| network.hints_of(&reads(x)).label);
            assert_eq!(said, [of(Mix::ReadOnly), of(Mix::WriteOnly), of(Mix::Mixed)]);
            network
        };
        assert_eq!(train(), train());
    }

    #[test]
    fn a_weights_file_is_read_back() {
        let text = to_text(&untrained(random(7)), "trained on nothing\nat all");
        assert!(text.starts_with("# trained on nothing\n# at all\nhidden "));
        let back = Network::parse(&text).unwrap();
        assert_eq!(to_text(&back, "trained on nothing\nat all"), text);
    }
}
