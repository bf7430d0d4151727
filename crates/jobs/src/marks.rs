//! Checkpoints that a script marks: registered in the volume at submission, removed at the end of the job.

use crate::error::{Error, Result};
use crate::plan::paths;
use crate::request::{Caller, Complaint, Plan};
use crate::volume::Volume;
use node::adapt::burst::Mark;
use std::path::Path;

/// Registers the files that a job marks in the volume. Returns warnings for its owner.
///
/// # Errors
/// Files outside the volume, or the error of the volume; then nothing is marked.
pub fn mark(volume: &dyn Volume, owner: Caller, job: &str, plan: &Plan, cwd: &Path) -> Result<Vec<Complaint>> {
    let Some(first) = plan.checkpoints.first() else { return Ok(Vec::new()) };
    let mount = volume.mount_point();
    let (mut marks, mut complaints) = (Vec::new(), Vec::new());
    for checkpoint in &plan.checkpoints {
        match mount.as_deref().and_then(|mount| below(&checkpoint.path, cwd, mount)) {
            Some(path) => marks.push(Mark {
                app: checkpoint.app.clone().unwrap_or_else(|| plan.name.replace('/', "-")),
                path,
                nodes: checkpoint.nodes,
                mtbf_s: checkpoint.mtbf_s,
                interval_s: checkpoint.interval_s,
            }),
            None => complaints.push(Complaint {
                line: checkpoint.line,
                cause: format!("checkpoints at {} are not in the volume", cwd.join(&checkpoint.path).display()),
                mend: match &mount {
                    Some(mount) => format!("name files below {}, or submit from there", mount.display()),
                    None => "submit again when it is mounted".into(),
                },
            }),
        }
    }
    if !complaints.is_empty() {
        return Err(Error::Script(complaints));
    }
    match volume.mark_checkpoints(owner, job, marks) {
        Ok(true) => Ok(Vec::new()),
        Ok(false) => Ok(vec![Complaint {
            line: first.line,
            cause: "this volume has no burst buffer, so checkpoints are files like others".into(),
            mend: "nothing needs to be done".into(),
        }]),
        Err(error) => Err(Error::World(format!("checkpoints cannot be marked: {error}"))),
    }
}

/// The path relative to the mount point, if it is below that.
fn below(path: &str, cwd: &Path, mount: &Path) -> Option<String> {
    let path = paths::in_volume(path, cwd, mount)?;
    Some(path.strip_prefix(mount).ok()?.to_str()?.to_owned())
}
