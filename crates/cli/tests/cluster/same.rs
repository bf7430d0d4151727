//! Random operations, each on another node, one after the other, and the same on a plain directory: what one node did,
//! the others see at once.

use crate::hosts::hosts;
use crate::random::{Random, seed};
use crate::volume::Shared;
use std::fs::{File, OpenOptions};
use std::io::{Result, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const NAMES: [&str; 8] = ["f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7"];
const DIRECTORIES: [&str; 4] = ["", "a/", "b/", "a/c/"];
/// Records, bytes that stay in a stub, bytes that do not.
const LENGTHS: [usize; 5] = [1, 100, 5000, 47_008, 200_000];

#[derive(Debug)]
enum Step {
    Write(String, u64, Vec<u8>),
    Append(String, Vec<u8>),
    Replace(String),
    Truncate(String, u64),
    Unlink(String),
    Rename(String, String),
    Link(String, String),
    MakeDirectory(String),
    RemoveDirectory(String),
    Create(String),
    Mode(String, u32),
    Read(String),
    Stat(String),
    List(String),
}

fn name(random: &mut Random) -> String {
    format!("{}{}", random.one_of(&DIRECTORIES), random.one_of(&NAMES))
}

fn directory(random: &mut Random) -> String {
    random.one_of(&DIRECTORIES[1..]).trim_end_matches('/').into()
}

fn bytes(random: &mut Random, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| random.next().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

fn change(random: &mut Random) -> Step {
    let (name, other) = (name(random), name(random));
    match random.below(15) {
        0..3 => {
            let (near, far) = (random.below(300_000), random.below(6_000_000));
            let (offset, len) = (random.one_of(&[0, near, far]), random.one_of(&LENGTHS));
            Step::Write(name, offset, bytes(random, len))
        }
        3 => {
            let len = 1 + random.below(90_000) as usize;
            Step::Append(name, bytes(random, len))
        }
        4 => Step::Replace(name),
        5 => Step::Truncate(name, random.one_of(&[0, 10, 70_000, 3_000_000])),
        6 => Step::Unlink(name),
        7 => Step::Rename(name, other),
        8 => Step::Link(name, other),
        9 | 10 => Step::MakeDirectory(directory(random)),
        11 => Step::RemoveDirectory(directory(random)),
        12 => Step::Create(name),
        13 => Step::Mode(name, random.one_of(&[0o600, 0o644, 0o640])),
        _ => Step::Rename(directory(random), directory(random)),
    }
}

impl Step {
    /// Does it; what it gave, or the number of the error.
    fn run(&self, root: &Path) -> std::result::Result<String, i32> {
        self.done(root).map_err(|error| error.raw_os_error().unwrap_or(-1))
    }

    fn done(&self, root: &Path) -> Result<String> {
        let at = |name: &str| root.join(name);
        let write = || OpenOptions::new().write(true).mode(0o644).to_owned();
        match self {
            Step::Write(name, offset, bytes) => write().create(true).open(at(name))?.write_all_at(bytes, *offset)?,
            Step::Append(name, bytes) => write().append(true).create(true).open(at(name))?.write_all(bytes)?,
            Step::Replace(name) => write().truncate(true).open(at(name))?.write_all(b"x")?,
            Step::Truncate(name, len) => write().open(at(name))?.set_len(*len)?,
            Step::Unlink(name) => std::fs::remove_file(at(name))?,
            Step::Rename(from, to) => std::fs::rename(at(from), at(to))?,
            Step::Link(from, to) => std::fs::hard_link(at(from), at(to))?,
            Step::MakeDirectory(name) => std::fs::create_dir(at(name))?,
            Step::RemoveDirectory(name) => std::fs::remove_dir(at(name))?,
            Step::Create(name) => write().create_new(true).open(at(name))?.write_all(b"e")?,
            Step::Mode(name, mode) => File::open(at(name))?.set_permissions(PermissionsExt::from_mode(*mode))?,
            Step::Read(name) => {
                let bytes = std::fs::read(at(name))?;
                return Ok(format!("{} bytes with sum {:016x}", bytes.len(), sum(&bytes)));
            }
            Step::Stat(name) => {
                let stat = at(name).symlink_metadata()?;
                let file = if stat.is_dir() { (0, 0) } else { (stat.nlink(), stat.len()) };
                return Ok(format!("mode {:o}, links and size {file:?}", stat.mode()));
            }
            Step::List(name) => {
                let names = std::fs::read_dir(at(name))?.map(|entry| Ok(entry?.file_name()));
                let mut names = names.collect::<Result<Vec<_>>>()?;
                names.sort();
                return Ok(format!("{names:?}"));
            }
        }
        Ok("done".into())
    }

    /// Without the bytes.
    fn shown(&self) -> String {
        match self {
            Step::Write(name, offset, bytes) => format!("write of {} bytes at {offset} of {name}", bytes.len()),
            Step::Append(name, bytes) => format!("append of {} bytes to {name}", bytes.len()),
            other => format!("{other:?}"),
        }
    }
}

/// Hash by FNV-1a.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// [S-199] [S-200]
#[test]
fn what_a_node_did_the_others_see_at_once() {
    let Some(hosts) = hosts() else { return };
    let seed = seed();
    let steps = std::env::var("ENTREPOT_STEPS").map_or(100, |steps| steps.parse().expect("ENTREPOT_STEPS is a number"));
    let shared = Shared::of_all(&hosts);
    let nodes = shared.up();
    std::fs::create_dir(nodes[0].path("same")).expect("a directory");
    let plain = tempfile::tempdir().expect("a directory");
    let (mut random, mut succeeded) = (Random(seed), 0);
    for n in 0..steps {
        let looks = [Step::Read(name(&mut random)), Step::Stat(name(&mut random)), Step::Read(name(&mut random))];
        let list = Step::List(random.one_of(&DIRECTORIES).into());
        for step in [change(&mut random)].into_iter().chain(looks).chain([list]) {
            let node = &nodes[random.below(3) as usize];
            let (there, here) = (step.run(&node.path("same")), step.run(plain.path()));
            assert_eq!(there, here, "step {n} on host {}, seed {seed}: {}", node.host.number, step.shown());
            succeeded += usize::from(here.is_ok());
        }
    }
    println!("{succeeded} of {} operations succeeded on both", steps * 5);
    assert!(succeeded > steps, "most of it was about names that were not there");
}
