//! Processes as `/proc` shows them: identities across pid reuse and restarts, and descendants.

use object::host::boot;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Unique identity of a process: its number, its start, and the boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Process id, which the kernel reuses.
    pub pid: i32,
    /// When it started, in clock ticks since boot.
    pub start_ticks: u64,
    /// Id of the boot.
    pub boot: String,
}

struct Stat {
    state: u8,
    start_ticks: u64,
}

/// Fields of `/proc/PID/status`. The file `stat` of a process that hangs in its exec (on a dead file system, say)
/// hangs its reader; `status` does not.
struct Status {
    state: u8,
    parent: i32,
    session: i32,
}

fn status(pid: i32) -> Option<Status> {
    let bytes = std::fs::read(format!("/proc/{pid}/status")).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    // With nested namespaces the field has one number per namespace: the first is that of this one.
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name))?.split_ascii_whitespace().next();
    Some(Status {
        state: *field("State:")?.as_bytes().first()?,
        parent: field("PPid:")?.parse().ok()?,
        session: field("NSsid:")?.parse().ok()?,
    })
}

fn stat(pid: i32) -> Option<Stat> {
    let bytes = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The name stands in parentheses and may contain anything, parentheses too: split at the last one.
    let end = bytes.iter().rposition(|b| *b == b')')?;
    let fields: Vec<&str> = std::str::from_utf8(&bytes[end + 1..]).ok()?.split_ascii_whitespace().collect();
    Some(Stat { state: *fields.first()?.as_bytes().first()?, start_ticks: fields.get(19)?.parse().ok()? })
}

/// Identity of the process with that id now, if there is one.
pub fn identify(pid: i32) -> Option<Identity> {
    Some(Identity { pid, start_ticks: stat(pid)?.start_ticks, boot: boot() })
}

impl Identity {
    /// Whether the process still exists and is not a zombie.
    pub fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|s| s.start_ticks == self.start_ticks && s.state != b'Z' && s.state != b'X')
            && boot() == self.boot
    }
}

fn all() -> BTreeMap<i32, Status> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| Some((pid, status(pid)?))).collect()
}

/// All living descendants of a process.
pub fn descendants(of: i32) -> Vec<i32> {
    let all = all();
    let descends = |pid: i32| {
        let mut at = pid;
        // A chain of parents cannot be longer than the table, even if processes changed while it was read.
        for _ in 0..all.len() {
            match all.get(&at).map(|stat| stat.parent) {
                Some(parent) if parent == of => return true,
                Some(parent) if parent > 1 => at = parent,
                _ => return false,
            }
        }
        false
    };
    all.iter().filter(|(pid, stat)| stat.state != b'Z' && descends(**pid)).map(|(pid, _)| *pid).collect()
}

/// All living processes of a session.
pub fn session(leader: i32) -> Vec<i32> {
    all().into_iter().filter(|(_, stat)| stat.session == leader && stat.state != b'Z').map(|(pid, _)| pid).collect()
}

/// Sends a signal to each process; missing ones are ignored.
pub fn signal_all(pids: &[i32], signal: Signal) {
    for pid in pids.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_known_while_it_lives_and_never_confused() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = child.id() as i32;
        let who = identify(pid).unwrap();
        assert!(who.is_alive());
        assert!(descendants(std::process::id() as i32).contains(&pid));
        assert!(
            !Identity { start_ticks: who.start_ticks + 1, ..who.clone() }.is_alive(),
            "another process of that number"
        );
        assert!(!Identity { boot: "another".into(), ..who.clone() }.is_alive(), "the same number in another boot");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!who.is_alive());
    }
}
