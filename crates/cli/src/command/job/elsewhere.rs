//! `entrepot job submit --scheduler slurm|pbs`: three dependent jobs, submitted as the user by the scheduler's own
//! commands.

use super::{complain, planned, script_of};
use crate::connect::Context;
use crate::failure::{Failure, Result};
use crate::shown::{self, Output};
use jobs::request::{
    ExternalPart, JobDetail, JobId, Kind, OneJob, Overrides, Part, PartKind, Register, Registered, Script, Submit,
    SubmittedParts,
};
use jobs::scheduler::{Scheduler, Submission, parts};
use node::control::answers::read;
use node::control::{Client, Problem, exit};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The parts of a job in JSON.
#[derive(Serialize)]
struct SubmittedTo {
    #[serde(flatten)]
    submitted: SubmittedParts,
    scheduler: Kind,
}

/// Submits the job, and prints its Entrepot number in the requested format.
pub fn submit(
    context: &Context,
    path: &Path,
    overrides: Overrides,
    kind: Kind,
    data_queue: &str,
    printed: Option<Output>,
) -> Result<JobId> {
    let (script, file_name) = script_of(path)?;
    // All errors of the script are reported before any request is sent.
    let planned = planned(context, &script, &file_name, &overrides, u32::MAX).map_err(|wrong| complain(&wrong))?;
    let own = jobs::directives::parse(&script).map(|head| head.own_resources).unwrap_or_default();
    let (cores, walltime_s) = (overrides.cores.or(own.cores()), overrides.walltime_s.or(own.walltime_s));
    let cwd = std::env::current_dir()?;
    let found = node::control::find(context.volume.as_deref(), Some(&cwd))?;
    let mut client = Client::connect(&found.socket())?;
    let script = Script::from(script);
    let job = Submit { file_name, script, cwd: cwd.clone(), umask: 0o022, environment: BTreeMap::new(), overrides };
    let compute = Some(planned).filter(|plan| plan.parts.iter().any(|part| part.kind == PartKind::StageIn));
    let start_ms = compute.and_then(|plan| {
        let part = plan.parts.iter().find(|part| part.kind == PartKind::Compute)?;
        kind.scheduler().start_of(&jobs::scheduler::ScriptToEstimate {
            text: plan.compute_script.as_bytes(),
            cores,
            walltime_s,
            cores_in_all: part.cores,
            walltime_in_all_s: part.walltime_s,
        })
    });
    let answer = client.request("job.register", Register { job, scheduler: kind, start_ms }, &mut |_| {})?;
    let registered: Registered = read(answer)?;
    let id = registered.id;
    let scheduler = kind.scheduler();
    let interrupted = interrupted()?;
    let wanted =
        JobToSubmit { registered: &registered, cores, walltime_s, data_queue, cwd: &cwd, interrupted: &interrupted };
    match chain(&*scheduler, &wanted) {
        Ok(parts) => {
            let submitted = SubmittedParts { id, parts };
            client.request("job.submitted", &submitted, &mut |_| {})?;
            let there = submitted.parts.iter().map(|(part, there)| format!("{part} {}", there.id));
            let there = there.collect::<Vec<_>>().join(", ");
            match printed {
                Some(Output::Json) => shown::json(&SubmittedTo { submitted, scheduler: kind })?,
                Some(Output::Text) => shown::text(&format!("job {id} ({}: {there})\n", kind.name()))?,
                None => {}
            }
            Ok(id)
        }
        Err((submitted, cause)) => {
            let mut consequence = "nothing was submitted".to_string();
            if !submitted.is_empty() && run(&scheduler.cancel(&submitted), &[], "").is_err() {
                consequence = format!("these parts are in its queue and were not cancelled: {}", submitted.join(" "));
            }
            client.request("job.unregister", OneJob { id }, &mut |_| {})?;
            if interrupted.load(Ordering::Acquire) {
                let problem = Problem::new(exit::INTERRUPTED, "interrupted").so(consequence);
                return Err(problem.try_this("submit it again").into());
            }
            let next = format!("mend that and submit again; is there a queue {data_queue} for data jobs?");
            Err(Problem::failed(cause).so(consequence).try_this(next).into())
        }
    }
}

/// Returns a flag that Ctrl-C or SIGTERM sets: submitted parts are then cancelled. A second signal ends the program at
/// once.
fn interrupted() -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The order matters: at the first signal the flag is still unset, so the default action is skipped.
        signal_hook::flag::register_conditional_default(signal, flag.clone())?;
        signal_hook::flag::register(signal, flag.clone())?;
    }
    Ok(flag)
}

struct JobToSubmit<'a> {
    registered: &'a Registered,
    cores: Option<u32>,
    walltime_s: Option<u64>,
    data_queue: &'a str,
    cwd: &'a Path,
    interrupted: &'a AtomicBool,
}

