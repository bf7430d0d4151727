//! The account that a job runs under, and the environment that its commands get.

use crate::config::Config;
use crate::error::{Error, Result};
use crate::exec::{Spec, User};
use crate::request::{Caller, JobId, PartKind, Plan};
use engine::source::JOB_VARIABLE;
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Makes a directory that other users may traverse if necessary, but never list.
pub(crate) fn make_dir(dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    std::fs::set_permissions(dir, Permissions::from_mode(dir_mode()))
}

pub(crate) struct Account {
    pub name: String,
    home: PathBuf,
    shell: PathBuf,
}

/// Looks up the account of a user who submits a job. A daemon of an ordinary user serves that user alone.
pub(crate) fn of_submitter(uid: u32) -> Result<Account> {
    let own = rustix::process::geteuid();
    if !own.is_root() && own.as_raw() != uid {
        return Err(Error::refused(
            format!("this volume is run by user {} for itself, so only that user's jobs can run", own.as_raw()),
            "use a volume of your own, or one that is run by root",
        ));
    }
    account(uid, own.is_root())
}

/// Looks up the account of a user. `needed`: a user without an account is refused. A daemon of root needs the account
/// for the user's groups; a user's own daemon does not.
pub(crate) fn account(uid: u32, needed: bool) -> Result<Account> {
    match nix::unistd::User::from_uid(uid.into()) {
        Ok(Some(user)) => Ok(Account { name: user.name, home: user.dir, shell: user.shell }),
        _ if needed => Err(Error::refused(
            format!("user {uid} has no account on the machine of the daemon, so no job can run as that user"),
            "create the account there",
        )),
        _ => Ok(Account { name: uid.to_string(), home: "/".into(), shell: "/bin/sh".into() }),
    }
}

/// User id of the user whom a queue shows by that name, or by the number if there is no account.
pub fn uid_of(user: &str) -> Option<u32> {
    let known = nix::unistd::User::from_name(user).ok().flatten();
    known.map(|user| user.uid.as_raw()).or_else(|| user.parse().ok())
}

/// Mode of the directory: private, or traversable for all where jobs run as other users.
fn dir_mode() -> u32 {
    if rustix::process::geteuid().is_root() { 0o711 } else { 0o700 }
}

/// Surroundings of a job's commands, as its user has them.
pub(crate) struct Surroundings<'a> {
    pub cwd: &'a Path,
    pub umask: u32,
    pub environment: &'a BTreeMap<String, String>,
    /// Mount point of the volume, for the commands to know.
    pub mount: Option<&'a Path>,
}

/// Spec with the fields that all parts of a job share.
pub(crate) fn base(
    config: &Config,
    caller: Caller,
    account: &Account,
    around: &Surroundings<'_>,
    id: JobId,
    plan: &Plan,
) -> Spec {
    let switch = rustix::process::geteuid().is_root();
    let mut environment = filtered(around.environment);
    let mut set = |name: &str, value: String| environment.insert(name.into(), value);
    set("HOME", account.home.to_string_lossy().into_owned());
    set("SHELL", account.shell.to_string_lossy().into_owned());
    set("USER", account.name.clone());
    set("LOGNAME", account.name.clone());
    set("PWD", around.cwd.to_string_lossy().into_owned());
    set("ENTREPOT_JOB_ID", id.to_string());
    set("ENTREPOT_JOB_NAME", plan.name.clone());
    set(JOB_VARIABLE, format!("job {id}"));
    let cores = plan.parts.iter().map(|part| part.cores).max().unwrap_or(1);
    set("ENTREPOT_CORES", cores.to_string());
    for (name, value) in &config.environment {
        set(name, value.clone());
    }
    if let Some(mount) = around.mount {
        set("ENTREPOT_MOUNT", mount.to_string_lossy().into_owned());
    }
    environment.entry("PATH".into()).or_insert_with(|| "/usr/local/bin:/usr/bin:/bin".into());
    Spec {
        kind: PartKind::Compute,
        steps: Vec::new(),
        retries: 0,
        retry_pause_ms: config.retry_pause_ms,
        user: switch.then(|| User { name: account.name.clone(), uid: caller.uid, gid: caller.gid }),
        cwd: around.cwd.to_path_buf(),
        umask: around.umask,
        environment,
        walltime_s: 0,
        grace_ms: config.grace_ms,
        log_bytes_max: config.log_bytes_max,
        input: None,
        announce: false,
        dir: PathBuf::new(),
    }
}

/// The submitter's variables, except those that change what runs before the user's command, those of the terminal, and
/// those that we set.
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
