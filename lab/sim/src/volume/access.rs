//! Reads and writes of applications: their placement, their duration, and the resulting events for the machine.

use super::files::{File, add_parts};
use super::load::Answer;
use super::targets::Origin;
use super::world::{Happening, World};
use crate::event::Rank;
use policy::stripe::performance::Served;
use policy::stripe::profile::{Count, class_of};
use policy::stripe::striper;
use policy::tier::{Region, Tier, machine};
use policy::volume::{Event, FileEvent};
use policy::{FileId, Time, pattern};
use std::cmp::Reverse;

impl World<'_> {
    /// Issues the next request unless an event is earlier; returns whether it did. Requests are many and in order, so
    /// they bypass the event queue.
    pub(super) fn request(&mut self) -> bool {
        let Some(&request) = self.reads.get(self.next) else { return false };
        // In a closed loop the next request is issued at the earliest answer.
        let now = self.clients.peek().map_or(request.at, |answered| answered.0).max(self.now);
        if self.events.next_at().is_some_and(|at| at <= now) {
            return false;
        }
        (self.next, self.now) = (self.next + 1, now);
        let file = self.shared.get(request.file as usize).copied();
        let accessed = file.and_then(|id| Some((id, self.access(id, request.offset, request.bytes, request.write)?)));
        if self.clients.pop().is_some() {
            let answered = accessed.map_or(self.now, |(_, (done, _))| done);
            self.clients.push(Reverse(answered + self.setup.pause));
        }
        if let Some((file, (done, spans))) = accessed {
            let (mirrors, busy) = (self.files[&file].mirrors.len(), Time(self.targets.served.took_ns));
            let took = done.since(self.now);
            let hour = self.hour();
            (hour.requests, hour.request_ms) = (hour.requests + 1, hour.request_ms + took.as_secs_f64() * 1e3);
            self.answered.push(Answer { at: self.now, took, spans, mirrors, changes: self.changes, busy });
        } else {
            self.figures.requests_failed += 1;
        }
        true
    }

    /// Performs a read or write of an application. Returns its end, and the number of objects that took part; `None` if
    /// no mirror of the file is intact.
    pub(super) fn access(&mut self, id: FileId, offset: u64, len: u64, write: bool) -> Option<(Time, usize)> {
        let file = self.files.get(&id)?;
        let mut parts = std::mem::take(&mut self.parts);
        parts.clear();
        match write {
            true => file.intact().for_each(|at| add_parts(&mut parts, &file.mirrors[at].1, offset, len)),
            false => add_parts(&mut parts, &file.mirrors[self.chosen(id, file, offset, len)?].1, offset, len),
        }
        if parts.is_empty() {
            return None;
        }
        self.used = Some(self.now);
        let moves = self.setup.config.tiers.is_some();
        let touched = if moves { file.touched(offset, len) } else { Vec::new() };
        let mut done = self.now;
        for (object, bytes) in &parts {
            let tier = usize::from(self.targets.of(object.target).tier);
            let at =
                self.targets.serve(self.now, object.target, *bytes, write, Origin::Application { spans: parts.len() });
            done = done.max(at);
            self.fast_bytes[tier] += bytes;
            if moves {
                self.used(tier, at);
            }
        }
        let region = if write { Region::Write } else { Region::Read };
        let counts = self.asked.entry(id).or_default();
        let (reads, writes) = if write { (0, 1) } else { (1, 0) };
        counts[class_of(len)].add(Count { reads, writes, bytes: len });
        self.recent.entry(id).or_default().add(pattern::Request { write, offset, len });
        let last = touched.last().map(|(segment, _)| *segment);
        for (segment, bytes) in touched {
            if write {
                self.overwritten(id, segment, bytes);
            }
            self.tell_file(id, FileEvent::Accessed { segment, region, bytes, ends_request: Some(segment) == last });
        }
        let spans = parts.len();
        self.parts = parts;
        Some((done, spans))
    }

    /// Sends the requests and service times since the last decision about stripes, if a decision is due.
    pub(super) fn tell_asked(&mut self) {
        if self.volume.stripes_look_at().is_none_or(|at| at > self.now) {
            return;
        }
        let (served, none) = (self.targets.served.since(self.told), Served::default());
        self.told = self.targets.served;
        let (near, far) = if self.setup.far { (none, served) } else { (served, none) };
        self.tell(Event::Stripes(striper::Event::Served { near, far }));
        for (id, counts) in std::mem::take(&mut self.asked) {
            let recent = self.recent.get_mut(&id).map(|recent| recent.window().to_vec()).unwrap_or_default();
            self.tell_file(id, FileEvent::Asked { counts, recent });
        }
    }

    /// Records an open (`one` = 1) or a close (-1) of a file.
    pub(super) fn used_by(&mut self, id: FileId, one: i32) {
        if let Some(file) = self.files.get_mut(&id) {
            file.users = file.users.saturating_add_signed(one);
            self.tell_lies(id);
        }
    }

    /// Returns the mirror for a read.
    fn chosen(&self, id: FileId, file: &File, offset: u64, len: u64) -> Option<usize> {
        let Some(chooser) = self.prefer.get(&id) else { return file.intact().next() };
        let cost = |mirror: usize| {
            let mut parts = Vec::new();
            add_parts(&mut parts, &file.mirrors[mirror].1, offset, len);
            chooser.cost_s(len, parts.iter().map(|(object, _)| self.targets.queue(self.now, object.target)))
        };
        file.intact().min_by(|a, b| cost(*a).total_cmp(&cost(*b)))
    }

    pub(super) fn used(&mut self, tier: usize, until: Time) {
        self.used_until[tier] = self.used_until[tier].max(until);
        if !std::mem::replace(&mut self.busy[tier], true) {
            self.tell(Event::Tiers(machine::Event::Busy(named(tier as u8))));
            self.events.push(until, Rank::Completion, Happening::Quiet(tier as u8));
        }
    }

    pub(super) fn quiet(&mut self, tier: u8) {
        let until = self.used_until[usize::from(tier)];
        if until > self.now {
            return self.events.push(until, Rank::Completion, Happening::Quiet(tier));
        }
        self.busy[usize::from(tier)] = false;
        self.tell(Event::Tiers(machine::Event::Idle(named(tier))));
    }
}

fn named(tier: u8) -> Tier {
    if tier == 0 { Tier::Fast } else { Tier::Slow }
}
