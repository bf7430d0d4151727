//! The load: times of checkpoints and failures per application.

use crate::generate::Rng;

/// A class of applications, by checkpoints per period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VersionClass {
    /// Share among the applications.
    pub weight: f64,
    /// Checkpoints per period.
    pub per_period: u32,
}

/// Load of the applications.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Length of a period in seconds.
    pub period_s: f64,
    /// Bytes of a checkpoint.
    pub job_bytes: f64,
    /// Checkpoints per period.
    pub jobs: usize,
    /// Time between two checkpoints, as a share of the even interval `period / jobs`: 1 low, 0.5 medium, 0.1 high
    /// congestion.
    pub congestion: f64,
    /// Classes of applications by frequency of checkpoints.
    pub classes: Vec<VersionClass>,
    /// MTBF of an application: uniform from the first to the second, in seconds.
    pub mtbf_s: (f64, f64),
    /// Share of the period by which a checkpoint comes earlier or later at most, drawn evenly in each period. 0: every
    /// period is the same, and a forecast is never wrong.
    pub jitter: f64,
    /// Applications from a list, instead of `job_bytes`, `jobs`, `classes` and `mtbf_s`.
    pub listed: Vec<Listed>,
    /// Seed of the run.
    pub seed: u64,
}

/// An application from a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Name of its class, for people.
    pub name: String,
    /// Bytes of a checkpoint.
    pub bytes: f64,
    /// Interval between checkpoints, in seconds.
    pub interval_s: f64,
    /// Mean time between failures, in seconds.
    pub mtbf_s: f64,
}

/// A checkpoint, repeated in every period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Write {
    /// Seconds from the start of the period.
    pub(super) at_s: f64,
    pub(super) app: u64,
    pub(super) bytes: f64,
}

impl Load {
    /// Returns the MTBF of each application in seconds, and the checkpoints of a period in order of time.
    pub(super) fn writes(&self) -> (Vec<f64>, Vec<Write>) {
        if self.listed.is_empty() {
            let (mtbf_s, order) = self.applications();
            let write = |(n, app)| Write { at_s: self.arrival_s(n), app, bytes: self.job_bytes };
            return (mtbf_s, order.into_iter().enumerate().map(write).collect());
        }
        let mut rng = Rng::new(self.seed, 0);
        let mut writes = Vec::new();
        for (app, of) in self.listed.iter().enumerate() {
            // As many as fit into a period, evenly spaced; at least one.
            let count = (self.period_s / of.interval_s).round().max(1.0);
            let each = self.period_s / count;
            let offset = rng.unit() * each;
            let write = |n: u32| Write {
                at_s: (offset + f64::from(n) * each) * self.congestion,
                app: app as u64,
                bytes: of.bytes,
            };
            writes.extend((0..count as u32).map(write));
        }
        writes.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        (self.listed.iter().map(|of| of.mtbf_s).collect(), writes)
    }

    /// Returns the checkpoints of all periods in order of time: seconds from the start, application, bytes. A checkpoint
    /// stays within its period.
    pub(super) fn all_writes(&self, periods: u32) -> Vec<(f64, u64, f64)> {
        let (writes, mut rng) = (self.writes().1, Rng::new(self.seed, 2));
        let mut all = Vec::new();
        for period in 0..periods {
            for of in &writes {
                let slips =
                    if self.jitter > 0.0 { (2.0 * rng.unit() - 1.0) * self.jitter * self.period_s } else { 0.0 };
                let at_s = (of.at_s + slips).clamp(0.0, (self.period_s - 1.0).max(of.at_s));
                all.push((f64::from(period) * self.period_s + at_s, of.app, of.bytes));
            }
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all
    }

    /// Returns the MTBF of each application in seconds, and the order in which they write within a period.
    pub(super) fn applications(&self) -> (Vec<f64>, Vec<u64>) {
        let mut rng = Rng::new(self.seed, 0);
        let total: f64 = self.classes.iter().map(|class| class.weight).sum();
        let mut applications = Vec::new();
        let mut writes: Vec<(f64, u64)> = Vec::new();
        // Classes are dealt by weight, so that each has its share even among few applications.
        let mut credit = vec![0.0; self.classes.len()];
        while writes.len() < self.jobs {
            let Some(best) = deal(&self.classes, &mut credit, total) else { break };
            let app = applications.len() as u64;
            let (low, high) = self.mtbf_s;
            applications.push(low + rng.unit() * (high - low));
            let each = f64::from(self.classes[best].per_period.max(1));
            let offset = rng.unit() / each;
            for n in 0..self.classes[best].per_period.max(1) {
                writes.push((offset + f64::from(n) / each, app));
            }
        }
        writes.sort_by(|a, b| a.0.total_cmp(&b.0));
        writes.truncate(self.jobs);
        (applications, writes.into_iter().map(|(_, app)| app).collect())
    }

    /// Returns the arrival of write number `n`, from the start of the period.
    pub(super) fn arrival_s(&self, n: usize) -> f64 {
        n as f64 * self.congestion * self.period_s / self.jobs.max(1) as f64
    }
}

fn deal(classes: &[VersionClass], credit: &mut [f64], total: f64) -> Option<usize> {
    credit.iter_mut().zip(classes).for_each(|(credit, class)| *credit += class.weight);
    let best = (0..classes.len()).max_by(|&a, &b| credit[a].total_cmp(&credit[b]).then(b.cmp(&a)))?;
    credit[best] -= total;
    Some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications_write_as_often_as_their_class() {
        let class = |weight, per_period| VersionClass { weight, per_period };
        let load = Load {
            period_s: 3600.0,
            job_bytes: 80e9,
            jobs: 60,
            congestion: 0.5,
            classes: vec![class(5.0, 1), class(2.0, 2), class(1.0, 3)],
            mtbf_s: (60.0, 1200.0),
            jitter: 0.0,
            listed: Vec::new(),
            seed: 1,
        };
        let (applications, writes) = load.applications();
        let mut counts = vec![0; applications.len()];
        writes.iter().for_each(|&app| counts[app as usize] += 1);
        let of = |n| counts.iter().filter(|&&count| count == n).count();
        assert_eq!(writes.len(), 60);
        assert!(of(1) > 2 * of(2) && of(2) >= of(3) && of(3) > 2, "{counts:?}");
        assert!(applications.iter().all(|mtbf_s| (60.0..1200.0).contains(mtbf_s)));
        assert_eq!((load.arrival_s(0), load.arrival_s(59)), (0.0, 59.0 * 30.0));
    }
    #[test]
    fn those_of_a_list_write_as_they_say() {
        let of = |bytes, interval_s| Listed { name: String::new(), bytes, interval_s, mtbf_s: 1000.0 };
        let load = Load {
            period_s: 3600.0,
            job_bytes: 0.0,
            jobs: 0,
            congestion: 0.5,
            classes: Vec::new(),
            mtbf_s: (1.0, 1.0),
            jitter: 0.0,
            listed: vec![of(5.0, 3600.0), of(7.0, 900.0), of(9.0, 1e6)],
            seed: 1,
        };
        let (applications, writes) = load.writes();
        let count = |app| writes.iter().filter(|write| write.app == app).count();
        assert_eq!((applications.len(), count(0), count(1), count(2)), (3, 1, 4, 1));
        assert!(writes.iter().all(|write| write.at_s < 1800.0), "within half of the period: {writes:?}");
        assert!(writes.windows(2).all(|pair| pair[0].at_s <= pair[1].at_s));
        assert_eq!(writes.iter().map(|write| write.bytes).sum::<f64>(), 5.0 + 4.0 * 7.0 + 9.0);
    }
}
