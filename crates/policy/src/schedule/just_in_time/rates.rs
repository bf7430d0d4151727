//! Rates of sources: a moving mean over their transfers.

use crate::time::Time;
use std::collections::BTreeMap;

/// A source; a number of the driver's choosing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u64);

/// Data to be staged in from one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Bytes in all.
    pub bytes: u64,
    /// Bytes with a rate limit below the source's rate, by that limit. They are sent one after the other.
    pub limited: BTreeMap<u64, u64>,
}

impl Load {
    /// Bytes that only their source limits.
    #[cfg(test)]
    pub fn free(bytes: u64) -> Load {
        Load { bytes, limited: BTreeMap::new() }
    }

    /// Adds the load of one command.
    #[cfg(test)]
    pub fn add(&mut self, bytes: u64, limit: Option<u64>) {
        self.bytes = self.bytes.saturating_add(bytes);
        if let Some(limit) = limit {
            let held = self.limited.entry(limit.max(1)).or_default();
            *held = held.saturating_add(bytes);
        }
    }

    /// Mean bytes per second over the whole load, from a source of that rate.
    pub fn mean_rate(&self, source_rate: u64) -> u64 {
        let took = self.takes(source_rate).0;
        let rate = u128::from(self.bytes) * 1_000_000_000;
        rate.checked_div(u128::from(took)).map_or(source_rate, |rate| u64::try_from(rate).unwrap_or(u64::MAX))
    }

    fn takes(&self, source_rate: u64) -> Time {
        let rate = source_rate.max(1);
        let limited = self.limited.iter().map(|(limit, bytes)| span(*bytes, rate.min(*limit)));
        limited.fold(span(self.unlimited(), rate), |a, b| a + b)
    }

    fn unlimited(&self) -> u64 {
        self.limited.values().fold(self.bytes, |left, held| left.saturating_sub(*held))
    }

    /// The least time that the limits leave it.
    fn held(&self) -> Time {
        self.limited.iter().map(|(limit, bytes)| span(*bytes, *limit)).fold(Time::ZERO, |a, b| a + b)
    }
}

fn span(bytes: u64, rate: u64) -> Time {
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(rate.max(1));
    Time(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// Weight of the newest transfer, as a shift: a quarter, so that a change of rate is followed after a few transfers.
const NEWEST_SHIFT: u32 = 2;

/// A transfer that took longer than its limits by more than this part was held by its source (a guess).
const LIMIT_MARGIN: u64 = 4;

/// Smaller transfers measure latency rather than rate (a guess).
const BYTES_MIN: u64 = 1 << 20;

/// Bytes per second by source. To be kept across restarts with [`Rates::iter`] and [`Rates::set`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates(BTreeMap<SourceId, u64>);

impl Rates {
    /// Sets a rate measured earlier.
    pub fn set(&mut self, source: SourceId, bytes_per_sec: u64) {
        self.0.insert(source, bytes_per_sec.max(1));
    }

    /// All known rates.
    pub fn iter(&self) -> impl Iterator<Item = (SourceId, u64)> {
        self.0.iter().map(|(source, rate)| (*source, *rate))
    }

    /// The rate of a source, once it has shown one.
    pub fn get(&self, source: SourceId) -> Option<u64> {
        self.0.get(&source).copied()
    }

    /// Updates the rates after a successful transfer. A transfer held by its limits shows its source's rate only with
    /// its part without limits.
    pub fn measured(&mut self, source: SourceId, load: &Load, took: Time) {
        let held = load.held();
        let was_held = !load.limited.is_empty() && took <= held + Time(held.0 / LIMIT_MARGIN);
        let (bytes, took) = if was_held { (load.unlimited(), took.since(held)) } else { (load.bytes, took) };
        if bytes < BYTES_MIN || took == Time::ZERO {
            return;
        }
        let rate = u128::from(bytes) * 1_000_000_000 / u128::from(took.0);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX).max(1);
        let known = self.0.entry(source).or_insert(rate);
        *known = (*known - (*known >> NEWEST_SHIFT) + (rate >> NEWEST_SHIFT)).max(1);
    }

    /// How long it takes from a source; at `unknown` bytes per second if it has shown no rate.
    pub fn transfer(&self, source: SourceId, load: &Load, unknown: u64) -> Time {
        load.takes(self.get(source).unwrap_or(unknown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: SourceId = SourceId(1);

    #[test]
    fn the_first_is_believed_and_later_ones_by_a_quarter() {
        let mut rates = Rates::default();
        assert_eq!(rates.transfer(SOURCE, &Load::free(100), 10), Time::from_secs(10));
        rates.measured(SOURCE, &Load::free(400_000_000), Time::from_secs(4));
        assert_eq!(rates.get(SOURCE), Some(100_000_000));
        rates.measured(SOURCE, &Load::free(400_000_000), Time::from_secs(2));
        assert_eq!(rates.get(SOURCE), Some(125_000_000));
        assert_eq!(rates.transfer(SOURCE, &Load::free(250_000_000), 10), Time::from_secs(2));
        rates.measured(SOURCE, &Load::free(1000), Time::from_secs(2));
        assert_eq!(rates.get(SOURCE), Some(125_000_000), "small ones measure latency");
        assert_eq!(rates.iter().collect::<Vec<_>>(), [(SOURCE, 125_000_000)]);
    }

    #[test]
    fn no_rate_divides_by_nothing() {
        let mut rates = Rates::default();
        rates.set(SOURCE, 0);
        assert_eq!(rates.transfer(SOURCE, &Load::free(3), 0), Time::from_secs(3));
        rates.measured(SOURCE, &Load::free(u64::MAX), Time(1));
        assert!(rates.get(SOURCE).is_some_and(|rate| rate > 1));
        assert_eq!(rates.transfer(SourceId(2), &Load::free(u64::MAX), 0), Time(u64::MAX));
    }

    /// [S-311]
    #[test]
    fn limits_are_reckoned_with_and_are_not_taken_for_the_rate_of_a_source() {
        let mut rates = Rates::default();
        rates.set(SOURCE, 100_000_000);
        let mut load = Load::default();
        load.add(500_000_000, None);
        load.add(100_000_000, Some(10_000_000));
        load.add(100_000_000, Some(1_000_000_000));
        assert_eq!(rates.transfer(SOURCE, &load, 1), Time::from_secs(5 + 10 + 1), "the slower of limit and source");
        assert_eq!([load.mean_rate(100_000_000), Load::free(5).mean_rate(7)], [43_750_000, 7]);
        let mut held = Load::default();
        held.add(100_000_000, Some(10_000_000));
        rates.measured(SOURCE, &held, Time::from_secs(10));
        assert_eq!(rates.get(SOURCE), Some(100_000_000), "the limit's rate, not the source's");
        rates.measured(SOURCE, &held, Time::from_secs(20));
        assert_eq!(rates.get(SOURCE), Some(76_250_000), "it gave 5 MB/s, and could have given 10");
        held.add(400_000_000, None);
        rates.set(SOURCE, 100_000_000);
        rates.measured(SOURCE, &held, Time::from_secs(12));
        assert_eq!(rates.get(SOURCE), Some(125_000_000), "400 MB in the two seconds that the limit left");
    }
}
