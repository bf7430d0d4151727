//! Checkpoints that scripts mark: by Slurm's hooks, and in three dependent jobs.

use crate::World;
use crate::real::{code, err, out, until};
use serde_json::Value;

/// Files that a script marks are checkpoints as long as its job is there.
pub fn last_while_their_job_is_there(world: &World) {
    world.put("state", 200_000, 31);
    let dir = world.dir.display();
    let body = |app: &str| {
        format!(
            "for n in 1 2; do mkdir -p {dir}/{app}/step-$n; cp {dir}/{app}.in {dir}/{app}/step-$n/rank-0; done; cp {dir}/{app}.in {dir}/{app}/log"
        )
    };
    let script = |app: &str, directive: &str| {
        let directive = format!("{directive} path={dir}/{app}/step-{{version}}/** app={app} nodes=512\n{}", body(app));
        world.script(&world.nginx.uri("state"), &format!("{app}.in"), &directive)
    };
    let hooked = world.cluster.submit("hooked.sh", &script("hooked", "#BB_LUA entrepot checkpoint"));
    let path = world.cluster.home.join("parted.sh");
    std::fs::write(&path, script("parted", "#CHECKPOINT")).expect("script");
    let words = ["job", "submit", "--scheduler", "slurm", path.to_str().expect("UTF-8")];
    let done = world.user(&words);
    assert_eq!(code(&done), 0, "{}", err(&done));
    let parted = out(&done).split_whitespace().nth(1).expect("a number").to_string();
    world.until_state(hooked, "COMPLETED");
    let waited = world.user(&["job", "wait", &parted]);
    assert_eq!(code(&waited), 0, "{}{}", out(&waited), err(&waited));
    for app in ["hooked", "parted"] {
        until("both versions are complete", || {
            let all = world.volume.json(&["checkpoint", "list", app])["versions"].as_array().cloned();
            let all = all.unwrap_or_default();
            all.len() == 2 && all.iter().all(|version| version["state"] == "complete")
        });
    }
    let known = world.volume.json(&["checkpoint", "status"])["applications"].clone();
    let from = |of: &Value| of["mtbf_from"] == "nodes";
    assert!(known.as_array().is_some_and(|all| all.len() == 2 && all.iter().all(from)), "{known}");
    // Over, they mark nothing.
    for app in ["hooked", "parted"] {
        let late = world.dir.join(app).join("step-3");
        until("the marks are taken back", || {
            std::fs::create_dir_all(&late).expect("directory");
            std::fs::write(late.join("rank-0"), [1; 100_000]).expect("write");
            let all = world.volume.json(&["checkpoint", "list", app])["versions"].as_array().map_or(0, Vec::len);
            std::fs::remove_dir_all(&late).expect("remove");
            all == 2
        });
        std::fs::remove_dir_all(world.dir.join(app)).expect("remove");
    }
}