/// Submits the parts in order, each dependent on the one before. The error has the submitted parts and the cause.
fn chain(
    scheduler: &dyn Scheduler,
    wanted: &JobToSubmit<'_>,
) -> std::result::Result<BTreeMap<PartKind, ExternalPart>, (Vec<String>, String)> {
    let plan = &wanted.registered.plan;
    let mut ids: BTreeMap<PartKind, String> = BTreeMap::new();
    for part in &plan.parts {
        let is_data = part.kind != PartKind::Compute;
        let log = wanted.cwd.join(format!("entrepot-{}-{}.log", wanted.registered.id, part.kind));
        let variables = if is_data { &[][..] } else { &wanted.registered.script_environment };
        let submission = Submission {
            name: &plan.name,
            kind: part.kind,
            after: part.after.and_then(|after| ids.get(&after)).map(String::as_str),
            data_queue: wanted.data_queue,
            cores: wanted.cores.filter(|_| !is_data),
            walltime_s: wanted.walltime_s.filter(|_| !is_data),
            delay_s: wanted.registered.delay_s.filter(|_| part.kind == PartKind::StageIn),
            log: &log,
            parameters: &part.parameters,
            variables,
        };
        let text = text_of(part, wanted.registered);
        let words = scheduler.submit(&submission);
        let mut environment = scheduler.environment(&submission).to_vec();
        environment.extend(variables.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let submitted = text.and_then(|text| run(&words, &environment, text)).and_then(|reply| {
            scheduler.read_id(&reply).ok_or_else(|| format!("the scheduler's answer is not understood: {reply:?}"))
        });
        match submitted {
            Ok(id) => {
                ids.insert(part.kind, id);
                if wanted.interrupted.load(Ordering::Acquire) {
                    return Err((ids.into_values().collect(), "interrupted".into()));
                }
            }
            Err(cause) => return Err((ids.into_values().collect(), format!("{}: {cause}", part.kind))),
        }
    }
    let there = ids.into_iter().map(|(kind, id)| {
        // The paths of the parts' output come from the scheduler; without an answer `log` requests them later.
        let look = scheduler.look(&id).unwrap_or_default();
        (kind, ExternalPart { id, out: look.out, err: look.err })
    });
    Ok(there.collect())
}

fn text_of(part: &Part, registered: &Registered) -> std::result::Result<Vec<u8>, String> {
    if part.kind == PartKind::Compute {
        return Ok(registered.plan.compute_script.as_bytes().to_vec());
    }
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let program = program.to_str().ok_or("the path of entrepot is no UTF-8")?;
    Ok(parts::script(part, registered.id, program, &registered.environment).into_bytes())
}

/// Runs a command of the scheduler with that standard input. Its own process group shields it from Ctrl-C, so that its
/// result is known.
fn run(words: &[String], environment: &[(&str, &str)], input: impl AsRef<[u8]>) -> std::result::Result<String, String> {
    let shown = words.join(" ");
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.envs(environment.iter().copied()).process_group(0);
    let mut child = command.spawn().map_err(|e| format!("{} cannot be run: {e}", words[0]))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that refuses its options does not read its input; its status reports the error.
        let _ = stdin.write_all(input.as_ref());
    }
    let done = child.wait_with_output().map_err(|e| format!("{shown}: {e}"))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let reply = String::from_utf8_lossy(&done.stderr).trim().replace('\n', "; ");
    Err(format!("`{shown}` failed ({}): {reply}", done.status))
}

/// Cancels the parts of a job in another scheduler, as the caller. No effect on jobs of the built-in runner.
pub fn cancel(detail: &JobDetail) -> Result<()> {
    let Some(external) = &detail.external else { return Ok(()) };
    let ended = |kind: &PartKind| detail.parts.iter().any(|report| report.kind == *kind);
    let left = external.parts.iter().filter(|(kind, _)| !ended(kind));
    // In reverse order, so that no part starts because the one before it was cancelled.
    let ids: Vec<String> = left.rev().map(|(_, part)| part.id.clone()).collect();
    if ids.is_empty() {
        return Ok(());
    }
    run(&external.scheduler.scheduler().cancel(&ids), &[], "").map(drop).map_err(|cause| {
        Failure::Problem(Problem::failed(cause).try_this("cancel it with the scheduler's own command"))
    })
}

/// Prints the output of a part, read with the caller's rights. Returns false if no other scheduler has the job.
pub fn log(context: &Context, id: u64, part: PartKind, stderr: bool, follow: bool) -> Result<bool> {
    let detail: JobDetail = context.ask("job.show", OneJob { id: JobId(id) })?;
    let Some(external) = &detail.external else { return Ok(false) };
    let Some(there) = external.parts.get(&part) else {
        return Err(Problem::not_found(format!("job {id} has no {part} part")).into());
    };
    let of = |part: &ExternalPart| if stderr { part.err.clone() } else { part.out.clone() };
    let path = of(there).or_else(|| {
        let look = external.scheduler.scheduler().look(&there.id).ok()?;
        of(&ExternalPart { id: String::new(), out: look.out, err: look.err })
    });
    let Some(path) = path else {
        let cause = format!("{} has no record of the output of its part {}", external.scheduler.name(), there.id);
        return Err(Problem::not_found(cause).try_this(format!("look in {}", detail.cwd.display())).into());
    };
    let mut out = std::io::stdout().lock();
    let mut offset = 0;
    loop {
        let now: JobDetail = context.ask("job.show", OneJob { id: JobId(id) })?;
        let over = now.summary.state.is_final() || now.parts.iter().any(|report| report.kind == part);
        match std::fs::File::open(&path) {
            Ok(mut file) => {
                let mut bytes = Vec::new();
                file.seek(SeekFrom::Start(offset))?;
                file.read_to_end(&mut bytes)?;
                offset += bytes.len() as u64;
                out.write_all(&bytes)?;
                out.flush()?;
            }
            // The part has not begun, or PBS delivers the file at its end.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(Problem::failed(format!("{}: {e}", path.display())).into()),
        }
        if over || !follow {
            return Ok(true);
        }
        std::thread::sleep(super::FOLLOW_EVERY);
    }
}

/// Formats the numbers of the parts in their scheduler on one line.
pub fn line(detail: &JobDetail) -> String {
    let Some(external) = &detail.external else { return String::new() };
    let parts: Vec<String> = external.parts.iter().map(|(kind, part)| format!("{kind} {}", part.id)).collect();
    format!("  {}: {}\n", external.scheduler.name(), parts.join(", "))
}
