//! Demotion control: rates of demotion during a checkpoint, and so of the checkpoint itself.
//!
//! Reading for demotion slows writing: `BWw = m BWr + b` through `(Brmin, Bwmax)` and `(Brmax, Bwmin)` (equation 5.1).
//! With `C = DWPP - S`, `aw = (Bwmax + Bwmin) / 2` and `ar = (Brmax + Brmin) / 2`:
//! ```text
//!   1  C <= Brmin DWPP / Bwmax       demote only in pauses
//!   2  Bwmax tc + aw tdd = DWPP      from DWSF = Bwmax tc on, writing falls and demotion rises evenly over tdd seconds
//!      Brmin tc + ar tdd = C
//!   3  aw tdd + Bwmin tds = DWPP     (if 2 gives tc <= 0) the ramp starts at once, and from DWSF = aw tdd on demotion
//!      ar tdd + Brmax tds = C        runs at full speed
//! ```
//! The throttler sees `DWSF`, not the time: with `x = DWSF - start` and `k = (Bwmax - Bwmin) / tdd`, the ramp has run
//! for `tau = (Bwmax - sqrt(Bwmax^2 - 2 k x)) / k` seconds.
//!
//! Feasible up to `DWPP = S Bwmin / (Bwmin - Brmax)`, if the pauses of a period suffice to demote `S`.
//!
//! Source: Sung, section 5.1.2, equations 5.1-5.3; readings A-20, A-21, A-39 of the reference.

use crate::named;

/// Bandwidths of a burst buffer and its path to the capacity tier, in bytes per second, and its size in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Device {
    /// `Bwmax`: writing while demotion reads at `Brmin`.
    pub write_max: f64,
    /// `Bwmin`: writing while demotion reads at `Brmax`.
    pub write_min: f64,
    /// `Brmax`: demotion at full speed beside writing.
    pub demote_max: f64,
    /// `Brmin`: demotion that does not slow writing.
    pub demote_min: f64,
    /// `Bdmax`: demotion in pauses.
    pub demote_idle: f64,
    /// `S`: size of the buffer.
    pub capacity: f64,
}

impl Default for Device {
    /// The paper's testbed: 3.56, 3.0, 1.6, 0.08 GB/s, 3.2 TB; 2.11 GB/s in pauses (reading A-20).
    fn default() -> Device {
        Device {
            write_max: 3.56e9,
            write_min: 3.0e9,
            demote_max: 1.6e9,
            demote_min: 0.08e9,
            demote_idle: 2.11e9,
            capacity: 3.2e12,
        }
    }
}

impl Device {
    /// Returns slope and intercept of the trade-off between writing and demotion.
    pub fn trade_off(&self) -> (f64, f64) {
        let m = (self.write_min - self.write_max) / (self.demote_max - self.demote_min);
        (m, self.write_max - m * self.demote_min)
    }

    /// Returns the rate of writing while demotion reads at `demote`.
    pub fn write_beside(&self, demote: f64) -> f64 {
        let (m, b) = self.trade_off();
        (m * demote + b).clamp(self.write_min, self.write_max)
    }

    /// Returns the largest `DWPP` that demotion during checkpoints can sustain.
    pub fn dwpp_max(&self) -> f64 {
        self.capacity * self.write_min / (self.write_min - self.demote_max)
    }
}

/// Shares of writing and demotion, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Rate of checkpoints.
    pub write: f64,
    /// Rate of demotion.
    pub demote: f64,
}

named! {
    /// One of the three patterns of demotion.
    Pattern {
        /// Demotion in pauses only.
        Pauses = "demotes in pauses",
        /// A stretch at full speed, then the ramp.
        Ramp = "demotes in a ramp",
        /// The ramp, then a stretch of full demotion.
        Full = "demotes at full speed at last",
    }
}

/// A plan for a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Pattern of demotion.
    pub pattern: Pattern,
    /// `DWSF` from which demotion rises, in bytes.
    pub start: f64,
    /// `DWSF` from which demotion runs at full speed, in bytes; infinite if it never does.
    pub full: f64,
    /// Seconds at full writing speed (`tc`), on the ramp (`tdd`), at full demotion (`tds`).
    pub spans: [f64; 3],
    /// Demotion before the ramp, in bytes per second.
    pub trickle: f64,
    /// Whether the buffer can absorb the data of the period.
    pub feasible: bool,
}

impl Plan {
    /// Makes the plan for `dwpp` bytes in a period.
    pub fn new(device: &Device, dwpp: f64) -> Plan {
        let c = dwpp - device.capacity;
        let (aw, ar) = ((device.write_max + device.write_min) / 2.0, (device.demote_max + device.demote_min) / 2.0);
        if c <= device.demote_min * dwpp / device.write_max {
            let trickle = if c > 0.0 { device.demote_min } else { 0.0 };
            let spans = [dwpp / device.write_max, 0.0, 0.0];
            let start = if c > 0.0 { f64::INFINITY } else { device.capacity };
            return Plan { pattern: Pattern::Pauses, start, full: f64::INFINITY, spans, trickle, feasible: true };
        }
        // Two equations in tc and tdd, by Cramer's rule.
        let solve = |a: f64, b: f64| {
            let determinant = a * ar - aw * b;
            ((dwpp * ar - aw * c) / determinant, (a * c - b * dwpp) / determinant)
        };
        let (tc, tdd) = solve(device.write_max, device.demote_min);
        if tc > 0.0 {
            let start = device.write_max * tc;
            let spans = [tc, tdd, 0.0];
            return Plan {
                pattern: Pattern::Ramp,
                start,
                full: dwpp,
                spans,
                trickle: device.demote_min,
                feasible: true,
            };
        }
        let (tds, tdd) = solve(device.write_min, device.demote_max);
        let feasible = tdd >= -1e-9;
        let (tds, tdd) = if feasible { (tds, tdd.max(0.0)) } else { (dwpp / device.write_min, 0.0) };
        let spans = [0.0, tdd, tds];
        Plan { pattern: Pattern::Full, start: 0.0, full: aw * tdd, spans, trickle: 0.0, feasible }
    }

