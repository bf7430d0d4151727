//! Access of tests without threads to the driver: its queue, its log, its recorder.

use super::Adapt;
use super::record::Recorder;
use policy::tier::machine::Logged;
use policy::tier::{Location, Tier};
use policy::volume::Change;
use std::sync::Arc;

impl Adapt {
    /// Records accesses and places new segments.
    pub fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    /// Executes the queued jobs on this thread. Returns the number of changes made.
    pub fn carry_now(&self) -> usize {
        self.carry_now_if(|_| true)
    }

    /// As [`Adapt::carry_now`], only for the changes that `which` selects.
    pub fn carry_now_if(&self, which: impl Fn(&Change) -> bool) -> usize {
        let jobs = self.driver.jobs.take_if(|job| job.change().is_none_or(&which));
        let changes = jobs.iter().filter(|job| job.change().is_some()).count();
        jobs.into_iter().for_each(|job| self.work(job));
        changes
    }

    /// Starts a log of the tier machine's inputs and outputs, for a comparison of drivers.
    pub fn start_log(&self) {
        if let Some(tiers) = self.driver.machine().tiers_mut() {
            tiers.log.start();
        }
    }

    /// Inputs and outputs of the machine, without those that depend on the time of a look.
    pub fn log(&self) -> Vec<Logged> {
        self.driver.machine().tiers().map_or_else(Vec::new, |tiers| tiers.log.lines().to_vec())
    }

    /// Tier of a segment in the machine's state.
    pub fn tier(&self, location: Location) -> Tier {
        self.driver.machine().tiers().map_or(Tier::Slow, |tiers| tiers.tier(location))
    }
}
