//! A real Slurm with a user who is not root: good jobs, and everything that goes wrong with data. Skipped with the
//! reason where Slurm is not installed or the tests are not run by root.

mod arrays;
mod checkpoints;
#[allow(dead_code, reason = "some of it is for other tests")]
mod cluster;
mod data_queue;
mod datawarp;
mod dependent;
mod endings;
mod input;
mod ports;
#[allow(dead_code, reason = "some of it is for other tests")]
#[path = "../end_to_end/real.rs"]
mod real;
#[allow(dead_code, reason = "some of it is for the tests of sources alone")]
#[path = "../../../source/tests/server/mod.rs"]
mod server;

use cluster::{Cluster, USER};
use real::{Volume, code, err, out, until, until_within};
use serde_json::Value;
use server::Nginx;
use std::path::Path;
use std::process::{Command, Output};

/// A volume, a source and a cluster. One for all cases: starting them is what takes time.
struct World {
    cluster: Cluster,
    nginx: Nginx,
    volume: Volume,
    /// Directory in the volume where the user may write.
    dir: std::path::PathBuf,
}

impl World {
    fn start() -> Option<World> {
        let nginx = Nginx::start()?;
        let place = Cluster::place()?;
        let conf = place.path().join("slurm.conf").display().to_string();
        let volume = Volume::up_in(vec![("SLURM_CONF".into(), conf)], |toml| {
            let more = "dataxfer_concurrent = 4\nstage_in = \"just-in-time\"\nqueue_poll = \"1s\"";
            toml.replace("[jobs]", &format!("[jobs]\n{more}"))
                .replace("\n[burst]\n", "\n[burst]\nfast = \"fast\"\ncapacity = \"capacity\"\nsize = \"20MB\"\n")
                .replace("# stripe_count = 4", "stripe_count = 2")
                // Every removable file is old enough for a purge.
                .replace("# age = \"0s\"", "age = \"1ms\"")
        })?;
        let dir = volume.at.join("user");
        std::fs::create_dir(&dir).expect("directory");
        std::os::unix::fs::chown(&dir, Some(USER), Some(USER)).expect("chown");
        let cluster = Cluster::start(place, &volume);
        Some(World { cluster, nginx, volume, dir })
    }

    /// A script that brings `name` of the source and runs `body`.
    fn script(&self, uri: &str, name: &str, body: &str) -> String {
        let to = self.dir.join(name);
        format!(
            "#!/bin/bash\n#SBATCH -n 1 -t 5 -o {home}/%j.out\n#STAGEIN -retry 1\n\
             #STAGEIN entrepot stage in {uri} {to}\n{body}\n",
            home = self.cluster.home.display(),
            to = to.display(),
        )
    }

    fn put(&self, name: &str, len: usize, seed: u64) -> Vec<u8> {
        let data = server::data(len, seed);
        std::fs::write(self.nginx.root().join(name), &data).expect("write");
        data
    }

    /// The reason that Slurm shows for a waiting job.
    fn reason(&self, job: u64) -> String {
        self.cluster.queue(job, "%r")
    }

    fn until_held(&self, job: u64) -> String {
        until("the job is held with a reason", || self.reason(job).contains("entrepot slurm retry"));
        until("it is torn down, and held", || self.cluster.queue(job, "%Q") == "0");
        self.reason(job)
    }

    fn until_state(&self, job: u64, state: &str) {
        self.cluster.until_state(&self.volume, job, state);
    }

    /// A job as the daemon describes it.
    fn job(&self, job: u64) -> Value {
        self.cluster.ours(&self.volume, job)["job"].take()
    }

    /// Runs our command as the user.
    fn user(&self, words: &[&str]) -> Output {
        self.cluster.user(&self.volume, words)
    }

    /// Makes a file for which a script waits.
    fn signal(&self, name: &str) {
        std::fs::write(self.cluster.home.join(name), "").expect("write");
    }

