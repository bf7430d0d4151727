//! The controller: how wide the next layout should be.
//!
//! ```text
//!   fixed         a number
//!   model         the optimal width of the queueing model at the measured rate and size
//!   fuzzy         the rules' share of the devices
//!   model+fuzzy   the model's width, corrected by what the rules make of network, disk, parallelism and access pattern, which the model
//!                 does not know
//! ```
//! The measured rate is normalised by what the devices can serve one wide (`lambda_max = m / S_1`), the size by the largest of interest.
//! The striping unit is `request / width`, rounded up to the devices' granularity.
//!
//! A new width is taken only if it is proposed several times running, and if the model expects it to be better by a margin (without the
//! model: if it differs by a margin), so that layouts do not flap.
//!
//! Source: Simitci & Reed, sections 3 and 5; the reference, section 10.1. Hysteresis and `model+fuzzy` are ours.

use super::fuzzy::Rules;
use super::model::{Device, Parameters};
use super::sensor::Reading;
use crate::pattern::Hints;

/// Who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nobody: always so many devices.
    Fixed(u32),
    /// The model.
    Model,
    /// The rules.
    Fuzzy,
    /// Both.
    ModelFuzzy,
}

/// The inputs that rules may ask for, and what they are.
pub const INPUTS: [(&str, &str); 9] = [
    ("RequestRate", "share of the devices' time that the requests would take one device wide"),
    ("TransferShare", "share of a request's service time, one device wide, that is transfer"),
    ("RequestSize", "mean size, as a share of 4 MiB"),
    ("NetworkPerformance", "from slow to fast"),
    ("DiskPerformance", "what the devices do, against what they are said to do; 0.5 is as said"),
    ("FileParallelism", "users of the file, as a share of the devices"),
    ("Sequentiality", "1 sequential, 0.5 strided, 0 random"),
    ("WriteShare", "1 write-only, 0.5 mixed, 0 read-only"),
    ("SizeVariability", "1 sizes differ, 0 all alike"),
];

/// What rules may decide.
pub const OUTPUTS: [(&str, &str); 3] = [
    ("RequestWidth", "share of the devices that a request spans"),
    ("StripeWidth", "share of the devices that a file spans"),
    ("FileReplicationTime", "from 0.5 on a second copy is kept in step while writing"),
];

/// Parameters of the controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Who decides.
    pub mode: Mode,
    /// The devices, as measured; rate and request size of it are not used.
    pub parameters: Parameters,
    /// Bytes of a block of the model.
    pub block_bytes: f64,
    /// The largest request of interest, in bytes: LARGE.
    pub request_bytes_max: f64,
    /// Striping units are multiples of this.
    pub granularity_bytes: u64,
    /// By how much a new width must be better (model) or different (rules), as a share.
    pub margin: f64,
    /// How many times running a width must be proposed.
    pub settle: u32,
}

impl Config {
    /// For these devices, with requests of up to 4 MiB.
    pub fn new(mode: Mode, parameters: Parameters) -> Config {
        Config {
            mode,
            parameters,
            block_bytes: 4096.0,
            request_bytes_max: f64::from(4 << 20),
            granularity_bytes: 4096,
            margin: 0.05,
            settle: 2,
        }
    }
}

/// What the controller is told beside the load; `None` is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Surroundings {
    /// Network performance, from 0 (slow) to 1.
    pub network: Option<f64>,
    /// Performance of the devices, from 0 (slow) to 1.
    pub disk: Option<f64>,
    /// How many read or write the file at a time, from 0 (one) to 1.
    pub parallelism: Option<f64>,
    /// What its last requests look like.
    pub pattern: Option<Hints>,
}

/// A layout to have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// Devices that a request spans.
    pub width: u32,
    /// Striping unit, in bytes.
    pub unit_bytes: u64,
    /// Devices that a file spans, if the rules say so.
    pub stripe_width: Option<u32>,
    /// Whether a second copy is kept in step while writing, if the rules say so.
    pub online: Option<bool>,
    /// Whether the width is another than before.
    pub changed: bool,
}

/// What the rules say of a load; `None` where no rule fires.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Advice {
    /// Devices that a request should span.
    pub width: Option<f64>,
    /// By what to multiply the model's width.
    pub correction: f64,
    /// Devices that a file should span.
    pub stripe_width: Option<u32>,
    /// Whether a second copy is kept in step while writing.
    pub online: Option<bool>,
}

/// The controller of one class of requests: a file, or a volume.
#[derive(Clone, Debug)]
pub struct Controller {
    config: Config,
    rules: Rules,
    width: Option<u32>,
    proposed: Option<(u32, u32)>,
    online: Option<bool>,
}

impl Controller {
    /// A controller that has decided nothing yet.
    pub fn new(config: Config, rules: Rules) -> Controller {
        Controller { config, rules, width: None, proposed: None, online: None }
    }

