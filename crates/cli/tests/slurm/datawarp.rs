//! Scripts written for DataWarp in a real Slurm.

use crate::World;
use crate::cluster::USER;
use crate::real::{code, err, out, until};

/// With the hooks and as three dependent jobs alike.
pub fn scripts_run_as_they_are(world: &World) {
    let home = world.cluster.home.display();
    let input = world.cluster.home.join("dw-input");
    std::fs::write(&input, "data").expect("write");
    let text = |name: &str, more: &str| {
        format!(
            "#!/bin/bash\n#SBATCH -n 1 -t 5 -o {home}/%j.out\n#DW jobdw type=scratch capacity=1MiB{more}\n\
             #DW stage_in type=file source={} destination=$DW_JOB_STRIPED/in\n\
             #DW stage_out type=file source=$DW_JOB_STRIPED/out destination={home}/{name}\n\
             cd $DW_JOB_STRIPED && (id -u; cat in; pwd) > out\n",
            input.display()
        )
    };
    let ended = |name: &str, own: &str| {
        let own = world.volume.at.join(".datawarp").join(own);
        let said = std::fs::read_to_string(world.cluster.home.join(name)).expect("the result is home");
        assert_eq!(said, format!("{USER}\ndata{}/striped\n", own.display()));
        until("its directory is gone", || !own.exists());
    };
    let job = world.cluster.submit("dw.sh", &text("dw-hooks", ""));
    world.until_state(job, "COMPLETED");
    ended("dw-hooks", &format!("slurm-{job}"));
    let bad = world.cluster.sbatch("dw-bad.sh", "#!/bin/bash\n#DW swap 1GiB\ntrue\n");
    assert!(code(&bad) != 0 && err(&bad).contains("line 2: #DW swap"), "{}", err(&bad));

    let path = world.cluster.home.join("dw-parts.sh");
    let submit = |text: String| {
        std::fs::write(&path, text).expect("script");
        let path = path.display().to_string();
        world.user(&["job", "submit", "--scheduler", "slurm", "--wait", &path])
    };
    let done = submit(text("dw-parts", ""));
    assert_eq!(code(&done), 0, "{}{}", out(&done), err(&done));
    let number = out(&done).split_whitespace().nth(1).expect("a number").to_string();
    ended("dw-parts", &format!("job-{number}"));
    let refused = submit(text("dw-private", " access_mode=striped,private"));
    assert!(code(&refused) != 0 && err(&refused).contains("access_mode=private"), "{}", err(&refused));
}
