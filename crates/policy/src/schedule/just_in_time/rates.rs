//! How fast sources are: a moving mean of what their transfers have shown.

use crate::time::Time;
use std::collections::BTreeMap;

/// A source; a number of the driver's choosing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u64);

/// Weight of the newest transfer, as a shift: a quarter, so that a change of rate is believed after a few transfers.
const NEWEST_SHIFT: u32 = 2;

/// Transfers of less than this say more about latency than about rate (a guess).
const BYTES_MIN: u64 = 1 << 20;

/// Bytes per second by source. To be kept across restarts with [`Rates::iter`] and [`Rates::set`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates(BTreeMap<SourceId, u64>);

impl Rates {
    /// What was known before.
    pub fn set(&mut self, source: SourceId, bytes_per_sec: u64) {
        self.0.insert(source, bytes_per_sec.max(1));
    }

    /// All that is known.
    pub fn iter(&self) -> impl Iterator<Item = (SourceId, u64)> {
        self.0.iter().map(|(source, rate)| (*source, *rate))
    }

    /// The rate of a source, once it has shown one.
    pub fn get(&self, source: SourceId) -> Option<u64> {
        self.0.get(&source).copied()
    }

    /// A transfer has ended well.
    pub fn measured(&mut self, source: SourceId, bytes: u64, took: Time) {
        if bytes < BYTES_MIN || took == Time::ZERO {
            return;
        }
        let rate = u128::from(bytes) * 1_000_000_000 / u128::from(took.0);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX).max(1);
        let known = self.0.entry(source).or_insert(rate);
        *known = (*known - (*known >> NEWEST_SHIFT) + (rate >> NEWEST_SHIFT)).max(1);
    }

    /// How long so many bytes take from a source; at `unknown` bytes per second if it has shown no rate.
    pub fn transfer(&self, source: SourceId, bytes: u64, unknown: u64) -> Time {
        let rate = self.get(source).unwrap_or(unknown).max(1);
        let ns = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
        Time(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: SourceId = SourceId(1);

    #[test]
    fn the_first_is_believed_and_later_ones_by_a_quarter() {
        let mut rates = Rates::default();
        assert_eq!(rates.transfer(SOURCE, 100, 10), Time::from_secs(10));
        rates.measured(SOURCE, 400_000_000, Time::from_secs(4));
        assert_eq!(rates.get(SOURCE), Some(100_000_000));
        rates.measured(SOURCE, 400_000_000, Time::from_secs(2));
        assert_eq!(rates.get(SOURCE), Some(125_000_000));
        assert_eq!(rates.transfer(SOURCE, 250_000_000, 10), Time::from_secs(2));
        rates.measured(SOURCE, 1000, Time::from_secs(2));
        assert_eq!(rates.get(SOURCE), Some(125_000_000), "small ones measure latency");
        assert_eq!(rates.iter().collect::<Vec<_>>(), [(SOURCE, 125_000_000)]);
    }

    #[test]
    fn no_rate_divides_by_nothing() {
        let mut rates = Rates::default();
        rates.set(SOURCE, 0);
        assert_eq!(rates.transfer(SOURCE, 3, 0), Time::from_secs(3));
        rates.measured(SOURCE, u64::MAX, Time(1));
        assert!(rates.get(SOURCE).is_some_and(|rate| rate > 1));
        assert_eq!(rates.transfer(SourceId(2), u64::MAX, 0), Time(u64::MAX));
    }
}
