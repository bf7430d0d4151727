//! What the daemon answers on its control socket: one file per command's first word.

mod check;
mod checkpoint;
mod explain;
pub(super) mod layout;
mod purge;
mod stage;
mod state;
mod status;
mod target;
mod tiering;

use super::{Core, Ending};
use crate::control::{Binding, Caller, Handler, Problem, Responder};
use crate::stage::Progress;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;

type Serve = fn(&Arc<Core>, &Caller, &str, Value, &mut Responder<'_>) -> Result<Value, Problem>;

/// The commands that start with one word.
struct Commands {
    core: Arc<Core>,
    serve: Serve,
}

impl Handler for Commands {
    fn handle(&self, caller: &Caller, command: &str, args: Value, out: &mut Responder<'_>) -> Result<Value, Problem> {
        let verb = command.split_once('.').map_or("", |(_, verb)| verb);
        (self.serve)(&self.core, caller, verb, args, out)
    }
}

/// `daemon.*`: the end.
struct Down(Arc<Ending>);

impl Handler for Down {
    fn handle(&self, caller: &Caller, _: &str, args: Value, _: &mut Responder<'_>) -> Result<Value, Problem> {
        caller.must_be_operator("stop the volume")?;
        self.0.unmount(args["force"] == true)?;
        Ok(json!({}))
    }
}

/// Registers everything that the store itself serves.
pub(super) fn register(socket: &mut Binding, core: &Arc<Core>, ending: &Arc<Ending>) {
    let all: [(&str, Serve); 11] = [
        ("status", status::status),
        ("stats", status::stats),
        ("target", target::serve),
        ("tiering", tiering::serve),
        ("layout", layout::serve),
        ("stage", stage::serve),
        ("source", stage::source),
        ("check", check::serve),
        ("state", state::serve),
        ("purge", purge::serve),
        ("checkpoint", checkpoint::serve),
    ];
    for (prefix, serve) in all {
        socket.register(prefix, Arc::new(Commands { core: core.clone(), serve }));
    }
    socket.register("daemon", Arc::new(Down(ending.clone())));
}

/// Reads the arguments of a command.
fn read<T: DeserializeOwned>(args: Value) -> Result<T, Problem> {
    serde_json::from_value(args).map_err(|e| {
        Problem::wrong(format!("the request is not understood: {e}"))
            .try_this("use the `entrepot` of the same version as the daemon")
    })
}

fn unknown(command: &str) -> Problem {
    Problem::wrong(format!("the daemon knows no command `{command}`"))
        .try_this("use the `entrepot` of the same version as the daemon")
}

/// Runs `work` with its progress going to the caller.
fn with_progress<T>(
    out: &mut Responder<'_>,
    work: impl FnOnce(crate::stage::Report<'_>, &crate::stage::Stop) -> T,
) -> T {
    let stop = out.stop().clone();
    let out = Mutex::new(out);
    let report = |progress: &Progress| {
        out.lock().progress(json!(progress));
    };
    work(&report, &stop)
}
