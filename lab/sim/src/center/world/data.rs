//! Effects of failed I/O nodes on the inputs of jobs, and their recovery.

use super::{EventKind, Rank, Recovery, World};
use crate::center::nodes::substitute;
use policy::ids::{FileId, ObjectId};
use policy::protect::repair_order::{Candidate, repair_order};
use policy::time::Time;

impl World<'_> {
    /// Checks the input of a dispatched job while nodes are down. Sets the start and end of its run.
    pub(super) fn look_at_input(&mut self, job: u32) {
        let lost = self.layouts[job as usize].and(&self.down);
        if lost.is_empty() {
            return;
        }
        let mut delay = Time::ZERO;
        for node in lost.iter() {
            if self.fail_over(job, node) {
                self.live[job as usize].end = self.live[job as usize].end + self.setup.failover_time;
                continue;
            }
            self.live[job as usize].harmed = true;
            match self.setup.recovery {
                Recovery::None | Recovery::Ideal => {
                    let live = &mut self.live[job as usize];
                    (live.doomed, live.end) = (true, self.now + self.setup.error_after);
                    return;
                }
                Recovery::Offline => {
                    let patch = self.setup.detection + self.patch_time(job);
                    let under_way = self.patches.remove(&(job, node)).map(|at| at.since(self.now));
                    delay = delay.max(under_way.map_or(patch, |left| left.min(patch)));
                    self.replace(job, node);
                }
                Recovery::OnTheFly => {
                    self.live[job as usize].end = self.live[job as usize].end + self.setup.recovery_overhead;
                    self.replace(job, node);
                }
            }
        }
        let live = &mut self.live[job as usize];
        (live.start, live.end) = (live.start + delay, live.end + delay);
    }

    /// Handles the failure of an I/O node.
    pub(super) fn broke(&mut self, node: u16) {
        self.down.insert(node);
        self.tally.failures += 1;
        if self.layouts.is_empty() {
            return;
        }
        self.copies_lost(node);
        // Jobs that go to the tail of the queue do so in order of their dispatch.
        let mut hit: Vec<u32> =
            self.running.iter().copied().filter(|job| self.layouts[*job as usize].has(node)).collect();
        hit.sort_by_key(|job| (self.live[*job as usize].dispatched, *job));
        for job in hit {
            if !self.live[job as usize].doomed && self.now < self.read_until(job) {
                self.lost_while_running(job, node);
            }
        }
        if self.setup.recovery == Recovery::Offline {
            let every = self.setup.check_every.0;
            let at = Time(self.now.0.div_ceil(every) * every) + self.setup.detection;
            self.events.push(at, Rank::Timer, EventKind::Check { node });
        }
    }

    /// Handles the return of an I/O node, with all its data.
    pub(super) fn came_back(&mut self, node: u16) {
        self.down.remove(node);
        self.copies_returned(node);
    }

    fn lost_while_running(&mut self, job: u32, node: u16) {
        if self.fail_over(job, node) {
            self.live[job as usize].end = self.live[job as usize].end + self.setup.failover_time;
            return self.push_end(job);
        }
        self.live[job as usize].harmed = true;
        if self.setup.recovery == Recovery::OnTheFly {
            self.live[job as usize].end = self.live[job as usize].end + self.setup.recovery_overhead;
            self.replace(job, node);
            self.push_end(job);
        } else {
            self.live[job as usize].doomed = true;
            self.end(job);
        }
    }

    /// Restores the input of waiting jobs after the failure of a node, in the order of the live repair.
    pub(super) fn check_inputs(&mut self, node: u16) {
        if !self.down.has(node) {
            return; // it has come back since
        }
        let mut candidates: Vec<Candidate> = Vec::new();
        for (place, id) in self.easy.waiting(super::BATCH).enumerate() {
            let job = id.0 as u32;
            if self.layouts[job as usize].has(node) && !self.patches.contains_key(&(job, node)) {
                candidates.push(Candidate {
                    file: FileId(u64::from(job)),
                    object: ObjectId(u64::from(node)),
                    job_start: Some(Time(place as u64)),
                    healthy_copies: u32::from(self.copy_is_complete(job)),
                    bytes: self.bytes(job) / u64::from(self.setup.stripes),
                });
            }
        }
        repair_order(&mut candidates);
        for candidate in candidates {
            let job = candidate.file.0 as u32;
            let took = self.patch_time(job);
            let Some(stream) = self.streams.iter_mut().min() else { continue };
            *stream = (*stream).max(self.now) + took;
            let done = *stream;
            self.patches.insert((job, node), done);
            self.events.push(done, Rank::Completion, EventKind::Patched { job, node });
        }
    }

    /// Completes the restoration of a waiting job's input, unless it was superseded.
    pub(super) fn patched(&mut self, job: u32, node: u16) {
        if self.patches.get(&(job, node)) != Some(&self.now) {
            return;
        }
        self.patches.remove(&(job, node));
        if self.layouts[job as usize].has(node) {
            self.live[job as usize].patched = true;
            self.replace(job, node);
        }
    }

    /// Replaces a node in the layout of an input.
    fn replace(&mut self, job: u32, node: u16) {
        let layout = &mut self.layouts[job as usize];
        if let Some(other) = substitute(node, layout, self.setup.io_nodes, &self.down) {
            layout.remove(node);
            layout.insert(other);
        }
    }

    /// Returns the time to fetch one node's part of an input.
    fn patch_time(&self, job: u32) -> Time {
        let bytes = self.bytes(job) / u64::from(self.setup.stripes);
        Time((bytes as f64 / self.setup.source_rate as f64 * 1e9) as u64)
    }

    /// Returns the size of a job's input in bytes.
    pub(super) fn bytes(&self, job: u32) -> u64 {
        let job = &self.jobs[job as usize];
        self.setup.input_bytes(job.nodes, job.memory)
    }
}
