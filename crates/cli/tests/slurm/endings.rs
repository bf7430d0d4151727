//! Faults in each phase of a job: no partial file goes home, and no job is stuck.

use super::World;
use crate::cluster::USER;
use crate::real::{code, err, out, until_within};
use std::path::PathBuf;

const YESTERDAY: &str = "the good result of yesterday";

/// Phase of a job in which the fault comes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Pending,
    StagingIn,
    Running,
    StagingOut,
}

/// Injected fault of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Cancel,
    Requeue,
    TimeLimit,
    NodeDown,
}

struct Case {
    phase: Phase,
    fault: Fault,
    job: u64,
    name: String,
}

impl Case {
    /// A script writes a half, then waits for a file, then writes the whole.
    fn submit(world: &World, phase: Phase, fault: Fault, round: u32) -> Case {
        let name = format!("{phase:?}-{fault:?}-{round}").to_lowercase();
        let (home, dir) = (world.cluster.home.display(), world.dir.display());
        std::fs::write(home_of(world, &name), YESTERDAY).expect("write");
        std::os::unix::fs::chown(home_of(world, &name), Some(USER), Some(USER)).expect("chown");
        let more = match phase {
            Phase::Pending => "--begin=now+1hour",
            // The node that is set down has the jobs of that case alone.
            _ if fault == Fault::NodeDown => "-w n2",
            _ => "-w n1",
        };
        let stage_in = match phase {
            Phase::StagingIn => {
                format!("#STAGEIN entrepot stage in {} {dir}/{name}.in\n", world.nginx.uri("trickle/faults"))
            }
            _ => String::new(),
        };
        // Results take a while: long enough for a fault on the way.
        let slow = if phase == Phase::StagingOut { " --limit 1MiB/s" } else { "" };
        let script = format!(
            "#!/bin/bash\n#SBATCH -n 1 -t 5 -o {home}/%j.out {more}\n{stage_in}\
             #STAGEOUT entrepot stage out{slow} {dir}/{name} file://{home}/{name}\n\
             echo PARTIAL > {dir}/{name}\nuntil [ -e {home}/{name}.go ]; do sleep 0.1; done\n\
             {{ echo WHOLE; head -c 6000000 /dev/zero; }} > {dir}/{name}\n"
        );
        if phase == Phase::StagingOut {
            let_go(world, &name);
        }
        let job = world.cluster.submit(&format!("{name}.sh"), &script);
        Case { phase, fault, job, name }
    }

    fn reach(&self, world: &World) {
        match self.phase {
            // Slurm need not have handed it over yet.
            Phase::Pending => {}
            Phase::StagingIn => world.until_phase(self.job, "staging-in"),
            Phase::Running => {
                world.until_state(self.job, "RUNNING");
                until_within(60, "the half is written", || world.dir.join(&self.name).exists());
            }
            Phase::StagingOut => world.until_phase(self.job, "staging-out"),
        }
    }

    fn inject(&self, world: &World) {
        let id = self.job.to_string();
        let now = || out(&world.cluster.run(None, &["date", "-u", "+%FT%T", "-d", "now + 1 second"])).trim().to_owned();
        let done = match self.fault {
            Fault::Cancel => world.cluster.run(Some(USER), &["scancel", &id]),
            Fault::Requeue => world.cluster.run(Some(USER), &["scontrol", "requeue", &id]),
            Fault::TimeLimit => {
                let end = format!("EndTime={}", now());
                world.cluster.run(None, &["scontrol", "update", &format!("JobId={id}"), &end])
            }
            Fault::NodeDown => {
                world.cluster.run(None, &["scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=test"])
            }
        };
        assert_eq!(code(&done), 0, "{:?} {:?}: {}", self.phase, self.fault, err(&done));
    }

    /// Whether Slurm runs the job again after the fault.
    fn runs_again(&self) -> bool {
        matches!(self.fault, Fault::Requeue | Fault::NodeDown)
    }

