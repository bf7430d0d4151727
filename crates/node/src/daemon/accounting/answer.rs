//! `accounting.show`: sums of the rows of all nodes, for callers with permission.

use super::rows::{JobRow, KIND, Used, UsersRow, day_key, job_of, kind_of};
use super::{Accounts, today};
use crate::Result;
use crate::control::answers::{Accounting as Answer, JobAccount, JobNumber, UserAccount};
use crate::control::{Accounting, AccountingBy, Caller, Problem};
use crate::daemon::Core;
use std::collections::BTreeMap;

/// Number of days shown by default.
const SHOWN_DAYS: u64 = 30;
/// Maximum of jobs in one answer, the newest. A guess at the limit of a spreadsheet and a terminal.
const JOBS_SHOWN_MAX: usize = 100_000;

/// Sum of a job over all requested days.
#[derive(Default)]
struct JobSum {
    row: JobRow,
    /// Day of the latest facts.
    facts_of: String,
}

impl Accounts {
    /// Answers the request of a caller.
    pub(in crate::daemon) fn show(&self, core: &Core, caller: &Caller, asked: &Accounting) -> Result<Answer, Problem> {
        if self.keep_days == 0 {
            return Err(Problem::wrong("this volume keeps no accounts")
                .so("there is nothing to show")
                .try_this("set `keep` in `[accounting]` of volume.toml, and restart the daemon"));
        }
        if !caller.is_operator() && asked.uid.is_some_and(|uid| uid != caller.uid) {
            return Err(Problem::denied("you may see your own account only").try_this("leave `--user` out"));
        }
        let uid = if caller.is_operator() { asked.uid } else { Some(caller.uid) };
        // Reading rows keeps the state store busy for other users.
        let _held = core.look_for(caller)?;
        let today = today(core)?;
        let until = asked.until_day.unwrap_or(today).min(today);
        let since = asked.since_day.unwrap_or(until.saturating_sub(SHOWN_DAYS - 1));
        if since > until {
            return Err(Problem::wrong("the first day is after the last one, or has not come yet")
                .so("there is nothing to show")
                .try_this("give `--since` a day that is not after `--until` and not after today"));
        }
        let written = self.write(core);
        let note = |error| format!("the latest counts are missing in these numbers: {error}");
        let note = written.err().map(note);
        let mut answer = Answer { since_day: since, until_day: until, note, ..Answer::default() };
        let days = core.volume.state().records(KIND)?.into_iter().map(|(day, _)| day);
        let days = days.filter(|day| (day_key(since)..=day_key(until)).contains(day)).collect::<Vec<_>>();
        match asked.by {
            AccountingBy::User => answer.users = Some(users(core, &days, uid)?),
            AccountingBy::Job => {
                let (jobs, left_out) = jobs(core, &days, uid)?;
                (answer.jobs, answer.left_out) = (Some(jobs), Some(left_out));
            }
        }
        Ok(answer)
    }
}

fn users(core: &Core, days: &[String], of: Option<u32>) -> Result<Vec<UserAccount>> {
    let mut sums: BTreeMap<Option<u32>, Used> = BTreeMap::new();
    for day in days {
        for (key, value) in core.volume.state().records(&kind_of(day))? {
            let row: UsersRow = if key.starts_with("users ") { read(&key, &value) } else { UsersRow::default() };
            row.users.iter().for_each(|(uid, used)| sums.entry(Some(*uid)).or_default().add(used));
            sums.entry(None).or_default().add(&row.others);
        }
    }
    sums.retain(|uid, used| *used != Used::default() && (of.is_none() || *uid == of));
    Ok(sums.into_iter().map(|(uid, used)| UserAccount { uid, user: None, used }).collect())
}

/// Rows of jobs, and the number of those without a row.
fn jobs(core: &Core, days: &[String], of: Option<u32>) -> Result<(Vec<JobAccount>, u64)> {
    let (mut sums, mut left_out): (BTreeMap<String, JobSum>, u64) = (BTreeMap::new(), 0);
    for day in days {
        for (key, value) in core.volume.state().records(&kind_of(day))? {
            let Some(job) = job_of(&key) else {
                left_out += read::<UsersRow>(&key, &value).jobs_left_out;
                continue;
            };
            let row: JobRow = read(&key, &value);
            if of.is_some_and(|uid| uid != row.uid) {
                continue;
            }
            let sum = sums.entry(job.to_owned()).or_default();
            sum.row.uid = row.uid;
            sum.row.staged_in_bytes += row.staged_in_bytes;
            sum.row.staged_out_bytes += row.staged_out_bytes;
            if row.facts.is_some() && sum.facts_of <= *day {
                (sum.row.facts, sum.facts_of) = (row.facts, day.clone());
            }
        }
    }
    let mut rows: Vec<_> = sums.into_iter().map(|(job, sum)| shown(&job, sum.row)).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.facts.submitted_ms.unwrap_or(0)));
    left_out = if of.is_none() { left_out } else { 0 } + rows.len().saturating_sub(JOBS_SHOWN_MAX) as u64;
    rows.truncate(JOBS_SHOWN_MAX);
    rows.reverse();
    Ok((rows, left_out))
}

fn shown(job: &str, row: JobRow) -> JobAccount {
    let (of, id) = job.split_once(' ').unwrap_or(("", job));
    JobAccount {
        job: id.parse().map_or_else(|_| JobNumber::Name(id.into()), JobNumber::Number),
        of: if of == "slurm" { "slurm" } else { "entrepot" }.into(),
        uid: row.uid,
        facts: row.facts.unwrap_or_default(),
        staged_in_bytes: row.staged_in_bytes,
        staged_out_bytes: row.staged_out_bytes,
    }
}

/// Parses a row; an unreadable row counts as empty, and is logged.
fn read<T: serde::de::DeserializeOwned + Default>(key: &str, value: &[u8]) -> T {
    let read = serde_json::from_slice(value);
    read.inspect_err(|error| tracing::error!("the row {key} of the accounts cannot be read: {error}"))
        .unwrap_or_default()
}
