//! Scripts written for DataWarp: lifetime of their directories, and refused requests.

use crate::world::{World, again, me};
use jobs::Error;
use jobs::request::*;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

fn mount(world: &World) -> PathBuf {
    world.dir.path().join("mnt")
}

/// Waits for the thread that removes a job's directory, which is not joined.
fn until_gone(path: &std::path::Path) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while path.exists() {
        assert!(std::time::Instant::now() < until, "{} stays", path.display());
        std::thread::yield_now();
    }
}

/// [S-236]
#[test]
fn the_directory_of_a_job_is_there_from_before_its_data_come_until_its_results_are_home() {
    let world = World::new();
    let id = world.submit(
        "#!/bin/sh\n#DW jobdw type=scratch capacity=1MiB access_mode=striped,private\n\
         #BB create_persistent name=alpha capacity=1MiB\n#STAGEIN sh -c 'cd ../mnt/.datawarp/job-1/striped; echo a >a'\n\
         #STAGEOUT cp ../mnt/.datawarp/job-1/striped/b HOME/result\n\
         cd $DW_JOB_STRIPED && tr a-z A-Z <a >b && mkdir deep && touch deep/x $DW_JOB_PRIVATE/c\n\
         cp b $DW_PERSISTENT_STRIPED_alpha/b; echo $DW_JOB_STRIPED $DW_JOB_PRIVATE; stat -c %a . $DW_JOB_PRIVATE\n",
    );
    let detail = world.end(id);
    assert_eq!(detail.summary.why, None);
    assert_eq!(world.read("result").as_deref(), Some("A\n"));
    let top = mount(&world).join(".datawarp");
    let own = top.join("job-1");
    let said = format!("{0}/striped {0}/private\n700\n700\n", own.display());
    assert_eq!(world.log(id, PartKind::Compute, Stream::Out), said);
    until_gone(&own);
    assert_eq!(std::fs::read(top.join("persistent/alpha/b")).unwrap(), b"A\n");
    assert_eq!(std::fs::metadata(&top).unwrap().mode() & 0o777, 0o711, "nobody lists the jobs of others");
    let id = world.submit("#!/bin/sh\n#DW persistentdw name=alpha\ncat $DW_PERSISTENT_STRIPED_alpha/b\n");
    world.end(id);
    assert_eq!(world.log(id, PartKind::Compute, Stream::Out), "A\n");
}

/// [S-236]
#[test]
fn what_a_failed_script_or_stage_out_left_is_kept_and_named() {
    let world = World::new();
    let jobdw = "#DW jobdw type=scratch capacity=1MiB";
    let id = world.submit(&format!("#!/bin/sh\n{jobdw}\necho x >$DW_JOB_STRIPED/x\nexit 3\n"));
    let detail = world.end(id);
    let kept = mount(&world).join(".datawarp/job-1");
    let why = detail.summary.why.unwrap();
    assert!(why.contains(&format!("its directory {} is kept", kept.display())), "{why}");
    assert_eq!(std::fs::read(kept.join("striped/x")).unwrap(), b"x\n");

    let script = format!("#!/bin/sh\n{jobdw}\n#STAGEOUT sh -c 'exec test -e HOME/may-go'\ntrue\n");
    let id = world.submit(&script);
    let kept = mount(&world).join(".datawarp/job-2");
    assert!(world.end(id).summary.why.unwrap().contains("is kept") && kept.exists());
    std::fs::write(world.home().join("may-go"), "").unwrap();
    world.runner.retry(me(), again(id)).unwrap();
    assert_eq!(world.end(id).summary.state, JobState::Completed);
    until_gone(&kept);

    let id = world.submit(&format!("#!/bin/sh\n{jobdw}\n#STAGEIN false\ntrue\n"));
    assert!(!world.end(id).summary.why.unwrap().contains("is kept"), "its script never ran");
    until_gone(&mount(&world).join(".datawarp/job-3"));
}

/// [S-236]
#[test]
fn a_daemon_that_ended_before_a_directory_was_gone_goes_on_when_it_is_back() {
    let mut world = World::new();
    let id = world.submit("#!/bin/sh\n#DW jobdw type=scratch capacity=1MiB\ntrue\n");
    world.end(id);
    let own = mount(&world).join(".datawarp/job-1");
    until_gone(&own);
    world.stop();
    std::fs::create_dir_all(own.join("striped")).unwrap();
    world.start();
    until_gone(&own);
}

/// [S-235]
#[test]
fn what_cannot_be_had_is_refused_with_its_line_and_nothing_is_left() {
    let world = World::new();
    let refused = |script: &str| match world.runner.submit(me(), world.request(script)) {
        Err(Error::Script(complaints)) => complaints,
        other => panic!("{other:?}"),
    };
    let script = "#!/bin/sh\n#DW jobdw capacity=9TiB\n#BB create_persistent name=b capacity=9TiB\ntrue\n";
    let found = refused(script);
    assert_eq!(found.iter().map(|c| c.line).collect::<Vec<_>>(), [2, 3]);
    assert!(found[0].cause.contains("9.0 TiB, and 1.0 TiB are free"), "{found:?}");
    let found = refused("#!/bin/sh\n#DW jobdw capacity=1\n#DW persistentdw name=none\ntrue\n");
    assert!(found[0].line == 3 && found[0].mend.contains("#BB create_persistent name=none"), "{found:?}");
    assert!(!mount(&world).join(".datawarp/persistent/b").exists());
    let jobs = std::fs::read_dir(mount(&world).join(".datawarp")).unwrap();
    assert_eq!(jobs.filter(|e| e.as_ref().unwrap().file_name() != "persistent").count(), 0);

    // The daemon does not follow a link in the path.
    let elsewhere = World::new();
    std::os::unix::fs::symlink(elsewhere.home(), mount(&elsewhere).join(".datawarp")).unwrap();
    let answer = elsewhere.runner.submit(me(), elsewhere.request("#!/bin/sh\n#DW jobdw capacity=1\ntrue\n"));
    assert!(matches!(answer, Err(Error::World(_))), "{answer:?}");
    assert_eq!(std::fs::read_dir(elsewhere.home()).unwrap().count(), 0);
}
