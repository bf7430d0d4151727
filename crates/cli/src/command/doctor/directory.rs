//! A directory of a volume: its permissions, and the file system below it.

use super::finding::{CheckResult, Finding, Role};
use rustix::fs::{StatFs, StatVfsMountFlags, statfs, statvfs};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Least share of free space and inodes without a warning. A guess: fuller file systems become slow.
const FREE_PERCENT_MIN: u64 = 5;
/// Most names whose times are compared with the clock.
const NAMES_MAX: usize = 1024;
/// Largest tolerated difference of clocks; NTP keeps them closer.
pub const CLOCK_S_MAX: u64 = 2;
/// `f_type` of tmpfs and ramfs, from the kernel's `magic.h`.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

pub fn look(name: &str, role: Role, path: &Path) -> CheckResult {
    // A missing or closed directory is refused by `up`, or is a target that is away.
    let (about, space, kind) = match (std::fs::metadata(path), statvfs(path), statfs(path)) {
        (Ok(about), Ok(space), Ok(kind)) => (about, space, kind),
        (Err(error), ..) => return not_there(name, role, path, &error).into(),
        (_, Err(error), _) | (_, _, Err(error)) => return not_there(name, role, path, &error.into()).into(),
    };
    let problems = [
        part(name, "space", space.f_bavail, space.f_blocks),
        part(name, "inodes", space.f_favail, space.f_files),
        read_only(name, role, space.f_flag),
        in_memory(name, &kind),
        open_to_others(name, role, path),
        ahead(name, newest(role, path), SystemTime::now()),
    ];
    let mut findings: Vec<_> = problems.into_iter().flatten().collect();
    if findings.is_empty() {
        let free = (space.f_bavail * 100).checked_div(space.f_blocks).unwrap_or(0);
        findings.push(Finding::ok(
            name,
            format!("{}: {free} % free, closed to others, its clock is not ahead", path.display()),
        ));
    }
    CheckResult { findings, further: Vec::new(), device: (role == Role::Target).then(|| about.dev()) }
}

fn not_there(name: &str, role: Role, path: &Path, error: &std::io::Error) -> Vec<Finding> {
    if role == Role::State && error.kind() == std::io::ErrorKind::NotFound {
        return Vec::new(); // made at the first start, or refused by `up`
    }
    vec![
        Finding::failure(name, format!("{}: {error}", path.display()))
            .so("files there cannot be read now")
            .next("mount the file system that belongs there, or repair the device"),
    ]
}

fn part(name: &str, what: &str, free: u64, all: u64) -> Option<Finding> {
    // File systems without a table of inodes report zero.
    let percent = (u128::from(free) * 100).checked_div(u128::from(all))?;
    let state = format!("{percent} % of its {what} are free");
    let change = "`entrepot purge`, remove files, or add a target; see docs/guide/operate/every-day.md";
    match free {
        0 => Some(Finding::failure(name, state).so("writes there fail with ENOSPC").next(change)),
        _ if percent < u128::from(FREE_PERCENT_MIN) => {
            Some(Finding::warning(name, state).so("soon writes there fail with ENOSPC").next(change))
        }
        _ => None,
    }
}

fn read_only(name: &str, role: Role, flags: StatVfsMountFlags) -> Option<Finding> {
    // A read-only namespace or state is refused by `up`.
    (role == Role::Target && flags.contains(StatVfsMountFlags::RDONLY)).then(|| {
        Finding::warning(name, "its file system can only be read")
            .so("files there are read, and no new ones are placed there")
            .next("look into the kernel's log; mount it for writing, or drain it")
    })
}

fn in_memory(name: &str, kind: &StatFs) -> Option<Finding> {
    IN_MEMORY.contains(&(kind.f_type as u64)).then(|| {
        Finding::warning(name, "it lies in memory (tmpfs)")
            .so("synced data there are lost with the next start of the machine")
            .next("use a directory on a device, unless this is a trial")
    })
}