    fn retry(&self, job: u64) {
        let retried = self.user(&["slurm", "retry", &job.to_string()]);
        assert_eq!(code(&retried), 0, "{}", err(&retried));
    }

    /// A hook that Slurm did not send is made up for by the second look at all jobs, after two minutes at most.
    fn until_phase(&self, job: u64, phase: &str) {
        until_within(150, phase, || self.job(job)["phase"] == phase);
    }

    /// Checks that no job left anything: no process, no half-staged file, no secret.
    fn nothing_is_left(&self) {
        let state = self.volume.toml.parent().expect("a directory").join("state");
        let staging = self.volume.toml.parent().expect("a directory").join("namespace/staging");
        let empty = |dir: &Path| std::fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none());
        until("no half-staged file", || empty(&staging));
        let of_jobs = |e: std::fs::DirEntry| e.file_name().to_string_lossy().starts_with("job-");
        until("no environment of a job", || {
            !std::fs::read_dir(state.join("jobs/slurm")).expect("spool").flatten().any(of_jobs)
        });
        let spool = state.join("jobs/slurm").display().to_string();
        until("no supervisor", || {
            let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
            !processes
                .filter_map(|p| std::fs::read(p.path().join("cmdline")).ok())
                .any(|line| String::from_utf8_lossy(&line).contains(&spool))
        });
    }
}

/// Runs a test once more among processes of its own: slurmstepd looks at every process that it sees, and one that hangs
/// elsewhere on this machine holds it up for ever. Whether that was done; where it cannot be, the test goes on as it
/// is.
fn done_among_processes_of_its_own(test: &str) -> bool {
    const MARK: &str = "ENTREPOT_TEST_AMONG_ITS_OWN";
    let own = ["--pid", "--fork", "--kill-child", "--mount-proc"];
    let can = || Command::new("unshare").args(own).arg("true").output().is_ok_and(|done| done.status.success());
    if std::env::var_os(MARK).is_some() || !can() {
        return false;
    }
    let binary = std::env::current_exe().expect("this test");
    // The shell takes leave of processes that lost their parents.
    let mut again = Command::new("unshare");
    again.args(own).args(["bash", "-c", "\"$@\"; exit $?", "-"]).arg(binary).args(["--exact", test, "--nocapture"]);
    assert!(again.env(MARK, "1").status().expect("unshare").success(), "see above");
    true
}

/// [S-065] [S-081] [S-082] [S-083] [S-084] [S-087] [S-235] [S-236] [S-317] [S-318] [S-360] [S-361] [S-362]
#[test]
fn every_case_ends_as_its_user_would_expect() {
    if done_among_processes_of_its_own("every_case_ends_as_its_user_would_expect") {
        return;
    }
    let Some(mut world) = World::start() else { return };
    if let Some(rounds) = endings::rounds() {
        (1..=rounds).for_each(|round| endings::only_whole_results_go_home(&world, round));
        return world.nothing_is_left();
    }
    bad_directives_are_refused_at_submission(&world);
    a_good_job(&world);
    two_jobs_share_one_transfer(&world);
    a_stage_in_that_cannot_succeed(&world);
    a_target_fails_before_dispatch_and_another_during_the_run(&world);
    a_cancelled_job_leaves_nothing(&world);
    input::comes_when_it_is_due(&world);
    staging_survives_a_restart_of_slurmctld(&world);
    staging_survives_a_restart_of_the_daemon(&world);
    results_that_cannot_go_home(&world);
    endings::only_whole_results_go_home(&world, 0);
    endings::a_job_that_cannot_go_on_is_forgotten(&world);
    dependent::a_job_is_three_jobs(&world);
    data_queue::takes_data_jobs_only(&world);
    checkpoints::last_while_their_job_is_there(&world);
    datawarp::scripts_run_as_they_are(&world);
    arrays::each_job_has_its_data(&world);
    arrays::a_job_waits_for_the_results_of_another(&world);
    the_source_is_dead(&mut world);
    input::of_jobs_is_not_purged(&world);
    input::of_waiting_jobs_is_there_twice(&world);
    world.nothing_is_left();
}

