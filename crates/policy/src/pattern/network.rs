//! Small feed-forward network: seven features, one hidden layer of sigmoid units, and three groups of outputs with one
//! label each.
//!
//! Training is plain stochastic gradient descent on the cross entropy of each group. Everything random (first weights,
//! order of the samples) is passed in, so the same numbers give the same network.
//!
//! The weights live in a text file with the record of their training in its comments ([`BUILT_IN`]).

use super::features::{FEATURES, Features, features};
use super::{Classifier, Hints, Label, Mix, Order, Request, Sizes};
use std::fmt::Write as _;

/// Number of hidden units.
pub const HIDDEN: usize = 10;
/// Outputs: three for the mix, three for the order, two for the sizes.
pub const OUTPUTS: usize = 8;
const GROUPS: [std::ops::Range<usize>; 3] = [0..3, 3..6, 6..8];

/// Trained network built into the program; made by `entrepot-lab patterns train`.
pub const BUILT_IN: &str = include_str!("weights.txt");

/// Weights of the network; the last of each row is the bias.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    hidden: [[f64; FEATURES + 1]; HIDDEN],
    output: [[f64; HIDDEN + 1]; OUTPUTS],
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

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

impl Network {
    /// Creates a network with first weights from `random`, between -1 and 1.
    pub fn new(mut random: impl FnMut() -> f64) -> Network {
        let mut row = || -> f64 { random() };
        let mut network = Network { hidden: [[0.0; FEATURES + 1]; HIDDEN], output: [[0.0; HIDDEN + 1]; OUTPUTS] };
        network.hidden.iter_mut().flatten().for_each(|weight| *weight = row());
        network.output.iter_mut().flatten().for_each(|weight| *weight = row());
        network
    }

    fn forward(&self, features: &Features) -> ([f64; HIDDEN], [f64; OUTPUTS]) {
        let mut hidden = [0.0; HIDDEN];
        for (unit, weights) in hidden.iter_mut().zip(&self.hidden) {
            let sum: f64 = weights.iter().zip(features).map(|(w, x)| w * x).sum();
            *unit = sigmoid(sum + weights[FEATURES]);
        }
        let mut output = [0.0; OUTPUTS];
        for (out, weights) in output.iter_mut().zip(&self.output) {
            *out = weights.iter().zip(&hidden).map(|(w, x)| w * x).sum::<f64>() + weights[HIDDEN];
        }
        for group in GROUPS {
            let most = output[group.clone()].iter().copied().fold(f64::NEG_INFINITY, f64::max);
            output[group.clone()].iter_mut().for_each(|out| *out = (*out - most).exp());
            let sum: f64 = output[group.clone()].iter().sum();
            output[group].iter_mut().for_each(|out| *out /= sum);
        }
        (hidden, output)
    }

    /// Returns the label of features with its certainty: the values of each group's outputs, weighted with their
    /// shares.
    pub fn hints_of(&self, features: &Features) -> Hints {
        let (_, output) = self.forward(features);
        Hints {
            label: Network::largest(&output),
            sequentiality: output[3] + 0.5 * output[4],
            writes: output[1] + 0.5 * output[2],
            variability: output[7],
        }
    }

    /// Returns the label of features.
    pub fn label(&self, features: &Features) -> Label {
        Network::largest(&self.forward(features).1)
    }

    fn largest(output: &[f64; OUTPUTS]) -> Label {
        let best = |group: std::ops::Range<usize>| {
            group.clone().max_by(|a, b| output[*a].total_cmp(&output[*b])).unwrap_or(group.start) - group.start
        };
        let [mix, order, sizes] = GROUPS.map(best);
        Label {
            mix: [Mix::ReadOnly, Mix::WriteOnly, Mix::Mixed][mix],
            order: [Order::Sequential, Order::Strided, Order::Random][order],
            sizes: [Sizes::Uniform, Sizes::Variable][sizes],
        }
    }

    /// Makes one step of gradient descent on one sample.
    pub fn learn(&mut self, features: &Features, label: Label, rate: f64) {
        let (hidden, output) = self.forward(features);
        let wanted = targets(label);
        let mut back = [0.0; HIDDEN];
        for (n, weights) in self.output.iter_mut().enumerate() {
            let error = output[n] - f64::from(u8::from(wanted.contains(&n)));
            for (unit, weight) in back.iter_mut().zip(weights.iter()) {
                *unit += error * weight;
            }
            for (weight, unit) in weights.iter_mut().zip(&hidden) {
                *weight -= rate * error * unit;
            }
            weights[HIDDEN] -= rate * error;
        }
        for ((weights, unit), back) in self.hidden.iter_mut().zip(&hidden).zip(&back) {
            let slope = back * unit * (1.0 - unit);
            for (weight, x) in weights.iter_mut().zip(features) {
                *weight -= rate * slope * x;
            }
            weights[FEATURES] -= rate * slope;
        }
    }

