//! The world: its events, and their delivery to the state machine.

use super::applications::{Doing, Observed};
use super::blocks::Playing;
use super::carry::Carry;
use super::checkpoints::{Checkpoint, Held};
use super::copies::Copies;
use super::files::{File, Maker, objects};
use super::jobs::{Running, single};
use super::load::{Answer, Job, Request};
use super::targets::{Target, Targets};
use super::watch::Watch;
use super::{FaultFigures, Figures, Setup};
use crate::event::{EventQueue, Rank};
use crate::generate::Rng;
use crate::patterns::recent::Recent;
use policy::burst::admission::Admission;
use policy::burst::buffer;
use policy::burst::control::Rates;
use policy::cache::FetchId;
use policy::layout::{Mirror, Object, ObjectState};
use policy::machine::Machine;
use policy::stripe::forks::{Chooser, Shape};
use policy::stripe::performance::Served;
use policy::stripe::profile::Counts;
use policy::volume::{Action, Event, FileEvent, Logged, Purpose, Ticket, Volume};
use policy::{FileId, TargetId, Time};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

/// Event of the world.
#[derive(Clone, Copy, Debug)]
pub(super) enum Happening {
    /// Deadline of the state machine.
    Timer,
    /// Next step of a change.
    Step(Ticket),
    /// A job is submitted, starts, or continues.
    Submit(usize),
    Start(usize),
    GoOn(usize),
    /// A piece of a checkpoint is written.
    Piece(u64),
    /// A tier may have become idle.
    Quiet(u8),
    /// A target fails, or an empty device replaces it.
    Fails(usize),
    Replaced(usize),
    /// Events of applications at given times: a write, a failure, an observation.
    Arrive(usize),
    AppFails(usize),
    Look,
    /// Events of block requests: a client issues the next, one is answered, pages enter the page cache.
    Issue,
    Answered(usize),
    Fetched(FetchId, TargetId),
}

impl Happening {
    /// Returns whether the event is load: no deadline, end of a tier's use, or step. The queue may never be empty,
    /// since deadlines set further deadlines. Without changes under way, steps belong to changes that were given up.
    fn is_load(&self) -> bool {
        !matches!(self, Happening::Timer | Happening::Quiet(_) | Happening::Step(_))
    }
}

pub(super) struct World<'a> {
    pub(super) setup: &'a Setup,
    pub(super) volume: Volume,
    said: VecDeque<Action>,
    pub(super) targets: Targets,
    pub(super) files: BTreeMap<FileId, File>,
    pub(super) maker: Maker,
    pub(super) events: EventQueue<Happening>,
    pub(super) now: Time,
    pub(super) carries: BTreeMap<Ticket, Carry>,
    pub(super) jobs: BTreeMap<usize, Running>,
    /// Checkpoints under way, and complete ones.
    pub(super) writing: BTreeMap<u64, Checkpoint>,
    pub(super) written: Vec<Checkpoint>,
    pub(super) held: BTreeMap<u64, Held>,
    /// Applications that write at given times, if they are the load.
    pub(super) doing: Option<Doing<'a>>,
    /// Requests for blocks, if they are the load.
    pub(super) playing: Option<Box<Playing<'a>>>,
    /// Whether a request is being issued piece by piece; the machine's actions are collected after the last piece.
    pub(super) issuing: bool,
    pub(super) copies: Copies,
    pub(super) numbers: u64,
    pub(super) begun: u64,
    pub(super) writes: u64,
    pub(super) rates: Rates,
    pub(super) replica_rate: f64,
    /// Files whose bytes were acknowledged, and were neither removed nor lost with a target.
    pub(super) acknowledged: BTreeSet<FileId>,
    pub(super) watch: Watch,
    pub(super) figures: Figures,
    pub(super) shared: Vec<FileId>,
    pub(super) reads: Cow<'a, [Request]>,
    /// Index of the next request.
    pub(super) next: usize,
    /// Times of the answers to the clients of a closed loop.
    pub(super) clients: BinaryHeap<Reverse<Time>>,
    todo: Vec<Job>,
    timer: Option<Time>,
    /// End of the applications' use of each tier.
    pub(super) used_until: [Time; 2],
    /// Time of the last request to a device.
    pub(super) used: Option<Time>,
    pub(super) busy: [bool; 2],
    /// Requests per file since the striper's last check.
    pub(super) asked: BTreeMap<FileId, Box<Counts>>,
    pub(super) recent: BTreeMap<FileId, Recent>,
    /// Work of the targets at the striper's last check.
    pub(super) told: Served,
    pub(super) prefer: BTreeMap<FileId, Box<Chooser>>,
    place: Shape,
    /// Number of changes begun that copy data.
    pub(super) changes: u64,
    pub(super) answered: Vec<Answer>,
    pub(super) fast_bytes: [u64; 2],
    /// Parts of the current access; the memory is reused.
    pub(super) parts: Vec<(Object, u64)>,
}

