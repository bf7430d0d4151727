//! Progress of cases, and an estimate of the time left: from the processor time of each run's finished cases, and from
//! the expected time of live cases.

use crate::shown;
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Bar and estimate.
pub(super) struct Progress {
    pub(super) bar: ProgressBar,
    start: Instant,
    /// Cases left, cases done and their processor time, for each run.
    runs: BTreeMap<String, (usize, usize, f64)>,
    /// Expected times of the live cases left, by run.
    live: BTreeMap<String, Duration>,
    is_reported: bool,
}

impl Progress {
    /// Progress of cases, each of a run; of a live one with its expected time.
    pub(super) fn new<'a>(cases: impl ExactSizeIterator<Item = (&'a str, Option<Duration>)>) -> Progress {
        let bar = ProgressBar::new(cases.len() as u64);
        let (mut runs, mut live) = (BTreeMap::<String, (usize, usize, f64)>::new(), BTreeMap::new());
        for (run, expected) in cases {
            match expected {
                Some(expected) => *live.entry(run.to_owned()).or_default() += expected,
                None => runs.entry(run.to_owned()).or_default().0 += 1,
            }
        }
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} cases  {wide_msg}") {
            bar.set_style(style);
        }
        Progress { bar, start: Instant::now(), runs, live, is_reported: false }
    }

    /// Counts a finished case of a run.
    pub(super) fn advance(&mut self, run: &str, cpu_s: f64, threads: usize) {
        if let Some((left, done, sum)) = self.runs.get_mut(run) {
            (*left, *done, *sum) = (*left - 1, *done + 1, *sum + cpu_s);
        }
        self.live.remove(run);
        self.bar.inc(1);
        let live_s: f64 = self.live.values().map(Duration::as_secs_f64).sum();
        let busy: f64 = self.runs.values().map(|(.., sum)| sum).sum();
        // The machine may be busy with other work: processor time is longer on the clock.
        let slowdown = (self.start.elapsed().as_secs_f64() * threads as f64 / busy.max(1e-9)).max(1.0);
        match self.left_s() {
            None => self.bar.set_message("time left is known when each run has a case"),
            Some(left) => {
                let left = (left * slowdown / threads as f64 + live_s) as u64;
                self.bar.set_message(format!("{} left, after {run}", shown::span_s(left)));
                if left > 60 && !std::mem::replace(&mut self.is_reported, true) {
                    self.bar.suspend(|| eprintln!("about {} are left", shown::span_s(left)));
                }
            }
        }
    }

    /// Processor time of the cases left; `None` until each run has finished a case.
    fn left_s(&self) -> Option<f64> {
        let of = |(left, done, sum): &(usize, usize, f64)| match (left, done) {
            (0, _) => Some(0.0),
            (_, 0) => None,
            _ => Some(*left as f64 * sum / *done as f64),
        };
        self.runs.values().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_known_once_each_run_has_a_case() {
        let mut progress = Progress::new(["a", "a", "a", "b", "b"].map(|run| (run, None)).into_iter());
        progress.advance("a", 2.0, 1);
        assert_eq!(progress.left_s(), None);
        progress.advance("b", 5.0, 1);
        assert_eq!(progress.left_s(), Some(2.0 * 2.0 + 5.0));
    }
}
