//! `entrepot top`: the users of a volume, visibility by user, and a terminal that is restored however it ends.

use crate::real::{Volume, code, err, noise, out, until};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OutputModes, tcgetattr};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

const NOBODY: u32 = 65534;

fn look(volume: &Volume) -> Value {
    let told = volume.run(&["top", "--once", "--output", "json"]);
    assert_eq!(code(&told), 0, "{}", err(&told));
    serde_json::from_slice(&told.stdout).expect("one object")
}

fn of_user(told: &Value, uid: u32) -> Value {
    told["users"].as_array().expect("users").iter().find(|user| user["uid"] == uid).cloned().unwrap_or_default()
}

fn paths(told: &Value) -> Vec<&str> {
    told["files"].as_array().expect("files").iter().filter_map(|file| file["path"].as_str()).collect()
}

/// Makes an ordinary user write a file there, and keep it open until the child is ended.
fn write_as_nobody(volume: &Volume, file: &str, bytes: usize) -> Child {
    let script = format!("exec 3> {file} && head -c {bytes} /dev/zero >&3 && echo there > ready; read end");
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--", "sh", "-c", &script]);
    command.current_dir(&volume.at).stdin(std::process::Stdio::piped());
    let child = command.spawn().expect("it runs");
    until("the file is written", || fs::read_to_string(volume.at.join("ready")).is_ok_and(|text| text == "there\n"));
    child
}

/// [S-282]
#[test]
fn users_see_their_own_bytes_and_operators_all_paths() {
    let Some(volume) = Volume::up() else { return };
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: needs root to be another user");
    }
    for (name, mode) in [("theirs", 0o777), ("closed", 0o777)] {
        fs::create_dir(volume.at.join(name)).expect("directory");
        fs::set_permissions(volume.at.join(name), fs::Permissions::from_mode(mode)).expect("chmod");
    }
    fs::set_permissions(&volume.at, fs::Permissions::from_mode(0o777)).expect("chmod");
    fs::write(volume.at.join("roots"), noise(300_000)).expect("write");
    let roots = File::open(volume.at.join("roots")).expect("open");
    let before = of_user(&look(&volume), NOBODY);
    let mut child = write_as_nobody(&volume, "theirs/result", 3_000_000);
    // A file of the user's, where the user may not go any more.
    let hidden = File::create(volume.at.join("closed/hidden")).expect("create");
    chown(volume.at.join("closed/hidden"), Some(NOBODY), Some(NOBODY)).expect("chown");
    fs::set_permissions(volume.at.join("closed"), fs::Permissions::from_mode(0o700)).expect("chmod");

    let all = look(&volume);
    let (user, root) = (of_user(&all, NOBODY), of_user(&all, 0));
    assert_eq!(before, Value::Null, "not seen yet");
    assert_eq!(user["written_bytes"], 3_000_000 + "there\n".len(), "{user}");
    assert_eq!((&user["user"], &root["written_bytes"]), (&"nobody".into(), &300_000.into()), "{all}");
    for path in ["roots", "theirs/result", "closed/hidden"] {
        assert!(paths(&all).contains(&path), "{path} in {all}");
    }
    let file = all["files"].as_array().and_then(|files| files.iter().find(|file| file["path"] == "theirs/result"));
    let file = file.expect("the file");
    assert_eq!(
        (&file["written_bytes"], &file["size"], &file["uid"]),
        (&3_000_000.into(), &3_000_000.into(), &NOBODY.into())
    );
    let written: u64 =
        all["targets"].as_array().expect("targets").iter().filter_map(|t| t["written_bytes"].as_u64()).sum();
    assert!(written >= 3_000_000, "{all}");

    let told = volume.run_as_nobody(&["top", "--once", "--output", "json"]);
    assert_eq!(code(&told), 0, "{}", err(&told));
    let seen: Value = serde_json::from_slice(&told.stdout).expect("one object");
    assert_eq!(paths(&seen), ["theirs/result"]);
    let users: Vec<_> = seen["users"].as_array().expect("users").iter().map(|user| user["uid"].as_u64()).collect();
    assert_eq!(users, [Some(u64::from(NOBODY))], "{seen}");
    let table = out(&volume.run_as_nobody(&["top", "--once", "--by", "files"]));
    assert!(
        table.contains("files (yours only) since") && table.contains("theirs/result") && !table.contains("hidden"),
        "{table}"
    );
    drop((roots, hidden, child.stdin.take()));
    child.wait().expect("it ends");
    until("no file is open", || paths(&look(&volume)).is_empty());
    assert_eq!(of_user(&look(&volume), NOBODY)["written_bytes"], user["written_bytes"]);
}

