//! A job's directory: the copy of its script, the specs of its parts, and later their logs.
//!
//! Users may traverse the directories but not list them. They own the script's copy and the logs.

use super::local::{PartRecord, Record};
use crate::account::make_dir;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::exec::{self, Spec};
use crate::plan::run_words;
use crate::request::*;
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// Largest environment of a job.
const ENVIRONMENT_BYTES_MAX: usize = 256 * 1024;

pub(super) fn dir(config: &Config, id: JobId) -> PathBuf {
    config.jobs_dir.join(id.to_string())
}

/// Size of a job's directory in bytes.
pub(super) fn bytes(config: &Config, id: JobId) -> u64 {
    let entries = std::fs::read_dir(dir(config, id)).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// Whether another user can reach the script's copy.
pub(super) fn reachable(config: &Config) -> Result<()> {
    for dir in config.jobs_dir.ancestors() {
        if std::fs::metadata(dir).is_ok_and(|metadata| metadata.mode() & 0o001 == 0) {
            return Err(Error::refused(
                format!("other users cannot pass {}, below which copies of job scripts are kept", dir.display()),
                format!("the operator can mend it: chmod o+x {}", dir.display()),
            ));
        }
    }
    Ok(())
}

/// Writes all files of the job.
pub(super) fn write(config: &Config, record: &Record, script: &[u8], base: &Spec) -> std::io::Result<()> {
    let dir = dir(config, record.id);
    make_dir(&dir)?;
    let copy = dir.join("script");
    exec::write_whole(&copy, script)?;
    if let Some(user) = &base.user {
        chown(&copy, Some(user.uid), Some(user.gid))?;
    }
    std::fs::set_permissions(&copy, Permissions::from_mode(0o500))?;
    write_parts(config, record, PartKind::StageIn, base)
}

/// Writes the files that its parts need, from that part on.
pub(super) fn write_parts(config: &Config, record: &Record, from: PartKind, base: &Spec) -> std::io::Result<()> {
    let dir = dir(config, record.id);
    for part in record.plan.parts.iter().filter(|part| part.kind >= from) {
        let spec = spec(config, part, &dir, base);
        exec::write_whole(&exec::file(&dir, part.kind, "spec"), &serde_json::to_vec(&spec)?)?;
    }
    Ok(())
}

fn spec(config: &Config, part: &Part, dir: &Path, base: &Spec) -> Spec {
    let is_compute = part.kind == PartKind::Compute;
    let steps = part.commands.iter().map(|command| {
        if !is_compute {
            return run_words(&command.argv, &config.program, None);
        }
        let mut argv = command.argv.clone();
        argv.push(dir.join("script").to_string_lossy().into_owned());
        argv
    });
    Spec {
        kind: part.kind,
        steps: steps.collect(),
        retries: part.retries,
        walltime_s: part.walltime_s,
        announce: !is_compute,
        dir: dir.to_path_buf(),
        ..base.clone()
    }
}

/// Refuses a request that no process could be started with.
pub(super) fn check_request(environment: &BTreeMap<String, String>, cwd: &Path) -> Result<()> {
    let size: usize = environment.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if size > ENVIRONMENT_BYTES_MAX {
        let cause = format!("the environment is {size} bytes long, more than {ENVIRONMENT_BYTES_MAX}");
        return Err(Error::refused(cause, "submit from a shell with fewer variables"));
    }
    let bytes = cwd.as_os_str().as_encoded_bytes();
    if !cwd.is_absolute() || bytes.contains(&0) || bytes.len() > 4096 {
        let cause = "the directory of the job is no absolute path";
        return Err(Error::refused(cause, "submit from a directory that exists"));
    }
    Ok(())
}

/// Removes the job's environment at its end, except for a failed stage-out, which may be retried.
pub(super) fn forget_secrets(config: &Config, record: &Record) {
    let dir = dir(config, record.id);
    let failed = |part: &PartRecord| {
        let lost = part.report.as_ref().is_some_and(|report| !report.ending.is_success());
        part.kind == PartKind::StageOut && lost && record.state == JobState::Failed
    };
    for part in &record.own.parts {
        let kept = failed(part);
        for suffix in ["spec", "pid", "lock"] {
            if !(kept && suffix == "spec") {
                let _ = std::fs::remove_file(exec::file(&dir, part.kind, suffix));
            }
        }
    }
}
