//! `tiering.*`: moving between the tiers stops for a while, and goes on.

use super::told;
use crate::control::{Caller, Problem};
use crate::daemon::Core;
use serde_json::Value;

pub fn pause(core: &Core, caller: &Caller, paused: bool) -> Result<Value, Problem> {
    caller.must_be_operator(if paused { "pause tiering" } else { "resume tiering" })?;
    if !core.adapt.has_tiers() {
        return Err(Problem::wrong("this volume moves nothing between tiers")
            .so("there is nothing to pause or resume")
            .try_this("set `policy` in `[tiering]` of volume.toml, and start the volume anew"));
    }
    core.adapt.pause(paused);
    Ok(told(if paused { "nothing more is moved between the tiers; what is under way ends" } else { "moves go on" }))
}
