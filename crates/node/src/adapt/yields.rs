//! Running moves yield to applications: before each step, a carrier checks the last use of the two tiers.

use super::Recorder;
use crate::{Error, Result};
use engine::mover::{Mover, Pace};
use parking_lot::Mutex;
use policy::tier::yielding::{Turn, Yielding};
use std::time::Duration;

/// Pace of a move that began while the devices were idle.
pub(super) struct Yields<'a> {
    pub recorder: &'a Recorder,
    pub mover: &'a Mover,
    pub yielding: Mutex<Yielding>,
    pub step_bytes: u64,
}

impl Pace for Yields<'_> {
    fn take(&self, bytes: u64) -> Result<()> {
        // The step moves no bytes, and a caller may wait for the end.
        if bytes == 0 {
            return Ok(());
        }
        loop {
            let now = self.recorder.driver.now();
            let turn = self.yielding.lock().next(now, self.recorder.last_used());
            let until = match turn {
                Turn::Go => return Ok(()),
                Turn::Wait(until) => until,
                Turn::GiveUp => return Err(Error::Busy("other requests used the devices all the time".into())),
            };
            if !self.mover.wait(Duration::from_nanos(until.since(now).0)) {
                return Err(Error::Busy("the mover is stopped".into()));
            }
        }
    }

    fn step_bytes(&self) -> Option<u64> {
        Some(self.step_bytes)
    }
}
