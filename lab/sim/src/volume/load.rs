//! The load of a day: jobs with input, checkpoints and results, and readers of temporarily hot files.

use crate::generate::Rng;
use policy::Time;

/// Parameters of the random load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Time during which jobs and readers arrive.
    pub span: Time,
    /// Number of jobs in that time.
    pub jobs: u32,
    /// Longest time of a job in the queue after a first minute, in whole seconds.
    pub queued: Time,
    /// Mean size of a job's input file.
    pub input_bytes: u64,
    /// Size of a checkpoint.
    pub checkpoint_bytes: u64,
    /// Checkpoints of a job.
    pub checkpoints: u32,
    /// Interval between checkpoints.
    pub interval: Time,
    /// Number of files that are read in parts.
    pub files: u32,
    /// Size of each of these files.
    pub file_bytes: u64,
    /// Number of reads and writes of these files.
    pub requests: u32,
    /// Size of such a request.
    pub request_bytes: u64,
    /// Share of writes among these requests.
    pub writes: f64,
    /// Seed of the load.
    pub seed: u64,
}

/// A job of the load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    /// Time of submission.
    pub submitted: Time,
    /// Time of its start.
    pub starts: Time,
    /// Number of requested nodes.
    pub nodes: u32,
    /// Size of its input.
    pub input_bytes: u64,
}

/// One read or write of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Time of the request.
    pub at: Time,
    /// Number of the file, from 0.
    pub file: u32,
    /// First byte of the range.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Whether it is a write.
    pub write: bool,
}

/// Result of a request.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Time of arrival.
    pub at: Time,
    /// Time until it was served.
    pub took: Time,
    /// Number of objects that took part.
    pub spans: usize,
    /// Number of the file's mirrors.
    pub mirrors: usize,
    /// Changes that had begun by then.
    pub changes: u64,
    /// Work given to all targets by then, including this request.
    pub busy: Time,
}

/// One of this many files is hot at a time.
const HOT_SHARE: u32 = 8;
/// Share of the requests that go to hot files.
const HOT_REQUESTS: f64 = 0.9;
/// Number of periods with different hot files.
const TURNS: u64 = 6;

impl Load {
    /// Returns the jobs, in order of submission.
    pub fn jobs(&self) -> Vec<Job> {
        let mut rng = Rng::new(self.seed, 1);
        let mut jobs: Vec<Job> = (0..self.jobs)
            .map(|_| {
                let submitted = Time(rng.below(self.span.0.max(1)));
                let starts = submitted + Time::from_secs(60 + rng.below((self.queued.0 / 1_000_000_000).max(1)));
                let input_bytes = self.input_bytes / 2 + rng.below(self.input_bytes.max(1));
                Job { submitted, starts, nodes: 1 << rng.below(6), input_bytes }
            })
            .collect();
        jobs.sort_by_key(|job| job.submitted);
        jobs
    }

    /// Returns the requests, in order of time.
    pub fn requests(&self) -> Vec<Request> {
        let mut rng = Rng::new(self.seed, 2);
        let mut requests: Vec<Request> = Vec::with_capacity(self.requests as usize);
        for _ in 0..self.requests {
            let at = Time(rng.below(self.span.0.max(1)));
            let turn = at.0 * TURNS / self.span.0.max(1);
            let hot = (self.files / HOT_SHARE).max(1);
            let file = if rng.chance(HOT_REQUESTS) {
                (turn as u32 * hot + rng.below(u64::from(hot)) as u32) % self.files.max(1)
            } else {
                rng.below(u64::from(self.files.max(1))) as u32
            };
            let bytes = self.request_bytes.min(self.file_bytes);
            let offset = rng.below((self.file_bytes - bytes) / bytes.max(1) + 1) * bytes;
            requests.push(Request { at, file, offset, bytes, write: rng.chance(self.writes) });
        }
        requests.sort_by_key(|request| request.at);
        requests
    }
}
