//! The life of a job: parts in order, failures, cancelling, restarts.

use crate::world::{World, again, is_alive, me};
use jobs::Error;
use jobs::known::KnownJobs;
use jobs::queue::Queue as _;
use jobs::request::*;
use meta::state::SqliteState;
use std::sync::Arc;

fn states(detail: &JobDetail) -> Vec<String> {
    let mut names: Vec<_> = detail.timeline.iter().map(|moment| moment.state.to_string()).collect();
    names.dedup();
    names
}

#[test]
fn a_job_brings_its_data_runs_and_takes_its_results_home() {
    let world = World::new();
    std::fs::write(world.home().join("input"), "data").unwrap();
    let id = world.submit(
        "#!/bin/sh\n#STAGEIN cp HOME/input ../mnt/input\n#STAGEOUT cp ../mnt/result HOME/result\n\
         tr a-z A-Z < $ENTREPOT_MOUNT/input > $ENTREPOT_MOUNT/result\necho job $ENTREPOT_JOB_ID in $PWD; echo oops >&2\n",
    );
    let detail = world.end(id);
    assert_eq!((detail.summary.why.as_ref(), detail.summary.host.as_ref()), (None, None));
    assert_eq!(
        states(&detail),
        ["queued", "staging-in", "queued", "checking", "running", "queued", "staging-out", "completed"]
    );
    assert_eq!(world.read("result").unwrap(), "DATA");
    assert_eq!(world.log(id, PartKind::Compute, Stream::Out), format!("job {id} in {}\n", world.home().display()));
    assert_eq!(world.log(id, PartKind::Compute, Stream::Err), "oops\n");
    let source = format!("source input file://{}/input", world.home().display());
    assert_eq!(*world.volume.asked.lock().unwrap(), [source, "check input".to_string()], "recorded, then checked");
    assert_eq!(detail.sources.len(), 1);
    assert_eq!(detail.recoveries.len(), 1);
    assert_eq!(detail.parts.iter().map(|part| part.kind).collect::<Vec<_>>().len(), 3);
    assert!(detail.timeline.iter().all(|moment| moment.lasted_ms.is_some()));
    let spec = detail.log_dir.join("compute.spec");
    assert!(!spec.exists(), "the environment is gone when the job is over");
}

#[test]
fn what_a_script_marks_as_checkpoints_is_told_for_as_long_as_the_job_lives() {
    let world = World::new();
    let id = world.submit(
        "#!/bin/sh\n#ENTREPOT -J wave\n#CHECKPOINT path=../mnt/state/{version}/** nodes=8 interval=1h\n\
         #CHECKPOINT path=../mnt/other app=tide mtbf=2d\ntrue\n",
    );
    let detail = world.end(id);
    assert_eq!(detail.summary.state, JobState::Completed);
    let job = format!("job {id}");
    let told = [
        format!("mark {job}: wave state/{{version}}/** (Some(8), None, Some(3600))"),
        format!("mark {job}: tide other (None, Some(172800), None)"),
        format!("unmark {job}"),
    ];
    let asked = std::mem::take(&mut *world.volume.asked.lock().unwrap());
    assert_eq!(asked.into_iter().filter(|text| text.contains("mark ")).collect::<Vec<_>>(), told);

    let outside = world.request("#!/bin/sh\n#CHECKPOINT path=state/**\n#CHECKPOINT path=/mnt/x\ntrue\n");
    let Err(Error::Script(complaints)) = world.runner.submit(me(), outside) else { panic!("it must be refused") };
    assert_eq!(complaints.iter().map(|c| c.line).collect::<Vec<_>>(), [2, 3]);
    assert!(complaints[0].cause.contains("not in the volume") && complaints[0].mend.contains("mnt"), "{complaints:?}");
    assert!(world.volume.asked.lock().unwrap().is_empty(), "nothing is marked");
    assert!(world.runner.list(me(), List { all: false }).is_empty(), "nothing is queued");
}

