//! Surroundings of a volume: files with secrets, the server of its state, its endpoint, its daemon.

use super::directory::CLOCK_S_MAX;
use super::finding::Finding;
use engine::rights::with_rights_of;
use engine::source::Identity;
use engine::volume::{Config, StateStore};
use meta::state::redis;
use node::control::answers::{Status, Target, read};
use node::control::{Client, Problem, Request};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Timeout of answers of a daemon and its endpoint.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The user whose rights are tried on the mount: the kernel's overflow user, `nobody` on most systems.
const NOBODY: u32 = 65534;

/// Most names at the mount's root that are checked.
const NAMES_MAX: usize = 100;

/// Checks that only the operator may read a file.
pub fn secret(key: &str, path: &Path) -> Vec<Finding> {
    let subject = format!("`{key}`");
    vec![match object::host::read_secret(path) {
        Ok(_) => Finding::ok(&subject, format!("{} is closed to others", path.display())),
        Err(why) => {
            let what = format!("{}: {why}", path.display());
            Finding::failure(&subject, what)
                .so("the volume is not mounted with it")
                .next("mend that, or name another file")
        }
    }]
}

/// Checks the server of the state: its answer, its durability settings, its clock.
pub fn server(file: &Path) -> Vec<Finding> {
    let Ok(config) = Config::read(file) else { return Vec::new() };
    let StateStore::Redis(address) = &config.state_store else { return Vec::new() };
    let before = SystemTime::now();
    let time = match redis::Server::reach(address).and_then(|server| server.time()) {
        Ok(time) => time,
        Err(error) => {
            return vec![
                Finding::failure("state", error.to_string())
                    .so("without the state no volume is mounted, and a mounted one moves nothing")
                    .next("start the server, or correct the cause that it reports"),
            ];
        }
    };
    vec![apart(before, time, SystemTime::now())]
}

/// Compares the server's clock, which was read between two readings of the local clock.
fn apart(before: SystemTime, theirs: SystemTime, after: SystemTime) -> Finding {
    let behind = before.duration_since(theirs).unwrap_or_default();
    let ahead = theirs.duration_since(after).unwrap_or_default();
    let by = behind.max(ahead).as_secs();
    if by <= CLOCK_S_MAX {
        return Finding::ok("state", "the server answers, keeps what it acknowledges, and its clock is ours");
    }
    let what = format!("the server's clock and this machine's are {by} s apart");
    Finding::warning("state", what)
        .so("ages of files and times that nodes exchange are wrong by as much on one of them")
        .next("keep both by NTP (`timedatectl`, `chronyc tracking`)")
}

/// Checks that the endpoint of a running daemon refuses requests without a token.
pub fn endpoint(listen: SocketAddr, has_token: bool, has_certificate: bool, socket: &Path) -> Vec<Finding> {
    if UnixStream::connect(socket).is_err() {
        return Vec::new(); // no daemon serves it
    }
    if has_certificate || !has_token {
        let what = if has_certificate { "it speaks HTTPS" } else { "users of this machine can read the metrics" };
        return vec![Finding::ok("endpoint", format!("{listen}: {what}"))];
    }
    let subject = "endpoint";
    vec![match status_without_token(listen) {
        Ok(401) => Finding::ok(subject, format!("{listen}: a client without a token is refused")),
        Ok(code) => {
            let what = format!("{listen} answers {code} to a client without a token");
            Finding::failure(subject, what)
                .so("any client that reaches that address reads the volume's metrics")
                .next("start the volume again: it runs without `token_file`, or another program listens there")
        }
        Err(error) => Finding::warning(subject, format!("{listen}: {error}"))
            .so("the volume cannot be watched")
            .next("start the volume again, which opens the endpoint"),
    }]
}

