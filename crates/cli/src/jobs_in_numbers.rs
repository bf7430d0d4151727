//! Metrics of the jobs of this node.

use engine::stats::{Gauge, Level};
use jobs::arrivals::Arrivals;
use jobs::request::JobState;
use jobs::runner::Runner;
use jobs::slurm::Slurm;
use node::daemon::Gauges;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Gauges of the jobs by state, and of the bytes promised to them.
pub fn gauges(runner: &Arc<Runner>, slurm: &Arc<Slurm>, arrivals: &Arc<Arrivals>) -> Gauges {
    let (runner, slurm, arrivals) = (Arc::downgrade(runner), Arc::downgrade(slurm), Arc::downgrade(arrivals));
    let gauge = |of, states: BTreeMap<JobState, u64>| {
        let values = states.into_iter().map(|(state, count)| (vec![state.to_string()], count as f64));
        Gauge { of, values: values.collect() }
    };
    Arc::new(move || {
        let runner = runner.upgrade().map(|runner| runner.states()).unwrap_or_default();
        let slurm = slurm.upgrade().map(|slurm| slurm.states()).unwrap_or_default();
        let promised = arrivals.upgrade().map_or(0, |arrivals| arrivals.promised());
        let promised = Gauge { of: Level::StagingPromised, values: vec![(Vec::new(), promised as f64)] };
        vec![gauge(Level::Jobs, runner), gauge(Level::SlurmJobs, slurm), promised]
    })
}
