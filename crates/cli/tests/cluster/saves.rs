//! Checkpoints as applications write them (another name, fsync, rename), with readers on other hosts at the same time.

use crate::writers::RECORD;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Result, Write};
use std::path::Path;

/// Orders of a process, until a file appears.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Orders {
    pub path: String,
    /// The last version that counts.
    pub last: u64,
    pub stop: String,
    /// How the file is written.
    #[serde(default)]
    pub how: How,
}

/// How versions follow one another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum How {
    /// As checkpoints: of a megabyte, synced, by rename.
    #[default]
    Synced,
    /// By rename, without a sync, of so many words.
    Replaced(usize),
    /// In place, after a truncation, of so many bytes, none of which is zero.
    Truncated(usize),
}

/// Results of a process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// The last version that was written or read.
    pub last: u64,
    pub done: u64,
    pub errors: BTreeMap<String, u64>,
    /// Reads that returned no whole version.
    pub wrong: Vec<String>,
}

/// Words of a checkpoint.
const WORDS: usize = 150_000;

/// The bytes of a version: each has another length.
fn bytes(version: u64, words: usize) -> Vec<u8> {
    version.to_le_bytes().repeat(words + version as usize % 1000)
}

/// The version that these bytes are.
///
/// # Errors
/// What they are instead.
pub fn version(read: &[u8]) -> std::result::Result<u64, String> {
    version_of(read, WORDS)
}

fn version_of(read: &[u8], words: usize) -> std::result::Result<u64, String> {
    let first = read.get(..8).map_or(0, |word| u64::from_le_bytes(word.try_into().expect("eight")));
    let whole = bytes(first, words);
    if read == whole {
        return Ok(first);
    }
    let at = read.iter().zip(&whole).position(|(a, b)| a != b);
    Err(format!("{} bytes that begin as version {first} of {}, another byte at {at:?}", read.len(), whole.len()))
}

fn save(path: &str, version: u64, how: How) -> Result<()> {
    let words = match how {
        How::Synced => WORDS,
        How::Replaced(words) => words,
        How::Truncated(len) => return File::create(path)?.write_all(&vec![1 + (version % 255) as u8; len]),
    };
    let part = format!("{path}.tmp");
    let mut file = File::create(&part)?;
    bytes(version, words).chunks(RECORD).try_for_each(|record| file.write_all(record))?;
    if how == How::Synced {
        file.sync_all()?;
    }
    drop(file);
    std::fs::rename(&part, path)
}

/// Writes one version after the other; checkpoints up to the first error.
pub fn write(orders: &Orders) -> std::result::Result<Report, Errno> {
    let mut report = Report { last: orders.last, ..Report::default() };
    while !Path::new(&orders.stop).exists() {
        if let Err(error) = save(&orders.path, report.last + 1, orders.how) {
            *report.errors.entry(error.to_string()).or_default() += 1;
            if orders.how == How::Synced {
                break;
            }
            continue;
        }
        report.last += 1;
        report.done += 1;
    }
    Ok(report)
}

/// Reads it again and again. A file that is replaced while it is read may give an error, nothing else.
pub fn read(orders: &Orders) -> std::result::Result<Report, Errno> {
    let mut report = Report { last: orders.last, ..Report::default() };
    let words = if let How::Replaced(words) = orders.how { words } else { WORDS };
    while !Path::new(&orders.stop).exists() {
        let mut read = Vec::new();
        let opened = File::open(&orders.path).map_err(|error| format!("open: {error}"));
        let done = opened.and_then(|mut file| file.read_to_end(&mut read).map_err(|error| format!("read: {error}")));
        match done {
            Err(error) => *report.errors.entry(error).or_default() += 1,
            Ok(_) if matches!(orders.how, How::Truncated(_)) => {
                report.done += 1;
                if let Some(at) = read.iter().position(|byte| *byte == 0) {
                    report.wrong.push(format!("a zero at {at} of {} bytes", read.len()));
                }
            }
            Ok(_) => match version_of(&read, words) {
                Ok(version) if version >= report.last => (report.last, report.done) = (version, report.done + 1),
                Ok(version) => report.wrong.push(format!("version {version} after {}", report.last)),
                Err(what) => report.wrong.push(what),
            },
        }
    }
    Ok(report)
}
