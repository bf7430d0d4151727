//! All metrics as text for Prometheus, in the OpenMetrics format.

use super::snapshot::{CACHE_NUMBERS, CACHE_SHARES, OpCounts, Snapshot, TargetCounts};
use super::table::{Level, Metric};
use crate::counters::{BUCKETS, Histogram};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt::Error;
use std::ops::Range;

/// The MIME type of what [`Snapshot::open_metrics`] gives.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Of a target every second bucket from 16 microseconds to 17 seconds is shown: there may be a thousand targets.
const TARGET_BUCKETS: Range<usize> = 4..26;

/// The states of a target, as a label.
const STATES: [&str; 5] = ["ok", "suspect", "failed", "draining", "read-only"];

/// How much there is of something now.
#[derive(Clone, Debug, PartialEq)]
pub struct Gauge {
    /// Of what.
    pub of: Level,
    /// By its labels, in their order.
    pub values: Vec<(Vec<String>, f64)>,
}

impl Gauge {
    /// Of something that has no label.
    pub fn new(of: Level, value: f64) -> Gauge {
        Gauge { of, values: vec![(Vec::new(), value)] }
    }
}

impl Snapshot {
    /// All of it as OpenMetrics text, with what else was looked at. Each sample has these labels.
    pub fn open_metrics(&self, labels: &[(&'static str, String)], gauges: Vec<Gauge>) -> String {
        let labels = labels.iter().map(|(name, value)| ((*name).into(), value.clone().into()));
        let mut registry = Registry::with_prefix_and_labels("entrepot", labels);
        registry.register_collector(Box::new(Exposition { snapshot: self.clone(), gauges }));
        let mut out = String::new();
        // A String takes everything.
        let _ = text::encode(&mut out, &registry);
        out
    }
}

#[derive(Debug)]
struct Exposition {
    snapshot: Snapshot,
    gauges: Vec<Gauge>,
}

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let to = &mut encoder;
        self.ops(to)?;
        self.targets(to)?;
        self.state(to)?;
        for metric in Metric::ALL {
            let mut family = to.encode_descriptor(metric.name(), metric.help(), None, MetricType::Counter)?;
            counter(&mut family, self.snapshot.number(*metric))?;
        }
        self.cache(to)?;
        for gauge in &self.gauges {
            let kind = if gauge.of.is_counter() { MetricType::Counter } else { MetricType::Gauge };
            let mut family = to.encode_descriptor(gauge.of.name(), gauge.of.help(), None, kind)?;
            for (labels, value) in &gauge.values {
                let value_of = |at: usize| labels.get(at).map_or("", |label| label.as_str());
                let labels: Vec<_> =
                    gauge.of.labels().iter().enumerate().map(|(at, name)| (*name, value_of(at))).collect();
                let mut sample = family.encode_family(&labels)?;
                match kind {
                    MetricType::Counter => sample.encode_counter::<NoLabelSet, f64, f64>(value, None)?,
                    _ => sample.encode_gauge(value)?,
                }
            }
        }
        Ok(())
    }
}

impl Exposition {
    fn ops(&self, to: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        type Column = (&'static str, &'static str, fn(&OpCounts) -> u64);
        let columns: [Column; 3] = [
            ("op", "Operations of applications that ended", |op| op.count),
            ("op_failed", "Operations of applications that failed", |op| op.failed),
            ("op_bytes", "Bytes that operations of applications moved", |op| op.bytes),
        ];
        for (name, help, value) in columns {
            let mut family = to.encode_descriptor(name, help, None, MetricType::Counter)?;
            for op in &self.snapshot.ops {
                counter(&mut family.encode_family(&[("op", &*op.op)])?, value(op))?;
            }
        }
        let help = "How long operations of applications took";
        let mut family = to.encode_descriptor("op_seconds", help, None, MetricType::Histogram)?;
        for op in &self.snapshot.ops {
            spans(&mut family.encode_family(&[("op", &*op.op)])?, op.total_ns, &op.buckets, 0..BUCKETS, 1)?;
        }
        Ok(())
    }

