//! The last step before a user's command: a session of its own, the user's identity, directory and environment.
//!
//! The directory is entered only as the user, so that no job starts in a directory that its user may not enter. Jobs
//! may use setuid programs (`fusermount3`, `sudo`, container runtimes), so no_new_privs is not set here.

use super::{Spec, User};
use engine::rights::Rights;
use nix::unistd::Gid;
use std::ffi::CString;
use std::io::{Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

/// Becomes the command. Returns only on failure: 126 without permission, 127 if there is no such program.
pub(super) fn run(spec: &Spec, step: usize) -> ExitCode {
    let (why, code) = match command(spec, step) {
        Ok(mut command) => {
            let error = command.exec();
            let why = format!("cannot run {}: {error}", command.get_program().display());
            (why, if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 })
        }
        Err(why) => (why, 126),
    };
    eprintln!("entrepot: {why}");
    ExitCode::from(code)
}

fn command(spec: &Spec, step: usize) -> Result<Command, String> {
    let argv = spec.steps.get(step).and_then(|argv| argv.split_first());
    let (program, arguments) = argv.ok_or_else(|| format!("this part has no command {step}"))?;
    prepare(spec)?;
    std::io::stdin().read_exact(&mut [0]).map_err(|_| "the supervisor is gone")?;
    let stdin = spec.input.as_deref().map(input).transpose();
    let stdin = stdin.map_err(|e| format!("the input of the command cannot be kept in memory: {e}"))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(stdin.unwrap_or_else(Stdio::null)).env_clear().envs(&spec.environment);
    Ok(command)
}

/// A text as a file that no other process can open.
fn input(text: &str) -> std::io::Result<Stdio> {
    let mut file = std::fs::File::from(rustix::fs::memfd_create("input", rustix::fs::MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

fn prepare(spec: &Spec) -> Result<(), String> {
    // This fails only if the process leads a session already, which is enough.
    let _ = rustix::process::setsid();
    if let Some(user) = &spec.user {
        become_user(user).map_err(|e| format!("cannot become user {}: {e}", user.name))?;
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(spec.umask & 0o777));
    std::env::set_current_dir(&spec.cwd)
        .map_err(|e| format!("cannot start in {}: {e}; submit from a directory of yours", spec.cwd.display()))
}

fn become_user(user: &User) -> Result<(), String> {
    let name = CString::new(user.name.as_str()).map_err(|_| "the name holds a NUL".to_string())?;
    let groups = nix::unistd::getgrouplist(&name, Gid::from_raw(user.gid)).map_err(|e| format!("groups: {e}"))?;
    let rights = Rights::new(user.uid, user.gid, groups.into_iter().map(Gid::as_raw));
    rights.and_then(|mut rights| rights.take_for_good()).map_err(|e| e.to_string())
}
