//! A volume: the mechanisms that adapt it to its load as one machine.
//!
//! ```text
//!   files, targets, jobs, checkpoints --> burst  tiers  stripes  replicas  repair --> wants --> changes --> layout verbs
//!                                                                                   (who decides, one per file, in turn)
//!                                     <--------------------- Done ------------------------------'
//! ```
//! Each mechanism is a separate machine and requests changes of files. `changes` begins one change of a file at a
//! time, or of several of its segments. The table of [`ownership`] must give the file to the mechanism. The mechanisms
//! take turns, each with a limited number of changes under way. A request that cannot be met is reported to the
//! mechanism as a failure.
//!
//! Duties of the driver: it sends the layout of a file after each change of it, then answers each [`Action::Change`]
//! with [`Event::Done`], whatever the outcome.
//!
//! Invariant: no change takes away the last intact mirror of a file.

mod burst;
mod changes;
mod event;
mod file;
pub mod ownership;
mod repair;
mod replicas;
mod stripes;
#[cfg(test)]
mod tests;

pub use burst::{Config as BurstConfig, Stats as BurstStats};
pub use event::{Action, Change, Event, FileEvent, Lies, Mirror, Outcome, Purpose, Reason, Ticket, Verb};
pub use replicas::Config as ReplicasConfig;
pub use stripes::Config as StripesConfig;

use crate::burst::admission;
use crate::ids::{FileId, ObjectId};
use crate::machine::{self as contract, Log, Machine};
use crate::protect::failover;
use crate::protect::repair_order::Candidate;
use crate::protect::replica::Replication;
use crate::stripe::forks::Shape;
use crate::stripe::striper::{self, Striper};
use crate::tier::machine::{self, Reorganizer};
use crate::tier::yielding::Yielding;
use crate::tier::{Location, Move};
use crate::time::Time;
use burst::Burst;
use changes::{Ask, Changes, Next, Want, Wanted};
use file::File;
use ownership::{Aspect, Mechanism};
use repair::Repair;
use replicas::Replicas;
use std::collections::{BTreeMap, VecDeque};
use stripes::Stripes;

/// Limit of known files of which none is forgotten. A guess: some megabytes.
const FILES_MIN: usize = 1 << 14;

/// Mechanisms of a volume, with their configurations.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The burst buffer.
    pub burst: Option<BurstConfig>,
    /// Working-set reorganisation between two tiers.
    pub tiers: Option<machine::Config>,
    /// Adaptive striping of files.
    pub stripes: Option<StripesConfig>,
    /// Temporal replication, and failover.
    pub replicas: Option<ReplicasConfig>,
    /// Changes of one mechanism under way at a time.
    pub changes_max: usize,
    /// Whether damaged files are mended by changes of this machine.
    pub repairs: bool,
}

/// The machine that joins all mechanisms.
#[derive(Debug)]
pub struct Volume {
    files: BTreeMap<FileId, File>,
    burst: Option<Burst>,
    tiers: Option<Reorganizer>,
    stripes: Option<Stripes>,
    replicas: Option<Replicas>,
    repair: Repair,
    changes: Changes,
    changes_max: usize,
    repairs: bool,
    /// Number of known files above which files at rest are forgotten.
    forget_at: usize,
    says: VecDeque<Action>,
    /// Log of its events and actions, for tests.
    pub log: Log<Event, Action>,
    now: Time,
}

/// A line of the machine's log.
pub type Logged = contract::Logged<Event, Action>;

impl Volume {
    /// A volume without files.
    pub fn new(config: Config, now: Time) -> Volume {
        Volume {
            files: BTreeMap::new(),
            burst: config.burst.map(|burst| Burst::new(burst, now)),
            tiers: config.tiers.map(|tiers| Reorganizer::new(tiers, now)),
            stripes: config.stripes.map(|stripes| Stripes::new(stripes, now)),
            replicas: config.replicas.map(Replicas::new),
            repair: Repair::default(),
            changes: Changes::new(config.changes_max, config.repairs),
            changes_max: config.changes_max.max(1),
            repairs: config.repairs,
            forget_at: FILES_MIN,
            says: VecDeque::new(),
            log: Log::default(),
            now,
        }
    }

    /// The mechanism that decides an aspect of a file.
    pub fn owner(&self, file: FileId, aspect: Aspect) -> Option<Mechanism> {
        self.files.get(&file)?.owner(aspect)
    }

    /// Number of changes requested, and under way.
    pub fn pending(&self) -> (usize, usize) {
        self.changes.pending()
    }

    /// The devices of the tiers are known now: begins to reorganise.
    pub fn begin_tiers(&mut self, config: machine::Config, now: Time) {
        self.tiers = Some(Reorganizer::new(config, now));
    }

