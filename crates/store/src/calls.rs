//! Requests that another node serves: sent until an answer comes, served once, answered in one piece.
//!
//! ```text
//!   caller                              server
//!   Ask, Ask, ...       --------------> a thread
//!                   <------ Serves ---- is it being served, or how far
//!                   <------ Answer ---- kept for a while: it may get lost
//! ```
//! Each side gives up after [`SILENT`] without a message from the other. Messages travel through `talk`.

use crate::admission::{Admission, Held};
use crate::control::{Caller, Problem, Responder, exit};
use crate::stop::Stop;
use crate::talk::{Member, Talk};
use crate::workers::{apart, side_by_side};
use parking_lot::{Condvar, Mutex, RwLock};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Prefix of texts about calls.
pub(crate) const WORD: &str = "call ";
/// Timeout: without a message for this span, the call counts as not served, or its answer as not awaited.
pub const SILENT: Duration = Duration::from_secs(15);
/// Interval of retries of an unanswered message. A guess: messages are seldom lost.
const AGAIN: Duration = Duration::from_millis(1000);
/// Timeout of a call that was requested to stop.
const STOPPED_MAX: Duration = Duration::from_secs(5);
/// Time for which an answer is kept, in case it gets lost.
const ANSWERED: Duration = Duration::from_secs(60);
/// Maximum of concurrent calls of all other nodes, and the part reserved for root and the daemon's user.
const SERVED_MAX: u64 = 128;
const SERVED_RESERVED: u64 = 32;
/// Maximum of queued lines of progress of one call; the oldest are dropped first.
const PROGRESS_MAX: usize = 64;
/// Maximum of nodes called at the same time by [`Calls::call_each`].
const EACH_MAX: usize = 16;
/// Maximum size of an answer.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// Result of a call.
pub type Answer = Result<Value, Problem>;

/// Destination of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// The node that sends the request.
    Here,
    /// The node that receives messages under this name.
    Node(String),
    /// No node that serves the call is known now.
    Unknown,
}

/// Server of all calls of one name.
pub trait Service: Send + Sync {
    /// Whether this node serves these calls now; if not, the caller retries.
    fn is_here(&self) -> bool {
        true
    }

