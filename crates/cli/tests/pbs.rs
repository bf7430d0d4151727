//! Three dependent jobs through PBS: the real binary against a strict stand-in for `qsub`, `qstat` and `qdel` on PATH,
//! which refuses what PBS refuses. PBS itself is in no Debian: where a server answers `qstat -B`, the same runs on it.

#[allow(dead_code, reason = "some of it is for other tests")]
#[path = "end_to_end/real.rs"]
mod real;

use real::{Volume, code, err, out, until};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

struct World {
    volume: Volume,
    home: PathBuf,
    /// Directory where the stand-in keeps its jobs.
    jobs: Option<tempfile::TempDir>,
}

/// A volume whose daemon and commands find the stand-in first on PATH.
fn stand_in() -> Option<World> {
    stand_in_with("stage_in = \"just-in-time\"")
}

/// `stand_in` with other words on top of `[jobs]` in `volume.toml`.
fn stand_in_with(words: &str) -> Option<World> {
    let dir = tempfile::Builder::new().prefix("entrepot-pbs").tempdir().expect("temp dir");
    let script = include_str!("pbs/stand_in.sh");
    let (bin, jobs) = (dir.path().join("bin"), dir.path().join("jobs"));
    for made in [&bin, &jobs] {
        std::fs::create_dir(made).expect("directory");
    }
    for name in ["qsub", "qstat", "qdel", "pbsnodes"] {
        let path = bin.join(name);
        std::fs::write(&path, script).expect("write");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("chmod");
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("PATH"));
    let environment = vec![("PATH".into(), path), ("PBS_STAND_IN".into(), jobs.display().to_string())];
    let edit = |toml: String| {
        with_buffer(toml).replace(
            "[jobs]",
            &format!(
                "[jobs]
{words}"
            ),
        )
    };
    let volume = Volume::up_in(environment, edit)?;
    Some(World::new(volume, Some(dir)))
}

/// With a burst buffer that knows no paths: only jobs say what checkpoints are.
fn with_buffer(toml: String) -> String {
    toml.replace("\n[burst]\n", "\n[burst]\nfast = \"fast\"\ncapacity = \"capacity\"\nsize = \"20MB\"\n")
}

/// The world with the PBS of this machine, if there is one.
fn real_pbs() -> Option<World> {
    if !Command::new("qstat").arg("-B").output().is_ok_and(|done| done.status.success()) {
        eprintln!("skipped: no PBS server answers `qstat -B` here; the stand-in is tested");
        return None;
    }
    Some(World::new(Volume::up_with(with_buffer)?, None))
}

impl World {
    fn new(volume: Volume, jobs: Option<tempfile::TempDir>) -> World {
        let home = volume.dir.path().join("home");
        std::fs::create_dir(&home).expect("directory");
        World { volume, home, jobs }
    }

    fn submit(&self, name: &str, script: &str) -> std::process::Output {
        let path = self.home.join(name);
        std::fs::write(&path, script).expect("script");
        self.volume.run_in(&self.home, &["job", "submit", "--scheduler", "pbs", path.to_str().expect("UTF-8")])
    }

    fn submitted(&self, name: &str, script: &str) -> String {
        let done = self.submit(name, script);
        assert_eq!(code(&done), 0, "{}", err(&done));
        out(&done).split_whitespace().nth(1).expect("a number").to_string()
    }

