//! Start of the stage-ins of waiting jobs, and the space for them: the live driver of
//! `policy::schedule::just_in_time`.
//!
//! ```text
//!   runner, Slurm --ask--> sizes (from the sources) --> QueueView --begin, give up--> runner, Slurm
//!                           queues (when they start) --^   ^-- free space of the volume
//! ```
//! On a volume of several nodes, each node publishes its promises before it fetches a byte of them ([`Peers`]). So all
//! nodes together promise no more than the free space.
//!
//! A job requests its stage-in. The stage-in begins when it is due and space is promised to it. Sizes are requested
//! from the sources in the background, for one job of a user at a time; the queues are polled while jobs wait. If a
//! source reports no size in time, nothing is promised and the stage-in begins at once.

mod landed;
mod nodes;
mod promise;
mod queue_view;

use crate::request::{Arrival, Caller, StageInput};
use crate::volume::Volume;
use landed::Landed;
use meta::state::State;
use nodes::Nodes;
pub use nodes::Peers;
use object::workers::{Periodic, Pool};
use parking_lot::Mutex;
use policy::Time;
use policy::schedule::just_in_time::{Config, Stats, WhenFull};
pub(crate) use queue_view::span;
use queue_view::{Action, QueueView};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Key of the measured rates of sources in the state store.
const RATES: &str = "source-rate";
/// Maximum of threads that request sizes from the sources. A guess: one source that does not answer delays few others.
const ASKERS_MAX: usize = 4;
/// Longest wait of a job for its size, which is unknown after it. A guess: a server that is up answers sooner.
const SIZE_MAX: Duration = Duration::from_secs(60);

/// Settings of the arrivals.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Margins and the rate of unknown sources.
    pub machine: Config,
    /// Whether stage-ins begin by the start estimates of the queue; otherwise as soon as there is space.
    pub by_queue: bool,
    /// Treatment of jobs that find no space.
    pub when_full: WhenFull,
    /// Free bytes that are kept back and never promised.
    pub keep_free: u64,
    /// Interval between two polls of the queues.
    pub poll: Duration,
}

/// The queue that estimates when a job starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueueKind {
    /// Queue of the built-in runner.
    Local,
    /// Queue of Slurm.
    Slurm,
    /// Jobs whose parts another scheduler runs. It chooses the begin of the stage-in itself; only its space is
    /// promised here.
    Elsewhere,
}

/// A job, by its number in its queue.
pub type Ticket = (QueueKind, u64);

/// Expected start of a waiting job, as its queue estimates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Milliseconds since 1970, if the queue has an estimate.
    pub at_ms: Option<u64>,
    /// Whether the job would have started by now if its data were there.
    pub kept_waiting: bool,
}

/// The waiting jobs of one queue. Calls may block; none is made under a lock.
pub trait WaitingJobs: Send + Sync {
    /// Jobs that wait for their turn or their data, if the queue's estimate can be trusted. `None` if the queue does
    /// not answer.
    fn starts(&self) -> Option<BTreeMap<u64, Start>>;
    /// Reports that the stage-in of the job may begin.
    fn begin(&self, job: u64);
    /// Reports that the stage-in of the job will not begin, with the cause.
    fn give_up(&self, job: u64, cause: String);
}

struct ArrivalRequest {
    ticket: Ticket,
    owner: Caller,
    wanted: Vec<StageInput>,
    /// Whether the job's data are already in transit.
    under_way: bool,
}

struct Shared {
    settings: Settings,
    volume: Arc<dyn Volume>,
    state: Arc<dyn State>,
    /// Present where several nodes share the volume.
    nodes: Option<Nodes>,
    view: Mutex<QueueView>,
    queues: Mutex<BTreeMap<QueueKind, Arc<dyn WaitingJobs>>>,
    /// Polls the queues and measures the free space.
    watch: Periodic,
    flags: Mutex<Flags>,
    threads: Pool,
}

#[derive(Default)]
struct Flags {
    look: bool,
    stopped: bool,
    /// Whether all jobs whose stage-in already runs have been added.
    taken_up: bool,
    /// Jobs whose sources are still to be queried for sizes.
    asked: VecDeque<ArrivalRequest>,
    /// Number of threads that query sources.
    askers: usize,
    /// Users whose sources are being queried: slow sources of one user delay no other user.
    asking: BTreeSet<u32>,
    /// Jobs that wait for their size, with the end of the wait.
    sizes_until: BTreeMap<Ticket, Instant>,
}

impl Flags {
    /// Position of the first job whose sources may be queried now.
    fn next_at(&self) -> Option<usize> {
        let is_free = |asked: &ArrivalRequest| !self.asking.contains(&asked.owner.uid);
        self.asked.iter().position(is_free).filter(|_| !self.stopped)
    }
}

/// The driver. Ends with [`Arrivals::stop`].
pub struct Arrivals {
    shared: Arc<Shared>,
}