    /// Returns the text of a weights file; `record` describes the training, line by line.
    pub fn to_text(&self, record: &str) -> String {
        let mut text = String::new();
        record.lines().for_each(|line| text += &format!("# {line}\n"));
        let mut rows = |name: &str, row: &[f64]| {
            let weights: Vec<String> = row.iter().map(|weight| format!("{weight:.6}")).collect();
            let _ = writeln!(text, "{name} {}", weights.join(" "));
        };
        self.hidden.iter().for_each(|row| rows("hidden", row));
        self.output.iter().for_each(|row| rows("output", row));
        text
    }

    /// Parses a weights file. The error names the wrong line.
    pub fn parse(text: &str) -> Result<Network, String> {
        let mut network = Network::new(|| 0.0);
        let (mut hidden, mut output) = (0, 0);
        for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty())
        {
            let wrong = |what: &str| format!("line {}: {what}", n + 1);
            let (name, weights) = line.split_once(' ').ok_or_else(|| wrong("give `hidden` or `output` and numbers"))?;
            let weights: Vec<f64> = weights
                .split_whitespace()
                .map(|weight| weight.parse::<f64>().ok().filter(|weight| weight.is_finite()))
                .collect::<Option<_>>()
                .ok_or_else(|| wrong("a weight is no number"))?;
            let row: &mut [f64] = match name {
                "hidden" if hidden < HIDDEN => {
                    hidden += 1;
                    &mut network.hidden[hidden - 1]
                }
                "output" if output < OUTPUTS => {
                    output += 1;
                    &mut network.output[output - 1]
                }
                _ => return Err(wrong("there is no such row, or too many of them")),
            };
            if row.len() != weights.len() {
                return Err(wrong(&format!("a row has {} weights", row.len())));
            }
            row.copy_from_slice(&weights);
        }
        match (hidden, output) {
            (HIDDEN, OUTPUTS) => Ok(network),
            _ => Err(format!("there are {hidden} hidden and {output} output rows; {HIDDEN} and {OUTPUTS} are needed")),
        }
    }
}

impl Classifier for Network {
    fn hints(&self, window: &[Request]) -> Option<Hints> {
        features(window).map(|features| self.hints_of(&features))
    }
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
            let mut network = Network::new(random(1));
            let reads = |x: f64| [x, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0];
            let of = |mix| Label { mix, order: Order::Sequential, sizes: Sizes::Uniform };
            for _ in 0..2000 {
                network.learn(&reads(1.0), of(Mix::ReadOnly), 0.1);
                network.learn(&reads(0.0), of(Mix::WriteOnly), 0.1);
                network.learn(&reads(0.5), of(Mix::Mixed), 0.1);
            }
            let said = [1.0, 0.0, 0.5].map(|x| network.label(&reads(x)));
            assert_eq!(said, [of(Mix::ReadOnly), of(Mix::WriteOnly), of(Mix::Mixed)]);
            network
        };
        assert_eq!(train(), train());
    }

    #[test]
    fn a_weights_file_is_read_back_and_mistakes_are_named() {
        let text = Network::new(random(7)).to_text("trained on nothing\nat all");
        assert!(text.starts_with("# trained on nothing\n# at all\nhidden "));
        let back = Network::parse(&text).unwrap();
        assert_eq!(back.to_text("trained on nothing\nat all"), text);
        for (wrong, said) in [
            ("", "0 hidden and 0 output"),
            ("hidden 1 2", "line 1: a row has 8 weights"),
            ("weights 1", "line 1: there is no such row"),
            ("hidden x 1 1 1 1 1 1 1", "line 1: a weight is no number"),
        ] {
            assert!(Network::parse(wrong).unwrap_err().contains(said), "{wrong}");
        }
    }

    #[test]
    fn the_built_in_network_knows_plain_windows_and_says_how_it_was_trained() {
        let network = Network::parse(BUILT_IN).unwrap();
        assert!(BUILT_IN.starts_with("# entrepot-lab patterns train"), "its record");
        for (write, stride, said) in
            [(false, 4096, "read-only, sequential, uniform sizes"), (true, 65536, "write-only, strided, uniform sizes")]
        {
            let window: Vec<_> = (0..64).map(|n| Request { write, offset: n * stride, len: 4096 }).collect();
            let hints = network.hints(&window).unwrap();
            assert_eq!(hints.label.to_string(), said);
            let plain = super::super::Hints::from(hints.label);
            let apart = [
                hints.sequentiality - plain.sequentiality,
                hints.writes - plain.writes,
                hints.variability - plain.variability,
            ];
            assert!(apart.iter().all(|x| x.abs() < 0.1), "{hints:?}");
        }
    }
}
