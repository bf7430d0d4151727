//! Generated workloads in words: `oltp`, `multi:scale=0.1`, `vod:streams=16,seconds=60`.

use crate::generate::{
    Arrivals, Mixed, MixedShape, Multi, MultiShape, copies, downloads, oltp_like, rates, vod, web_like,
};
use crate::setup::SetupError;
use crate::trace::{Accounting, Error, Reader, Record};

/// A generator with its parameters.
#[derive(Clone, Debug, PartialEq)]
pub enum Workload {
    /// OLTP-like, Web-like.
    Mixed(MixedShape),
    /// Multi-like.
    Multi(MultiShape),
    /// Two or more streams of given rates, and the strength of their bursts.
    Rates(Vec<(f64, Arrivals)>, u64),
    /// Video on demand: streams, random readers, seconds.
    Vod(u32, u32, u64),
    /// Copies of files, so many seconds.
    Copies(u64),
    /// Downloads, so many seconds.
    Downloads(u64),
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
    /// A workload in words: a name, and parameters after a colon. `oltp`, `web` and `multi` take `scale`; `vod` takes `streams`, `random`
    /// (random readers) and `seconds`; `copies` and `downloads` take `seconds`; `rates` takes `rates` (`1000/3000`, per second),
    /// `sigma` (`0/3`, of the mean) and `seconds`.
    pub fn parse(text: &str) -> Result<Workload, SetupError> {
        let wrong = |why: &str| SetupError { what: "workload", value: text.into(), why: why.into() };
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let (mut scale, mut streams, mut random, mut seconds) = (1.0, 16, 0, 60);
        let (mut rates, mut sigmas) = (vec![1000.0, 3000.0], Vec::new());
        for part in rest.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let number = || value.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
            let list = || value.split('/').map(|n| n.parse::<f64>().ok()).collect::<Option<Vec<_>>>();
            let not_a_number = || wrong("a parameter's value is a number that is not negative");
            match (name, key) {
                ("oltp" | "web" | "multi", "scale") => {
                    scale = number().filter(|n| *n > 0.0).ok_or_else(not_a_number)?;
                }
                ("vod", "streams") => streams = number().ok_or_else(not_a_number)? as u32,
                ("vod", "random") => random = number().ok_or_else(not_a_number)? as u32,
                ("vod" | "copies" | "downloads" | "rates", "seconds") => {
                    seconds = number().ok_or_else(not_a_number)? as u64;
                }
                ("rates", "rates") => rates = list().ok_or_else(not_a_number)?,
                ("rates", "sigma") => sigmas = list().ok_or_else(not_a_number)?,
                _ => return Err(wrong(&format!("`{name}` has no parameter `{key}`"))),
            }
        }
        Ok(match name {
            "oltp" => Workload::Mixed(oltp_like().scaled(scale)),
            "web" => Workload::Mixed(web_like().scaled(scale)),
            "multi" => Workload::Multi(MultiShape::default().scaled(scale)),
            "vod" => Workload::Vod(streams, random, seconds),
            "copies" => Workload::Copies(seconds),
            "downloads" => Workload::Downloads(seconds),
            "rates" if rates.iter().all(|rate| *rate > 0.0) => {
                let arrivals = |at: usize| match sigmas.get(at) {
                    Some(&sigma) if sigma > 0.0 => Arrivals::Bursty { sigma, window_ns: 100_000_000 },
                    _ => Arrivals::Constant,
                };
                Workload::Rates(rates.iter().enumerate().map(|(at, rate)| (*rate, arrivals(at))).collect(), seconds)
            }
            "rates" => return Err(wrong("rates are above 0")),
            _ => return Err(wrong("choose oltp, web, multi, vod, copies, downloads or rates")),
        })
    }

    /// The workload from its start; the same seed gives the same records.
    pub fn open(&self, seed: u64) -> Box<dyn Reader> {
        match self {
            Workload::Mixed(shape) => reader(Mixed::new(shape.clone(), seed)),
            Workload::Multi(shape) => reader(Multi::new(shape.clone(), seed)),
            Workload::Rates(streams, seconds) => reader(rates(streams, *seconds, seed)),
            Workload::Vod(streams, random, seconds) => reader(vod(*streams, *random, *seconds, seed)),
            Workload::Copies(seconds) => reader(copies(*seconds, seed)),
            Workload::Downloads(seconds) => reader(downloads(*seconds, seed)),
        }
    }
}

fn reader(records: impl Iterator<Item = Record> + Send + 'static) -> Box<dyn Reader> {
    Box::new(Generated { records, accounting: Accounting::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_workloads_whose_accounts_close() {
        for words in [
            "oltp:scale=0.001",
            "web:scale=0.001",
            "multi:scale=0.01",
            "vod:streams=4,seconds=1",
            "rates:rates=10/20,sigma=0/3,seconds=2",
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
        for wrong in ["tpcc", "oltp:streams=3", "vod:streams=x", "rates:rates=0", "multi:scale=0"] {
            assert!(Workload::parse(wrong).is_err(), "{wrong}");
        }
    }
}
