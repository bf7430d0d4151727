//! Commands of any node about checkpoints: the node that decides serves them.

use super::super::Burst;
use super::AGAIN;
use super::word::{Asked, By, Call, Word};
use crate::control::{Caller, Problem};
use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Without a sign of life for so long, nobody serves a call.
const SILENT: Duration = Duration::from_secs(15);
/// `entrepot status` waits no longer for this part of it.
const STATUS_MAX: Duration = Duration::from_secs(3);
/// What was answered is remembered for so long, since the answer may get lost.
const ANSWERED: Duration = Duration::from_secs(60);
/// Calls that are served at the same time.
const SERVED_MAX: usize = 64;
/// Longer answers do not travel.
const ANSWER_BYTES_MAX: usize = 8 << 20;

type Answer = Result<Value, Problem>;
/// The name of a node, and the number of its call.
type Asker = (String, u64);

/// Calls under way: this node's, and those that it serves.
#[derive(Default)]
pub struct Calls {
    /// When something was heard of a call, and its answer.
    made: Mutex<HashMap<u64, (Instant, Option<Answer>)>>,
    changed: Condvar,
    /// By who calls and the number: when it came, and what was answered.
    served: Mutex<HashMap<Asker, (Instant, Option<Answer>)>>,
}

impl Calls {
    pub fn goes_on(&self, number: u64) {
        if let Some(made) = self.made.lock().get_mut(&number) {
            made.0 = Instant::now();
        }
    }

    pub fn ended(&self, number: u64, answer: Answer) {
        if let Some(made) = self.made.lock().get_mut(&number) {
            made.1 = Some(answer);
            self.changed.notify_all();
        }
    }
}

/// On whose behalf: what the node that asked saw on its socket.
fn caller(uid: u32) -> Caller {
    Caller { uid, gid: u32::MAX, pid: 0 }
}

impl Burst {
    /// Has the node that decides serve a call.
    ///
    /// # Errors
    /// What it says, or that it does not answer.
    pub fn call(self: &Arc<Burst>, uid: u32, what: Asked) -> Result<Value, Problem> {
        self.call_for(Call { uid, what }, SILENT)
    }

    fn call_for(self: &Arc<Burst>, call: Call, silent: Duration) -> Answer {
        let Some(shared) = self.shared.get().filter(|_| !self.decides()) else { return self.serve_here(&call) };
        // A daemon that starts again must not repeat numbers that it gave before.
        let number = super::super::now_ms() << 16 | self.next_number() & 0xffff;
        shared.calls.made.lock().insert(number, (Instant::now(), None));
        let answer = self.wait_for(number, &call, silent);
        shared.calls.made.lock().remove(&number);
        answer
    }

    fn wait_for(self: &Arc<Burst>, number: u64, call: &Call, silent: Duration) -> Answer {
        let Some(shared) = self.shared.get() else { return self.serve_here(call) };
        let word = Word::Call { by: shared.by(), number, call: call.clone() };
        loop {
            if self.decides() {
                return self.serve_here(call);
            }
            shared.say(&word);
            let mut made = shared.calls.made.lock();
            shared.calls.changed.wait_for(&mut made, AGAIN);
            match made.get(&number) {
                Some((_, Some(answer))) => return answer.clone(),
                Some((heard, None)) if heard.elapsed() < silent => {}
                _ => {
                    return Err(Problem::failed(
                        "the node that leads does not answer, and it decides about checkpoints",
                    )
                    .so("it is not known whether anything was changed")
                    .try_this("`entrepot node list` shows who leads; try again"));
                }
            }
        }
    }

    /// How the buffer is; if the node that decides does not say so soon, nothing.
    pub(crate) fn status_of_all(self: &Arc<Burst>, caller: &Caller) -> Value {
        self.call_for(Call { uid: caller.uid, what: Asked::Status }, STATUS_MAX).unwrap_or_default()
    }

    /// Another node calls.
    pub(super) fn serve(&self, by: By, number: u64, call: Call) {
        let Some(shared) = self.shared.get().filter(|_| self.decides()) else { return };
        let key = (by.name.clone(), number);
        let mut served = shared.calls.served.lock();
        served.retain(|_, (at, answer)| answer.is_none() || at.elapsed() < ANSWERED);
        if let Some((_, known)) = served.get(&key) {
            let again = match known {
                Some(result) => Word::Result { number, result: result.clone() },
                None => Word::Serves { number },
            };
            return shared.say_to(&by.name, &again);
        }
        if served.values().filter(|(_, answer)| answer.is_none()).count() >= SERVED_MAX {
            return; // it is said again
        }
        served.insert(key.clone(), (Instant::now(), None));
        drop(served);
        let Some(burst) = self.me.upgrade() else { return };
        let work = move || {
            let Some(shared) = burst.shared.get() else { return };
            let result = fitting(burst.serve_here(&call));
            shared.calls.served.lock().insert(key, (Instant::now(), Some(result.clone())));
            shared.say_to(&by.name, &Word::Result { number, result });
        };
        if std::thread::Builder::new().name("burst-call".into()).spawn(work).is_err() {
            tracing::warn!("no thread for a command of another node; it is asked again");
        }
    }

    fn serve_here(self: &Arc<Burst>, call: &Call) -> Answer {
        let caller = caller(call.uid);
        match &call.what {
            Asked::Begin(what) => return self.begin(&caller, what),
            Asked::End(app, abandon) => return self.end(&caller, app, *abandon),
            Asked::Rows(app) => return Ok(json!({"versions": self.rows(&caller, app.as_deref())})),
            Asked::Status => return Ok(self.status(&caller)),
            Asked::About(app, mtbf_s, nodes) => self.about(&caller, app, *mtbf_s, *nodes)?,
            Asked::Mark(job, marked) => self.mark(job, marked)?,
            Asked::Unmark(job) => self.unmark(job),
        }
        Ok(json!({}))
    }
}

fn fitting(answer: Answer) -> Answer {
    match &answer {
        Ok(value) if value.to_string().len() > ANSWER_BYTES_MAX => {
            Err(Problem::failed("the answer is too long to travel between nodes")
                .try_this("ask for one application, or ask on the node that leads (`entrepot node list`)"))
        }
        _ => answer,
    }
}