/// [S-060]
#[test]
fn a_failed_stage_in_is_tried_n_times_again_keeps_the_job_from_running_and_says_why() {
    let world = World::new();
    let id = world.submit(
        "#!/bin/sh\n#STAGEIN -retry 2\n#STAGEIN true\n#STAGEIN sh -c 'echo x >> tries; echo no such host >&2; exit 7'\n\
         #STAGEIN touch never\n#STAGEOUT touch never\ntouch ran\n",
    );
    let detail = world.end(id);
    assert_eq!(detail.summary.state, JobState::Failed);
    assert_eq!(world.read("tries").unwrap().lines().count(), 3);
    assert_eq!((world.read("ran"), world.read("never")), (None, None));
    let why = detail.summary.why.unwrap();
    for text in ["stage-in failed", "line 4", "exited with status 7", "3 attempts", "no such host"] {
        assert!(why.contains(text), "{text:?} is not in {why:?}");
    }
    assert!(world.log(id, PartKind::StageIn, Stream::Out).contains("attempt 3 of 3"));
}

#[test]
fn a_command_that_succeeds_when_tried_again_is_a_success() {
    let world = World::new();
    let id = world.submit(
        "#!/bin/sh\n#STAGEIN -retry 5\n#STAGEIN mkdir a/b\n#STAGEIN sh -c 'mkdir a || rm -r a && test -e b'\ntrue\n",
    );
    assert_eq!(world.end(id).summary.state, JobState::Failed, "mkdir a/b fails each time");
    let id = world.submit("#!/bin/sh\n#STAGEIN -retry 5\n#STAGEIN sh -c 'test -e c || { touch c; exit 1; }'\ntrue\n");
    let detail = world.end(id);
    assert_eq!(detail.summary.state, JobState::Completed);
    assert_eq!(detail.parts[0].steps[0].attempts, 2);
}

/// [S-063]
#[test]
fn what_cannot_pass_is_tried_once_and_a_cancel_ends_a_pause() {
    let world = World::new();
    let id = world.submit("#!/bin/sh\n#STAGEIN -retry 5\n#STAGEIN sh -c 'echo x >> gone; exit 127'\ntrue\n");
    let detail = world.end(id);
    assert_eq!((detail.summary.state, world.read("gone").unwrap().lines().count()), (JobState::Failed, 1));
    // The pause is at most a minute. The first pause here is longer than any test waits.
    let world = World::tuned(2, |config| config.retry_pause_ms = 3_600_000);
    let id = world.submit("#!/bin/sh\n#STAGEIN -retry 5\n#STAGEIN sh -c 'echo x >> tries; exit 1'\ntrue\n");
    while world.read("tries").is_none() {
        std::thread::yield_now();
    }
    world.runner.cancel(me(), id).unwrap();
    let detail = world.end(id);
    assert_eq!((detail.summary.state, world.read("tries").unwrap().lines().count()), (JobState::Cancelled, 1));
}

#[test]
fn data_that_cannot_be_mended_keep_the_job_from_running() {
    let world = World::new();
    *world.volume.check.lock().unwrap() = Err("mnt/x lost 3 stripes and has no source".into());
    let id = world.submit("#!/bin/sh\n#STAGEIN cp /dev/null HOME/../mnt/x\ntouch ran\n");
    let detail = world.end(id);
    assert_eq!(detail.summary.state, JobState::Failed);
    assert!(detail.summary.why.unwrap().contains("lost 3 stripes"));
    assert_eq!(world.read("ran"), None);
}

#[test]
fn a_failed_script_keeps_its_results_where_they_are() {
    let world = World::new();
    let id = world.submit("#!/bin/sh\n#STAGEOUT touch taken\necho broken >&2; exit 3\n");
    let detail = world.end(id);
    assert_eq!(detail.summary.state, JobState::Failed);
    assert_eq!(detail.summary.why.unwrap(), "the script exited with status 3; its output: broken");
    assert_eq!(world.read("taken"), None);
}

