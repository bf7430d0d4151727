//! Folders of the workspace, for tests of its files.

use std::path::{Path, PathBuf};

/// The workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

/// The folder of the crate with this name in code, from the root.
pub fn folder_of(package: &str) -> String {
    match package {
        "lab" => "lab/cli".to_owned(),
        "lab-python" => "lab/python".to_owned(),
        "sim" | "emulate" => format!("lab/{package}"),
        _ => format!("crates/{package}"),
    }
}
