//! Resolves directories with a deadline: a hung device must not delay a start.

use crate::target::Identity;
use crate::workers::within;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The real path of each, all asked at the same time; the path as it is where there is nothing. `None` for one that
/// does not answer within `patience`: the thread that asked is left behind, and ends with the process at the latest.
pub fn real_paths<P: AsRef<Path>>(paths: &[P], patience: Duration) -> Vec<Option<PathBuf>> {
    let ask = |path: &P| {
        let path = path.as_ref().to_path_buf();
        move || {
            let real = path.canonicalize().unwrap_or(path);
            // The kernel may know the names by heart; what is in a file it must ask for.
            drop(Identity::read(&real));
            real
        }
    };
    within(patience, "real-path", paths.iter().map(ask))
}
