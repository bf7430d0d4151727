//! The control socket: one JSON object per line goes in, progress lines and one last line come out.
//!
//! ```text
//! -> {"id":1,"command":"stage.in","args":{...}}
//! <- {"id":1,"progress":{...}}                       as many as there are
//! <- {"id":1,"result":{...}}                         or
//! <- {"id":1,"error":{"cause":...,"consequence":...,"next_step":...,"exit_code":...}}
//! ```
//!
//! A connection serves one request after the other. Requests find their handler by the part of the command before the
//! dot. The kernel supplies the identity of the caller; a caller that hangs up stops its request.

#[expect(missing_docs, reason = "fields have the names that users see in the JSON, which explain them")]
pub mod answers;
mod client;
mod find;
mod lines;
mod problem;
mod request;
mod server;
mod top;
mod trust;
mod wire;

pub use client::{Client, is_dead};
pub(crate) use find::mounted_at;
pub use find::{ENVIRONMENT, Found, device_of, find, mounts, socket_of};
pub use object::exit;
pub use problem::{Problem, Result};
pub use request::{
    Accounting, AccountingBy, BeginCheckpoint, Check, Events, Find, FindState, Merge, NewLimit, QuotaOf, RecordTrace,
    Request, Scrub, SetQuota, SpaceBy,
};
pub use server::{Binding, Server, ServerOptions};
pub use top::{FILES_MAX, FileCounts, Top};
pub use wire::LINE_BYTES_MAX;

use object::stop::Stop;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

/// Identity of a client, from the credentials of the socket's peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// User id of the process.
    pub uid: u32,
    /// Group id of the process.
    pub gid: u32,
}

impl Caller {
    /// The daemon itself.
    pub fn daemon() -> Caller {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Caller { uid, gid }
    }

    /// Whether the caller is root or the user that runs the daemon: only the operator may act on targets and on the
    /// volume.
    pub fn is_operator(&self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }

    /// Refuses callers that are not the operator.
    pub fn must_be_operator(&self, what: &str) -> Result<(), Problem> {
        if self.is_operator() {
            return Ok(());
        }
        Err(Problem::denied(format!("only the operator of the volume may {what}; you are user {}", self.uid)))
    }
}

/// Serves the commands that start with the prefix of its registration.
pub trait Handler: Send + Sync {
    /// Serves one request; a long one should check [`Responder::stop`].
    fn handle(&self, caller: &Caller, command: &str, args: Value, out: &mut Responder<'_>) -> Result<Value, Problem>;
}

/// Sink for the progress of a handler, with the signal that the caller is gone.
pub struct Responder<'a> {
    send: &'a mut (dyn FnMut(Value) -> bool + Send),
    stop: Arc<Stop>,
}

impl<'a> Responder<'a> {
    /// A responder that passes progress to `send`, which returns `false` once the caller is gone.
    pub fn new(send: &'a mut (dyn FnMut(Value) -> bool + Send), stop: Arc<Stop>) -> Responder<'a> {
        Responder { send, stop }
    }

    /// Sends a line of progress. `false`: the caller is gone, and [`Responder::stop`] is set.
    pub fn progress(&mut self, value: &(impl Serialize + ?Sized)) -> bool {
        if !self.stop.is_set() && !(self.send)(answers::write(value)) {
            self.stop.set();
        }
        !self.stop.is_set()
    }

    /// Set when the caller hangs up or the daemon stops.
    pub fn stop(&self) -> &Arc<Stop> {
        &self.stop
    }
}
