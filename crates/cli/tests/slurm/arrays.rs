//! Arrays of jobs in a real Slurm with the hooks.

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
