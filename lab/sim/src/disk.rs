//! A mechanical disk: command overheads, a segmented buffer with read-ahead and write-behind, arm and spindle.
//!
//! One command at a time. The drive's own work between commands (read-ahead, destaging) is computed when the next
//! command arrives, from the time that has passed. So no events are needed, and the result is the same.
//!
//! ```text
//! read:   | overhead | seek | rotation | medium ......... |      read-ahead until the segment is full or a command comes
//!                                        | bus ............ |    sector by sector, as they come off the medium
//! write:  | overhead | bus ... | done                            seek, rotation, medium afterwards, from the buffer
//! ```

mod buffer;
pub mod devices;
mod geometry;
mod mechanics;
pub mod model;
mod seek;
#[cfg(test)]
mod tests;
pub mod validate;

pub use model::Model;

use buffer::Segments;
use mechanics::{Arm, Mechanics, Pass};
use policy::time::Time;

/// A command: `count` sectors from `sector` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// First sector, of 512 bytes.
    pub sector: u64,
    /// Number of sectors; at least one.
    pub count: u64,
    /// Whether it is a write.
    pub write: bool,
}

/// Times of a served command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Time of the answer to the host.
    pub done: Time,
    /// Time of the command overhead.
    pub overhead_ns: u64,
    /// Time of the arm's movement.
    pub seek_ns: u64,
    /// Wait for the first sector.
    pub rotation_ns: u64,
    /// Whether the buffer held the first sector, or took the write where it already held its neighbours.
    pub hit: bool,
}

/// Counters of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of commands.
    pub commands: u64,
    /// Commands that the buffer answered or took.
    pub hits: u64,
    /// Sectors moved between drive and host.
    pub sectors: u64,
    /// Sectors read ahead.
    pub read_ahead_sectors: u64,
    /// Time with a command in service.
    pub busy_ns: u64,
    /// Time of the arm's movements.
    pub seek_ns: u64,
    /// Time spent waiting for the first sector.
    pub rotation_ns: u64,
}

/// State of a drive.
#[derive(Debug)]
pub struct Disk {
    model: &'static Model,
    mechanics: Mechanics,
    segments: Segments,
    bus_sector_ns: u64,
    arm: Arm,
    /// Time at which the arm has finished its uninterruptible work.
    free_ns: u64,
    read_ahead: Option<ReadAhead>,
    wrote_last: bool,
    counts: Counts,
}

/// Read-ahead behind the last request.
#[derive(Clone, Copy, Debug)]
struct ReadAhead {
    segment: usize,
    pass: Pass,
    limit: u64,
}

impl Disk {
    /// Creates an idle drive with its arm at the first cylinder.
    pub fn new(model: &'static Model) -> Disk {
        Disk {
            model,
            mechanics: Mechanics::new(model),
            segments: Segments::new(model.buffer),
            bus_sector_ns: model.bus_sector_ns,
            arm: Arm::default(),
            free_ns: 0,
            read_ahead: None,
            wrote_last: false,
            counts: Counts::default(),
        }
    }

    /// Puts the drive on a bus that moves a sector in `sector_ns`.
    pub fn with_bus(mut self, sector_ns: u64) -> Disk {
        self.bus_sector_ns = sector_ns;
        self
    }

    /// Number of sectors that a host can address.
    pub fn sectors(&self) -> u64 {
        self.mechanics.sectors()
    }

    /// Returns the counters of the drive.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Serves `command`, which arrives at `now`, not before the end of the previous one.
    pub fn serve(&mut self, now: Time, command: Command) -> Served {
        let end = command.sector + command.count;
        assert!(
            command.count > 0 && end <= self.sectors(),
            "{command:?} is not on a disk of {} sectors",
            self.sectors()
        );
        self.catch_up(now.0);
        let served = if command.write { self.write(now.0, command) } else { self.read(now.0, command) };
        self.wrote_last = command.write;
        self.counts.commands += 1;
        self.counts.hits += u64::from(served.hit);
        self.counts.sectors += command.count;
        self.counts.busy_ns += served.done.0 - now.0;
        self.counts.seek_ns += served.seek_ns;
        self.counts.rotation_ns += served.rotation_ns;
        served
    }

    /// Panics if an invariant of the drive is broken.
    pub fn check(&self) {
        self.segments.check();
        if let Some(ahead) = &self.read_ahead {
            let segment = self.segments.get(ahead.segment);
            assert!(!segment.dirty, "reading ahead into a segment that waits to be written");
            assert!(ahead.pass.next() <= ahead.limit, "read-ahead beyond its limit");
        }
    }

