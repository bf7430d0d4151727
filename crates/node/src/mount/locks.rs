//! Calls for locks, where several nodes have the volume: driver of `policy::cluster::locks`.
//!
//! ```text
//!   SETLK, SETLKW, GETLK, FLUSH, RELEASE ──> Asking ── Ask ──> slow pool ──> File::lock ──> the shared file system
//!                                              ^   └── Refuse, GiveUp ──> the answer            │
//!                                              └──────────── Refused, Ended, Freed ────────────┘
//! ```
//! On a volume of one node the kernel keeps locks by itself, and none of these calls arrive.

use super::interrupted::{Wait, waits};
use super::slow::Slow;
use crate::{Error, Result};
use engine::file::{File, InTheWay, Locked, Owner, Wanted};
use meta::namespace::NodeId;
use meta::stub::locks::{Bytes, Kind};
use object::admission::{Admission, Held};
use object::workers::Periodic;
use parking_lot::Mutex;
use policy::Time;
use policy::cluster::locks::{Action, Asking, Call, Config, Event};
use policy::machine::Machine;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Limit of calls at the same time, of all users; one user alone has half of seven eighths. A guess: more than a node
/// has processes at work.
const CALLS_MAX: u64 = 2048;
/// Limit of recorded ranges and descriptors. A guess: some MiB.
const LOCKED_MAX: u64 = 1 << 16;

/// Kind of call.
#[derive(Clone, Debug)]
pub enum What {
    /// Take or release a lock.
    Set(Wanted),
    /// Find a conflicting lock.
    Test(Owner, Bytes, Kind),
    /// Release all locks of an owner.
    Close(Owner),
}

/// Process that makes a call.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    pub uid: u32,
    /// Thread of the caller.
    pub thread: u32,
    /// Whether to wait for the lock.
    pub waits: bool,
}

/// Receiver of the result; of a test, the conflicting lock.
pub type Done = Box<dyn FnOnce(Result<Option<InTheWay>, Errno>) + Send>;

/// Lock calls of a mount.
pub struct Locks {
    state: Mutex<State>,
    slow: Arc<Slow>,
    /// Reports deadlines of the state machine.
    timer: Periodic,
    began: Instant,
    calls: Arc<Admission>,
    locked: Arc<Admission>,
    /// Open files, one for each owner of locks.
    descriptors: Arc<Admission>,
}

struct State {
    asking: Asking,
    pending: BTreeMap<Call, Pending>,
    next: u64,
    ended: bool,
}

struct Pending {
    id: NodeId,
    file: Arc<File>,
    caller: Caller,
    what: What,
    done: Done,
    _held: Held,
}

impl Locks {
    /// Starts without calls. `descriptors`: admission of open files.
    pub fn new(slow: Arc<Slow>, descriptors: Arc<Admission>) -> Arc<Locks> {
        let (asking, pending) = (Asking::new(Config::default()), BTreeMap::new());
        let state = State { asking, pending, next: 1, ended: false };
        Arc::new_cyclic(|me: &Weak<Locks>| Locks {
            state: Mutex::new(state),
            timer: slow.periodic({
                let me = me.clone();
                move || me.upgrade()?.keep_time()
            }),
            slow,
            began: Instant::now(),
            calls: Admission::new(CALLS_MAX, CALLS_MAX / 8),
            locked: Admission::new(LOCKED_MAX, LOCKED_MAX / 8),
            descriptors,
        })
    }

    fn now(&self) -> Time {
        Time(self.began.elapsed().as_nanos() as u64)
    }

    /// Handles a call of a user. A call that releases locks is never refused.
    pub fn call(self: &Arc<Self>, caller: Caller, id: NodeId, file: Arc<File>, what: What, done: Done) {
        let gives = matches!(what, What::Close(_) | What::Set(Wanted { kind: None, .. }));
        let held = match self.calls.take(caller.uid, 1) {
            Ok(held) => held,
            Err(_) if gives => self.calls.force(caller.uid, 1),
            Err(_) => return done(Err(Errno::NOLCK)),
        };
        // A thread whose interruption is invisible here must not wait: no signal would end the wait.
        let waits = caller.waits && waits(caller.thread) != Wait::Unseen;
        let mut state = self.state.lock();
        if state.ended {
            drop(state);
            return done(Err(Errno::IO));
        }
        let call = Call(state.next);
        state.next += 1;
        state.pending.insert(call, Pending { id, file, caller, what, done, _held: held });
        drop(state);
        self.happened(Event::Came { call, file: id, user: caller.uid, waits });
    }

