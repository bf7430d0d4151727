//! Requests between nodes: sent until the answer is here, served once, answered in pages.
//!
//! ```text
//!   caller                              server
//!   Ask, Ask, ...       --------------> a thread, or a queue
//!                   <------ Serves ---- is it being served, or how far
//!                   <------ Answer ---- first page; kept for a while: it may get lost
//!   Next                --------------> next page
//! ```
//! Each side gives up after a span without a message from the other. One thread repeats all requests of this node.

use crate::admission::Admission;
use crate::control::{Caller, Problem, Responder, exit};
use crate::messages::{Member, Message, Packet, Talk};
use crate::stop::Stop;
use crate::workers::{Pool, apart};
use parking_lot::{Mutex, RwLock};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

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
/// Maximum of queued lines of progress of one call; later ones are dropped.
const PROGRESS_MAX: usize = 64;
/// Bytes of a page. Far below the output buffer of a Redis subscriber (8 MB for a minute).
const PAGE_MAX: usize = 256 << 10;

/// Result of a call.
pub type Answer = Result<Value, Problem>;

/// Destination of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// The node that leads, also after it changed.
    Leader,
    /// The node that receives messages under this name.
    Node(String),
}

/// Server of calls of one name, each on a thread.
type Service = dyn Fn(&Caller, Value, &mut Responder<'_>) -> Answer + Send + Sync;
/// Server of calls of one name that only queues them. It must not block.
type Queue = dyn Fn(Value, Reply) + Send + Sync;
/// Whether this node serves the calls now; if not, the caller retries.
type IsHere = dyn Fn() -> bool + Send + Sync;

#[derive(Clone)]
enum Server {
    Threads(Arc<IsHere>, Arc<Service>),
    Queue(Arc<Queue>),
}

/// Event of a call, for its caller.
enum Event {
    Progress(Value),
    Answer(Answer),
}

/// A call made by this node.
struct Made {
    to: To,
    ask: Packet,
    silent: Duration,
    heard: Instant,
    /// Last destination, and the time of the last message there.
    sent: Option<(String, Instant)>,
    stopped: Option<Instant>,
    /// Number of received pages.
    pages: u32,
    text: String,
    event: Arc<dyn Fn(Event) + Send + Sync>,
}

/// A call that this node serves or served.
struct Served {
    /// Time of the last request for the call.
    asked: Instant,
    stop: Arc<Stop>,
    answer: Option<Arc<str>>,
}

/// Name of a calling node, and the number of its call.
type CallId = (String, u64);

/// Running calls: those of this node, and those that it serves.
pub struct Calls {
    talk: Arc<dyn Talk>,
    again: Duration,
    servers: RwLock<HashMap<&'static str, Server>>,
    next_number: AtomicU64,
    made: Mutex<HashMap<u64, Made>>,
    /// Whether a thread repeats them. Changed under the lock of `made`.
    repeats: AtomicBool,
    repeater: Pool,
    served: Mutex<HashMap<CallId, Served>>,
    /// Number of served calls at which old ones are dropped.
    served_max: AtomicUsize,
    room: Arc<Admission>,
    me: Weak<Calls>,
}

/// The answer to a call, which its server still owes. Without one the call counts as not received.
pub struct Reply(Option<(Weak<Calls>, CallId)>);

impl Reply {
    /// Sends the answer.
    pub fn send(mut self, answer: &Answer) {
        if let Some((calls, key)) = self.0.take()
            && let Some(calls) = calls.upgrade()
        {
            let text: Arc<str> = serde_json::to_string(answer).expect("numbers and texts").into();
            if let Some(served) = calls.served.lock().get_mut(&key) {
                served.answer = Some(text.clone());
            }
            calls.send_page(&key, &text, 0);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some((calls, key)) = self.0.take()
            && let Some(calls) = calls.upgrade()
        {
            calls.served.lock().remove(&key);
        }
    }
}

impl Made {
    /// Next message of the call; `None` if none is due now.
    fn next(&mut self, to: &str, own: &str, number: u64, again: Duration) -> Option<Packet> {
        let by = own.to_owned();
        let is_same = self.sent.as_ref().is_some_and(|(sent_to, _)| sent_to == to);
        if is_same && self.sent.as_ref().is_some_and(|(_, at)| at.elapsed() < again) {
            return None;
        }
        if !is_same && self.sent.is_some() {
            (self.heard, self.pages) = (Instant::now(), 0);
            self.text.clear();
        }
        self.sent = Some((to.to_owned(), Instant::now()));
        Some(match self.stopped {
            _ if self.pages > 0 => Packet::Next { by, number, page: self.pages },
            Some(_) => Packet::Stop { by, number },
            None => self.ask.clone(),
        })
    }

    fn is_given_up(&self) -> bool {
        self.heard.elapsed() >= self.silent || self.stopped.is_some_and(|at| at.elapsed() >= STOPPED_MAX)
    }
}

impl Calls {
    /// Starts without calls.
    pub(crate) fn new(talk: Arc<dyn Talk>) -> Arc<Calls> {
        Calls::repeating(talk, AGAIN)
    }

    /// Returns the same with another interval of retries.
    pub(crate) fn repeating(talk: Arc<dyn Talk>, again: Duration) -> Arc<Calls> {
        // A restarted daemon must not repeat numbers of its earlier calls.
        let began = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |span| span.as_millis() as u64);
        Arc::new_cyclic(|me| Calls {
            talk,
            again,
            servers: RwLock::default(),
            next_number: AtomicU64::new(began << 20),
            made: Mutex::default(),
            repeats: AtomicBool::new(false),
            repeater: Pool::new("calls", 1),
            served: Mutex::default(),
            served_max: AtomicUsize::new(0),
            room: Admission::new(SERVED_MAX, SERVED_RESERVED),
            me: me.clone(),
        })
    }

    /// Registers a server of calls of a name, on behalf of users of any node.
    pub fn register<T: DeserializeOwned>(
        &self,
        name: &'static str,
        serve: impl Fn(&Caller, T, &mut Responder<'_>) -> Answer + Send + Sync + 'static,
    ) {
        self.register_where(name, || true, serve);
    }

    /// Does the same for calls that this node serves only at times.
    pub(crate) fn register_where<T: DeserializeOwned>(
        &self,
        name: &'static str,
        is_here: impl Fn() -> bool + Send + Sync + 'static,
        serve: impl Fn(&Caller, T, &mut Responder<'_>) -> Answer + Send + Sync + 'static,
    ) {
        let serve = move |caller: &Caller, args: Value, out: &mut Responder<'_>| {
            let args = serde_json::from_value(args)
                .map_err(|error| Problem::wrong(format!("a request of another node makes no sense: {error}")))?;
            serve(caller, args, out)
        };
        self.servers.write().insert(name, Server::Threads(Arc::new(is_here), Arc::new(serve)));
    }

    /// Registers a queue for calls of a name, also for those without an answer.
    pub(crate) fn register_queue<T: DeserializeOwned>(
        &self,
        name: &'static str,
        queue: impl Fn(T, Reply) + Send + Sync + 'static,
    ) {
        let queue = move |args, reply| match serde_json::from_value(args) {
            Ok(args) => queue(args, reply),
            Err(error) => tracing::debug!("a request of another node is ignored: {error}"),
        };
        self.servers.write().insert(name, Server::Queue(Arc::new(queue)));
    }

    /// The nodes of the volume.
    pub(crate) fn talk(&self) -> &dyn Talk {
        &*self.talk
    }

    /// This node's address for messages.
    pub fn own(&self) -> &str {
        self.talk.own()
    }

    /// Name of the leader, if another node leads.
    pub(crate) fn leader(&self) -> Option<String> {
        self.talk.leader().filter(|_| !self.talk.leads())
    }

    /// Has another node serve a call. Its progress goes to `out`.
    ///
    /// When this node's caller hangs up, the call requests a stop and waits for its answer.
    ///
    /// # Errors
    /// Errors of the server; [`exit::NO_DAEMON`] after [`SILENT`] without an answer: the call may still be running.
    pub fn call(
        &self,
        to: &To,
        name: &'static str,
        caller: &Caller,
        args: Value,
        silent: Duration,
        out: &mut Responder<'_>,
    ) -> Answer {
        let (tell, progress) = sync_channel(PROGRESS_MAX);
        let (mut tell, answer) = (Some(tell), Arc::new(Mutex::new(None)));
        let mut number = None;
        loop {
            let server = self.servers.read().get(name).cloned();
            if let Some(Server::Threads(is_here, serve)) = server
                && *to == To::Leader
                && self.talk.leads()
                && is_here()
            {
                number.into_iter().for_each(|number| self.forget(number));
                return serve(caller, args, out);
            }
            if let Some(tell) = tell.take() {
                let answer = answer.clone();
                number = Some(self.start(to, name, caller, args.clone(), silent, move |event| match event {
                    Event::Progress(value) => drop(tell.try_send(value)),
                    Event::Answer(now) => *answer.lock() = Some(now),
                }));
            }
            // The end of the call drops its sender.
            let listens = match progress.recv_timeout(self.again) {
                Ok(value) => out.progress(value),
                Err(RecvTimeoutError::Timeout) => true,
                Err(RecvTimeoutError::Disconnected) => return answer.lock().take().unwrap_or_else(|| Err(no_answer())),
            };
            if !listens || out.stop().is_set() {
                number.into_iter().for_each(|number| self.stop(number));
            }
        }
    }

    /// Has several nodes serve the same call at the same time. Returns the answer of each. A node is given up as soon
    /// as `is_awaited` returns false for it.
    pub fn call_each(
        &self,
        names: Vec<String>,
        name: &'static str,
        caller: &Caller,
        args: &Value,
        silent: Duration,
        is_awaited: &dyn Fn(&str) -> bool,
    ) -> Vec<(String, Answer)> {
        let (tell, events) = channel();
        let mut left = HashMap::new();
        for node in names {
            let (tell, of) = (tell.clone(), node.clone());
            let number = self.start(&To::Node(node.clone()), name, caller, args.clone(), silent, move |event| {
                if let Event::Answer(answer) = event {
                    drop(tell.send((of.clone(), answer)));
                }
            });
            left.insert(node, number);
        }
        let mut answers = Vec::new();
        while !left.is_empty() {
            if let Ok((node, answer)) = events.recv_timeout(self.again) {
                left.remove(&node);
                answers.push((node, answer));
            }
            let given_up: Vec<(String, u64)> = left.extract_if(|node, _| !is_awaited(node)).collect();
            for (node, number) in given_up {
                self.forget(number);
                answers.push((node, Err(no_answer())));
            }
        }
        answers
    }

    /// Begins a call whose answer goes to `done`, which must not block. `forget` ends it.
    pub(crate) fn ask(
        &self,
        to: &To,
        name: &'static str,
        args: Value,
        silent: Duration,
        done: impl Fn(Answer) + Send + Sync + 'static,
    ) -> u64 {
        self.start(to, name, &Caller::daemon(), args, silent, move |event| {
            if let Event::Answer(answer) = event {
                done(answer);
            }
        })
    }

    /// Sends a request that has no answer and may get lost.
    pub(crate) fn notify(&self, to: &To, name: &str, args: Value) {
        let to = match to {
            To::Leader => self.leader(),
            To::Node(name) => Some(name.clone()),
        };
        to.into_iter().for_each(|to| self.send(&to, Packet::Notice { name: name.to_owned(), args: args.clone() }));
    }

    /// Ends a call: its answer is no longer awaited.
    pub(crate) fn forget(&self, number: u64) {
        self.made.lock().remove(&number);
    }

    /// The other live nodes.
    pub(crate) fn others(&self) -> Vec<Member> {
        let me = self.talk.me();
        self.talk.members().into_iter().filter(|other| other.node != me).collect()
    }

    fn send(&self, to: &str, packet: Packet) {
        self.talk.send(Some(to), &Message::Call(packet));
    }

    fn start(
        &self,
        to: &To,
        name: &str,
        caller: &Caller,
        args: Value,
        silent: Duration,
        event: impl Fn(Event) + Send + Sync + 'static,
    ) -> u64 {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let (by, name, uid, gid) = (self.own().to_owned(), name.to_owned(), caller.uid, caller.gid);
        let made = Made {
            to: to.clone(),
            ask: Packet::Ask { by, number, uid, gid, name, args },
            silent,
            heard: Instant::now(),
            sent: None,
            stopped: None,
            pages: 0,
            text: String::new(),
            event: Arc::new(event),
        };
        let mut all = self.made.lock();
        all.insert(number, made);
        let repeats = self.repeats.swap(true, Ordering::AcqRel);
        drop(all);
        self.repeat(number);
        let (calls, pause) = (self.me.clone(), self.again / 4);
        let work = move || {
            while calls.upgrade().is_some_and(|calls| calls.repeat_all()) {
                std::thread::sleep(pause);
            }
        };
        if !repeats && self.repeater.push(work).is_err() {
            self.repeats.store(false, Ordering::Release);
        }
        number
    }

    /// Requests the end of a call.
    fn stop(&self, number: u64) {
        if let Some(made) = self.made.lock().get_mut(&number).filter(|made| made.stopped.is_none()) {
            (made.stopped, made.sent) = (Some(Instant::now()), None);
        }
        self.repeat(number);
    }

    /// Sends the message of a call that is due, or gives the call up.
    fn repeat(&self, number: u64) {
        let leader = self.leader();
        let mut all = self.made.lock();
        let Some(made) = all.get_mut(&number) else { return };
        if made.is_given_up() {
            let made = all.remove(&number);
            drop(all);
            return made.into_iter().for_each(|made| (made.event)(Event::Answer(Err(no_answer()))));
        }
        let to = match &made.to {
            To::Leader => leader,
            To::Node(name) => Some(name.clone()),
        };
        let packet = to.and_then(|to| Some((made.next(&to, self.own(), number, self.again)?, to)));
        drop(all);
        packet.into_iter().for_each(|(packet, to)| self.send(&to, packet));
    }

    /// Repeats all calls that are due. Returns whether there are any.
    fn repeat_all(&self) -> bool {
        let all = self.made.lock();
        let numbers: Vec<u64> = all.keys().copied().collect();
        self.repeats.store(!numbers.is_empty(), Ordering::Release);
        drop(all);
        numbers.iter().for_each(|number| self.repeat(*number));
        !numbers.is_empty()
    }

    /// Handles a message of another node.
    pub(crate) fn handle(&self, packet: Packet) {
        match packet {
            Packet::Ask { by, number, uid, gid, name, args } => {
                self.asked((by, number), &Caller { uid, gid, pid: 0 }, &name, args);
            }
            Packet::Notice { name, args } => {
                let server = self.servers.read().get(&*name).cloned();
                if let Some(Server::Queue(queue)) = server {
                    queue(args, Reply(None));
                }
            }
            Packet::Stop { by, number } => {
                let key = (by, number);
                if let Some(served) = self.served.lock().get(&key) {
                    served.stop.set();
                }
                self.answer_again(&key, 0);
            }
            Packet::Next { by, number, page } => self.answer_again(&(by, number), page),
            Packet::Serves { number, progress } => {
                let event = self.heard(number, |made| Some(made.event.clone()));
                if let (Some(event), Some(value)) = (event, progress) {
                    event(Event::Progress(value));
                }
            }
            Packet::Answer { number, page, is_last, text } => self.answered(number, page, is_last, &text),
        }
    }

    fn heard<T>(&self, number: u64, note: impl FnOnce(&mut Made) -> Option<T>) -> Option<T> {
        let mut all = self.made.lock();
        let made = all.get_mut(&number)?;
        made.heard = Instant::now();
        note(made)
    }

    /// Handles a page of an answer, possibly a repeated one.
    fn answered(&self, number: u64, page: u32, is_last: bool, text: &str) {
        let whole = self.heard(number, |made| {
            if page != made.pages {
                return None;
            }
            made.pages += 1;
            made.text.push_str(text);
            // The next page is due at once.
            made.sent.iter_mut().for_each(|(_, at)| *at = at.checked_sub(self.again).unwrap_or(*at));
            is_last.then(|| std::mem::take(&mut made.text))
        });
        let Some(text) = whole else { return self.repeat(number) };
        let answer = serde_json::from_str(&text)
            .unwrap_or_else(|error| Err(Problem::wrong(format!("an answer of another node makes no sense: {error}"))));
        let made = self.made.lock().remove(&number);
        made.into_iter().for_each(|made| (made.event)(Event::Answer(answer.clone())));
    }

    /// Sends a page of the answer again, or confirms that the call is being served.
    fn answer_again(&self, key: &CallId, page: u32) {
        let answer = self.served.lock().get_mut(key).map(|served| {
            served.asked = Instant::now();
            served.answer.clone()
        });
        match answer {
            Some(Some(text)) => self.send_page(key, &text, page),
            Some(None) => self.send(&key.0, Packet::Serves { number: key.1, progress: None }),
            None => {}
        }
    }

    fn send_page(&self, (to, number): &CallId, text: &str, page: u32) {
        let cut = |page: usize| text.floor_char_boundary(PAGE_MAX.saturating_mul(page));
        let (from, end) = (cut(page as usize), cut(page as usize + 1));
        let (is_last, text) = (end == text.len(), text[from..end].to_owned());
        self.send(to, Packet::Answer { number: *number, page, is_last, text });
    }

    /// Handles a request of another node, possibly a retry.
    fn asked(&self, key: CallId, caller: &Caller, name: &str, args: Value) {
        let refuse = |problem: Problem| Reply(Some((self.me.clone(), key.clone()))).send(&Err(problem));
        if self.served.lock().contains_key(&key) {
            return self.answer_again(&key, 0);
        }
        let Some(server) = self.servers.read().get(name).cloned() else {
            let other = Problem::failed("the node that is asked is of another version, or only starts");
            return refuse(other.try_this("try again; `entrepot node list` shows the nodes"));
        };
        let stop = Arc::new(Stop::default());
        let reply = Reply(Some((self.me.clone(), key.clone())));
        let serve = || {
            let mut served = self.served.lock();
            if served.len() >= self.served_max.load(Ordering::Relaxed) {
                served.retain(|_, served| served.answer.is_none() || served.asked.elapsed() < ANSWERED);
                self.served_max.store(2 * served.len(), Ordering::Relaxed);
            }
            served.insert(key.clone(), Served { asked: Instant::now(), stop: stop.clone(), answer: None });
        };
        match server {
            Server::Queue(queue) => {
                serve();
                queue(args, reply);
            }
            Server::Threads(is_here, service) if is_here() => {
                let Ok(room) = self.room.take(caller.uid, 1) else {
                    let busy = Problem::new(
                        exit::BUSY,
                        "the node that is asked serves as many requests of others as it can, or as one user may have",
                    );
                    return refuse(busy.try_this("try again when others are served"));
                };
                serve();
                let (calls, caller) = (self.me.clone(), *caller);
                // Without a thread the reply is dropped, and the other node repeats its request.
                drop(apart("call", move || {
                    let _room = room;
                    let answer = serve_with_progress(&calls, &key, stop, |out| service(&caller, args, out));
                    reply.send(&answer);
                }));
            }
            Server::Threads(..) => {}
        }
    }
}

/// Sends the progress of a service to its caller; a caller that is silent has hung up.
fn serve_with_progress(
    calls: &Weak<Calls>,
    key: &CallId,
    stop: Arc<Stop>,
    serve: impl FnOnce(&mut Responder<'_>) -> Answer,
) -> Answer {
    let mut send = |value: Value| {
        let Some(calls) = calls.upgrade() else { return false };
        calls.send(&key.0, Packet::Serves { number: key.1, progress: Some(value) });
        let served = calls.served.lock();
        served.get(key).is_some_and(|served| served.asked.elapsed() < SILENT)
    };
    serve(&mut Responder::new(&mut send, stop))
}

fn no_answer() -> Problem {
    Problem::new(exit::NO_DAEMON, "the node that has to answer does not")
        .so("it is not known whether anything was changed")
        .try_this("`entrepot node list` shows which nodes are there; try again")
}

#[cfg(test)]
mod tests;
