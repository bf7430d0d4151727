//! Transfers of jobs that Slurm handed over: how many run at once, and which ones wait for others.

use crate::world::{World, me};
use jobs::Config;
use jobs::request::*;
use jobs::slurm::Slurm;
use jobs::slurm::wire::{SetUp, Standing};
use std::sync::Arc;

/// The hooks' side over the runner's directories and state. The command `sh -c SCRIPT NAME PATH` creates the path.
pub fn slurm(world: &World, n_transfers_max: u32) -> Slurm {
    let mut config = Config::new(world.dir.path().join("jobs")).unwrap();
    (config.program, config.supervisor_args) = (crate::world::supervisor(), Vec::new());
    (config.retry_pause_ms, config.n_transfers_max) = (1, n_transfers_max);
    let recogniser = |argv: &[String]| match argv {
        [_, _, _, name, path] => vec![NamedSource { uri: format!("file:///{name}"), path: path.clone() }],
        _ => Vec::new(),
    };
    Slurm::open(config, "", world.state.clone(), world.volume.clone(), Arc::new(recogniser)).unwrap()
}

/// Slurm sets up a job and requests its data.
pub fn hand_over(slurm: &Slurm, world: &World, job: u64, script: &str) -> JobId {
    let home = world.home().display().to_string();
    let path = std::env::var("PATH").unwrap();
    let set_up = SetUp {
        job: JobId(job),
        uid: me().uid,
        gid: me().gid,
        script: Script::Text(script.replace("HOME", &home)),
        environment: [("SLURM_SUBMIT_DIR".to_string(), home), ("PATH".to_string(), path)].into(),
        conf: None,
    };
    slurm.set_up(set_up).unwrap();
    slurm.data_in(JobId(job)).unwrap();
    JobId(job)
}

/// Waits until the stage-in of a job has succeeded or failed.
pub fn brought(slurm: &Slurm, job: JobId) -> Standing {
    loop {
        match slurm.data_in(job).unwrap() {
            Standing::UnderWay => std::thread::yield_now(),
            over => return over,
        }
    }
}

#[test]
fn two_transfers_that_bring_the_same_file_run_one_after_the_other() {
    let world = World::new();
    let slurm = slurm(&world, 2);
    ["first", "second"].iter().for_each(|name| world.fifo(name));
    let script = |name: &str, file: &str| {
        format!(
            "#!/bin/sh\n#STAGEIN sh -c 'read line < HOME/{name}; echo {name} >> HOME/order' {name} HOME/../mnt/{file}\n"
        )
    };
    let first = hand_over(&slurm, &world, 1, &script("first", "data"));
    let second = hand_over(&slurm, &world, 2, &script("second", "data"));
    // A slot is free for a transfer that delays no other.
    let other =
        hand_over(&slurm, &world, 3, "#!/bin/sh\n#STAGEIN sh -c 'echo other >> HOME/order' other HOME/../mnt/b\n");
    assert!(matches!(brought(&slurm, other), Standing::Done { .. }));
    let doing = |job| slurm.list(me(), true).into_iter().find(|line| line.job == job).unwrap().doing;
    assert_eq!((doing(first), doing(second)), ("command 1 of 1".into(), "command 1 of 1, waits for others".into()));
    world.tell("first");
    assert!(matches!(brought(&slurm, first), Standing::Done { .. }));
    world.tell("second");
    assert!(matches!(brought(&slurm, second), Standing::Done { .. }));
    assert_eq!(world.read("order").unwrap(), "other\nfirst\nsecond\n");
}

#[test]
fn a_transfer_that_no_job_needs_any_more_gives_its_place_to_the_next() {
    let world = World::new();
    let slurm = slurm(&world, 1);
    world.fifo("never");
    hand_over(&slurm, &world, 1, "#!/bin/sh\n#STAGEIN sh -c 'read line < HOME/never'\n");
    let next = hand_over(&slurm, &world, 2, "#!/bin/sh\n#STAGEIN true\n");
    assert_eq!(slurm.data_in(next).unwrap(), Standing::UnderWay);
    // The job starts again with another script: its first transfer is not needed any more.
    hand_over(&slurm, &world, 1, "#!/bin/sh\n#STAGEIN echo\n");
    for job in [next, JobId(1)] {
        assert!(matches!(brought(&slurm, job), Standing::Done { .. }));
    }
}
