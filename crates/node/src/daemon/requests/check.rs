//! `check.run`: finds lost, half-done and left-over data.

use super::with_progress;
use crate::control::{Caller, Check, Problem, Responder, answers};
use crate::daemon::Core;
use crate::daemon::resolve::identity;
use engine::recovery::{Behalf, CheckOptions, Checker};

pub fn run(core: &Core, caller: &Caller, what: Check, out: &mut Responder<'_>) -> Result<answers::Check, Problem> {
    let Check { repair, before_job, deep, drop_unknown, mut paths } = what;
    // Only the operator may check the whole volume. Another caller may check the paths that its own permissions
    // reach, and repair its own files.
    if paths.is_empty() || paths.iter().any(|path| is_root(path)) {
        caller.must_be_operator("check the whole volume")?;
    }
    for path in &paths {
        core.may_see(caller, path)?;
    }
    if !before_job && paths.iter().any(|path| is_root(path)) {
        paths.clear(); // that is everything
    }
    let before_job = if before_job { paths.clone() } else { Vec::new() };
    let options = CheckOptions { repair, deep, drop_unknown, paths, before_job, only_left: false };
    let together = core.together.as_ref().filter(|_| options.paths.is_empty() && options.before_job.is_empty());
    let check = |checker: &Checker, out: &mut Responder<'_>| {
        with_progress(out, |report, stop| checker.check(&options, report, stop))
    };
    let report = if let Some(together) = together {
        // Only the operator gets here, since the check covers the whole volume.
        with_progress(out, |report, stop| together.check(&options, report, stop))
    } else if caller.is_operator() {
        check(&core.checker, out)
    } else {
        // A check of a directory lists the objects on all targets.
        let _held = core.look_for(caller)?;
        check(&core.checker.on_behalf_of(Behalf { who: identity(caller), repairs_readable: false }), out)
    }?;
    Ok(answers::Check { healthy: report.is_healthy(), report })
}

fn is_root(path: &str) -> bool {
    path.split('/').all(|name| name.is_empty() || name == ".")
}
