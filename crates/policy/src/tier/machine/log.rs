//! What went into the machine and what came out, so that two drivers can be compared.

use super::{Action, Event, Reorganizer};
use crate::time::Time;

/// One line of the log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Logged {
    /// An event went in.
    Event(Time, Event),
    /// An action came out.
    Action(Time, Action),
}

impl Reorganizer {
    /// Logs from now on. Memory grows with the log: for tests.
    pub fn start_log(&mut self) {
        self.log = Some(Vec::new());
    }

    /// The log so far.
    pub fn log(&self) -> &[Logged] {
        self.log.as_deref().unwrap_or_default()
    }

    pub(super) fn note(&mut self, logged: Logged) {
        if let Some(log) = &mut self.log {
            log.push(logged);
        }
    }
}
