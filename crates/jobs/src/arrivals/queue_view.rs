//! State of each job's data. Translates outside events to events of the policy's machine; does no I/O.

mod room;

use super::{QueueKind, Settings, Start, Ticket};
use crate::request::{Arrival, Caller, Incoming, StageInput};
use policy::Time;
use policy::machine::Machine;
use policy::schedule::easy::JobId;
use policy::schedule::just_in_time::{
    self, Answer, Coming, Config, Event, JustInTime, Ledger, Load, Phase, Rates, Reason, SourceId, Space, Stats,
};
use policy::units::{show_bytes, show_span_s};
pub use room::{Decided, Room};
use room::{NoRoom, no_space};
use std::collections::{BTreeMap, BTreeSet};

/// Shortest span that is shown: spans are shown in seconds.
const SHOWN_MIN: Time = Time::from_millis(1000);

/// Next step for the data of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Begin,
    GiveUp(String),
}

/// Data that one command of a job brings.
#[derive(Clone)]
pub struct Part {
    pub owner: Caller,
    pub wanted: StageInput,
    pub coming: Coming,
}

#[derive(Default)]
struct Known {
    id: JobId,
    /// Size of the stage-in; `None` while it is being requested, or if it cannot be known.
    incoming: Option<Incoming>,
    /// Whether the job was added to the machine.
    submitted: bool,
    /// Whether the size is known, and no snapshot of the queue has been taken since.
    fresh: bool,
    under_way: bool,
    started: bool,
    start: Option<Time>,
    reason: Option<Reason>,
    /// Reason of the last refusal of space.
    no_room: Option<NoRoom>,
    /// Whether all of the job's data have arrived.
    settled: bool,
    /// Data of each of the job's commands.
    parts: Vec<Part>,
    /// Outcome of the stage-in, once it is decided.
    verdict: Option<String>,
}

pub struct QueueView {
    machine: JustInTime,
    config: Config,
    ledger: Ledger,
    /// Bytes that could be promised at the last measurement.
    room: u64,
    /// Jobs that wait for a promise of space, with the bytes, in order.
    asking: Vec<(JobId, u64)>,
    /// Actions that are decided but not yet carried out.
    todo: Vec<(Ticket, Action)>,
    by_queue: bool,
    jobs: BTreeMap<Ticket, Known>,
    tickets: BTreeMap<JobId, Ticket>,
    sources: BTreeMap<String, SourceId>,
    saved: BTreeMap<SourceId, u64>,
    next: u64,
}

impl QueueView {
    pub fn new(settings: &Settings, known: BTreeMap<String, u64>) -> QueueView {
        let (mut rates, mut sources) = (Rates::default(), BTreeMap::new());
        for (n, (source, rate)) in known.into_iter().enumerate() {
            rates.set(SourceId(n as u64), rate);
            sources.insert(source, SourceId(n as u64));
        }
        QueueView {
            saved: rates.iter().collect(),
            machine: JustInTime::new(settings.machine.clone(), rates),
            config: settings.machine.clone(),
            ledger: Ledger::new(settings.when_full, settings.keep_free),
            room: 0,
            asking: Vec::new(),
            todo: Vec::new(),
            by_queue: settings.by_queue,
            jobs: BTreeMap::new(),
            tickets: BTreeMap::new(),
            sources,
            next: 0,
        }
    }

    /// Adds a job whose size will be requested. Returns whether it is new.
    pub fn expect(&mut self, ticket: Ticket) -> bool {
        if self.jobs.contains_key(&ticket) {
            return false;
        }
        self.next += 1;
        let id = JobId(self.next);
        self.tickets.insert(id, ticket);
        let known = Known { id, ..Known::default() };
        self.jobs.insert(ticket, known);
        true
    }

    /// Adds a job whose stage-in already runs, with the bytes promised to it earlier.
    pub fn adopt(&mut self, ticket: Ticket, promised: u64) -> bool {
        let is_new = self.expect(ticket);
        if let Some(known) = self.jobs.get(&ticket).filter(|_| is_new) {
            self.ledger.adopt(known.id, promised);
        }
        is_new
    }

    fn source(&mut self, name: &str) -> SourceId {
        let next = SourceId(self.sources.len() as u64);
        *self.sources.entry(name.to_string()).or_insert(next)
    }

    /// Records the size of a job's stage-in, or that it cannot be known.
    pub fn measured(&mut self, now: Time, ticket: Ticket, incoming: Option<Incoming>, under_way: bool) {
        let by_queue = self.by_queue && ticket.0 != QueueKind::Elsewhere && incoming.is_some() && !under_way;
        let Some(known) = self.jobs.get_mut(&ticket) else { return };
        (known.incoming, known.under_way, known.fresh) = (incoming, under_way, true);
        // Without an estimate from the queue, there is no reason to wait.
        if !by_queue {
            self.submit(now, ticket, Some(now));
            self.jobs.entry(ticket).and_modify(|known| known.start = None);
        }
    }

