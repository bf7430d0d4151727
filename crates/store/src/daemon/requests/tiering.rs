//! `tiering.*`: moving between the tiers stops for a while, and goes on.

use super::unknown;
use crate::control::{Caller, Problem, Responder};
use crate::daemon::Core;
use serde_json::{Value, json};
use std::sync::Arc;

pub fn serve(core: &Arc<Core>, caller: &Caller, verb: &str, _: Value, _: &mut Responder<'_>) -> Result<Value, Problem> {
    let paused = match verb {
        "pause" => true,
        "resume" => false,
        _ => return Err(unknown(&format!("tiering.{verb}"))),
    };
    caller.must_be_operator(&format!("{verb} tiering"))?;
    if !core.adapt.has_tiers() {
        return Err(Problem::wrong("this volume moves nothing between tiers")
            .so("there is nothing to pause or resume")
            .try_this("set `policy` in `[tiering]` of volume.toml, and start the volume anew"));
    }
    core.adapt.pause(paused);
    let text = if paused { "nothing more is moved between the tiers; what is under way ends" } else { "moves go on" };
    Ok(json!({"text": text}))
}
