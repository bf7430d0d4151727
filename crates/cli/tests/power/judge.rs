//! Comparison of the promises with the content after a loss of power.

use crate::blocks::{BLOCK, Found, Promise};
use crate::writers::{CHECKPOINT_BLOCKS, checkpoint_file};
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::DirEntryExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Checks all promises to one writer; returns the losses.
pub fn losses(mount: &Path, promises: &[Promise], checkpoints: &Value) -> Vec<String> {
    let mut files: BTreeMap<(&str, u64), BTreeMap<u64, u64>> = BTreeMap::new();
    let mut names: BTreeMap<(&str, u64, u64), u64> = BTreeMap::new();
    let mut lost = Vec::new();
    let mut newest = None;
    for promise in promises {
        match promise {
            Promise::Blocks { path, file, from, to, version } => {
                let blocks = files.entry((path, *file)).or_default();
                (*from..*to).for_each(|n| {
                    let promised = blocks.entry(n).or_default();
                    *promised = version.max(promised).to_owned();
                });
            }
            Promise::Name { path, file, blocks, version } => {
                names.insert((path, *file, *blocks), *version);
            }
            Promise::Gone { path } if mount.join(path).symlink_metadata().is_ok() => {
                lost.push(format!("{path} is there again"))
            }
            Promise::Gone { .. } => {}
            Promise::Checkpoint { app, version } => newest = Some((app, *version)),
        }
    }
    for ((path, file), blocks) in &files {
        let bytes = match read(&mount.join(path)) {
            Ok(bytes) => bytes,
            Err(error) => {
                lost.push(format!("{path}: {error}"));
                continue;
            }
        };
        let end = blocks.keys().next_back().map_or(0, |n| n + 1);
        for n in 0..end.max(bytes.len().div_ceil(BLOCK) as u64) {
            let found = bytes.get(n as usize * BLOCK..(n as usize + 1) * BLOCK).map(|bytes| Found::of(bytes, *file, n));
            let right = match (found, blocks.get(&n)) {
                (Some(Found::Version(version)), promised) => promised.is_none_or(|promised| version >= *promised),
                (Some(Found::Zeros), promised) => promised.is_none(),
                (Some(Found::Wrong), _) => false,
                (None, promised) => promised.is_none(),
            };
            if !right {
                lost.push(format!("{path} block {n}: {found:?}, promised {:?}", blocks.get(&n)));
            }
        }
    }
    for ((path, file, blocks), promised) in &names {
        match read(&mount.join(path)).map(|bytes| whole(&bytes, *file, *blocks)) {
            Ok(Some(version)) if version >= *promised => {}
            found => {
                let names = names_beside(&mount.join(path));
                lost.push(format!("{path}: {found:?}, promised version {promised} whole; beside it: {names:?}"));
            }
        }
    }
    if let Some((app, promised)) = newest {
        lost.extend(lost_checkpoints(mount, checkpoints, app, promised));
    }
    lost
}

/// Names in the directory of a path, each with its inode and its size.
fn names_beside(path: &Path) -> Vec<String> {
    let entries = path.parent().and_then(|directory| std::fs::read_dir(directory).ok()).into_iter().flatten().flatten();
    let shown = |entry: std::fs::DirEntry| {
        let size = entry.metadata().map(|metadata| metadata.len());
        format!("{} {} {size:?}", entry.file_name().to_string_lossy(), entry.ino())
    };
    entries.map(shown).collect()
}

fn lost_checkpoints(mount: &Path, list: &Value, app: &str, promised: u64) -> Vec<String> {
    let rows = list["versions"].as_array().cloned().unwrap_or_default();
    let complete = rows.iter().filter(|row| row["state"] == "complete");
    let complete: Vec<u64> = complete.filter_map(|row| row["label"].as_str()?.parse().ok()).collect();
    let mut lost = Vec::new();
    for version in 1..=promised {
        if !complete.contains(&version) {
            lost.push(format!("version {version} of {app} does not count, promised up to {promised}"));
        }
    }
    for version in complete {
        let path = format!("checkpoint/{version}/state");
        let found = read(&mount.join(&path)).map(|bytes| whole(&bytes, checkpoint_file(), CHECKPOINT_BLOCKS));
        if !matches!(found, Ok(Some(there)) if there == version) {
            lost.push(format!("{path}: {found:?}, and it counts"));
        }
    }
    lost
}

/// The version of a file that is of one version from its first block to its last.
fn whole(bytes: &[u8], file: u64, blocks: u64) -> Option<u64> {
    let found = |n: usize| Found::of(bytes.get(n * BLOCK..(n + 1) * BLOCK).unwrap_or_default(), file, n as u64);
    let Found::Version(version) = found(0) else { return None };
    let all = (0..blocks as usize).all(|n| found(n) == Found::Version(version));
    (all && bytes.len() == blocks as usize * BLOCK).then_some(version)
}

/// Reads a file; what the first look through the tree has not come to yet is waited for.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let began = Instant::now();
    loop {
        match std::fs::read(path) {
            Err(error) if error.raw_os_error() == Some(5) && began.elapsed() < Duration::from_secs(20) => {
                std::thread::sleep(Duration::from_millis(100));
            }
            done => return done,
        }
    }
}