    /// Returns the rates during a checkpoint, after `dwsf` written bytes in this period.
    pub fn rates(&self, device: &Device, dwsf: f64) -> Rates {
        let x = dwsf - self.start;
        if x < 0.0 || self.pattern == Pattern::Pauses {
            return Rates { write: device.write_max, demote: self.trickle };
        }
        let tdd = self.spans[1];
        if dwsf >= self.full || tdd <= 0.0 {
            return Rates { write: device.write_min, demote: device.demote_max };
        }
        let k = (device.write_max - device.write_min) / tdd;
        let tau = (device.write_max - (device.write_max * device.write_max - 2.0 * k * x).max(0.0).sqrt()) / k;
        let share = (tau / tdd).clamp(0.0, 1.0);
        Rates {
            write: device.write_max - (device.write_max - device.write_min) * share,
            demote: device.demote_min + (device.demote_max - device.demote_min) * share,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn s(dwpp: f64) -> Plan {
        let device = Device::default();
        Plan::new(&device, dwpp * device.capacity)
    }

    #[test]
    fn the_trade_off_of_the_reference() {
        let (m, b) = Device::default().trade_off();
        assert!((m + 0.36842).abs() < 1e-5 && (b / 1e9 - 3.58947).abs() < 1e-5);
        assert!((Device::default().dwpp_max() / 3.2e12 - 2.142857).abs() < 1e-6);
    }

    #[test]
    fn the_plans_of_the_reference() {
        let capacity = Device::default().capacity;
        let infinite = f64::INFINITY;
        for (dwpp, pattern, start, full, spans, idle) in [
            (1.0, Pattern::Pauses, 1.0, infinite, [898.9, 0.0, 0.0], 1.103),
            (1.2, Pattern::Ramp, 0.4594, 1.2, [412.9, 722.6, 0.0], 1.201),
            (1.3, Pattern::Ramp, 0.1409, 1.3, [126.7, 1130.8, 0.0], 1.259),
            (1.4, Pattern::Full, 0.0, 1.2504, [0.0, 1219.9, 159.5], 1.322),
            (1.6, Pattern::Full, 0.0, 0.9138, [0.0, 891.5, 732.0], 1.470),
            (1.9, Pattern::Full, 0.0, 0.4088, [0.0, 398.8, 1590.6], 1.767),
            (2.1, Pattern::Full, 0.0, 0.0721, [0.0, 70.4, 2163.0], 2.043),
        ] {
            let plan = s(dwpp);
            assert_eq!(plan.pattern, pattern, "{dwpp} S");
            assert!((plan.start / capacity - start).abs() < 1e-4, "{dwpp} S: {}", plan.start / capacity);
            assert!(full.is_infinite() == plan.full.is_infinite(), "{dwpp} S");
            assert!(full.is_infinite() || (plan.full / capacity - full).abs() < 1e-4, "{dwpp} S");
            assert!(plan.spans.iter().zip(spans).all(|(got, said)| (got - said).abs() < 0.06), "{:?}", plan.spans);
            let pauses_s = 3800.0 - plan.spans.iter().sum::<f64>();
            let needed = capacity / pauses_s / 1e9;
            assert!((needed - idle).abs() < 1e-3, "{dwpp} S: {needed}");
            assert!(plan.feasible);
        }
        assert!(s(2.1428).feasible && !s(2.15).feasible);
        assert_eq!((s(1.02).pattern, s(1.03).pattern), (Pattern::Pauses, Pattern::Ramp));
        assert_eq!((s(1.344).pattern, s(1.345).pattern), (Pattern::Ramp, Pattern::Full));
    }

    #[test]
    fn the_ramp_of_the_reference() {
        let (device, plan) = (Device::default(), s(1.2));
        for (x, write, demote) in [
            (0.0, 3.56, 0.08),
            (500.0, 3.449, 0.380),
            (1000.0, 3.335, 0.690),
            (2000.0, 3.094, 1.345),
            (2370.0, 3.0, 1.6),
        ] {
            let got = plan.rates(&device, plan.start + x * 1e9);
            assert!((got.write / 1e9 - write).abs() < 1e-3 && (got.demote / 1e9 - demote).abs() < 2e-3, "{x}: {got:?}");
        }
        let before = plan.rates(&device, 0.0);
        assert_eq!((before.write, before.demote), (device.write_max, device.demote_min));
    }

    proptest! {
        /// At the plan's rates, demotion moves exactly the data that do not fit, and the buffer never overflows.
        #[test]
        fn a_plan_demotes_what_does_not_fit(dwpp in 0.1f64..2.14) {
            let (device, plan) = (Device::default(), s(dwpp));
            let (mut written, mut demoted) = (0.0, 0.0);
            let total = dwpp * device.capacity;
            while written < total {
                let rates = plan.rates(&device, written);
                let dt = (0.25f64).min((total - written) / rates.write);
                written += rates.write * dt;
                demoted += rates.demote * dt;
                prop_assert!(rates.write <= device.write_max && rates.write >= device.write_min);
                prop_assert!((device.write_beside(rates.demote) - rates.write).abs() < 0.03e9);
                prop_assert!(written - demoted <= device.capacity * 1.003);
            }
            let needed = (total - device.capacity).max(0.0);
            prop_assert!(demoted >= needed * 0.99 - 1e9 && demoted <= needed.max(device.demote_min * 1000.0) * 1.05 + 1e9);
        }
    }
}
