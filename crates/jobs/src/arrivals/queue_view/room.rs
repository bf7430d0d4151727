//! Decides which due stage-ins begin, wait or are given up, by the free space.
//!
//! ```text
//!   promises (taken first) --> measure the space --> decide --> publish --> carry
//! ```
//! Between `decide` and `carry` no lock is held: jobs may change state or disappear.

use super::*;

/// Result of a measurement of the free space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Room {
    Space(Space),
    /// The free space is unknown: every request is granted.
    Unknown,
    /// No promise is possible now, for this reason.
    Shut(String),
}

/// Decision that is not carried out yet.
pub struct Decided {
    room: Room,
    /// Promises including those just granted.
    ledger: Ledger,
    answers: Vec<(JobId, u64, Answer)>,
}

impl Decided {
    /// Bytes promised by this node under this decision.
    pub fn promised(&self) -> u64 {
        self.ledger.promised()
    }

    /// Whether the decision makes new promises.
    pub fn grants(&self) -> bool {
        self.answers.iter().any(|(_, bytes, answer)| *answer == Answer::Granted && *bytes > 0)
    }
}

/// Reason why a job got no space at the last measurement.
#[derive(Clone, Debug)]
pub(super) enum NoRoom {
    /// Too little space: free bytes, bytes promised by this node, bytes promised by other nodes.
    Full {
        free: u64,
        here: u64,
        elsewhere: u64,
    },
    Shut(String),
}

impl NoRoom {
    fn of(room: &Room, here: u64) -> NoRoom {
        match room {
            Room::Space(Space { free, elsewhere }) => NoRoom::Full { free: *free, here, elsewhere: *elsewhere },
            Room::Unknown => NoRoom::Full { free: 0, here, elsewhere: 0 },
            Room::Shut(why) => NoRoom::Shut(why.clone()),
        }
    }
}

impl QueueView {
    /// Promises of this node. Take it before the space is measured, so that data landed since then are not counted as
    /// free.
    pub fn promises(&self) -> Ledger {
        self.ledger.clone()
    }

    /// Bytes promised by this node and not there yet.
    pub fn promised(&self) -> u64 {
        self.ledger.promised()
    }

    /// Whether a job has requested space since the last decision.
    pub fn asks(&self) -> bool {
        !self.asking.is_empty()
    }

    /// Collects the requests for space that are due, and decides which are granted.
    pub fn decide(&mut self, now: Time, promises: Ledger, room: Room) -> Decided {
        let left = match &room {
            Room::Space(space) => promises.room(*space),
            Room::Unknown | Room::Shut(_) => 0,
        };
        let waits = |known: &Known| known.no_room.is_some() && !known.under_way && known.bytes() <= left;
        if left > self.room && self.jobs.values().any(waits) {
            self.machine.handle(now, Event::SpaceFreed);
        }
        self.machine.handle(now, Event::Tick);
        self.take_actions();
        let mut ledger = promises;
        let mut answer = |job: JobId, bytes: u64| match &room {
            Room::Space(space) => ledger.ask(job, bytes, *space),
            Room::Shut(_) if bytes > 0 => Answer::Wait,
            Room::Unknown | Room::Shut(_) => {
                ledger.adopt(job, bytes);
                Answer::Granted
            }
        };
        let answers = self.asking.iter().map(|(job, bytes)| (*job, *bytes, answer(*job, *bytes))).collect();
        Decided { room, ledger, answers }
    }

    /// Carries out a decision.
    pub fn carry(&mut self, now: Time, decided: Decided) -> Vec<(Ticket, Action)> {
        let Decided { room, ledger, answers } = decided;
        self.room = if let Room::Space(space) = &room { ledger.room(*space) } else { 0 };
        let no_room = NoRoom::of(&room, ledger.promised());
        let waiting = self.jobs.values_mut().filter(|known| known.no_room.is_some() && !known.under_way);
        waiting.for_each(|known| known.no_room = Some(no_room.clone()));
        for (job, bytes, answer) in answers {
            self.asking.retain(|(other, _)| *other != job);
            let ticket = self.tickets.get(&job);
            let Some(known) = ticket.and_then(|ticket| self.jobs.get_mut(ticket)) else { continue };
            known.no_room = (answer != Answer::Granted).then(|| no_room.clone());
            let event = match answer {
                Answer::Granted => {
                    self.ledger.adopt(job, bytes);
                    Event::Reserved(job)
                }
                Answer::Wait => Event::NoSpace(job),
                Answer::Refused => Event::Refused(job),
            };
            self.machine.handle(now, event);
        }
        self.take_actions();
        std::mem::take(&mut self.todo)
    }

    /// Executes the actions of the machine.
    fn take_actions(&mut self) {
        while let Some(action) = self.machine.poll() {
            match action {
                just_in_time::Action::Reserve { job, bytes, .. } => self.asking.push((job, bytes)),
                just_in_time::Action::Begin { job, reason } => {
                    let Some(ticket) = self.tickets.get(&job).copied() else { continue };
                    let Some(known) = self.jobs.get_mut(&ticket) else { continue };
                    known.reason = Some(reason);
                    if !known.under_way {
                        known.under_way = true;
                        self.todo.push((ticket, Action::Begin));
                    }
                }
                just_in_time::Action::Release { job, .. } => {
                    self.asking.retain(|(other, _)| *other != job);
                    self.ledger.settle(job);
                }
                just_in_time::Action::GiveUp(job) => {
                    let Some(ticket) = self.tickets.get(&job).copied() else { continue };
                    if let Some(known) = self.jobs.get(&ticket).filter(|known| !known.under_way) {
                        self.todo.push((ticket, Action::GiveUp(no_space(known, self.config.retry_after))));
                    }
                }
            }
        }
    }
}

/// Sentence for the user: why the job got no space.
pub(super) fn no_space(known: &Known, retry_after: Time) -> String {
    let (free, here, elsewhere) = match &known.no_room {
        Some(NoRoom::Full { free, here, elsewhere }) => (*free, *here, *elsewhere),
        Some(NoRoom::Shut(why)) => return why.clone(),
        None => (0, 0, 0),
    };
    let of_others = match elsewhere {
        0 => String::new(),
        _ => format!(" ({} of them by other nodes)", show_bytes(elsewhere)),
    };
    let [needed, free, promised] = [known.bytes(), free, here.saturating_add(elsewhere)].map(show_bytes);
    let again = span(retry_after);
    format!(
        "no space for its data: {needed} needed, {free} free, of which {promised} are promised to other \
         jobs{of_others}; looked at again when some is freed, and every {again}"
    )
}