fn bad_directives_are_refused_at_submission(world: &World) {
    let refused = |script: &str, words: &[&str]| {
        let done = world.cluster.sbatch("bad.sh", script);
        assert_ne!(code(&done), 0, "{script}: {}", out(&done));
        for word in words {
            assert!(err(&done).contains(word), "{word:?} is not in {}", err(&done));
        }
    };
    refused("#!/bin/bash\n#STAGEIN entrepot stage in http://h/a\ntrue\n", &["line 2", "<PATH>"]);
    refused("#!/bin/bash\n#STAGEIN cp a b; rm c\ntrue\n", &["line 2", ";"]);
    // These directives come too late: Slurm itself would not read them.
    refused("#!/bin/bash\nset -e\n#STAGEIN cp a b\ntrue\n", &["line 3", "after the first command"]);
    // Almost right, and nothing else in the script that Slurm would know.
    refused("#!/bin/bash\n# STAGEIN cp a b\ntrue\n", &["line 2", "an ordinary comment"]);
    refused("#!/bin/bash\n#STAGEIM cp a b\ntrue\n", &["line 2", "looks like #STAGEIN"]);
    refused("#!/bin/bash\n#BB_LUA entrepot fetch a b\ntrue\n", &["line 2", "stage in"]);
    let plain = world.cluster.submit("plain.sh", "#!/bin/bash\n# STAGEINs are for others\ntrue\n");
    world.until_state(plain, "COMPLETED");
}

fn a_good_job(world: &World) {
    let data = world.put("good", 5_000_000, 1);
    let (home, dir) = (world.cluster.home.display(), world.dir.display());
    let script = format!(
        "#!/bin/bash\n#SBATCH -n 1 -t 5 -o {home}/%j.out\n#BB_LUA entrepot stage in {} {dir}/good\n\
         #STAGEOUT entrepot stage out {dir}/result file://{home}/result\n\
         id -u > {dir}/result; cat {dir}/good >> {dir}/result; sleep 1\n",
        world.nginx.uri("trickle/good")
    );
    let job = world.cluster.submit("good.sh", &script);
    until("squeue shows it", || world.reason(job) == "BurstBufferStageIn");
    until("scontrol shows it", || {
        let status = out(&world.cluster.run(Some(USER), &["scontrol", "show", "bbstat"]));
        status.contains(&format!("{job}")) && status.contains("staging-in")
    });
    world.until_state(job, "COMPLETED");
    let result = std::fs::read(world.cluster.home.join("result")).expect("the result is home");
    assert!(result == [format!("{USER}\n").into_bytes(), data].concat(), "as the user, with the data");
    let ours = world.cluster.ours(&world.volume, job);
    assert_eq!(ours["job"]["phase"], "completed");
    assert_eq!(ours["job"]["timeline"].as_array().expect("timeline").len(), 7, "{ours}");
    let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(world.dir.join("good")).expect("staged"));
    assert_eq!(owner, USER);
}

fn two_jobs_share_one_transfer(world: &World) {
    world.put("shared", 24_000_000, 2);
    let sent = world.nginx.sent_bytes();
    let script = world.script(&world.nginx.uri("trickle/shared"), "shared", "cmp $0 $0");
    let (one, two) = (world.cluster.submit("one.sh", &script), world.cluster.submit("two.sh", &script));
    until("both wait for one transfer", || {
        let list = out(&world.volume.run(&["slurm", "list"]));
        list.contains("shared by 2 jobs")
    });
    // The first is cancelled; the second still has its data.
    world.cluster.run(Some(USER), &["scancel", &one.to_string()]);
    world.until_state(one, "CANCELLED");
    world.until_state(two, "COMPLETED");
    world.until_phase(one, "cancelled");
    // The jobs that staged it in are gone now; files in place are not fetched again.
    let third = world.cluster.submit("three.sh", &script);
    world.until_state(third, "COMPLETED");
    let sent = world.nginx.sent_bytes() - sent;
    assert!((24_000_000..24_100_000).contains(&sent), "{sent} bytes for three jobs");
}