#[test]
fn cancelling_ends_all_processes_even_those_that_hide() {
    let world = World::new();
    world.fifo("pids");
    let id = world.submit(
        "#!/bin/bash\n#STAGEOUT touch never\ntrap '' TERM\nsetsid sleep 1000 & a=$!\n(setsid sleep 1000 & echo $! > b; wait) & sleep 1000 &\n\
         until test -s b; do sleep 0.01; done\necho $$ $a $(cat b) $! > pids\nwhile true; do wait; done\n",
    );
    let pids = world.hear("pids");
    assert_eq!(pids.split(' ').count(), 4);
    assert!(pids.split(' ').all(is_alive), "{pids}");
    world.runner.cancel(me(), id).unwrap();
    let detail = world.end(id);
    assert_eq!(detail.summary.state, JobState::Cancelled);
    assert!(!pids.split(' ').any(is_alive), "{pids}");
    assert_eq!(world.read("never"), None);
    assert!(matches!(world.runner.cancel(me(), id), Err(Error::Refused { .. })), "it ended already");
}

#[test]
fn a_waiting_job_can_be_cancelled_and_never_runs() {
    let world = World::tuned(1, |_| {});
    world.fifo("go");
    let first = world.submit("#!/bin/sh\nread line < go\n");
    let second = world.submit("#!/bin/sh\ntouch ran\n");
    assert_eq!(world.runner.show(me(), second).unwrap().summary.state, JobState::Queued);
    world.runner.cancel(me(), second).unwrap();
    assert_eq!(world.end(second).summary.state, JobState::Cancelled);
    world.tell("go");
    assert_eq!(world.end(first).summary.state, JobState::Completed);
    assert_eq!(world.read("ran"), None);
}

#[test]
fn a_machine_lends_each_core_once_and_in_turn() {
    let world = World::tuned(1, |_| {});
    let script = "#!/bin/sh\nmkdir busy || exit 1\necho $ENTREPOT_JOB_ID >> done\nrmdir busy\n";
    let ids: Vec<JobId> = (0..5).map(|_| world.submit(script)).collect();
    for id in ids {
        assert_eq!(world.end(id).summary.why, None);
    }
    assert_eq!(world.read("done").unwrap(), "1\n2\n3\n4\n5\n");
}

/// [S-062]
#[test]
fn a_short_job_overtakes_only_where_the_first_in_line_loses_nothing() {
    let world = World::tuned(2, |_| {});
    world.fifo("go");
    let submit = |script: &str, cores, walltime_s| {
        let mut request = world.request(script);
        (request.overrides.cores, request.overrides.walltime_s) = (Some(cores), Some(walltime_s));
        world.runner.submit(me(), request).unwrap().id
    };
    let holds = submit("#!/bin/sh\nread line < go\n", 1, 3600);
    let wide = submit("#!/bin/sh\necho wide >> order\n", 2, 3600);
    let long = submit("#!/bin/sh\necho long >> order\n", 1, 36_000);
    let short = submit("#!/bin/sh\necho short >> order\n", 1, 60);
    assert_eq!(world.end(short).summary.state, JobState::Completed, "fits beside the first and ends in time");
    for waiting in [wide, long] {
        assert_eq!(world.runner.show(me(), waiting).unwrap().summary.state, JobState::Queued);
    }
    world.tell("go");
    for id in [holds, wide, long] {
        assert_eq!(world.end(id).summary.state, JobState::Completed);
    }
    assert_eq!(world.read("order").unwrap(), "short\nwide\nlong\n");
}

#[test]
fn the_word_entrepot_is_this_binary() {
    let world = World::new();
    let id = world.submit("#!/bin/sh\n#STAGEIN entrepot stage in http://h/x ../mnt/x\ntrue\n");
    let why = world.end(id).summary.why.unwrap();
    assert!(why.contains("line 2: entrepot stage in") && why.contains("usage: job_exec"), "{why}");
}

