//! Child processes that work for a user: `ssh` of a source.

use super::take::{Rights, close_on_exec};
use super::thread::switch_to;
use crate::source::{Identity, SourceError};
use object::users::user;
use rustix::fs::Mode;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Search path of programs, whatever the daemon's own environment is.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Files made by these children are inaccessible to other users.
const UMASK: Mode = Mode::from_raw_mode(0o077);

/// A program that runs as `who`, in `/`, with `PATH`, `HOME`, `USER` and `LOGNAME` in its environment. A daemon of root
/// drops all privileges in the child, for good. The start fails if one is left.
pub fn command(program: impl AsRef<OsStr>, who: &Identity) -> Result<Command, SourceError> {
    let mut rights = switch_to(who)?;
    let mut command = Command::new(program);
    command.env_clear().env("PATH", PATH).current_dir("/");
    if let Some(user) = user(who.uid) {
        command.env("HOME", user.home).env("USER", &user.name).env("LOGNAME", &user.name);
    }
    let prepare = move || {
        rustix::process::umask(UMASK);
        Ok(rights.as_mut().map_or_else(close_on_exec, Rights::take_without_return)?)
    };
    // SAFETY: `prepare` makes system calls only: it neither allocates nor takes a lock.
    unsafe { command.pre_exec(prepare) };
    Ok(command)
}
