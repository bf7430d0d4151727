//! Arrays and jobs that depend on others in a real Slurm with the hooks, and a job that is watched.

use crate::World;
use crate::real::{code, err, out, until};

/// Slurm makes one job after the other of them, so each has its data.
pub fn each_job_has_its_data(world: &World) {
    let data = world.put("array", 5_000, 21);
    let (home, dir) = (world.cluster.home.display(), world.dir.display());
    let script =
        world.script(&world.nginx.uri("array"), "array", &format!("cp {dir}/array {home}/array-$SLURM_ARRAY_TASK_ID"));
    let submitted = world.cluster.sbatch("array.sh", &script.replace("-n 1", "-n 1 --array=1-2"));
    assert_eq!(code(&submitted), 0, "{}{}", out(&submitted), err(&submitted));
    for task in 1..=2 {
        let copy = world.cluster.home.join(format!("array-{task}"));
        until("its copy is whole", || std::fs::read(&copy).is_ok_and(|copied| copied == data));
    }
    until("both are over", || out(&world.cluster.run(None, &["squeue", "-h", "-n", "array.sh"])).is_empty());
}

/// A job that waits for another's results finds them, though they leave after the other's script has ended; users see
/// the progress of each.
pub fn a_job_waits_for_the_results_of_another(world: &World) {
    let (home, dir) = (world.cluster.home.display(), world.dir.display());
    let first = format!(
        "#!/bin/bash\n#SBATCH -n 1 -t 5 -o {home}/%j.out\n#STAGEOUT entrepot stage out --limit 2MiB/s {dir}/first file://{home}/first\n\
         head -c 8000000 /dev/zero > {dir}/first\n"
    );
    let first = world.cluster.submit("first.sh", &first);
    let second = format!(
        "#!/bin/bash\n#SBATCH -n 1 -t 5 -o {home}/%j.out --dependency=afterburstbuffer:{first}\n\
         #STAGEIN entrepot stage in file://{home}/first {dir}/second\nstat -c %s {dir}/second > {home}/second\n"
    );
    let second = world.cluster.submit("second.sh", &second);
    let watched = world.user(&["slurm", "watch", &first.to_string()]);
    assert_eq!(code(&watched), 0, "{}{}", out(&watched), err(&watched));
    let lines = out(&watched);
    assert!(lines.contains("staging-out") && lines.contains("held to 2.0 MiB/s by --limit"), "{lines}");
    assert!(lines.trim_end().lines().last().is_some_and(|line| line.contains("completed")), "{lines}");
    let watched = world.user(&["slurm", "watch", &second.to_string()]);
    assert_eq!(code(&watched), 0, "{}{}", out(&watched), err(&watched));
    let said = world.cluster.home.join("second");
    until("the second found all of it", || std::fs::read_to_string(&said).is_ok_and(|text| text == "8000000\n"));
}
