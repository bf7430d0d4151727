//! TAB in a real bash on a real terminal: values are there, and what other people named them is never carried out.

use crate::real::{Volume, out, until};
use rustix::process::{Signal, kill_process};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// Names that a hostile user gives to a mount point and a job.
const NAME: &str = "evil $(touch pwned)`touch pwned`;touch pwned";
const PROMPT: &str = "READY>";

/// An interactive bash.
struct Bash {
    child: Child,
    to: ChildStdin,
    from: Receiver<String>,
}

impl Bash {
    /// In the directory of the volume, which the search path has too; with the completions.
    fn start(volume: &Volume) -> Bash {
        let dir = volume.dir.path();
        let script = volume.run_in(Path::new("/"), &["completions", "bash"]);
        std::fs::write(dir.join("tab.bash"), &script.stdout).expect("a file");
        let path = format!("{}:{}", dir.display(), std::env::var("PATH").expect("PATH"));
        let mut child = Command::new("script")
            .args(["-qfec", "exec bash --noprofile --norc -i", "/dev/null"])
            .env("PATH", path)
            .env("ENTREPOT_VOLUME", &volume.toml)
            .env("INPUTRC", "/dev/null")
            .env("TERM", "dumb")
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script of util-linux");
        let (to, mut out) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        let (tell, from) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = out.read(&mut bytes) {
                let _ = tell.send(String::from_utf8_lossy(&bytes[..n]).into_owned());
            }
        });
        let mut bash = Bash { child, to, from };
        // As two words, so that the echo of the line is no prompt.
        bash.type_in(&format!("PS1='{}''{}'; bind 'set bell-style none'; . ./tab.bash\n", &PROMPT[..3], &PROMPT[3..]));
        bash.until_said(PROMPT);
        bash
    }

    fn type_in(&mut self, text: &str) {
        self.to.write_all(text.as_bytes()).and_then(|()| self.to.flush()).expect("it reads");
    }

    /// Output up to `end`.
    fn until_said(&mut self, end: &str) -> String {
        let mut said = String::new();
        while !said.contains(end) {
            let more = self.from.recv_timeout(std::time::Duration::from_secs(60));
            said += &more.unwrap_or_else(|_| panic!("no {end:?} in {said:?}"));
        }
        said
    }

    /// A line with TABs in it, and what came of it.
    fn line(&mut self, text: &str) -> String {
        self.type_in(&format!("{text}\n"));
        self.until_said(PROMPT)
    }
}

impl Drop for Bash {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// [S-297]
#[test]
fn a_target_is_completed_by_its_first_letters_and_all_are_listed() {
    let named = |toml: String| toml.replacen("name = \"capacity0\"", "name = \"bulk0\"", 1);
    let Some(volume) = Volume::up_with(named) else { return };
    let mut bash = Bash::start(&volume);
    let mut listed = String::new();
    until("all are listed", || {
        bash.type_in("entrepot target drain \t\t");
        // Gives the line up again.
        listed += &bash.line("\u{15}");
        listed.contains("bulk0") && listed.contains("fast0")
    });
    // On a busy machine the daemon may be too late for a TAB: then it is pressed again.
    until("the target drains", || {
        bash.line("entrepot target drain bu\t --no-wait");
        volume.state_of("bulk0") == "draining"
    });
}

/// [S-297]
#[test]
fn a_mount_point_and_a_job_are_completed() {
    let Some(mut volume) = Volume::up() else { return };
    volume.ok(&["down"]);
    volume.at = volume.at.with_file_name(NAME);
    std::fs::create_dir(&volume.at).expect("a directory");
    volume.up_again();
    std::fs::write(volume.dir.path().join("job.sh"), "#!/bin/sh\nexec sleep 600\n").expect("a file");
    let script = volume.dir.path().join("job.sh");
    volume.ok(&["job", "submit", script.to_str().expect("UTF-8"), "--name", NAME]);
    let mut bash = Bash::start(&volume);
    // Only the mount point identifies the volume.
    bash.line("unset ENTREPOT_VOLUME");
    let typed = volume.dir.path().canonicalize().expect("real").join("ev");
    let mut said = String::new();
    until("the job is cancelled", || {
        said += &bash.line(&format!("entrepot job cancel --volume={}\t\t", typed.display()));
        out(&volume.run(&["job", "list", "--all"])).contains("cancelled")
    });
    assert!(!volume.dir.path().join("pwned").exists(), "a name was carried out: {said}");
}

/// [S-298]
#[test]
fn completion_without_an_answer_ends_soon_and_offers_nothing() {
    let Some(volume) = Volume::up() else { return };
    let ask = |volume: &Volume| -> String {
        let done = volume.run_in(Path::new("/"), &["complete-values", "bash", "entrepot target drain "]);
        assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
        out(&done)
    };
    until("there are targets", || ask(&volume).lines().any(|line| line == "fast0"));
    let daemon = volume.pid().expect("a daemon");
    kill_process(daemon, Signal::STOP).expect("stop");
    let asked = ask(&volume);
    kill_process(daemon, Signal::CONT).expect("go on");
    assert_eq!(asked, "", "one that stands still is not waited for");
    volume.ok(&["down"]);
    assert_eq!(ask(&volume), "", "there is no daemon");
}
