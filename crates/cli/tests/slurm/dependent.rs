//! The way without hooks: stage-in, script and stage-out as jobs of Slurm that depend on each other.

use crate::World;
use crate::input::occupy;
use crate::real::{code, err, out, until};
use serde_json::Value;

pub fn a_job_is_three_jobs(world: &World) {
    let data = world.put("three", 2_000_000, 8);
    let (home, dir) = (world.cluster.home.display(), world.dir.display());
    let submit = |name: &str, uri: &str, body: &str| {
        let script = format!(
            "#!/bin/bash\n#SBATCH -n 1 -t 5\n#STAGEIN entrepot stage in {uri} {dir}/{name}\n\
             #STAGEOUT entrepot stage out {dir}/{name}.out file://{home}/{name}.out\n{body}\n"
        );
        let path = world.cluster.home.join(format!("{name}.sh"));
        std::fs::write(&path, script).expect("script");
        let path = path.display().to_string();
        let done = world.user(&["job", "submit", "--scheduler", "slurm", &path]);
        assert_eq!(code(&done), 0, "{}", err(&done));
        out(&done).split_whitespace().nth(1).expect("a number").to_string()
    };
    let good = submit("three", &world.nginx.uri("three"), &format!("echo hello; cat {dir}/three > {dir}/three.out"));
    let bad = submit("none", &world.nginx.uri("none"), &format!("touch {home}/ran"));
    let long = submit("long", &world.nginx.uri("three"), "sleep 300");
    let waited = world.user(&["job", "wait", &good]);
    assert_eq!(code(&waited), 0, "{}{}", out(&waited), err(&waited));
    assert!(std::fs::read(world.cluster.home.join("three.out")).expect("home") == data);
    assert_eq!(out(&world.user(&["job", "log", &good])), "hello\n");
    let waited = world.user(&["job", "wait", &bad]);
    assert_eq!(code(&waited), 1, "{}", out(&waited));
    assert!(out(&waited).contains("stage-in exited with status 5"), "{}", out(&waited));
    assert!(!world.cluster.home.join("ran").exists(), "without its data it does not run");
    let log = out(&world.user(&["job", "log", &bad, "--part", "stage-in"]));
    assert!(log.contains("404 Not Found"), "{log}");
    until("the third runs", || out(&world.volume.run(&["job", "list"])).contains(" running "));
    let cancelled = world.user(&["job", "cancel", &long]);
    assert_eq!(code(&cancelled), 0, "{}", err(&cancelled));
    let waited = world.user(&["job", "wait", &long]);
    assert!(out(&waited).contains("cancelled"), "{}", out(&waited));
    // Slurm estimates a start in an hour: so the data wait.
    let before = occupy(world, 60, "never");
    let later = submit("later", &world.nginx.uri("three"), "true");
    let detail = || {
        let shown = world.user(&["job", "show", &later, "--output", "json"]);
        serde_json::from_slice::<Value>(&shown.stdout).expect("JSON")
    };
    let part = detail()["external"]["parts"]["stage-in"]["id"].as_str().expect("a number").parse().expect("a number");
    until("its stage-in is not due", || world.reason(part) == "BeginTime");
    assert!(world.cluster.queue(part, "%S") > world.cluster.queue(before, "%S"), "later than the other began");
    assert_eq!(code(&world.user(&["job", "cancel", &later])), 0);
    world.cluster.run(None, &["scancel", &before.to_string()]);
    world.until_state(before, "CANCELLED");
    let left = out(&world.cluster.run(None, &["squeue", "-h", "-t", "PENDING,RUNNING"]));
    assert_eq!(left, "", "no part is left in the queue");
}
