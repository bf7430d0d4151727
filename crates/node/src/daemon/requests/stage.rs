//! `stage.*` and `source.*`: data in and out, with the caller's permissions.

use super::{sent, with_progress};
use crate::control::answers::{Source, write};
use crate::control::{Caller, Problem, Request, Responder, Result, exit};
use crate::daemon::Core;
use engine::source::{Identity, Record, SourceError};
use engine::stage::{Progress, Report, StageError, Staged, Stop, Transfer};
use rustix::io::Errno;
use serde_json::Value;

/// Serves a request for staging.
pub fn run(core: &Core, caller: &Caller, request: Request, out: &mut Responder<'_>) -> Result<Value> {
    match request {
        Request::StageIn { what, limit, identity } => {
            let uri = what.uris.first().map(String::as_str);
            let by = Asked { core, caller, path: &what.path, uri, limit, identity };
            by.staged(out, |transfer| transfer.stage_in(&what))
        }
        Request::StageInTree { what, chosen, limit, identity } => {
            let uri = what.uris.first().map(String::as_str);
            let by = Asked { core, caller, path: &what.path, uri, limit, identity };
            by.staged(out, |transfer| transfer.stage_in_tree(&what, &chosen))
        }
        Request::StageInManifest { what, chosen, limit, identity } => {
            let by = Asked { core, caller, path: &what.path, uri: None, limit, identity };
            by.staged(out, |transfer| transfer.stage_in_manifest(&what, &chosen))
        }
        Request::LookAtStageIn { wanted, chosen, identity } => {
            let who = known(caller, identity);
            let look =
                |report: Report<'_>, stop: &Stop| core.stager.transfer(&who, report, stop).look(&wanted, &chosen);
            sent(with_progress(out, look).map_err(Into::into))
        }
        Request::LookAtStageOut { what, identity } => {
            let who = known(caller, identity);
            let look = |report: Report<'_>, stop: &Stop| core.stager.transfer(&who, report, stop).look_out(&what);
            sent(with_progress(out, look).map_err(out_problem))
        }
        Request::StageOut { what, limit, identity } => {
            let by = Asked { core, caller, path: &what.path, uri: None, limit, identity };
            by.staged(out, |transfer| transfer.stage_out(&what)).map_err(out_problem)
        }
        Request::Source { path } => sent(source(core, caller, &path)),
        Request::SetSource { path, uris, verify, identity } => {
            let who = known(caller, identity);
            let set = |report: Report<'_>, stop: &Stop| {
                core.stager.transfer(&who, report, stop).source_set(&path, &uris, verify)
            };
            sent(with_progress(out, set).map(shown).map_err(Into::into))
        }
        _ => Err(Problem::wrong("this is no request for staging")),
    }
}

/// The caller's ids from the kernel, with the credentials and the mask from the request.
fn known(caller: &Caller, told: Identity) -> Identity {
    Identity { uid: caller.uid, gid: caller.gid, ..told }
}

/// A staging on behalf of a caller.
struct Asked<'a> {
    core: &'a Core,
    caller: &'a Caller,
    /// Path in the mount.
    path: &'a str,
    /// First source, for staging in.
    uri: Option<&'a str>,
    /// Maximum rate, in bytes per second.
    limit: Option<u64>,
    identity: Identity,
}

impl Asked<'_> {
    /// Stages, with progress to the caller and to clients that query the running stagings of that path.
    fn staged<E: From<StageError>>(
        self,
        out: &mut Responder<'_>,
        work: impl FnOnce(&Transfer<'_>) -> Result<Staged, StageError>,
    ) -> Result<Value, E> {
        let Asked { core, caller, path, uri, limit, identity } = self;
        let under_way = core.under_way.begin(caller.uid, path, uri);
        let limited = core.stager.limit_of(limit);
        let staged = with_progress(out, |report, stop| {
            let report: Report<'_> = &|progress| {
                let progress = Progress { limit: limited.clone(), ..progress.clone() };
                under_way.tell(&progress);
                report(&progress);
            };
            work(&core.stager.paced(limit, caller.uid, stop).transfer(&known(caller, identity), report, stop))
        })?;
        Ok(write(&staged))
    }
}

