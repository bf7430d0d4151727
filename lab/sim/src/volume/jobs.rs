//! Jobs: each reads its input, then writes checkpoints, and keeps the newest two.

use super::JobTimes;
use super::checkpoints::PIECE_BYTES;
use super::files::File;
use super::world::{Happening, World};
use crate::event::Rank;
use policy::protect::replica::{self, Rank as Standing};
use policy::volume::{Event, Purpose};
use policy::{FileId, Time};
use std::collections::VecDeque;

/// Complete checkpoints that a job keeps.
const KEPT: usize = 2;

/// State of a job.
#[derive(Debug)]
pub(super) struct Running {
    job: super::Job,
    /// Time at which the input was read.
    has_input: Time,
    /// Time that the job waited for its checkpoints.
    checkpoints: Time,
    input: FileId,
    read: u64,
    written: u32,
    kept: VecDeque<FileId>,
}

impl World<'_> {
    /// Submits a job: its input is staged in.
    pub(super) fn submit(&mut self, n: usize, job: super::Job) {
        let cuts = self.cuts_of(job.input_bytes, 1, false);
        let Some(input) = self.create(job.input_bytes, &cuts, true, false) else { return };
        let (has_input, checkpoints, kept) = (job.starts, Time::ZERO, VecDeque::new());
        let running = Running { job, has_input, checkpoints, input, read: 0, written: 0, kept };
        self.jobs.insert(n, running);
        let rank = Standing(job.submitted.0);
        self.tell_job(replica::Event::Submitted { job: number(n), rank, nodes: job.nodes, files: vec![input] });
        self.events.push(job.starts, Rank::Arrival, Happening::Start(n));
    }

    pub(super) fn start(&mut self, n: usize) {
        let Some(running) = self.jobs.get(&n) else { return };
        let (nodes, input) = (running.job.nodes, running.input);
        self.tell_job(replica::Event::Dispatched { job: number(n), nodes });
        self.used_by(input, 1);
        self.go_on(n);
    }

    /// Performs the next step of a job.
    pub(super) fn go_on(&mut self, n: usize) {
        let Some(running) = self.jobs.get_mut(&n) else { return };
        let (input, at, size) = (running.input, running.read, running.job.input_bytes);
        if at < size {
            let len = PIECE_BYTES.min(size - at);
            running.read += len;
            // An input whose last copy is lost is not read.
            let done = self.access(input, at, len, false).map_or(self.now, |(done, _)| done);
            if let Some(running) = self.jobs.get_mut(&n) {
                running.has_input = done;
            }
            if at + len >= size {
                self.used_by(input, -1);
                self.tell_job(replica::Event::Closed { job: number(n), file: input });
            }
            return self.events.push(done, Rank::Completion, Happening::GoOn(n));
        }
        if running.written < self.setup.load.checkpoints {
            running.written += 1;
            return self.begin_checkpoint(n as u64, self.setup.load.checkpoint_bytes);
        }
        self.end(n);
    }

    fn end(&mut self, n: usize) {
        let Some(running) = self.jobs.remove(&n) else { return };
        self.tell_job(replica::Event::Ended(number(n)));
        self.remove(running.input);
        self.figures.job_times.push(JobTimes {
            submitted_s: running.job.submitted.as_secs_f64(),
            started_s: running.job.starts.as_secs_f64(),
            ended_s: self.now.as_secs_f64(),
            input_bytes: running.job.input_bytes,
            input_s: running.has_input.since(running.job.starts).as_secs_f64(),
            checkpoints_s: running.checkpoints.as_secs_f64(),
        });
        running.kept.into_iter().rev().skip(1).for_each(|file| self.remove(file));
        self.figures.jobs += 1;
    }

    /// Completes a job's checkpoint, which took that time; the oldest of the kept ones is removed.
    pub(super) fn has_written(&mut self, app: u64, file: FileId, took: Time) {
        let Some(running) = self.jobs.get_mut(&(app as usize)) else { return };
        running.checkpoints = running.checkpoints + took;
        running.kept.push_back(file);
        let old = (running.kept.len() > KEPT).then(|| running.kept.pop_front()).flatten();
        old.into_iter().for_each(|file| self.remove(file));
        self.rests(app);
    }

    /// Lets a job compute until its next checkpoint.
    pub(super) fn rests(&mut self, app: u64) {
        if self.jobs.contains_key(&(app as usize)) {
            let at = self.now + self.setup.load.interval;
            self.events.push(at, Rank::Arrival, Happening::GoOn(app as usize));
        }
    }

    fn tell_job(&mut self, event: replica::Event) {
        self.tell(Event::Job(event));
    }
}

fn number(n: usize) -> replica::JobId {
    replica::JobId(n as u64)
}

/// Creates a file with a single mirror.
pub(super) fn single(bytes: u64, mirror: policy::layout::Mirror, source: bool, tiered: bool) -> File {
    File { bytes, was_hit: false, users: 0, mirrors: vec![(Purpose::Data, mirror)], source, tiered }
}