    fn cases(&self) {
        let (home, at) = (self.home.display(), self.volume.at.display());
        let script = |name: &str, from: &str, body: &str| {
            format!(
                "#!/bin/sh\n#PBS -l walltime=00:05:00\n#STAGEIN -retry 1\n#STAGEIN entrepot stage in {from} {at}/{name}\n\
                 #STAGEOUT entrepot stage out {at}/{name}.out file://{home}/{name}.out\n{body}\n"
            )
        };
        let data = real::noise(3 << 20);
        std::fs::write(self.home.join("input"), &data).expect("write");
        let input = format!("file://{home}/input");
        let good = self
            .submitted("a good job.sh", &script("good", &input, &format!("echo hello; cat {at}/good > {at}/good.out")));
        let bad =
            self.submitted("bad.sh", &script("bad", &format!("file://{home}/none"), &format!("touch {home}/ran")));
        let long = self.submitted("long.sh", &script("long", &input, &format!("touch {home}/started; sleep 300")));
        let waited = self.volume.run(&["job", "wait", &good]);
        assert_eq!(code(&waited), 0, "{}{}", out(&waited), err(&waited));
        assert!(std::fs::read(self.home.join("good.out")).expect("the result is home") == data);
        assert_eq!(out(&self.volume.run(&["job", "log", &good])), "hello\n");
        let check = &self.volume.json(&["job", "show", &good])["check"];
        assert_eq!(check["n_files"], 1, "its data were looked at before it ran: {check}");

        let waited = self.volume.run(&["job", "wait", &bad]);
        assert!(code(&waited) == 1 && out(&waited).contains("stage-in exited with status"), "{}", out(&waited));
        assert!(!self.home.join("ran").exists(), "without its data it does not run");
        let log = out(&self.volume.run(&["job", "log", &bad, "--part", "stage-in"]));
        assert!(log.contains("error:") && !log.contains("again in"), "what is not there is not tried again: {log}");

        until("the third runs", || self.home.join("started").exists());
        self.volume.ok(&["job", "cancel", &long]);
        let waited = self.volume.run(&["job", "wait", &long]);
        assert!(out(&waited).contains("cancelled"), "{}", out(&waited));
        assert!(!self.home.join("long.out").exists(), "no results of a cancelled job");

        let text = format!(
            "#!/bin/sh\n#DW jobdw type=scratch capacity=1MiB\n\
             #DW stage_in type=file source={home}/input destination=$DW_JOB_STRIPED/in\n\
             #DW stage_out type=file source=$DW_JOB_STRIPED/out destination={home}/dw.out\n\
             cp $DW_JOB_STRIPED/in $DW_JOB_STRIPED/out\n"
        );
        let job = self.submitted("dw.sh", &text);
        let watched = self.volume.run(&["job", "watch", &job]);
        assert_eq!(code(&watched), 0, "{}{}", out(&watched), err(&watched));
        assert!(out(&watched).contains("queued: ") && out(&watched).ends_with("completed\n"), "{}", out(&watched));
        assert!(std::fs::read(self.home.join("dw.out")).expect("the result is home") == data);
        until("its directory is gone", || !self.volume.at.join(format!(".datawarp/job-{job}")).exists());

        let refused = self.volume.run_in(
            &self.home,
            &[
                "job",
                "submit",
                "--scheduler",
                "pbs",
                "--data-queue",
                "nowhere",
                self.home.join("bad.sh").to_str().expect("UTF-8"),
            ],
        );
        assert_eq!(code(&refused), 1, "{}", out(&refused));
        assert!(
            err(&refused).contains("nowhere") && err(&refused).contains("nothing was submitted"),
            "{}",
            err(&refused)
        );
        assert_eq!(self.volume.json(&["job", "list"]).as_array().map(Vec::len), Some(0), "and nothing is left of it");
    }
}