impl Arrivals {
    /// Starts the driver, with the source rates of the state store. Nothing is promised before [`Arrivals::taken_up`].
    pub fn start(
        settings: Settings,
        volume: Arc<dyn Volume>,
        state: Arc<dyn State>,
        peers: Option<Arc<dyn Peers>>,
        threads: &Pool,
    ) -> std::io::Result<Arrivals> {
        let mut known = BTreeMap::new();
        for (source, rate) in state.records(RATES).map_err(|e| std::io::Error::other(e.to_string()))? {
            if let Some(rate) = std::str::from_utf8(&rate).ok().and_then(|text| text.parse().ok()) {
                known.insert(source, rate);
            }
        }
        let view = QueueView::new(&settings, known);
        let shared = Arc::new_cyclic(|me: &Weak<Shared>| Shared {
            settings,
            volume,
            nodes: peers.map(|peers| Nodes::new(state.clone(), peers)),
            state,
            view: Mutex::new(view),
            queues: Mutex::default(),
            watch: {
                let (me, watch) = (me.clone(), Mutex::new(Watch::default()));
                Periodic::new(threads, move || watch.lock().look(&*me.upgrade()?))
            },
            flags: Mutex::default(),
            threads: threads.clone(),
        });
        shared.watch.wake()?;
        Ok(Arrivals { shared })
    }

    /// Adds a queue: it supplies the expected starts of its jobs, and receives `begin` and `give_up`.
    pub fn attach(&self, queue: QueueKind, jobs: Arc<dyn WaitingJobs>) {
        self.shared.queues.lock().insert(queue, jobs);
        self.shared.look();
    }

    /// Requests the stage-in of a job. Returns at once; `begin` or `give_up` follows. A second call changes nothing.
    pub fn ask(&self, ticket: Ticket, owner: Caller, wanted: Vec<StageInput>) {
        if self.shared.view.lock().expect(ticket) {
            self.take(ArrivalRequest { ticket, owner, wanted, under_way: false });
        }
    }

    /// Adds a job whose stage-in runs already: an earlier daemon started it and promised it `promised` bytes.
    pub fn adopt(&self, ticket: Ticket, owner: Caller, wanted: Vec<StageInput>, promised: u64) {
        if self.shared.view.lock().adopt(ticket, promised) {
            self.take(ArrivalRequest { ticket, owner, wanted, under_way: true });
        }
    }

    /// Records that all jobs whose stage-in ran under the last daemon have been added.
    pub fn taken_up(&self) {
        self.shared.flags.lock().taken_up = true;
        self.shared.look();
    }

    fn take(&self, asked: ArrivalRequest) {
        let mut flags = self.shared.flags.lock();
        if !asked.under_way {
            flags.sizes_until.insert(asked.ticket, Instant::now() + SIZE_MAX);
        }
        flags.asked.push_back(asked);
        drop(flags);
        self.shared.wake_askers();
        // Each look checks the end of the wait.
        self.shared.look();
    }

    /// Bytes promised by this node whose data are still to come.
    pub fn promised(&self) -> u64 {
        self.shared.view.lock().promised()
    }

    /// Records that a job's data are there. `took_ms` is the duration of the transfer, if it measures the rate of the
    /// source.
    pub fn arrived(&self, ticket: Ticket, took_ms: Option<u64>) {
        self.shared.view.lock().arrived(now(), ticket, took_ms);
        self.shared.look();
    }

    /// Records that a job's data will not be staged in.
    pub fn failed(&self, ticket: Ticket) {
        self.shared.view.lock().failed(now(), ticket);
        self.shared.look();
    }

    /// Records that a job was started.
    pub fn started(&self, ticket: Ticket) {
        self.shared.view.lock().started(now(), ticket);
        self.shared.look();
    }

    /// Removes a job that is over.
    pub fn gone(&self, ticket: Ticket) {
        self.shared.view.lock().gone(now(), ticket);
        self.shared.look();
    }

    /// Progress of a job's data.
    pub fn told(&self, ticket: Ticket) -> Option<Arrival> {
        self.shared.view.lock().told(now(), ticket)
    }

    /// Begin of a stage-in that another scheduler runs, in milliseconds since 1970, for a job that would start at
    /// `start_ms`. `None`: at once. Queries the sources.
    pub fn due_ms(&self, owner: Caller, wanted: &[StageInput], start_ms: u64) -> Option<u64> {
        let known = self.shared.settings.by_queue.then(|| self.shared.volume.incoming(owner, wanted))??;
        let due_ms = self.shared.view.lock().due(&known, Time::from_millis(start_ms)).0 / 1_000_000;
        (due_ms > now().0 / 1_000_000).then_some(due_ms)
    }

    /// Ends the background work. No job is begun after this.
    pub fn stop(&self) {
        self.shared.flags.lock().stopped = true;
        self.shared.watch.stop(Duration::ZERO);
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.stop();
    }
}

