//! One day's rows of one node: adds new counts to the recorded ones, and writes changed rows.

use super::rows::{JobFacts, JobRow, KIND, Used, UsersRow, day_key, job_key, kind_of, users_key};
use crate::Result;
use engine::stats::{StagedBytes, UserCounts};
use meta::records;
use meta::state::State;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum of jobs of one node with a row on one day. A guess: a site's busiest day, at a few hundred bytes each.
const JOBS_A_DAY_MAX: usize = 20_000;

/// Maximum of rows removed at a time: each removal is a synced write. A guess.
const DROPPED_MAX: usize = 200;

/// The rows of a day.
#[derive(Default)]
pub(super) struct Ledger {
    pub day: u64,
    node: String,
    users: UsersRow,
    users_changed: bool,
    jobs: BTreeMap<String, JobRow>,
    changed: BTreeSet<String>,
    /// Whether the state store lists the day as one with rows.
    is_known: bool,
}

impl Ledger {
    /// Begins with the rows of an earlier daemon of this node on that day.
    pub fn of(day: u64, node: &str, state: &dyn State) -> Result<Ledger> {
        let users = records::get(state, &kind_of(&day_key(day)), &users_key(node))?.unwrap_or_default();
        Ok(Ledger { day, node: node.to_owned(), users, ..Ledger::default() })
    }

    /// Adds usage of a user; `None`: the users without counters of their own.
    pub fn used(&mut self, uid: Option<u32>, more: &Used) {
        if *more == Used::default() {
            return;
        }
        let row = match uid {
            Some(uid) => self.users.users.entry(uid).or_default(),
            None => &mut self.users.others,
        };
        row.add(more);
        self.users_changed = true;
    }