fn status_without_token(listen: SocketAddr) -> std::io::Result<u16> {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    let mut stream = TcpStream::connect_timeout(&SocketAddr::new(ip, listen.port()), TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {listen}\r\nConnection: close\r\n\r\n")?;
    let mut head = Vec::new();
    stream.take(64).read_to_end(&mut head)?;
    let code = String::from_utf8_lossy(&head).split(' ').nth(1).and_then(|code| code.parse().ok());
    code.ok_or_else(|| std::io::Error::other("the program that answers does not use HTTP"))
}

pub fn status(socket: &Path) -> Result<Status, Problem> {
    let mut client = Client::connect(socket)?;
    client.set_timeout(Some(TIMEOUT))?;
    read(client.ask(&Request::Status {}, &mut |_| {})?)
}

/// Checks a running daemon: its answer, version, mount, state store and targets.
pub fn daemon(socket: &Path) -> Vec<Finding> {
    if UnixStream::connect(socket).is_err() {
        return vec![Finding::ok("daemon", "no daemon that you may query runs for this volume")];
    }
    let status = match status(socket) {
        Ok(status) => status,
        Err(problem) => {
            return vec![Finding::failure("daemon", problem.cause).so(&problem.consequence).next(problem.next_step)];
        }
    };
    let mut findings = vec![version(&status)];
    findings.extend(users(&status.mount_point));
    if let Some(why) = &status.state_away {
        findings.push(
            Finding::failure("daemon", format!("its state is away: {why}"))
                .so("nothing is moved, staged or repaired until it is back")
                .next("mend the server or the disk of the state"),
        );
    }
    for Target { name, state, .. } in &status.targets {
        if state == "failed" || state == "suspect" {
            let change = format!(
                "look at its device; then `entrepot target restore {name}`, see docs/guide/operate/device-fails.md"
            );
            findings.push(
                Finding::failure(&format!("target {name}"), format!("it is {state} for the daemon"))
                    .so("files that lie on it alone cannot be read")
                    .next(change),
            );
        }
    }
    findings
}

/// Checks that users other than root can use the mount: lists its root and stats each name there with the rights of
/// [`NOBODY`].
fn users(mount_point: &Path) -> Option<Finding> {
    if !rustix::process::geteuid().is_root() {
        return None; // such a mount is its owner's alone
    }
    let subject = "users";
    let who = Identity { uid: NOBODY, gid: NOBODY, ..Identity::default() };
    let path = mount_point.to_owned();
    let tried = with_rights_of(&who, move || -> std::io::Result<bool> {
        for entry in std::fs::read_dir(&path)?.take(NAMES_MAX) {
            std::fs::symlink_metadata(entry?.path())?;
        }
        Ok(accessat(CWD, &path, Access::WRITE_OK, AtFlags::EACCESS).is_ok())
    });
    Some(match tried {
        Ok(Ok(true)) => Finding::ok(subject, "they can list the mount and create files in it"),
        Ok(Ok(false)) => {
            let at = mount_point.display();
            let own =
                format!("`chmod 1777 {at}`, or a directory for each user: `install -d -o USER -m 0700 {at}/USER`");
            Finding::warning(subject, "they can list the mount, and only root can create files at its root")
                .so("each user needs a directory of theirs there")
                .next(own)
        }
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            let at = mount_point.display();
            Finding::warning(subject, "only root can list the mount")
                .so("other users cannot work on the volume")
                .next(format!("if they should, open it and the directories above it: `namei -l {at}`"))
        }
        Ok(Err(error)) => Finding::failure(subject, format!("user {NOBODY} cannot list the mount: {error}"))
            .so("users other than root cannot work on the volume")
            .next(
                "look at the mode of the mount's root (`ls -ld`), at the daemon's log, and at the options of the \
                 namespace's file system",
            ),
        Err(error) => Finding::warning(subject, error.to_string())
            .so("the mount was not tried as another user")
            .next("run doctor as root"),
    })
}

fn version(status: &Status) -> Finding {
    let own = env!("CARGO_PKG_VERSION");
    let theirs = &status.facts.version;
    let replaced = std::fs::read_link(format!("/proc/{}/exe", status.pid));
    let replaced = replaced.is_ok_and(|exe| exe.to_string_lossy().ends_with(" (deleted)"));
    let change = "`entrepot down`, then `entrepot up`, when no user works in the mount";
    if theirs != own {
        return Finding::warning("daemon", format!("it is {theirs}, this command is {own}"))
            .so("a command that the daemon does not have is refused")
            .next(change);
    }
    if replaced {
        return Finding::warning("daemon", "its program was replaced since it started")
            .so("fixes of an upgrade are not in effect yet")
            .next(change);
    }
    Finding::ok("daemon", format!("it answers, and is {own} as this command"))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Weight;
    use super::*;

    #[test]
    fn clocks_are_apart_by_what_the_answer_cannot_have_taken() {
        let at = |s| SystemTime::UNIX_EPOCH + Duration::from_secs(s);
        assert_eq!(apart(at(100), at(103), at(105)).state, Weight::Ok);
        assert_eq!(apart(at(100), at(98), at(105)).state, Weight::Ok);
        assert!(apart(at(100), at(165), at(105)).what.contains("60 s apart"));
        assert!(apart(at(100), at(90), at(105)).what.contains("10 s apart"));
    }
}