impl World {
    /// Files that a job marks in its script are checkpoints while the job exists, whichever part writes them.
    fn marks(&self) {
        let (home, at) = (self.home.display(), self.volume.at.display());
        std::fs::write(self.home.join("state"), real::noise(200_000)).expect("write");
        let script = format!(
            "#!/bin/sh\n#PBS -l walltime=00:05:00\n#STAGEIN entrepot stage in file://{home}/state {at}/first\n\
             #CHECKPOINT path={at}/run/step-{{version}}/** app=wave nodes=512\n\
             #BB_LUA entrepot checkpoint path={at}/run/last app=tail interval=1h\n\
             for n in 1 2; do mkdir -p {at}/run/step-$n; cp {at}/first {at}/run/step-$n/rank-0; done\n\
             cp {at}/first {at}/run/last; cp {at}/first {at}/run/log\n"
        );
        let job = self.submitted("marks.sh", &script);
        let waited = self.volume.run(&["job", "wait", &job]);
        assert_eq!(code(&waited), 0, "{}{}", out(&waited), err(&waited));
        let versions = |app: &str| self.volume.json(&["checkpoint", "list", app])["versions"].clone();
        until("both versions are complete", || {
            let all = versions("wave").as_array().cloned().unwrap_or_default();
            all.len() == 2 && all.iter().all(|version| version["state"] == "complete")
        });
        until("what has no versions is one", || versions("tail")[0]["state"] == "complete");
        let known = self.volume.json(&["checkpoint", "status"])["applications"].clone();
        let of = |app: &str| known.as_array().into_iter().flatten().find(|of| of["name"] == app).cloned().expect(app);
        assert_eq!(of("wave")["mtbf_from"], "nodes", "{known}");
        assert_eq!(of("tail")["interval_s"], 3600, "{known}");
        // A version that is only being written is in the list too: so the last one is none.
        let late = self.volume.at.join("run/step-3");
        until("after the job its patterns mean nothing", || {
            std::fs::create_dir(&late).expect("directory");
            std::fs::write(late.join("rank-0"), real::noise(200_000)).expect("write");
            let all = versions("wave").as_array().map(Vec::len);
            std::fs::remove_dir_all(&late).expect("remove");
            all == Some(2)
        });
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Whatever a failed test left running.
        let Some(dir) = &self.jobs else { return };
        for job in std::fs::read_dir(dir.path().join("jobs")).into_iter().flatten().flatten() {
            let state = std::fs::read_to_string(job.path().join("job_state")).unwrap_or_default();
            let pid = std::fs::read_to_string(job.path().join("pid")).ok().and_then(|p| p.trim().parse().ok());
            if let (true, Some(pid)) =
                (state != "F" && Path::new("/proc").exists(), pid.and_then(rustix::process::Pid::from_raw))
            {
                let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

/// [S-087] [S-237]
#[test]
fn three_jobs_through_the_stand_in() {
    let Some(world) = stand_in() else { return };
    world.cases();
    world.marks();
}

#[test]
fn three_jobs_through_pbs_itself() {
    let Some(world) = real_pbs() else { return };
    world.cases();
    world.marks();
}

/// PBS has planned all its cores for the next hour: the data of a job that cannot start before begin to come later.
#[test]
fn a_stage_in_that_is_not_due_waits_in_pbs() {
    let Some(world) = stand_in() else { return };
    let jobs = world.jobs.as_ref().expect("the stand-in").path().join("jobs");
    let busy = jobs.join("900.stand-in");
    std::fs::create_dir(&busy).expect("directory");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    for (name, text) in [
        ("job_state", "Q".to_string()),
        ("name", "busy".into()),
        ("start", (now + 60).to_string()),
        ("ncpus", "64".into()),
    ] {
        std::fs::write(busy.join(name), text).expect("write");
    }
    std::fs::write(world.home.join("input"), real::noise(100_000)).expect("write");
    let script = format!(
        "#!/bin/sh\n#PBS -l walltime=00:05:00\n#STAGEIN entrepot stage in file://{}/input {}/late\ntrue\n",
        world.home.display(),
        world.volume.at.display()
    );
    let job = world.submitted("late.sh", &script);
    let shown = world.volume.json(&["job", "show", &job]);
    let part = shown["external"]["parts"]["stage-in"]["id"].as_str().expect("a number").to_string();
    assert_eq!(std::fs::read_to_string(jobs.join(&part).join("job_state")).expect("state"), "W", "{shown}");
    let begin = std::fs::read_to_string(jobs.join(&part).join("begin")).expect("it was submitted with -a");
    let spelt = format!("{} {}:{}:{}", &begin[..8], &begin[8..10], &begin[10..12], &begin[13..]);
    let said = Command::new("date").args(["-u", "-d", &spelt, "+%s"]).output().expect("date");
    let at: u64 = out(&said).trim().parse().expect("seconds");
    // An hour from its start in a minute, less the margin of five minutes and a transfer of nothing.
    assert!((now + 3200..now + 3420).contains(&at), "{} s from now", at - now);
    assert_eq!(code(&world.volume.run(&["job", "cancel", &job])), 0);
    let waited = world.volume.run(&["job", "wait", &job]);
    assert!(out(&waited).contains("cancelled"), "{}", out(&waited));
}

/// [S-089] The scheduler starts the stage-in part, and the part asks for its space before it brings anything.
#[test]
fn a_stage_in_that_pbs_has_started_waits_for_space_or_fails_as_configured() {
    for when_full in ["wait", "fail"] {
        let words = format!("when_full = \"{when_full}\"\nkeep_free = \"100000TB\"");
        let Some(world) = stand_in_with(&words) else { return };
        let input = world.home.join("input");
        std::fs::write(&input, real::noise(2_000_000)).expect("write");
        let (uri, at) = (format!("file://{}", input.display()), world.volume.at.join("large"));
        let ran = world.home.join("ran");
        let script = format!("#!/bin/sh\n#STAGEIN entrepot stage in {uri} {}\ntouch {}\n", at.display(), ran.display());
        let job = world.submitted("large.sh", &script);
        if when_full == "wait" {
            let shown = || out(&world.volume.run(&["job", "show", &job]));
            until("it waits for space", || shown().contains("no space for its data: 1.9 MiB needed"));
            assert_eq!(code(&world.volume.run(&["job", "cancel", &job])), 0);
            let waited = world.volume.run(&["job", "wait", &job]);
            assert!(out(&waited).contains("cancelled"), "{}", out(&waited));
        } else {
            let waited = world.volume.run(&["job", "wait", &job]);
            assert!(code(&waited) == 1 && out(&waited).contains("stage-in exited with status"), "{}", out(&waited));
            let log = out(&world.volume.run(&["job", "log", &job, "--part", "stage-in"]));
            assert!(log.contains("its data are not brought: no space"), "{log}");
        }
        assert!(!at.exists() && !ran.exists(), "nothing was begun ({when_full})");
    }
}

/// [S-049] Ctrl-C between two parts: what was submitted is taken back.
#[test]
fn an_interrupted_submission_leaves_nothing() {
    let Some(world) = stand_in() else { return };
    let jobs = world.jobs.as_ref().expect("the stand-in").path().join("jobs");
    std::fs::write(jobs.join(".slow"), "").expect("write");
    let script = world.home.join("job.sh");
    std::fs::write(
        &script,
        format!("#!/bin/sh\n#STAGEIN entrepot stage in file:///etc/hostname {}/h\ntrue\n", world.volume.at.display()),
    )
    .expect("write");
    let mut submit = Command::new(&world.volume.binary);
    submit.env("ENTREPOT_VOLUME", &world.volume.toml).envs(world.volume.environment.clone());
    submit.args(["job", "submit", "--scheduler", "pbs"]).arg(&script).current_dir(&world.home);
    let submit =
        submit.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().expect("runs");
    let there =
        || std::fs::read_dir(&jobs).expect("jobs").flatten().filter(|e| e.path().join("job_state").exists()).count();
    until("the first part is there", || there() == 1);
    let pid = rustix::process::Pid::from_child(&submit);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("signal");
    let ended = submit.wait_with_output().expect("it ends");
    assert_eq!(code(&ended), 130, "{}", err(&ended));
    assert!(err(&ended).contains("interrupted") && err(&ended).contains("nothing was submitted"), "{}", err(&ended));
    assert_eq!(world.volume.json(&["job", "list"]).as_array().map(Vec::len), Some(0), "nothing is left of it");
    let deleted = |e: std::fs::DirEntry| e.path().join("deleted").exists();
    assert!(std::fs::read_dir(&jobs).expect("jobs").flatten().filter(|e| e.path().is_dir()).all(deleted));
}

/// [S-066]
#[test]
fn a_result_leaves_while_the_script_runs_in_pbs() {
    let Some(world) = stand_in_with("offload = \"on-close\"") else { return };
    let (home, at) = (world.home.display(), world.volume.at.display());
    let script = format!(
        "#!/bin/sh\n#PBS -l walltime=00:05:00\n#STAGEOUT entrepot stage out {at}/r file://{home}/r\n\
         echo result > {at}/r\nwhile [ ! -e {home}/go ]; do sleep 0.1; done\n"
    );
    let job = world.submitted("early.sh", &script);
    let show = || world.volume.json(&["job", "show", &job]);
    until("it is at home, and the daemon knows", || show()["early"][0]["lasted_ms"].is_u64());
    assert_eq!(std::fs::read_to_string(world.home.join("r")).expect("at home"), "result\n");
    assert_eq!(show()["summary"]["state"], "running");
    assert!(show()["early"][0]["failed"].is_null(), "{}", show());
    std::fs::write(world.home.join("go"), "").expect("write");
    let waited = world.volume.run(&["job", "wait", &job]);
    assert_eq!(code(&waited), 0, "{}{}", out(&waited), err(&waited));
}

/// [S-189]
#[test]
fn a_scheduler_that_cannot_be_asked_takes_no_job_and_is_named() {
    let Some(world) = stand_in() else { return };
    let go = world.home.join("go");
    let job = world.submitted("long.sh", &format!("#!/bin/sh\nwhile [ ! -e {} ]; do sleep 0.1; done\n", go.display()));
    let detail = || world.volume.json(&["job", "show", &job])["summary"]["detail"].as_str().expect("text").to_string();
    let qstat = world.jobs.as_ref().expect("the stand-in").path().join("bin/qstat");
    let good = std::fs::read(&qstat).expect("the stand-in");
    std::fs::write(&qstat, "#!/bin/sh\necho no route >&2\nexit 1\n").expect("write");
    until("it is said", || detail().starts_with("pbs has not answered since ") && detail().contains("no route"));
    let refused = world.submit("other.sh", "#!/bin/sh\ntrue\n");
    assert_ne!(code(&refused), 0, "{}", out(&refused));
    assert!(
        err(&refused).contains("the daemon cannot query pbs") && err(&refused).contains("no route"),
        "{}",
        err(&refused)
    );
    assert_eq!(world.volume.json(&["job", "list"]).as_array().map(Vec::len), Some(1), "nothing is left of the other");
    let warned = world.volume.log().lines().filter(|line| line.contains("WARN") && line.contains("no route")).count();
    assert_eq!(warned, 1, "{}", world.volume.log());
    std::fs::write(&qstat, good).expect("write");
    until("it answers again", || !detail().contains("has not answered"));
    std::fs::write(&go, "").expect("write");
    assert_eq!(code(&world.volume.run(&["job", "wait", &job])), 0);
}
