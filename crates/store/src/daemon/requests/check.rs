//! `check.run`: what is lost, half done or left over.

use super::{read, unknown, with_progress};
use crate::control::{Caller, Problem, Responder};
use crate::daemon::Core;
use crate::repair::CheckOptions;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(serde::Deserialize)]
struct Args {
    #[serde(default)]
    repair: bool,
    #[serde(default)]
    before_job: bool,
    #[serde(default)]
    deep: bool,
    #[serde(default)]
    drop_unknown: bool,
    #[serde(default)]
    paths: Vec<String>,
}

pub fn serve(
    core: &Arc<Core>,
    caller: &Caller,
    verb: &str,
    args: Value,
    out: &mut Responder<'_>,
) -> Result<Value, Problem> {
    if verb != "run" {
        return Err(unknown(&format!("check.{verb}")));
    }
    let args: Args = read(args)?;
    // All of the volume is the operator's business; paths are the business of who may reach them.
    if args.paths.is_empty() || args.paths.iter().any(String::is_empty) {
        caller.must_be_operator("check the whole volume")?;
    }
    for path in &args.paths {
        core.may_see(caller, path)?;
    }
    let before_job = if args.before_job { args.paths.clone() } else { Vec::new() };
    let Args { repair, deep, drop_unknown, paths, .. } = args;
    let options = CheckOptions { repair, deep, drop_unknown, paths, before_job };
    let report = with_progress(out, |report, stop| core.checker.check(&options, report, stop))?;
    let mut answer = json!(report);
    answer["healthy"] = report.is_healthy().into();
    Ok(answer)
}