    /// Working-set reorganisation, if it is on.
    pub fn tiers(&self) -> Option<&Reorganizer> {
        self.tiers.as_ref()
    }

    /// The tiers' machine, to start its log.
    pub fn tiers_mut(&mut self) -> Option<&mut Reorganizer> {
        self.tiers.as_mut()
    }

    /// The striper, if there is one.
    pub fn striper(&mut self) -> Option<&mut Striper> {
        self.stripes.as_mut().map(|stripes| &mut stripes.striper)
    }

    /// Temporal replication, if it is on.
    pub fn replication(&self) -> Option<&Replication> {
        self.replicas.as_ref().map(|replicas| &replicas.replication)
    }

    /// Shape of a file's next segments: the striper's for this file, if no other mechanism decides on its width, else its
    /// shape for all new files. `None`: the volume's default.
    pub fn placement(&self, file: Option<FileId>) -> Option<Shape> {
        let is_striped = |file: &FileId| self.owner(*file, Aspect::Shape).is_none_or(|by| by == Mechanism::Stripes);
        self.stripes.as_ref()?.striper.placement(file.filter(is_striped))
    }

    /// Next look of the striper, if there is one. The requests to files are sent just before.
    pub fn stripes_look_at(&self) -> Option<Time> {
        self.stripes.as_ref().map(|stripes| stripes.look_at)
    }

    /// State of admission to the burst buffer, if there is one.
    pub fn admission(&self) -> Option<&admission::Admission> {
        self.burst.as_ref().map(|burst| &burst.admission)
    }

    /// Counters of the burst buffer, if there is one.
    pub fn burst_stats(&self) -> Option<BurstStats> {
        self.burst.as_ref().map(|burst| burst.stats)
    }

    /// Whether a write of a checkpoint may go on at once; if so it counts.
    pub fn admit(&mut self, now: Time, request: u64, len: u64) -> bool {
        self.burst.as_mut().is_none_or(|burst| burst.admission.admit(now, request, len))
    }

    fn file_event(&mut self, id: FileId, event: FileEvent) {
        match event {
            FileEvent::LaidOut(lies) => return self.laid_out(id, lies),
            FileEvent::Removed => return self.removed(id),
            _ => {}
        }
        let joins = matches!(event, FileEvent::Joins { .. });
        let file = if joins { Some(self.files.entry(id).or_default()) } else { self.files.get_mut(&id) };
        let Some(file) = file else { return };
        let by_tiers = file.owner(Aspect::Tier) == Some(Mechanism::Tiers);
        match event {
            FileEvent::Accessed { segment, region, bytes, ends_request } if by_tiers => {
                let location = Location { file: id.0, segment };
                self.tell_tiers(machine::Event::Access { location, region, bytes, ends_request });
            }
            FileEvent::Asked { counts, recent } => {
                if let Some(stripes) = &mut self.stripes {
                    stripes.asked(self.now, id, file.lies.users, counts, recent);
                }
            }
            FileEvent::Joins(request) => {
                file.checkpoint = true;
                if by_tiers {
                    self.tell_tiers(machine::Event::Removed(id.0));
                }
                if let Some(burst) = &mut self.burst {
                    burst.joins(request, id);
                }
            }
            FileEvent::Complained(target) if file.mirror_for(Purpose::Replica).is_some() => {
                if let Some(replicas) = &mut self.replicas {
                    let key = failover::Key { file: id, target };
                    replicas.failover.handle(self.now, failover::Event::Complained(key));
                }
            }
            FileEvent::Accessed { .. } | FileEvent::Complained { .. } => {}
            FileEvent::LaidOut(_) | FileEvent::Removed => {}
        }
    }

    fn laid_out(&mut self, id: FileId, lies: Lies) {
        let file = self.files.entry(id).or_default();
        file.lies = lies;
        if let Some(tiers) = self.tiers.as_mut().filter(|_| file.owner(Aspect::Tier) == Some(Mechanism::Tiers)) {
            for (segment, tier) in file.lies.segments.iter().enumerate() {
                let location = Location { file: id.0, segment: segment as u64 };
                let reached = !file.lies.away.contains(&location.segment);
                if tiers.is_away(location) == reached {
                    tiers.handle(self.now, machine::Event::Reach { location, reached });
                }
                if tiers.tier(location) != *tier && !tiers.is_moving(location) {
                    tiers.handle(self.now, machine::Event::Placed { location, tier: *tier });
                }
            }
        }
        self.mend(id);
        self.forget_those_at_rest();
    }

