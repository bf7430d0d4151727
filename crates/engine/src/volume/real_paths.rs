//! Resolves directories with a deadline: a hung device must not delay a start.

use object::target::Identity;
use object::workers::within;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Real path of each, resolved at the same time; a missing path is returned as given. `None` for a path without an
/// answer within `patience`: its thread is left behind, and ends with the process at the latest.
pub fn real_paths<P: AsRef<Path>>(paths: &[P], patience: Duration) -> Vec<Option<PathBuf>> {
    let ask = |path: &P| {
        let path = path.as_ref().to_path_buf();
        move || {
            let real = path.canonicalize().unwrap_or(path);
            // The kernel may have the names in its cache, but must read the file from the device.
            drop(Identity::read(&real));
            real
        }
    };
    within(patience, "real-path", paths.iter().map(ask))
}
