//! The centre in virtual time: jobs of a log come, wait, run and end, while I/O nodes break down and come back.
//!
//! ```text
//!   log ---submit---> policy::schedule::easy ---start---> running ---end--->
//!                          ^                                 |  an I/O node of its input breaks down
//!                          +------ to the tail, or ----------+--> goes on a little longer, or on its replica
//! ```
//! Which job starts when is decided by the scheduler that the live system runs, whose input is copied by
//! `policy::protect::replica`, what swaps a replica's part in by `failover`, and in which order lost inputs are brought back by
//! `repair_order`. What is here is what happens to jobs and nodes.
//!
//! Order within one instant: what was under way ends; I/O nodes come back, then break down; jobs are submitted; then copies are
//! decided on, jobs started, and copies decided on again.
//!
//! An input is put on nodes that are up when its job is submitted. The wait of a job is from its submission to the
//! beginning of the run that succeeds.

mod copies;
mod data;
mod report;

pub use report::{JobOutcome, Report, Sample, Waits};

use super::checker::Checker;
use super::log::{Job, Log, offered_load};
use super::nodes::{NodeSet, lay_out};
use super::outages::{Change, Failures, changes};
use super::setup::{Load, Recovery, Replication, Setup};
use crate::event::{EventQueue, Rank};
use crate::generate::Rng;
use crate::setup::SetupError;
use copies::Copies;
use policy::machine::Machine;
use policy::schedule::easy::{self, Action, Charge, Easy, JobId, Queue, QueueId};
use policy::time::Time;
use std::collections::BTreeMap;

const BATCH: QueueId = QueueId(0);

/// What happened to a job so far.
#[derive(Clone, Debug, Default)]
struct Live {
    attempt: u32,
    /// Counts changes of its end; an end that was overtaken does not happen.
    epoch: u32,
    dispatched: Time,
    /// When its run began, after what it had to wait for in its allocation.
    start: Time,
    end: Time,
    running: bool,
    /// It runs into missing input and is going to fail.
    doomed: bool,
    ended: bool,
    first_dispatch: Option<Time>,
    /// A failure made it wait or run longer, or start anew.
    harmed: bool,
    /// Its input was brought back while it waited.
    patched: bool,
    /// It was first dispatched without a complete copy.
    at_risk: bool,
    /// Its place among those that run.
    place: u32,
}

/// What waits for its time.
#[derive(Clone, Copy, Debug)]
enum What {
    /// A run is over.
    End { job: u32, epoch: u32 },
    /// A job has read its input.
    Closed { job: u32, attempt: u32 },
    /// The input of waiting jobs is looked at, after a node broke down.
    Check { node: u16 },
    /// What a node held of an input was brought back.
    Patched { job: u32, node: u16 },
    /// A copy is complete.
    Copied { job: u32, epoch: u32 },
    /// A secondary replica of what a node held is complete.
    Rebuilt { job: u32, node: u16 },
}

/// A centre.
pub struct World<'a> {
    setup: &'a Setup,
    jobs: Vec<Job>,
    procs: u32,
    live: Vec<Live>,
    easy: Easy,
    now: Time,
    events: EventQueue<What>,
    changes: Vec<Change>,
    next_change: usize,
    next_submit: usize,
    n_ended: usize,
    running: Vec<u32>,
    /// Where the inputs lie; empty if no node ever fails and nothing is copied.
    layouts: Vec<NodeSet>,
    down: NodeSet,
    /// When the streams that bring inputs back are free.
    streams: Vec<Time>,
    patches: BTreeMap<(u32, u16), Time>,
    copies: Option<Copies>,
    checker: Checker,
    check: bool,
    tally: report::Tally,
}

/// Simulates a log. `failures` is where outages come from; without it no I/O node fails. With `check` every machine checks its
/// invariants after every instant, which takes long.
pub fn simulate(
    setup: &Setup,
    log: &Log,
    failures: Option<&Failures>,
    check: bool,
) -> Result<(Report, Vec<JobOutcome>), SetupError> {
    let failures = failures.filter(|_| setup.recovery != Recovery::Ideal);
    let jobs = scaled(log, setup.load);
    let ranks = if setup.replication == Replication::DispatchAware {
        let first = Setup { replication: Replication::None, ..setup.clone() };
        let mut world = World::new(&first, jobs.clone(), log.procs, failures, None, false)?;
        world.run();
        Some(world.live.iter().map(|live| live.first_dispatch.unwrap_or(Time::ZERO).0).collect())
    } else {
        None
    };
    let mut world = World::new(setup, jobs, log.procs, failures, ranks, check)?;
    world.run();
    Ok(world.outcome())
}

