//! The runner behind the control socket: the requests `job.*`, and errors as the command line shows them.

use super::Runner;
use crate::body::{answer, progress, read, unknown};
use crate::request::*;
use node::control::{self, Handler, Responder, Result};
use serde_json::Value;

/// The part before the dot of the commands served here.
pub const PREFIX: &str = "job";

impl Handler for Runner {
    fn handle(&self, caller: &control::Caller, command: &str, args: Value, out: &mut Responder<'_>) -> Result<Value> {
        let caller = Caller { uid: caller.uid, gid: caller.gid };
        match command.strip_prefix("job.").unwrap_or(command) {
            "submit" => answer(&self.submit(caller, read(args)?)?),
            "list" => answer(&self.list(caller, read(args)?)),
            "show" => answer(&self.show(caller, one(args)?)?),
            "cancel" => answer(&self.cancel(caller, one(args)?)?),
            "retry" => answer(&self.retry(caller, read(args)?)?),
            "register" => answer(&self.register(caller, read(args)?)?),
            "submitted" => answer(&self.submitted(caller, read(args)?)?),
            "unregister" => answer(&self.unregister(caller, one(args)?)?),
            "admit" => answer(&self.admit(caller, one(args)?, &mut progress(out))?),
            "staged" => answer(&self.staged(caller, one(args)?)?),
            "log" => answer(&self.log(caller, &read(args)?)?),
            "watch" => answer(&self.watch(caller, one(args)?, &mut progress(out))?),
            "wait" => answer(&self.wait(caller, one(args)?, &mut progress(out))?),
            other => Err(unknown(PREFIX, other)),
        }
    }
}

fn one(args: Value) -> Result<JobId> {
    Ok(read::<OneJob>(args)?.id)
}
