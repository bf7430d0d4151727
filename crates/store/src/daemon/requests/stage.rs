//! `stage.*` and `source.*`: data in and out, with the caller's rights.

use super::{read, unknown, with_progress};
use crate::control::{Caller, Problem, Responder, exit};
use crate::daemon::Core;
use crate::source::{Identity, Record, SourceError};
use crate::stage::{Compare, Report, StageError, StageIn};
use rustix::io::Errno;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(serde::Deserialize)]
struct Args {
    identity: Option<Identity>,
    what: Option<StageIn>,
    manifest: Option<String>,
    #[serde(default)]
    replace: bool,
    #[serde(default)]
    keep: bool,
    #[serde(default)]
    path: String,
    #[serde(default)]
    uri: String,
    #[serde(default)]
    uris: Vec<String>,
    #[serde(default)]
    verify: bool,
    #[serde(default)]
    compare: Compare,
}

impl Args {
    /// The caller as the kernel knows it, with the credentials and the mask that it passed on.
    fn who(&self, caller: &Caller) -> Identity {
        let told = self.identity.clone().unwrap_or_default();
        Identity { uid: caller.uid, gid: caller.gid, ..told }
    }
}

pub fn serve(
    core: &Arc<Core>,
    caller: &Caller,
    verb: &str,
    args: Value,
    out: &mut Responder<'_>,
) -> Result<Value, Problem> {
    let args: Args = read(args)?;
    let who = args.who(caller);
    let stager = &core.stager;
    let path = args.what.as_ref().map_or(args.path.as_str(), |what| what.path.as_str());
    let under_way = core.under_way.begin(caller.uid, path);
    let staged = with_progress(out, |report, stop| {
        let what = args.what.clone().unwrap_or_default();
        let report: Report = &|progress| {
            under_way.tell(progress);
            report(progress);
        };
        match verb {
            "in" => Ok(stager.stage_in(&what, &who, report, stop)),
            "in-tree" => Ok(stager.stage_in_tree(&what, &who, report, stop)),
            "in-manifest" => {
                let manifest = args.manifest.as_deref().unwrap_or_default();
                Ok(stager.stage_in_manifest(manifest, args.replace, args.keep, &who, report, stop))
            }
            "out" => Ok(stager.stage_out(&args.path, &args.uri, args.compare, &who, report, stop)),
            _ => Err(unknown(&format!("stage.{verb}"))),
        }
    })?;
    staged.map(|staged| json!(staged)).map_err(|e| match verb {
        "out" => out_problem(e),
        _ => Problem::from(e),
    })
}

/// What failed on its way out: nothing of it is kept, and nothing has the name.
fn out_problem(e: StageError) -> Problem {
    let (at_destination, in_mount) = (matches!(e, StageError::Source { .. }), matches!(e, StageError::Path { .. }));
    let problem = Problem::from(e);
    match () {
        () if at_destination => problem.so("the destination's name has no new copy; what had it before is as it was"),
        () if in_mount => problem.try_this("check the path in the mount"),
        () => problem,
    }
}

pub fn source(
    core: &Arc<Core>,
    caller: &Caller,
    verb: &str,
    args: Value,
    out: &mut Responder<'_>,
) -> Result<Value, Problem> {
    let args: Args = read(args)?;
    let who = args.who(caller);
    let record = with_progress(out, |report, stop| match verb {
        "get" => Ok(core.stager.source_get(&args.path, &who)),
        "set" => Ok(core.stager.source_set(&args.path, &args.uris, args.verify, &who, report, stop)),
        _ => Err(unknown(&format!("source.{verb}"))),
    })?;
    Ok(record?.map_or(Value::Null, |r| shown(&r)))
}

/// A record as users see it.
fn shown(record: &Record) -> Value {
    json!({
        "sources": record.sources,
        "size": record.size(),
        "modified": record.modified,
        "checksums": record.stripe_bytes > 0,
    })
}

impl From<StageError> for Problem {
    fn from(e: StageError) -> Problem {
        let cause = e.to_string();
        match e {
            StageError::Source { error, kept_bytes, .. } => {
                let problem = match error {
                    SourceError::Permanent(_) => Problem::not_found(cause).try_this("check the URI"),
                    SourceError::Denied(_) => Problem::denied(cause)
                        .try_this("say who you are: `entrepot stage --help` says where credentials come from"),
                    SourceError::Passing(_) => {
                        Problem::failed(cause).try_this("run the same command again, or with `--retry N`")
                    }
                    SourceError::Changed(_) => Problem::failed(cause).try_this("run the same command again"),
                };
                match kept_bytes {
                    0 => problem.so("no file was put in place"),
                    _ => problem.so(format!("what was fetched is kept ({kept_bytes} bytes)")),
                }
            }
            StageError::Path { errno: Some(Errno::NOENT | Errno::NOTDIR), .. } => {
                Problem::not_found(cause).try_this("check the path in the mount")
            }
            StageError::Path { errno: Some(Errno::ACCESS | Errno::PERM), .. } => {
                Problem::denied(cause).try_this("check the permissions of the path in the mount")
            }
            StageError::Path { .. } => Problem::wrong(cause).try_this("check the path; `--force` replaces a file"),
            StageError::Manifest(_) | StageError::Record(_) | StageError::BadChecksum(_) => {
                Problem::wrong(cause).try_this("mend it and run the same command again")
            }
            StageError::NotKept { error, .. } => {
                let full = matches!(error.errno(), Errno::NOSPC | Errno::DQUOT);
                let next = if full { "remove files, or add a target, and" } else { "see `entrepot target list`, and" };
                Problem::failed(cause)
                    .so("no file was put in place; what could be kept is")
                    .try_this(format!("{next} run the same command again"))
            }
            StageError::Store(e) => Problem::from(e),
            StageError::Space { .. } => Problem::failed(cause).try_this("remove files, or add a target"),
            StageError::Checksum { .. } => Problem::new(exit::INCOMPLETE, cause)
                .so("no file was put in place")
                .try_this("check the checksum and the source"),
            StageError::Running(_) => Problem::busy(cause).try_this("wait for that, or look for who does it"),
            StageError::Moving(_) => Problem::busy(cause).try_this("wait for its writer"),
            StageError::Stopped => Problem::new(exit::INTERRUPTED, cause)
                .so("what was fetched is kept")
                .try_this("run the same command again to go on"),
        }
    }
}
