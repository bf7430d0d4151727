//! Jobs that an earlier version of the daemon saved go on after an update.
//!
//! The records have the form of the last version with a different record per backend.

use crate::transfers::{brought, hand_over, slurm};
use crate::world::{World, me};
use jobs::request::*;
use jobs::slurm::wire::Standing;

const RUNNING: &str = r#"{"id":1,"owner":{"uid":UID,"gid":GID},"user":"ann","plan":{"name":"job.sh","parts":[{"kind":"compute","queue":"batch","cores":1,"walltime_s":86400,"retries":0,"commands":[{"line":0,"argv":["/bin/sh"]}]}],"compute_script":"","warnings":[]},"cwd":"HOME","mount":"HOME/../mnt","submitted_ms":1795371553500,"ended_ms":null,"state":"running","detail":"its script runs","why":null,"cancelled":false,"timeline":[{"state":"queued","detail":"waits for its turn","at_ms":1795371553500,"lasted_ms":28},{"state":"checking","detail":"looking whether its data are all there","at_ms":1795371553528,"lasted_ms":3},{"state":"running","detail":"its script runs","at_ms":1795371553531}],"parts":[{"kind":"compute","phase":"started","dispatched_ms":1795371553528,"report":null}],"sources":[],"check":null,"recoveries":[],"external":null,"early":[],"arrival":null}"#;

const QUEUED: &str = r#"{"id":2,"owner":{"uid":UID,"gid":GID},"user":"ann","plan":{"name":"job.sh","parts":[{"kind":"stage-in","queue":"dataxfer","cores":0,"walltime_s":86400,"retries":0,"commands":[{"line":2,"argv":["true"]}]},{"kind":"compute","queue":"batch","after":"stage-in","cores":1,"walltime_s":86400,"retries":0,"commands":[{"line":0,"argv":["/bin/sh"]}]},{"kind":"stage-out","queue":"dataxfer","after":"compute","cores":0,"walltime_s":86400,"retries":0,"commands":[{"line":3,"argv":["sh","-c","echo out >> HOME/out"]}]}],"compute_script":"","warnings":[]},"cwd":"HOME","mount":"HOME/../mnt","submitted_ms":1795371553531,"ended_ms":null,"state":"queued","detail":"its stage-in succeeded; waits for its turn","why":null,"cancelled":false,"timeline":[{"state":"queued","detail":"waits for its turn","at_ms":1795371553531,"lasted_ms":85},{"state":"staging-in","detail":"its data are being brought","at_ms":1795371553616,"lasted_ms":96},{"state":"queued","detail":"its stage-in succeeded; waits for its turn","at_ms":1795371553712}],"parts":[{"kind":"stage-in","phase":"ended","dispatched_ms":1795371553616,"report":{"kind":"stage-in","started_ms":1795371553639,"ended_ms":1795371553695,"ending":{"how":"exited","code":0},"steps":[{"attempts":1,"ending":{"how":"exited","code":0},"lasted_ms":55}]}},{"kind":"compute","phase":"waiting","dispatched_ms":null,"report":null},{"kind":"stage-out","phase":"waiting","dispatched_ms":null,"report":null}],"sources":[],"check":null,"recoveries":[],"external":null,"early":[],"arrival":null}"#;

const FAILED: &str = r#"{"id":3,"owner":{"uid":UID,"gid":GID},"user":"ann","plan":{"name":"job.sh","parts":[{"kind":"compute","queue":"batch","cores":1,"walltime_s":86400,"retries":0,"commands":[{"line":0,"argv":["/bin/sh"]}]}],"compute_script":"","warnings":[]},"cwd":"HOME","mount":"HOME/../mnt","submitted_ms":1795371553248,"ended_ms":1795371553348,"state":"failed","detail":"","why":"the script exited with status 3","cancelled":false,"timeline":[{"state":"queued","detail":"waits for its turn","at_ms":1795371553248,"lasted_ms":15},{"state":"checking","detail":"looking whether its data are all there","at_ms":1795371553263,"lasted_ms":1},{"state":"running","detail":"its script runs","at_ms":1795371553264,"lasted_ms":84},{"state":"failed","detail":"","at_ms":1795371553348,"lasted_ms":0}],"parts":[{"kind":"compute","phase":"ended","dispatched_ms":1795371553263,"report":{"kind":"compute","started_ms":1795371553270,"ended_ms":1795371553331,"ending":{"how":"exited","code":3},"steps":[{"attempts":1,"ending":{"how":"exited","code":3},"lasted_ms":61}]}}],"sources":[],"check":null,"recoveries":[],"external":null,"early":[],"arrival":null}"#;

