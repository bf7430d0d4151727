//! The requests `slurm.*` behind the control socket: hooks for Slurm alone, the rest for the jobs' owners.

use super::Slurm;
use super::wire::{Log, OnePart, SetUp};
use crate::body::{one, progress, read, unknown};
use crate::error::Error;
use crate::request::{Caller, List};
use node::control::answers::write;
use node::control::{Handler, Problem, Responder, Result, exit};
use serde_json::Value;
use std::sync::Weak;

/// The part before the dot of the commands served here.
pub const PREFIX: &str = "slurm";

impl Handler for Slurm {
    fn handle(&self, caller: &Caller, command: &str, args: Value, out: &mut Responder<'_>) -> Result<Value> {
        let who = *caller;
        let verb = command.strip_prefix("slurm.").unwrap_or(command);
        let is_hook = matches!(verb, "setup" | "data-in" | "variables" | "pre-run" | "data-out" | "teardown" | "part");
        if is_hook && !caller.is_operator() && !self.core.own.slurm_users.contains(&caller.uid) {
            let cause = format!("user {} may not send requests of Slurm", caller.uid);
            return Err(Problem::denied(cause).try_this(
                "name the user that slurmctld runs as in volume.toml: [jobs] slurm_user = \"slurm\"; then restart the daemon",
            ));
        }
        self.serve(who, verb, args, out).map_err(|problem| match problem.exit_code {
            exit::NOT_FOUND => problem.try_this("`entrepot slurm list --all` shows those there are"),
            _ => problem,
        })
    }
}

impl Slurm {
    fn serve(&self, who: Caller, verb: &str, args: Value, out: &mut Responder<'_>) -> Result<Value> {
        Ok(match verb {
            "setup" => write(&self.set_up(read::<SetUp>(args)?)?),
            "data-in" => write(&self.data_in(one(args)?)?),
            "variables" => write(&self.variables(one(args)?)?),
            "pre-run" => write(&self.pre_run(one(args)?)?),
            "data-out" => write(&self.data_out(one(args)?)?),
            "teardown" => write(&self.tear_down(one(args)?)),
            "part" => {
                let OnePart { uid, job, kind } = read(args)?;
                let runner = self.core.own.runner.get().and_then(Weak::upgrade);
                write(&runner.ok_or(Error::NoJob(job)).and_then(|runner| runner.claim(uid, job, kind))?)
            }
            "status" => write(&self.status()),
            "list" => write(&self.list(who, read::<List>(args)?.all)),
            "show" => write(&self.show(who, one(args)?)?),
            "watch" => write(&self.watch(who, one(args)?, &mut progress(out))?),
            "log" => write(&self.log(who, &read::<Log>(args)?)?),
            "forget" => write(&self.forget(who, one(args)?)?),
            "retry" => write(&self.retry(who, one(args)?)?),
            other => return Err(unknown(PREFIX, other)),
        })
    }
}
