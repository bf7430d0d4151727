//! The centre in virtual time: jobs of a log arrive, wait, run and end, while I/O nodes fail and come back.
//!
//! ```text
//!   log ---submit---> policy::schedule::easy ---start---> running ---end--->
//!                          ^                                 |  an I/O node of its input breaks down
//!                          +------ to the tail, or ----------+--> goes on a little longer, or on its replica
//! ```
//! The decisions are those of the live system. Its scheduler starts jobs, `policy::protect::replica` copies inputs,
//! `failover` swaps in parts of replicas, and `repair_order` orders the restoration of inputs. This module models
//! jobs and nodes.
//!
//! Order within one instant: operations under way end; I/O nodes come back, then fail; jobs are submitted. Then
//! copies are decided, jobs are started, and copies are decided again.
//!
//! An input is placed on nodes that are up at the submission of its job. The wait of a job is from its submission to
//! the start of the run that succeeds.

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

/// State of a job.
#[derive(Clone, Debug, Default)]
struct Live {
    attempt: u32,
    /// Number of changes of its end; an outdated end event is ignored.
    epoch: u32,
    dispatched: Time,
    /// Start of its run, after waits within its allocation.
    start: Time,
    end: Time,
    running: bool,
    /// Whether it will fail at missing input.
    doomed: bool,
    ended: bool,
    first_dispatch: Option<Time>,
    /// Whether a failure made it wait or run longer, or restart.
    harmed: bool,
    /// Whether its input was restored while it waited.
    patched: bool,
    /// Whether it was first dispatched without a complete copy.
    at_risk: bool,
    /// Index in the list of running jobs.
    place: u32,
}

#[derive(Clone, Copy, Debug)]
enum EventKind {
    /// A run ends.
    End { job: u32, epoch: u32 },
    /// A job has read its input.
    Closed { job: u32, attempt: u32 },
    /// The input of waiting jobs is checked, after a node failed.
    Check { node: u16 },
    /// A node's part of an input was restored.
    Patched { job: u32, node: u16 },
    /// A copy is complete.
    Copied { job: u32, epoch: u32 },
    /// A secondary replica of a node's part is complete.
    Rebuilt { job: u32, node: u16 },
}

/// State of a centre.
pub struct World<'a> {
    setup: &'a Setup,
    jobs: Vec<Job>,
    procs: u32,
    live: Vec<Live>,
    easy: Easy,
    now: Time,
    events: EventQueue<EventKind>,
    changes: Vec<Change>,
    next_change: usize,
    next_submit: usize,
    n_ended: usize,
    running: Vec<u32>,
    /// Nodes of the inputs; empty if no node ever fails and nothing is copied.
    layouts: Vec<NodeSet>,
    down: NodeSet,
    /// Times at which the streams that restore inputs are free.
    streams: Vec<Time>,
    patches: BTreeMap<(u32, u16), Time>,
    copies: Option<Copies>,
    checker: Checker,
    check: bool,
    tally: report::Tally,
}

/// Simulates a log. `failures` is the source of outages; without it no I/O node fails. With `check` every state
/// machine checks its invariants after every instant, which is slow.
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

/// Returns the jobs of a log under another load: all intervals between submissions are scaled.
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

/// Returns the scheduler's number for a job's attempt: no number is used twice.
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
        // An overloaded centre continues after the last submission.
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

    /// Lets the state machines decide on all events of this instant.
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

    fn happen(&mut self, what: EventKind) {
        match what {
            EventKind::End { job, epoch } => {
                if self.live[job as usize].running && self.live[job as usize].epoch == epoch {
                    self.end(job);
                }
            }
            EventKind::Closed { job, attempt } => {
                let live = &self.live[job as usize];
                if live.running && live.attempt == attempt {
                    self.copies_closed(job);
                }
            }
            EventKind::Check { node } => self.check_inputs(node),
            EventKind::Patched { job, node } => self.patched(job, node),
            EventKind::Copied { job, epoch } => self.copied(job, epoch),
            EventKind::Rebuilt { job, node } => self.rebuilt(job, node),
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
            self.events.push(at, Rank::Completion, EventKind::Closed { job, attempt });
        }
    }

    /// Returns the time at which a running job has read its input.
    fn read_until(&self, job: u32) -> Time {
        let run = self.jobs[job as usize].run.0 as f64;
        self.live[job as usize].start + Time((run * self.setup.reads_for) as u64)
    }

    fn push_end(&mut self, job: u32) {
        let live = &mut self.live[job as usize];
        live.epoch += 1;
        let (at, epoch) = (live.end, live.epoch);
        self.events.push(at, Rank::Completion, EventKind::End { job, epoch });
    }

    /// Ends a run, with or without success.
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
