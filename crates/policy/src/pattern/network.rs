//! Small feed-forward network: seven features, one hidden layer of sigmoid units, and three groups of outputs with one
//! label each.
//!
//! The weights live in a text file with the record of their training in its comments ([`BUILT_IN`]).

use super::features::{FEATURES, Features, features};
use super::{Classifier, Hints, Label, Mix, Order, Request, Sizes};

/// Number of hidden units.
pub const HIDDEN: usize = 10;
/// Outputs: three for the mix, three for the order, two for the sizes.
pub const OUTPUTS: usize = 8;
const GROUPS: [std::ops::Range<usize>; 3] = [0..3, 3..6, 6..8];

/// Trained network built into the program; made by `entrepot-lab patterns train`.
pub const BUILT_IN: &str = include_str!("weights.txt");

/// Weights of the network; the last of each row is the bias.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// Weights of the hidden units.
    pub hidden: [[f64; FEATURES + 1]; HIDDEN],
    /// Weights of the outputs.
    pub output: [[f64; HIDDEN + 1]; OUTPUTS],
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

impl Network {
    /// Returns the values of the hidden units and of the outputs.
    pub fn forward(&self, features: &Features) -> ([f64; HIDDEN], [f64; OUTPUTS]) {
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

    /// Parses a weights file. The error names the wrong line.
    pub fn parse(text: &str) -> Result<Network, String> {
        let mut network = Network::default();
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

    #[test]
    fn mistakes_in_a_weights_file_are_named() {
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
