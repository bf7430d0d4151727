//! Jobs with open files that have a replica, found from the environment of the process that opens.
//!
//! A scheduler sets the number of the job in each of its processes. A process may write any number into its
//! environment, so a number counts only together with the user. A false number affects only that user's jobs. A process
//! without a number (an interactive `cat`, a cleared environment, an export to another node) belongs to no job, and its
//! opens and closes are not counted.

use engine::file::File;
use parking_lot::Mutex;
use policy::FileId;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

/// Environment variables with the number of the job, of the built-in runner, Slurm and PBS.
pub const JOB_VARIABLES: [&str; 3] = ["ENTREPOT_JOB_ID", "SLURM_JOB_ID", "PBS_JOBID"];
/// Maximum length of a job number. No scheduler uses longer ones.
const JOB_BYTES_MAX: usize = 128;
/// Maximum of bytes read from an environment: the kernel's limit of one argument list.
const ENVIRONMENT_BYTES_MAX: u64 = 6 << 20;
/// Maximum of jobs recorded for one file. Copies for further jobs stay until these jobs end.
const JOBS_MAX: usize = 4096;

/// A job, as identified by its processes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Job {
    uid: u32,
    variable: &'static str,
    number: String,
}

/// Number of open handles of each job; 0 after it closed the file.
type Opens = BTreeMap<Job, u64>;

/// The opens of files with a replica.
#[derive(Clone, Default)]
pub struct Uses {
    files: Arc<Mutex<BTreeMap<FileId, Opens>>>,
}

/// An open; ends when dropped.
pub struct FileUse {
    uses: Uses,
    file: FileId,
    jobs: Vec<Job>,
}

impl Uses {
    /// Starts counting opens of a file that has a replica.
    pub fn watch(&self, file: FileId) {
        self.files.lock().entry(file).or_default();
    }

    /// Stops counting opens of a file without a replica.
    pub fn forget(&self, file: FileId) {
        self.files.lock().remove(&file);
    }

    /// Whether processes of a job opened the file since it has a replica, and all have closed it.
    pub fn has_closed(&self, file: FileId, variable: &str, number: &str, uid: u32) -> bool {
        let files = self.files.lock();
        let is_it = |job: &Job| job.uid == uid && job.variable == variable && job.number == number;
        files.get(&file).is_some_and(|opens| opens.iter().any(|(job, open)| is_it(job) && *open == 0))
    }

    /// Counts an open by a process, which waits for that. The open ends when the result is dropped.
    pub fn opened(&self, file: &File, uid: u32, pid: u32) -> Option<FileUse> {
        let id = file.id().filter(|id| self.files.lock().contains_key(id))?;
        let jobs = jobs_of(uid, pid);
        let mut files = self.files.lock();
        let opens = files.get_mut(&id)?;
        let (mut counted, room) = (Vec::new(), JOBS_MAX.saturating_sub(opens.len()));
        for (n, job) in jobs.into_iter().enumerate() {
            if n < room || opens.contains_key(&job) {
                *opens.entry(job.clone()).or_default() += 1;
                counted.push(job);
            }
        }
        Some(FileUse { uses: self.clone(), file: id, jobs: counted })
    }
}

impl Drop for FileUse {
    fn drop(&mut self) {
        let mut files = self.uses.files.lock();
        let Some(opens) = files.get_mut(&self.file) else { return };
        for job in &self.jobs {
            if let Some(open) = opens.get_mut(job) {
                *open = open.saturating_sub(1);
            }
        }
    }
}

/// Jobs named in a process's environment. The process waits for the reply to its open, so it still exists.
fn jobs_of(uid: u32, pid: u32) -> Vec<Job> {
    // The process number is 0 if the process is in another PID namespace.
    let mut environment = Vec::new();
    let file = std::fs::File::open(format!("/proc/{pid}/environ")).ok().filter(|_| pid != 0);
    if file.is_none_or(|file| file.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut environment).is_err()) {
        return Vec::new();
    }
    let job = |line: &[u8]| {
        let (name, number) = std::str::from_utf8(line).ok()?.split_once('=')?;
        let variable = JOB_VARIABLES.into_iter().find(|variable| *variable == name)?;
        let plain = !number.is_empty() && number.len() <= JOB_BYTES_MAX;
        plain.then(|| Job { uid, variable, number: number.to_string() })
    };
    environment.split(|byte| *byte == 0).filter_map(job).take(JOB_VARIABLES.len()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::stage::world::World;
    use std::process::{Child, Command};

    /// A process with that environment.
    fn process(variable: &str, number: &str) -> Child {
        Command::new("sleep").arg("600").env_clear().env(variable, number).spawn().expect("sleep")
    }

    /// [S-186]
    #[test]
    fn only_a_jobs_own_opens_and_closes_count() {
        let world = World::new();
        world.memory.add("mem://h/a", &engine::source::memory::data(1 << 20, 1));
        world.stage(&["mem://h/a"], "a").expect("staged");
        let (_, files) = world.parts();
        let file = files.get_or_open(std::fs::File::open(world.tree.join("a")).expect("there").into()).expect("opens");
        let id = file.id().expect("laid out");
        let (mut ours, mut other) = (process("SLURM_JOB_ID", "77"), process("SLURM_JOB_ID", "78"));
        let (uses, uid) = (Uses::default(), 7);
        let closed = |job: &str| uses.has_closed(id, "SLURM_JOB_ID", job, uid);

        assert!(uses.opened(&file, uid, ours.id()).is_none(), "nobody keeps a copy of it");
        uses.watch(id);
        drop(uses.opened(&file, uid, std::process::id()).expect("an open of nobody's job"));
        drop(uses.opened(&file, uid, other.id()));
        drop(uses.opened(&file, 8, ours.id()));
        drop(uses.opened(&file, uid, 0));
        assert!(closed("78") && !closed("77"), "not by another job, nor by another user who says so");
        assert!(!uses.has_closed(id, "PBS_JOBID", "78", uid), "another scheduler's number");
        let first = uses.opened(&file, uid, ours.id());
        let second = uses.opened(&file, uid, ours.id());
        drop(first);
        assert!(!closed("77"), "another process of it reads");
        drop(second);
        assert!(closed("77"));
        uses.forget(id);
        assert!(!closed("77"));
        for child in [&mut ours, &mut other] {
            child.kill().expect("killed");
            child.wait().expect("gone");
        }
    }
}
