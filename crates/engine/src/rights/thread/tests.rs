//! Threads and children that work for a user, started from a thread that creates files as the mount does.

use super::*;
use crate::rights::command;
use meta::namespace::credentials::{Caller, as_caller};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;

const HER: u32 = 65534;

fn nobody() -> Identity {
    Identity { uid: HER, gid: HER, ..Identity::default() }
}

fn cannot_act_for_others() -> bool {
    let cannot = !rustix::process::geteuid().is_root();
    if cannot {
        eprintln!("skipped: needs root to act for another user");
    }
    cannot
}

/// Runs `work` on a thread that has created a file for a user, as a thread of the mount does.
fn on_a_thread_that_creates(work: impl FnOnce() + Send + 'static) {
    let run = move || {
        let caller = Caller { uid: HER, gid: HER, umask: 0o027, thread: 0 };
        assert_eq!(as_caller(caller, || Ok(rustix::process::geteuid().as_raw())), Ok(HER));
        work();
    };
    std::thread::spawn(run).join().expect("no panic");
}

fn value<'a>(status: &'a str, field: &str) -> &'a str {
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{field} in {status}")).trim()
}

#[test]
fn root_acts_with_the_users_rights_and_keeps_its_own() {
    if cannot_act_for_others() {
        return;
    }
    let denied = with_rights_of(&nobody(), || std::fs::read("/etc/shadow").map_err(|e| e.kind())).expect("runs");
    assert_eq!(denied, Err(ErrorKind::PermissionDenied));
    assert!(std::fs::read("/etc/shadow").is_ok(), "the other threads are root still");
}

/// [S-340]
#[test]
fn a_thread_of_the_mount_that_created_something_lends_nothing_to_a_user() {
    if cannot_act_for_others() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o700)).expect("chmod");
    let secret = dir.path().join("secret");
    std::fs::write(&secret, b"hush").expect("write");
    on_a_thread_that_creates(move || {
        let open = |path: std::path::PathBuf| {
            with_rights_of(&nobody(), move || std::fs::File::open(path).map(drop).map_err(|e| e.kind())).expect("runs")
        };
        let missing = open(secret.with_file_name("missing"));
        assert_eq!((open(secret), missing), (Err(ErrorKind::PermissionDenied), Err(ErrorKind::PermissionDenied)));
        let own = || std::fs::read_to_string("/proc/thread-self/status").expect("a status");
        let status = with_rights_of(&nobody(), own).expect("runs");
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(value(&status, set), "0000000000000000", "{set}");
        }
        assert_eq!((value(&status, "NoNewPrivs"), value(&status, "Groups")), ("1", "65534"));
        assert_eq!(value(&status, "Umask"), "0022", "its own, not that of the thread that started it");
    });
}

/// [S-340]
#[test]
fn a_child_for_a_user_has_no_privilege_and_cannot_gain_one() {
    if cannot_act_for_others() {
        return;
    }
    on_a_thread_that_creates(|| {
        let mut command = command("/bin/cat", &nobody()).expect("a user");
        let done = command.args(["/proc/self/status", "/proc/self/environ"]).output().expect("it starts");
        let said = String::from_utf8_lossy(&done.stdout);
        for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(value(&said, set), "0000000000000000", "{set}");
        }
        for ids in ["Uid", "Gid"] {
            assert!(value(&said, ids).split('\t').all(|id| id == "65534"), "{said}");
        }
        assert_eq!((value(&said, "NoNewPrivs"), value(&said, "Groups"), value(&said, "Umask")), ("1", "65534", "0077"));
        assert!(said.contains("PATH=/usr/local/bin:/usr/bin:/bin\0") && !said.contains("CARGO"), "{said}");
        let bits = rustix::thread::capabilities_secure_bits().expect("prctl");
        assert!(bits.is_empty(), "the thread itself has none that a child could inherit");
    });
}

#[test]
fn a_child_gets_the_standard_descriptors_only() {
    let open = std::fs::File::open("/proc/self/exe").expect("open");
    rustix::io::fcntl_setfd(&open, rustix::io::FdFlags::empty()).expect("it would be inherited");
    let own = Identity { uid: rustix::process::geteuid().as_raw(), ..nobody() };
    let mut command = command("/bin/ls", &own).expect("a user");
    let done = command.arg("/proc/self/fd").output().expect("it starts");
    // The fourth descriptor is that of `ls` for the directory itself.
    assert_eq!(String::from_utf8_lossy(&done.stdout), "0\n1\n2\n3\n");
}

#[test]
fn ids_that_mean_unchanged_are_refused() {
    for (uid, gid, group) in [(u32::MAX, 1, 1), (1, u32::MAX, 1), (1, 1, u32::MAX)] {
        assert!(Rights::new(uid, gid, [group]).is_err());
    }
}
