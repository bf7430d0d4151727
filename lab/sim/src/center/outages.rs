//! Outages of the simulated centre's I/O nodes: recorded outages assigned to its nodes, or drawn ones.
//!
//! *Recorded:* each I/O node gets the outages of one node of the recorded system, drawn without replacement. They
//! start at a point in the records chosen by the seed (seed 1: their beginning), and wrap around at the end. So
//! outages keep their clusters in time, and nodes that fail more often than others do so here. *Exponential,
//! Weibull:* each I/O node gets a renewal process of its own, with the fitted times between failures and recorded
//! repairs. The process has run for ten mean times when the simulation begins.

use super::fit::Fit;
use super::records::{Outage, Records, joined};
use super::setup::{FailureModel, Setup};
use crate::generate::Rng;
use crate::generate::arithmetic::{exp, ln};
use crate::setup::SetupError;
use policy::time::Time;

/// Failure records and the processes fitted to them.
#[derive(Clone, Debug, PartialEq)]
pub struct Failures {
    /// Failure records of a system.
    pub records: Records,
    /// Processes fitted to the records, if there are enough failures.
    pub fit: Option<Fit>,
}

impl Failures {
    /// Fits processes to records.
    pub fn new(records: Records) -> Failures {
        Failures { fit: Fit::of(&records), records }
    }
}

/// An I/O node fails or comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// Time of the change.
    pub at: Time,
    /// Whether it fails; at the same instant, returns of other nodes come first.
    pub breaks: bool,
    /// Number of the I/O node.
    pub node: u16,
}

/// Returns all changes up to `end`, in order.
pub fn changes(setup: &Setup, failures: Option<&Failures>, end: Time) -> Result<Vec<Change>, SetupError> {
    let Some(failures) = failures else { return Ok(Vec::new()) };
    let each = match setup.failure_model {
        FailureModel::Records => recorded(setup, &failures.records, end)?,
        model => {
            let Some(fit) = &failures.fit else {
                let why = "there are fewer than two failures to fit a process to; take `records` or another system";
                return Err(SetupError::new("failure model", model.to_string(), why));
            };
            (0..setup.io_nodes).map(|node| drawn(setup, model, fit, node, end)).collect()
        }
    };
    let mut changes = Vec::new();
    for (node, outages) in (0..).zip(each) {
        for (from, to) in joined(outages).into_iter().filter(|(from, to)| from < to && *from <= end) {
            changes.push(Change { at: from, breaks: true, node });
            changes.push(Change { at: to, breaks: false, node });
        }
    }
    changes.sort_unstable();
    Ok(changes)
}

fn recorded(setup: &Setup, records: &Records, end: Time) -> Result<Vec<Vec<Outage>>, SetupError> {
    if records.nodes < u32::from(setup.io_nodes) {
        let why = format!(
            "system {} has {} nodes to take outages from; take another system, fewer I/O nodes, or a fitted process",
            records.system, records.nodes
        );
        return Err(SetupError::new("I/O nodes", setup.io_nodes.to_string(), why));
    }
    let mut rng = Rng::new(setup.seed, 1);
    let mut nodes: Vec<u32> = (0..records.nodes).collect();
    rng.shuffle(&mut nodes);
    let period = records.span.0.max(1);
    let offset = if setup.seed == 1 { 0 } else { rng.below(period) };
    let one = |node: &u32| {
        let Some(outages) = records.outages.get(node) else { return Vec::new() };
        let mut list = Vec::new();
        // The round under way at the start of the simulation, and as many as follow; `base` is the start of a round.
        let mut base = -i128::from(offset);
        while base <= i128::from(end.0) {
            for (from, to) in outages {
                let (from, to) = (base + i128::from(from.0), base + i128::from(to.0));
                if to > 0 {
                    list.push((Time(from.max(0) as u64), Time(to as u64)));
                }
            }
            base += i128::from(period);
        }
        list.sort_unstable();
        list
    };
    Ok(nodes[..usize::from(setup.io_nodes)].iter().map(one).collect())
}

