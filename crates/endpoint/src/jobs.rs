//! The jobs as the dashboard shows them: those that do something first, and never more than a page of them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Jobs on a page.
const PAGE: usize = 100;
/// Users that are shown.
const USERS_MAX: usize = 20;
/// Letters of a text, at most.
const LETTERS_MAX: usize = 300;

/// States in the order that they are shown in: what moves data and what runs is what one looks for.
const ORDER: [&str; 8] =
    ["staging-in", "staging-out", "verifying", "checking", "running", "staged-in", "set-up", "queued"];

/// A job that is not over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its number.
    pub id: u64,
    /// Its name; a job of Slurm has none here.
    pub name: String,
    /// Its owner.
    pub user: String,
    /// The host that has it, on a volume of several nodes.
    pub host: Option<String>,
    /// Whose number it is, where another scheduler has it.
    pub scheduler: Option<String>,
    /// Where it stands, in the word of `entrepot job list`.
    pub state: String,
    /// What it waits for or does.
    pub detail: String,
    /// Cores of its script.
    pub cores: u32,
    /// When it was submitted, or entered its state; in milliseconds since 1970.
    pub since_ms: u64,
    /// How far its data are that come or go now.
    pub staging: Option<Staging>,
}

/// How far data are on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staging {
    /// Bytes that are there.
    pub done_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
    /// Seconds left at the present rate; nothing while there is none.
    pub left_s: Option<u64>,
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

/// In the order that they are shown in, with no text longer than it may be.
pub fn ordered(mut jobs: Vec<Job>) -> Vec<Job> {
    jobs.iter_mut().for_each(Job::cut);
    jobs.sort_by_cached_key(Job::rank);
    jobs
}

/// A page from that job on of those that have all words of `find`, with how many there are.
pub fn page(jobs: &[Job], find: &str, from: usize) -> Value {
    let words: Vec<String> = find.split_whitespace().map(str::to_lowercase).collect();
    let mut states: BTreeMap<&str, u64> = BTreeMap::new();
    let mut users: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new();
    for job in jobs {
        *states.entry(&job.state).or_default() += 1;
        let (all, running, cores) = users.entry(&job.user).or_default();
        *all += 1;
        if job.state == "running" {
            *running += 1;
            *cores += u64::from(job.cores);
        }
    }
    let mut users: Vec<_> = users.into_iter().collect();
    let count = users.len();
    users.sort_by_key(|(name, (all, _, cores))| (Reverse((*cores, *all)), *name));
    users.truncate(USERS_MAX);
    let user = |(name, (all, running, cores)): &(&str, (u64, u64, u64))| json!({"user": name, "jobs": all, "running": running, "cores": cores});
    let found: Vec<&Job> = jobs.iter().filter(|job| job.has(&words)).collect();
    let from = if from < found.len() { from } else { 0 };
    json!({
        "total": jobs.len(),
        "found": found.len(),
        "from": from,
        "page": PAGE,
        "states": states,
        "users_count": count,
        "users": users.iter().map(user).collect::<Vec<_>>(),
        "jobs": &found[from..found.len().min(from + PAGE)],
    })
}
