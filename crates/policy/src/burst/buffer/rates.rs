//! Rates of writing and demotion, by scheme.

use super::{Buffer, Scheme};
use crate::burst::control::Rates;
use crate::burst::predict::{better, rates_for};
use crate::time::Time;

impl Buffer {
    /// Returns the rates in force. Direct writes use the capacity tier at the rate of demotion beside writing, and
    /// demotion gets the rest of the tier's speed.
    pub(super) fn rates_now(&self, now: Time) -> Rates {
        let device = &self.config.device;
        let rates = self.rates_beside(now);
        let direct = self.writing.values().any(|of| of.turn && of.direct);
        let left = (device.demote_idle - device.demote_max).max(0.0);
        Rates { demote: if direct { rates.demote.min(left) } else { rates.demote }, ..rates }
    }

    fn rates_beside(&self, now: Time) -> Rates {
        let device = &self.config.device;
        let all = || self.writing.values().filter(|of| of.goes());
        if all().next().is_none() {
            return Rates { write: device.write_max, demote: device.demote_idle };
        }
        let full = Rates { write: device.write_max, demote: 0.0 };
        let demoting = Rates { write: device.write_min, demote: device.demote_max };
        match self.config.scheme {
            Scheme::DataWarp | Scheme::MaxBw => full,
            Scheme::MaxEff => demoting,
            Scheme::Static(share) if self.used < share * device.capacity => full,
            Scheme::Static(_) => demoting,
            Scheme::Bbos => self.plan.rates(device, self.dwsf),
            Scheme::Predicted => {
                let (_, dirty) = self.tables.in_buffer();
                let reserved: f64 = all().map(|of| of.reserved).sum();
                let largest = all().map(|of| of.reserved).fold(0.0, f64::max);
                let clean = (self.used - dirty as f64 - reserved).max(0.0);
                let free = (self.room() - self.used).max(0.0) + clean;
                let left: f64 = all().map(|of| (of.reserved - of.written).max(0.0)).sum();
                let waiting: f64 = self.writing.values().filter(|of| !of.turn).filter_map(|of| of.wants).sum();
                let period_s = self.config.period.as_secs_f64();
                let coming = self.forecast.coming(now, period_s, period_s);
                // Waiting checkpoints come at once. The next one needs its full room, so the largest is kept in
                // reserve.
                let forecast = rates_for(device, free - waiting - largest, dirty as f64, left, &coming);
                better(device, &self.plan, self.dwsf, self.dwpp, &coming, forecast)
            }
        }
    }
}
