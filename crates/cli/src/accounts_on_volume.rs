//! Owners of jobs on all nodes, for the accounts of the volume.

use jobs::known::KnownJobs;
use jobs::request::JobId;
use jobs::runner::{self, Runner};
use jobs::slurm::{self, Slurm};
use node::daemon::OwnersOf;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};

/// Backend and number of a job from the name in its commands.
fn read(job: &str) -> Option<(&str, JobId)> {
    let (of, id) = job.split_once(' ')?;
    let id = JobId(id.parse().ok()?);
    (of == runner::PREFIX || of == slurm::PREFIX).then_some((of, id))
}

/// Lookup of the owners of jobs, by the names in their commands.
pub fn owners_of(runner: &Arc<Runner>, slurm: &Arc<Slurm>, known: Option<Arc<KnownJobs>>) -> OwnersOf {
    let (runner, slurm): (Weak<Runner>, Weak<Slurm>) = (Arc::downgrade(runner), Arc::downgrade(slurm));
    Arc::new(move |jobs: &BTreeSet<String>| {
        let here = |job: &String| match read(job)? {
            (runner::PREFIX, id) => runner.upgrade()?.owner_of(id),
            (slurm::PREFIX, id) => slurm.upgrade()?.owner_of(id),
            _ => None,
        };
        let mut owners: BTreeMap<String, u32> = jobs.iter().filter_map(|job| Some((job.clone(), here(job)?))).collect();
        let Some(known) = known.as_ref().filter(|_| owners.len() < jobs.len()) else { return owners };
        match known.owners_elsewhere() {
            Ok(elsewhere) => {
                let there = |job: &String| {
                    let (of, id) = read(job)?;
                    let records = if of == runner::PREFIX { Runner::RECORDS } else { Slurm::RECORDS };
                    elsewhere.get(&(records.to_owned(), id)).copied()
                };
                let missing: Vec<&String> = jobs.iter().filter(|job| !owners.contains_key(*job)).collect();
                owners.extend(missing.into_iter().filter_map(|job| Some((job.clone(), there(job)?))));
            }
            Err(error) => {
                tracing::warn!("bytes staged by jobs of other nodes are counted for their users only: {error}")
            }
        }
        owners
    })
}