fn a_stage_in_that_cannot_succeed(world: &World) {
    let uri = world.nginx.uri("later");
    let job = world.cluster.submit("fails.sh", &world.script(&uri, "later", "true"));
    let reason = world.until_held(job);
    for word in [uri.as_str(), "404 Not Found", "will not pass by itself", "line 4"] {
        assert!(reason.contains(word), "{word:?} is not in {reason:?}");
    }
    let stranger = world.cluster.run(
        Some(1),
        &[
            world.volume.binary.to_str().expect("UTF-8"),
            "--volume",
            world.volume.toml.to_str().expect("UTF-8"),
            "slurm",
            "retry",
            &job.to_string(),
        ],
    );
    assert_eq!(code(&stranger), 5, "not a stranger's: {}", err(&stranger));
    world.put("later", 1000, 3);
    world.retry(job);
    world.until_state(job, "COMPLETED");
}

fn a_target_fails_before_dispatch_and_another_during_the_run(world: &World) {
    let data = world.put("big", 9_000_000, 4);
    let dir = world.dir.display();
    let (at, home) = (world.cluster.home.join("big.sum"), world.cluster.home.display());
    // The job is ready and waits for its turn; then a target fails, and its data are repaired before it starts.
    let body =
        format!("touch {home}/started; while [ ! -e {home}/go ]; do sleep 0.1; done; cat {dir}/big > {}", at.display());
    let script = world.script(&world.nginx.uri("big"), "big", &body).replace("-t 5", "-t 5 --begin=now+4");
    let job = world.cluster.submit("big.sh", &script);
    world.until_phase(job, "staged-in");
    let targets = world.volume.json(&["layout", "user/big"]).to_string();
    let on = |name: &&str| targets.contains(&format!("\"{name}\""));
    let used: Vec<&str> = ["fast0", "capacity0", "fast1", "capacity1"].into_iter().filter(on).collect();
    world.volume.ok(&["target", "fail", used[0]]);
    until("it starts", || world.cluster.home.join("started").exists());
    let check = world.job(job)["check"].clone();
    assert_eq!(check["n_files"].as_u64(), Some(1), "looked at just before it started: {check}");
    // By that look, or while it waited.
    let mended = world.volume.json(&["layout", "user/big"]).to_string();
    assert!(!mended.contains(&format!("\"{}\"", used[0])), "mended before it started: {check} {mended}");
    // And another while it runs.
    world.volume.ok(&["target", "restore", used[0]]);
    let now = world.volume.json(&["layout", "user/big"]).to_string();
    let on_now = |name: &&str| now.contains(&format!("\"{name}\""));
    let second = ["fast0", "capacity0", "fast1", "capacity1"].into_iter().find(on_now).expect("some target");
    real::drop_caches_of(&world.dir.join("big"));
    world.volume.ok(&["target", "fail", second]);
    world.signal("go");
    world.until_state(job, "COMPLETED");
    assert!(std::fs::read(&at).expect("read") == data, "the job read what was sent");
    world.volume.ok(&["target", "restore", second]);
}

fn a_cancelled_job_leaves_nothing(world: &World) {
    world.put("cancelled", 40_000_000, 5);
    let script = world.script(&world.nginx.uri("trickle/cancelled"), "cancelled", "true");
    let job = world.cluster.submit("cancel.sh", &script);
    until("some of it came", || world.reason(job) == "BurstBufferStageIn");
    world.until_phase(job, "staging-in");
    world.cluster.run(Some(USER), &["scancel", &job.to_string()]);
    world.until_state(job, "CANCELLED");
    world.until_phase(job, "cancelled");
    assert!(!world.dir.join("cancelled").exists());
    world.nothing_is_left();
}

