//! Prediction of the next checkpoints from each application's period, and demotion rates for that prediction.
//!
//! The paper plans demotion for `DWPP - S` as if checkpoints followed each other without pauses. Usually they do not,
//! and the pauses empty the buffer faster, without slowing writers. With known times of the next checkpoints, demotion
//! in the pauses is known. Only the rest has to be demoted beside writing, which is then faster.
//!
//! Ours; the paper names it as future work (section 6).

use super::control::{Device, Plan, Rates};
use super::queue::App;
use crate::time::Time;
use std::collections::BTreeMap;

/// Weight of the latest interval in the estimate.
const LATEST: f64 = 0.5;

#[derive(Clone, Copy, Debug)]
struct Rhythm {
    last: Time,
    period_s: Option<f64>,
    bytes: f64,
}

/// Times and sizes of applications' checkpoints.
#[derive(Clone, Debug, Default)]
pub struct Forecast {
    apps: BTreeMap<App, Rhythm>,
    /// Periods that users declared, in force until one was measured.
    told_s: BTreeMap<App, f64>,
}

/// An expected checkpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coming {
    /// Seconds from now; 0 if it is overdue.
    pub in_s: f64,
    /// Size of the checkpoint.
    pub bytes: f64,
}

impl Forecast {
    /// Sets the checkpoint period that a user declared for an application.
    pub fn told(&mut self, app: App, period_s: f64) {
        self.told_s.insert(app, period_s);
    }

    /// Records the begin of an application's checkpoint.
    pub fn arrived(&mut self, now: Time, app: App, bytes: f64) {
        let rhythm = self.apps.entry(app).or_insert(Rhythm { last: now, period_s: None, bytes });
        let interval = now.since(rhythm.last).as_secs_f64();
        if interval > 0.0 {
            let old = rhythm.period_s.unwrap_or(interval);
            rhythm.period_s = Some(old + (interval - old) * LATEST);
        }
        (rhythm.last, rhythm.bytes) = (now, bytes);
    }

    /// Returns the checkpoints expected within `horizon_s` seconds, the next first. An application without a known
    /// period is expected after `default_period_s`.
    pub fn coming(&self, now: Time, horizon_s: f64, default_period_s: f64) -> Vec<Coming> {
        let mut all = Vec::new();
        for (app, rhythm) in &self.apps {
            let told = || self.told_s.get(app).copied().unwrap_or(default_period_s);
            let period = rhythm.period_s.unwrap_or_else(told).max(1e-3);
            let mut in_s = period - now.since(rhythm.last).as_secs_f64();
            // An application that missed two periods is not expected.
            if in_s < -2.0 * period {
                continue;
            }
            while in_s <= horizon_s {
                all.push(Coming { in_s: in_s.max(0.0), bytes: rhythm.bytes });
                in_s += period;
            }
        }
        all.sort_by(|a, b| a.in_s.total_cmp(&b.in_s));
        all
    }
}

/// Returns the rates beside the present checkpoint at which the next checkpoints find room.
///
/// Walks the coming checkpoints with the buffer emptied in the pauses, and finds the demotion rate that the tightest
/// one needs. `free` are bytes that are free or can be freed at once, `demotable` bytes that can be demoted, `left`
/// bytes of the present checkpoint.
pub fn rates_for(device: &Device, free: f64, demotable: f64, left: f64, coming: &[Coming]) -> Rates {
    // At full writing speed without demotion: the time and the amount of the first overflow.
    let mut need = 0.0f64;
    let (mut writing_s, mut written, mut idle_s) = (left / device.write_max, left, 0.0);
    let mut end_s = writing_s;
    let mut check = |written: f64, writing_s: f64, idle_s: f64| {
        let short = written - free - (idle_s * device.demote_idle).min(demotable + written);
        if short > 0.0 && writing_s > 0.0 {
            need = need.max(short / writing_s);
        }
    };
    check(written, writing_s, idle_s);
    for next in coming {
        if next.in_s > end_s {
            idle_s += next.in_s - end_s;
            end_s = next.in_s;
        }
        let takes = next.bytes / device.write_max;
        end_s += takes;
        writing_s += takes;
        written += next.bytes;
        check(written, writing_s, idle_s);
    }
    if need <= 0.0 {
        return Rates { write: device.write_max, demote: 0.0 };
    }
    // Demotion slows writing, which then lasts longer, so the needed rate falls accordingly.
    let demote = need.clamp(device.demote_min, device.demote_max);
    Rates { write: device.write_beside(demote), demote }
}

/// Largest share of the full demotion rate at which a forecast is used: a tighter plan overflows in practice.
const SLACK: f64 = 0.5;

/// Least share of the period's data that a forecast must cover: one for a few of the applications is too optimistic.
const KNOWN: f64 = 0.9;

/// Returns the paper's plan for a period of `dwpp` bytes, or the forecast's rates. The forecast must be faster for the
/// present checkpoint, leave slack, and cover nearly all data of a period with the checkpoints in `coming`.
pub fn better(device: &Device, plan: &Plan, dwsf: f64, dwpp: f64, coming: &[Coming], forecast: Rates) -> Rates {
    let worst_case = plan.rates(device, dwsf);
    let known = coming.iter().map(|of| of.bytes).sum::<f64>() >= KNOWN * dwpp;
    let slack = forecast.demote <= SLACK * device.demote_max;
    if known && slack && forecast.write >= worst_case.write { forecast } else { worst_case }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rhythm_is_learned_and_missed_beats_are_not_counted_on() {
        let mut forecast = Forecast::default();
        for n in 0..4 {
            forecast.arrived(Time::from_secs(n * 100), 1, 5.0);
        }
        forecast.arrived(Time::from_secs(300), 2, 7.0);
        let coming = forecast.coming(Time::from_secs(350), 200.0, 60.0);
        let said: Vec<_> = coming.iter().map(|of| (of.in_s.round() as u64, of.bytes as u64)).collect();
        assert_eq!(said, [(10, 7), (50, 5), (70, 7), (130, 7), (150, 5), (190, 7)]);
        assert!(forecast.coming(Time::from_secs(2000), 10.0, 60.0).is_empty());
        forecast.told(2, 45.0);
        let told = forecast.coming(Time::from_secs(350), 40.0, 60.0);
        assert_eq!(told.len(), 2, "what is told goes over the default: {told:?}");
        assert_eq!(told[0].in_s, 0.0, "and it is overdue by then");
        forecast.told(1, 7.0);
        assert_eq!(
            forecast.coming(Time::from_secs(350), 60.0, 60.0).iter().filter(|of| of.bytes == 5.0).count(),
            1,
            "what was seen goes over what is told"
        );
    }

    #[test]
    fn with_room_or_pauses_nothing_is_demoted_beside_writing() {
        let device = Device::default();
        let coming =
            |every: f64| (1..40).map(|n| Coming { in_s: every * f64::from(n), bytes: 80e9 }).collect::<Vec<_>>();
        let full_speed = Rates { write: device.write_max, demote: 0.0 };
        assert_eq!(rates_for(&device, 3.2e12, 0.0, 80e9, &coming(25.0)), full_speed, "room for all");
        assert_eq!(rates_for(&device, 100e9, 3.1e12, 80e9, &coming(100.0)), full_speed, "pauses for all");
        let tight = rates_for(&device, 100e9, 3.1e12, 80e9, &coming(23.0));
        assert!(tight.demote > device.demote_min && tight.write < device.write_max, "{tight:?}");
    }
}
