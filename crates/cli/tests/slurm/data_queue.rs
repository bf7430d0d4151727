//! The queue without cost: its nodes compute nothing.

use super::World;
use crate::cluster::USER;
use crate::real::{code, err, out};

/// Whatever is no part that the daemon expects of that user is refused.
pub fn takes_data_jobs_only(world: &World) {
    let refused = |partition: &str, script: &str, word: &str| {
        let path = world.cluster.home.join("free.sh");
        std::fs::write(&path, script).expect("script");
        let done = world.cluster.run(Some(USER), &["sbatch", "-p", partition, path.to_str().expect("UTF-8")]);
        assert!(code(&done) != 0 && err(&done).contains(word), "{partition}: {}{}", out(&done), err(&done));
    };
    let own = "#!/bin/sh\nsleep 600\n";
    let forged = "#!/bin/sh\n# The stage-in part of job 1, written by Entrepot.\nsleep 600\n";
    let odd = "#!/bin/sh\n# The stage-$(id) part of job 1, written by Entrepot.\nsleep 600\n";
    for partition in ["dataxfer", "batch,dataxfer"] {
        refused(partition, own, "no data job of Entrepot");
        refused(partition, odd, "no data job of Entrepot");
        refused(partition, forged, "no job 1 of yours");
    }
    let held = world.cluster.submit("held.sh", "#!/bin/bash\n#SBATCH -n 1 -t 5 --hold\nsleep 600\n");
    let job = format!("JobId={held}");
    let moved = world.cluster.run(Some(USER), &["scontrol", "update", &job, "Partition=dataxfer"]);
    assert!(code(&moved) != 0 && world.cluster.queue(held, "%P") == "batch", "{}{}", out(&moved), err(&moved));
    world.cluster.run(None, &["scancel", &held.to_string()]);
    world.until_state(held, "CANCELLED");
}
