//! The runner behind the control socket: the requests `job.*`, and errors as the command line shows them.

use super::Runner;
use crate::body::{one, progress, read, unknown};
use crate::request::Caller;
use node::control::answers::write;
use node::control::{Handler, Responder, Result};
use serde_json::Value;

/// The part before the dot of the commands served here.
pub const PREFIX: &str = "job";

impl Handler for Runner {
    fn handle(&self, caller: &Caller, command: &str, args: Value, out: &mut Responder<'_>) -> Result<Value> {
        let caller = *caller;
        Ok(match command.strip_prefix("job.").unwrap_or(command) {
            "submit" => write(&self.submit(caller, read(args)?)?),
            "list" => write(&self.list(caller, read(args)?)),
            "show" => write(&self.show(caller, one(args)?)?),
            "cancel" => write(&self.cancel(caller, one(args)?)?),
            "retry" => write(&self.retry(caller, read(args)?)?),
            "register" => write(&self.register(caller, read(args)?)?),
            "submitted" => write(&self.submitted(caller, read(args)?)?),
            "unregister" => write(&self.unregister(caller, one(args)?)?),
            "admit" => write(&self.admit(caller, one(args)?, &mut progress(out))?),
            "staged" => write(&self.staged(caller, one(args)?)?),
            "log" => write(&self.log(caller, &read(args)?)?),
            "watch" => write(&self.watch(caller, one(args)?, &mut progress(out))?),
            other => return Err(unknown(PREFIX, other)),
        })
    }
}
