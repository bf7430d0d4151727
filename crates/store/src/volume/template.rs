//! The commented `volume.toml` that a new volume starts with.

use super::Problems;
use std::path::{Path, PathBuf};

/// The text of a `volume.toml` with every key, its default and what it does.
pub fn template(dir: &Path) -> String {
    let _ = dir;
    todo!()
}

/// Writes a `volume.toml` and the directories it names below `dir`; gives the file's path. Refuses to overwrite.
pub fn init(dir: &Path) -> Result<PathBuf, Problems> {
    let _ = dir;
    todo!()
}