    fn submit(&mut self, now: Time, ticket: Ticket, start: Option<Time>) {
        let Some(known) = self.jobs.get_mut(&ticket).filter(|known| known.fresh && !known.submitted) else { return };
        (known.submitted, known.fresh, known.start) = (true, false, start);
        let (job, under_way) = (known.id, known.under_way);
        let comes = known.incoming.as_ref().filter(|_| under_way && !known.settled).map(|incoming| incoming.bytes);
        let incoming = known.incoming.clone().unwrap_or_default();
        let source = self.source(&incoming.source);
        self.machine.handle(now, Event::Submitted { job, load: incoming.load(), source, start });
        if let Some(bytes) = comes {
            self.ledger.adopt(job, bytes);
        }
        if under_way {
            self.machine.handle(now, Event::Reserved(job));
        }
    }

    /// The queues whose jobs wait for an estimate of their start.
    pub fn waiting(&self) -> BTreeSet<QueueKind> {
        let decided =
            |known: &Known| matches!(self.machine.phase(known.id), Some(Phase::Arrived { .. } | Phase::GivenUp));
        let waits = |known: &Known| {
            !known.started && (known.fresh || known.submitted) && known.incoming.is_some() && !decided(known)
        };
        self.jobs.iter().filter(|(_, known)| waits(known)).map(|((queue, _), _)| *queue).collect()
    }

    /// Whether it holds no job.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Takes over the starts that a queue estimates.
    pub fn estimates(&mut self, now: Time, queue: QueueKind, starts: &BTreeMap<u64, Start>) {
        let of_it: Vec<Ticket> = self.jobs.keys().filter(|(other, _)| *other == queue).copied().collect();
        for ticket in of_it {
            let said = starts.get(&ticket.1);
            let start = said.and_then(|said| said.at_ms).map(Time::from_millis).filter(|_| self.by_queue);
            self.submit(now, ticket, start);
            let Some(known) = self.jobs.get_mut(&ticket).filter(|k| k.submitted && !k.started) else { continue };
            let job = known.id;
            // A missing estimate does not mean "now": the last estimate stands until its time comes.
            if start.is_some() && known.start != start && known.incoming.is_some() {
                known.start = start;
                self.machine.handle(now, Event::Estimated { job, start });
            }
            if said.is_some_and(|said| said.kept_waiting)
                && !matches!(self.machine.phase(job), Some(Phase::Arrived { .. }))
            {
                self.started(now, ticket);
            }
        }
    }

    /// Whether a job may request space.
    pub fn wants_space(&self) -> bool {
        self.jobs.values().any(|known| known.submitted && !known.under_way)
    }

    /// Records the data that each command of the job brings.
    pub fn comes_in(&mut self, ticket: Ticket, owner: Caller, wanted: impl Iterator<Item = (StageInput, u64)>) {
        let Some(known) = self.jobs.get_mut(&ticket) else { return };
        let part = |(wanted, bytes)| Part { owner, wanted, coming: Coming::new(bytes) };
        known.parts = wanted.map(part).collect();
    }

    /// Jobs whose stage-in runs: promised, and not complete.
    pub fn coming(&self) -> Vec<(Ticket, Vec<Part>)> {
        let comes = |known: &Known| known.under_way && !known.settled && !known.parts.is_empty();
        let coming = self.jobs.iter().filter(|(_, known)| comes(known));
        coming.map(|(ticket, known)| (*ticket, known.parts.clone())).collect()
    }