/// Reports a directory that other users can enter: it holds names or bytes of all users.
fn open_to_others(name: &str, role: Role, path: &Path) -> Option<Finding> {
    let (inner, forbidden) = match role {
        Role::Namespace => (path.join("tree"), None),
        Role::Target => (path.join("objects"), None),
        // Users must reach the control socket, so execute permission is allowed.
        Role::State => (path.to_path_buf(), Some(0o066)),
    };
    let mode = |at: &Path| std::fs::metadata(at).ok().map(|about| about.permissions().mode() & 0o7777);
    let open = match forbidden {
        Some(forbidden) => mode(&inner)? & forbidden != 0,
        // One closed directory of the two is enough.
        None => mode(path)? & 0o077 != 0 && mode(&inner)? & 0o077 != 0,
    };
    let closed = if role == Role::State { 0o711 } else { 0o700 };
    open.then(|| {
        Finding::failure(name, format!("{} is open to others", path.display()))
            .so("other users could read or change files there, without the permission checks of the mount")
            .next(format!("chmod {closed:o} {}", path.display()))
    })
}

/// Latest change below the directory, by the clock of its file system.
fn newest(role: Role, path: &Path) -> SystemTime {
    let below = match role {
        Role::Namespace => path.join("nodes"),
        Role::Target => path.join("objects"),
        Role::State => path.to_path_buf(),
    };
    let entries = std::fs::read_dir(&below).into_iter().flatten().flatten().take(NAMES_MAX).map(|entry| entry.path());
    let changed = |at: &Path| {
        let about = std::fs::symlink_metadata(at).ok()?;
        Some(UNIX_EPOCH + std::time::Duration::from_secs(u64::try_from(about.ctime()).ok()?))
    };
    entries.chain([path.to_path_buf(), below.clone()]).filter_map(|at| changed(&at)).max().unwrap_or(UNIX_EPOCH)
}

/// Reports a change in the future: the clocks differ, or the local one was set back.
fn ahead(name: &str, newest: SystemTime, now: SystemTime) -> Option<Finding> {
    let by = newest.duration_since(now).ok()?.as_secs();
    (by > CLOCK_S_MAX).then(|| {
        let what = format!("its file system's clock is {by} s ahead of this machine's");
        Finding::warning(name, what)
            .so("ages of files, which `purge` and `find` use, are wrong by as much")
            .next("keep both by NTP (`timedatectl`, `chronyc tracking`)")
    })
}

#[cfg(test)]
mod tests {
    use super::super::finding::Weight;
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_nearly_full_is_a_warning_and_what_is_full_a_failure() {
        let state = |free, all| part("target a", "space", free, all).map(|finding| finding.state);
        assert_eq!(
            [state(0, 0), state(5, 100), state(4, 100), state(0, 100)],
            [None, None, Some(Weight::Warning), Some(Weight::Failure)]
        );
    }

    #[test]
    fn a_clock_ahead_is_seen_and_one_behind_is_nothing_that_can_be_told() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        assert_eq!(ahead("namespace", now + Duration::from_secs(2), now), None);
        assert_eq!(ahead("namespace", now - Duration::from_secs(500), now), None);
        let found = ahead("namespace", now + Duration::from_secs(90), now).expect("a finding");
        assert!(found.what.contains("90 s ahead"), "{}", found.what);
    }

    #[test]
    fn a_target_open_to_others_is_a_failure_unless_its_objects_are_closed() {
        let dir = tempfile::tempdir().unwrap();
        let objects = dir.path().join("objects");
        std::fs::create_dir(&objects).unwrap();
        let set = |at: &Path, mode| std::fs::set_permissions(at, PermissionsExt::from_mode(mode)).unwrap();
        set(dir.path(), 0o755);
        set(&objects, 0o755);
        let found = open_to_others("target a", Role::Target, dir.path()).expect("a finding");
        assert_eq!(found.state, Weight::Failure);
        set(&objects, 0o700);
        assert_eq!(open_to_others("target a", Role::Target, dir.path()), None);
    }
}
