//! The runner behind the control socket: the requests `job.*`, and errors as the command line shows them.

use super::Runner;
use crate::body::{answer, read, unknown};
use crate::request::*;
use node::control::{self, Handler, Problem, Responder};
use serde_json::Value;

/// The part before the dot of the commands served here.
pub const PREFIX: &str = "job";

impl Handler for Runner {
    fn handle(
        &self,
        caller: &control::Caller,
        command: &str,
        args: Value,
        out: &mut Responder<'_>,
    ) -> Result<Value, Problem> {
        let caller = Caller { uid: caller.uid, gid: caller.gid };
        match command.strip_prefix("job.").unwrap_or(command) {
            "submit" => answer(&self.submit(caller, read(args)?)?),
            "list" => answer(&self.list(caller, read(args)?)),
            "show" => answer(&self.show(caller, read::<OneJob>(args)?.id)?),
            "cancel" => answer(&self.cancel(caller, read::<OneJob>(args)?.id)?),
            "retry" => answer(&self.retry(caller, read(args)?)?),
            "register" => answer(&self.register(caller, read(args)?)?),
            "submitted" => answer(&self.submitted(caller, read(args)?)?),
            "unregister" => answer(&self.unregister(caller, read::<OneJob>(args)?.id)?),
            "admit" => {
                let mut tell = |summary: &JobSummary| answer(summary).is_ok_and(|value| out.progress(value));
                answer(&self.admit(caller, read::<OneJob>(args)?.id, &mut tell)?)
            }
            "staged" => answer(&self.staged(caller, read::<OneJob>(args)?.id)?),
            "log" => answer(&self.log(caller, &read(args)?)?),
            "watch" => {
                let mut tell = |watched: &Watched| answer(watched).is_ok_and(|value| out.progress(value));
                answer(&self.watch(caller, read::<OneJob>(args)?.id, &mut tell)?)
            }
            "wait" => {
                let mut tell = |summary: &JobSummary| answer(summary).is_ok_and(|value| out.progress(value));
                answer(&self.wait(caller, read::<OneJob>(args)?.id, &mut tell)?)
            }
            other => Err(unknown(PREFIX, other)),
        }
    }
}