    /// What to have under this load.
    pub fn decide(&mut self, load: Reading, around: Surroundings) -> Decision {
        let at_load = self.at(load);
        let inputs = self.inputs(load, around);
        let proposal = self.propose(&at_load, &inputs, load);
        let before = self.width;
        let width = match (before, self.config.mode) {
            (_, Mode::Fixed(width)) => width.clamp(1, self.config.parameters.devices),
            (None, _) => proposal,
            (Some(now), _) => self.settled(now, proposal, &at_load),
        };
        self.width = Some(width);
        if let Some(online) = self.rule("FileReplicationTime", &inputs) {
            self.online = Some(online >= 0.5);
        }
        Decision {
            width,
            unit_bytes: self.unit(load.bytes, width),
            stripe_width: self.rule("StripeWidth", &inputs).map(|share| self.devices(share)),
            online: self.online,
            changed: before.is_some_and(|before| before != width),
        }
    }

    fn at(&self, load: Reading) -> Parameters {
        let blocks = (load.bytes / self.config.block_bytes).max(1.0);
        Parameters { rate: load.rate.max(1e-3), request_blocks: blocks, ..self.config.parameters }
    }

    fn inputs(&self, load: Reading, around: Surroundings) -> Vec<Option<f64>> {
        let one_wide = self.at(load).predict(1).service_s;
        let servers = match self.config.parameters.device {
            Device::Disk { .. } => 1.0,
            Device::Flash { channels, .. } => channels.max(1.0),
        };
        let lambda_max = f64::from(self.config.parameters.devices) * servers / one_wide;
        let sizeless = Parameters { request_blocks: 0.0, ..self.at(load) }.predict(1).service_s;
        let of = |name: &str| match name {
            "RequestRate" => Some((load.rate / lambda_max).clamp(0.0, 1.0)),
            "TransferShare" => Some((1.0 - sizeless / one_wide).clamp(0.0, 1.0)),
            "RequestSize" => Some((load.bytes / self.config.request_bytes_max).clamp(0.0, 1.0)),
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

    fn propose(&self, at_load: &Parameters, inputs: &[Option<f64>], load: Reading) -> u32 {
        let now = self.width.unwrap_or(1);
        if load.rate <= 0.0 && self.width.is_some() {
            return now;
        }
        let modelled = || at_load.optimal_width().unwrap_or(1);
        match self.config.mode {
            Mode::Fixed(width) => width,
            Mode::Model => modelled(),
            Mode::Fuzzy => self.rule("RequestWidth", inputs).map_or(now, |share| self.devices(share)),
            Mode::ModelFuzzy => {
                let factor = self.correction(inputs);
                let width = (f64::from(modelled()) * factor).round() as u32;
                // What the rules add must not make the devices unstable.
                width.clamp(1, at_load.largest_stable_width().unwrap_or(1))
            }
        }
    }

    /// By what the rules multiply a width, because of what the model knows nothing of.
    fn correction(&self, inputs: &[Option<f64>]) -> f64 {
        let known = |of: &str| matches!(of, "RequestRate" | "RequestSize" | "TransferShare");
        let names = self.rules.inputs.iter().zip(inputs);
        let load_alone: Vec<_> = names.map(|(of, x)| if known(&of.name) { *x } else { None }).collect();
        let (all, alone) = (self.rule("RequestWidth", inputs), self.rule("RequestWidth", &load_alone));
        all.zip(alone).map_or(1.0, |(all, alone)| all / alone.max(1e-6))
    }

    /// What the rules say of this load, without deciding anything.
    pub fn advice(&self, load: Reading, around: Surroundings) -> Advice {
        let inputs = self.inputs(load, around);
        Advice {
            width: self.rule("RequestWidth", &inputs).map(|share| share * f64::from(self.config.parameters.devices)),
            correction: self.correction(&inputs),
            stripe_width: self.rule("StripeWidth", &inputs).map(|share| self.devices(share)),
            online: self.rule("FileReplicationTime", &inputs).map(|online| online >= 0.5),
        }
    }

    fn settled(&mut self, now: u32, proposal: u32, at_load: &Parameters) -> u32 {
        let worth = match self.config.mode {
            Mode::Model | Mode::ModelFuzzy => {
                let (old, new) = (at_load.predict(now).request_s, at_load.predict(proposal).request_s);
                new < old * (1.0 - self.config.margin)
            }
            _ => f64::from(now.abs_diff(proposal)) > self.config.margin * f64::from(self.config.parameters.devices),
        };
        if proposal == now || !worth {
            self.proposed = None;
            return now;
        }
        // What is proposed may differ a little each time; that it is not the present one is what counts.
        let times = self.proposed.map_or(1, |(_, times)| times + 1);
        self.proposed = Some((proposal, times));
        if times < self.config.settle.max(1) {
            return now;
        }
        self.proposed = None;
        proposal
    }

    fn rule(&self, output: &str, inputs: &[Option<f64>]) -> Option<f64> {
        self.rules.decide(inputs, self.rules.output(output)?)
    }

    fn devices(&self, share: f64) -> u32 {
        ((share * f64::from(self.config.parameters.devices)).round() as u32).clamp(1, self.config.parameters.devices)
    }

    fn unit(&self, request_bytes: f64, width: u32) -> u64 {
        let granularity = self.config.granularity_bytes.max(1);
        let unit = (request_bytes / f64::from(width.max(1))).ceil() as u64;
        unit.div_ceil(granularity).max(1) * granularity
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{Label, Mix, Order, Sizes};
    use crate::stripe::rules;

    fn controller(mode: Mode, devices: u32) -> Controller {
        let parameters = Parameters { devices, ..Parameters::default() };
        Controller::new(Config::new(mode, parameters), rules::parse(rules::PAPER).unwrap())
    }

    fn load(rate: f64, kib: u64) -> Reading {
        Reading { rate, bytes: (kib << 10) as f64, under_way: 0 }
    }

    #[test]
    fn the_model_decides_as_the_reference_says() {
        let first = |rate, kib| controller(Mode::Model, 24).decide(load(rate, kib), Surroundings::default());
        assert_eq!([1.0, 20.0, 50.0, 100.0].map(|rate| first(rate, 512).width), [8, 5, 3, 1]);
        assert_eq!(first(20.0, 512).unit_bytes, 106_496, "512 KiB over 5, in pages");
        assert_eq!(controller(Mode::Fixed(99), 24).decide(load(1.0, 64), Surroundings::default()).width, 24);
    }

    #[test]
    fn the_rules_give_a_share_of_the_devices_and_the_unit() {
        let mut fuzzy = controller(Mode::Fuzzy, 128);
        // INFREQUENT and LARGE is HUGE: 0.9167 of 128.
        let rare = fuzzy.decide(load(0.001, 4096), Surroundings::default());
        assert_eq!((rare.width, rare.online), (117, Some(true)));
        let sure = Surroundings { parallelism: Some(1.0), ..Surroundings::default() };
        assert_eq!(fuzzy.decide(load(0.001, 4096), sure).stripe_width, Some(32));
        assert_eq!((fuzzy.unit(f64::from(4 << 20), 32), fuzzy.unit(524_288.0, 4)), (128 << 10, 128 << 10));
    }

    #[test]
    fn a_width_changes_when_it_is_proposed_twice_and_worth_it() {
        let mut model = controller(Mode::Model, 24);
        let none = Surroundings::default();
        assert_eq!(model.decide(load(1.0, 512), none).width, 8);
        assert_eq!(model.decide(load(100.0, 512), none).width, 8, "once is not enough");
        let changed = model.decide(load(100.0, 512), none);
        assert_eq!((changed.width, changed.changed), (1, true));
        assert_eq!(model.decide(load(0.0, 0), none).width, 1, "no load, no change");
        for _ in 0..5 {
            assert!(!model.decide(load(100.0, 520), none).changed, "a little more is not worth it");
        }
    }

    #[test]
    fn the_rules_correct_the_model_where_it_knows_nothing() {
        let width = |around| controller(Mode::ModelFuzzy, 128).decide(load(30.0, 4096), around).width;
        let alone = width(Surroundings::default());
        let slow_net = width(Surroundings { network: Some(0.0), ..Surroundings::default() });
        let fast_net = width(Surroundings { network: Some(1.0), ..Surroundings::default() });
        assert!(alone == 18 && slow_net < alone && fast_net >= alone, "{slow_net} {alone} {fast_net}");
        assert!(fast_net <= 45, "never unstable");
    }

    #[test]
    fn the_pattern_of_requests_is_an_input_of_the_rules() {
        let device = crate::stripe::device::Measured::disk(0.012, 0.008, 20e6, 20e6, 0.0);
        let advice = |mode, pattern: Option<Hints>| {
            let config = Config::new(mode, device.parameters(8));
            let controller = Controller::new(config, rules::parse(rules::ADAPTIVE).unwrap());
            controller.advice(load(50.0, 600), Surroundings { pattern, ..Surroundings::default() })
        };
        let of = |order, mix| Some(Label { mix, order, sizes: Sizes::Uniform }.into());
        let unknown = advice(Mode::Fuzzy, None);
        let random = advice(Mode::Fuzzy, of(Order::Random, Mix::ReadOnly));
        let sequential = advice(Mode::Fuzzy, of(Order::Sequential, Mix::ReadOnly));
        assert_eq!(random.width, unknown.width);
        assert!(sequential.width > random.width, "{sequential:?} {random:?}");
        assert!(
            sequential.correction > 1.1 && (random.correction - 1.0).abs() < 1e-9,
            "the model takes all for random"
        );
        assert_eq!(random.online, Some(true));
        assert_eq!(advice(Mode::Fuzzy, of(Order::Random, Mix::WriteOnly)).online, Some(false));
        let known: Vec<_> = INPUTS.iter().map(|(name, _)| *name).collect();
        for text in [rules::ADAPTIVE, rules::PAPER] {
            let rules = rules::parse(text).unwrap();
            assert!(rules.inputs.iter().all(|input| known.contains(&input.name.as_str())));
            assert!(rules.outputs.iter().all(|output| OUTPUTS.iter().any(|(name, _)| *name == output.name)));
        }
    }
}
