//! The laboratory's binary, for tests of both binaries.

use crate::folders::{folder_of, root};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;
use std::time::SystemTime;

/// The laboratory's binary, beside ours. Cargo gives a test the binaries of its own package only, so it is built here
/// when a source is newer than it, or it is not there.
pub fn laboratory(ours: &Path) -> PathBuf {
    static BUILT: Once = Once::new();
    let beside = ours.with_file_name("entrepot-lab");
    BUILT.call_once(|| {
        let sources = ["lab", "terminal", "emulate", "sim", "object", "meta", "engine", "node", "policy"];
        let source = sources.iter().map(|name| newest(&root().join(folder_of(name)).join("src"))).max().flatten();
        if newest(&beside) > source {
            return;
        }
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--locked", "--package", "entrepot-lab"]).current_dir(root());
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        assert!(cargo.status().expect("cargo").success(), "the laboratory is not built");
    });
    beside
}

/// When a file or anything below a directory was changed last.
fn newest(path: &Path) -> Option<SystemTime> {
    let own = path.metadata().and_then(|found| found.modified()).ok();
    let below = std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| newest(&entry.path()));
    below.chain([own]).max().flatten()
}