/// A job in the queue of another scheduler.
const ELSEWHERE: &str = r#"{"id":4,"owner":{"uid":UID,"gid":GID},"user":"ann","plan":{"name":"job.sh","parts":[{"kind":"compute","queue":"batch","cores":1,"walltime_s":86400,"retries":0,"commands":[{"line":0,"argv":["/bin/sh"]}]}],"compute_script":"","warnings":[]},"cwd":"HOME","mount":"HOME/../mnt","submitted_ms":1795371553248,"ended_ms":null,"state":"queued","detail":"in the queue of pbs","why":null,"cancelled":false,"timeline":[{"state":"queued","detail":"waits for its turn","at_ms":1795371553248}],"parts":[{"kind":"compute","phase":"waiting","dispatched_ms":null,"report":null}],"sources":[],"check":null,"recoveries":[],"external":{"scheduler":"pbs","parts":{"compute":{"id":"12.head","out":null,"err":null}}},"early":[],"arrival":null}"#;

/// Saves a record in the form of the earlier version.
fn remember(world: &World, kind: &str, number: u64, record: &str) {
    let home = world.home();
    let record = record.replace("HOME", home.to_str().unwrap());
    let record = record.replace("UID", &me().uid.to_string()).replace("GID", &me().gid.to_string());
    world.state.record_put(kind, &format!("{number:020}"), record.as_bytes()).unwrap();
}

#[test]
fn jobs_that_an_earlier_daemon_queued_or_ran_go_on() {
    let mut world = World::tuned(1, |_| {});
    world.fifo("go");
    let running = world.submit("#!/bin/sh\nread line < go\n");
    let queued =
        world.submit("#!/bin/sh\n#STAGEIN true\n#STAGEOUT sh -c 'echo out >> HOME/out'\necho ran >> HOME/ran\n");
    assert_eq!((running, queued), (JobId(1), JobId(2)));
    let has_data = |detail: &JobDetail| detail.timeline.len() == 3;
    while !has_data(&world.runner.show(me(), queued).unwrap())
        || world.runner.show(me(), running).unwrap().timeline.len() < 3
    {
        std::thread::yield_now();
    }
    world.stop();
    remember(&world, "job", 1, RUNNING);
    remember(&world, "job", 2, QUEUED);
    remember(&world, "job", 3, FAILED);
    remember(&world, "job", 4, ELSEWHERE);
    world.start();
    let failed = world.runner.show(me(), JobId(3)).unwrap();
    assert_eq!(failed.summary.why.as_deref(), Some("the script exited with status 3"));
    assert_eq!((failed.summary.state, failed.summary.ended_ms), (JobState::Failed, Some(1_795_371_553_348)));
    let elsewhere = world.runner.show(me(), JobId(4)).unwrap();
    assert_eq!(elsewhere.external.unwrap().parts[&PartKind::Compute].id, "12.head");
    assert_eq!(world.read("ran"), None, "one core");
    world.tell("go");
    for id in [running, queued] {
        assert_eq!(world.end(id).summary.state, JobState::Completed);
    }
    assert_eq!((world.read("ran").unwrap(), world.read("out").unwrap()), ("ran\n".into(), "out\n".into()));
}

const STAGED: &str = r#"{"id":40,"owner":{"uid":UID,"gid":GID},"user":"ann","plan":{"name":"job","parts":[{"kind":"stage-in","queue":"dataxfer","cores":0,"walltime_s":86400,"retries":0,"commands":[{"line":2,"argv":["true"]}]},{"kind":"compute","queue":"batch","after":"stage-in","cores":1,"walltime_s":86400,"retries":0,"commands":[{"line":0,"argv":["/bin/sh"]}]}],"compute_script":"","warnings":[]},"cwd":"HOME","mount":"HOME/../mnt","conf":null,"phase":"staged-in","since_ms":1795371553881,"why":null,"note":"0 bytes compared with their checksums","let_go":false,"brought":[3],"taken":[],"check":null,"timeline":[["set-up",1795371553823],["staging-in",1795371553824],["verifying",1795371553880],["staged-in",1795371553881]]}"#;

const STAGING: &str = r#"{"id":41,"owner":{"uid":UID,"gid":GID},"user":"ann","plan":{"name":"job","parts":[{"kind":"stage-in","queue":"dataxfer","cores":0,"walltime_s":86400,"retries":0,"commands":[{"line":2,"argv":["sh","-c","read line < HOME/wait"]},{"line":3,"argv":["sh","-c","echo in >> HOME/in"]}]},{"kind":"compute","queue":"batch","after":"stage-in","cores":1,"walltime_s":86400,"retries":0,"commands":[{"line":0,"argv":["/bin/sh"]}]}],"compute_script":"","warnings":[]},"cwd":"HOME","mount":"HOME/../mnt","conf":null,"phase":"staging-in","since_ms":1795371553902,"why":null,"note":null,"let_go":false,"brought":[1],"taken":[],"check":null,"timeline":[["set-up",1795371553902],["staging-in",1795371553902]]}"#;

