//! Resolves directories with a deadline: a hung device must not delay a start.

use crate::target::Identity;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The real path of each, all asked at the same time; the path as it is where there is nothing. `None` for one that
/// does not answer within `patience`: the thread that asked is left behind, and ends with the process at the latest.
pub fn real_paths<P: AsRef<Path>>(paths: &[P], patience: Duration) -> Vec<Option<PathBuf>> {
    let mut found: Vec<Option<PathBuf>> = vec![None; paths.len()];
    let (tell, told) = mpsc::channel();
    for (k, path) in paths.iter().enumerate() {
        let (tell, path) = (tell.clone(), path.as_ref().to_path_buf());
        let ask = move || {
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            // The kernel may know the names by heart; what is in a file it must ask for.
            drop(Identity::read(&real));
            // The receiver may have timed out.
            let _ = tell.send((k, real));
        };
        if let Err(error) = std::thread::Builder::new().name("real-path".into()).spawn(ask) {
            tracing::error!("no thread to look where a directory is: {error}");
        }
    }
    drop(tell);
    let until = Instant::now() + patience;
    while let Ok((k, real)) = told.recv_timeout(until.saturating_duration_since(Instant::now())) {
        found[k] = Some(real);
    }
    found
}