    /// A damaged file waits for its repair, unless a failover is about to mend it.
    fn mend(&mut self, id: FileId) {
        let fails_over = self.replicas.as_ref().is_some_and(|replicas| replicas.failover.is_at_work(id));
        match self.files.get(&id).filter(|file| self.repairs && file.is_damaged() && !fails_over) {
            Some(file) => self.repair.damaged(&Candidate {
                file: id,
                object: ObjectId(0),
                job_start: self.replication().and_then(|replication| replication.start_of(id)),
                healthy_copies: file.intact() as u32,
                bytes: file.lies.bytes,
            }),
            None => self.repair.whole(id),
        }
    }

    /// Memory is bounded by the files that are used, or that a mechanism has done something with.
    fn forget_those_at_rest(&mut self) {
        if self.files.len() < self.forget_at {
            return;
        }
        let Volume { files, tiers, stripes, replicas, changes, .. } = self;
        let inputs = replicas.as_ref().map(|replicas| replicas.replication.inputs()).unwrap_or_default();
        let known = |id: FileId| {
            let hot = tiers.as_ref().is_some_and(|tiers| tiers.remembers(id.0));
            hot || inputs.contains(&id)
                || stripes.as_ref().is_some_and(|stripes| stripes.striper.knows(id))
                || changes.knows(id)
        };
        files.retain(|id, file| !file.is_at_rest() || known(*id));
        self.forget_at = FILES_MIN.max(2 * self.files.len());
    }

    fn removed(&mut self, id: FileId) {
        if self.files.remove(&id).is_none() {
            return;
        }
        self.tell_tiers(machine::Event::Removed(id.0));
        if let Some(burst) = &mut self.burst {
            burst.removed(self.now, id);
        }
        self.tell_stripes(striper::Event::Gone(id));
        if let Some(replicas) = &mut self.replicas {
            replicas.removed(self.now, id);
        }
        self.repair.whole(id);
    }

    fn tell_tiers(&mut self, event: machine::Event) {
        if let Some(tiers) = &mut self.tiers {
            tiers.handle(self.now, event);
        }
    }

    fn tell_stripes(&mut self, event: striper::Event) {
        if let Some(stripes) = &mut self.stripes {
            stripes.striper.handle(self.now, event);
        }
    }

    fn tick(&mut self) {
        if let Some(burst) = &mut self.burst {
            burst.tick(self.now);
        }
        self.tell_tiers(machine::Event::Tick);
        if let Some(stripes) = &mut self.stripes {
            stripes.look(self.now, &self.files, |file| self.changes.is_busy(file));
        }
        if let Some(replicas) = &mut self.replicas {
            replicas.tick(self.now);
        }
        while let Some(id) = self.repair.again(self.now) {
            self.mend(id);
        }
    }

    /// Collects the requests of all mechanisms.
    fn collect(&mut self) {
        let (now, mut wanted) = (self.now, Vec::new());
        let burst = self.burst.as_mut().map(|burst| burst.collect(now, &mut self.says));
        let replicas = self.replicas.as_mut().map(|replicas| replicas.collect(now, &mut self.files));
        for ask in burst.into_iter().chain(replicas).flatten() {
            match ask {
                Ask::Want(of) => wanted.push(of),
                Ask::Withdraw(file, want) => self.changes.withdraw(file, want),
            }
        }
        if let Some(stripes) = &mut self.stripes {
            stripes.collect(&mut self.says, &mut wanted);
        }
        while let Some(action) = self.tiers.as_mut().and_then(Machine::poll) {
            self.tier_action(action, &mut wanted);
        }
        while let Some((file, intact)) = self.repair.next(self.changes_max) {
            let reason = Reason::Damaged { intact };
            wanted.push(Wanted { by: Mechanism::Repair, file, want: Want::Repair, reason });
        }
        wanted.into_iter().for_each(|of| self.changes.want(of));
    }

    /// Pace at which a change yields to applications. Only moves of tiers yield, since no application waits for them.
    fn pace(&self, of: &Wanted) -> Option<(Yielding, u64)> {
        let location = |segment| Location { file: of.file.0, segment };
        let tiers = self.tiers.as_ref()?;
        match (of.want, of.reason) {
            (Want::Move { segment, to }, Reason::Tier(reason)) => {
                tiers.yielding(&machine::Action::Move(Move { location: location(segment), to, reason }))
            }
            (Want::Copy(segment), _) => tiers.yielding(&machine::Action::Copy(location(segment))),
            _ => None,
        }
    }

