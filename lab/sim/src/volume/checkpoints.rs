//! Checkpoints: each is written piece by piece, as admission releases the pieces.

use super::world::{Happening, World};
use crate::event::Rank;
use policy::burst::{admission, buffer};
use policy::volume::{Event, FileEvent};
use policy::{FileId, Time};

/// Size of a job's reads, and the most of its writes.
pub(super) const PIECE_BYTES: u64 = 64 << 20;
/// Size of a write through a mount, and the number of writes from which they are larger: large checkpoints take few.
const WRITE_BYTES: u64 = 1 << 20;
const WRITES_MAX: u64 = 512;

/// State of a checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct Checkpoint {
    /// Its number, from 1 on.
    pub request: u64,
    /// The application that writes it.
    pub app: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether it goes straight to the slow tier.
    pub direct: bool,
    /// Time of arrival.
    pub arrived: Time,
    /// Time of completion.
    pub ended: Time,
    turn: Option<Time>,
    began: Option<Time>,
    file: FileId,
    left: u64,
}

impl Checkpoint {
    /// Returns the size of a job's writes of it.
    pub(super) fn write_bytes(&self) -> u64 {
        (self.bytes / WRITES_MAX).clamp(WRITE_BYTES, PIECE_BYTES)
    }

    fn turn(&self) -> Time {
        self.turn.unwrap_or(self.arrived)
    }

    fn began(&self) -> Time {
        self.began.unwrap_or(self.turn())
    }

    /// Returns the wait for its turn, in seconds.
    pub fn wait_s(&self) -> f64 {
        self.turn().since(self.arrived).as_secs_f64()
    }

    /// Returns the further wait for space, in seconds.
    pub fn stop_s(&self) -> f64 {
        self.began().since(self.turn()).as_secs_f64()
    }

    /// Returns the time of its writing, in seconds.
    pub fn run_s(&self) -> f64 {
        self.ended.since(self.began()).as_secs_f64()
    }
}

/// A write that admission holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) request: u64,
    pub(super) len: u64,
    pub(super) since: Time,
}

impl World<'_> {
    pub(super) fn begin_checkpoint(&mut self, app: u64, bytes: u64) {
        (self.numbers, self.begun) = (self.numbers + 2, self.begun + 1);
        let (request, file, now) = (self.begun, FileId(self.numbers), self.now);
        let (turn, began, ended, direct) = (None, None, now, false);
        let of = Checkpoint { request, app, bytes, direct, arrived: now, turn, began, ended, file, left: bytes };
        self.writing.insert(request, of);
        if self.volume.admission().is_some() {
            self.tell_file(file, FileEvent::Joins(request));
            self.tell_buffer(buffer::Event::Arrive { app, request, bytes: bytes as f64 });
            self.drive();
        }
        self.write_next(request);
    }

    /// Requests the write of a checkpoint's next piece.
    pub(super) fn write_next(&mut self, request: u64) {
        let Some(of) = self.writing.get(&request) else { return };
        if of.left == 0 {
            return self.commit(request);
        }
        let len = self.piece_bytes(of).min(of.left);
        if self.volume.admission().is_none() {
            return self.write_piece(request, None, len);
        }
        self.hold(Held { request, len, since: self.now });
        self.tell_checkpoint(admission::Event::Hold { request, write: self.writes, len });
    }

    fn hold(&mut self, held: Held) {
        self.writes += 1;
        self.held.insert(self.writes, held);
    }

    /// Records the checkpoints that have had their turn since the last call.
    pub(super) fn note_turns(&mut self) {
        let Some(admission) = self.volume.admission() else { return };
        for of in self.writing.values_mut().filter(|of| of.turn.is_none()) {
            let had = admission.request(of.request).is_some_and(|request| request.version.is_some());
            of.turn = had.then_some(self.now);
        }
    }

    /// Reports the files of a checkpoint as prepared.
    pub(super) fn prepare(&mut self, request: u64, direct: bool) {
        if let Some(of) = self.writing.get_mut(&request) {
            of.direct = direct;
            of.began.get_or_insert(self.now);
        }
        self.tell_checkpoint(admission::Event::Prepared { request });
    }

    /// Releases a held write.
    pub(super) fn released(&mut self, write: u64, verdict: admission::Verdict) {
        let Some(held) = self.held.remove(&write) else { return };
        match verdict {
            admission::Verdict::Go => self.write_piece(held.request, Some(held), held.len),
            _ => self.give_up(held.request),
        }
    }

    fn write_piece(&mut self, request: u64, held: Option<Held>, len: u64) {
        let Some(&Checkpoint { file, bytes, left, direct, .. }) = self.writing.get(&request) else { return };
        if !self.files.contains_key(&file) {
            let tier = u8::from(direct || held.is_none());
            if self.create_as(file, bytes, &[(0, bytes, tier)], false, false).is_none() {
                let Some(held) = held else { return self.give_up(request) };
                self.hold(held);
                let (write, waited) = (self.writes, self.now.since(held.since));
                return self.tell_checkpoint(admission::Event::NoRoom { request, write, len, waited });
            }
            self.used_by(file, 1);
        }
        if let Some(of) = self.writing.get_mut(&request) {
            of.left -= len;
        }
        match self.piece_done(file, bytes - left, len, direct) {
            Some(done) if done <= self.now => self.write_next(request),
            Some(done) => self.events.push(done, Rank::Completion, Happening::Piece(request)),
            None => self.give_up(request),
        }
    }

    fn commit(&mut self, request: u64) {
        let Some(of) = self.writing.remove(&request) else { return };
        self.acknowledged.insert(of.file);
        let (took, hour) = (self.now.since(of.arrived), self.hour());
        (hour.checkpoints, hour.checkpoint_s) = (hour.checkpoints + 1, hour.checkpoint_s + took.as_secs_f64());
        self.written.push(Checkpoint { ended: self.now, ..of });
        self.used_by(of.file, -1);
        self.tell_buffer(buffer::Event::Committed { request, bytes: of.bytes as f64 });
        self.has_written(of.app, of.file, took);
    }

    pub(super) fn give_up(&mut self, request: u64) {
        let Some(of) = self.writing.remove(&request) else { return };
        self.held.retain(|_, held| held.request != request);
        self.tell_buffer(buffer::Event::Abandoned { request });
        self.remove(of.file);
        self.figures.refused += 1;
        self.rests(of.app);
    }

    /// Returns the unfinished checkpoint of a file.
    pub(super) fn checkpoint_of(&self, file: FileId) -> Option<u64> {
        self.writing.values().find(|of| of.file == file).map(|of| of.request)
    }

    pub(super) fn tell_checkpoint(&mut self, event: admission::Event) {
        self.tell(Event::Checkpoint(event));
    }

    pub(super) fn tell_buffer(&mut self, event: buffer::Event) {
        self.tell_checkpoint(admission::Event::Buffer(event));
    }
}
