//! A hostile program of an ordinary user takes all that it can get, while others work: it neither stops nor sees
//! anything of theirs.

use crate::burst::with_burst;
use crate::real::{Volume, code, err, noise, out, until};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// Environment variable with the volume's directory for the copy of this test that is the hostile program.
const DIRECTORY: &str = "ENTREPOT_TEST_HOSTILE";
/// Descriptors that the daemon may have.
const DESCRIPTORS: &str = "1024";
/// An application of another user. This user may have a different one of the same name.
const APP: &str = "wave";
/// A name that no other user may see.
const SECRET: &str = "merger-of-alpha-and-beta";

/// One request on a connection of its own; the last line that comes back, as far as one does.
fn ask(socket: &Path, command: &str, args: Value) -> String {
    let Ok(mut stream) = UnixStream::connect(socket) else { return String::new() };
    let line = format!("{}\n", json!({"id": 1, "command": command, "args": args}));
    let _ = stream.write_all(line.as_bytes());
    let last = |line: &String| line.contains("\"result\"") || line.contains("\"error\"");
    BufReader::new(stream).lines().map_while(Result::ok).find(last).unwrap_or_default()
}

/// The hostile program: this very program, started again as another user. It prints `ready` when it has all that it can
/// get, goes on until its input ends, and then prints its observations.
#[test]
fn program() {
    let Ok(dir) = std::env::var(DIRECTORY) else { return };
    let (at, state) = (Path::new(&dir).join("mnt"), Path::new(&dir).join("vol/state"));
    let (open, socket) = (at.join("open"), state.join("control.sock"));
    assert!(rustix::process::geteuid().as_raw() == 65534, "an ordinary user");

    // Locks on what is the daemon's own.
    let mut locked = Vec::new();
    for name in ["state.db", "state.db-wal", "state.db-shm", "lock", "../namespace/epoch", "../targets/fast0/target.id"]
    {
        let Ok(file) = fs::File::options().read(true).write(true).open(state.join(name)) else { continue };
        locked.push(name);
        let _ = rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive);
        std::mem::forget(file);
    }
    // Descriptors, in files that are small, files that are large, and directories.
    let mut files = Vec::new();
    while let Ok(file) = fs::File::create(open.join(format!("nobody-{}", files.len()))) {
        files.push(file);
    }
    let opened = files.len();
    let full = fs::File::create(open.join("more")).expect_err("no more").raw_os_error();
    assert_eq!(full, Some(rustix::io::Errno::NFILE.raw_os_error()));
    // Connections, each in the middle of a request.
    let mut streams: Vec<UnixStream> = (0..200).filter_map(|_| UnixStream::connect(&socket).ok()).collect();
    let piece = vec![b' '; 1 << 20];
    for stream in &mut streams {
        stream.set_nonblocking(true).expect("a flag");
        let _ = stream.write(b"{");
        while stream.write(&piece).is_ok_and(|n| n > 0) {}
    }

    let stop = AtomicBool::new(false);
    let seen = take_all(&stop, &at, &files, &socket, &mut streams, &piece);
    println!("locked {locked:?} opened {opened} connected {} saw {seen}", streams.len());
}