/// The jobs of a log under another load: all submissions closer together or farther apart.
fn scaled(log: &Log, load: Load) -> Vec<Job> {
    let factor = match load {
        Load::Factor(factor) => factor,
        Load::Offered(share) => share / offered_load(&log.jobs, log.procs).max(1e-9),
    };
    let mut jobs = log.jobs.clone();
    if factor != 1.0 {
        jobs.iter_mut().for_each(|job| job.submit = Time((job.submit.0 as f64 / factor) as u64));
    }
    jobs
}

/// A job and its attempt as the scheduler knows them: no number is used twice.
fn number(job: u32, attempt: u32) -> JobId {
    JobId(u64::from(attempt) << 32 | u64::from(job))
}

impl<'a> World<'a> {
    fn new(
        setup: &'a Setup,
        jobs: Vec<Job>,
        procs: u32,
        failures: Option<&Failures>,
        ranks: Option<Vec<u64>>,
        check: bool,
    ) -> Result<World<'a>, SetupError> {
        if u32::from(setup.io_nodes) < setup.stripes {
            let why = format!("there are {} I/O nodes; add some with io-nodes", setup.io_nodes);
            return Err(SetupError::new("stripes", setup.stripes.to_string(), why));
        }
        let last = jobs.last().map_or(Time::ZERO, |job| job.submit);
        // A centre that has more to do than it can goes on after the last submission.
        let stretch = offered_load(&jobs, procs).max(1.0) * 1.2;
        let horizon = Time((last.0 as f64 * stretch) as u64) + Time::from_secs(60 * 86_400);
        let changes = changes(setup, failures, horizon)?;
        let copies = (setup.replication != Replication::None).then(|| Copies::new(setup, procs, ranks));
        let layouts = if changes.is_empty() && copies.is_none() { 0 } else { jobs.len() };
        let scan_max = if setup.scan_max == 0 { usize::MAX } else { setup.scan_max };
        Ok(World {
            setup,
            live: vec![Live::default(); jobs.len()],
            layouts: vec![NodeSet::default(); layouts],
            easy: Easy::new(&[Queue { capacity: procs, charge: Charge::Cores }]).with_scan_max(scan_max),
            now: Time::ZERO,
            events: EventQueue::new(),
            changes,
            next_change: 0,
            next_submit: 0,
            n_ended: 0,
            running: Vec::new(),
            down: NodeSet::default(),
            streams: vec![Time::ZERO; setup.repair_streams],
            patches: BTreeMap::new(),
            copies,
            checker: Checker::default(),
            check,
            tally: report::Tally::new(last, setup.snapshots),
            procs,
            jobs,
        })
    }

    fn run(&mut self) {
        while self.n_ended < self.jobs.len() {
            let submit = self.jobs.get(self.next_submit).map(|job| job.submit);
            let change = self.changes.get(self.next_change).map(|change| change.at);
            let copies = self.copies.as_ref().and_then(Copies::next_deadline);
            let next = [submit, change, copies, self.events.next_at()].into_iter().flatten().min();
            let Some(next) = next else { panic!("{} jobs never end", self.jobs.len() - self.n_ended) };
            self.sample_before(next);
            self.now = next;
            while self.events.next_at() == Some(next) {
                if let Some((_, what)) = self.events.pop() {
                    self.happen(what);
                }
            }
            if copies.is_some_and(|at| at <= next) {
                self.copies_tick();
            }
            while self.changes.get(self.next_change).is_some_and(|change| change.at == next) {
                let change = self.changes[self.next_change];
                self.next_change += 1;
                if change.breaks { self.broke(change.node) } else { self.came_back(change.node) }
            }
            while self.jobs.get(self.next_submit).is_some_and(|job| job.submit == next) {
                self.next_submit += 1;
                self.submit(self.next_submit as u32 - 1);
            }
            self.decide();
        }
    }

    /// Lets the machines decide on all that happened at this instant.
    fn decide(&mut self) {
        self.pump_copies();
        while let Some(action) = self.easy.poll() {
            match action {
                Action::Start { id, .. } => self.dispatched(id),
                Action::Stop { .. } => {}
                Action::Drop { id, reason } => panic!("{id:?} is wider than the machine or known twice: {reason:?}"),
            }
        }
        self.pump_copies();
        self.checker.promised(self.now, self.easy.promise(BATCH));
        if self.check {
            self.easy.check();
            self.copies.iter().for_each(Copies::check);
        }
    }

    fn happen(&mut self, what: What) {
        match what {
            What::End { job, epoch } => {
                if self.live[job as usize].running && self.live[job as usize].epoch == epoch {
                    self.end(job);
                }
            }
            What::Closed { job, attempt } => {
                let live = &self.live[job as usize];
                if live.running && live.attempt == attempt {
                    self.copies_closed(job);
                }
            }
            What::Check { node } => self.check_inputs(node),
            What::Patched { job, node } => self.patched(job, node),
            What::Copied { job, epoch } => self.copied(job, epoch),
            What::Rebuilt { job, node } => self.rebuilt(job, node),
        }
    }

    fn submit(&mut self, job: u32) {
        if !self.layouts.is_empty() {
            let first =
                Rng::new(self.setup.seed, 1 << 32 | u64::from(job)).below(u64::from(self.setup.io_nodes)) as u16;
            self.layouts[job as usize] = lay_out(first, self.setup.stripes, self.setup.io_nodes, &self.down);
        }
        self.enqueue(job);
    }

    /// Puts a job at the tail of the queue.
    fn enqueue(&mut self, job: u32) {
        let Job { nodes, estimate, .. } = self.jobs[job as usize];
        let id = number(job, self.live[job as usize].attempt);
        let request =
            easy::Job { id, queue: BATCH, cores: nodes, estimate, after_ok: Vec::new(), after_any: Vec::new() };
        self.easy.handle(self.now, easy::Event::Submitted(request));
        self.tally.waiting += 1;
        self.copies_submitted(job);
    }

    fn dispatched(&mut self, id: JobId) {
        let job = id.0 as u32;
        let now = self.now;
        self.tally.waiting -= 1;
        self.tally.busy += u64::from(self.jobs[job as usize].nodes);
        let overdue = || {
            let late = |other: &u32| {
                let (live, job) = (&self.live[*other as usize], &self.jobs[*other as usize]);
                live.dispatched + job.estimate < now
            };
            self.running.iter().any(late)
        };
        self.checker.started(now, id, overdue);
        let complete = self.copies_dispatched(job);
        let place = self.running.len() as u32;
        self.running.push(job);
        let live = &mut self.live[job as usize];
        if live.first_dispatch.is_none() {
            (live.first_dispatch, live.at_risk) = (Some(now), !complete);
        }
        (live.running, live.doomed, live.place) = (true, false, place);
        (live.dispatched, live.start) = (now, now);
        live.end = now + self.jobs[job as usize].run;
        if !self.down.is_empty() && !self.layouts.is_empty() {
            self.look_at_input(job);
        }
        self.push_end(job);
        let live = &self.live[job as usize];
        if self.copies.is_some() && self.setup.reads_for < 1.0 && !live.doomed {
            let (at, attempt) = (self.read_until(job), live.attempt);
            self.events.push(at, Rank::Completion, What::Closed { job, attempt });
        }
    }

    /// When a job that runs will have read its input.
    fn read_until(&self, job: u32) -> Time {
        let run = self.jobs[job as usize].run.0 as f64;
        self.live[job as usize].start + Time((run * self.setup.reads_for) as u64)
    }

    fn push_end(&mut self, job: u32) {
        let live = &mut self.live[job as usize];
        live.epoch += 1;
        let (at, epoch) = (live.end, live.epoch);
        self.events.push(at, Rank::Completion, What::End { job, epoch });
    }

    /// A run is over, with success or not.
    fn end(&mut self, job: u32) {
        let live = &mut self.live[job as usize];
        let ok = !live.doomed;
        let nodes = self.jobs[job as usize].nodes;
        live.running = false;
        let id = number(job, live.attempt);
        let held = self.now.since(live.dispatched).as_secs_f64() * f64::from(nodes);
        self.tally.held(held, ok.then(|| self.jobs[job as usize].run.as_secs_f64() * f64::from(nodes)));
        self.tally.busy -= u64::from(nodes);
        self.checker.ended(self.now, live.dispatched + self.jobs[job as usize].estimate);
        let place = live.place as usize;
        self.running.swap_remove(place);
        if let Some(moved) = self.running.get(place) {
            self.live[*moved as usize].place = place as u32;
        }
        self.easy.handle(self.now, easy::Event::Ended { id, ok });
        if ok {
            self.live[job as usize].ended = true;
            self.n_ended += 1;
            self.tally.last_end = self.now;
        } else {
            self.tally.requeued += 1;
            self.live[job as usize].attempt += 1;
            self.enqueue(job);
        }
        self.copies_ended(id);
    }
}

#[cfg(test)]
mod tests;