    fn state(&self, to: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let Some(state) = &self.snapshot.state else { return Ok(()) };
        let help = "How long operations on the store of the state took";
        let mut family = to.encode_descriptor("state_op_seconds", help, None, MetricType::Histogram)?;
        spans(&mut family, state.total_ns, &state.buckets, 0..BUCKETS, 1)?;
        let help = "Operations on the store of the state that failed";
        counter(&mut to.encode_descriptor("state_op_failed", help, None, MetricType::Counter)?, state.failed)
    }

    fn targets(&self, to: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        type Column = (&'static str, MetricType, &'static str, fn(&TargetCounts) -> u64);
        use MetricType::{Counter, Gauge};
        let columns: [Column; 7] = [
            ("target_ops", Counter, "Operations on a target", |t| t.ops),
            ("target_errors", Counter, "Errors of a target's device", |t| t.errors),
            ("target_deadline_misses", Counter, "Operations on a target that passed their deadline", |t| {
                t.deadline_misses
            }),
            ("target_read_bytes", Counter, "Bytes of files read from a target", |t| t.read_bytes),
            ("target_written_bytes", Counter, "Bytes of files written to a target", |t| t.written_bytes),
            ("target_free_bytes", Gauge, "Free bytes of a target", |t| t.free_bytes),
            ("target_size_bytes", Gauge, "All bytes of a target", |t| t.total_bytes),
        ];
        for (name, kind, help, value) in columns {
            let mut family = to.encode_descriptor(name, help, None, kind)?;
            for target in &self.snapshot.targets {
                let labels = [("target", &*target.name)];
                one(&mut family.encode_family(&labels)?, kind, value(target))?;
            }
        }
        let help = "How long reads and writes of objects took on a target; every sixteenth is timed";
        let mut family = to.encode_descriptor("target_op_seconds", help, None, MetricType::Histogram)?;
        for target in &self.snapshot.targets {
            let labels = [("target", &*target.name)];
            spans(&mut family.encode_family(&labels)?, target.timed_ns, &target.timed, TARGET_BUCKETS, 2)?;
        }
        let help = "1 for the state that a target is in";
        let mut family = to.encode_descriptor("target_state", help, None, Gauge)?;
        for target in &self.snapshot.targets {
            for state in STATES {
                let labels = [("target", &*target.name), ("state", state)];
                one(&mut family.encode_family(&labels)?, Gauge, u64::from(target.state == state))?;
            }
        }
        Ok(())
    }

    fn cache(&self, to: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let Some(cache) = &self.snapshot.cache else { return Ok(()) };
        for (name, kind, help, value) in CACHE_NUMBERS {
            let kind = if *kind == "counter" { MetricType::Counter } else { MetricType::Gauge };
            one(&mut to.encode_descriptor(&format!("cache_{name}"), help, None, kind)?, kind, value(cache))?;
        }
        for (name, help, value) in CACHE_SHARES {
            let name = format!("cache_{name}");
            to.encode_descriptor(&name, help, None, MetricType::Gauge)?.encode_gauge(&value(cache))?;
        }
        Ok(())
    }
}

fn one(to: &mut MetricEncoder<'_>, kind: MetricType, value: u64) -> Result<(), Error> {
    if matches!(kind, MetricType::Counter) { counter(to, value) } else { to.encode_gauge(&value) }
}

/// A histogram of spans, of the given buckets every so many; those before and between fall into the next.
fn spans(
    to: &mut MetricEncoder<'_>,
    total_ns: u64,
    counts: &[u64],
    shown: Range<usize>,
    every: usize,
) -> Result<(), Error> {
    let mut buckets = Vec::with_capacity(shown.len() / every + 1);
    let mut below = 0;
    for (at, count) in counts.iter().enumerate() {
        below += count;
        let is_bound = shown.contains(&at) && (at - shown.start).is_multiple_of(every);
        if let Some(bound) = Histogram::bound_ns(at).filter(|_| is_bound) {
            buckets.push((bound as f64 / 1e9, std::mem::take(&mut below)));
        }
    }
    buckets.push((f64::INFINITY, below));
    to.encode_histogram::<NoLabelSet>(total_ns as f64 / 1e9, counts.iter().sum(), &buckets, None)
}

fn counter(to: &mut MetricEncoder<'_>, value: u64) -> Result<(), Error> {
    to.encode_counter::<NoLabelSet, u64, u64>(&value, None)
}