    /// Updates the bytes still to come for a job.
    pub fn comes(&mut self, ticket: Ticket, parts: Vec<Part>) {
        let Some(known) = self.jobs.get_mut(&ticket).filter(|known| known.parts.len() == parts.len()) else { return };
        let left = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.coming.left()));
        known.parts = parts;
        self.ledger.comes(known.id, left);
    }

    pub fn arrived(&mut self, now: Time, ticket: Ticket, took_ms: Option<u64>) {
        let Some(known) = self.jobs.get_mut(&ticket) else { return };
        known.settled = true;
        let (job, took) = (known.id, Time::from_millis(took_ms.unwrap_or(0)));
        self.ledger.settle(job);
        let late = self.machine.stats().too_late_total;
        self.machine.handle(now, Event::Arrived { job, took });
        let lost = self.machine.stats().too_late_total.since(late);
        if lost > Time::ZERO {
            let waited = if lost < SHOWN_MIN { "less than a second".into() } else { span(lost) };
            known.verdict = Some(format!("its data came too late: the job waited {waited} for them"));
        }
    }

    pub fn failed(&mut self, now: Time, ticket: Ticket) {
        let Some(known) = self.jobs.get_mut(&ticket) else { return };
        known.settled = true;
        let job = known.id;
        self.ledger.settle(job);
        self.machine.handle(now, Event::Failed { job, permanent: true });
    }

    pub fn started(&mut self, now: Time, ticket: Ticket) {
        let Some(known) = self.jobs.get_mut(&ticket).filter(|known| !known.started) else { return };
        known.started = true;
        let phase = self.machine.phase(known.id);
        self.machine.handle(now, Event::Started(known.id));
        if let Some(Phase::Arrived { at }) = phase {
            let idle = now.since(at);
            let early = if idle > self.config.early_max { "too early: " } else { "" };
            known.verdict = Some(format!("its data came {early}{} before its start", span(idle)));
        }
    }

    pub fn gone(&mut self, now: Time, ticket: Ticket) {
        let Some(known) = self.jobs.remove(&ticket) else { return };
        self.tickets.remove(&known.id);
        self.machine.handle(now, Event::Gone(known.id));
        self.asking.retain(|(job, _)| *job != known.id);
        self.ledger.settle(known.id);
    }

    /// Time at which the stage-in should begin for a job that starts then.
    pub fn due(&mut self, incoming: &Incoming, start: Time) -> Time {
        let source = self.source(&incoming.source);
        self.machine.due(source, &incoming.load(), start)
    }

    pub fn stats(&self) -> Stats {
        self.machine.stats()
    }

    /// Rates that changed since the last call.
    pub fn new_rates(&mut self) -> Vec<(String, u64)> {
        let mut changed = Vec::new();
        for (id, rate) in self.machine.rates().iter() {
            if self.saved.insert(id, rate) != Some(rate) {
                let name = self.sources.iter().find(|(_, other)| **other == id).map(|(name, _)| name.clone());
                changed.extend(name.map(|name| (name, rate)));
            }
        }
        changed
    }

    pub fn told(&self, now: Time, ticket: Ticket) -> Option<Arrival> {
        let known = self.jobs.get(&ticket)?;
        let incoming = known.incoming.clone()?;
        let source = self.sources.get(&incoming.source).copied();
        let free = source.and_then(|id| self.machine.rates().get(id)).unwrap_or(self.config.rate_unknown);
        let rate = incoming.load().mean_rate(free);
        let limited_by = incoming.limited_by.filter(|_| rate < free);
        let standing = known.verdict.clone().unwrap_or_else(|| self.standing(now, known));
        Some(Arrival { bytes: incoming.bytes, source: incoming.source, rate, limited_by, standing })
    }

    fn standing(&self, now: Time, known: &Known) -> String {
        let expected = known.start.map_or_else(String::new, |start| {
            let (source, load) = (self.sources.get(known.source_name()), known.load());
            let transfer =
                source.map_or(Time::ZERO, |id| self.machine.rates().transfer(*id, &load, self.config.rate_unknown));
            format!("; the queue starts it in {}, they take about {}", span(start.since(now)), span(transfer))
        });
        match self.machine.phase(known.id) {
            None => "its start is being requested from its queue".into(),
            Some(Phase::Waiting { due }) if known.start.is_none() => {
                format!("the queue has no start time for it yet; its data begin to come in {}", span(due.since(now)))
            }
            Some(Phase::Waiting { due }) => format!("its data begin to come in {}{expected}", span(due.since(now))),
            Some(Phase::Reserving) if known.no_room.is_some() => no_space(known, self.config.retry_after),
            Some(Phase::Reserving) => "space for its data is being set aside".into(),
            Some(Phase::Moving { since }) => {
                let why = match known.reason {
                    Some(Reason::Due { .. }) if known.start.is_some() => ", as it was due",
                    Some(Reason::StartUnknown) => ", since the queue has no start time for it",
                    Some(Reason::Waited) => ", the job waits for them",
                    _ => "",
                };
                format!("its data come since {}{why}", span(now.since(since)))
            }
            Some(Phase::Arrived { at }) if now.since(at) < SHOWN_MIN => "its data are there".into(),
            Some(Phase::Arrived { at }) => format!("its data are there since {}", span(now.since(at))),
            Some(Phase::GivenUp) => "its data do not come".into(),
        }
    }
}

impl Known {
    fn bytes(&self) -> u64 {
        self.incoming.as_ref().map_or(0, |incoming| incoming.bytes)
    }

    fn load(&self) -> Load {
        self.incoming.as_ref().map(Incoming::load).unwrap_or_default()
    }

    fn source_name(&self) -> &str {
        self.incoming.as_ref().map_or("", |incoming| &incoming.source)
    }
}

/// Formats a span for users, in whole seconds.
pub fn span(span: Time) -> String {
    show_span_s(span.0 / 1_000_000_000)
}
