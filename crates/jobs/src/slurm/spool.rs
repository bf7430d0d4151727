//! Directories of the files of Slurm's jobs and their transfers: `STATE/jobs/slurm/job-N` and `STATE/jobs/slurm/N`.

use crate::account::make_dir;
use crate::config::Config;
use crate::exec::{self, Spec};
use crate::request::JobId;
use std::path::PathBuf;

fn root(config: &Config) -> PathBuf {
    config.jobs_dir.join("slurm")
}

/// Makes the parent directory of all jobs and transfers.
pub(super) fn prepare(config: &Config) -> std::io::Result<()> {
    make_dir(&root(config))
}

/// Common fields of the transfers of a job: owner, directory, environment. Holds secrets, hence mode 0600.
pub(super) fn put_base(config: &Config, job: JobId, base: &Spec) -> std::io::Result<()> {
    let dir = root(config).join(format!("job-{job}"));
    make_dir(&dir)?;
    exec::write_whole(&dir.join("base"), &serde_json::to_vec(base)?)
}

pub(super) fn base(config: &Config, job: JobId) -> std::io::Result<Spec> {
    let bytes = std::fs::read(root(config).join(format!("job-{job}")).join("base"))?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// Removes the common fields, with the environment, of a job whose staging is over.
pub(super) fn forget_base(config: &Config, job: JobId) {
    let _ = std::fs::remove_dir_all(root(config).join(format!("job-{job}")));
}

pub(super) fn dir(config: &Config, transfer: u64) -> PathBuf {
    root(config).join(transfer.to_string())
}
