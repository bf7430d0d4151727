//! Blocks that say themselves whose they are and how new, and what a writer was promised of them, noted outside the
//! devices.

use crate::device::Random;
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

pub const BLOCK: usize = 4096;
const MAGIC: u64 = 0x656e_7472_6570_6f74;

/// One block as O_DIRECT wants it.
#[repr(C, align(4096))]
#[derive(Clone, Copy)]
pub struct Block(pub [u8; BLOCK]);

/// Version `version` of block `n` of a file.
pub fn block(file: u64, n: u64, version: u64) -> Block {
    let mut random = Random(file ^ n.rotate_left(20) ^ version.rotate_left(40));
    let mut words = [MAGIC, file, n, version].into_iter().chain(std::iter::from_fn(|| Some(random.next())));
    let mut block = Block([0; BLOCK]);
    for chunk in block.0.chunks_exact_mut(8) {
        chunk.copy_from_slice(&words.next().expect("without end").to_le_bytes());
    }
    block
}

/// Content of a block after the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Zeros,
    Version(u64),
    /// Content that was never written there.
    Wrong,
}

impl Found {
    pub fn of(bytes: &[u8], file: u64, n: u64) -> Found {
        if bytes.iter().all(|byte| *byte == 0) {
            return Found::Zeros;
        }
        let Some(version) = bytes.get(24..32) else { return Found::Wrong };
        let version = u64::from_le_bytes(version.try_into().expect("8 bytes"));
        if bytes == block(file, n, version).0 { Found::Version(version) } else { Found::Wrong }
    }
}

/// A promise of durability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Blocks `from..to` of a file are at least that version.
    Blocks { path: String, file: u64, from: u64, to: u64, version: u64 },
    /// A name has a whole file of so many blocks, at least that version.
    Name { path: String, file: u64, blocks: u64, version: u64 },
    /// A name is gone.
    Gone { path: String },
    /// The version of a checkpoint is complete, with this many blocks per file.
    Checkpoint { app: String, version: u64 },
}

impl Promise {
    fn line(&self) -> String {
        match self {
            Promise::Blocks { path, file, from, to, version } => {
                format!("blocks {path} {file} {from} {to} {version}\n")
            }
            Promise::Name { path, file, blocks, version } => format!("name {path} {file} {blocks} {version}\n"),
            Promise::Gone { path } => format!("gone {path}\n"),
            Promise::Checkpoint { app, version } => format!("checkpoint {app} {version}\n"),
        }
    }

    fn parse(line: &str) -> Option<Promise> {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |k: usize| words.get(k)?.parse().ok();
        let path = words.get(1)?.to_string();
        Some(match words[0] {
            "blocks" => {
                Promise::Blocks { path, file: number(2)?, from: number(3)?, to: number(4)?, version: number(5)? }
            }
            "name" => Promise::Name { path, file: number(2)?, blocks: number(3)?, version: number(4)? },
            "gone" => Promise::Gone { path },
            "checkpoint" => Promise::Checkpoint { app: path, version: number(2)? },
            _ => return None,
        })
    }

    /// All promises that one writer noted, each with its time.
    pub fn all(notes: &Path) -> Vec<(Duration, Promise)> {
        let text = std::fs::read_to_string(notes).expect("notes");
        // A writer that was killed has perhaps written half a line.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let noted = |line: &str| {
            let (at, promise) = line.split_once(' ')?;
            Some((Duration::from_nanos(at.parse().ok()?), Promise::parse(promise)?))
        };
        whole.lines().map(|line| noted(line).unwrap_or_else(|| panic!("{line}"))).collect()
    }
}

/// Time on a clock that all processes have.
pub fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// File where a writer notes the promises to it.
pub struct Notes(File);

impl Notes {
    pub fn new(path: &Path) -> Notes {
        Notes(File::options().append(true).create(true).open(path).expect("notes"))
    }

    pub fn note(&self, promise: &Promise) {
        let line = format!("{} {}", now().as_nanos(), promise.line());
        (&self.0).write_all(line.as_bytes()).expect("notes");
    }
}
