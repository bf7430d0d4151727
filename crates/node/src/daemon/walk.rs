//! All files of the namespace, one after the other.

use crate::Result;
use engine::file::{File, FileTable};
use engine::mover::Walk;
use engine::volume::Volume;
use meta::descent::{Descent, Met};
use rustix::io::Errno;

/// All files below `tree` and in `staging`, in the order of the walk.
pub(super) fn walk<'a>(volume: &'a Volume, files: &'a FileTable) -> Result<Walk<'a>> {
    let mut descents = Vec::new();
    for root in [volume.tree(), volume.staging()] {
        descents.push(Descent::new(&root.try_clone_to_owned().map_err(|_| Errno::MFILE)?)?);
    }
    let file = |met: std::result::Result<Met, Errno>| match met {
        Err(error) => Some(Err(error.into())),
        Ok(met) if met.inode.is_some() => None,
        Ok(met) => files.open_at(&met.directory, &*met.name).transpose(),
    };
    Ok(Box::new(descents.into_iter().flatten().filter_map(file)))
}

/// Passes the files of a walk to `look`, until it returns `false`.
pub(super) fn each_file(walk: Result<Walk<'_>>, look: &mut dyn FnMut(&File) -> bool) {
    match walk {
        Ok(walk) => {
            for file in walk.flatten() {
                if !look(&file) {
                    return;
                }
            }
        }
        Err(error) => tracing::warn!("segments on the fast tier are found only when they are used: {error}"),
    }
}
