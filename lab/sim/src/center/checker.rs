//! Checks that no job at the head of the queue starts later than promised.
//!
//! The promise is the shadow time computed when the job became the blocked head. It can only be kept if running jobs
//! end by their estimates. So a late start is *excused* if a job exceeded its estimate between promise and start, and
//! otherwise a *violation* by the scheduler. The checker uses the scheduler's promises and the events, not its
//! computation.

use policy::schedule::easy::JobId;
use policy::time::Time;
use serde::Serialize;

/// Results of the promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Promises {
    /// Jobs that started when promised or earlier.
    pub kept: u64,
    /// Jobs that started late because others exceeded their estimates.
    pub excused: u64,
    /// Jobs that started late without such an excuse.
    pub broken: u64,
}

/// An open promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    job: JobId,
    start_by: Time,
    given: Time,
}

/// State of the checker.
#[derive(Clone, Debug, Default)]
pub struct Checker {
    open: Option<Open>,
    /// End of the last job that exceeded its estimate.
    overran: Option<Time>,
    promises: Promises,
}

impl Checker {
    /// Records the scheduler's promise, after all events of this instant.
    pub fn promised(&mut self, now: Time, promise: Option<(JobId, Time)>) {
        let Some((job, start_by)) = promise else { return };
        if self.open.is_none_or(|open| open.job != job) {
            self.open = Some(Open { job, start_by, given: now });
        }
    }

    /// Records the end of a job whose estimate was `estimate`.
    pub fn ended(&mut self, now: Time, estimate: Time) {
        if now > estimate {
            self.overran = Some(now);
        }
    }

    /// Records the start of a job. `overdue` returns whether a running job has exceeded its estimate; it is only
    /// called if the start is late.
    pub fn started(&mut self, now: Time, job: JobId, overdue: impl FnOnce() -> bool) {
        let Some(open) = self.open.take_if(|open| open.job == job) else { return };
        if now <= open.start_by {
            self.promises.kept += 1;
        } else if self.overran.is_some_and(|at| at >= open.given) || overdue() {
            self.promises.excused += 1;
        } else {
            self.promises.broken += 1;
        }
    }

    /// Returns the results of the promises so far.
    pub fn promises(&self) -> Promises {
        self.promises
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: JobId = JobId(1);

    fn promised(at: u64) -> Checker {
        let mut checker = Checker::default();
        checker.promised(Time(5), Some((A, Time(at))));
        checker.promised(Time(6), Some((A, Time(at + 50))));
        checker
    }

    #[test]
    fn the_first_promise_counts() {
        let mut checker = promised(10);
        checker.started(Time(9), JobId(2), || false);
        checker.started(Time(10), A, || false);
        assert_eq!(checker.promises(), Promises { kept: 1, ..Promises::default() });
    }

    /// Canary: the checker detects a late start.
    #[test]
    fn a_late_start_is_a_violation_unless_somebody_overran() {
        let mut checker = promised(10);
        checker.started(Time(11), A, || false);
        assert_eq!(checker.promises(), Promises { broken: 1, ..Promises::default() });
        let mut checker = promised(10);
        checker.ended(Time(11), Time(8));
        checker.started(Time(11), A, || false);
        assert_eq!(checker.promises().excused, 1);
        let mut checker = Checker::default();
        checker.ended(Time(4), Time(3));
        checker.promised(Time(5), Some((A, Time(10))));
        checker.started(Time(11), A, || false);
        assert_eq!(checker.promises().broken, 1, "who overran before the promise is no excuse");
        let mut checker = promised(10);
        checker.started(Time(11), A, || true);
        assert_eq!(checker.promises().excused, 1);
    }
}