    /// Adds staged bytes of a user's job.
    pub fn staged(&mut self, state: &dyn State, job: &str, uid: u32, bytes: StagedBytes) -> Result<()> {
        let Some(row) = self.job(state, job, uid)? else { return Ok(()) };
        (row.staged_in_bytes, row.staged_out_bytes) =
            (row.staged_in_bytes + bytes.r#in, row.staged_out_bytes + bytes.out);
        Ok(())
    }

    /// Records the new state of a job; a job that ends counts for its owner.
    pub fn job_is(&mut self, state: &dyn State, job: &str, uid: u32, facts: JobFacts) -> Result<()> {
        let ended = |facts: &JobFacts| facts.ended_ms.is_some();
        let Some(row) = self.job(state, job, uid)? else { return Ok(()) };
        let ends = ended(&facts) && !row.facts.as_ref().is_some_and(ended);
        row.facts = Some(facts);
        self.used(Some(uid), &Used { jobs: u64::from(ends), ..Used::default() });
        Ok(())
    }

    /// The row of a job, to be changed; `None` where the day has too many.
    fn job(&mut self, state: &dyn State, job: &str, uid: u32) -> Result<Option<&mut JobRow>> {
        if !self.jobs.contains_key(job) {
            if self.jobs.len() >= JOBS_A_DAY_MAX {
                self.users.jobs_left_out += 1;
                self.users_changed = true;
                return Ok(None);
            }
            let row = records::get(state, &kind_of(&day_key(self.day)), &job_key(&self.node, job))?
                .unwrap_or(JobRow { uid, ..JobRow::default() });
            self.jobs.insert(job.to_owned(), row);
        }
        self.changed.insert(job.to_owned());
        Ok(self.jobs.get_mut(job))
    }

    /// Writes changed rows. A failed write is retried the next time.
    pub fn write(&mut self, state: &dyn State) -> Result<()> {
        if !self.users_changed && self.changed.is_empty() {
            return Ok(());
        }
        let day = day_key(self.day);
        if !self.is_known {
            state.record_put(KIND, &day, b"")?;
            self.is_known = true;
        }
        let kind = kind_of(&day);
        if self.users_changed {
            records::put(state, &kind, &users_key(&self.node), &self.users)?;
            self.users_changed = false;
        }
        while let Some(job) = self.changed.first().cloned() {
            if let Some(row) = self.jobs.get(&job) {
                records::put(state, &kind, &job_key(&self.node, &job), row)?;
            }
            self.changed.remove(&job);
        }
        Ok(())
    }
}

/// Removes rows of days before `oldest`, a limited number at a time. Returns whether none are left.
pub(super) fn drop_before(state: &dyn State, oldest: u64) -> Result<bool> {
    let oldest = day_key(oldest);
    let Some((day, _)) = state.records(KIND)?.into_iter().find(|(day, _)| *day < oldest) else { return Ok(true) };
    let rows = state.records(&kind_of(&day))?;
    for (key, _) in rows.iter().take(DROPPED_MAX) {
        state.record_remove(&kind_of(&day), key)?;
    }
    if rows.len() <= DROPPED_MAX {
        state.record_remove(KIND, &day)?;
    }
    Ok(false)
}

/// Usage of each user since `seen`. Both counts are from one life of a daemon, so they only grow.
pub(super) fn since(seen: &UserCounts, now: &UserCounts) -> Used {
    Used {
        operations: now.ops.saturating_sub(seen.ops),
        read_bytes: now.read_bytes.saturating_sub(seen.read_bytes),
        written_bytes: now.written_bytes.saturating_sub(seen.written_bytes),
        ..Used::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meta::state::SqliteState;

    fn facts(ended_ms: Option<u64>) -> JobFacts {
        JobFacts { name: "a".into(), ended_ms, ..JobFacts::default() }
    }

    #[test]
    fn a_daemon_that_starts_again_adds_to_what_the_last_one_wrote() {
        let state = SqliteState::in_memory().expect("a store");
        let more = Used { written_bytes: 5, operations: 1, ..Used::default() };
        for life in 1..=2 {
            let mut ledger = Ledger::of(9, "n1", &state).expect("a ledger");
            ledger.used(Some(7), &more);
            ledger.used(None, &more);
            ledger.staged(&state, "job 1", 7, StagedBytes { r#in: 3, out: 1 }).expect("staged");
            ledger.job_is(&state, "job 1", 7, facts(Some(life))).expect("ended");
            ledger.write(&state).expect("written");
            ledger.write(&state).expect("nothing to write");
        }
        let kind = kind_of(&day_key(9));
        let users: UsersRow = records::get(&state, &kind_of(&day_key(9)), "users n1").expect("read").expect("a row");
        assert_eq!((users.users[&7].written_bytes, users.others.operations, users.users[&7].jobs), (10, 2, 1));
        let job: JobRow = records::get(&state, &kind_of(&day_key(9)), "job n1 job 1").expect("read").expect("a row");
        assert_eq!((job.staged_in_bytes, job.staged_out_bytes, job.uid), (6, 2, 7));
        let keys: Vec<String> = state.records(&kind).expect("rows").into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["job n1 job 1", "users n1"]);
        assert_eq!(state.records(KIND).expect("days").len(), 1);
    }

    #[test]
    fn days_that_are_too_long_ago_go_a_few_rows_at_a_time() {
        let state = SqliteState::in_memory().expect("a store");
        for day in [7, 8, 9] {
            let mut ledger = Ledger::of(day, "n1", &state).expect("a ledger");
            for job in 0..DROPPED_MAX {
                ledger.job_is(&state, &format!("job {job}"), 7, facts(Some(1))).expect("ended");
            }
            ledger.write(&state).expect("written");
        }
        let rows = |day| state.records(&kind_of(&day_key(day))).expect("rows").len();
        assert!(!drop_before(&state, 8).expect("dropped"), "not all at once");
        assert_eq!((rows(7), rows(8), rows(9)), (1, DROPPED_MAX + 1, DROPPED_MAX + 1), "some at a time");
        while !drop_before(&state, 8).expect("dropped") {}
        let days: Vec<String> = state.records(KIND).expect("days").into_iter().map(|(day, _)| day).collect();
        assert_eq!((rows(7), rows(8), days), (0, DROPPED_MAX + 1, vec![day_key(8), day_key(9)]), "and no later day");
    }

    #[test]
    fn a_day_with_too_many_jobs_counts_those_without_a_row() {
        let state = SqliteState::in_memory().expect("a store");
        let mut ledger = Ledger::of(9, "n1", &state).expect("a ledger");
        for job in 0..=JOBS_A_DAY_MAX {
            ledger.jobs.insert(format!("job {job}"), JobRow::default());
        }
        ledger.job_is(&state, "job 0", 7, facts(None)).expect("one that has a row");
        ledger.job_is(&state, "more", 7, facts(None)).expect("left out");
        assert_eq!((ledger.users.jobs_left_out, ledger.changed.len()), (1, 1));
    }
}
