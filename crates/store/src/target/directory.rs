//! A target in a directory: objects are plain files under `objects/HH/`, with an identity file beside them.

use super::medium::{Handle, Medium, Space};
use policy::{ObjectId, TargetId};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the identity file of a target says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The volume it belongs to.
    pub volume: crate::volume::VolumeId,
    /// Its number there.
    pub target: TargetId,
    /// Its name when it was formatted.
    pub name: String,
}

/// A directory on a file system that is already there.
pub struct DirectoryMedium {
    path: PathBuf,
    identity: Identity,
}

impl DirectoryMedium {
    /// Makes the directory a target: object directories first, the identity last.
    pub fn format(path: &Path, identity: &Identity) -> Result<(), Errno> {
        let _ = (path, identity);
        todo!()
    }

    /// The target in `path`. Whether it is there and ours, [`Medium::probe`] tells.
    pub fn new(path: &Path, identity: Identity) -> DirectoryMedium {
        DirectoryMedium { path: path.to_owned(), identity }
    }
}

impl Medium for DirectoryMedium {
    fn create(&self, _: ObjectId) -> Result<Arc<dyn Handle>, Errno> {
        let _ = (&self.path, &self.identity);
        todo!()
    }
    fn open(&self, _: ObjectId) -> Result<Arc<dyn Handle>, Errno> {
        todo!()
    }
    fn remove(&self, _: ObjectId) -> Result<(), Errno> {
        todo!()
    }
    fn sync_names(&self) -> Result<(), Errno> {
        todo!()
    }
    fn list(&self) -> Result<Vec<ObjectId>, Errno> {
        todo!()
    }
    fn probe(&self) -> Result<(), Errno> {
        todo!()
    }
    fn space(&self) -> Result<Space, Errno> {
        todo!()
    }
}
