//! Doing something with a user's rights when the daemon runs for everybody.
//!
//! Linux keeps credentials per thread: a thread of its own takes the user's effective ids and groups, does the one
//! thing, and ends. Its real and saved ids stay root's, so the user can neither signal nor trace it. Supplementary
//! groups come from `/etc/group` only: a group that a directory service knows may be missing, which refuses and never
//! allows.

use super::{Identity, SourceError};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

/// A local file system that does not answer within this time is given up; its thread is left behind.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs `work` with the rights of `who`.
pub fn with_rights_of<T: Send + 'static>(
    who: &Identity,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SourceError> {
    let own = rustix::process::geteuid().as_raw();
    if own != 0 && own != who.uid {
        return Err(SourceError::Permanent(format!(
            "this daemon runs as user {own} and cannot act for user {}; let root run it",
            who.uid
        )));
    }
    let switch = (own == 0 && who.uid != 0).then(|| (who.uid, who.gid, groups_of(who)));
    let (sender, receiver) = mpsc::sync_channel(1);
    let run = move || {
        let switched = switch.map_or(Ok(()), |(uid, gid, groups)| take(uid, gid, &groups));
        // The receiver may have given up: then nobody wants the result.
        let _ = sender.send(switched.map(|()| work()));
    };
    std::thread::Builder::new()
        .name("rights".into())
        .spawn(run)
        .map_err(|e| SourceError::Passing(format!("no thread for the file system: {e}")))?;
    match receiver.recv_timeout(PATIENCE) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(e)) => Err(SourceError::Permanent(format!("cannot take the rights of user {}: {e}", who.uid))),
        Err(_) => Err(SourceError::Passing("local file system: no answer within the deadline".into())),
    }
}

/// Gives this thread the user's effective ids. Group first: afterwards it may no longer.
fn take(uid: u32, gid: u32, groups: &[u32]) -> rustix::io::Result<()> {
    let groups: Vec<Gid> = groups.iter().map(|&g| Gid::from_raw(g)).collect();
    set_thread_groups(&groups)?;
    set_thread_res_gid(None::<Gid>, Gid::from_raw(gid), None::<Gid>)?;
    set_thread_res_uid(None::<Uid>, Uid::from_raw(uid), None::<Uid>)
}

/// The groups of a user, their own first.
pub(crate) fn groups_of(who: &Identity) -> Vec<u32> {
    let name = passwd(who.uid).map(|(name, _)| name);
    let text = std::fs::read_to_string("/etc/group").unwrap_or_default();
    let mut groups = vec![who.gid];
    groups.extend(name.iter().flat_map(|name| groups_in(&text, name)));
    groups
}

/// The groups that a group file lists a user in.
fn groups_in(text: &str, name: &str) -> Vec<u32> {
    let of_line = |line: &str| {
        let mut fields = line.split(':');
        let gid = fields.nth(2)?.parse().ok()?;
        fields.next()?.split(',').any(|member| member == name).then_some(gid)
    };
    text.lines().filter_map(of_line).collect()
}

/// The home of a user, if the password file knows them.
pub fn home_of(uid: u32) -> Option<PathBuf> {
    passwd(uid).map(|(_, home)| home)
}

/// The name of a user, if the password file knows them.
pub fn name_of(uid: u32) -> Option<String> {
    passwd(uid).map(|(name, _)| name)
}

fn passwd(uid: u32) -> Option<(String, PathBuf)> {
    let text = std::fs::read_to_string("/etc/passwd").ok()?;
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, id, _, _, home, ..] = fields.as_slice() else { return None };
        (id.parse() == Ok(uid)).then(|| (name.to_string(), PathBuf::from(home)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_a_file() {
        let text = "root:x:0:\nusers:x:100:al,bob\nalso:x:7:bobby\nodd\nwheel:x:10:bob\n";
        assert_eq!(groups_in(text, "bob"), [100, 10]);
    }

    #[test]
    fn root_acts_with_the_users_rights_and_keeps_its_own() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root to act for another user");
            return;
        }
        let who = Identity { uid: 65534, gid: 65534, ..Default::default() };
        let denied = with_rights_of(&who, || std::fs::read("/etc/shadow").map_err(|e| e.kind())).expect("runs");
        assert_eq!(denied, Err(std::io::ErrorKind::PermissionDenied));
        assert!(std::fs::read("/etc/shadow").is_ok(), "the other threads are root still");
    }
}
