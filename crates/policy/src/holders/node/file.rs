//! One file of a node: its hold, what the engine wants, and the task under way.

use super::{Config, Mode, Permit, Request, Use};
use crate::holders::table::Hold;
use crate::time::Time;
use std::collections::BTreeSet;

/// Search of the newest generation by names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Find {
    /// Read the pointer.
    Pointer,
    /// Read the record of this generation, which is the newest.
    Newest(u64),
    /// Read the record of this generation, with the stamp that the pointer has.
    Base(u64, Option<u64>),
    /// The record of this generation is known; read the next.
    Next(u64),
    /// The record of this generation is gone: list, for a higher one.
    List(u64),
}

/// Reason for a search or a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    /// The node has a hold.
    Hold,
    /// The node takes a provisional hold.
    Provisional,
    /// The file is unsettled.
    Settle,
    /// The engine changes the layout.
    Change,
}

/// A claim under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Claiming {
    pub(super) purpose: Purpose,
    pub(super) number: u64,
    /// Generation to be published.
    pub(super) generation: u64,
    /// Whether the table has the claim.
    pub(super) granted: bool,
    /// Whether the file has to be settled from its objects, and whether that was done.
    pub(super) unsettled: bool,
    pub(super) settled: bool,
    /// Whether this node cannot settle the file now, and leaves it to others.
    pub(super) gives_up: bool,
    /// Whether the engine made its change.
    pub(super) changed: bool,
    /// Whether this node made the generation.
    pub(super) made: bool,
    /// The newest generation in the end.
    pub(super) newest: u64,
}

/// Stage of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Ask,
    Drain,
    Settle,
    SettleFromObjects,
    Change,
    Publish,
    Point,
    Finish,
    Tidy,
}

/// Task under way. Each is one step, repeated until it is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Task {
    #[default]
    Idle,
    /// Lower the hold to this mode: wait for operations, set the size.
    Drain(Option<Mode>),
    Settle(Option<Mode>),
    /// Report a lowered hold.
    Lower,
    Admit {
        number: u64,
        writes: bool,
    },
    /// Take an exclusive hold under this number.
    Take(u64),
    Find(Find, Purpose),
    /// Look for the mark of a truncation before a provisional hold.
    Whole,
    /// Publish this generation unchanged for a provisional hold.
    Fence(u64),
    Claim(Stage, Claiming),
    /// Find the newest generation again under the claim.
    Check(Find, Claiming),
}

/// First use of a new hold. A recall waits for it, so that nodes do not take a file from each other without use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum FirstUse {
    /// The hold is new.
    Awaited,
    /// The engine may begin until this time.
    Until(Time),
    #[default]
    Over,
}

/// Whether a file is known to be empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum New {
    #[default]
    No,
    /// This node has created it: an admission until this time may show that.
    MadeUntil(Time),
    /// It is empty under the present hold, and was not used.
    Yes,
}

impl New {
    /// The hold ends under which the file is known to be empty.
    fn ends(&mut self) {
        if *self == New::Yes {
            *self = New::No;
        }
    }
}

/// Request to lower a hold that the table has not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lowered {
    pub(super) number: u64,
    /// Mode that remains.
    pub(super) mode: Option<Mode>,
    /// Generation that was used.
    pub(super) generation: Option<u64>,
}

/// State of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct File {
    handles: u32,
    /// Time of the last close.
    closed: Option<Time>,
    pub(super) hold: Option<Hold>,
    /// The highest mode that the table may show for the hold.
    shown: Option<Mode>,
    /// Whether the hold was admitted for `Read`. In a lower mode it still gives no right to write: other readers may
    /// still cache. Only the admission of a writer shows that all have lowered theirs.
    only_reads: bool,
    pub(super) provisional: bool,
    /// Generation that the operations use.
    pub(super) layout: Option<u64>,
    /// Generation that the table named at the admission; 0: none.
    pub(super) hint: u64,
    /// Whether the table named it as the newest, and no search has begun since.
    pub(super) newest: bool,
    /// Whether operations must not begin.
    pub(super) blocked: bool,
    pub(super) wants: BTreeSet<Use>,
    recall: Option<Mode>,
    pub(super) first_use: FirstUse,
    /// Hold that the table has to lower.
    pub(super) owes: Option<Lowered>,
    pub(super) task: Task,
    /// Whether the step of the task is under way.
    pub(super) pending: bool,
    pub(super) retry: Option<Time>,
    /// Number of requests in a row that other nodes kept from their end.
    refused: u32,
    new: New,
}

