//! Bytes staged for each user and each of their jobs since the last collection. Staging is rare, so a lock is cheap
//! enough.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Upper bound of jobs counted separately between two collections; further ones are counted for their user only. A
/// guess: far more than stage at a time.
const JOBS_MAX: usize = 10_000;
/// The longest name of a job.
const NAME_BYTES_MAX: usize = 64;

/// Owner of staged bytes: a user, and the user's name for the job.
pub type Whose = (u32, Option<String>);

/// Bytes that moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StagedBytes {
    /// Into the volume.
    pub r#in: u64,
    /// Out of it.
    pub out: u64,
}

/// Counters of staged bytes.
#[derive(Default)]
pub struct Staged(Mutex<BTreeMap<Whose, StagedBytes>>);

impl Staged {
    /// Bytes were staged for a user, by a command of that job.
    pub fn add(&self, uid: u32, job: Option<&str>, bytes: StagedBytes) {
        let mut all = self.0.lock();
        let known = |job: &&str| {
            job.len() <= NAME_BYTES_MAX && (all.len() < JOBS_MAX || all.contains_key(&(uid, Some((*job).to_owned()))))
        };
        let job = job.filter(known).map(str::to_owned);
        match all.entry((uid, job)) {
            Entry::Occupied(mut there) => {
                let there = there.get_mut();
                (there.r#in, there.out) = (there.r#in + bytes.r#in, there.out + bytes.out);
            }
            Entry::Vacant(vacant) => drop(vacant.insert(bytes)),
        }
    }

    /// Returns the counts since the last call.
    pub fn take(&self) -> BTreeMap<Whose, StagedBytes> {
        std::mem::take(&mut *self.0.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_added_until_they_are_taken_and_jobs_are_bounded() {
        let staged = Staged::default();
        staged.add(7, Some("job 1"), StagedBytes { r#in: 5, out: 0 });
        staged.add(7, Some("job 1"), StagedBytes { r#in: 1, out: 2 });
        staged.add(7, None, StagedBytes { r#in: 0, out: 3 });
        let taken = staged.take();
        assert_eq!(taken[&(7, Some("job 1".into()))], StagedBytes { r#in: 6, out: 2 });
        assert_eq!((taken[&(7, None)].out, staged.take().len()), (3, 0));
        (0..2 * JOBS_MAX).for_each(|n| staged.add(7, Some(&n.to_string()), StagedBytes { r#in: 1, out: 0 }));
        staged.add(7, Some(&"x".repeat(100)), StagedBytes { r#in: 1, out: 0 });
        let taken = staged.take();
        assert!(taken.len() <= JOBS_MAX + 1, "{}", taken.len());
        assert_eq!(taken.values().map(|bytes| bytes.r#in).sum::<u64>(), 2 * JOBS_MAX as u64 + 1, "no byte is lost");
    }
}
