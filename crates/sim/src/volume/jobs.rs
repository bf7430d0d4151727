//! Jobs: each reads its input, then writes checkpoints, and keeps the newest two.

use super::files::File;
use super::world::{Happening, World};
use crate::event::Rank;
use policy::burst::{admission, buffer};
use policy::protect::replica::{self, Rank as Standing};
use policy::volume::{Event, FileEvent, Purpose};
use policy::{FileId, Time};
use std::collections::VecDeque;

/// Bytes that a job reads or writes at a time.
const PIECE_BYTES: u64 = 64 << 20;
/// Complete checkpoints that a job keeps.
const KEPT: usize = 2;

/// Where a job is.
#[derive(Debug)]
pub(super) struct Running {
    job: super::Job,
    input: FileId,
    read: u64,
    written: u32,
    kept: VecDeque<FileId>,
    checkpoint: Option<Checkpoint>,
    /// How often it gave up a checkpoint: what was to go on before does not.
    turn: u32,
}

/// A checkpoint on its way.
#[derive(Debug)]
struct Checkpoint {
    file: FileId,
    request: u64,
    left: u64,
    since: Time,
    direct: bool,
}

impl World<'_> {
    /// A job is submitted: its input is staged in.
    pub(super) fn submit(&mut self, n: usize, job: super::Job) {
        let cuts = self.cuts_of(job.input_bytes, 1, false);
        let Some(input) = self.create(job.input_bytes, &cuts, true, false) else { return };
        let running = Running { job, input, read: 0, written: 0, kept: VecDeque::new(), checkpoint: None, turn: 0 };
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
        self.go_on(n, 0);
    }

    /// A job does what comes next.
    pub(super) fn go_on(&mut self, n: usize, turn: u32) {
        let Some(running) = self.jobs.get_mut(&n).filter(|running| running.turn == turn) else { return };
        if running.checkpoint.is_some() {
            return self.write_next(n);
        }
        let (input, at, size) = (running.input, running.read, running.job.input_bytes);
        if at < size {
            let len = PIECE_BYTES.min(size - at);
            running.read += len;
            // Of an input that is lost with all that was left of it nothing is read.
            let done = self.access(input, at, len, false).unwrap_or(self.now);
            if at + len >= size {
                self.used_by(input, -1);
                self.tell_job(replica::Event::Closed { job: number(n), file: input });
            }
            return self.events.push(done, Rank::Completion, Happening::GoOn(n, turn));
        }
        if running.written < self.setup.load.checkpoints {
            running.written += 1;
            return self.begin_checkpoint(n);
        }
        self.end(n);
    }

    fn end(&mut self, n: usize) {
        let Some(running) = self.jobs.remove(&n) else { return };
        self.tell_job(replica::Event::Ended { job: number(n) });
        self.remove(running.input);
        running.kept.into_iter().rev().skip(1).for_each(|file| self.remove(file));
        self.figures.jobs += 1;
    }

    fn begin_checkpoint(&mut self, n: usize) {
        let bytes = self.setup.load.checkpoint_bytes;
        self.numbers += 2;
        let (file, request) = (FileId(self.numbers), self.numbers);
        let checkpoint = Checkpoint { file, request, left: bytes, since: self.now, direct: false };
        let with_buffer = self.volume.admission().is_some();
        if let Some(running) = self.jobs.get_mut(&n) {
            running.checkpoint = Some(checkpoint);
        }
        if with_buffer {
            self.requests.insert(request, n);
            self.tell_file(file, FileEvent::Joins { request });
            let arrive = buffer::Event::Arrive { app: n as u64, request, bytes: bytes as f64 };
            self.tell_checkpoint(admission::Event::Buffer(arrive));
        }
        self.write_next(n);
    }

    /// The next piece of a checkpoint asks to be written.
    fn write_next(&mut self, n: usize) {
        let Some(checkpoint) = self.jobs.get(&n).and_then(|running| running.checkpoint.as_ref()) else { return };
        let (request, len) = (checkpoint.request, PIECE_BYTES.min(checkpoint.left));
        if len == 0 {
            return self.commit(n);
        }
        if self.volume.admission().is_none() {
            return self.write_piece(n, None, len);
        }
        self.writes += 1;
        self.held.insert(self.writes, (n, len, self.now));
        self.tell_checkpoint(admission::Event::Hold { request, write: self.writes, len });
    }

    /// The files of a checkpoint are made ready.
    pub(super) fn prepare(&mut self, request: u64, direct: bool) {
        let running = self.requests.get(&request).and_then(|n| self.jobs.get_mut(n));
        if let Some(checkpoint) = running.and_then(|running| running.checkpoint.as_mut()) {
            checkpoint.direct = direct;
        }
        self.tell_checkpoint(admission::Event::Prepared { request });
    }

    /// A held write is held no longer.
    pub(super) fn released(&mut self, write: u64, verdict: admission::Verdict) {
        let Some((n, len, since)) = self.held.remove(&write) else { return };
        match verdict {
            admission::Verdict::Go => self.write_piece(n, Some((write, since)), len),
            _ => self.give_up(n),
        }
    }

    fn write_piece(&mut self, n: usize, held: Option<(u64, Time)>, len: u64) {
        let Some(checkpoint) = self.jobs.get(&n).and_then(|running| running.checkpoint.as_ref()) else { return };
        let (id, request, direct) = (checkpoint.file, checkpoint.request, checkpoint.direct);
        let bytes = self.setup.load.checkpoint_bytes;
        if !self.files.contains_key(&id) {
            let tier = u8::from(direct || held.is_none());
            let cuts = [(0, bytes, tier)];
            if self.create_as(id, bytes, &cuts, false, false).is_none() {
                let Some((_, since)) = held else { return self.give_up(n) };
                self.writes += 1;
                self.held.insert(self.writes, (n, len, since));
                let (write, waited) = (self.writes, self.now.since(since));
                return self.tell_checkpoint(admission::Event::NoRoom { request, write, len, waited });
            }
            self.used_by(id, 1);
        }
        let Some(checkpoint) = self.jobs.get_mut(&n).and_then(|running| running.checkpoint.as_mut()) else { return };
        let at = bytes - checkpoint.left;
        checkpoint.left -= len;
        let turn = self.turn_of(n);
        match self.access(id, at, len, true) {
            Some(done) => self.events.push(done, Rank::Completion, Happening::GoOn(n, turn)),
            None => self.give_up(n),
        }
    }

    fn commit(&mut self, n: usize) {
        let Some(running) = self.jobs.get_mut(&n) else { return };
        let Some(checkpoint) = running.checkpoint.take() else { return };
        running.kept.push_back(checkpoint.file);
        let old = (running.kept.len() > KEPT).then(|| running.kept.pop_front()).flatten();
        self.acknowledged.insert(checkpoint.file);
        self.figures.checkpoints += 1;
        self.figures.checkpoint_s += self.now.since(checkpoint.since).as_secs_f64();
        self.used_by(checkpoint.file, -1);
        self.requests.remove(&checkpoint.request);
        let bytes = self.setup.load.checkpoint_bytes as f64;
        self.tell_checkpoint(admission::Event::Buffer(buffer::Event::Committed { request: checkpoint.request, bytes }));
        old.into_iter().for_each(|file| self.remove(file));
        self.rest_of(n);
    }

    /// A checkpoint will never be complete.
    pub(super) fn give_up(&mut self, n: usize) {
        let Some(running) = self.jobs.get_mut(&n) else { return };
        running.turn += 1;
        let Some(checkpoint) = running.checkpoint.take() else { return };
        self.held.retain(|_, (job, ..)| *job != n);
        self.requests.remove(&checkpoint.request);
        let request = checkpoint.request;
        self.tell_checkpoint(admission::Event::Buffer(buffer::Event::Abandoned { request }));
        self.remove(checkpoint.file);
        self.figures.refused += 1;
        self.rest_of(n);
    }

    /// The job computes until its next checkpoint.
    fn rest_of(&mut self, n: usize) {
        let turn = self.turn_of(n);
        self.events.push(self.now + self.setup.load.interval, Rank::Arrival, Happening::GoOn(n, turn));
    }

    fn turn_of(&self, n: usize) -> u32 {
        self.jobs.get(&n).map_or(0, |running| running.turn)
    }

    /// The file of a checkpoint on its way was lost: whose it is.
    pub(super) fn writer_of(&self, file: FileId) -> Option<usize> {
        let of = |running: &Running| running.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.file == file);
        self.jobs.iter().find(|(_, running)| of(running)).map(|(n, _)| *n)
    }

    fn tell_job(&mut self, event: replica::Event) {
        self.tell(Event::Job(event));
    }

    pub(super) fn tell_checkpoint(&mut self, event: admission::Event) {
        self.tell(Event::Checkpoint(event));
    }
}

fn number(n: usize) -> replica::JobId {
    replica::JobId(n as u64)
}

/// A file that holds its data once.
pub(super) fn single(bytes: u64, mirror: policy::layout::Mirror, source: bool, tiered: bool) -> File {
    File { bytes, users: 0, mirrors: vec![(Purpose::Data, mirror)], source, tiered }
}
