//! All metrics as text for Prometheus, in the OpenMetrics format.

mod targets;

use super::snapshot::{CACHE_NUMBERS, CACHE_SHARES, OpCounts, Snapshot};
use super::table::{Level, Metric};
use object::counters::Histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt::Error;

/// MIME type of the text of [`Snapshot::open_metrics`].
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Current value of a quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Gauge {
    /// Level that is measured.
    pub of: Level,
    /// Values by their labels, in their order.
    pub values: Vec<(Vec<String>, f64)>,
}

impl Gauge {
    /// Returns a gauge without a label.
    pub fn new(of: Level, value: f64) -> Gauge {
        Gauge { of, values: vec![(Vec::new(), value)] }
    }
}

impl Snapshot {
    /// Returns all metrics and the given gauges as OpenMetrics text. Each sample has these labels.
    pub fn open_metrics(mut self, labels: &[(&'static str, String)], gauges: Vec<Gauge>) -> String {
        let targets = std::mem::take(&mut self.targets);
        let common = labels.iter().map(|(name, value)| ((*name).into(), value.clone().into()));
        let mut registry = Registry::with_prefix_and_labels("entrepot", common);
        registry.register_collector(Box::new(Exposition { snapshot: self, gauges }));
        let mut out = String::with_capacity(REST_BYTES + targets.len() * targets::BYTES_OF_ONE);
        // A String takes everything.
        let _ = text::encode_registry(&mut out, &registry);
        targets::write(&mut out, labels, &targets);
        let _ = text::encode_eof(&mut out);
        out
    }
}

/// Room for what is there without targets.
const REST_BYTES: usize = 64 << 10;

/// A label's value, as it stands between quotes.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
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
        self.state(to)?;
        for metric in &Metric::ALL {
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
            spans(&mut family.encode_family(&[("op", &*op.op)])?, op.total_ns, &op.buckets)?;
        }
        Ok(())
    }

    fn state(&self, to: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let Some(state) = &self.snapshot.state else { return Ok(()) };
        let help = "How long operations on the store of the state took";
        let mut family = to.encode_descriptor("state_op_seconds", help, None, MetricType::Histogram)?;
        spans(&mut family, state.total_ns, &state.buckets)?;
        let help = "Operations on the store of the state that failed";
        counter(&mut to.encode_descriptor("state_op_failed", help, None, MetricType::Counter)?, state.failed)
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

/// A histogram of spans.
fn spans(to: &mut MetricEncoder<'_>, total_ns: u64, counts: &[u64]) -> Result<(), Error> {
    let bound = |at| Histogram::bound_ns(at).map_or(f64::INFINITY, |ns| ns as f64 / 1e9);
    let mut buckets: Vec<_> = counts.iter().enumerate().map(|(at, count)| (bound(at), *count)).collect();
    if buckets.is_empty() {
        buckets.push((f64::INFINITY, 0));
    }
    to.encode_histogram::<NoLabelSet>(total_ns as f64 / 1e9, counts.iter().sum(), &buckets, None)
}

fn counter(to: &mut MetricEncoder<'_>, value: u64) -> Result<(), Error> {
    to.encode_counter::<NoLabelSet, u64, u64>(&value, None)
}
