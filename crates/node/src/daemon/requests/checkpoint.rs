//! `checkpoint.*`: reports of applications about their checkpoints, and queries about them.

use super::sent;
use crate::adapt::burst::{Burst, Command};
use crate::control::{Caller, Problem, Request, Result};
use crate::daemon::Core;
use serde_json::Value;
use std::sync::Arc;

/// Serves a request about checkpoints.
pub fn run(core: &Core, caller: &Caller, request: Request) -> Result<Value> {
    let burst = burst(core)?;
    match &request {
        Request::BeginCheckpoint(what) => what.paths.iter().try_for_each(|path| core.may_see(caller, path))?,
        Request::CommitCheckpoint { app, .. }
        | Request::AboutApplication { app, .. }
        | Request::RestartFrom { app }
        | Request::Advise { app }
            if app.is_empty() =>
        {
            return Err(Problem::wrong("no application is named"));
        }
        Request::RestartFrom { app } => return sent(burst.restart(&core.files, caller, app)),
        _ => {}
    }
    burst.call(caller.uid, Command::Control(request))
}

fn burst(core: &Core) -> Result<&Arc<Burst>> {
    core.adapt.burst().ok_or_else(|| {
        Problem::wrong("this volume has no burst buffer")
            .so("nothing was changed")
            .try_this("set `fast = \"...\"` under `[burst]` in volume.toml and start it again")
    })
}
