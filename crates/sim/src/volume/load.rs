//! The load of a day: jobs with input, checkpoints and results, and readers of files that are hot for a while.

use crate::generate::Rng;
use policy::Time;

/// What is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// How long jobs and readers come.
    pub span: Time,
    /// Jobs in that time.
    pub jobs: u32,
    /// Bytes of a job's input file, on average.
    pub input_bytes: u64,
    /// Bytes of one checkpoint.
    pub checkpoint_bytes: u64,
    /// Checkpoints of a job.
    pub checkpoints: u32,
    /// From one to the next.
    pub interval: Time,
    /// Files that are read in parts.
    pub files: u32,
    /// Bytes of each.
    pub file_bytes: u64,
    /// Reads and writes of them.
    pub requests: u32,
    /// Bytes of one.
    pub request_bytes: u64,
    /// Share of them that writes.
    pub writes: f64,
    /// The seed.
    pub seed: u64,
}

/// A job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    /// When it is submitted.
    pub submitted: Time,
    /// When it starts.
    pub starts: Time,
    /// Nodes it asks for.
    pub nodes: u32,
    /// Bytes of its input.
    pub input_bytes: u64,
}

/// One read or write of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// When.
    pub at: Time,
    /// Which file, from 0.
    pub file: u32,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// Whether it writes.
    pub write: bool,
}

/// What became of a request.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// When it came.
    pub at: Time,
    /// Until it was served.
    pub took: Time,
    /// Objects that took part.
    pub spans: usize,
    /// Mirrors that the file had.
    pub mirrors: usize,
    /// Changes that had been begun by then.
    pub changes: u64,
    /// What targets had been given to do by then, summed, itself included.
    pub busy: Time,
}

/// Files that are hot at a time, of all.
const HOT_SHARE: u32 = 8;
/// Share of the requests that go to those.
const HOT_REQUESTS: f64 = 0.9;
/// How often other files become hot.
const TURNS: u64 = 6;

impl Load {
    /// The jobs, in the order of their submission.
    pub fn jobs(&self) -> Vec<Job> {
        let mut rng = Rng::new(self.seed, 1);
        let mut jobs: Vec<Job> = (0..self.jobs)
            .map(|_| {
                let submitted = Time(rng.below(self.span.0.max(1)));
                let starts = submitted + Time::from_secs(60 + rng.below(1800));
                let input_bytes = self.input_bytes / 2 + rng.below(self.input_bytes.max(1));
                Job { submitted, starts, nodes: 1 << rng.below(6), input_bytes }
            })
            .collect();
        jobs.sort_by_key(|job| job.submitted);
        jobs
    }

    /// The requests, in the order of time.
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
