//! Bodies of requests and answers on the control socket, from and to JSON, for all handlers of jobs.

use crate::request::{JobId, OneJob};
use node::control::{Problem, Responder, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads the body of a request.
pub(crate) fn read<T: DeserializeOwned>(args: Value) -> Result<T> {
    let wrong = |e| Problem::wrong(format!("the request cannot be read: {e}"));
    serde_json::from_value(args)
        .map_err(|e| wrong(e).try_this("restart the daemon if it is of another version than this command"))
}

/// Reads the body of a request about one job.
pub(crate) fn one(args: Value) -> Result<JobId> {
    Ok(read::<OneJob>(args)?.id)
}

/// The answer to a request without a handler.
pub(crate) fn unknown(prefix: &str, verb: &str) -> Problem {
    Problem::wrong(format!("the daemon has no request {prefix}.{verb}"))
        .try_this("restart the daemon: it is of another version than this command")
}

/// Sends progress to the caller; `false`: the caller is gone.
pub(crate) fn progress<T: Serialize>(out: &mut Responder<'_>) -> impl FnMut(&T) -> bool {
    move |value| out.progress(value)
}
