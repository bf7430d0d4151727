//! Stripes: configuration from `volume.toml`, and measurements of the devices.

use super::{Recorder, Settings};
use engine::volume::{Config, Problem, Problems};
use policy::Time;
use policy::layout::Placement;
use policy::pattern::Chosen;
use policy::pattern::network::Network;
use policy::pattern::rules::RulesOfThumb;
use policy::stripe::device::Measured;
use policy::stripe::forks::Shape;
use policy::stripe::performance::Served;
use policy::stripe::{rules, striper};
use policy::volume::StripesConfig;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// The devices that files are striped over by load.
#[derive(Clone, Debug, Default)]
pub struct Devices {
    /// Speed of one device: the mean of the measured ones, or a guess.
    pub each: Measured,
    /// Number of devices.
    pub count: u32,
    /// Whether any of them was measured.
    pub are_measured: bool,
    /// The names of targets behind a network.
    pub far: BTreeSet<String>,
}

impl Devices {
    /// Devices of a configuration.
    pub fn of(config: &Config) -> Devices {
        let ours = config.targets.iter().filter(|target| config.stripes.tier.is_none_or(|tier| target.tier == tier));
        let measured: Vec<Measured> = ours.clone().filter_map(|target| target.device).collect();
        let far = config.targets.iter().filter(|target| target.connections().is_some());
        Devices {
            each: Measured::mean(&measured).unwrap_or_default(),
            count: (ours.count() as u32).max(1),
            are_measured: !measured.is_empty(),
            far: far.map(|target| target.name.clone()).collect(),
        }
    }
}

/// Parameters and rules of the striper from a configuration. Reads only the rule file.
///
/// # Errors
/// The rules or weights cannot be read or are invalid.
pub fn striping(config: &Config) -> Result<StripesConfig, Problems> {
    let of = &config.stripes;
    let problem = |cause: String| {
        let mend = "Check rules with `entrepot-lab rules check FILE` and weights with `entrepot-lab patterns eval --weights FILE`, or remove \
                    `rules` or `weights` from `[stripes]`";
        Problems::one(Problem::new(cause, "the volume is not mounted", mend))
    };
    let read = |what: &str, path: &Path| {
        std::fs::read_to_string(path)
            .map_err(|error| problem(format!("the {what} {} cannot be read: {error}", path.display())))
    };
    let rules = of.rules.as_ref().map_or_else(|| Ok(rules::ADAPTIVE.to_owned()), |path| read("rules", path))?;
    let classifier = match (of.network, &of.weights) {
        (false, _) => Chosen::Thumb(RulesOfThumb),
        (true, None) => Chosen::default(),
        (true, Some(path)) => {
            let wrong = |error| problem(format!("the weights {}: {error}", path.display()));
            Chosen::Network(Box::new(Network::parse(&read("weights", path)?).map_err(wrong)?))
        }
    };
    let shown = of.rules.as_ref().map_or_else(|| "the built-in rules".into(), |path| path.display().to_string());
    let rules = rules::parse(&rules).map_err(|error| problem(format!("{shown}, {error}")))?;
    let devices = Devices::of(config);
    let time = |span: Duration| Time(span.as_nanos() as u64);
    let machine = striper::Config {
        widths: of.widths.clone(),
        window: time(of.window),
        margin: f64::from(of.margin_percent) / 100.0,
        settle: of.settle,
        horizon: time(of.horizon),
        forks: of.forks,
        classifier,
        fork_space: f64::from(of.fork_space_percent) / 100.0,
        ..striper::Config::new(of.mode, &devices.each, devices.count)
    };
    Ok(StripesConfig { striper: machine, rules, every: time(of.interval) })
}

/// Placement of a copy of that shape: striped from the first byte, over the targets that are counted.
pub(super) fn placement(settings: &Settings, usual: &Placement, shape: &Shape) -> Placement {
    Placement {
        stripe_size: shape.unit_bytes,
        stripe_count: shape.devices as usize,
        single_bytes_max: 0,
        mirrors: 1,
        tier: settings.stripes.as_ref().and_then(|of| of.tier).or(usual.tier),
        ..usual.clone()
    }
}

/// A shape in words.
pub(super) fn shown(shape: &Shape) -> String {
    format!("stripes of {} KiB over {} targets", shape.unit_bytes >> 10, shape.devices)
}

/// Service times at the last look: of local targets, and of targets behind a network.
#[derive(Default)]
pub(super) struct Sampled {
    near: Served,
    far: Served,
}

impl Sampled {
    /// Service times since the last look. `all` gives each target's service times since the start, and whether it is
    /// behind a network.
    pub fn look(&mut self, all: impl Iterator<Item = (bool, Served)>) -> striper::Event {
        let now = all.fold(Sampled::default(), |sum, (far, served)| match far {
            true => Sampled { far: sum.far.and(served), ..sum },
            false => Sampled { near: sum.near.and(served), ..sum },
        });
        let before = std::mem::replace(self, now);
        striper::Event::Served { near: self.near.since(before.near), far: self.far.since(before.far) }
    }
}

/// All targets for [`Sampled::look`].
pub(super) fn timed(settings: &Settings, recorder: &Recorder) -> impl Iterator<Item = (bool, Served)> {
    let all = recorder.targets.all().into_iter();
    all.map(move |of| (of.over_network() || settings.devices.far.contains(of.name()), of.counters().served()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timed_requests_are_reported_once_and_networks_apart_from_disks() {
        let served =
            |operations| Served { operations, bytes: operations << 16, took_ns: operations, queued: operations };
        let mut sampled = Sampled::default();
        let mut look =
            |near, far| sampled.look([(false, served(near)), (true, served(far)), (false, served(1))].into_iter());
        assert_eq!(look(4, 7), striper::Event::Served { near: served(5), far: served(7) });
        assert_eq!(look(6, 7), striper::Event::Served { near: served(2), far: served(0) });
    }
}