    /// Passes an event to the state machine and executes its actions.
    fn happened(self: &Arc<Self>, event: Event) {
        let mut state = self.state.lock();
        let now = self.now();
        let before = state.asking.next_deadline();
        state.asking.handle(now, event);
        let actions: Vec<Action> = state.asking.drain().collect();
        let due = state.asking.next_deadline().filter(|due| before.is_none_or(|before| *due < before));
        drop(state);
        if let Some(due) = due {
            // A failure to start a thread has been logged; the next event starts it.
            drop(self.timer.wake_in(Duration::from_nanos(due.since(now).0)));
        }
        actions.into_iter().for_each(|action| self.carry(action));
    }

    fn carry(self: &Arc<Self>, action: Action) {
        match action {
            Action::Ask { call } => {
                let Some((_, _, caller, _)) = self.pending(call) else { return };
                if caller.waits && waits(caller.thread) == Wait::Interrupted {
                    self.end(call, Err(Errno::INTR));
                    return self.happened(Event::Ended { call });
                }
                let locks = self.clone();
                // The queue cannot overflow, since each call is in it once, and the number of calls is limited.
                if self.slow.push_now(caller.uid, Box::new(move || locks.ask(call))).is_err() {
                    self.end(call, Err(Errno::IO));
                    self.happened(Event::Ended { call });
                }
            }
            Action::Refuse { call } => drop(self.end(call, Err(Errno::AGAIN))),
            Action::GiveUp { call } => drop(self.end(call, Err(Errno::TIMEDOUT))),
        }
    }

    fn pending(&self, call: Call) -> Option<(NodeId, Arc<File>, Caller, What)> {
        let state = self.state.lock();
        state.pending.get(&call).map(|of| (of.id, of.file.clone(), of.caller, of.what.clone()))
    }

    /// Calls the file, on the slow pool.
    fn ask(self: &Arc<Self>, call: Call) {
        let Some((id, file, caller, what)) = self.pending(call) else { return };
        let admit = || {
            let descriptor = self.descriptors.take(caller.uid, 1).map_err(|_| Error::from(Errno::NOLCK))?;
            let locked = self.locked.take(caller.uid, 1).map_err(|_| Error::from(Errno::NOLCK))?;
            Ok((locked, descriptor))
        };
        let (answer, frees) = match &what {
            What::Set(wanted) => match file.lock(wanted, &admit) {
                Ok(Locked::Refused(refusal)) => return self.happened(Event::Refused { call, refusal }),
                Ok(Locked::Done) => (Ok(None), wanted.kind != Some(Kind::Exclusive)),
                Err(error) => (Err(error.errno()), false),
            },
            What::Test(owner, bytes, kind) => {
                (file.in_the_way(*owner, bytes, *kind).map_err(|error| error.errno()), false)
            }
            What::Close(owner) => {
                file.give_locks_back(*owner);
                (Ok(None), true)
            }
        };
        let ended = self.end(call, answer.clone());
        if let (What::Set(Wanted { kind: Some(_), owner, .. }), Ok(_)) = (&what, &answer) {
            if !ended {
                file.lock_given_up(*owner);
            }
            if let Err(error) = file.restore_locks(*owner) {
                tracing::debug!("a lock that came too late stays until its file is closed: {error}");
            }
        }
        self.happened(Event::Ended { call });
        if frees {
            self.happened(Event::Freed { file: id });
        }
    }

    /// Answers a call, unless it was answered already.
    fn end(&self, call: Call, answer: Result<Option<InTheWay>, Errno>) -> bool {
        let mut state = self.state.lock();
        let Some(pending) = state.pending.remove(&call) else { return false };
        drop(state);
        match (&pending.what, &answer) {
            (What::Set(wanted), Err(_)) => pending.file.lock_not_taken(wanted.owner),
            (What::Set(wanted), Ok(_)) if wanted.kind.is_some() => pending.file.lock_answered(wanted),
            _ => {}
        }
        (pending.done)(answer);
        true
    }

    /// Reports deadlines that have passed. Returns the time until the next one, while there are calls.
    fn keep_time(self: &Arc<Self>) -> Option<Duration> {
        self.happened(Event::Tick);
        let state = self.state.lock();
        let due = state.asking.next_deadline().filter(|_| !state.pending.is_empty())?;
        Some(Duration::from_nanos(due.since(self.now()).0))
    }

    /// Ends all calls.
    pub fn end_all(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        let pending = std::mem::take(&mut state.pending);
        drop(state);
        pending.into_values().for_each(|pending| (pending.done)(Err(Errno::IO)));
    }
}
