//! `check.run`: what is lost, half done or left over.

use super::{read, unknown, with_progress};
use crate::control::{Caller, Problem, Responder};
use crate::daemon::Core;
use crate::daemon::resolve::identity;
use crate::recovery::{Behalf, CheckOptions, Checker};
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
    // All of the volume is the operator's business. Who names paths sees of them what is to be seen with the caller's own
    // rights, whatever they are, and has set right what is the caller's own.
    if args.paths.is_empty() || args.paths.iter().any(String::is_empty) {
        caller.must_be_operator("check the whole volume")?;
    }
    for path in &args.paths {
        core.may_see(caller, path)?;
    }
    let before_job = if args.before_job { args.paths.clone() } else { Vec::new() };
    let Args { repair, deep, drop_unknown, paths, .. } = args;
    let options = CheckOptions { repair, deep, drop_unknown, paths, before_job };
    let check = |checker: &Checker, out: &mut Responder<'_>| {
        with_progress(out, |report, stop| checker.check(&options, report, stop))
    };
    let report = if caller.is_operator() {
        check(&core.checker, out)
    } else {
        // A check of a directory asks all targets for all that they hold.
        let _held = core.checks.take(caller.uid, 1).map_err(|_| {
            Problem::busy("as many checks are under way as there may be, or as one user may have")
                .try_this("wait for one to end, and try again")
        })?;
        check(&core.checker.on_behalf_of(Behalf { who: identity(caller), repairs_readable: false }), out)
    }?;
    let mut answer = json!(report);
    answer["healthy"] = report.is_healthy().into();
    Ok(answer)
}