/// Does everything at once until the input ends; returns the daemon's answers.
fn take_all(
    stop: &AtomicBool,
    at: &Path,
    files: &[fs::File],
    socket: &Path,
    streams: &mut [UnixStream],
    piece: &[u8],
) -> String {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for file in files.iter().take(50) {
                    let _ = rustix::termios::isatty(file);
                    let value = vec![b'x'; 60_000];
                    let _ = rustix::fs::fsetxattr(file, "user.large", &value, rustix::fs::XattrFlags::empty());
                    let _ = rustix::fs::fsetxattr(
                        file,
                        "user.entrepot.source",
                        b"file:///etc/passwd",
                        rustix::fs::XattrFlags::empty(),
                    );
                    let _ = fs::read(at.join(".stats"));
                }
            }
        });
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for stream in &mut *streams {
                    let _ = stream.write(piece);
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        });
        let asker = scope.spawn(|| {
            let mut seen = String::new();
            let requests = [
                ("check.run", json!({"paths": ["."], "repair": true})),
                ("check.run", json!({"paths": ["/", "closed"], "repair": true})),
                ("check.run", json!({"paths": ["link"], "before_job": true, "repair": true})),
                ("checkpoint.list", json!({})),
                ("checkpoint.status", json!({})),
                ("checkpoint.about", json!({"app": APP, "mtbf_s": 1})),
                ("checkpoint.begin", json!({"app": APP, "paths": ["open"], "mtbf_s": 1})),
                ("checkpoint.begin", json!({"app": "mine", "paths": ["."]})),
                ("status.get", json!({})),
                ("layout.get", json!({"path": "closed/a"})),
                ("layout.get", json!({"path": "link"})),
                ("purge.run", json!({})),
                ("daemon.down", json!({"force": true})),
                ("target.fail", json!({"name": "fast0"})),
            ];
            // The program's own connections keep most of these out; once each is enough.
            while !stop.load(Ordering::Relaxed) {
                for (command, args) in &requests {
                    seen += &ask(socket, command, args.clone());
                    seen.truncate(1 << 20);
                }
            }
            seen
        });
        println!("\nready");
        std::io::stdout().flush().expect("a pipe");
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stop.store(true, Ordering::Relaxed);
        asker.join().expect("no panic")
    })
}

struct Hostile(Child);