/// Requests for the same between two messages that recall the holders. Four take as long as the usual pause.
const RECALL_EVERY: u32 = 4;

impl File {
    pub(super) fn opened(&mut self) {
        self.handles += 1;
        self.closed = None;
    }

    /// This node has created the file.
    pub(super) fn made(&mut self, until: Time) {
        self.opened();
        self.new = New::MadeUntil(until);
    }

    /// The file had no holder before the present hold.
    pub(super) fn was_unheld(&mut self, now: Time) {
        let exclusive = self.hold.is_some_and(|hold| hold.mode == Mode::Exclusive);
        if exclusive && matches!(self.new, New::MadeUntil(until) if now < until) {
            (self.new, self.layout) = (New::Yes, Some(0));
        }
    }

    pub(super) fn take_new(&mut self) -> bool {
        std::mem::take(&mut self.new) == New::Yes
    }

    pub(super) fn closed(&mut self, now: Time) {
        self.handles = self.handles.saturating_sub(1);
        self.closed = (self.handles == 0).then_some(now);
        if self.handles == 0 {
            self.wants.clear();
        }
        if self.handles == 0 && self.hold.is_some_and(|hold| hold.mode == Mode::Open) {
            self.release();
        }
    }

    pub(super) fn want(&mut self, usage: Use) {
        self.wants.insert(usage);
    }

    /// Sets the pause before the next request for the same: from a sixteenth of the usual pause, in which a recall takes
    /// effect on an idle network, up to the usual one. Returns whether the holders are to be recalled now.
    pub(super) fn refused(&mut self, now: Time, pause: Time) -> bool {
        let recalls = self.refused.is_multiple_of(RECALL_EVERY);
        self.retry = Some(now + Time((pause.0 / 16) << self.refused.min(4)));
        self.refused += 1;
        recalls
    }

    /// The table served what was requested.
    pub(super) fn accepted(&mut self) {
        self.refused = 0;
    }

    /// Ends all rights and tasks; a claim ends in the table. While the file is open, its hold keeps the objects.
    pub(super) fn gone(&mut self) {
        let kept = self.hold.filter(|_| self.handles > 0).map(|hold| Hold { mode: Mode::Open, ..hold });
        let mode = kept.map(|hold| hold.mode);
        let lowered = self.hold.map(|hold| Lowered { number: hold.number, mode, generation: None });
        self.task = match self.task {
            // Others that have the removed file open learn the generation that its objects belong to.
            Task::Claim(_, claiming) | Task::Check(_, claiming) if claiming.granted => {
                let newest = if claiming.made { claiming.newest } else { claiming.generation - 1 };
                Task::Claim(Stage::Finish, Claiming { made: false, settled: false, newest, ..claiming })
            }
            _ => Task::Idle,
        };
        let (handles, closed, owes) = (self.handles, self.closed, lowered.or(self.owes));
        *self = File { handles, closed, owes, task: self.task, hold: kept, shown: mode, ..File::default() };
    }

    pub(super) fn recalled(&mut self, number: u64, mode: Mode) {
        if self.hold.is_some_and(|hold| hold.number == number) {
            self.recall = Some(self.recall.map_or(mode, |before| before.min(mode)));
            if self.task == Task::Idle {
                self.retry = None;
            }
        }
    }

    /// Whether the file is closed and only its hold is left.
    pub(super) fn is_unused(&self) -> bool {
        self.closed.is_some() && self.recall.is_none() && self.is_releasable()
    }

    /// Recalls a hold that is not used.
    pub(super) fn release(&mut self) {
        self.recall = Some(Mode::Open);
    }