const BEHIND: &str = r#"{"id":43,"owner":{"uid":UID,"gid":GID},"user":"ann","plan":{"name":"job","parts":[{"kind":"stage-in","queue":"dataxfer","cores":0,"walltime_s":86400,"retries":0,"commands":[{"line":2,"argv":["sh","-c","echo other >> HOME/other"]}]},{"kind":"compute","queue":"batch","after":"stage-in","cores":1,"walltime_s":86400,"retries":0,"commands":[{"line":0,"argv":["/bin/sh"]}]}],"compute_script":"","warnings":[]},"cwd":"HOME","mount":"HOME/../mnt","conf":null,"phase":"staging-in","since_ms":1795371553978,"why":null,"note":null,"let_go":false,"brought":[2],"taken":[],"check":null,"timeline":[["set-up",1795371553975],["staging-in",1795371553978]]}"#;

const REFUSED: &str = r#"{"id":42,"owner":{"uid":UID,"gid":GID},"user":"ann","plan":{"name":"job","parts":[{"kind":"stage-in","queue":"dataxfer","cores":0,"walltime_s":86400,"retries":0,"commands":[{"line":2,"argv":["sh","-c","exit 127"]}]},{"kind":"compute","queue":"batch","after":"stage-in","cores":1,"walltime_s":86400,"retries":0,"commands":[{"line":0,"argv":["/bin/sh"]}]}],"compute_script":"","warnings":[]},"cwd":"HOME","mount":"HOME/../mnt","conf":null,"phase":"failed","since_ms":1795371553803,"why":{"part":"stage-in","cause":"line 2: sh -c 'exit 127': exited with status 127","passing":false},"note":null,"let_go":false,"brought":[4],"taken":[],"check":null,"timeline":[["set-up",1795371553743],["staging-in",1795371553747],["failed",1795371553803]]}"#;

const TRANSFERS: [&str; 4] = [
    r#"{"number":1,"kind":"stage-in","argv":["sh","-c","read line < HOME/wait"],"line":2,"share":null,"owner":{"uid":UID,"gid":GID},"brings":[],"jobs":[41],"seen_by":[41],"state":"running","why":null}"#,
    r#"{"number":2,"kind":"stage-in","argv":["sh","-c","echo other >> HOME/other"],"line":2,"share":null,"owner":{"uid":UID,"gid":GID},"brings":[],"jobs":[43],"seen_by":[43],"state":"waiting","why":null}"#,
    r#"{"number":3,"kind":"stage-in","argv":["true"],"line":2,"share":null,"owner":{"uid":UID,"gid":GID},"brings":[],"jobs":[40],"seen_by":[40],"state":"done","took_ms":17,"why":null}"#,
    r#"{"number":4,"kind":"stage-in","argv":["sh","-c","exit 127"],"line":2,"share":null,"owner":{"uid":UID,"gid":GID},"brings":[],"jobs":[42],"seen_by":[42],"state":"failed","why":["line 2: sh -c 'exit 127': exited with status 127",false]}"#,
];

#[test]
fn jobs_that_slurm_handed_to_an_earlier_daemon_go_on() {
    let world = World::new();
    world.fifo("wait");
    let before = slurm(&world, 1);
    let staging = "#!/bin/sh\n#STAGEIN sh -c 'read line < HOME/wait'\n#STAGEIN sh -c 'echo in >> HOME/in'\n";
    hand_over(&before, &world, 41, staging);
    hand_over(&before, &world, 43, "#!/bin/sh\n#STAGEIN sh -c 'echo other >> HOME/other'\n");
    before.shut_down();
    for (number, record) in [(40, STAGED), (41, STAGING), (42, REFUSED), (43, BEHIND)] {
        remember(&world, "slurm-job", number, record);
    }
    for (number, record) in (1..).zip(TRANSFERS) {
        remember(&world, "slurm-transfer", number, record);
    }
    let after = slurm(&world, 1);
    assert_eq!(
        after.data_in(JobId(40)).unwrap(),
        Standing::Done { note: "0 bytes compared with their checksums".into() }
    );
    let moments = after.show(me(), JobId(40)).unwrap().job.timeline;
    assert_eq!((moments.len(), moments[1].state, moments[1].at_ms), (4, JobState::StagingIn, 1_795_371_553_824));
    let Standing::Failed { cause } = after.data_in(JobId(42)).unwrap() else { panic!("42 had failed") };
    assert!(cause.contains("exited with status 127 (this will not pass by itself"), "{cause}");
    assert_eq!(after.data_in(JobId(43)).unwrap(), Standing::UnderWay, "there is room for one, and 41 has it");
    world.tell("wait");
    for job in [41, 43] {
        let standing = brought(&after, JobId(job));
        assert!(matches!(standing, Standing::Done { .. }), "{job}: {standing:?}");
    }
    assert_eq!((world.read("in").unwrap(), world.read("other").unwrap()), ("in\n".into(), "other\n".into()));
}
