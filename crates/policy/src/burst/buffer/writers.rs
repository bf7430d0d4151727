//! Writers of the buffer: their turns, their room, and the end of each checkpoint.

use super::{Action, Buffer, Scheme};
use crate::burst::queue::App;
use crate::burst::tables::Version;
use crate::time::Time;

/// A checkpoint that is being written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writing {
    pub version: Option<Version>,
    pub app: App,
    /// Room that it has, and room that it waits for.
    pub reserved: f64,
    pub wants: Option<f64>,
    pub written: f64,
    pub turn: bool,
    pub direct: bool,
}

impl Writing {
    /// Whether it writes to the buffer.
    pub fn goes(&self) -> bool {
        self.turn && self.wants.is_none() && !self.direct
    }
}

impl Buffer {
    /// Changes a checkpoint that is being written, if there is one for the request.
    pub(super) fn with(&mut self, request: u64, change: impl FnOnce(&mut Writing)) {
        if let Some(of) = self.writing.get_mut(&request) {
            change(of);
        }
    }

    pub(super) fn arrived(&mut self, now: Time, app: App, request: u64, bytes: f64) {
        self.forecast.arrived(now, app, bytes);
        let fresh =
            Writing { version: None, app, reserved: 0.0, wants: Some(bytes), written: 0.0, turn: false, direct: false };
        self.writing.insert(request, fresh);
        self.turns.arrive(now, app, request);
    }

    pub(super) fn paused(&mut self, request: u64) {
        if let Some(of) = self.writing.get_mut(&request).filter(|of| of.turn) {
            of.turn = false;
            self.turns.done(request);
        }
    }

    pub(super) fn again(&mut self, now: Time, request: u64) {
        if let Some(of) = self.writing.get(&request).filter(|of| !of.turn) {
            self.turns.arrive(now, of.app, request);
        }
    }

    /// Takes unused room back, and waits for as much as is needed.
    pub(super) fn gave_back(&mut self, request: u64, bytes: f64) {
        if let Some(of) = self.writing.get_mut(&request).filter(|of| of.wants.is_none()) {
            let back = bytes.min(of.reserved - of.written).max(0.0);
            of.reserved -= back;
            of.wants = Some(bytes);
            self.used -= back;
        }
    }

    pub(super) fn abandoned(&mut self, request: u64) {
        if let Some(of) = self.writing.remove(&request) {
            self.turns.leave(of.app, request);
            self.used -= of.reserved;
        }
    }

    pub(super) fn committed(&mut self, request: u64, bytes: f64) {
        let Some(of) = self.writing.remove(&request) else { return };
        self.turns.leave(of.app, request);
        let number = of.version.map_or_else(|| self.next_number(of.app), |version| version.number);
        let version = Version { app: of.app, number };
        self.used -= of.reserved;
        if of.direct {
            self.tables.written_direct(version);
            self.lacks_replica(version);
            return;
        }
        if self.config.scheme == Scheme::DataWarp {
            // A new checkpoint overwrites the previous one.
            let mtbf_s = self.tables.mtbf(of.app);
            self.used -= self.tables.ended(of.app).iter().map(|(_, bytes)| *bytes as f64).sum::<f64>();
            self.tables.set_mtbf(of.app, mtbf_s);
        }
        self.used += bytes;
        self.tables.written(version, bytes.round() as u64);
    }

    fn next_number(&mut self, app: App) -> u64 {
        let number = self.numbers.entry(app).or_default();
        *number += 1;
        *number
    }

    /// Gives turns to waiting requests.
    pub(super) fn give_turns(&mut self, now: Time) {
        while let Some((app, request)) = self.turns.next(now) {
            let bytes = self.writing.get(&request).and_then(|of| of.wants).unwrap_or(0.0);
            let known = self.writing.get(&request).and_then(|of| of.version.map(|version| (version, of.direct)));
            let (version, direct) = known.unwrap_or_else(|| {
                let over = self.config.direct && self.dwpp > self.config.device.capacity;
                let cold = over && self.tables.goes_direct(app, self.dwsf, self.config.device.capacity);
                let direct = cold && self.capacity_usable || self.only_direct(bytes);
                (Version { app, number: self.next_number(app) }, direct)
            });
            if let Some(of) = self.writing.get_mut(&request) {
                (of.version, of.direct, of.turn) = (Some(version), direct, true);
            }
            self.actions.push_back(Action::Turn { request, version, direct });
        }
    }

    /// Gives room to the requests that have their turn.
    pub(super) fn give_room(&mut self) {
        let short: Vec<(u64, f64, bool)> = self
            .writing
            .iter()
            .filter(|(_, of)| of.turn)
            .filter_map(|(r, of)| Some((*r, of.wants?, of.direct)))
            .collect();
        for (request, bytes, mut direct) in short {
            // The checkpoint fits only the capacity tier, which was unusable when it arrived.
            let only = !direct && self.only_direct(bytes);
            if let Some(of) = self.writing.get_mut(&request).filter(|of| only && of.reserved == 0.0)
                && let Some(version) = of.version
            {
                direct = true;
                of.direct = true;
                self.actions.push_back(Action::Turn { request, version, direct });
            }
            if direct || self.make_room(bytes) {
                if let Some(of) = self.writing.get_mut(&request) {
                    of.wants = None;
                    of.reserved += if direct { 0.0 } else { bytes };
                    self.used += if direct { 0.0 } else { bytes };
                }
                self.actions.push_back(Action::Go { request });
            }
        }
    }

    fn make_room(&mut self, bytes: f64) -> bool {
        if self.config.scheme == Scheme::DataWarp {
            // Each application overwrites its own area.
            return true;
        }
        if bytes > self.config.device.capacity {
            // The checkpoint waits for the capacity tier; deletions would not help.
            return false;
        }
        let short = self.used + bytes - self.room();
        if short > 0.0 {
            self.drop_clean(short);
        }
        self.used + bytes <= self.room() * (1.0 + 1e-9)
    }

    /// Whether a checkpoint of this size fits only the capacity tier, and that tier is usable.
    fn only_direct(&self, bytes: f64) -> bool {
        self.capacity_usable && bytes > self.config.device.capacity
    }
}
