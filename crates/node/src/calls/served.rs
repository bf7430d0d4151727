//! Calls that this node serves.

use super::{ANSWERED, Answer, CallId, Calls, SILENT, Server};
use crate::control::{Caller, Problem, Responder, exit};
use meta::messages::Packet;
use object::stop::Stop;
use serde::Serialize;
use serde_json::Value;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// A call that this node serves or served.
pub(super) struct Served {
    /// Time of the last request for the call.
    pub asked: Instant,
    pub stop: Arc<Stop>,
    pub answer: Option<Arc<str>>,
}

/// The answer to a call, which its server still owes. Without one the call counts as not received.
pub struct Reply(pub(super) Option<(Weak<Calls>, CallId)>);

impl Reply {
    /// Sends the answer.
    pub fn send(mut self, answer: &Answer<impl Serialize>) {
        if let Some((calls, key)) = self.0.take()
            && let Some(calls) = calls.upgrade()
        {
            let text: Arc<str> = serde_json::to_string(answer).expect("numbers and texts").into();
            if let Some(served) = calls.served.lock().get_mut(&key) {
                served.answer = Some(text.clone());
            }
            calls.send_answer(&key, &text);
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

impl Calls {
    /// Sends the answer again, or confirms that the call is being served.
    pub(super) fn answer_again(&self, key: &CallId) {
        let answer = self.served.lock().get_mut(key).map(|served| {
            served.asked = Instant::now();
            served.answer.clone()
        });
        match answer {
            Some(Some(text)) => self.send_answer(key, &text),
            Some(None) => self.send(&key.0, Packet::Serves { number: key.1, progress: None }),
            None => {}
        }
    }

    fn send_answer(&self, (to, number): &CallId, text: &str) {
        self.send(to, Packet::Answer { number: *number, text: text.to_owned() });
    }

    /// Handles a request of another node, possibly a retry.
    pub(super) fn asked(&self, key: CallId, caller: &Caller, name: &str, args: Value) {
        let refuse = |problem: Problem| Reply(Some((self.me.clone(), key.clone()))).send(&Answer::<()>::Err(problem));
        if self.served.lock().contains_key(&key) {
            return self.answer_again(&key);
        }
        let Some(server) = self.servers.read().get(name).cloned() else {
            let other = Problem::failed("the other node runs another version, or is still starting");
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
                        "the other node already serves the most requests of other nodes, or of one user",
                    );
                    return refuse(busy.try_this("try again later"));
                };
                serve();
                let (calls, caller) = (self.me.clone(), *caller);
                // Without a thread the reply is dropped, and the other node repeats its request.
                drop(self.threads.push(move || {
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
