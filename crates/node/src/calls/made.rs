//! Calls that this node makes.

use super::{Answer, Calls, PROGRESS_MAX, STOPPED_MAX, Server, To, not_valid, parsed};
use crate::control::answers::write;
use crate::control::{Caller, Responder};
use meta::messages::Packet;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, channel, sync_channel};
use std::time::{Duration, Instant};

/// Event of a call, for its caller.
pub(super) enum Event {
    Progress(Value),
    Answer(Answer),
}

/// A call made by this node.
pub(super) struct Made {
    to: To,
    ask: Packet,
    silent: Duration,
    heard: Instant,
    /// Last destination, and the time of the last message there.
    sent: Option<(String, Instant)>,
    stopped: Option<Instant>,
    pub event: Arc<dyn Fn(Event) + Send + Sync>,
}

impl Made {
    /// Next message of the call; `None` if none is due now.
    fn next(&mut self, to: &str, number: u64, again: Duration) -> Option<Packet> {
        let is_same = self.sent.as_ref().is_some_and(|(sent_to, _)| sent_to == to);
        if is_same && self.sent.as_ref().is_some_and(|(_, at)| at.elapsed() < again) {
            return None;
        }
        if !is_same && self.sent.is_some() {
            self.heard = Instant::now();
        }
        self.sent = Some((to.to_owned(), Instant::now()));
        Some(match self.stopped {
            Some(_) => Packet::Stop { number },
            None => self.ask.clone(),
        })
    }

    fn is_given_up(&self) -> bool {
        self.heard.elapsed() >= self.silent || self.stopped.is_some_and(|at| at.elapsed() >= STOPPED_MAX)
    }
}

impl Calls {
    /// Has another node serve a call. Its progress goes to `out`.
    ///
    /// When this node's caller hangs up, the call requests a stop and waits for its answer.
    ///
    /// # Errors
    /// Errors of the server; `exit::NO_DAEMON` after `SILENT` without an answer: the call may still be running.
    pub fn call<T: DeserializeOwned>(
        &self,
        to: &To,
        name: &'static str,
        caller: &Caller,
        args: &impl Serialize,
        silent: Duration,
        out: &mut Responder<'_>,
    ) -> Answer<T> {
        let args = write(args);
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
                return parsed(serve(caller, args, out));
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
                Ok(value) => out.progress(&value),
                Err(RecvTimeoutError::Timeout) => true,
                Err(RecvTimeoutError::Disconnected) => {
                    return parsed(answer.lock().take().unwrap_or_else(|| Err(self.no_answer(to))));
                }
            };
            if !listens || out.stop().is_set() {
                number.into_iter().for_each(|number| self.stop(number));
            }
        }
    }

    /// Has several nodes serve the same call at the same time. Returns the answer of each. A node is given up as soon
    /// as `is_awaited` returns false for it.
    pub fn call_each<T: DeserializeOwned>(
        &self,
        names: Vec<String>,
        name: &'static str,
        caller: &Caller,
        args: &impl Serialize,
        silent: Duration,
        is_awaited: &dyn Fn(&str) -> bool,
    ) -> Vec<(String, Answer<T>)> {
        let args = write(args);
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
            if let Ok((node, answer)) = events.recv_timeout(self.again)
                && left.remove(&node).is_some()
            {
                answers.push((node, parsed(answer)));
            }
            let given_up: Vec<(String, u64)> = left.extract_if(|node, _| !is_awaited(node)).collect();
            for (node, number) in given_up {
                self.forget(number);
                answers.push((node.clone(), Err(self.no_answer(&To::Node(node)))));
            }
        }
        answers
    }

    /// Begins a call whose answer goes to `done`, which must not block. `forget` ends it.
    pub(crate) fn ask<T: DeserializeOwned>(
        &self,
        to: &To,
        name: &'static str,
        args: &impl Serialize,
        silent: Duration,
        done: impl Fn(Answer<T>) + Send + Sync + 'static,
    ) -> u64 {
        self.start(to, name, &Caller::daemon(), write(args), silent, move |event| {
            if let Event::Answer(answer) = event {
                done(parsed(answer));
            }
        })
    }

    /// Ends a call: its answer is no longer awaited.
    pub(crate) fn forget(&self, number: u64) {
        let made = self.made.lock().remove(&number);
        drop(made);
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
        let (name, uid, gid) = (name.to_owned(), caller.uid, caller.gid);
        let made = Made {
            to: to.clone(),
            ask: Packet::Ask { number, uid, gid, name, args },
            silent,
            heard: Instant::now(),
            sent: None,
            stopped: None,
            event: Arc::new(event),
        };
        self.made.lock().insert(number, made);
        self.repeat(number, self.leader());
        // A failure has been logged; the next call starts the repetitions.
        drop(self.repeater.wake_in(self.again / 4));
        number
    }

    /// Requests the end of a call.
    fn stop(&self, number: u64) {
        if let Some(made) = self.made.lock().get_mut(&number).filter(|made| made.stopped.is_none()) {
            (made.stopped, made.sent) = (Some(Instant::now()), None);
        }
        self.repeat(number, self.leader());
    }

    /// Sends the message of a call that is due, or gives the call up.
    fn repeat(&self, number: u64, leader: Option<String>) {
        let mut all = self.made.lock();
        let Some(made) = all.get_mut(&number) else { return };
        if made.is_given_up() {
            let made = all.remove(&number);
            drop(all);
            return made.into_iter().for_each(|made| (made.event)(Event::Answer(Err(self.no_answer(&made.to)))));
        }
        let packet = made.to.address(leader).and_then(|to| Some((made.next(&to, number, self.again)?, to)));
        drop(all);
        packet.into_iter().for_each(|(packet, to)| self.send(&to, packet));
    }

    /// Repeats all calls that are due. Returns the time until the next repetition, if there are calls.
    pub(super) fn repeat_all(&self) -> Option<Duration> {
        let numbers: Vec<u64> = self.made.lock().keys().copied().collect();
        let leader = self.leader();
        numbers.iter().for_each(|number| self.repeat(*number, leader.clone()));
        (!numbers.is_empty()).then_some(self.again / 4)
    }

    pub(super) fn heard<T>(&self, number: u64, note: impl FnOnce(&mut Made) -> Option<T>) -> Option<T> {
        let mut all = self.made.lock();
        let made = all.get_mut(&number)?;
        made.heard = Instant::now();
        note(made)
    }

    /// Handles an answer, possibly a repeated one.
    pub(super) fn answered(&self, number: u64, text: &str) {
        let made = self.made.lock().remove(&number);
        let Some(made) = made else { return };
        let answer = serde_json::from_str(text).unwrap_or_else(|error| Err(not_valid(&error)));
        (made.event)(Event::Answer(answer));
    }
}
