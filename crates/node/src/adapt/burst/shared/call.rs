//! Commands of any node about checkpoints: the node that decides serves them.

use super::super::Burst;
use super::request::Command;
use crate::calls::{Answer, SILENT, To};
use crate::control::answers::{self, Done, Row, Versions, write};
use crate::control::{Caller, Problem, Request, Responder};
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;

/// The name of these calls.
const COMMANDS: &str = "checkpoints";
/// Timeout of `entrepot status` for this part of its answer.
const STATUS_MAX: Duration = Duration::from_secs(3);

impl Burst {
    /// Serves commands of other nodes.
    pub(super) fn serve_calls(self: &Arc<Burst>) {
        let Some(shared) = self.shared.get() else { return };
        let (here, burst) = (Arc::downgrade(self), Arc::downgrade(self));
        let is_here = move || here.upgrade().is_some_and(|burst| burst.decides());
        shared.calls.register_where(COMMANDS, is_here, move |caller, command: Command, _| {
            let burst = burst.upgrade().ok_or_else(|| Problem::busy("the leading node is starting or ending"))?;
            burst.serve_here(caller.uid, &command)
        });
    }

    /// Has the node that decides serve a command.
    ///
    /// # Errors
    /// Errors of the command, or a missing reply.
    pub fn call<T: DeserializeOwned>(self: &Arc<Burst>, uid: u32, what: Command) -> Answer<T> {
        self.call_for(uid, &what, SILENT)
    }

    fn call_for<T: DeserializeOwned>(self: &Arc<Burst>, uid: u32, what: &Command, silent: Duration) -> Answer<T> {
        let Some(shared) = self.shared.get().filter(|_| !self.decides()) else {
            return self.serve_here(uid, what).and_then(answers::read);
        };
        let mut listens = |_| true;
        let mut out = Responder::new(&mut listens, Arc::default());
        shared.calls.call(&To::Leader, COMMANDS, &caller(uid), what, silent, &mut out)
    }

    /// State of the buffer; `None` if the deciding node does not answer in time.
    pub(crate) fn status_of_all(self: &Arc<Burst>, caller: &Caller) -> Option<answers::Burst> {
        self.call_for(caller.uid, &Command::Control(Request::BurstBuffer {}), STATUS_MAX).ok().flatten()
    }

    /// All versions, including incomplete ones; empty if the deciding node does not answer in time.
    pub(crate) fn rows_of_all(self: &Arc<Burst>, caller: &Caller) -> Vec<Row> {
        let answer = self.call_for(caller.uid, &Command::Control(Request::Checkpoints { app: None }), STATUS_MAX);
        answer.map_or_else(|_| Vec::new(), |Versions { versions }| versions)
    }

    fn serve_here(self: &Arc<Burst>, uid: u32, what: &Command) -> Answer {
        match what {
            Command::Control(request) => return self.serve_request(&caller(uid), request),
            Command::Mark(job, marked) => self.mark(job, marked)?,
            Command::Unmark(job) => self.unmark(job),
        }
        Ok(write(&Done {}))
    }

    fn serve_request(self: &Arc<Burst>, caller: &Caller, request: &Request) -> Answer {
        Ok(match request {
            Request::BeginCheckpoint(what) => write(&self.begin(caller, what)?),
            Request::CommitCheckpoint { app, abandon } => self.end(caller, app, *abandon)?,
            Request::AboutApplication { app, mtbf_s, nodes } => write(&self.about(caller, app, *mtbf_s, *nodes)?),
            Request::Checkpoints { app } => write(&Versions { versions: self.rows(caller, app.as_deref()) }),
            Request::RestartFrom { app } => write(&self.to_restart_from(caller, app)?),
            Request::Advise { app } => write(&self.advice(caller, app)?),
            Request::BurstBuffer {} => write(&self.status(caller)),
            _ => return Err(Problem::wrong("this is no request about checkpoints")),
        })
    }
}

/// Identity of the caller, as the requesting node received it on its socket.
fn caller(uid: u32) -> Caller {
    Caller { uid, gid: u32::MAX }
}
