//! All files of the namespace, one after the other.

use crate::Result;
use engine::file::{File, FileTable};
use engine::mover::Walk;
use engine::volume::Volume;
use meta::descent::Descent;
use rustix::io::Errno;
use std::sync::Arc;

/// All files below `tree` and in `staging`, in the order of the walk.
pub(super) fn walk<'a>(volume: &'a Volume, files: &'a FileTable) -> Result<Walk<'a>> {
    let mut descents = Vec::new();
    for root in [volume.staging(), volume.tree()] {
        descents.push(Descent::new(&root.try_clone_to_owned().map_err(|_| Errno::MFILE)?)?);
    }
    Ok(Box::new(Walker { files, descents }))
}

struct Walker<'a> {
    files: &'a FileTable,
    /// Remaining trees of the walk, used from the back.
    descents: Vec<Descent>,
}

impl Iterator for Walker<'_> {
    type Item = Result<Arc<File>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.descents.last_mut()?.next() {
                None => drop(self.descents.pop()),
                Some(Err(error)) => return Some(Err(error.into())),
                Some(Ok(met)) if met.inode.is_some() => {}
                Some(Ok(met)) => match self.files.open_at(&met.directory, &*met.name) {
                    Ok(None) => {}
                    Ok(Some(file)) => return Some(Ok(file)),
                    Err(error) => return Some(Err(error)),
                },
            }
        }
    }
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