impl Hostile {
    fn start(volume: &Volume) -> Hostile {
        // A directory in which every user may run it.
        let program = volume.dir.path().join("hostile");
        let copied = Command::new("cp").arg(std::env::current_exe().expect("a path")).arg(&program).status();
        assert!(copied.expect("cp").success());
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]).arg(program);
        command.args(["--exact", "hostile::program", "--nocapture"]).env(DIRECTORY, volume.dir.path()).current_dir("/");
        Hostile(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("setpriv runs"))
    }

    /// Output up to a line with this prefix, or up to its end.
    fn says(&mut self, line: &str) -> String {
        let out = self.0.stdout.as_mut().expect("a pipe");
        let (mut said, mut byte) = (Vec::new(), [0]);
        while out.read(&mut byte).is_ok_and(|n| n > 0) {
            said.push(byte[0]);
            if byte[0] == b'\n' && said.ends_with(format!("\n{line}\n").as_bytes()) {
                break;
            }
        }
        String::from_utf8_lossy(&said).into_owned()
    }

    fn end(mut self) -> String {
        drop(self.0.stdin.take());
        let said = self.says("never");
        assert!(self.0.wait().expect("it ends").success(), "{said}");
        said
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn resident_kib(volume: &Volume) -> u64 {
    let pid = volume.pid().expect("a daemon").as_raw_nonzero();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("proc");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line");
    line.split_whitespace().nth(1).expect("a number").parse().expect("a number")
}

/// The file of an object of a file.
fn object_of(volume: &Volume, path: &str) -> PathBuf {
    let layout = volume.json(&["layout", path]);
    let object = &layout["mirrors"][0]["segments"][0]["objects"][0];
    let (target, id) = (object["target"].as_str().expect("target"), object["object"].as_str().expect("object"));
    volume.dir.path().join("vol/targets").join(target).join("objects").join(&id[14..]).join(id)
}

/// [S-170] [S-171] [S-172] [S-173] [S-174]
#[test]
fn it_neither_stops_nor_sees_others() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root to act as another user");
        return;
    }
    let Some(volume) = Volume::up_with(with_burst("size = \"20MB\"\n")) else { return };
    // Once more, with few descriptors that it cannot raise.
    volume.ok(&["down"]);
    let mut again = Command::new("prlimit");
    again.arg(format!("--nofile={DESCRIPTORS}:{DESCRIPTORS}")).args(["setpriv", "--bounding-set=-sys_resource"]);
    again.arg(&volume.binary).args(["up", volume.toml.to_str().expect("UTF-8"), "--detach", "--at"]).arg(&volume.at);
    let again = again.current_dir("/").output().expect("prlimit runs");
    assert_eq!(code(&again), 0, "{}", err(&again));

    let chmod = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
    let (closed, open) = (volume.at.join("closed"), volume.at.join("open"));
    for (dir, mode) in [(&closed, 0o700), (&open, 0o1777)] {
        fs::create_dir(dir).expect("directory");
        chmod(dir, mode);
    }
    std::os::unix::fs::symlink("closed", volume.at.join("link")).expect("link");
    let data = noise(1 << 20);
    fs::write(closed.join(SECRET), &data).expect("write");
    fs::write(closed.join(format!("{SECRET}-damaged")), &data).expect("write");
    volume.ok(&["checkpoint", "begin", APP, "--path", "closed", "--mtbf", "1h"]);
    fs::write(closed.join(format!("{SECRET}-checkpoint")), &data).expect("write");
    volume.ok(&["checkpoint", "commit", APP]);
    let damaged = object_of(&volume, &format!("closed/{SECRET}-damaged"));
    fs::rename(&damaged, volume.dir.path().join("kept")).expect("there");
    let found = out(&volume.run(&["check", "closed"]));
    assert!(found.contains(SECRET), "the operator sees it: {found}");
    let before = resident_kib(&volume);

    let mut hostile = Hostile::start(&volume);
    let said = hostile.says("ready");
    assert!(said.ends_with("ready\n"), "{said}");
    // Others work.
    for round in 0..5 {
        let path = closed.join(format!("round{round}"));
        fs::write(&path, &data).expect("write");
        assert!(fs::read(&path).expect("read") == data);
        assert!(fs::read_dir(&open).expect("list").count() > 100);
        volume.ok(&["status"]);
        volume.ok(&["job", "list"]);
    }
    let as_another = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "1002", "--regid", "1002", "--clear-groups", "--"]).args(words);
        command.current_dir(&volume.at).env_remove("ENTREPOT_VOLUME").output().expect("setpriv runs")
    };
    let copied = as_another(&["cp", "/etc/passwd", "open/of-another"]);
    assert_eq!(code(&copied), 0, "another user opens files: {}", err(&copied));
    let binary = volume.binary.to_str().expect("UTF-8");
    for words in [&["status"][..], &["layout", "open/of-another"], &["check", "open/of-another"]] {
        let done = as_another(&[&[binary], words].concat());
        assert_eq!(code(&done), 0, "another user is served: {words:?} {}", err(&done));
    }
    let more = resident_kib(&volume).saturating_sub(before);
    assert!(more < 200 << 10, "{more} KiB more of memory");
    let saw = hostile.end();
    assert!(saw.contains("saw {"), "some of its requests were answered: {saw}");
    assert!(!saw.contains(SECRET), "{saw}");

    let targets = volume.json(&["target", "list"]);
    for target in targets["targets"].as_array().expect("targets") {
        assert_eq!(target["state"], "ok", "no target changed: {targets}");
    }
    assert!(!volume.log().contains("is suspect"), "at no time: {}", volume.log());
    let status = volume.json(&["checkpoint", "status"]);
    let apps = status["applications"].as_array().expect("applications");
    assert!(apps.iter().any(|app| app["name"] == APP && app["mtbf_s"] == 3600), "{status}");
    assert!(!damaged.exists(), "nobody but its owner has it mended");
    fs::rename(volume.dir.path().join("kept"), &damaged).expect("back");
    assert!(fs::read(closed.join(format!("{SECRET}-damaged"))).expect("read") == data);
    until("it is in order", || code(&volume.run(&["check"])) == 0);
}
