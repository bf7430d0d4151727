//! Metrics of the connections of targets.

use connect::status::{Connection, Status};
use engine::stats::{Gauge, Level};
use engine::volume::Volume;
use node::daemon::Gauges;
use std::sync::{Arc, Weak};

type Column = (Level, fn(&Connection) -> f64);

const COLUMNS: [Column; 8] = [
    (Level::ConnectionInUse, |c| f64::from(u8::from(c.state == "in use"))),
    (Level::ConnectionOps, |c| c.operations as f64),
    (Level::ConnectionErrors, |c| c.failures as f64),
    (Level::ConnectionReadBytes, |c| c.bytes_read as f64),
    (Level::ConnectionWrittenBytes, |c| c.bytes_written as f64),
    (Level::ConnectionOutstandingBytes, |c| c.outstanding_bytes as f64),
    (Level::ConnectionLatency, |c| c.latency_us as f64 / 1e6),
    (Level::ConnectionMountedAgain, |c| c.mounted_again as f64),
];

/// Gauges of each target with several connections.
pub fn gauges(volume: &Arc<Volume>) -> Gauges {
    let volume: Weak<Volume> = Arc::downgrade(volume);
    Arc::new(move || {
        let targets = volume.upgrade().map_or_else(Vec::new, |volume| volume.targets().all());
        let status = |value| serde_json::from_value::<Status>(value).ok();
        let connected = targets.iter().filter_map(|target| Some((target.name(), status(target.connections()?)?)));
        let each = |(target, status): (_, Status)| status.connections.into_iter().map(move |c| (target, c));
        let known: Vec<_> = connected.flat_map(each).collect();
        let gauge = |(of, value): &Column| {
            let values = known.iter().map(|(target, c)| (vec![target.to_string(), c.number.to_string()], value(c)));
            Gauge { of: *of, values: values.collect() }
        };
        if known.is_empty() { Vec::new() } else { COLUMNS.iter().map(gauge).collect() }
    })
}