    /// Takes the hold that the table has admitted.
    pub(super) fn granted(&mut self, mode: Mode, number: u64, (generation, newest): (u64, bool), caches: bool) {
        // A cache is filled after the admission.
        self.new.ends();
        let same = self.layout.filter(|_| !mode.caches() && self.hold.is_some_and(|hold| hold.mode > Mode::Open));
        (self.shown, self.only_reads) = (Some(mode), mode == Mode::Read);
        let mode = if mode.caches() && !caches { Mode::Write } else { mode };
        self.hold = Some(Hold { mode, number });
        // A file without objects has no record.
        let known = if newest && generation == 0 { Some(0) } else { same };
        (self.layout, self.hint, self.newest, self.provisional) = (known, generation, newest, false);
        self.first_use = FirstUse::Awaited;
        if self.recall == Some(Mode::Write) {
            self.recall = None;
        }
    }

    pub(super) fn granted_provisionally(&mut self, number: u64, generation: u64) {
        self.hold = Some(Hold { mode: Mode::Write, number });
        (self.layout, self.provisional, self.shown) = (Some(generation), true, None);
        self.only_reads = false;
    }

    /// The session has begun: the table shows what was registered.
    pub(super) fn registered(&mut self) {
        self.provisional = false;
        self.shown = self.shown.max(self.hold.map(|hold| hold.mode));
        self.retry = None;
    }

    /// A mode that caches ends by itself.
    pub(super) fn stop_caching(&mut self) {
        if let Some(hold) = self.hold.as_mut().filter(|hold| hold.mode.caches()) {
            hold.mode = Mode::Write;
            self.new.ends();
        }
    }

    /// A request under way has no answer.
    pub(super) fn lose_request(&mut self) {
        let asks = matches!(
            self.task,
            Task::Lower | Task::Admit { .. } | Task::Take(_) | Task::Claim(Stage::Ask | Stage::Finish, _)
        );
        if asks {
            self.forget_step();
        }
    }

    /// The step under way has no result.
    pub(super) fn forget_step(&mut self) {
        self.pending = false;
        match self.task {
            Task::Claim(Stage::Ask, claiming) if claiming.granted => {}
            Task::Claim(Stage::Ask, _) | Task::Admit { .. } | Task::Take(_) => self.task = Task::Idle,
            _ => {}
        }
    }

    /// Registers hold and claim; `None` if the table needs to show nothing. A released hold ends with that.
    pub(super) fn registration(&mut self, key: u64) -> Option<Request> {
        let claim = match self.task {
            Task::Claim(Stage::Point | Stage::Finish | Stage::Tidy, _) => None,
            Task::Claim(_, claiming) | Task::Check(_, claiming) if claiming.granted => {
                Some((claiming.number, claiming.generation))
            }
            _ => None,
        };
        let shown = self.hold.is_some() || claim.is_some() || self.owes.is_some();
        if self.hold.is_none() && self.owes.take().is_some() && self.task == Task::Lower {
            self.task = Task::Idle;
        }
        shown.then_some(Request::Reclaim { key, hold: self.hold, claim })
    }

    pub(super) fn permit(&self, usage: Use) -> Option<Permit> {
        let (hold, generation) = (self.hold?, self.layout?);
        let (number, mode) = (hold.number, hold.mode);
        let permit = Permit { number, mode, generation, grows: !self.provisional };
        (self.serves(usage) && !self.blocked && self.lowers().is_none()).then_some(permit)
    }

    /// Whether the rights of the hold are enough for a use.
    pub(super) fn serves(&self, usage: Use) -> bool {
        let mode = self.hold.map_or(Mode::Open, |hold| hold.mode);
        let writes = matches!(mode, Mode::Write | Mode::Exclusive) && !self.only_reads;
        match usage {
            Use::Read => mode > Mode::Open,
            Use::Write => writes,
            Use::Grow => writes && !self.provisional,
            Use::Alone => mode == Mode::Exclusive,
            Use::Change => false,
        }
    }

