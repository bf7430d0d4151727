//! Checks of the machine: kernel, FUSE, limits of a process.

use super::finding::Finding;
use rustix::fs::Access;
use rustix::io::Errno;
use rustix::process::{Resource, geteuid, getrlimit};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// First kernel with `openat2`, by which the daemon resolves paths of users.
const KERNEL_MIN: (u32, u32) = (5, 6);
/// First kernel with FUSE passthrough.
const KERNEL_WITH_PASSTHROUGH: (u32, u32) = (6, 9);
/// Least limit of open files without a warning; users share 5/8 of it. A guess.
const FILES_MIN: u64 = 16_384;
/// Threads of a daemon with a few targets. A guess.
const THREADS_MIN: u64 = 256;

pub fn look() -> Vec<Finding> {
    let mut findings = vec![kernel(), device()];
    findings.extend((!geteuid().is_root()).then(helper));
    findings.push(files());
    findings.push(threads());
    findings
}

fn kernel() -> Finding {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    match version(release) {
        Some(version) if version < KERNEL_MIN => Finding::failure("kernel", format!("Linux {release}"))
            .so("a daemon follows paths by `openat2`, which this kernel does not have")
            .next("use Linux 5.6 or newer; 6.9 serves files fastest"),
        Some(version) if version < KERNEL_WITH_PASSTHROUGH => {
            Finding::ok("kernel", format!("Linux {release}: all bytes go through the daemon (passthrough needs 6.9)"))
        }
        Some(_) if !geteuid().is_root() => {
            Finding::ok("kernel", format!("Linux {release}: passthrough works for daemons of root only"))
        }
        _ => Finding::ok("kernel", format!("Linux {release}")),
    }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn device() -> Finding {
    let path = Path::new("/dev/fuse");
    let access = rustix::fs::access(path, Access::READ_OK | Access::WRITE_OK);
    opened(access, std::fs::metadata(path).ok().map(|about| about.permissions().mode() & 0o7777))
}

/// Finding for `/dev/fuse`, from the result of an access and the mode; `None`: there is no device.
fn opened(access: Result<(), Errno>, mode: Option<u32>) -> Finding {
    let why = "nothing can be mounted";
    match (access, mode) {
        (Ok(()), _) => Finding::ok("FUSE", "/dev/fuse can be opened"),
        (Err(Errno::ACCESS), Some(mode)) => {
            Finding::failure("FUSE", format!("/dev/fuse has mode {mode:04o}, which refuses this user")).so(why).next(
                "as root `chmod 0666 /dev/fuse`, and for later starts a udev rule: `KERNEL==\"fuse\", MODE=\"0666\"`",
            )
        }
        (Err(error), _) => Finding::failure("FUSE", format!("/dev/fuse: {error}"))
            .so(why)
            .next("`modprobe fuse`; in a container give it the device /dev/fuse"),
    }
}

/// Checks the program that mounts for an ordinary user.
fn helper() -> Finding {
    let why = "a user who is not root mounts by it";
    let Some(path) = program("fusermount3") else {
        return Finding::failure("FUSE", "there is no `fusermount3` in PATH").so(why).next("install the package fuse3");
    };
    let is_setuid =
        std::fs::metadata(&path).is_ok_and(|about| about.permissions().mode() & 0o4000 != 0 && about.uid() == 0);
    if is_setuid {
        Finding::ok("FUSE", format!("{} mounts for ordinary users", path.display()))
    } else {
        let what = format!("{} is not setuid root", path.display());
        Finding::failure("FUSE", what).so(why).next("install the package fuse3 again, or run the daemon as root")
    }
}

fn files() -> Finding {
    let n = object::descriptors::raise();
    let what = format!("a daemon started here may have {n} files open");
    if n >= FILES_MIN {
        return Finding::ok("open files", what);
    }
    Finding::warning("open files", what)
        .so("5/8 of them are for the open files of all users; beyond that users get ENFILE")
        .next("raise the hard limit: `LimitNOFILE=1048576` in the systemd unit, or /etc/security/limits.conf")
}

/// Checks how many threads may still be started, by the limits of the user and of the control groups.
fn threads() -> Finding {
    let of_user = getrlimit(Resource::Nproc).current.filter(|_| !geteuid().is_root());
    let left = of_user.into_iter().chain(groups().filter_map(|group| left_in(&group))).min();
    let Some(left) = left else { return Finding::ok("threads", "no limit of a user or a control group holds here") };
    let what = format!("at most {left} more threads can be made here");
    if left >= THREADS_MIN {
        return Finding::ok("threads", what);
    }
    Finding::warning("threads", what)
        .so("a daemon has threads for requests and for each target; without them targets are not served")
        .next("raise `TasksMax=` of the systemd unit, `pids.max` of the container, or `ulimit -u`")
}

/// The directories of this process's control group (version 2), up to the root.
fn groups() -> impl Iterator<Item = PathBuf> {
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).map(str::to_owned);
    let root = Path::new("/sys/fs/cgroup");
    let all = own
        .map(|own| root.join(own).ancestors().take_while(|at| at.starts_with(root)).map(Path::to_path_buf).collect());
    let all: Vec<PathBuf> = all.unwrap_or_default();
    all.into_iter()
}

fn left_in(group: &Path) -> Option<u64> {
    let number = |name| std::fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    Some(number("pids.max")?.saturating_sub(number("pids.current")?))
}

/// Path of a program, from `PATH` and the directories of a root daemon.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all: Vec<_> = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]).collect();
    all.into_iter().map(|dir| dir.join(name)).find(|at| rustix::fs::access(at, Access::EXEC_OK).is_ok() && at.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_with_a_wrong_mode_is_not_a_missing_one() {
        let wrong = format!("{:?}", opened(Err(Errno::ACCESS), Some(0o600)));
        assert!(wrong.contains("mode 0600") && wrong.contains("chmod 0666"), "{wrong}");
        assert!(!wrong.contains("modprobe"), "{wrong}");
        let missing = format!("{:?}", opened(Err(Errno::NOENT), None));
        assert!(missing.contains("modprobe fuse"), "{missing}");
    }

    #[test]
    fn releases_are_compared_as_numbers() {
        assert_eq!(version("6.10.0-rc1+"), Some((6, 10)));
        assert_eq!(version("5.14.0-427.el9.x86_64"), Some((5, 14)));
        assert!(version("6.10.0") > Some(KERNEL_WITH_PASSTHROUGH) && version("odd").is_none());
    }
}