fn staging_survives_a_restart_of_slurmctld(world: &World) {
    world.put("restart", 12_000_000, 6);
    let script = world.script(&world.nginx.uri("trickle/restart"), "restart", "true");
    let job = world.cluster.submit("restart.sh", &script);
    world.until_phase(job, "staging-in");
    world.cluster.end_controller();
    let phase = world.job(job)["phase"].clone();
    assert!(["staging-in", "verifying", "staged-in"].iter().any(|p| phase == *p), "nobody stopped it: {phase}");
    world.cluster.controller();
    // Slurm itself comes back to such a job after two minutes; its operator need not wait.
    until("it is back in the queue", || world.reason(job) == "BeginTime");
    world.cluster.run(None, &["scontrol", "update", &format!("JobId={job}"), "StartTime=now"]);
    world.until_state(job, "COMPLETED");
    let sent = world.nginx.sent_bytes_of("/restart");
    assert!((12_000_000..12_100_000).contains(&sent), "{sent} bytes: each was sent once");
}

fn staging_survives_a_restart_of_the_daemon(world: &World) {
    world.put("killed", 12_000_000, 9);
    let script = world.script(&world.nginx.uri("trickle/killed"), "killed", "true");
    let job = world.cluster.submit("killed.sh", &script);
    world.until_phase(job, "staging-in");
    world.volume.kill();
    world.volume.up_again();
    world.until_state(job, "COMPLETED");
    assert_eq!(std::fs::metadata(world.dir.join("killed")).expect("staged").len(), 12_000_000);
}

fn results_that_cannot_go_home(world: &World) {
    let (home, dir) = (world.cluster.home.display(), world.dir.display());
    let script = format!(
        "#!/bin/bash\n#SBATCH -n 1 -t 5 -o {home}/%j.out\n#STAGEOUT -retry 1\n\
         #STAGEOUT entrepot stage out {dir}/out file://{home}/nowhere/out\necho result > {dir}/out\n"
    );
    let nowhere = world.cluster.home.join("nowhere");
    std::fs::write(&nowhere, "a file, where a directory should be").expect("write");
    let job = world.cluster.submit("out.sh", &script);
    world.until_phase(job, "failed");
    world.until_state(job, "COMPLETED");
    let shown = out(&world.cluster.run(Some(USER), &["scontrol", "show", "job", &job.to_string()]));
    assert!(shown.contains("nowhere/out") && shown.contains(&format!("retry {job}")), "{shown}");
    std::fs::remove_file(&nowhere).expect("remove");
    std::fs::create_dir(&nowhere).expect("directory");
    std::os::unix::fs::chown(&nowhere, Some(USER), Some(USER)).expect("chown");
    world.retry(job);
    world.until_phase(job, "completed");
    assert_eq!(std::fs::read_to_string(nowhere.join("out")).expect("home at last"), "result\n");
    // The results of a failed script stay in place, and Slurm reports the failure.
    let failing = script.replace("nowhere/out", "never").replace("> ", "> /dev/null; exit 3; : > ");
    let job = world.cluster.submit("failing.sh", &failing);
    world.until_state(job, "FAILED");
    world.until_phase(job, "completed");
    assert!(world.job(job)["note"].to_string().contains("ended with status 3"));
    assert!(!world.cluster.home.join("never").exists());
}

fn the_source_is_dead(world: &mut World) {
    world.put("dead", 3_000_000, 7);
    world.nginx.stop();
    let uri = world.nginx.uri("dead");
    let job = world.cluster.submit("dead.sh", &world.script(&uri, "dead", "true"));
    let reason = world.until_held(job);
    assert!(reason.contains(&uri) && reason.contains("this may pass"), "{reason}");
    world.nginx.restart();
    world.retry(job);
    world.until_state(job, "COMPLETED");
    assert_eq!(std::fs::metadata(world.dir.join("dead")).expect("staged").len(), 3_000_000);
}
