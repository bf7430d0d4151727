//! Ended jobs whose resources in the volume are still being removed. A retry waits for the removal, which would
//! otherwise remove the recreated ones.

use crate::request::JobId;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Default)]
pub(crate) struct Clearing {
    under_way: Mutex<BTreeSet<JobId>>,
    over: Condvar,
}

impl Clearing {
    /// Marks the job as being cleared until the result is dropped.
    pub fn begin(self: &Arc<Self>, id: JobId) -> Begun {
        self.under_way.lock().insert(id);
        Begun { of: self.clone(), id }
    }

    /// Waits until the removal for the job has ended; false after `longest`.
    pub fn wait(&self, id: JobId, longest: Duration) -> bool {
        let until = Instant::now() + longest;
        let mut under_way = self.under_way.lock();
        self.over.wait_while_until(&mut under_way, |ids| ids.contains(&id), until);
        !under_way.contains(&id)
    }
}

pub(crate) struct Begun {
    of: Arc<Clearing>,
    pub id: JobId,
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.of.under_way.lock().remove(&self.id);
        self.of.over.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_takes_a_job_up_again_waits_for_its_end_and_no_longer_than_they_said() {
        let clearing = Arc::new(Clearing::default());
        let begun = clearing.begin(JobId(1));
        assert!(!clearing.wait(JobId(1), Duration::from_millis(1)));
        assert!(clearing.wait(JobId(2), Duration::from_millis(1)), "another job's end is its own");
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(clearing.wait(JobId(1), Duration::from_secs(60))));
            drop(begun);
        });
    }
}