    fn tier_action(&mut self, action: machine::Action, wanted: &mut Vec<Wanted>) {
        match action {
            machine::Action::Move(of) => wanted.push(Wanted {
                by: Mechanism::Tiers,
                file: FileId(of.location.file),
                want: Want::Move { segment: of.location.segment, to: of.to },
                reason: Reason::Tier(of.reason),
            }),
            machine::Action::Copy(location) => wanted.push(Wanted {
                by: Mechanism::Tiers,
                file: FileId(location.file),
                want: Want::Copy(location.segment),
                reason: Reason::Idle,
            }),
        }
    }

    /// Reports the end of a requested change to its mechanism.
    fn ended(&mut self, of: &Wanted, result: Outcome) {
        let (now, file) = (self.now, of.file);
        let made = matches!(result, Outcome::Made { .. });
        match (of.by, of.want) {
            (Mechanism::Burst, _) => {
                if let Some(burst) = &mut self.burst {
                    burst.ended(now, of, result, self.files.get(&file));
                }
            }
            (Mechanism::Tiers, Want::Move { segment, .. } | Want::Copy(segment)) => {
                let location = Location { file: file.0, segment };
                self.tell_tiers(match of.want {
                    _ if !made => machine::Event::Failed(location),
                    Want::Copy { .. } => machine::Event::Copied(location),
                    _ => machine::Event::Moved(location),
                });
            }
            (Mechanism::Stripes, _) => {
                let (bytes, took) = match result {
                    Outcome::Made { bytes, took } => (bytes, took),
                    Outcome::Failed | Outcome::Busy => (0, Time::ZERO),
                };
                self.tell_stripes(striper::Event::Ended { file, bytes, took });
            }
            (Mechanism::Repair, Want::Repair) => {
                self.repair.ended(now, file, made);
                if made {
                    self.mend(file);
                }
            }
            (Mechanism::Replicas | Mechanism::Repair, _) => {
                if let Some(replicas) = &mut self.replicas {
                    replicas.ended(now, of, made, self.files.get_mut(&file));
                }
                self.mend(file);
            }
            (Mechanism::Tiers | Mechanism::User, _) => {}
        }
    }

    /// The next action.
    fn next(&mut self) -> Option<Action> {
        loop {
            self.collect();
            if let Some(action) = self.says.pop_front() {
                return Some(action);
            }
            match self.changes.next(&self.files)? {
                Next::Begin(ticket, of, verb) => {
                    let pace = self.pace(&of);
                    return Some(Action::Change(Change {
                        ticket,
                        file: of.file,
                        verb,
                        by: of.by,
                        reason: of.reason,
                        pace,
                    }));
                }
                Next::Pointless(of) => self.ended(&of, Outcome::Made { bytes: 0, took: Time::ZERO }),
                Next::Refused(of) => self.ended(&of, Outcome::Failed),
                Next::Busy(of) => self.ended(&of, Outcome::Busy),
            }
        }
    }
}

impl Machine for Volume {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, now: Time, event: Event) {
        self.now = self.now.max(now);
        self.log.event(now, &event);
        match event {
            Event::File(file, event) => self.file_event(file, event),
            Event::Tiers(event) => self.tell_tiers(event),
            Event::Stripes(event) => self.tell_stripes(event),
            Event::Job(event) => {
                if let Some(replicas) = &mut self.replicas {
                    replicas.handle(self.now, event, &mut self.files);
                }
            }
            Event::TargetReturned(target) => {
                if let Some(replicas) = &mut self.replicas {
                    replicas.failover.handle(self.now, failover::Event::TargetReturned(target));
                }
            }
            Event::Checkpoint(event) => {
                if let Some(burst) = &mut self.burst {
                    for id in burst.handle(self.now, event) {
                        if let Some(file) = self.files.get_mut(&id) {
                            file.checkpoint = burst.holds(id);
                        }
                    }
                }
            }
            Event::Found { version, bytes, files } => {
                if let Some(burst) = &mut self.burst {
                    for id in &files {
                        self.files.entry(*id).or_default().checkpoint = true;
                    }
                    burst.found(self.now, version, bytes, files, &self.files);
                }
            }
            Event::Done { ticket, result } => {
                if let Some(of) = self.changes.ended(ticket) {
                    self.ended(&of, result);
                }
            }
            Event::Tick => self.tick(),
        }
    }

    fn poll(&mut self) -> Option<Action> {
        let action = self.next()?;
        self.log.action(&action);
        Some(action)
    }

    fn next_deadline(&self) -> Option<Time> {
        let known = [
            self.burst.as_ref().and_then(Burst::next_deadline),
            self.tiers.as_ref().and_then(Machine::next_deadline),
            self.stripes.as_ref().and_then(Stripes::next_deadline),
            self.replicas.as_ref().and_then(Replicas::next_deadline),
            self.repair.next_deadline(),
        ];
        known.into_iter().flatten().min()
    }
}
