//! The jobs as the dashboard shows them: active ones first, and at most one page at a time.

use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Jobs on a page.
const PAGE: usize = 100;
/// Maximum of users in the summary.
const USERS_MAX: usize = 20;
/// Maximum of characters of a text.
const LETTERS_MAX: usize = 300;

/// States in display order: jobs that move data first, then running ones, since users look for these.
const ORDER: [&str; 8] =
    ["staging-in", "staging-out", "verifying", "checking", "running", "staged-in", "set-up", "queued"];

/// A job that has not ended, or failed in the last day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Number of the job.
    pub id: u64,
    /// Name of the job; empty for a job of Slurm.
    pub name: String,
    /// Owner of the job.
    pub user: String,
    /// Host that has the job, on a volume of several nodes.
    pub host: Option<String>,
    /// Scheduler that gave the number, if it is an external one.
    pub scheduler: Option<String>,
    /// State, as printed by `entrepot job list`.
    pub state: String,
    /// Current action of the job, or the reason why it waits.
    pub detail: String,
    /// Cores of its script.
    pub cores: u32,
    /// Time of its submission, of its end, or of the entry into its state; in milliseconds since 1970.
    pub since_ms: u64,
    /// Progress of a transfer of its data that runs now.
    pub staging: Option<Staging>,
}

/// Progress of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staging {
    /// Bytes that have arrived.
    pub done_bytes: u64,
    /// Total number of bytes.
    pub total_bytes: u64,
    /// Seconds left at the present rate; `None` without a rate.
    pub left_s: Option<u64>,
}

/// A page of the jobs, with the totals of all.
#[derive(Debug, Serialize)]
pub struct Page<'a> {
    total: usize,
    /// Number of jobs that match the query.
    found: usize,
    /// Index of the first job of the page among these.
    from: usize,
    /// Maximum of jobs on a page.
    page: usize,
    /// Numbers of jobs by state.
    states: BTreeMap<&'a str, u64>,
    users_count: usize,
    /// Users with the most cores.
    users: Vec<User<'a>>,
    jobs: Vec<&'a Job>,
}

/// Jobs of a user.
#[derive(Debug, Default, Serialize)]
struct User<'a> {
    user: &'a str,
    jobs: u64,
    running: u64,
    cores: u64,
}

impl Job {
    fn rank(&self) -> (usize, bool, u64) {
        let place = ORDER.iter().position(|state| *state == self.state).unwrap_or(ORDER.len());
        (place, self.staging.is_none(), self.id)
    }

    fn has(&self, words: &[String]) -> bool {
        let number = self.id.to_string();
        let texts = [&number, &self.name, &self.user, &self.state, &self.detail].map(|text| text.to_lowercase());
        words.iter().all(|word| texts.iter().any(|text| text.contains(word)))
    }

    fn cut(&mut self) {
        for text in [&mut self.name, &mut self.user, &mut self.detail] {
            if let Some((at, _)) = text.char_indices().nth(LETTERS_MAX) {
                text.truncate(at);
                text.push('…');
            }
        }
    }
}

/// Sorts jobs into display order, and shortens long texts.
pub fn ordered(mut jobs: Vec<Job>) -> Vec<Job> {
    jobs.iter_mut().for_each(Job::cut);
    jobs.sort_by_cached_key(Job::rank);
    jobs
}

/// Returns a page of the jobs that contain all words of `find`, from index `from` on, with the totals.
pub fn page<'a>(jobs: &'a [Job], find: &str, from: usize) -> Page<'a> {
    let words: Vec<String> = find.split_whitespace().map(str::to_lowercase).collect();
    let mut states: BTreeMap<&str, u64> = BTreeMap::new();
    let mut users: BTreeMap<&str, User<'_>> = BTreeMap::new();
    for job in jobs {
        *states.entry(&job.state).or_default() += 1;
        if job.state == "failed" {
            continue; // It uses nothing any more.
        }
        let user = users.entry(&job.user).or_insert_with(|| User { user: &job.user, ..User::default() });
        user.jobs += 1;
        if job.state == "running" {
            user.running += 1;
            user.cores += u64::from(job.cores);
        }
    }
    let users_count = users.len();
    let mut users: Vec<_> = users.into_values().collect();
    users.sort_by_key(|user| (Reverse((user.cores, user.jobs)), user.user));
    users.truncate(USERS_MAX);
    let found: Vec<&Job> = jobs.iter().filter(|job| job.has(&words)).collect();
    let from = if from < found.len() { from } else { 0 };
    let shown = found[from..found.len().min(from + PAGE)].to_vec();
    Page { total: jobs.len(), found: found.len(), from, page: PAGE, states, users_count, users, jobs: shown }
}