#[test]
fn a_job_that_runs_too_long_is_stopped() {
    let world = World::new();
    let mut request = world.request("#!/bin/sh\nexec sleep 1000\n");
    request.overrides.walltime_s = Some(1);
    let id = world.runner.submit(me(), request).unwrap().id;
    let detail = world.end(id);
    assert_eq!(detail.parts[0].ending, Ending::OutOfTime { walltime_s: 1 });
    assert!(detail.summary.why.unwrap().contains("ran longer than its 1 s"));
}

#[test]
fn what_a_script_leaves_behind_is_ended_with_it() {
    let world = World::new();
    let id = world.submit("#!/bin/bash\nsetsid sleep 1000 & echo $! > pid\n");
    assert_eq!(world.end(id).summary.state, JobState::Completed);
    assert!(!is_alive(world.read("pid").unwrap().trim()));
}

/// [S-061]
#[test]
fn a_restart_adopts_what_runs() {
    let mut world = World::tuned(1, |_| {});
    for fifo in ["started", "go"] {
        world.fifo(fifo);
    }
    let first =
        world.submit("#!/bin/sh\n#STAGEOUT cp ran home-again\necho x >> ran\necho 1 > started\nread line < go\n");
    let second = world.submit("#!/bin/sh\necho second >> ran\n");
    world.hear("started");
    world.restart();
    assert_eq!(world.runner.show(me(), first).unwrap().summary.state, JobState::Running);
    assert_eq!(world.runner.show(me(), second).unwrap().summary.state, JobState::Queued, "its core is not lent twice");
    world.tell("go");
    assert_eq!(world.end(first).summary.state, JobState::Completed);
    assert_eq!(world.end(second).summary.state, JobState::Completed);
    assert_eq!(world.read("ran").unwrap(), "x\nsecond\n", "each ran once");
    assert!(world.read("home-again").is_some());
}

/// [S-061]
#[test]
fn a_restart_learns_of_what_ended_meanwhile_and_can_cancel_what_it_adopted() {
    let mut world = World::new();
    for fifo in ["a1", "a2", "b1", "b2"] {
        world.fifo(fifo);
    }
    let ended = world.submit("#!/bin/sh\n#STAGEOUT touch taken\necho 1 > a1\nread line < a2\n");
    let cancelled = world.submit("#!/bin/sh\necho $$ > b1\nread line < b2\n");
    world.hear("a1");
    let pid = world.hear("b1");
    world.stop();
    let supervisor = supervisor_of(&world, ended);
    world.tell("a2");
    while is_alive(&supervisor) {
        std::thread::yield_now();
    }
    world.start();
    assert_eq!(world.end(ended).summary.state, JobState::Completed);
    assert!(world.read("taken").is_some());
    world.runner.cancel(me(), cancelled).unwrap();
    assert_eq!(world.end(cancelled).summary.state, JobState::Cancelled);
    assert!(!is_alive(&pid));
}

#[test]
fn a_daemon_that_died_before_it_started_a_part_starts_it_later() {
    for (state, phase) in [("running", "started"), ("checking", "checking"), ("queued", "waiting")] {
        let mut world = World::tuned(1, |_| {});
        world.fifo("go");
        let holds = world.submit("#!/bin/sh\nread line < go\n");
        let id = world.submit("#!/bin/sh\necho x >> ran\n");
        world.stop();
        let (key, bytes) = world.state.records("job").unwrap().pop().unwrap();
        let mut record: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(record["id"], serde_json::json!(id));
        record["phase"] = state.into();
        record["parts"][0]["phase"] = phase.into();
        world.state.record_put("job", &key, record.to_string().as_bytes()).unwrap();
        world.start();
        world.tell("go");
        for id in [holds, id] {
            assert_eq!(world.end(id).summary.why, None, "{phase}");
        }
        assert_eq!(world.read("ran").unwrap(), "x\n", "{phase}");
    }
}

