//! The jobs of this node as numbers for whoever watches.

use jobs::request::JobState;
use jobs::runner::Runner;
use jobs::slurm::Slurm;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::daemon::Gauges;
use store::stats::{Gauge, Level};

/// How many jobs there are, by state.
pub fn gauges(runner: &Arc<Runner>, slurm: &Arc<Slurm>) -> Gauges {
    let (runner, slurm) = (Arc::downgrade(runner), Arc::downgrade(slurm));
    let gauge = |of, states: BTreeMap<JobState, u64>| {
        let values = states.into_iter().map(|(state, count)| (vec![state.to_string()], count as f64));
        Gauge { of, values: values.collect() }
    };
    Arc::new(move || {
        let runner = runner.upgrade().map(|runner| runner.states()).unwrap_or_default();
        let slurm = slurm.upgrade().map(|slurm| slurm.states()).unwrap_or_default();
        vec![gauge(Level::Jobs, runner), gauge(Level::SlurmJobs, slurm)]
    })
}
