//! Checkpoints as applications write them (another name, fsync, rename), and who reads them meanwhile on other hosts.

use crate::writers::RECORD;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Result, Write};
use std::path::Path;

/// What a process is to do until a file comes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Orders {
    pub path: String,
    /// The last version that counts.
    pub last: u64,
    pub stop: String,
}

/// What it saw.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// The last version that was written or read.
    pub last: u64,
    pub done: u64,
    pub errors: BTreeMap<String, u64>,
    /// What was read and is no whole version.
    pub wrong: Vec<String>,
}

/// The bytes of a version: each has another length.
fn bytes(version: u64) -> Vec<u8> {
    version.to_le_bytes().repeat(150_000 + version as usize % 1000)
}

/// The version that these bytes are.
///
/// # Errors
/// What they are instead.
pub fn version(read: &[u8]) -> std::result::Result<u64, String> {
    let first = read.get(..8).map_or(0, |word| u64::from_le_bytes(word.try_into().expect("eight")));
    let whole = bytes(first);
    if read == whole {
        return Ok(first);
    }
    let at = read.iter().zip(&whole).position(|(a, b)| a != b);
    Err(format!("{} bytes that begin as version {first} of {}, another byte at {at:?}", read.len(), whole.len()))
}

fn save(path: &str, version: u64) -> Result<()> {
    let part = format!("{path}.tmp");
    let mut file = File::create(&part)?;
    bytes(version).chunks(RECORD).try_for_each(|record| file.write_all(record))?;
    file.sync_all()?;
    std::fs::rename(&part, path)
}

/// Writes one version after the other, up to the first error.
pub fn write(orders: &Orders) -> std::result::Result<Report, Errno> {
    let mut report = Report { last: orders.last, ..Report::default() };
    while !Path::new(&orders.stop).exists() {
        if let Err(error) = save(&orders.path, report.last + 1) {
            report.errors.insert(error.to_string(), 1);
            break;
        }
        report.last += 1;
        report.done += 1;
    }
    Ok(report)
}

/// Reads it again and again. A file that is replaced while it is read may give an error, nothing else.
pub fn read(orders: &Orders) -> std::result::Result<Report, Errno> {
    let mut report = Report { last: orders.last, ..Report::default() };
    while !Path::new(&orders.stop).exists() {
        let mut read = Vec::new();
        match File::open(&orders.path).and_then(|mut file| file.read_to_end(&mut read)) {
            Err(error) => *report.errors.entry(error.to_string()).or_default() += 1,
            Ok(_) => match version(&read) {
                Ok(version) if version >= report.last => (report.last, report.done) = (version, report.done + 1),
                Ok(version) => report.wrong.push(format!("version {version} after {}", report.last)),
                Err(what) => report.wrong.push(what),
            },
        }
    }
    Ok(report)
}