/// The process number of a running compute part's supervisor.
fn supervisor_of(world: &World, id: JobId) -> String {
    let file = world.dir.path().join("jobs").join(id.to_string()).join("compute.pid");
    let noted: jobs::exec::Processes = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    noted.supervisor.pid.to_string()
}

#[test]
fn a_killed_supervisor_fails_its_job_and_its_processes_do_not_stay() {
    let world = World::new();
    world.fifo("pid");
    let id = world.submit("#!/bin/sh\necho $$ > pid\nexec sleep 1000\n");
    let pid = world.hear("pid");
    let supervisor: i32 = supervisor_of(&world, id).parse().unwrap();
    jobs::exec::process::signal_all(&[supervisor], rustix::process::Signal::KILL);
    let detail = world.end(id);
    assert_eq!(detail.summary.state, JobState::Failed);
    assert!(detail.summary.why.unwrap().contains("supervisor was killed"));
    while is_alive(&pid) {
        std::thread::yield_now();
    }
}

#[test]
fn old_jobs_are_forgotten_and_numbers_are_not_used_again() {
    let mut world = World::tuned(2, |config| config.retention.per_user.n_max = 2);
    let ids: Vec<JobId> = (0..4).map(|_| world.submit("#!/bin/sh\n")).inspect(|id| drop(world.end(*id))).collect();
    let kept = |world: &World| world.runner.list(me(), List { all: true }).iter().map(|job| job.id).collect::<Vec<_>>();
    assert_eq!(kept(&world), ids[2..]);
    assert_eq!(std::fs::read_dir(world.dir.path().join("jobs")).unwrap().count(), 2);
    world.restart();
    assert_eq!(kept(&world), ids[2..]);
    assert_eq!(world.submit("#!/bin/sh\n"), JobId(5));
}

#[test]
fn old_jobs_are_forgotten_by_the_bytes_of_their_logs() {
    let world = World::tuned(2, |config| config.retention.per_user.bytes_max = 250_000);
    let script = "#!/bin/sh\nhead -c 100000 /dev/zero\n";
    let ids: Vec<JobId> = (0..4).map(|_| world.submit(script)).inspect(|id| drop(world.end(*id))).collect();
    let kept = world.runner.list(me(), List { all: true }).iter().map(|job| job.id).collect::<Vec<_>>();
    assert_eq!(kept, ids[2..]);
}

#[test]
fn logs_stop_at_their_limit() {
    let world = World::tuned(2, |config| config.log_bytes_max = 1000);
    let id = world.submit("#!/bin/sh\nhead -c 1000000 /dev/zero | tr '\\0' x\n");
    assert_eq!(world.end(id).summary.state, JobState::Completed);
    let log = world.log(id, PartKind::Compute, Stream::Out);
    assert!(log.starts_with(&"x".repeat(1000)) && log.len() < 1200, "{} bytes", log.len());
    assert!(log.contains("the rest was dropped"));
}

#[test]
fn jobs_of_a_state_store_that_was_lost_keep_their_directories() {
    let mut world = World::new();
    let first = world.submit("#!/bin/sh\necho first\n");
    world.end(first);
    world.stop();
    world.state = std::sync::Arc::new(meta::state::SqliteState::in_memory().unwrap());
    world.start();
    let second = world.submit("#!/bin/sh\necho second\n");
    assert_eq!((first, second), (JobId(1), JobId(2)));
    assert_eq!(world.end(second).summary.state, JobState::Completed);
    let log = world.dir.path().join("jobs/1/compute.out");
    assert_eq!(std::fs::read_to_string(log).unwrap(), "first\n");
}

