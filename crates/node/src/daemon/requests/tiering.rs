//! `tiering.*`: pauses and resumes moves between the tiers.

use super::told;
use crate::control::answers::Text;
use crate::control::{Caller, Problem, Responder, Result};
use crate::daemon::Core;
use crate::daemon::led::Led;
use std::sync::Arc;

/// Requests to the leader, which alone moves files between tiers: whether to pause.
pub static TIERING: Led<bool, Text> =
    Led { name: "tiering", is_ready: |_| true, serve: |core, _, paused, _| pause(core, paused) };

pub fn run(core: &Arc<Core>, caller: &Caller, paused: bool, out: &mut Responder<'_>) -> Result<Text> {
    caller.must_be_operator(if paused { "pause tiering" } else { "resume tiering" })?;
    TIERING.ask(core, caller, paused, out)
}

fn pause(core: &Core, paused: bool) -> Result<Text> {
    if !core.adapt.has_tiers() {
        return Err(Problem::wrong("this volume moves nothing between tiers")
            .so("there is nothing to pause or resume")
            .try_this("set `policy` in `[tiering]` of volume.toml, and restart the volume"));
    }
    core.adapt.pause(paused);
    let words = if paused { "no more moves between the tiers are started; moves under way end" } else { "moves go on" };
    Ok(told(words))
}
