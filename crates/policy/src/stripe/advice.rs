//! Advice of the rules on a load: the fuzzy half of stripe control. The striper decides ([`super::striper`]).
//!
//! ```text
//!   fixed         a constant number of devices
//!   model         the optimal shape of the queueing model at the measured rates and sizes
//!   fuzzy         the rules' share of the devices
//!   model+fuzzy   the model's width, corrected by the rules for network, disk, parallelism and access pattern,
//!                 which the model lacks
//! ```
//! The measured rate is normalised by the capacity of the devices at width one (`lambda_max = m / S_1`), the size by
//! the largest of interest.
//!
//! Source: Simitci & Reed, section 5; the reference, section 10.1. `model+fuzzy` is ours.

use super::device::BLOCK_BYTES;
use super::fuzzy::Rules;
use super::model::{Device, Parameters};
use super::profile::Reading;
use crate::pattern::Hints;

/// Mechanism that chooses widths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A constant number of devices.
    Fixed(u32),
    /// The queueing model alone.
    Model,
    /// The fuzzy rules alone.
    Fuzzy,
    /// The model's width, corrected by the rules.
    ModelFuzzy,
}

/// Size of the largest request of interest: LARGE.
const REQUEST_BYTES_MAX: f64 = (4 << 20) as f64;

/// Inputs of the rules beside the load; `None` is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Surroundings {
    /// Performance of devices behind a network, from 0 (slow) to 1; 0.5 is as measured.
    pub network: Option<f64>,
    /// Performance of the other devices, in the same unit.
    pub disk: Option<f64>,
    /// Concurrent users of the file, from 0 (one) to 1.
    pub parallelism: Option<f64>,
    /// Pattern of its last requests.
    pub pattern: Option<Hints>,
}

/// Advice of the rules on a load; `None` where no rule fires.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Advice {
    /// Devices that a request should span.
    pub width: Option<f64>,
    /// Factor for the model's width.
    pub correction: f64,
    /// Devices that a file should span.
    pub stripe_width: Option<u32>,
    /// Whether a second copy is kept in step while writing.
    pub online: Option<bool>,
}

/// The rules for one set of devices.
#[derive(Clone, Debug)]
pub struct Adviser {
    parameters: Parameters,
    rules: Rules,
}

impl Adviser {
    /// Makes an adviser for these devices; rate and request size of the parameters are not used.
    pub fn new(parameters: Parameters, rules: Rules) -> Adviser {
        Adviser { parameters, rules }
    }

    /// Replaces the parameters of the devices.
    pub fn set_parameters(&mut self, parameters: Parameters) {
        self.parameters = parameters;
    }

    /// Returns the advice of the rules on this load.
    pub fn advice(&self, load: Reading, around: Surroundings) -> Advice {
        let inputs = self.inputs(load, around);
        Advice {
            width: self.rule("RequestWidth", &inputs).map(|share| share * f64::from(self.parameters.devices)),
            correction: self.correction(&inputs),
            stripe_width: self.rule("StripeWidth", &inputs).map(|share| self.devices(share)),
            online: self.rule("FileReplicationTime", &inputs).map(|online| online >= 0.5),
        }
    }

    fn at(&self, load: Reading) -> Parameters {
        let blocks = (load.bytes / BLOCK_BYTES).max(1.0);
        Parameters { rate: load.rate.max(1e-3), request_blocks: blocks, ..self.parameters }
    }

    fn inputs(&self, load: Reading, around: Surroundings) -> Vec<Option<f64>> {
        let one_wide = self.at(load).predict(1).service_s;
        let servers = match self.parameters.device {
            Device::Disk { .. } => 1.0,
            Device::Flash { channels, .. } => channels.max(1.0),
        };
        let lambda_max = f64::from(self.parameters.devices) * servers / one_wide;
        let sizeless = Parameters { request_blocks: 0.0, ..self.at(load) }.predict(1).service_s;
        let of = |name: &str| match name {
            "RequestRate" => Some((load.rate / lambda_max).clamp(0.0, 1.0)),
            "TransferShare" => Some((1.0 - sizeless / one_wide).clamp(0.0, 1.0)),
            "RequestSize" => Some((load.bytes / REQUEST_BYTES_MAX).clamp(0.0, 1.0)),
            "NetworkPerformance" => around.network,
            "DiskPerformance" => around.disk,
            "FileParallelism" => around.parallelism,
            "Sequentiality" => around.pattern.map(|pattern| pattern.sequentiality),
            "WriteShare" => around.pattern.map(|pattern| pattern.writes),
            "SizeVariability" => around.pattern.map(|pattern| pattern.variability),
            _ => None,
        };
        self.rules.inputs.iter().map(|variable| of(&variable.name)).collect()
    }