    fn check(&self, world: &World) {
        let what = format!("{:?} {:?} of job {}", self.phase, self.fault, self.job);
        let at_home = || std::fs::read_to_string(home_of(world, &self.name)).expect("a file at home");
        if self.runs_again() {
            assert!(!at_home().starts_with("PARTIAL"), "{what}");
            let_go(world, &self.name);
            // Slurm itself waits for two minutes.
            until_within(60, &format!("{what}: it is released"), || {
                let id = self.job.to_string();
                world.cluster.state(self.job) != "PENDING" || code(&world.user(&["slurm", "retry", &id])) == 0
            });
            until_within(120, &format!("{what}: it runs to its end"), || world.cluster.state(self.job) == "COMPLETED");
            world.until_phase(self.job, "completed");
            assert!(at_home().starts_with("WHOLE"), "{what}");
            return;
        }
        until_within(120, &format!("{what}: it is over in Slurm"), || {
            ["CANCELLED", "TIMEOUT", "COMPLETED"].contains(&world.cluster.state(self.job).as_str())
        });
        let phase = || world.job(self.job)["phase"].clone();
        // A job that was cancelled before Slurm handed it over is unknown here.
        until_within(150, &format!("{what}: it is over here"), || {
            phase().is_null() || ["completed", "cancelled"].iter().any(|over| phase() == *over)
        });
        // Cancelled on the way home it had ended well.
        let expected = if self.phase == Phase::StagingOut { "WHOLE" } else { YESTERDAY };
        assert!(at_home().starts_with(expected), "{what}");
    }
}

fn home_of(world: &World, name: &str) -> PathBuf {
    world.cluster.home.join(name)
}

fn let_go(world: &World, name: &str) {
    world.signal(&format!("{name}.go"));
}

/// Rounds of `tests/slurm-phases.sh`, which runs nothing else.
pub fn rounds() -> Option<u32> {
    std::env::var("ENTREPOT_SLURM_ROUNDS").ok()?.parse().ok()
}

/// [S-360] [S-361]
pub fn only_whole_results_go_home(world: &World, round: u32) {
    world.put("faults", 20_000_000, 40);
    let cases = [
        (Phase::Running, Fault::TimeLimit),
        (Phase::Running, Fault::Cancel),
        (Phase::Running, Fault::Requeue),
        (Phase::Running, Fault::NodeDown),
        (Phase::StagingIn, Fault::Cancel),
        (Phase::StagingOut, Fault::Cancel),
        (Phase::StagingOut, Fault::Requeue),
        (Phase::Pending, Fault::Cancel),
    ];
    let cases = cases.map(|(phase, fault)| Case::submit(world, phase, fault, round));
    for case in &cases {
        case.reach(world);
        case.inject(world);
    }
    world.cluster.run(None, &["scontrol", "update", "NodeName=n2", "State=RESUME"]);
    cases.iter().for_each(|case| case.check(world));
}

/// [S-361] [S-362]
pub fn a_job_that_cannot_go_on_is_forgotten(world: &World) {
    let job = world.cluster.submit("given-up.sh", &world.script(&world.nginx.uri("never"), "never", "true"));
    // Right after `sbatch`, before Slurm has handed it over.
    let watched = world.user(&["slurm", "watch", &job.to_string()]);
    assert_eq!(code(&watched), 1, "{}{}", out(&watched), err(&watched));
    world.until_held(job);
    let id = job.to_string();
    let binary = world.volume.binary.to_str().expect("UTF-8");
    let toml = world.volume.toml.to_str().expect("UTF-8");
    let stranger = world.cluster.run(Some(1), &[binary, "--volume", toml, "slurm", "forget", &id]);
    assert_eq!(code(&stranger), 5, "not a stranger's: {}", err(&stranger));
    let forgotten = world.user(&["slurm", "forget", &id]);
    assert_eq!(code(&forgotten), 0, "{}", err(&forgotten));
    world.until_state(job, "CANCELLED");
    assert!(world.cluster.ours(&world.volume, job).is_null());
    // A running job cannot be forgotten.
    let home = world.cluster.home.display();
    let body = format!("until [ -e {home}/forget.go ]; do sleep 0.1; done");
    world.put("runs", 1000, 41);
    let job = world.cluster.submit("runs.sh", &world.script(&world.nginx.uri("runs"), "runs", &body));
    world.until_phase(job, "running");
    let id = job.to_string();
    let refused = || err(&world.user(&["slurm", "forget", &id]));
    until_says("cannot be forgotten", refused);
    let_go(world, "forget");
    world.until_state(job, "COMPLETED");
}

/// Waits until an answer has these words.
pub fn until_says(words: &str, says: impl Fn() -> String) {
    let began = std::time::Instant::now();
    while !says().contains(words) {
        assert!(began.elapsed().as_secs() < 60, "{}, not {words}", says());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