    /// Serves one call on behalf of a user of this or another node.
    fn serve(&self, caller: &Caller, args: Value, out: &mut Responder<'_>) -> Answer;
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Ask {
    /// Address of the calling node, for the answer.
    by: String,
    number: u64,
    uid: u32,
    gid: u32,
    service: String,
    args: Value,
}

impl Ask {
    /// The user of the call, as the calling node saw it on its socket.
    fn caller(&self) -> Caller {
        Caller { uid: self.uid, gid: self.gid, pid: 0 }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Word {
    Ask(Ask),
    /// Asks the server to stop and to report its end; the answer is no longer needed.
    Stop {
        by: String,
        number: u64,
    },
    /// Confirms that the call is being served.
    Serves {
        number: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        progress: Option<Value>,
    },
    Answer {
        number: u64,
        answer: Answer,
    },
}

/// A call made by this node.
struct Made {
    heard: Instant,
    progress: VecDeque<Value>,
    answer: Option<Answer>,
}

/// A call that this node serves or served.
struct Served {
    /// Time of the last request for the call.
    asked: Instant,
    stop: Arc<Stop>,
    answer: Option<Answer>,
}

/// Name of a calling node, and the number of its call.
type CallId = (String, u64);

/// Running calls: those of this node, and those that it serves.
pub struct Calls {
    talk: Arc<dyn Talk>,
    services: RwLock<HashMap<&'static str, Arc<dyn Service>>>,
    next_number: AtomicU64,
    made: Mutex<HashMap<u64, Made>>,
    changed: Condvar,
    served: Mutex<HashMap<CallId, Served>>,
    room: Arc<Admission>,
    me: Weak<Calls>,
}

impl Calls {
    /// Starts without calls.
    pub(crate) fn new(talk: Arc<dyn Talk>) -> Arc<Calls> {
        // A restarted daemon must not repeat numbers of its earlier calls.
        let began = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_millis() as u64);
        Arc::new_cyclic(|me| Calls {
            talk,
            services: RwLock::default(),
            next_number: AtomicU64::new(began << 20),
            made: Mutex::default(),
            changed: Condvar::new(),
            served: Mutex::default(),
            room: Admission::new(SERVED_MAX, SERVED_RESERVED),
            me: me.clone(),
        })
    }

    /// Registers the server for calls of a name.
    pub fn register(&self, name: &'static str, service: Arc<dyn Service>) {
        self.services.write().insert(name, service);
    }

    /// This node's address for messages.
    pub fn own(&self) -> &str {
        self.talk.own()
    }

    /// The leader, as far as it is known.
    pub(crate) fn leader(&self) -> To {
        match self.talk.leads() {
            true => To::Here,
            false => self.talk.leader().map_or(To::Unknown, To::Node),
        }
    }

    /// Has another node serve a call. `to` is evaluated at each retry, as the destination may change. Its progress goes
    /// to `out`.
    ///
    /// When this node's caller hangs up, the call requests a stop and waits for its answer.
    ///
    /// # Errors
    /// Errors of the server; [`exit::NO_DAEMON`] after [`SILENT`] without an answer: the call may still be running.
    pub fn call(
        &self,
        to: &dyn Fn() -> To,
        service: &'static str,
        caller: &Caller,
        args: Value,
        silent: Duration,
        out: &mut Responder<'_>,
    ) -> Answer {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let made = Made { heard: Instant::now(), progress: VecDeque::new(), answer: None };
        self.made.lock().insert(number, made);
        let (uid, gid) = (caller.uid, caller.gid);
        let ask = Ask { by: self.own().to_owned(), number, uid, gid, service: service.to_owned(), args };
        let answer = self.wait(to, ask, silent, out);
        self.made.lock().remove(&number);
        answer
    }

    /// Has several nodes serve the same call at the same time. Returns the answer of each.
    pub fn call_each(
        &self,
        names: Vec<String>,
        service: &'static str,
        caller: &Caller,
        args: &Value,
        silent: Duration,
    ) -> Vec<(String, Answer)> {
        let (count, names) = (names.len(), Mutex::new(names.into_iter()));
        let ask = |name: String| {
            let mut listens = |_| true;
            let mut out = Responder::new(&mut listens, Arc::default());
            let answer = self.call(&|| To::Node(name.clone()), service, caller, args.clone(), silent, &mut out);
            (name, answer)
        };
        let next = || names.lock().next();
        let said = side_by_side(count.min(EACH_MAX), |_| std::iter::from_fn(next).map(ask).collect::<Vec<_>>());
        said.concat()
    }

    /// The other live nodes.
    pub(crate) fn others(&self) -> Vec<Member> {
        let me = self.talk.me();
        self.talk.members().into_iter().filter(|other| other.node != me).collect()
    }

    fn wait(&self, to: &dyn Fn() -> To, ask: Ask, silent: Duration, out: &mut Responder<'_>) -> Answer {
        let (number, word) = (ask.number, text(&Word::Ask(ask.clone())));
        let stop = text(&Word::Stop { by: ask.by.clone(), number });
        let (mut said, mut stopped): (Option<Instant>, Option<Instant>) = (None, None);
        loop {
            let to = to();
            let service = self.services.read().get(&*ask.service).cloned();
            if let Some(here) = service.filter(|service| to == To::Here && service.is_here()) {
                return here.serve(&ask.caller(), ask.args, out);
            }
            if let To::Node(name) = to
                && said.is_none_or(|at| at.elapsed() >= AGAIN)
            {
                said = Some(Instant::now());
                self.talk.tell(&name, if stopped.is_some() { &stop } else { &word });
            }
            let mut all = self.made.lock();
            let is_told = |made: &Made| made.answer.is_some() || !made.progress.is_empty();
            if !all.get(&number).is_some_and(is_told) {
                self.changed.wait_for(&mut all, AGAIN);
            }
            let Some(made) = all.get_mut(&number) else { return Err(no_answer()) };
            let (progress, answer) = (std::mem::take(&mut made.progress), made.answer.take());
            let is_silent = made.heard.elapsed() >= silent;
            drop(all);
            let listens = progress.into_iter().all(|value| out.progress(value));
            if let Some(answer) = answer {
                return answer;
            }
            if stopped.is_none() && (!listens || out.stop().is_set()) {
                (stopped, said) = (Some(Instant::now()), None);
            }
            if is_silent || stopped.is_some_and(|at| at.elapsed() >= STOPPED_MAX) {
                return Err(no_answer());
            }
        }
    }

    /// Handles a message of another node.
    pub(crate) fn hear(&self, text: &str) {
        match serde_json::from_str(text) {
            Ok(Word::Ask(ask)) => self.asked(ask),
            Ok(Word::Stop { by, number }) => self.told_to_stop(by, number),
            Ok(Word::Serves { number, progress }) => self.told(number, |made| {
                made.progress.extend(progress);
                made.progress.drain(..made.progress.len().saturating_sub(PROGRESS_MAX));
            }),
            Ok(Word::Answer { number, answer }) => self.told(number, |made| made.answer = Some(answer)),
            Err(error) => tracing::debug!("a call of another node makes no sense: {error}"),
        }
    }

    fn told(&self, number: u64, note: impl FnOnce(&mut Made)) {
        if let Some(made) = self.made.lock().get_mut(&number) {
            made.heard = Instant::now();
            note(made);
            self.changed.notify_all();
        }
    }

    fn told_to_stop(&self, by: String, number: u64) {
        let key = (by, number);
        let answer = self.served.lock().get(&key).and_then(|served| {
            served.stop.set();
            served.answer.clone()
        });
        if let Some(answer) = answer {
            self.talk.tell(&key.0, &text(&Word::Answer { number, answer }));
        }
    }

    /// Handles a request of another node, possibly a retry.
    fn asked(&self, ask: Ask) {
        let (key, number) = ((ask.by.clone(), ask.number), ask.number);
        let say = |word: Word| self.talk.tell(&ask.by, &text(&word));
        let mut served = self.served.lock();
        served.retain(|_, served| served.answer.is_none() || served.asked.elapsed() < ANSWERED);
        if let Some(known) = served.get_mut(&key) {
            known.asked = Instant::now();
            return say(match known.answer.clone() {
                Some(answer) => Word::Answer { number, answer },
                None => Word::Serves { number, progress: None },
            });
        }
        let Some(service) = self.services.read().get(&*ask.service).cloned() else {
            let other = Problem::failed("the node that is asked is of another version, or only starts");
            return say(Word::Answer {
                number,
                answer: Err(other.try_this("try again; `entrepot node list` shows the nodes")),
            });
        };
        if !service.is_here() {
            return;
        }
        let Ok(room) = self.room.take(ask.uid, 1) else {
            let busy = Problem::new(
                exit::BUSY,
                "the node that is asked serves as many requests of others as it can, or as one user may have",
            );
            return say(Word::Answer { number, answer: Err(busy.try_this("try again when others are served")) });
        };
        let stop = Arc::new(Stop::default());
        served.insert(key.clone(), Served { asked: Instant::now(), stop: stop.clone(), answer: None });
        drop(served);
        let Some(calls) = self.me.upgrade() else { return };
        let work = move || calls.serve(&*service, ask, stop, room);
        if apart("call", work).is_err() {
            // The other node repeats its request.
            self.served.lock().remove(&key);
        }
    }

    fn serve(&self, service: &dyn Service, ask: Ask, stop: Arc<Stop>, _room: Held) {
        let (caller, number) = (ask.caller(), ask.number);
        let key = (ask.by, number);
        let waits = || self.served.lock().get(&key).is_some_and(|served| served.asked.elapsed() < SILENT);
        let mut send = |value: Value| {
            self.talk.tell(&key.0, &text(&Word::Serves { number, progress: Some(value) }));
            waits()
        };
        let mut out = Responder::new(&mut send, stop);
        let answer = fitting(service.serve(&caller, ask.args, &mut out));
        if let Some(served) = self.served.lock().get_mut(&key) {
            served.answer = Some(answer.clone());
        }
        self.talk.tell(&key.0, &text(&Word::Answer { number, answer }));
    }
}

fn text(word: &Word) -> String {
    format!("{WORD}{}", serde_json::to_string(word).expect("numbers and texts"))
}

fn no_answer() -> Problem {
    Problem::new(exit::NO_DAEMON, "the node that has to answer does not")
        .so("it is not known whether anything was changed")
        .try_this("`entrepot node list` shows which nodes are there; try again")
}

fn fitting(answer: Answer) -> Answer {
    match &answer {
        Ok(value) if value.to_string().len() > ANSWER_BYTES_MAX => {
            let hosts = "ask on the node that knows it (`entrepot node list`), or for less";
            Err(Problem::failed("the answer is too long to travel between nodes").try_this(hosts))
        }
        _ => answer,
    }
}

#[cfg(test)]
mod tests;
