//! `purge.run`: removes what may go, for the operator.

use super::unknown;
use crate::control::{Caller, Problem, Responder};
use crate::daemon::Core;
use serde_json::{Value, json};
use std::sync::Arc;

pub fn serve(
    core: &Arc<Core>,
    caller: &Caller,
    verb: &str,
    args: Value,
    _: &mut Responder<'_>,
) -> Result<Value, Problem> {
    match verb {
        "run" => {
            caller.must_be_operator("purge the volume")?;
            Ok(json!(core.purge(args["dry_run"] == true)?))
        }
        _ => Err(unknown(&format!("purge.{verb}"))),
    }
}