/// Runs the load until everything is at rest.
///
/// # Panics
/// Panics if a promise is broken.
pub fn run(mut setup: Setup) -> Figures {
    let targets = std::mem::take(&mut setup.targets);
    let mut world = World::new(&setup, targets);
    world.run();
    world.check_end();
    world.figures()
}

/// Runs applications that write at given times; returns the results of their checkpoints.
pub fn observe(mut setup: Setup) -> Observed {
    let targets = std::mem::take(&mut setup.targets);
    let mut world = World::new(&setup, targets);
    world.run();
    world.observed()
}

/// Runs the load; returns the events and actions of the state machine as well.
pub fn run_logged(mut setup: Setup) -> (Figures, Vec<Logged>) {
    let targets = std::mem::take(&mut setup.targets);
    let mut world = World::new(&setup, targets);
    world.volume.log.start();
    world.run();
    let log = world.volume.log.lines().to_vec();
    (world.figures(), log)
}

impl<'a> World<'a> {
    pub(super) fn new(setup: &'a Setup, targets: Vec<super::Target>) -> World<'a> {
        let fresh = |of: super::Target| Target::new(of.tier, of.bytes, of.device);
        let volume = Volume::new(setup.config.clone(), Time::ZERO);
        World {
            said: VecDeque::new(),
            targets: Targets {
                all: targets.into_iter().map(fresh).collect(),
                served: Served::default(),
                overhead: setup.overhead,
                delays: BTreeMap::new(),
            },
            files: BTreeMap::new(),
            maker: Maker::default(),
            events: EventQueue::new(),
            now: Time::ZERO,
            carries: BTreeMap::new(),
            jobs: BTreeMap::new(),
            writing: BTreeMap::new(),
            written: Vec::new(),
            doing: setup.applications.as_ref().map(Doing::new),
            playing: None,
            issuing: false,
            copies: Copies::default(),
            held: BTreeMap::new(),
            numbers: 0,
            begun: 0,
            writes: 0,
            rates: volume.admission().map_or(Rates { write: f64::MAX, demote: f64::MAX }, Admission::rates),
            replica_rate: f64::MAX,
            acknowledged: BTreeSet::new(),
            watch: Watch::default(),
            figures: Figures::default(),
            shared: Vec::new(),
            reads: setup.requests.as_deref().map_or_else(|| setup.load.requests().into(), Cow::Borrowed),
            next: 0,
            clients: (0..setup.clients).map(|_| Reverse(Time::ZERO)).collect(),
            todo: setup.load.jobs(),
            timer: None,
            used_until: [Time::ZERO; 2],
            used: None,
            busy: [false; 2],
            asked: BTreeMap::new(),
            recent: BTreeMap::new(),
            told: Served::default(),
            prefer: BTreeMap::new(),
            place: Shape { devices: setup.stripe_count.max(1), unit_bytes: setup.stripe_bytes },
            changes: 0,
            answered: Vec::new(),
            fast_bytes: [0; 2],
            parts: Vec::new(),
            volume,
            setup,
        }
    }

    pub(super) fn run(&mut self) {
        self.prepare_load();
        let mut rests = Time::ZERO;
        loop {
            self.drive();
            self.note_turns();
            if self.request() {
                rests = self.now + self.setup.rest;
            } else {
                let Some((now, what)) = self.events.pop() else { break };
                // Only the machine's own timers are left: they may continue for the time of `rest`.
                let idle = !what.is_load() && self.carries.is_empty();
                if !idle || !self.jobs.is_empty() {
                    rests = now + self.setup.rest;
                } else if now > rests && self.next == self.reads.len() && !self.events.any(Happening::is_load) {
                    break;
                }
                self.now = now;
                self.happens(what);
            }
            if self.setup.check {
                self.check();
            }
            let played = self.playing.as_ref().is_some_and(|playing| playing.is_over());
            if played || self.doing.as_ref().is_some_and(Doing::is_over) {
                break;
            }
        }
    }

    fn prepare_load(&mut self) {
        self.prepare_applications();
        self.prepare_blocks();
        for (bytes, shapes) in &self.setup.files {
            self.given(*bytes, shapes);
        }
        let sizes = self.sizes();
        for (n, bytes) in sizes.into_iter().enumerate() {
            // Every second file is not cut into segments: tiers ignore it, the striper does not.
            let tiered = n.is_multiple_of(2);
            let cuts = self.cuts_of(bytes, 1, tiered);
            if let Some(id) = self.create(bytes, &cuts, false, tiered) {
                self.shared.push(id);
            }
        }
        for (n, job) in self.todo.iter().enumerate() {
            self.events.push(job.submitted, Rank::Arrival, Happening::Submit(n));
        }
        let mut rng = Rng::new(self.setup.faults.seed, 3);
        for _ in 0..self.setup.faults.count {
            let at = Time(rng.below(self.setup.load.span.0.max(1)));
            let target = rng.below(self.targets.all.len() as u64) as usize;
            self.events.push(at, Rank::Timer, Happening::Fails(target));
        }
    }

    /// Returns the sizes of the files that readers read.
    fn sizes(&self) -> Vec<u64> {
        if !self.shared.is_empty() {
            return Vec::new();
        }
        if self.setup.requests.is_none() {
            return vec![self.setup.load.file_bytes; self.setup.load.files as usize];
        }
        let mut sizes: Vec<u64> = Vec::new();
        for request in self.reads.iter() {
            let file = request.file as usize;
            sizes.resize(sizes.len().max(file + 1), 1);
            sizes[file] = sizes[file].max(request.offset + request.bytes);
        }
        sizes
    }

    fn happens(&mut self, what: Happening) {
        match what {
            Happening::Timer => {
                // An earlier timer may have replaced this one.
                if self.timer == Some(self.now) {
                    self.timer = None;
                    self.tell_asked();
                    self.tell(Event::Tick);
                }
            }
            Happening::Step(ticket) => self.step(ticket),
            Happening::Submit(n) => {
                let job = self.todo[n];
                self.submit(n, job);
            }
            Happening::Start(n) => self.start(n),
            Happening::GoOn(n) => self.go_on(n),
            Happening::Piece(request) => self.write_next(request),
            Happening::Arrive(n) => self.arrive(n),
            Happening::AppFails(app) => self.app_fails(app),
            Happening::Look => self.look(),
            Happening::Quiet(tier) => self.quiet(tier),
            Happening::Issue => self.issue(),
            Happening::Answered(request) => self.answered(request),
            Happening::Fetched(id, target) => self.fetched(id, target),
            Happening::Fails(target) => self.fails(target),
            Happening::Replaced(target) => {
                self.targets.all[target].up = true;
                self.tell(Event::TargetReturned(TargetId(target as u16)));
            }
        }
    }

    /// Passes an event to the state machine; its actions are carried out after the event.
    pub(super) fn tell(&mut self, event: Event) {
        self.volume.handle(self.now, event);
        if !self.issuing {
            self.said.extend(self.volume.drain());
        }
    }

    /// Carries out the machine's actions, and sets the timer for its next deadline.
    pub(super) fn drive(&mut self) {
        self.said.extend(self.volume.drain());
        while let Some(action) = self.said.pop_front() {
            match action {
                Action::Change(change) => self.begin(change),
                Action::Release { write, verdict } => self.released(write, verdict),
                Action::Prepare { request, direct } => self.prepare(request, direct),
                Action::SetRates(rates) => self.set_rates(rates),
                Action::SetReplicaRate(rate) => self.replica_rate = rate,
                Action::LookAtSpace => self.look_at_space(),
                Action::Place { shape, .. } => self.place = shape,
                Action::Prefer { file, by } => drop(self.prefer.insert(file, by)),
            }
        }
        // New requests set a deadline of the striper, also for files without earlier requests.
        let look_at = self.volume.stripes_look_at().filter(|_| !self.asked.is_empty());
        if let Some(at) = self.volume.next_deadline().into_iter().chain(look_at).min().map(|at| at.max(self.now))
            && self.timer.is_none_or(|set| at < set)
        {
            self.timer = Some(at);
            self.events.push(at, Rank::Timer, Happening::Timer);
        }
    }

    fn look_at_space(&mut self) {
        // A buffer on one device has exactly the space of its account.
        if self.doing.is_some() {
            return;
        }
        let on = |tier: u8| self.targets.all.iter().filter(move |target| target.tier == tier);
        let free: u64 = on(0).filter(|target| target.up).map(|target| target.bytes - target.used).sum();
        let (usable, whole) = (on(1).any(|target| target.up), on(1).all(|target| target.up));
        self.tell_buffer(buffer::Event::Capacity { usable, whole });
        self.tell_buffer(buffer::Event::Free { bytes: free as f64 });
    }

    /// Handles the failure of a target with all its data.
    fn fails(&mut self, at: usize) {
        if !self.targets.all[at].up {
            return;
        }
        self.figures.faults.push(FaultFigures { at_s: self.now.as_secs_f64(), target: at });
        let target = &mut self.targets.all[at];
        (target.up, target.used, target.failures) = (false, 0, target.failures + 1);
        self.events.push(self.now + self.setup.faults.replaced_after, Rank::Timer, Happening::Replaced(at));
        let lost = TargetId(at as u16);
        self.copies_lost_with(lost);
        let hit: Vec<FileId> =
            self.files.iter().filter(|(_, file)| file.targets().contains(&lost)).map(|(id, _)| *id).collect();
        for id in hit {
            let Some(file) = self.files.get_mut(&id) else { continue };
            file.was_hit = true;
            let segments = file.mirrors.iter_mut().flat_map(|(_, mirror)| &mut mirror.segments);
            for object in segments.flat_map(|segment| &mut segment.objects).filter(|object| object.target == lost) {
                object.state = ObjectState::Partial;
            }
            if file.intact().next().is_some() || file.source {
                self.tell_file(id, FileEvent::Complained(lost));
                self.tell_lies(id);
                continue;
            }
            // Its only copy was there, so it cannot be restored.
            self.figures.lost_files += 1;
            match self.checkpoint_of(id) {
                Some(request) => self.give_up(request),
                None => self.remove(id),
            }
        }
    }

    /// Returns the segments of a file of `bytes` bytes on a tier.
    pub(super) fn cuts_of(&self, bytes: u64, tier: u8, tiered: bool) -> Vec<(u64, u64, u8)> {
        let len = if tiered && self.setup.config.tiers.is_some() { self.setup.segment_bytes } else { bytes };
        (0..bytes.div_ceil(len.max(1))).map(|n| (n * len, ((n + 1) * len).min(bytes), tier)).collect()
    }

    /// Creates a mirror and takes its space; `None` if there is too little.
    fn mirror(&mut self, bytes: u64, cuts: &[(u64, u64, u8)], shape: Shape) -> Option<Mirror> {
        let mirror = self.maker.mirror(&mut self.targets, cuts, shape, &[])?;
        let placed: Vec<_> = objects(&mirror, bytes).collect();
        self.targets.take_all(&placed).then_some(mirror)
    }

    /// Creates a file of the setup, which stays open all the time.
    fn given(&mut self, bytes: u64, shapes: &[Shape]) {
        let purposes = std::iter::once(Purpose::Data).chain(std::iter::repeat(Purpose::Fork));
        let mirror = |(shape, purpose)| Some((purpose, self.mirror(bytes, &[(0, bytes, 1)], shape)?));
        let mirrors = shapes.iter().copied().zip(purposes).filter_map(mirror).collect();
        self.numbers += 2;
        let id = FileId(self.numbers);
        self.files.insert(id, File { bytes, was_hit: false, users: 1, mirrors, source: false, tiered: false });
        self.shared.push(id);
        self.tell_lies(id);
    }

    /// Creates a file with its data; `None` if there is too little space.
    pub(super) fn create(&mut self, bytes: u64, cuts: &[(u64, u64, u8)], source: bool, tiered: bool) -> Option<FileId> {
        self.numbers += 2;
        let id = FileId(self.numbers);
        self.create_as(id, bytes, cuts, source, tiered)?;
        self.acknowledged.insert(id);
        Some(id)
    }

    pub(super) fn create_as(
        &mut self,
        id: FileId,
        bytes: u64,
        cuts: &[(u64, u64, u8)],
        source: bool,
        tiered: bool,
    ) -> Option<()> {
        let mirror = self.mirror(bytes, cuts, self.place)?;
        self.files.insert(id, single(bytes, mirror, source, tiered && self.setup.config.tiers.is_some()));
        self.tell_lies(id);
        Some(())
    }

    pub(super) fn remove(&mut self, id: FileId) {
        self.acknowledged.remove(&id);
        self.fail_all(id);
        self.copies_gone_with(id);
        if let Some(file) = self.files.remove(&id) {
            let gone = file.mirrors.iter().flat_map(|(_, mirror)| objects(mirror, file.bytes)).collect();
            self.free(gone);
        }
        self.asked.remove(&id);
        self.recent.remove(&id);
        self.prefer.remove(&id);
        self.tell_file(id, FileEvent::Removed);
    }

    pub(super) fn tell_file(&mut self, id: FileId, event: FileEvent) {
        self.tell(Event::File(id, event));
    }

    pub(super) fn tell_lies(&mut self, id: FileId) {
        if let Some(file) = self.files.get(&id) {
            let lies = file.lies(&self.targets);
            self.tell_file(id, FileEvent::LaidOut(lies));
        }
    }
}
