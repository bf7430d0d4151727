//! Results of Slurm's jobs that leave while the script runs: the hooks called as Slurm's plug-in calls them.

use crate::real::{Volume, err, until};
use std::fs;

/// [S-066]
#[test]
fn a_result_of_a_job_of_slurm_leaves_when_it_is_closed() {
    let edit = |toml: String| toml.replace("# offload = \"at-end\"", "offload = \"on-close\"");
    let Some(volume) = Volume::up_with(edit) else { return };
    let home = volume.dir.path().join("home");
    fs::create_dir(&home).expect("directory");
    let (script, result, there) = (home.join("script"), volume.at.join("r"), home.join("r"));
    let text =
        format!("#!/bin/sh\n#STAGEOUT entrepot stage out {} file://{}\ntrue\n", result.display(), there.display());
    fs::write(&script, text).expect("write");
    let (uid, gid) = (rustix::process::getuid().as_raw().to_string(), rustix::process::getgid().as_raw().to_string());
    let hook = |words: &[&str]| {
        let done = volume.run(&[&["slurm", "hook"], words].concat());
        assert!(done.status.success(), "{words:?}: {}", err(&done));
    };
    hook(&["setup", "41", &uid, &gid, script.to_str().expect("UTF-8")]);
    hook(&["data-in", "41"]);
    fs::write(&result, "before").expect("write");
    hook(&["pre-run", "41"]);
    until("it is safe at the other end", || fs::read_to_string(&there).is_ok_and(|text| text == "before"));
    let early = || volume.json(&["slurm", "show", "41"])["job"]["early"].clone();
    until("the daemon knows", || early().as_array().is_some_and(|all| all.len() == 1));
    assert_eq!(volume.json(&["slurm", "show", "41"])["job"]["phase"], "running");
    fs::write(&result, "and after").expect("write");
    until("what was written since leaves again", || fs::read_to_string(&there).is_ok_and(|text| text == "and after"));
    until("both are known", || early().as_array().is_some_and(|all| all.len() == 2));
    assert!(early().as_array().expect("two").iter().all(|one| one["failed"].is_null()), "{}", early());
}