    /// Returns the rules' factor for a width, from inputs that the model lacks.
    fn correction(&self, inputs: &[Option<f64>]) -> f64 {
        let known = |of: &str| matches!(of, "RequestRate" | "RequestSize" | "TransferShare");
        let names = self.rules.inputs.iter().zip(inputs);
        let load_alone: Vec<_> = names.map(|(of, x)| if known(&of.name) { *x } else { None }).collect();
        let (all, alone) = (self.rule("RequestWidth", inputs), self.rule("RequestWidth", &load_alone));
        all.zip(alone).map_or(1.0, |(all, alone)| all / alone.max(1e-6))
    }

    fn rule(&self, output: &str, inputs: &[Option<f64>]) -> Option<f64> {
        self.rules.decide(inputs, self.rules.output(output)?)
    }

    fn devices(&self, share: f64) -> u32 {
        ((share * f64::from(self.parameters.devices)).round() as u32).clamp(1, self.parameters.devices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{Label, Mix, Order, Sizes};
    use crate::stripe::rules;

    fn adviser(devices: u32) -> Adviser {
        Adviser::new(Parameters { devices, ..Parameters::default() }, rules::parse(rules::PAPER).unwrap())
    }

    fn load(rate: f64, kib: u64) -> Reading {
        Reading { rate, bytes: (kib << 10) as f64 }
    }

    #[test]
    fn the_rules_give_a_share_of_the_devices() {
        // INFREQUENT and LARGE is HUGE: 0.9167 of 128.
        let rare = adviser(128).advice(load(0.001, 4096), Surroundings::default());
        assert_eq!((rare.width.unwrap().round(), rare.online, rare.correction), (117.0, Some(true), 1.0));
        let sure = Surroundings { parallelism: Some(1.0), ..Surroundings::default() };
        assert_eq!(adviser(128).advice(load(0.001, 4096), sure).stripe_width, Some(32));
    }

    #[test]
    fn the_rules_correct_the_model_where_it_knows_nothing() {
        let network = |network| {
            let around = Surroundings { network: Some(network), ..Surroundings::default() };
            adviser(128).advice(load(30.0, 4096), around).correction
        };
        assert!(network(0.0) < 1.0 && network(1.0) > network(0.0), "{} {}", network(0.0), network(1.0));
    }

    /// Devices that perform as specified are no reason for another width, a slower network is. Our rules ignore slower
    /// disks, since the parameters follow them; the paper's rules widen.
    #[test]
    fn our_rules_take_devices_that_do_as_said_for_nothing_new() {
        let device = crate::stripe::device::Measured::disk(0.012, 0.008, 20e6, 20e6, 0.0);
        let adviser = Adviser::new(device.parameters(24), rules::parse(rules::ADAPTIVE).unwrap());
        for (rate, kib) in [(2.0, 2048), (150.0, 32), (50.0, 600)] {
            let of = |disk, network| {
                let around = Surroundings { disk, network, ..Surroundings::default() };
                adviser.advice(load(rate, kib), around).correction
            };
            assert_eq!((of(Some(0.5), None), of(None, Some(0.5))), (1.0, 1.0), "{rate}/s of {kib} KiB");
        }
        let slow = |rate, disk, network| {
            let around = Surroundings { disk, network, ..Surroundings::default() };
            adviser.advice(load(rate, 600), around).correction
        };
        assert!(slow(300.0, Some(0.1), None) == 1.0 && slow(50.0, None, Some(0.1)) < 0.9);
    }

    #[test]
    fn the_pattern_of_requests_is_an_input_of_the_rules() {
        let device = crate::stripe::device::Measured::disk(0.012, 0.008, 20e6, 20e6, 0.0);
        let advice = |pattern: Option<Hints>| {
            let adviser = Adviser::new(device.parameters(8), rules::parse(rules::ADAPTIVE).unwrap());
            adviser.advice(load(50.0, 600), Surroundings { pattern, ..Surroundings::default() })
        };
        let of = |order, mix| Some(Label { mix, order, sizes: Sizes::Uniform }.into());
        let unknown = advice(None);
        let random = advice(of(Order::Random, Mix::ReadOnly));
        let sequential = advice(of(Order::Sequential, Mix::ReadOnly));
        assert_eq!(random.width, unknown.width);
        assert!(sequential.width > random.width, "{sequential:?} {random:?}");
        assert!(
            sequential.correction > 1.1 && (random.correction - 1.0).abs() < 1e-9,
            "the model takes all for random"
        );
        assert_eq!(random.online, Some(true));
        assert_eq!(advice(of(Order::Random, Mix::WriteOnly)).online, Some(false));
    }
}