    fn read(&mut self, now: u64, command: Command) -> Served {
        let end = command.sector + command.count;
        let after = usize::from(self.wrote_last);
        let reaching = self.segments.reaching(command.sector);
        let found = reaching.filter(|&at| {
            let held = self.segments.get(at).end > command.sector;
            held || self.read_ahead.is_some_and(|ahead| ahead.segment == at && ahead.limit > command.sector)
        });
        let overheads = &self.model.overheads;
        let hit = found.is_some();
        let overhead_ns = if hit { overheads.read_hit_ns[after] } else { overheads.read_miss_ns[after] };
        let start = now + overhead_ns;
        let mut served = Served { overhead_ns, hit, ..Served::default() };
        self.catch_up(start);
        let done = match found {
            Some(at) if end <= self.segments.get(at).end => {
                self.segments.touch(at);
                self.consumed(at, end);
                start + command.count * self.bus_sector_ns
            }
            Some(at) if self.read_ahead.is_some_and(|ahead| ahead.segment == at) => {
                self.segments.touch(at);
                self.consumed(at, end);
                self.wait_for(start, command)
            }
            found => self.read_medium(start, command, found, &mut served),
        };
        served.done = Time(done);
        served
    }

    /// Reads the part of `command` that the buffer lacks, into the segment `found` or a fresh one, then reads ahead.
    fn read_medium(&mut self, start: u64, command: Command, found: Option<usize>, served: &mut Served) -> u64 {
        let end = command.sector + command.count;
        self.stop_read_ahead(start);
        // Data not yet on the medium must be written before it is read; clean copies are read again.
        while let Some(dirty) = self.segments.forget(command.sector, end, found) {
            self.destage(dirty, start);
        }
        if let Some(at) = found.filter(|&at| self.segments.get(at).dirty) {
            self.destage(at, start);
        }
        let first = found.map_or(command.sector, |at| self.segments.get(at).end);
        let on_arrival = found.is_none() && self.model.buffer.read_on_arrival;
        let segment = match found {
            Some(at) => at,
            None => self.fresh_segment(first, start),
        };
        self.segments.touch(segment);
        let mut done = start + command.count * self.bus_sector_ns;
        let mut sector = first;
        let mut at = start.max(self.free_ns);
        while sector < end {
            let pass = self.mechanics.pass(at, self.arm, sector, end - sector, false);
            if sector == first {
                served.seek_ns = pass.seek_ns;
                served.rotation_ns = pass.rotation_ns;
                if on_arrival {
                    self.segments.extend_front(segment, pass.passed_before());
                }
            }
            // Both times are linear in the sectors, so the bus is furthest behind at the first sector of the pass or at
            // the last.
            let behind = |passed: u64| pass.passed_ns(passed) + (end - sector - passed + 1) * self.bus_sector_ns;
            done = done.max(behind(1)).max(behind(pass.count));
            at = pass.end_ns();
            self.arm = pass.arm();
            sector = pass.next();
        }
        self.free_ns = at;
        self.segments.extend(segment, end);
        // Sectors that were read on arrival take their part of the segment.
        let full = on_arrival.then(|| self.segments.get(segment).start + self.model.buffer.segment_sectors);
        let limit = self.read_ahead_limit(end).min(full.unwrap_or(u64::MAX));
        if end < limit {
            self.continue_read_ahead(segment, end, limit);
        }
        done
    }

    /// Waits for the read-ahead under way, which brings the sectors of `command`.
    fn wait_for(&mut self, start: u64, command: Command) -> u64 {
        let end = command.sector + command.count;
        let mut done = start + command.count * self.bus_sector_ns;
        while let Some(ahead) = self.read_ahead {
            let wanted = ahead.pass.next().min(end).saturating_sub(ahead.pass.sector);
            if wanted > 0 {
                let ready = ahead.pass.passed_ns(wanted);
                let left = end - (ahead.pass.sector + wanted) + 1;
                done = done.max(ready + left * self.bus_sector_ns);
                if ahead.pass.next() >= end {
                    self.catch_up(ready);
                    break;
                }
            }
            self.catch_up(ahead.pass.end_ns());
        }
        done
    }

    fn write(&mut self, now: u64, command: Command) -> Served {
        let end = command.sector + command.count;
        let after = usize::from(self.wrote_last);
        self.stop_read_ahead(now);
        let reaching = self.segments.reaching(command.sector);
        let taking = reaching.filter(|&at| self.segments.takes_write(at, command.sector, end));
        let overheads = &self.model.overheads;
        let hit = reaching.is_some();
        // Any write that the buffer takes at once has the overhead of a hit, as measured on the drive, whatever the
        // names of its parameters.
        let fits = command.count <= self.model.buffer.segment_sectors;
        let buffered = fits && !self.waits_for_segment(taking);
        let overhead_ns = if buffered { overheads.write_hit_ns[after] } else { overheads.write_miss_ns[after] };
        let mut start = now + overhead_ns;
        self.catch_up(start);
        while let Some(dirty) = self.segments.forget(command.sector, end, taking) {
            start = start.max(self.destage(dirty, start));
        }
        let mut served = Served { overhead_ns, hit, ..Served::default() };
        if !fits {
            served.done = Time(self.write_through(start, command, &mut served));
            return served;
        }
        if self.waits_for_segment(taking) {
            let oldest = self.segments.oldest_dirty().expect("a dirty segment was counted");
            start = start.max(self.destage(oldest, start));
        }
        let segment = match taking {
            Some(at) => at,
            None => self.fresh_segment(command.sector, start),
        };
        let done = start + command.count * self.bus_sector_ns;
        self.segments.write(segment, command.sector, end, done);
        served.done = Time(done);
        served
    }

