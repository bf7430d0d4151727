//! The emulated device in real time: one thread holds answers back until the device would be done.

use crate::device::{Counts, Device, Done};
use crate::extents::Run;
use crate::pace::Pace;
use parking_lot::{Condvar, Mutex};
use policy::time::Time;
use std::collections::HashMap;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Completion callback of a request.
pub type Answer = Box<dyn FnOnce() + Send>;

/// The device and its thread.
pub struct Spindle {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    begun: Instant,
    pace: Pace,
}

struct State {
    device: Device,
    waiting: HashMap<u64, Answer>,
    next_tag: u64,
    /// Time of the thread's next wake-up without a notification.
    looks_at: Option<Time>,
    ending: bool,
    late: Late,
    journal: Option<Journal>,
}

/// Requests that arrived since recording began.
struct Journal {
    /// Tag of the first recorded request.
    first: u64,
    arrivals: Vec<Arrival>,
}

/// A request as it reached the device.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Time of arrival.
    pub came: Time,
    /// Sectors of the request.
    pub runs: Vec<Run>,
    pub write: bool,
    pub owner: u32,
    /// Completion time, if the request is done.
    pub done: Option<Time>,
}

impl Journal {
    fn done(&mut self, done: &Done) {
        let at = done.tag.checked_sub(self.first).and_then(|at| self.arrivals.get_mut(at as usize));
        if let Some(arrival) = at {
            arrival.done = Some(done.at);
        }
    }
}

/// Delays of answers after the device's completion, in real time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Late {
    pub answers: u64,
    pub sum: Duration,
    pub max: Duration,
}

impl Spindle {
    pub fn start(device: Device, pace: Pace) -> io::Result<Spindle> {
        let state = State {
            device,
            waiting: HashMap::new(),
            next_tag: 0,
            looks_at: None,
            ending: false,
            late: Late::default(),
            journal: None,
        };
        let shared =
            Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), begun: Instant::now(), pace });
        let turning = shared.clone();
        let thread = std::thread::Builder::new().name("spindle".into()).spawn(move || turning.turn())?;
        Ok(Spindle { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Current time of the device.
    pub fn now(&self) -> Time {
        self.shared.now()
    }

    /// Submits a request for the sectors of `runs`. `answer` is called at its completion on another thread, or here
    /// if `runs` is empty.
    pub fn submit(&self, runs: &[(u64, u64)], write: bool, owner: u32, answer: Answer) {
        if runs.is_empty() {
            return answer();
        }
        let mut state = self.shared.state.lock();
        let tag = state.next_tag;
        state.next_tag += 1;
        state.waiting.insert(tag, answer);
        let now = self.shared.now();
        let came = state.device.submit(now, tag, runs, write, owner);
        if let Some(journal) = &mut state.journal {
            journal.arrivals.push(Arrival { came, runs: runs.to_vec(), write, owner, done: None });
        }
        let next = state.device.next_at();
        if state.device.has_done() || state.looks_at.is_none_or(|at| next.is_some_and(|next| next < at)) {
            self.shared.changed.notify_one();
        }
    }

    /// Begins to record requests, in the order in which they reach the device.
    pub fn record(&self) {
        let mut state = self.shared.state.lock();
        state.journal = Some(Journal { first: state.next_tag, arrivals: Vec::new() });
    }

    /// Ends the recording and returns it.
    pub fn recorded(&self) -> Vec<Arrival> {
        self.shared.state.lock().journal.take().map_or_else(Vec::new, |journal| journal.arrivals)
    }

    /// Returns the device's counters, its storage's counters and busy time, and the delays of answers.
    pub fn counts(&self) -> (Counts, sim::block::Counts, u64, Late) {
        let mut state = self.shared.state.lock();
        let now = self.shared.now();
        state.device.advance(now);
        if state.device.has_done() {
            self.shared.changed.notify_one();
        }
        let storage = state.device.storage();
        (state.device.counts(now), storage.counts(), storage.busy_ns(), state.late)
    }

    /// Ends the thread; waiting requests get no answer.
    pub fn end(&self) {
        self.shared.state.lock().ending = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.lock().take() {
            drop(thread.join());
        }
    }
}

impl Drop for Spindle {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn now(&self) -> Time {
        self.pace.device_time(self.begun.elapsed())
    }

    fn turn(&self) {
        // The default timer slack of 50 us would be added to every service time.
        if let Err(error) = rustix::thread::set_current_timer_slack(NonZeroU64::new(1)) {
            tracing::debug!(%error, "timers keep their slack; answers will be late by as much");
        }
        let mut state = self.state.lock();
        while !state.ending {
            let now = self.now();
            state.device.advance(now);
            if state.device.has_done() {
                let answers = self.take(&mut state);
                parking_lot::MutexGuard::unlocked(&mut state, || answers.into_iter().for_each(|answer| answer()));
                continue;
            }
            state.looks_at = state.device.next_at();
            match state.looks_at {
                Some(at) => drop(self.changed.wait_until(&mut state, self.begun + self.pace.real(at))),
                None => self.changed.wait(&mut state),
            }
        }
        state.waiting.clear();
    }

    fn take(&self, state: &mut State) -> Vec<Answer> {
        let since = self.begun.elapsed();
        let done = state.device.take_done();
        let State { waiting, late, journal, .. } = state;
        let due = done.into_iter().filter_map(|done| {
            if let Some(journal) = journal {
                journal.done(&done);
            }
            let by = since.saturating_sub(self.pace.real(done.at));
            late.answers += 1;
            late.sum += by;
            late.max = late.max.max(by);
            waiting.remove(&done.tag)
        });
        due.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::setup::Setup;
    use std::sync::mpsc;

    #[test]
    fn an_answer_comes_when_the_device_is_done_and_not_before() {
        let setup = Setup { disk: "plain:latency=20ms".into(), ..Setup::default() };
        let device = Device::new(setup.storage().unwrap(), 8);
        let spindle = Spindle::start(device, Pace::new(2.0).unwrap()).unwrap();
        let (send, receive) = mpsc::channel();
        spindle.record();
        let begun = Instant::now();
        for n in 0..3 {
            let send = send.clone();
            spindle.submit(&[(n * 100, 8)], false, 0, Box::new(move || send.send((n, begun.elapsed())).unwrap()));
        }
        spindle.submit(&[], false, 0, Box::new(move || send.send((9, begun.elapsed())).unwrap()));
        let answers: Vec<_> = receive.iter().collect();
        assert_eq!(answers.iter().map(|answer| answer.0).collect::<Vec<_>>(), [9, 0, 1, 2]);
        for (n, at) in &answers[1..] {
            assert!(*at >= Duration::from_millis(10 * (n + 1)), "answer {n} came early, after {at:?}");
        }
        let (counts, started, busy_ns, late) = spindle.counts();
        assert_eq!((counts.reads, started.started, busy_ns), (3, 3, 60_000_000));
        assert_eq!(late.answers, 3);
        let arrivals = spindle.recorded();
        assert_eq!(arrivals.iter().map(|arrival| arrival.runs[0]).collect::<Vec<_>>(), [(0, 8), (100, 8), (200, 8)]);
        for (n, arrival) in arrivals.iter().enumerate() {
            let done = Time(arrivals[0].came.0 + 20_000_000 * (n as u64 + 1));
            assert_eq!(arrival.done, Some(done), "one after the other");
        }
    }
}