#[test]
fn the_queue_says_who_runs_who_waits_until_when_and_for_which_files() {
    let world = World::tuned(2, |_| ());
    world.fifo("go");
    let head = "#!/bin/sh\n#ENTREPOT -n 2 -t 60\n";
    let first = world.submit(&format!("{head}cat go\n"));
    let second = world.submit(&format!("{head}#STAGEIN touch ../mnt/input\n#STAGEIN cp x ../mnt/y\ntrue\n"));
    let third = world.submit(&format!("{head}true\n"));
    world.tell("go");
    // Snapshots before and after the end of the first job: each shows the queue at its moment.
    let before = world.runner.snapshot().unwrap();
    assert_eq!(before.nodes, 2);
    let at = |id: JobId| before.jobs.iter().position(|job| job.id == id.to_string());
    if let (Some(a), Some(b)) = (at(first), at(third)) {
        assert!(a < b, "{before:?}");
        if before.jobs[a].state == jobs::queue::State::Running {
            let (runs, waits) = (&before.jobs[a], &before.jobs[b]);
            assert_eq!(waits.waits_for, jobs::queue::WaitsFor::Nodes);
            assert!(waits.start_ms >= runs.start_ms.map(|at| at + 3_600_000), "an hour after the first: {before:?}");
        }
    }
    if let Some(b) = at(second) {
        assert_eq!(before.jobs[b].inputs.len(), 1, "cp x ../mnt/y: {before:?}");
    }
    for id in [first, second, third] {
        world.end(id);
    }
    assert!(world.runner.snapshot().unwrap().jobs.is_empty());
}

/// [S-069]
#[test]
fn a_failed_stage_out_is_taken_up_again_when_its_owner_says_so() {
    let mut world = World::new();
    let id = world.submit("#!/bin/sh\n#STAGEOUT sh -c 'echo x >> out; test -e ok'\necho x >> ran\n");
    let detail = world.end(id);
    assert_eq!(detail.summary.state, JobState::Failed);
    let state = |detail: JobDetail| detail.summary.state;
    assert!(world.runner.retry(Caller { uid: 7, gid: 7 }, again(id)).is_err(), "somebody else's");
    world.runner.retry(me(), again(id)).unwrap();
    assert_eq!(state(world.end(id)), JobState::Failed, "the cause is still there");
    world.restart();
    std::fs::write(world.home().join("ok"), "").unwrap();
    world.runner.retry(me(), again(id)).unwrap();
    assert_eq!(state(world.end(id)), JobState::Completed);
    assert_eq!((world.read("out").unwrap().lines().count(), world.read("ran").unwrap().lines().count()), (3, 1));
    let refused = world.runner.retry(me(), again(id)).unwrap_err().to_string();
    assert!(refused.contains("no part of job 1 has failed"), "{refused}");
    let spool = world.dir.path().join("jobs/1");
    assert!(!spool.join("stage-out.spec").exists(), "its environment is not kept any longer");
}

/// [S-068]
#[test]
fn a_job_whose_data_come_says_how_far_they_are() {
    let world = World::new();
    world.fifo("go");
    let id = world.submit("#!/bin/sh\n#STAGEIN cp /dev/null HOME/../mnt/x\n#STAGEIN sh -c 'read x < go'\ntrue\n");
    let listed = || world.runner.list(me(), List { all: true }).remove(0);
    while listed().state != JobState::StagingIn {
        std::thread::yield_now();
    }
    assert_eq!(listed().staging, Some(Staging { done_bytes: 1, total_bytes: 4, left_s: None }));
    world.tell("go");
    assert_eq!(world.end(id).summary.staging, None);
}

#[test]
fn a_job_names_its_host_on_a_volume_of_several_nodes() {
    let world = World::tuned(2, |config| {
        let state = Arc::new(SqliteState::in_memory().unwrap());
        config.known = Some(Arc::new(KnownJobs::new(state, "n1", "east")));
    });
    let id = world.submit("#!/bin/sh\ntrue\n");
    let shown = world.end(id).summary;
    assert_eq!(shown.host.as_deref(), Some("east"));
    assert_eq!(world.runner.list(me(), List { all: true }).pop().as_ref(), Some(&shown));
    assert_eq!(world.runner.watch(me(), id, &mut |_| true).unwrap().summary, shown);
}
