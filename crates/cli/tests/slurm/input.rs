//! Input of jobs: the time at which it comes, its second copy, and its stay.

use crate::World;
use crate::cluster::USER;
use crate::endings::until_says;
use crate::real::{out, until};

/// A job that takes both nodes until a file is there.
pub fn occupy(world: &World, minutes: u32, until: &str) -> u64 {
    let home = world.cluster.home.display();
    let script = format!(
        "#!/bin/bash\n#SBATCH -N 2 --exclusive -t {minutes} -o {home}/%j.out\nuntil [ -e {home}/{until} ]; do sleep 0.1; done\n"
    );
    let job = world.cluster.submit("occupy.sh", &script);
    world.until_state(job, "RUNNING");
    job
}

/// [S-088]
pub fn comes_when_it_is_due(world: &World) {
    world.put("due", 1_000_000, 10);
    let before = occupy(world, 60, "never");
    let job = world.cluster.submit("due.sh", &world.script(&world.nginx.uri("due"), "due", "true"));
    let arrival = || arrival_of(world, job);
    // Slurm plans it for when the other must have ended, in an hour: that is much too early.
    until_arrival(world, job, "the queue starts it in 5");
    until("Slurm says so", || world.reason(job) == "BurstBufferStageIn");
    let status = out(&world.cluster.run(Some(USER), &["scontrol", "show", "bbstat"]));
    assert!(status.contains("its data begin to come in"), "{status}");
    assert!(!world.dir.join("due").exists());
    // The job ends before its time. Slurm corrects its estimate, and so does the daemon.
    world.cluster.run(None, &["scancel", &before.to_string()]);
    world.until_state(job, "COMPLETED");
    world.until_phase(job, "completed");
    assert!(arrival().contains("its data came too late"), "{}", arrival());
    // A job that is cancelled before its data are due leaves nothing.
    let before = occupy(world, 60, "never");
    let job = world.cluster.submit("undue.sh", &world.script(&world.nginx.uri("due"), "undue", "true"));
    until_arrival(world, job, "the queue starts it in 5");
    world.cluster.run(Some(USER), &["scancel", &job.to_string()]);
    world.cluster.run(None, &["scancel", &before.to_string()]);
    world.until_state(job, "CANCELLED");
    world.until_phase(job, "cancelled");
    assert!(!world.dir.join("undue").exists());
}

fn arrival_of(world: &World, job: u64) -> String {
    world.job(job)["arrival"]["standing"].to_string()
}

fn until_arrival(world: &World, job: u64, words: &str) {
    until_says(words, || format!("{} {}", arrival_of(world, job), world.cluster.queue(job, "%T %S %r")));
}

/// [S-070] With the real queue of Slurm.
pub fn of_waiting_jobs_is_there_twice(world: &World) {
    world.volume.ok(&["down"]);
    let toml = std::fs::read_to_string(&world.volume.toml).expect("volume.toml");
    let toml = toml.replace("# policy = \"none\"", "policy = \"fcfs\"").replace("# alpha = 0.2", "alpha = \"inf\"");
    let toml = toml.replace("# queue = \"local\"", "queue = \"slurm\"").replace("# poll = \"2s\"", "poll = \"500ms\"");
    std::fs::write(&world.volume.toml, toml).expect("volume.toml");
    world.volume.up_again();
    world.put("kept", 16 << 20, 11);
    world.put("unread", 16 << 20, 12);
    let (home, dir) = (world.cluster.home.display(), world.dir.display());
    let mirrors = |name: &str| {
        let layout = world.volume.json(&["layout", &format!("user/{name}")]);
        layout["mirrors"].as_array().expect("mirrors").len()
    };
    // Both wait for the nodes with their data there: less than the margin before they can start.
    occupy(world, 4, "room");
    let script = |name: &str, body: &str| {
        let body = format!("{body}\nuntil [ -e {home}/done-{name} ]; do sleep 0.1; done");
        world.cluster.submit(&format!("{name}.sh"), &world.script(&world.nginx.uri(name), name, &body))
    };
    let (kept, unread) = (
        script("kept", &format!("until [ -e {home}/read ]; do sleep 0.1; done\ncat {dir}/kept > /dev/null")),
        script("unread", "true"),
    );
    for (job, name) in [(kept, "kept"), (unread, "unread")] {
        world.until_phase(job, "staged-in");
        let shown = || out(&world.user(&["slurm", "show", &job.to_string()]));
        until_says("a second copy is complete", shown);
        let shown = shown();
        assert!(shown.contains("2 copies, and its source") && shown.contains("the replication window"), "{shown}");
        assert_eq!(mirrors(name), 2);
    }
    world.signal("room");
    for job in [kept, unread] {
        world.until_state(job, "RUNNING");
    }
    // The copy goes when the running job has closed the file, and in any case at its end.
    let shown = || out(&world.user(&["slurm", "show", &kept.to_string()]));
    until_says("a second copy is complete and in use", shown);
    world.signal("read");
    until("the copy is gone", || mirrors("kept") == 1);
    assert_eq!((world.cluster.state(kept).as_str(), mirrors("unread")), ("RUNNING", 2));
    for (job, name) in [(kept, "kept"), (unread, "unread")] {
        world.signal(&format!("done-{name}"));
        world.until_state(job, "COMPLETED");
    }
    until("the other is gone", || mirrors("unread") == 1);
}

/// [S-074] Neither while the job waits, nor while it is held for another file, nor while it runs.
pub fn of_jobs_is_not_purged(world: &World) {
    world.put("needed", 1 << 20, 13);
    let (home, dir) = (world.cluster.home.display(), world.dir.display());
    let purged = || {
        let report = world.volume.json(&["purge", "--dry-run"]);
        let files = report["files"].as_array().expect("files").clone();
        files.iter().any(|file| file["path"] == "user/needed")
    };
    // Waits for nodes with its data there: less than the margin before it can start.
    occupy(world, 4, "purge-room");
    let body = format!("until [ -e {home}/purge-go ]; do sleep 0.1; done");
    let script = world.script(&world.nginx.uri("needed"), "needed", &body);
    let job = world.cluster.submit("needed.sh", &script);
    world.until_phase(job, "staged-in");
    assert!(!purged(), "it waits");
    world.signal("purge-room");
    world.until_state(job, "RUNNING");
    assert!(!purged(), "it runs");
    world.signal("purge-go");
    world.until_state(job, "COMPLETED");
    world.until_phase(job, "completed");
    until("nobody needs it", purged);
    // The same input, for a job that is held because another file could not come.
    let more = format!("#STAGEIN entrepot stage in {} {dir}/absent\n{body}", world.nginx.uri("absent"));
    let held = world.cluster.submit("held.sh", &world.script(&world.nginx.uri("needed"), "needed", &more));
    world.until_held(held);
    assert!(!purged(), "it may be tried again");
    world.put("absent", 1000, 14);
    world.retry(held);
    world.until_state(held, "COMPLETED");
    world.until_phase(held, "completed");
}
