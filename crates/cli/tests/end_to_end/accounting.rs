//! Accounting: what users and jobs did is there after a crash, and nobody sees another's.

use crate::real::{Volume, code, err, noise, out, until};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

fn row(answer: &Value, of: &str, key: &str, is: u64) -> Value {
    let rows = answer[of].as_array().expect("rows");
    rows.iter().find(|row| row[key] == is).unwrap_or_else(|| panic!("{is} in {answer}")).clone()
}

/// Runs a command as the ordinary user in the mount, with further variables.
fn as_nobody(volume: &Volume, variables: &[(&str, &str)], words: &[&str]) {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]).args(words);
    command.env_remove("ENTREPOT_VOLUME").envs(variables.iter().copied()).current_dir(&volume.at);
    let done = command.output().expect("setpriv runs");
    assert!(done.status.success(), "{words:?}: {}", err(&done));
}

/// [S-255] [S-256]
#[test]
fn what_users_and_jobs_did_is_remembered_and_is_their_own() {
    let Some(volume) = Volume::up() else { return };
    let home = volume.dir.path().join("home");
    fs::create_dir_all(&home).expect("directory");
    fs::write(home.join("data"), noise(3_000_000)).expect("write");
    fs::create_dir(volume.at.join("pub")).expect("directory");
    fs::set_permissions(volume.at.join("pub"), fs::Permissions::from_mode(0o777)).expect("mode");
    let uri = format!("file://{}", home.join("data").display());
    let script = format!(
        "#!/bin/sh\n#ENTREPOT -n 1 -t 00:01:00\n#STAGEIN entrepot stage in {uri} {}\n\
         #STAGEOUT entrepot stage out {} file://{}\nhead -c 2000000 {} > {}\n",
        volume.at.join("input").display(),
        volume.at.join("result").display(),
        home.join("result").display(),
        volume.at.join("input").display(),
        volume.at.join("result").display(),
    );
    fs::write(home.join("job.sh"), script).expect("write");
    let job = home.join("job.sh");
    volume.ok(&["job", "submit", "--name", "=1,\"x\"", job.to_str().expect("UTF-8")]);
    assert_eq!(code(&volume.run(&["job", "wait", "1"])), 0, "{}", out(&volume.run(&["job", "show", "1"])));
    as_nobody(&volume, &[], &["sh", "-c", "head -c 500000 /dev/zero > pub/f && cat pub/f > /dev/null"]);
    // A job of another's is not theirs, whatever they say.
    let program = volume.binary.to_str().expect("UTF-8");
    let taken = format!("file://{}", volume.at.join("pub/f").display());
    as_nobody(&volume, &[("ENTREPOT_JOB_ACCOUNT", "job 1")], &[program, "stage", "in", &taken, "pub/g"]);

    let job_is_there = |volume: &Volume| {
        let jobs = volume.json(&["accounting", "--by", "job"]);
        let job = row(&jobs, "jobs", "job", 1);
        (job["state"] == "completed").then_some(job)
    };
    until("the end of the job is counted", || job_is_there(&volume).is_some());
    let before = volume.json(&["accounting"]);
    volume.kill();
    volume.up_again();
    let after = volume.json(&["accounting"]);
    let nobody = row(&after, "users", "uid", 65534);
    assert_eq!(nobody["written_bytes"], 500_000, "{after}");
    assert_eq!((nobody["staged_in_bytes"].as_u64(), nobody["jobs"].as_u64()), (Some(500_000), Some(0)), "{after}");
    assert!(nobody["operations"].as_u64() >= row(&before, "users", "uid", 65534)["operations"].as_u64(), "{after}");
    let root = row(&after, "users", "uid", 0);
    let staged = |row: &Value| (row["staged_in_bytes"].as_u64(), row["staged_out_bytes"].as_u64());
    assert_eq!(staged(&root), (Some(3_000_000), Some(2_000_000)), "{after}");
    assert_eq!(root["jobs"], 1, "{after}");
    let job = job_is_there(&volume).expect("it is remembered");
    assert_eq!(staged(&job), (Some(3_000_000), Some(2_000_000)), "no other's bytes: {job}");
    assert!(job["submitted_ms"].as_u64() < job["ended_ms"].as_u64(), "{job}");

    // Another run of the daemon adds to it.
    as_nobody(&volume, &[], &["sh", "-c", "head -c 7 /dev/zero > pub/h"]);
    assert_eq!(row(&volume.json(&["accounting"]), "users", "uid", 65534)["written_bytes"], 500_007);

    let csv = out(&volume.run(&["accounting", "--by", "job", "--output", "csv"]));
    let mut lines = csv.lines();
    assert!(lines.next().is_some_and(|head| head.starts_with("job,of,name,user,uid,state,submitted,")), "{csv}");
    assert!(
        lines.next().is_some_and(|line| line.starts_with("1,entrepot,\"'=1,\"\"x\"\"\",root,0,completed,")),
        "{csv}"
    );

    let own = volume.run_as_nobody(&["accounting", "--output", "json"]);
    let own: Value = serde_json::from_slice(&own.stdout).expect("JSON");
    assert_eq!(own["users"].as_array().map(Vec::len), Some(1), "{own}");
    let jobs = volume.run_as_nobody(&["accounting", "--by", "job", "--output", "json"]);
    assert!(out(&jobs).contains("\"jobs\": []"), "{}", out(&jobs));
    assert_eq!(code(&volume.run_as_nobody(&["accounting", "--user", "0"])), 4);
    assert_eq!(code(&volume.run(&["accounting", "--since", "2999-01-01"])), 2);
    assert!(out(&volume.run(&["accounting", "--until", "2001-01-01"])).contains("nothing was counted"));
}
