//! Space per user, with the age of the result: a full scan is slow, so it runs rarely, in the background.
//!
//! A scan begins at a request for the page, never two at a time. The next one waits at least [`EVERY`] after the
//! last, and fifty times its duration. So scans take at most a fiftieth of the time, however many names there are.

use node::control::Problem;
use node::daemon::Users;
use parking_lot::Mutex;
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Minimum interval between two scans.
pub const EVERY: Duration = Duration::from_secs(600);
/// Rest after a scan, as a multiple of its duration.
const REST: u32 = 50;

/// Result of the last scan, and the scan under way.
pub struct Space {
    every: Duration,
    found: Arc<Mutex<Option<ScanResult>>>,
    under_way: Mutex<Option<JoinHandle<()>>>,
}

/// The last result, with its age; only `looking` before the first scan has ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Shown {
    looking: bool,
    #[serde(flatten)]
    found: Option<Found>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Found {
    age_s: u64,
    took_s: u64,
    #[serde(flatten)]
    space: Users,
}

struct ScanResult {
    ended: Instant,
    took: Duration,
    what: Result<Users, Problem>,
}

impl Space {
    /// Creates a scanner with a minimum interval of `every`.
    pub fn new(every: Duration) -> Space {
        Space { every, found: Arc::default(), under_way: Mutex::default() }
    }

    /// Returns the last result. Does not block.
    pub fn at(&self, look: impl FnOnce() -> Result<Users, Problem> + Send + 'static) -> Result<Shown, Problem> {
        let mut under_way = self.under_way.lock();
        let found = self.found.lock();
        let is_due = found.as_ref().is_none_or(|found| found.ended.elapsed() >= self.every.max(found.took * REST));
        let looks = under_way.as_ref().is_some_and(|look| !look.is_finished());
        if is_due && !looks {
            let found = self.found.clone();
            *under_way = Some(tokio::task::spawn_blocking(move || {
                let began = Instant::now();
                let what = look();
                let ended = Instant::now();
                *found.lock() = Some(ScanResult { ended, took: ended - began, what });
            }));
        }
        let shown = found.as_ref().map(|found| {
            let (age_s, took_s) = (found.ended.elapsed().as_secs(), found.took.as_secs());
            found.what.clone().map(|space| Found { age_s, took_s, space })
        });
        Ok(Shown { looking: is_due || looks, found: shown.transpose()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime")
    }

    fn until_found(
        space: &Space,
        look: impl Fn() -> Result<Users, Problem> + Clone + Send + 'static,
    ) -> Result<Shown, Problem> {
        for _ in 0..10_000 {
            match space.at(look.clone()) {
                Ok(Shown { found: None, .. }) => std::thread::sleep(Duration::from_millis(1)),
                shown => return shown,
            }
        }
        panic!("no look ever ended");
    }

    #[test]
    fn many_who_ask_cause_one_look_which_nobody_waits_for() {
        let runtime = runtime();
        let _inside = runtime.enter();
        let looks = Arc::new(AtomicU64::new(0));
        let (go, may) = std::sync::mpsc::channel::<()>();
        let may = Arc::new(Mutex::new(may));
        let counted = looks.clone();
        let look = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            may.lock().recv().expect("told to go on");
            Ok(Users::default())
        };
        let space = Space::new(EVERY);
        for _ in 0..100 {
            assert_eq!(space.at(look.clone()).expect("nothing is wrong"), Shown { looking: true, found: None });
        }
        go.send(()).expect("it waits");
        let shown = until_found(&space, look.clone()).expect("found");
        assert!(!shown.looking && shown.found.is_some_and(|found| found.age_s == 0));
        space.at(look).expect("found");
        assert_eq!(looks.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn it_is_looked_at_again_in_time_and_what_failed_is_said() {
        let runtime = runtime();
        let _inside = runtime.enter();
        let space = Space::new(Duration::ZERO);
        let failed = Problem::failed("a name cannot be read");
        let fails = failed.clone();
        assert_eq!(until_found(&space, move || Err(fails.clone())), Err(failed));
        let look = || Ok(Users { unread: 1, ..Users::default() });
        for _ in 0..10_000 {
            if space.at(look).is_ok_and(|shown| shown.found.is_some_and(|found| found.space.unread == 1)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("never looked at again");
    }
}
