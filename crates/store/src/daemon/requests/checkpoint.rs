//! `checkpoint.*`: versions begun, ended and listed.

use super::{read, unknown};
use crate::control::{Caller, Problem, Responder};
use crate::daemon::Core;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(serde::Deserialize)]
struct Args {
    #[serde(default)]
    app: Option<String>,
    #[serde(default)]
    abandon: bool,
    #[serde(default)]
    mtbf_s: Option<u64>,
    #[serde(default)]
    nodes: Option<u64>,
}

pub fn serve(
    core: &Arc<Core>,
    caller: &Caller,
    verb: &str,
    args: Value,
    _: &mut Responder<'_>,
) -> Result<Value, Problem> {
    let Some(burst) = &core.burst else {
        return Err(Problem::wrong("this volume has no burst buffer")
            .so("nothing was changed")
            .try_this("say `fast = \"...\"` under `[burst]` in volume.toml and start it again"));
    };
    if verb == "begin" {
        return burst.begin(core, caller, &read(args)?);
    }
    let args: Args = read(args)?;
    let app = args.app.as_deref();
    let named = || app.filter(|app| !app.is_empty()).ok_or_else(|| Problem::wrong("no application is named"));
    match verb {
        "commit" => burst.end(caller, named()?, args.abandon),
        "about" => {
            burst.about(caller, named()?, args.mtbf_s, args.nodes)?;
            Ok(json!({}))
        }
        "list" => Ok(json!({"versions": burst.rows(caller, app)})),
        "status" => Ok(burst.status(caller)),
        _ => Err(unknown(&format!("checkpoint.{verb}"))),
    }
}