fn now() -> Time {
    Time::from_millis(object::now_ms())
}

impl Shared {
    fn look(&self) {
        self.flags.lock().look = true;
        // A failure to start a thread has been logged; the next call starts it.
        drop(self.watch.wake());
    }

    fn wake_askers(self: &Arc<Self>) {
        let mut flags = self.flags.lock();
        let own = self.clone();
        // If no thread starts, the failure is logged, and the thread of the next job takes this one as well.
        if flags.askers < ASKERS_MAX && self.threads.push(move || ask_sources(&own)).is_ok() {
            flags.askers += 1;
        }
    }

    /// Has the jobs begin whose sources reported no size in time.
    fn end_waits_for_sizes(&self) {
        let mut flags = self.flags.lock();
        let late = flags.sizes_until.extract_if(.., |_, until| *until <= Instant::now());
        let late: Vec<Ticket> = late.map(|(ticket, _)| ticket).collect();
        flags.asked.retain(|asked| !late.contains(&asked.ticket));
        drop(flags);
        for ticket in late {
            tracing::info!("the sources of job {} do not report their size in time; it is unknown", ticket.1);
            self.view.lock().measured(now(), ticket, None, false);
        }
    }
}

/// Queries the sources of jobs for sizes, until none may be queried. The first of several wakes the next thread.
fn ask_sources(shared: &Arc<Shared>) {
    let next = || {
        let mut flags = shared.flags.lock();
        let asked = flags.next_at().and_then(|at| flags.asked.remove(at));
        if let Some(asked) = &asked {
            flags.asking.insert(asked.owner.uid);
        } else {
            flags.askers -= 1;
        }
        Some((asked?, flags.next_at().is_some()))
    };
    while let Some((asked, more)) = next() {
        if more {
            shared.wake_askers();
        }
        let known = match asked.wanted.is_empty() {
            true => None,
            false => shared.volume.incoming(asked.owner, &asked.wanted),
        };
        let has_begun = {
            let mut flags = shared.flags.lock();
            flags.asking.remove(&asked.owner.uid);
            flags.sizes_until.remove(&asked.ticket).is_none() && !asked.under_way
        };
        if has_begun {
            continue; // its size came too late
        }
        let mut view = shared.view.lock();
        let parts = known.as_ref().map(|known| known.parts.clone()).unwrap_or_default();
        view.measured(now(), asked.ticket, known, asked.under_way);
        view.comes_in(asked.ticket, asked.owner, asked.wanted.into_iter().zip(parts));
        drop(view);
        shared.look();
    }
}

/// State of the polls between two of them.
#[derive(Default)]
struct Watch {
    counted: Stats,
    landed: Landed,
    /// Time of the next poll of the queues; `None` before the first.
    queues_at: Option<Instant>,
}

impl Watch {
    /// Polls the queues, measures the free space, and begins what is due. Returns the time until the next call; `None`
    /// if a new job or an answer of the sources calls.
    fn look(&mut self, shared: &Shared) -> Option<Duration> {
        let called = {
            let mut flags = shared.flags.lock();
            let called = std::mem::take(&mut flags.look);
            (!flags.stopped).then_some(called)?
        };
        if called || self.queues_at.is_none_or(|at| at <= Instant::now()) {
            self.queues_at = Some(Instant::now() + shared.settings.poll);
            ask_queues(shared);
        }
        shared.end_waits_for_sizes();
        self.landed.look(shared);
        let todo = promise::promise(shared);
        let (rates, stats) = {
            let mut view = shared.view.lock();
            (view.new_rates(), view.stats())
        };
        shared.volume.count_arrivals(&self.counted, &stats);
        self.counted = stats;
        for (source, rate) in rates {
            if let Err(error) = shared.state.record_put(RATES, &source, rate.to_string().as_bytes()) {
                tracing::warn!("the rate of {source} could not be saved: {error}");
            }
        }
        for (ticket, what) in todo {
            let Some(jobs) = shared.queues.lock().get(&ticket.0).cloned() else { continue };
            match what {
                Action::Begin => jobs.begin(ticket.1),
                Action::GiveUp(cause) => jobs.give_up(ticket.1, cause),
            }
        }
        let queues_in = self.queues_at.map(|at| at.saturating_duration_since(Instant::now()));
        match &shared.nodes {
            Some(_) => queues_in.into_iter().chain([Nodes::look_every()]).min(),
            None => queues_in.filter(|_| !shared.view.lock().is_empty()),
        }
    }
}

fn ask_queues(shared: &Shared) {
    let waiting = shared.view.lock().waiting();
    for queue in waiting {
        let jobs = shared.queues.lock().get(&queue).cloned();
        if let Some(starts) = jobs.and_then(|jobs| jobs.starts()) {
            shared.view.lock().estimates(now(), queue, &starts);
        }
    }
}

#[cfg(test)]
mod tests;