    /// Returns whether a write into `taking` must wait until a segment is on the medium.
    fn waits_for_segment(&self, taking: Option<usize>) -> bool {
        let adds_dirty = taking.is_none_or(|at| !self.segments.get(at).dirty);
        adds_dirty && self.segments.dirty() >= self.model.buffer.write_segments_max
    }

    /// Writes more than a segment to the medium while the host waits; the bus is never the bottleneck.
    fn write_through(&mut self, start: u64, command: Command, served: &mut Served) -> u64 {
        let seek = self.transfer(start.max(self.free_ns), command.sector, command.count);
        (served.seek_ns, served.rotation_ns) = seek;
        self.free_ns.max(start + command.count * self.bus_sector_ns)
    }

    /// Writes `count` sectors to the medium; returns the first pass's seek and rotation.
    fn transfer(&mut self, at: u64, sector: u64, count: u64) -> (u64, u64) {
        let (mut at, mut sector, end) = (at, sector, sector + count);
        let mut first = None;
        while sector < end {
            let pass = self.mechanics.pass(at, self.arm, sector, end - sector, true);
            first.get_or_insert((pass.seek_ns, pass.rotation_ns));
            at = pass.end_ns();
            self.arm = pass.arm();
            sector = pass.next();
        }
        self.free_ns = at;
        first.unwrap_or((0, 0))
    }

    /// Writes the dirty data of `segment` to the medium, from `at` on; returns the time of its end.
    fn destage(&mut self, segment: usize, at: u64) -> u64 {
        let waiting = self.segments.get(segment);
        let start = at.max(self.free_ns);
        self.transfer(start, waiting.dirty_start, waiting.end - waiting.dirty_start);
        self.segments.written(segment);
        self.free_ns
    }

    fn fresh_segment(&mut self, sector: u64, at: u64) -> usize {
        if let Some(segment) = self.segments.reuse(sector) {
            return segment;
        }
        let oldest = self.segments.oldest_dirty().expect("no clean segment, so all are dirty");
        self.destage(oldest, at);
        self.segments.reuse(sector).expect("a segment was just written")
    }

    /// Applies the drive's own work until `now`.
    fn catch_up(&mut self, now: u64) {
        while let Some(ahead) = self.read_ahead.filter(|ahead| ahead.pass.end_ns() <= now) {
            self.progress(&ahead, ahead.pass.count);
            self.arm = ahead.pass.arm();
            self.free_ns = ahead.pass.end_ns();
            self.read_ahead = None;
            if ahead.pass.next() < ahead.limit {
                self.continue_read_ahead(ahead.segment, ahead.pass.next(), ahead.limit);
            }
        }
        if let Some(ahead) = self.read_ahead {
            self.progress(&ahead, ahead.pass.passed(now));
            return;
        }
        while let Some(oldest) = self.segments.oldest_dirty() {
            let start = self.free_ns.max(self.segments.get(oldest).dirty_since_ns);
            if start >= now {
                break;
            }
            self.destage(oldest, start);
        }
    }

    fn progress(&mut self, ahead: &ReadAhead, passed: u64) {
        let before = self.segments.get(ahead.segment).end;
        let reached = ahead.pass.sector + passed;
        if passed > 0 && reached > before {
            self.counts.read_ahead_sectors += reached - before;
            self.segments.extend(ahead.segment, reached);
        }
    }

    /// Returns the limit of read-ahead for a host that took everything up to `end`.
    fn read_ahead_limit(&self, end: u64) -> u64 {
        (end + self.model.buffer.read_ahead_sectors_max).min(self.sectors())
    }

    fn continue_read_ahead(&mut self, segment: usize, from: u64, limit: u64) {
        let pass = self.mechanics.pass(self.free_ns, self.arm, from, limit - from, false);
        self.read_ahead = Some(ReadAhead { segment, pass, limit });
    }

    /// Extends the limit of read-ahead: the host took everything up to `end`.
    fn consumed(&mut self, segment: usize, end: u64) {
        let limit = self.read_ahead_limit(end);
        let Some(ahead) = self.read_ahead.as_mut().filter(|ahead| ahead.segment == segment) else { return };
        if limit > ahead.limit {
            ahead.limit = limit;
            let again = self.mechanics.pass(
                ahead.pass.start_ns,
                ahead.pass.arm_after(0),
                ahead.pass.sector,
                limit - ahead.pass.sector,
                false,
            );
            ahead.pass.count = again.count;
        }
    }

    /// Stops read-ahead, since a command needs the arm or is a write; the sectors read so far stay.
    fn stop_read_ahead(&mut self, now: u64) {
        self.catch_up(now);
        if let Some(ahead) = self.read_ahead.take() {
            self.arm = ahead.pass.arm_after(ahead.pass.passed(now));
            // The arm may still be on its way to the pass.
            self.free_ns = self.free_ns.max(now.min(ahead.pass.start_ns));
        }
    }
}
