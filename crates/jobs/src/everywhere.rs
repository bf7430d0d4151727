//! Jobs on any node of a volume: requests about a job of another node are forwarded; lists are of all nodes.
//!
//! ```text
//!   entrepot job show 7 -- control socket -- Everywhere -- this node's runner: it has no job 7
//!                                                '-- KnownJobs: n2 has it -- call --> n2's runner
//! ```

use crate::known::{KnownJob, KnownJobs, OF_RUNNER};
use crate::request::{Caller, JobId, OneJob, SilentHosts};
use node::calls::{Answer, Calls, SILENT, To};
use node::control::answers::read;
use node::control::{Handler, Responder, exit};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Time limit of a list for the answer of each node.
const LIST_MAX: Duration = Duration::from_secs(3);

/// A request that is forwarded.
#[derive(Serialize, Deserialize)]
struct Request {
    command: String,
    args: Value,
}

/// Handler of `PREFIX.*` on a volume of several nodes.
pub struct Everywhere {
    here: Arc<dyn Handler>,
    prefix: &'static str,
    records: &'static str,
    known: Arc<KnownJobs>,
    calls: Arc<Calls>,
}

impl Everywhere {
    /// Adds forwarding to `here`, the handler of jobs in these records; returns `here` unchanged on a volume of one
    /// node.
    pub(crate) fn over(
        here: Arc<dyn Handler>,
        prefix: &'static str,
        records: &'static str,
        known: Option<&Arc<KnownJobs>>,
        calls: Option<&Arc<Calls>>,
    ) -> Arc<dyn Handler> {
        let Some((known, calls)) = known.cloned().zip(calls.cloned()) else { return here };
        let jobs = here.clone();
        calls.register(prefix, move |caller, Request { command, args }, out| jobs.handle(caller, &command, args, out));
        Arc::new(Everywhere { here, prefix, records, known, calls })
    }

    /// The job that a request is about, if another node has it and the caller may see it.
    fn elsewhere(&self, caller: &Caller, verb: &str, id: JobId) -> Option<KnownJob> {
        // Slurm requests a part of a job of the runner.
        let records = if verb == "part" { OF_RUNNER } else { self.records };
        let found = self.known.find(records, id);
        let found =
            found.inspect_err(|error| tracing::warn!("jobs of other nodes cannot be listed: {error}")).ok()??;
        found.is_open_to(*caller).then_some(found)
    }

    /// The rows of this node and of all others that have jobs. Hosts that do not answer are reported as progress.
    fn list(&self, caller: &Caller, request: &Request, out: &mut Responder<'_>) -> Answer {
        let mut rows: Vec<Value> = read(self.here.handle(caller, &request.command, request.args.clone(), out)?)?;
        let others = self.known.elsewhere()?.into_iter().filter(|job| job.records == self.records);
        let hosts: BTreeMap<String, String> = others.map(|job| (job.node, job.host)).collect();
        let nodes = hosts.keys().cloned().collect();
        let mut silent = Vec::new();
        let answers = self.calls.call_each::<Vec<Value>>(nodes, self.prefix, caller, request, LIST_MAX, &|_| true);
        for (node, answer) in answers {
            match answer {
                Ok(theirs) => rows.extend(theirs),
                Err(_) => silent.push(hosts.get(&node).cloned().unwrap_or_default()),
            }
        }
        rows.sort_by_key(job_of);
        if !silent.is_empty() {
            silent.sort();
            out.progress(&SilentHosts { silent });
        }
        Ok(Value::Array(rows))
    }
}

impl Handler for Everywhere {
    fn handle(&self, caller: &Caller, command: &str, args: Value, out: &mut Responder<'_>) -> Answer {
        let verb = command.strip_prefix(self.prefix).and_then(|rest| rest.strip_prefix('.')).unwrap_or(command);
        if verb == "list" {
            return self.list(caller, &Request { command: command.to_owned(), args }, out);
        }
        // A request without a job, such as a new script, is for this node, and may be long.
        let Some(id) = job_of(&args) else { return self.here.handle(caller, command, args, out) };
        let request = Request { command: command.to_owned(), args: args.clone() };
        let here = self.here.handle(caller, command, args, out);
        let is_unknown = here.as_ref().is_err_and(|problem| problem.exit_code == exit::NOT_FOUND);
        let Some(job) = is_unknown.then(|| self.elsewhere(caller, verb, id)).flatten() else { return here };
        let to = To::Node(job.node.clone());
        let mut answer = self.calls.call(&to, self.prefix, caller, &request, SILENT, out);
        if let Err(problem) = &mut answer
            && problem.exit_code == exit::NO_DAEMON
        {
            problem.cause = format!("job {} is on {}, whose node does not answer", job.id, job.host);
            problem.next_step =
                "`entrepot node list` shows the nodes; ask again when it is back, or `entrepot node forget` \
                gives its jobs up"
                    .to_owned();
        }
        answer
    }
}

fn job_of(value: &Value) -> Option<JobId> {
    OneJob::deserialize(value).ok().map(|of| of.id)
}
