//! All metrics that a daemon can expose to Prometheus, for tests of their documentation and of their queries.

use engine::stats::{Gauge, Level, Snapshot, Stats};

/// Each family of metrics with a sample.
pub fn all() -> String {
    let mut snapshot: Snapshot = Stats::new().snapshot();
    snapshot.targets.push(Default::default());
    snapshot.state = Some(Default::default());
    snapshot.cache = Some(Default::default());
    let labels = [("volume", "NAME".to_owned()), ("node", "HOST".to_owned())];
    snapshot.open_metrics(&labels, Level::ALL.iter().map(|level| Gauge::new(*level, 0.0)).collect())
}