/// The error of a failed stage-out: it leaves no new copy under the name.
fn out_problem(e: StageError) -> Problem {
    let (at_destination, in_mount) = (matches!(e, StageError::Source { .. }), matches!(e, StageError::Path { .. }));
    let problem = Problem::from(e);
    match () {
        () if at_destination => problem.so("the destination has no new copy; a previous file there is unchanged"),
        () if in_mount => problem.try_this("check the path in the mount"),
        () => problem,
    }
}

fn source(core: &Core, caller: &Caller, path: &str) -> Result<Option<Source>> {
    Ok(shown(core.stager.silent(&known(caller, Identity::default())).source_get(path)?))
}

/// A record in the form for users.
fn shown(record: Option<Record>) -> Option<Source> {
    record.map(|record| Source {
        size: record.size(),
        sources: record.sources,
        modified: record.modified,
        checksums: record.stripe_bytes > 0,
    })
}

impl From<StageError> for Problem {
    fn from(e: StageError) -> Problem {
        let cause = e.to_string();
        match e {
            StageError::Source { uri, error, kept_bytes } => {
                let problem = match error {
                    SourceError::Permanent(_) => Problem::not_found(cause).try_this("check the URI"),
                    SourceError::Denied(_) if uri.starts_with("file:") => Problem::denied(cause).try_this(
                        "files are read and written with your permissions: name another place, or ask its owner",
                    ),
                    SourceError::Denied(_) => {
                        Problem::denied(cause).try_this("give credentials: `entrepot stage --help` lists their sources")
                    }
                    SourceError::Passing(_) => {
                        Problem::failed(cause).try_this("run the same command again, or with `--retry N`")
                    }
                    SourceError::Changed(_) => Problem::failed(cause).try_this("run the same command again"),
                };
                match kept_bytes {
                    0 => problem.so("no file was put in place"),
                    _ => problem.so(format!("fetched parts are kept ({kept_bytes} bytes)")),
                }
            }
            StageError::Path { errno: Some(Errno::NOENT | Errno::NOTDIR), .. } => {
                Problem::not_found(cause).try_this("check the path in the mount")
            }
            StageError::Path { errno: Some(Errno::ACCESS | Errno::PERM), .. } => {
                Problem::denied(cause).try_this("check the permissions of the path in the mount")
            }
            StageError::Path { errno: Some(Errno::DQUOT), .. } => Problem::failed(cause)
                .so("no file was put in place")
                .try_this("remove files of theirs, or have the operator raise it; `entrepot quota` shows yours"),
            StageError::Path { errno: Some(Errno::NOSPC), .. } => {
                Problem::failed(cause).so("no file was put in place").try_this("remove files, or add a target")
            }
            StageError::Path { .. } => Problem::wrong(cause).try_this("check the path; `--force` replaces a file"),
            StageError::Manifest(_) | StageError::Record(_) | StageError::BadChecksum(_) => {
                Problem::wrong(cause).try_this("mend it and run the same command again")
            }
            StageError::Files { .. } => Problem::new(exit::INCOMPLETE, cause)
                .so("the other files are in place")
                .try_this("correct the cause and run the same command with `--keep`: only missing files are fetched"),
            StageError::NotKept { error, .. } => {
                let full = matches!(error.errno(), Errno::NOSPC | Errno::DQUOT);
                let next = if full { "remove files, or add a target, and" } else { "see `entrepot target list`, and" };
                Problem::failed(cause)
                    .so("no file was put in place; fetched parts were kept where possible")
                    .try_this(format!("{next} run the same command again"))
            }
            StageError::Store(e) => Problem::from(e),
            StageError::Space { .. } => Problem::failed(cause).try_this("remove files, or add a target"),
            StageError::Checksum { .. } => Problem::new(exit::INCOMPLETE, cause)
                .so("no file was put in place")
                .try_this("check the checksum and the source"),
            StageError::Running(_) => {
                Problem::busy(cause).try_this("wait for its end, or find the process that runs it")
            }
            StageError::Moving(_) => Problem::busy(cause).try_this("wait for its writer"),
            StageError::Stopped => Problem::new(exit::INTERRUPTED, cause)
                .so("fetched parts are kept")
                .try_this("run the same command again to go on"),
        }
    }
}