fn drawn(setup: &Setup, model: FailureModel, fit: &Fit, node: u16, end: Time) -> Vec<Outage> {
    let mut rng = Rng::new(setup.seed, 1000 + u64::from(node));
    let between_h = |rng: &mut Rng| match model {
        FailureModel::Weibull => exp(ln(rng.exponential(1.0).max(1e-300)) / fit.shape) * fit.scale_h,
        FailureModel::Exponential | FailureModel::Records => rng.exponential(fit.mtbf_h),
    };
    let warm_h = 10.0 * fit.mtbf_h;
    let (mut at_h, end_h) = (-warm_h, end.as_secs_f64() / 3600.0);
    let mut outages = Vec::new();
    let time = |hours: f64| Time((hours.max(0.0) * 3.6e12) as u64);
    loop {
        at_h += between_h(&mut rng);
        if at_h > end_h {
            return outages;
        }
        let repair = fit.repairs[rng.below(fit.repairs.len() as u64) as usize];
        let back_h = at_h + repair.as_secs_f64() / 3600.0;
        if back_h > 0.0 {
            outages.push((time(at_h), time(back_h)));
        }
        at_h = back_h;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failures() -> Failures {
        let hour = |h: u64| Time::from_secs(h * 3600);
        let mut records = Records { system: 20, nodes: 4, span: hour(1000), ..Records::default() };
        for node in 0..4u64 {
            let outages = (0..5).map(|n| (hour(node * 10 + n * 200), hour(node * 10 + n * 200 + 2))).collect();
            records.outages.insert(node as u32, outages);
        }
        Failures::new(records)
    }

    fn setup(model: FailureModel, io_nodes: u16, seed: u64) -> Setup {
        Setup { failure_model: model, io_nodes, seed, ..Setup::default() }
    }

    fn alternate(changes: &[Change]) {
        for node in 0..4 {
            let own: Vec<_> = changes.iter().filter(|c| c.node == node).collect();
            assert!(own.iter().enumerate().all(|(n, c)| c.breaks == (n % 2 == 0)), "down and up in turns");
            assert!(own.windows(2).all(|pair| pair[0].at < pair[1].at));
        }
    }

    #[test]
    fn recorded_outages_go_round() {
        let hour = |h: u64| Time::from_secs(h * 3600);
        let once = changes(&setup(FailureModel::Records, 4, 1), Some(&failures()), hour(999)).unwrap();
        assert_eq!(once.len(), 40);
        let twice = changes(&setup(FailureModel::Records, 4, 1), Some(&failures()), hour(1999)).unwrap();
        assert_eq!(twice.len(), 80);
        let other = changes(&setup(FailureModel::Records, 4, 2), Some(&failures()), hour(1999)).unwrap();
        assert_ne!(other, twice);
        [&once, &twice, &other].iter().for_each(|list| alternate(list));
        assert!(changes(&setup(FailureModel::Records, 5, 1), Some(&failures()), hour(1)).is_err());
        assert_eq!(changes(&setup(FailureModel::Records, 4, 1), None, hour(999)).unwrap(), []);
    }

    #[test]
    fn drawn_outages_are_as_many_as_fitted() {
        let fit = failures().fit.unwrap();
        let end = Time::from_secs(3600 * 400_000);
        for model in [FailureModel::Exponential, FailureModel::Weibull] {
            let list = changes(&setup(model, 4, 7), Some(&failures()), end).unwrap();
            alternate(&list);
            // The mean of a Weibull distribution is not fitted by itself; with so few nodes it is near.
            let near = if model == FailureModel::Exponential { 0.05 } else { 0.2 };
            let expect = 4.0 * 400_000.0 / (fit.mtbf_h + fit.repair_mean_h());
            let seen = list.len() as f64 / 2.0;
            assert!((seen / expect - 1.0).abs() < near, "{model}: {seen} instead of {expect}; {fit}");
            assert_eq!(list, changes(&setup(model, 4, 7), Some(&failures()), end).unwrap());
        }
    }
}