    pub(super) fn is_valid(&self, permit: &Permit) -> bool {
        // A drain does not wait for readers, so the hold may have lost its rights since.
        let keeps = |mode: Mode| mode > Mode::Open && (!permit.mode.caches() || mode == permit.mode);
        let stays = |hold: Hold| hold.number == permit.number && keeps(hold.mode);
        self.hold.is_some_and(stays)
    }

    /// The mode to which a recall lowers the hold, if it is higher.
    pub(super) fn lowers(&self) -> Option<Option<Mode>> {
        let mode = self.recall.filter(|_| self.first_use == FirstUse::Over)?;
        let to = if self.handles == 0 { None } else { Some(mode) };
        let shown = self.shown.max(Some(self.hold?.mode));
        (to < shown).then_some(to)
    }

    /// Ends a recall that asks for nothing.
    pub(super) fn drop_recall(&mut self) {
        if self.first_use == FirstUse::Over {
            self.recall = None;
        }
    }

    /// The engine is asked to use the hold, at the latest until then.
    pub(super) fn offered(&mut self, until: Time) {
        if self.first_use == FirstUse::Awaited {
            self.first_use = FirstUse::Until(until);
        }
    }

    /// Ends the wait for the first use, if nothing is wanted or the time is over.
    pub(super) fn end_first_use(&mut self, now: Time) {
        let ends = match self.first_use {
            FirstUse::Awaited => !self.wants.iter().any(|usage| self.serves(*usage)),
            FirstUse::Until(until) => now >= until,
            FirstUse::Over => true,
        };
        if ends {
            self.first_use = FirstUse::Over;
        }
    }

    /// The operations have ended, and the size is set.
    pub(super) fn lower(&mut self, to: Option<Mode>) {
        if let Some(hold) = self.hold {
            let generation = self.layout.filter(|_| !self.provisional);
            self.owes = Some(Lowered { number: hold.number, mode: to, generation });
            self.hold = to.map(|mode| Hold { mode: mode.min(hold.mode), ..hold });
        }
        if to.is_none_or(|mode| mode == Mode::Open) {
            (self.layout, self.newest) = (None, false);
        }
        (self.shown, self.blocked, self.recall, self.provisional) = (to, false, None, false);
        self.first_use = FirstUse::Over;
        self.new.ends();
    }

    /// Recalls a hold that was not used for a while.
    pub(super) fn tick(&mut self, config: &Config, now: Time) {
        if self.hold.is_some() && self.closed.is_some_and(|closed| now >= closed + config.unused) {
            self.release();
        }
    }

    pub(super) fn deadline(&self, config: &Config) -> Option<Time> {
        let unused = self.closed.filter(|_| self.hold.is_some() && self.recall.is_none());
        let first = if let FirstUse::Until(until) = self.first_use { Some(until) } else { None };
        let first = first.filter(|_| self.recall.is_some() && self.task == Task::Idle);
        let unused = unused.map(|closed| closed + config.unused);
        self.retry.into_iter().chain(unused).chain(first).min().filter(|_| !self.pending)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.task != Task::Idle || self.pending
    }

    pub(super) fn is_releasable(&self) -> bool {
        self.hold.is_some() && !self.provisional && !self.is_busy() && self.owes.is_none()
    }

    pub(super) fn is_idle(&self) -> bool {
        let empty = self.hold.is_none() && self.wants.is_empty() && self.handles == 0 && self.owes.is_none();
        empty && self.task == Task::Idle && !self.pending
    }
}

#[cfg(test)]
impl File {
    pub(super) fn forget_times(&mut self, first: Time) {
        self.closed = self.closed.map(|_| first);
        if let FirstUse::Until(until) = &mut self.first_use {
            *until = first + Time(1);
        }
        self.retry = self.retry.map(|_| first + Time(1));
        self.refused = 0;
    }

    pub(super) fn repeat_now(&mut self) {
        self.retry = self.retry.map(|_| Time::ZERO);
        if let FirstUse::Until(until) = &mut self.first_use {
            *until = Time::ZERO;
        }
    }

    /// Whether the time of a repetition is awaited.
    pub(super) fn waits(&self) -> bool {
        self.retry.is_some() || (matches!(self.first_use, FirstUse::Until(_)) && self.recall.is_some())
    }
}
