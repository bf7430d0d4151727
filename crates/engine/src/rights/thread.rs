//! Threads that work for a user.
//!
//! Linux keeps credentials per thread. A thread of its own takes the user's effective ids and groups, does one piece of
//! work, and ends. Its real and saved ids stay root's, so the user can neither signal nor trace it. Supplementary
//! groups are from `/etc/group` only. A group that only a directory service has may be missing, which never grants
//! access.

use super::take::Rights;
use crate::source::{Identity, Result, SourceError};
use object::users::groups_of;
use object::workers::within;
use rustix::fs::Mode;
use rustix::process::umask;
use rustix::thread::UnshareFlags;
use std::time::Duration;

/// A local file system that does not answer within this time is given up; its thread is left behind.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Rights needed to act for `who`; `None` if the daemon has them already.
pub(super) fn switch_to(who: &Identity) -> Result<Option<Rights>> {
    let own = rustix::process::geteuid().as_raw();
    if own == who.uid {
        return Ok(None);
    }
    if own != 0 {
        return Err(SourceError::Permanent(format!(
            "this daemon runs as user {own} and cannot act for user {}; let root run it",
            who.uid
        )));
    }
    let rights = Rights::new(who.uid, who.gid, groups_of(who.uid, who.gid));
    rights.map(Some).map_err(|e| SourceError::Permanent(format!("cannot take the rights of user {}: {e}", who.uid)))
}

/// Runs `work` with the rights and the file mode creation mask of `who`.
pub fn with_rights_of<T: Send + 'static>(who: &Identity, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let (mut rights, mask) = (switch_to(who)?, who.mask());
    let run = move || {
        let taken = take_mask(mask).map_err(|e| format!("file mode creation mask: {e}"));
        let taken =
            taken.and_then(|()| rights.as_mut().map_or(Ok(()), Rights::take_effective).map_err(|e| e.to_string()));
        taken.map(|()| work())
    };
    match within(TIMEOUT, "rights", [run]).pop().flatten() {
        Some(Ok(value)) => Ok(value),
        Some(Err(e)) => Err(SourceError::Permanent(format!("cannot take the rights of user {}: {e}", who.uid))),
        None => Err(SourceError::Passing("local file system: no answer within the deadline".into())),
    }
}

/// Unshares and sets this thread's mask, which it shared with the thread that started it.
fn take_mask(mask: u32) -> rustix::io::Result<()> {
    // SAFETY: only the mask, root and working directory are unshared, no descriptor table.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS)? };
    umask(Mode::from_raw_mode(mask));
    Ok(())
}

#[cfg(test)]
mod tests;
