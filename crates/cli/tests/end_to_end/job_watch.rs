//! A job watched from its first byte to its end, by people's eyes and by programs.

use crate::real::{Volume, code, err, out, until};
use crate::server::{self, Nginx};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// A user's directory with a script and a pipe for which scripts wait.
struct User<'a> {
    volume: &'a Volume,
    home: PathBuf,
    go: PathBuf,
}

impl User<'_> {
    fn new(volume: &Volume) -> User<'_> {
        let home = volume.dir.path().join("home");
        fs::create_dir(&home).expect("directory");
        let go = home.join("go");
        assert!(Command::new("mkfifo").arg(&go).status().expect("mkfifo").success());
        User { volume, home, go }
    }

    fn submit(&self, text: &str) {
        let script = self.home.join("job.sh");
        fs::write(&script, format!("#!/bin/sh\n{text}")).expect("write");
        let done = self.volume.run_in(&self.home, &["job", "submit", script.to_str().expect("UTF-8")]);
        assert_eq!(code(&done), 0, "{}", err(&done));
    }

    fn watch(&self, words: &[&str]) -> Child {
        let mut command = Command::new(&self.volume.binary);
        command.env("ENTREPOT_VOLUME", &self.volume.toml).args(["job", "watch"]).args(words).current_dir(&self.home);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs")
    }

    fn watched(&self, words: &[&str]) -> Output {
        self.watch(words).wait_with_output().expect("watch")
    }

    /// Exit status of a command, and its answer as an object.
    fn answered(&self, words: &[&str]) -> (i32, Value) {
        let done = self.volume.run_in(&self.home, words);
        (code(&done), serde_json::from_str(&out(&done)).expect("one answer"))
    }
}

/// [S-237]
/// [S-321]
#[test]
fn job_watch_prints_each_change() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(volume) = Volume::up_with(|toml| toml.replace("# cores = 8", "cores = 1")) else { return };
    let user = User::new(&volume);
    fs::write(nginx.root().join("input"), server::data(2_000_000, 1)).expect("write");
    user.submit(&format!("#ENTREPOT -t 1h\nread x <{}\n", user.go.display()));
    until("it has the core", || volume.json(&["job", "show", "1"])["summary"]["state"] == "running");
    user.submit(&format!(
        "#STAGEIN entrepot stage in {} {}/input\ntest -s {1}/input\n",
        nginx.uri("trickle/input"),
        volume.at.display()
    ));
    let (people, program) = (user.watch(&[]), user.watch(&["2", "--output", "json"]));
    until("its data are there", || {
        let job = volume.json(&["job", "show", "2"]);
        job["summary"]["state"] == "queued" && job["parts"][0]["kind"] == "stage-in"
    });
    // Both watchers have printed this, as they print later events after it.
    fs::write(&user.go, "go\n").expect("the first ends");
    let (people, program) = (people.wait_with_output().expect("watch"), program.wait_with_output().expect("watch"));
    let said = out(&people);
    assert_eq!((code(&people), code(&program)), (0, 0), "{said}{}", err(&people));
    assert!(said.contains("job 2 (job.sh) staging-in: its data are being brought"), "{said}");
    assert!(said.contains("/input: ") && said.contains("% of 1.9 MiB"), "{said}");
    assert!(said.ends_with("job 2 (job.sh) completed\n"), "{said}");
    let lines: Vec<Value> =
        out(&program).lines().map(|line| serde_json::from_str(line).expect("an object on a line")).collect();
    let some = |so: &dyn Fn(&Value) -> bool| lines.iter().any(so);
    assert!(some(&|line| line["transfers"][0]["total_bytes"] == 2_000_000), "{lines:?}");
    let now_ms =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_millis() as u64;
    assert!(
        some(&|line| line["start_ms"].as_u64().is_some_and(|at| at > now_ms)),
        "not before the hour ends: {lines:?}"
    );
    assert!(lines.windows(2).all(|pair| pair[0] != pair[1]), "each is news");
    assert_eq!(lines.last().expect("a line")["summary"]["state"], "completed");

    user.submit("[ \"$NOW\" = yes ] || exit 3\n");
    let failed = user.watched(&["3"]);
    assert!(code(&failed) == 1 && out(&failed).contains("the script exited with status 3"), "{}", out(&failed));
    let mut again = Command::new(&volume.binary);
    again.env("ENTREPOT_VOLUME", &volume.toml).env("NOW", "yes").args(["job", "retry", "3"]).current_dir(&user.home);
    let again = again.output().expect("the binary runs");
    assert_eq!(code(&again), 0, "{}", err(&again));
    assert_eq!(code(&user.watched(&["3"])), 0, "in the environment of who asked for it");
    let none = user.watched(&[]);
    assert!(code(&none) == 5 && err(&none).contains("no job that is not over"), "{}", err(&none));

    programs(&user);
    let theirs = volume.run_as_nobody(&["job", "watch", "3"]);
    assert!(code(&theirs) == 5 && err(&theirs).contains("no job 3 of yours"), "{}{}", out(&theirs), err(&theirs));
}

/// Programs are answered in their own words, and with one answer.
fn programs(user: &User<'_>) {
    let (volume, script) = (user.volume, user.home.join("job.sh"));
    let script = script.to_str().expect("UTF-8");
    let (status, job) = user.answered(&["job", "submit", script, "--wait", "--output", "json"]);
    assert!(status == 1 && job["id"] == 4 && job["state"] == "failed", "{job}");
    user.submit(&format!("read x <{}\n", user.go.display()));
    let (status, job) = user.answered(&["job", "submit", script, "--output", "json"]);
    assert!(status == 0 && job["id"] == 6, "{job}");
    assert_eq!(user.answered(&["job", "cancel", "6", "--output", "json"]).1["state"], "cancelled");
    until("it has the core", || volume.json(&["job", "show", "5"])["summary"]["state"] == "running");
    interrupted(volume);
    volume.ok(&["job", "cancel", "5"]);
    let (status, job) = user.answered(&["job", "wait", "5", "--output", "json"]);
    assert!(status == 1 && job["state"] == "cancelled", "{job}");
}

/// Ctrl-C ends the wait for job 5, whose start is printed once, and not the job.
fn interrupted(volume: &Volume) {
    let mut wait = Command::new(&volume.binary);
    wait.env("ENTREPOT_VOLUME", &volume.toml).args(["job", "wait", "5"]).stderr(Stdio::piped());
    let mut wait = wait.spawn().expect("the binary runs");
    let mut told = BufReader::new(wait.stderr.take().expect("a pipe")).lines().map(|line| line.expect("UTF-8"));
    assert_eq!(told.next().as_deref(), Some("job 5 (job.sh) running: its script runs"));
    let pid = rustix::process::Pid::from_child(&wait);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("interrupted");
    let rest: Vec<_> = told.collect();
    assert!(
        matches!(&rest[..], [goes_on, next] if goes_on == "interrupted: job 5 goes on" && next.contains("job cancel 5")),
        "{rest:?}"
    );
    assert_eq!(wait.wait().expect("wait").code(), Some(130));
    assert_eq!(volume.json(&["job", "show", "5"])["summary"]["state"], "running");
}