/// A terminal where `entrepot top` runs.
struct Terminal {
    people: File,
    programs: OwnedFd,
    shown: Arc<Mutex<String>>,
    child: Child,
}

impl Terminal {
    fn open(volume: &Volume, words: &[&str]) -> Terminal {
        let people = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&people).and_then(|()| unlockpt(&people)).expect("unlocked");
        let name = ptsname(&people, Vec::new()).expect("its name");
        let programs = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("its other end");
        let end = || programs.try_clone().expect("a descriptor");
        // So that what is typed reaches it as it does from a shell.
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait"]).arg(&volume.binary).arg("top").args(words);
        command.env("ENTREPOT_VOLUME", &volume.toml).env("TERM", "xterm").current_dir("/");
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("it runs");
        let people = File::from(people);
        let (shown, mut reader) = (Arc::new(Mutex::new(String::new())), people.try_clone().expect("a descriptor"));
        let text = shown.clone();
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(n @ 1..) = reader.read(&mut chunk) {
                text.lock().expect("whole").push_str(&String::from_utf8_lossy(&chunk[..n]));
            }
        });
        let terminal = Terminal { people, programs, shown, child };
        terminal.shows("1 users  2 jobs");
        terminal
    }

    fn modes(&self) -> (LocalModes, OutputModes) {
        let told = tcgetattr(&self.programs).expect("modes");
        (told.local_modes, told.output_modes)
    }

    /// Waits until the screen shows that, after what was typed last.
    fn shows(&self, text: &str) {
        until(text, || self.shown.lock().expect("whole").contains(text));
    }

    fn types(&mut self, keys: &str) {
        self.shown.lock().expect("whole").clear();
        self.people.write_all(keys.as_bytes()).expect("typed");
    }

    fn ends_as_it_was(mut self, before: (LocalModes, OutputModes), how: &str) {
        assert_eq!(self.child.wait().expect("it ends").code(), Some(0), "{how}");
        assert_eq!(self.modes(), before, "{how}");
        // The cursor is shown again, and the screen that was there before.
        self.shows("\x1b[?25h\x1b[?1049l");
    }
}

/// [S-284]
#[test]
fn a_terminal_is_as_it_was_however_it_ends() {
    let Some(volume) = Volume::up() else { return };
    let as_it_was = {
        let people = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        let told = tcgetattr(&people).expect("modes");
        (told.local_modes, told.output_modes)
    };
    let _held = File::create(volume.at.join("held")).expect("create");
    let mut terminal = Terminal::open(&volume, &["--every", "200ms"]);
    assert_ne!(terminal.modes(), as_it_was);
    terminal.shows("users in the last 0.");
    terminal.types("3");
    terminal.shows("held");
    terminal.types("4");
    terminal.shows("capacity0");
    terminal.types("s");
    terminal.shows(", by operations");
    terminal.types("2r");
    terminal.shows("by bytes, reversed");
    terminal.types("q");
    terminal.ends_as_it_was(as_it_was, "q");

    let mut terminal = Terminal::open(&volume, &["--every", "1h"]);
    terminal.types("\x03");
    terminal.ends_as_it_was(as_it_was, "Ctrl-C");

    let terminal = Terminal::open(&volume, &["--by", "targets"]);
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", terminal.child.id())).expect("children");
    let own = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
    let pid = Pid::from_raw(own.unwrap_or(terminal.child.id() as i32)).expect("a pid");
    kill_process(pid, Signal::TERM).expect("told");
    terminal.ends_as_it_was(as_it_was, "SIGTERM");

    let mut terminal = Terminal::open(&volume, &["--every", "200ms"]);
    volume.kill();
    terminal.shows("no daemon answers");
    volume.up_again();
    terminal.types("1");
    terminal.shows("users in the last 0.");
    terminal.types("q");
    terminal.ends_as_it_was(as_it_was, "q, after the daemon was gone");
}
