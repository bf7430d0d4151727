//! A job's directory: the copy of its script, what its parts need to run, and later their logs.
//!
//! Users may enter the directories but not list them; of what lies there they own the script's copy and the logs.

use super::record::{PartRecord, Record};
use super::{Config, Error};
use crate::exec::{self, Spec, User};
use crate::plan::{Part, Plan, run_words};
use crate::request::*;
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// Largest environment of a job.
const ENVIRONMENT_BYTES_MAX: usize = 256 * 1024;

/// The account that a job runs under.
pub(crate) struct Account {
    pub name: String,
    home: PathBuf,
    shell: PathBuf,
}

/// Looks the user up. Without an account root could not take its groups, so root refuses; a user's own daemon needs none.
pub(crate) fn account(uid: u32, needed: bool) -> Result<Account, Error> {
    match nix::unistd::User::from_uid(uid.into()) {
        Ok(Some(user)) => Ok(Account { name: user.name, home: user.dir, shell: user.shell }),
        _ if needed => Err(Error::refused(
            format!("user {uid} has no account on the machine of the daemon, so no job can run as that user"),
            "create the account there",
        )),
        _ => Ok(Account { name: uid.to_string(), home: "/".into(), shell: "/bin/sh".into() }),
    }
}

/// The number of a user whom a queue shows by that name, or, without an account, by the number.
pub fn uid_of(user: &str) -> Option<u32> {
    let known = nix::unistd::User::from_name(user).ok().flatten();
    known.map(|user| user.uid.as_raw()).or_else(|| user.parse().ok())
}

/// The directory of a job.
pub(super) fn dir(config: &Config, id: JobId) -> PathBuf {
    config.jobs_dir.join(id.to_string())
}

/// Who may pass: only we, or, where jobs run as other users, all.
pub(crate) fn dir_mode() -> u32 {
    if rustix::process::geteuid().is_root() { 0o711 } else { 0o700 }
}

/// Makes the directory of all jobs.
pub(super) fn prepare(config: &Config) -> std::io::Result<()> {
    std::fs::create_dir_all(&config.jobs_dir)?;
    std::fs::set_permissions(&config.jobs_dir, Permissions::from_mode(dir_mode()))
}

/// Whether another user can get to the script's copy.
pub(super) fn reachable(config: &Config) -> Result<(), Error> {
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

/// Writes all that the job needs.
pub(super) fn write(config: &Config, record: &Record, script: &[u8], base: &Spec) -> std::io::Result<()> {
    let dir = dir(config, record.id);
    std::fs::DirBuilder::new().mode(dir_mode()).create(&dir)?;
    std::fs::set_permissions(&dir, Permissions::from_mode(dir_mode()))?;
    let copy = dir.join("script");
    exec::write_whole(&copy, script)?;
    if let Some(user) = &base.user {
        chown(&copy, Some(user.uid), Some(user.gid))?;
    }
    std::fs::set_permissions(&copy, Permissions::from_mode(0o500))?;
    for part in &record.plan.parts {
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

/// What all parts have in common.
pub(crate) fn base(
    config: &Config,
    caller: Caller,
    account: &Account,
    request: &Submit,
    id: JobId,
    plan: &Plan,
) -> Spec {
    let switch = rustix::process::geteuid().is_root();
    let mut environment = filtered(&request.environment);
    let mut set = |name: &str, value: String| environment.insert(name.into(), value);
    set("HOME", account.home.to_string_lossy().into_owned());
    set("SHELL", account.shell.to_string_lossy().into_owned());
    set("USER", account.name.clone());
    set("LOGNAME", account.name.clone());
    set("PWD", request.cwd.to_string_lossy().into_owned());
    set("ENTREPOT_JOB_ID", id.to_string());
    set("ENTREPOT_JOB_NAME", plan.name.clone());
    let cores = plan.parts.iter().map(|part| part.cores).max().unwrap_or(1);
    set("ENTREPOT_CORES", cores.to_string());
    for (name, value) in &config.environment {
        set(name, value.clone());
    }
    environment.entry("PATH".into()).or_insert_with(|| "/usr/local/bin:/usr/bin:/bin".into());
    Spec {
        kind: PartKind::Compute,
        steps: Vec::new(),
        retries: 0,
        retry_pause_ms: config.retry_pause_ms,
        user: switch.then(|| User { name: account.name.clone(), uid: caller.uid, gid: caller.gid }),
        cwd: request.cwd.clone(),
        umask: request.umask,
        environment,
        walltime_s: 0,
        grace_ms: config.grace_ms,
        log_bytes_max: config.log_bytes_max,
        announce: false,
        dir: PathBuf::new(),
    }
}

/// The submitter's variables without those that change what runs before the user's command, that belong to the
/// terminal left behind, or that are ours to set.
fn filtered(environment: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    const DROPPED: [&str; 9] =
        ["BASH_ENV", "ENV", "IFS", "OLDPWD", "PROMPT_COMMAND", "PS4", "SHELLOPTS", "BASHOPTS", "TERM"];
    let valid = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let kept = |name: &str| {
        let ours = name.starts_with("ENTREPOT_JOB_") || name.starts_with("LD_") || name.starts_with("GCONV_");
        valid(name) && !ours && !DROPPED.contains(&name)
    };
    let passed = environment.iter().filter(|(name, value)| kept(name) && !value.contains('\0'));
    passed.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Refuses what no process could be started with.
pub(super) fn check_request(request: &Submit) -> Result<(), Error> {
    let size: usize = request.environment.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
    if size > ENVIRONMENT_BYTES_MAX {
        return Err(Error::refused(
            format!("the environment is {size} bytes long, more than {ENVIRONMENT_BYTES_MAX}"),
            "submit from a shell with fewer variables",
        ));
    }
    let cwd = request.cwd.as_os_str().as_encoded_bytes();
    if !request.cwd.is_absolute() || cwd.contains(&0) || cwd.len() > 4096 {
        return Err(Error::refused(
            "the directory of the job is no absolute path",
            "submit from a directory that exists",
        ));
    }
    Ok(())
}

/// The job ended: its environment need not lie about any longer, but for a stage-out that failed and may be tried again.
pub(super) fn forget_secrets(config: &Config, record: &Record) {
    let dir = dir(config, record.id);
    let failed = |part: &PartRecord| {
        let lost = part.report.as_ref().is_some_and(|report| !report.ending.is_success());
        part.kind == PartKind::StageOut && lost && record.state == JobState::Failed
    };
    for part in &record.parts {
        let kept = failed(part);
        for suffix in ["spec", "pid", "lock"] {
            if !(kept && suffix == "spec") {
                let _ = std::fs::remove_file(exec::file(&dir, part.kind, suffix));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_passed_without_what_could_harm() {
        let given =
            ["A", "_b1", "LD_PRELOAD", "BASH_ENV", "BASH_FUNC_x%%", "1a", "", "x=y", "ENTREPOT_JOB_ID", "LC_ALL"];
        let given = given.map(|name| (name.to_string(), "v".to_string())).into();
        assert_eq!(filtered(&given).into_keys().collect::<Vec<_>>(), ["A", "LC_ALL", "_b1"]);
    }
}
