//! Generated workloads from text: `oltp`, `multi:scale=0.1`, `vod:streams=16,seconds=60`.

use crate::generate::{
    Arrivals, Mixed, MixedShape, Multi, MultiShape, Queries, Skew, Skewed, SkewedShape, WebServer, copies, downloads,
    joined, oltp_like, rates, vod, web_like,
};
use crate::setup::SetupError;
use crate::trace::{Accounting, Error, Reader, Record};

/// A generator with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// OLTP-like or Web-like mix.
    Mixed(MixedShape),
    /// Multi-like mix of files.
    Multi(MultiShape),
    /// Two or more streams of given rates and burst strengths; seconds.
    Rates(Vec<(f64, Arrivals)>, u64),
    /// Video on demand: streams, random readers, seconds, whether each stream draws its request size.
    Vod(u32, u32, u64, bool),
    /// Copies of files; seconds.
    Copies(u64),
    /// Downloads of files; seconds.
    Downloads(u64),
    /// Zipf, a moving hot spot, or scans.
    Skewed(SkewedShape),
    /// DB2-like queries, scaled.
    Queries(f64),
    /// Web-server-like requests, scaled.
    WebServer(f64),
    /// Requests of another workload, joined to calls: the maximum per call, and the share of pages that cross two
    /// blocks.
    Joined(Box<Workload>, u64, f64),
}

/// A generator as a trace.
struct Generated<I> {
    records: I,
    accounting: Accounting,
}

impl<I: Iterator<Item = Record>> Iterator for Generated<I> {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.records.next()?;
        self.accounting.lines += 1;
        self.accounting.records += 1;
        Some(Ok(record))
    }
}

impl<I: Iterator<Item = Record> + Send> Reader for Generated<I> {
    fn accounting(&self) -> &Accounting {
        &self.accounting
    }
}

impl Workload {
    /// Parses a workload: a name, and parameters after a colon, as the help of `trace generate` lists them.
    pub fn parse(text: &str) -> Result<Workload, SetupError> {
        let wrong = |why: &str| SetupError { what: "workload", value: text.into(), why: why.into() };
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let (mut scale, mut reads, mut streams, mut random, mut seconds) = (1.0, 1.0, 16, 0, 60);
        let (mut rates, mut sigmas, mut gaps) = (vec![1000.0, 3000.0], Vec::new(), Vec::new());
        let (mut drawn, mut calls, mut crossing) = (false, 1, 0.0);
        let mut skewed = SkewedShape::default();
        let (mut theta, mut spot, mut shift) = (1.0, 0.05, 20_000);
        let is_skewed = matches!(name, "zipf" | "hotspot" | "scan" | "scan-over");
        for part in rest.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let not_a_number = || wrong("a parameter's value is a number that is not negative");
            let within = |least: f64, most: f64| {
                let number = value.parse::<f64>().ok().filter(|number| (least..=most).contains(number));
                number.ok_or_else(not_a_number)
            };
            let number = || within(0.0, f64::MAX);
            let above_0 = || within(f64::MIN_POSITIVE, f64::MAX);
            let share = || within(0.0, 1.0);
            let list = || {
                let numbers = value.split('/').map(|n| n.parse::<f64>().ok()).collect::<Option<Vec<_>>>();
                numbers.ok_or_else(not_a_number)
            };
            match (name, key) {
                ("oltp" | "web" | "multi" | "queries" | "webserver", "scale") => scale = above_0()?,
                ("oltp" | "web" | "multi", "calls") => calls = number()?.max(1.0) as u64,
                ("oltp" | "web" | "multi", "crossing") => crossing = number()?.min(1.0),
                ("oltp", "reads") => reads = share()?,
                ("vod", "drawn") => drawn = number()? > 0.0,
                ("vod", "streams") => streams = number()? as u32,
                ("vod", "random") => random = number()? as u32,
                ("vod" | "copies" | "downloads" | "rates", "seconds") => seconds = number()? as u64,
                (_, "footprint") if is_skewed => skewed.footprint_bytes = (number()? * 1_048_576.0) as u64,
                (_, "request") if is_skewed => skewed.request_bytes = (within(0.5, 1_048_576.0)? * 1024.0) as u32,
                (_, "requests") if is_skewed => skewed.requests = number()? as u64,
                (_, "writes") if is_skewed => skewed.write_share = share()?,
                (_, "rate") if is_skewed => skewed.rate_per_s = above_0()?,
                ("zipf" | "hotspot" | "scan-over", "scatter") => skewed.scattered = number()? > 0.0,
                ("zipf" | "scan-over", "theta") => theta = number()?,
                ("hotspot", "spot") => spot = share()?,
                ("hotspot", "shift") => shift = within(1.0, f64::MAX)? as u64,
                ("rates", "rates") => rates = list()?,
                ("rates", "sigma") => sigmas = list()?,
                ("rates", "gaps") => gaps = list()?,
                _ => return Err(wrong(&format!("`{name}` has no parameter `{key}`"))),
            }
        }
        let workload = match name {
            "oltp" => Workload::Mixed(MixedShape { read_share: reads, ..oltp_like().scaled(scale) }),
            "web" => Workload::Mixed(web_like().scaled(scale)),
            "multi" => Workload::Multi(MultiShape::default().scaled(scale)),
            "vod" => Workload::Vod(streams, random, seconds, drawn),
            "copies" => Workload::Copies(seconds),
            "downloads" => Workload::Downloads(seconds),
            "queries" => Workload::Queries(scale),
            "webserver" => Workload::WebServer(scale),
            "zipf" => Workload::Skewed(SkewedShape { skew: Skew::Zipf { theta }, ..skewed }),
            "hotspot" => Workload::Skewed(SkewedShape { skew: Skew::HotSpot { spot, shift }, ..skewed }),
            "scan" => Workload::Skewed(SkewedShape { skew: Skew::Scan, ..skewed }),
            "scan-over" => Workload::Skewed(SkewedShape { skew: Skew::ScanOver { theta }, ..skewed }),
            "rates" if rates.iter().all(|rate| *rate > 0.0) => {
                Workload::Rates(streams_of(&rates, &sigmas, &gaps), seconds)
            }
            "rates" => return Err(wrong("rates are above 0")),
            _ => {
                return Err(wrong(
                    "choose oltp, web, multi, vod, copies, downloads, rates, zipf, hotspot, scan, scan-over, queries or webserver",
                ));
            }
        };
        let is_joined = calls > 1 || crossing > 0.0;
        Ok(if is_joined { Workload::Joined(Box::new(workload), calls, crossing) } else { workload })
    }

    /// Returns the workload from its start; the same seed gives the same records.
    pub fn open(&self, seed: u64) -> Box<dyn Reader> {
        match self {
            Workload::Mixed(shape) => reader(Mixed::new(shape.clone(), seed)),
            Workload::Multi(shape) => reader(Multi::new(shape.clone(), seed)),
            Workload::Rates(streams, seconds) => reader(rates(streams, *seconds, seed)),
            Workload::Vod(streams, random, seconds, drawn) => reader(vod(*streams, *random, *seconds, *drawn, seed)),
            Workload::Copies(seconds) => reader(copies(*seconds, seed)),
            Workload::Downloads(seconds) => reader(downloads(*seconds, seed)),
            Workload::Skewed(shape) => reader(Skewed::new(shape.clone(), seed)),
            Workload::Queries(scale) => reader(Queries::new(*scale, seed)),
            Workload::WebServer(scale) => reader(WebServer::new(*scale, seed)),
            // A generated trace has no malformed lines.
            Workload::Joined(of, most, crossing) => reader(joined(of.open(seed).flatten(), *most, *crossing, seed)),
        }
    }
}

