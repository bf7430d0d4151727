//! `checkpoint.*`: reports of applications about their checkpoints, and queries about them.

use super::sent;
use crate::adapt::burst::{Asked, Burst};
use crate::control::{Caller, Problem, Request};
use crate::daemon::Core;
use serde_json::Value;
use std::sync::Arc;

/// Serves a request about checkpoints.
pub fn run(core: &Core, caller: &Caller, request: Request) -> Result<Value, Problem> {
    let burst = burst(core)?;
    match request {
        Request::BeginCheckpoint(what) => {
            what.paths.iter().try_for_each(|path| core.may_see(caller, path))?;
            burst.call(caller.uid, Asked::Begin(what))
        }
        Request::CommitCheckpoint { app, abandon } => {
            named(&app)?;
            burst.call(caller.uid, Asked::End(app, abandon))
        }
        Request::AboutApplication { app, mtbf_s, nodes } => {
            named(&app)?;
            burst.call(caller.uid, Asked::About(app, mtbf_s, nodes))
        }
        Request::Checkpoints { app } => burst.call(caller.uid, Asked::Rows(app)),
        Request::RestartFrom { app } => {
            named(&app)?;
            sent(burst.restart(&core.files, caller, &app))
        }
        Request::Advise { app } => {
            named(&app)?;
            burst.call(caller.uid, Asked::Advice(app))
        }
        Request::BurstBuffer {} => burst.call(caller.uid, Asked::Status),
        _ => Err(Problem::wrong("this is no request about checkpoints")),
    }
}

fn burst(core: &Core) -> Result<&Arc<Burst>, Problem> {
    core.adapt.burst().ok_or_else(|| {
        Problem::wrong("this volume has no burst buffer")
            .so("nothing was changed")
            .try_this("set `fast = \"...\"` under `[burst]` in volume.toml and start it again")
    })
}

fn named(app: &str) -> Result<&str, Problem> {
    if app.is_empty() { Err(Problem::wrong("no application is named")) } else { Ok(app) }
}
