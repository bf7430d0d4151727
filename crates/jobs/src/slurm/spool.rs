//! Where jobs of Slurm and their transfers keep their files: `STATE/jobs/slurm/job-N` and `STATE/jobs/slurm/N`.

use crate::account::dir_mode;
use crate::config::Config;
use crate::exec::{self, Spec};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn root(config: &Config) -> PathBuf {
    config.jobs_dir.join("slurm")
}

/// Makes the directory of all.
pub(super) fn prepare(config: &Config) -> std::io::Result<()> {
    make(&root(config))
}

/// Makes a directory that others may pass where they must, and never list.
pub(super) fn make(dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    std::fs::set_permissions(dir, Permissions::from_mode(dir_mode()))
}

/// What the transfers of a job have in common: owner, directory, environment. Holds secrets, hence mode 0600.
pub(super) fn put_base(config: &Config, job: u64, base: &Spec) -> std::io::Result<()> {
    let dir = root(config).join(format!("job-{job}"));
    make(&dir)?;
    exec::write_whole(&dir.join("base"), &serde_json::to_vec(base)?)
}

/// And back.
pub(super) fn base(config: &Config, job: u64) -> std::io::Result<Spec> {
    let bytes = std::fs::read(root(config).join(format!("job-{job}")).join("base"))?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// The job needs nothing more.
pub(super) fn forget_base(config: &Config, job: u64) {
    let _ = std::fs::remove_dir_all(root(config).join(format!("job-{job}")));
}

/// The directory of a transfer.
pub(super) fn dir(config: &Config, transfer: u64) -> PathBuf {
    root(config).join(transfer.to_string())
}
