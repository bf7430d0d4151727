//! Answers of the daemon on its control socket: one file per command's first word.

mod check;
mod checkpoint;
mod events;
pub(super) mod explain;
pub(super) mod find;
mod in_time;
pub(super) mod layout;
mod node;
mod stage;
mod state;
pub(super) mod status;
pub(super) mod target;
mod tiering;
mod top;
mod trace;

pub(super) use tiering::TIERING;

use super::balance::{self, Ask};
use super::{Core, Ending};
use super::{quotas, space};
use crate::control::answers::{Done, Text, write};
use crate::control::{Binding, Caller, Handler, Problem, Request, Responder, Result};
use engine::stage::Progress;
use object::target::Order;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

struct Commands {
    core: Arc<Core>,
    ending: Arc<Ending>,
}

/// Registers the commands that the store itself serves.
pub(super) fn register(socket: &mut Binding, core: &Arc<Core>, ending: &Arc<Ending>) {
    socket.register("", Arc::new(Commands { core: core.clone(), ending: ending.clone() }));
}

impl Handler for Commands {
    fn handle(&self, caller: &Caller, command: &str, args: Value, out: &mut Responder<'_>) -> Result<Value> {
        let request = Request::of(command, args).map_err(|e| {
            Problem::wrong(format!("the request is not understood: {e}"))
                .try_this("use the `entrepot` of the same version as the daemon")
        })?;
        self.serve(caller, request, out)
    }
}

impl Commands {
    fn serve(&self, caller: &Caller, request: Request, out: &mut Responder<'_>) -> Result<Value> {
        let core = &self.core;
        match request {
            Request::Status {} => sent(status::status(core, caller)),
            Request::Stats {} => sent(Ok(status::stats(core))),
            Request::Top {} => sent(Ok(top::get(core, caller))),
            Request::Nodes {} => sent(node::list(core)),
            Request::DrainNode { node, wait } => sent(node::drain(core, caller, &node, wait, out)),
            Request::RestoreNode { node } => sent(node::restore(core, caller, &node)),
            Request::ForgetNode { node } => sent(node::forget(core, caller, &node)),
            Request::Targets {} => sent(Ok(target::room(core))),
            Request::AddTarget { name, dir, tier } => sent(target::add(core, caller, &name, &dir, &tier)),
            Request::RemoveTarget { name, force } => sent(target::remove(core, caller, &name, force)),
            Request::FailTarget { name } => sent(target::order(core, caller, &name, Order::Fail)),
            Request::RestoreTarget { name } => sent(target::order(core, caller, &name, Order::Restore)),
            Request::DrainTarget { name, wait } => sent(target::drain(core, caller, &name, wait, out)),
            Request::StartBalance { spread } => sent(balance::run(core, caller, Ask::Start(spread), out)),
            Request::PauseBalance {} => sent(balance::run(core, caller, Ask::Pause(true), out)),
            Request::ResumeBalance {} => sent(balance::run(core, caller, Ask::Pause(false), out)),
            Request::StopBalance {} => sent(balance::run(core, caller, Ask::Stop, out)),
            Request::Balance {} => sent(balance::run(core, caller, Ask::Status, out)),
            Request::PauseTiering {} => sent(tiering::run(core, caller, true, out)),
            Request::ResumeTiering {} => sent(tiering::run(core, caller, false, out)),
            Request::Layout { path } => sent(layout::get(core, caller, &path)),
            Request::Explain { path } => sent(layout::explain(core, caller, &path)),
            Request::CheckLayout { request } => sent(layout::check(core, &request)),
            asked @ (Request::AddMirror { .. }
            | Request::DropMirror { .. }
            | Request::Replace { .. }
            | Request::Move { .. }
            | Request::Resync { .. }
            | Request::Split { .. }) => sent(layout::change(core, caller, asked, out)),
            Request::Merge(files) => sent(layout::merge(core, caller, &files)),
            asked @ (Request::StageIn { .. }
            | Request::StageInTree { .. }
            | Request::StageInManifest { .. }
            | Request::LookAtStageIn { .. }
            | Request::LookAtStageOut { .. }
            | Request::StageOut { .. }
            | Request::Source { .. }
            | Request::SetSource { .. }) => stage::run(core, caller, asked, out),
            Request::Check(what) => sent(check::run(core, caller, what, out)),
            Request::Accounting(what) => sent(core.accounts.show(core, caller, &what)),
            Request::Events(what) => sent(events::run(core, caller, &what, out)),
            Request::Find(what) => sent(find::run(core, caller, &what, out)),
            Request::Space { path, by } => sent(space::get(core, caller, path, by, out.stop())),
            Request::DumpState { file } => sent(state::dump(core, caller, &file)),
            Request::Purge { dry_run } => {
                sent(caller.must_be_operator("purge the volume").and_then(|()| Ok(core.purge(dry_run)?)))
            }
            asked @ (Request::ShowQuota { .. }
            | Request::Quotas {}
            | Request::SetQuota(_)
            | Request::RemoveQuota { .. }) => quotas::run(core, caller, asked, out),
            Request::Scrub(asked) => sent(super::scrub::run(core, caller, asked, out)),
            asked @ (Request::BeginCheckpoint(_)
            | Request::CommitCheckpoint { .. }
            | Request::AboutApplication { .. }
            | Request::Checkpoints { .. }
            | Request::RestartFrom { .. }
            | Request::Advise { .. }
            | Request::BurstBuffer {}) => checkpoint::run(core, caller, asked),
            Request::RecordTrace(limits) => sent(trace::record(core, caller, limits, out)),
            Request::Down { force } => {
                caller.must_be_operator("stop the volume")?;
                sent(self.ending.unmount(force).map(|()| Done {}))
            }
        }
    }
}

/// A text as an answer.
fn told(text: impl Into<String>) -> Text {
    Text { text: text.into() }
}

/// Serializes an answer.
fn sent<T: Serialize>(answer: Result<T>) -> Result<Value> {
    answer.map(|answer| write(&answer))
}

/// Runs `work` and sends its progress to the caller.
fn with_progress<T>(
    out: &mut Responder<'_>,
    work: impl FnOnce(engine::stage::Report<'_>, &engine::stage::Stop) -> T,
) -> T {
    let stop = out.stop().clone();
    let out = Mutex::new(out);
    let report = |progress: &Progress| {
        out.lock().progress(progress);
    };
    work(&report, &stop)
}
