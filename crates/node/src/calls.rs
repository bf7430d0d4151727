//! Requests between nodes: sent until the answer is here, served once.
//!
//! ```text
//!   caller                              server
//!   Ask, Ask, ...       --------------> a thread, or a queue
//!                   <------ Serves ---- is it being served, or how far
//!                   <------ Answer ---- kept for a while: it may get lost
//! ```
//! Messages take the connection between the two nodes (`nodes::links`) and get lost if it breaks. Each side gives up
//! after a span without a message from the other. One thread repeats all requests of this node.

mod made;
mod served;

pub use served::Reply;

use crate::control::answers::write;
use crate::control::{Caller, Problem, Responder, exit};
use made::{Event, Made};
use meta::messages::{Member, Packet, Talk};
use object::admission::Admission;
use object::workers::{Periodic, Pool};
use parking_lot::{Mutex, RwLock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use served::Served;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Timeout: without a message for this span, the call counts as not served, or its answer as not awaited.
pub const SILENT: Duration = Duration::from_secs(15);
/// Interval of retries of an unanswered message. A guess: connections seldom break.
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

/// Result of a call; without a type, in its serialized form.
pub type Answer<T = Value> = Result<T, Problem>;

/// Parses an answer of another node.
fn parsed<T: DeserializeOwned>(answer: Answer) -> Answer<T> {
    serde_json::from_value(answer?).map_err(|error| not_valid(&error))
}

fn not_valid(error: &serde_json::Error) -> Problem {
    Problem::wrong(format!("an answer of another node is not valid: {error}"))
}

/// Destination of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// The node that leads, also after it changed.
    Leader,
    /// The node that receives messages under this name.
    Node(String),
}

impl To {
    /// Name of the node, given that of the leader.
    fn address(&self, leader: Option<String>) -> Option<String> {
        match self {
            To::Leader => leader,
            To::Node(name) => Some(name.clone()),
        }
    }
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

/// Name of a calling node, and the number of its call.
type CallId = (String, u64);

/// Running calls: those of this node, and those that it serves.
pub struct Calls {
    talk: Arc<dyn Talk>,
    again: Duration,
    servers: RwLock<HashMap<&'static str, Server>>,
    next_number: AtomicU64,
    made: Mutex<HashMap<u64, Made>>,
    /// Repeats them, while there are any.
    repeater: Periodic,
    /// Threads that serve calls, one that repeats those of this node, and one that carries the links.
    threads: Pool,
    served: Mutex<HashMap<CallId, Served>>,
    /// Number of served calls at which old ones are dropped.
    served_max: AtomicUsize,
    room: Arc<Admission>,
    me: Weak<Calls>,
}

impl Calls {
    /// Starts without calls.
    pub(crate) fn new(talk: Arc<dyn Talk>) -> Arc<Calls> {
        Calls::repeating(talk, AGAIN)
    }

    /// Returns the same with another interval of retries.
    pub(crate) fn repeating(talk: Arc<dyn Talk>, again: Duration) -> Arc<Calls> {
        let threads = Pool::new("calls", SERVED_MAX as usize + 2);
        Arc::new_cyclic(|me: &Weak<Calls>| Calls {
            talk,
            again,
            servers: RwLock::default(),
            // A restarted daemon must not repeat numbers of its earlier calls.
            next_number: AtomicU64::new(object::now_ms() << 20),
            made: Mutex::default(),
            repeater: Periodic::new(&threads, {
                let me = me.clone();
                move || me.upgrade()?.repeat_all()
            }),
            threads,
            served: Mutex::default(),
            served_max: AtomicUsize::new(0),
            room: Admission::new(SERVED_MAX, SERVED_RESERVED),
            me: me.clone(),
        })
    }

    /// Registers a server of calls of a name, on behalf of users of any node.
    pub fn register<T: DeserializeOwned, R: Serialize>(
        &self,
        name: &'static str,
        serve: impl Fn(&Caller, T, &mut Responder<'_>) -> Answer<R> + Send + Sync + 'static,
    ) {
        self.register_where(name, || true, serve);
    }

    /// Does the same for calls that this node serves only at times.
    pub(crate) fn register_where<T: DeserializeOwned, R: Serialize>(
        &self,
        name: &'static str,
        is_here: impl Fn() -> bool + Send + Sync + 'static,
        serve: impl Fn(&Caller, T, &mut Responder<'_>) -> Answer<R> + Send + Sync + 'static,
    ) {
        let serve = move |caller: &Caller, args: Value, out: &mut Responder<'_>| {
            let args = serde_json::from_value(args)
                .map_err(|error| Problem::wrong(format!("a request of another node is not valid: {error}")))?;
            serve(caller, args, out).map(|answer| write(&answer))
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

    /// Threads for calls.
    pub(crate) fn threads(&self) -> &Pool {
        &self.threads
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

    /// Sends a request that has no answer and may get lost.
    pub(crate) fn notify(&self, to: &To, name: &str, args: &impl Serialize) {
        if let Some(to) = to.address(self.leader()) {
            self.send(&to, Packet::Notice { name: name.to_owned(), args: write(args) });
        }
    }

    /// The other live nodes.
    pub(crate) fn others(&self) -> Vec<Member> {
        let me = self.talk.me();
        self.talk.members().into_iter().filter(|other| other.node != me).collect()
    }

    fn send(&self, to: &str, packet: Packet) {
        self.talk.call(to, packet);
    }

    /// Handles a message of the node of that name.
    pub(crate) fn handle(&self, by: &str, packet: Packet) {
        match packet {
            Packet::Ask { number, uid, gid, name, args } => {
                self.asked((by.to_owned(), number), &Caller { uid, gid }, &name, args);
            }
            Packet::Notice { name, args } => {
                let server = self.servers.read().get(&*name).cloned();
                if let Some(Server::Queue(queue)) = server {
                    queue(args, Reply(None));
                }
            }
            Packet::Stop { number } => {
                let key = (by.to_owned(), number);
                if let Some(served) = self.served.lock().get(&key) {
                    served.stop.set();
                }
                self.answer_again(&key);
            }
            Packet::Serves { number, progress } => {
                let event = self.heard(number, |made| Some(made.event.clone()));
                if let (Some(event), Some(value)) = (event, progress) {
                    event(Event::Progress(value));
                }
            }
            Packet::Answer { number, text } => self.answered(number, &text),
        }
    }

    fn no_answer(&self, to: &To) -> Problem {
        let why = to.address(self.leader()).and_then(|to| self.talk.unreachable(&to));
        let (cause, next) = match why {
            Some(why) => (
                format!("the other node cannot be reached: {why}"),
                "look at the network between the nodes; a firewall needs the port of `nodes_listen`",
            ),
            None => {
                ("the other node does not answer".into(), "`entrepot node list` shows which nodes are there; try again")
            }
        };
        Problem::new(exit::NO_DAEMON, cause).so("the change may have been made all the same").try_this(next)
    }
}

#[cfg(test)]
mod tests;