/// Rates with the arrivals that `sigma` or `gaps` has for them.
fn streams_of(rates: &[f64], sigmas: &[f64], gaps: &[f64]) -> Vec<(f64, Arrivals)> {
    let of = |list: &[f64], at: usize| list.get(at).copied().filter(|x| *x > 0.0);
    let arrivals = |at: usize| match (of(gaps, at), of(sigmas, at)) {
        (Some(variation), _) => Arrivals::Gamma(variation),
        (_, Some(sigma)) => Arrivals::Bursty { sigma, window_ns: 100_000_000 },
        _ => Arrivals::Constant,
    };
    rates.iter().enumerate().map(|(at, rate)| (*rate, arrivals(at))).collect()
}

/// Returns records from memory or from a generator as a trace.
pub fn reader(records: impl Iterator<Item = Record> + Send + 'static) -> Box<dyn Reader> {
    Box::new(Generated { records, accounting: Accounting::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_workloads_whose_accounts_close() {
        for words in [
            "oltp:scale=0.001,reads=0.23",
            "web:scale=0.001",
            "multi:scale=0.01",
            "vod:streams=4,seconds=1,drawn=1",
            "multi:scale=0.01,calls=7,crossing=0.3",
            "rates:rates=10/20,gaps=1/3,seconds=2",
            "rates:rates=10/20,sigma=0/3,seconds=2",
            "zipf:footprint=16,request=4,requests=500,theta=0.8,writes=0.2,rate=10",
            "hotspot:footprint=16,requests=500,spot=0.1,shift=100",
            "scan:footprint=16,requests=500",
            "scan-over:footprint=16,requests=500",
            "queries:scale=0.001",
            "webserver:scale=0.001",
        ] {
            let workload = Workload::parse(words).unwrap();
            let mut reader = workload.open(1);
            let records: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
            assert!(!records.is_empty(), "{words}");
            assert_eq!(reader.accounting().records, records.len() as u64);
            let again: Vec<_> = workload.open(1).map(Result::unwrap).collect();
            assert_eq!(records, again);
        }
    }

    #[test]
    fn unknown_words_are_refused() {
        for wrong in [
            "tpcc",
            "oltp:streams=3",
            "vod:streams=x",
            "rates:rates=0",
            "multi:scale=0",
            "zipf:spot=1",
            "zipf:writes=2",
        ] {
            assert!(Workload::parse(wrong).is_err(), "{wrong}");
        }
    }
}
