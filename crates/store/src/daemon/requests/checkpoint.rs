//! `checkpoint.*`: reports of applications about their checkpoints, and queries about them.

use crate::adapt::burst::Burst;
use crate::control::Problem;
use crate::daemon::Core;
use std::sync::Arc;

pub fn burst(core: &Core) -> Result<&Arc<Burst>, Problem> {
    core.adapt.burst().ok_or_else(|| {
        Problem::wrong("this volume has no burst buffer")
            .so("nothing was changed")
            .try_this("say `fast = \"...\"` under `[burst]` in volume.toml and start it again")
    })
}

pub fn named(app: &str) -> Result<&str, Problem> {
    if app.is_empty() { Err(Problem::wrong("no application is named")) } else { Ok(app) }
}
