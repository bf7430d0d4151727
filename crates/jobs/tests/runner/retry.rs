//! Retries of failed jobs from the part that failed.

use crate::world::{World, again, me};
use jobs::request::*;

/// [S-069]
#[test]
fn a_failed_stage_in_and_a_failed_script_are_taken_up_where_they_failed() {
    let mut world = World::new();
    let id = world.submit(
        "#!/bin/sh\n#DW jobdw type=scratch capacity=1MiB\n#STAGEIN sh -c 'echo in >>HOME/in; exec test -e HOME/data'\n\
         #STAGEOUT cp HOME/ran HOME/home\necho $NOW $DW_JOB_STRIPED >>HOME/ran; test -d $DW_JOB_STRIPED -a -e HOME/go\n",
    );
    assert!(world.end(id).summary.why.unwrap().starts_with("stage-in failed"));
    std::fs::write(world.home().join("data"), "").unwrap();
    world.restart();
    world.runner.retry(me(), again(id)).unwrap();
    let failed = world.end(id);
    assert!(failed.summary.why.unwrap().starts_with("the script exited with status 1"));
    assert!(!failed.log_dir.join("compute.spec").exists(), "its environment is not kept");
    std::fs::write(world.home().join("go"), "").unwrap();
    world.runner.retry(me(), again(id)).unwrap();
    let detail = world.end(id);
    assert_eq!((detail.summary.state, detail.summary.why), (JobState::Completed, None));
    assert_eq!(world.read("in").unwrap(), "in\nin\n", "what succeeded is not done again");
    let own = world.dir.path().join("mnt/.datawarp/job-1/striped");
    assert_eq!(world.read("home").unwrap(), format!("retried {0}\n", own.display()).repeat(2));
    let refused = world.runner.retry(me(), again(id)).unwrap_err().to_string();
    assert!(refused.contains("no part of job 1 has failed: it is completed"), "{refused}");
}
