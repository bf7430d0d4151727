//! Quotas count what is there: whatever many threads do at once, in the end the counts are what a walk through the
//! mount finds.

use crate::real::{Volume, until};
use rustix::fs::{FallocateFlags, Mode, OFlags};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, chown, symlink};
use std::path::{Path, PathBuf};

const THREADS: u64 = 4;
const STEPS: usize = 400;
/// Users and groups that files are given to, root's number among them.
const OWNERS: [u32; 3] = [0, 65_533, 65_534];

struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }

    /// A name of few, in one of three trees, so that threads meet.
    fn path(&mut self, at: &Path) -> PathBuf {
        let tree = ["free", "limited", "limited/inner"][self.below(3) as usize];
        let below = ["", "x", "y"][self.below(3) as usize];
        at.join(tree).join(below).join(["a", "b", "c", "d"][self.below(4) as usize])
    }
}

/// One step; what is refused, gone or in the way is nothing to this test.
fn step(at: &Path, dice: &mut Dice, open: &mut Vec<File>) -> std::io::Result<()> {
    let (path, other) = (dice.path(at), dice.path(at));
    let (size, offset) = (1 + dice.below(300_000), dice.below(400_000));
    let bytes = || vec![7; size as usize];
    match dice.below(16) {
        0..4 => {
            let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
            file.write_all(&bytes())?;
            if dice.below(3) == 0 {
                open.push(file);
            }
        }
        4 => OpenOptions::new().write(true).create(true).truncate(true).open(&path)?.write_all_at(&bytes(), offset)?,
        5 => OpenOptions::new().write(true).open(&path)?.set_len(offset)?,
        6..8 => fs::remove_file(&path)?,
        8 => fs::rename(&path, &other)?,
        9 => fs::hard_link(&path, &other)?,
        10 => fs::create_dir_all(path.parent().expect("a directory"))?,
        11 => fs::remove_dir(path.parent().expect("a directory"))?,
        12 => symlink("nowhere", &path)?,
        13 => {
            let file = OpenOptions::new().write(true).open(&path)?;
            rustix::fs::fallocate(file, FallocateFlags::empty(), offset, size)?;
        }
        14 => {
            let owner = |dice: &mut Dice| OWNERS[dice.below(3) as usize];
            chown(&path, Some(owner(dice)), Some(owner(dice)))?;
        }
        _ => {
            // A file that lost its name is written while it is open.
            if let Some(file) = open.pop() {
                file.write_all_at(&bytes(), offset)?;
            }
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            drop(rustix::fs::open(&path, flags, Mode::from_raw_mode(0o644))?);
        }
    }
    Ok(())
}

/// Bytes and files.
type Sum = (u64, u64);

/// Sums of a walk, by the names that `entrepot quota show` uses.
fn found(at: &Path) -> BTreeMap<String, Sum> {
    fn walk(dir: &Path, below: &str, seen: &mut Vec<u64>, sums: &mut BTreeMap<String, Sum>) {
        for entry in fs::read_dir(dir).expect("a directory").flatten() {
            let stat = fs::symlink_metadata(entry.path()).expect("nobody changes it any more");
            let path = format!("{below}/{}", entry.file_name().to_string_lossy());
            if stat.is_dir() || stat.nlink() == 1 || !seen.contains(&stat.ino()) {
                seen.push(stat.ino());
                let bytes = if stat.is_file() { stat.len() } else { 0 };
                let trees =
                    ["limited", "limited/inner"].iter().filter(|tree| below.trim_start_matches('/').starts_with(*tree));
                let owners = [format!("--user {}", stat.uid()), format!("--group {}", stat.gid())];
                for key in trees.map(|tree| format!("--directory {tree}")).chain(owners) {
                    let sum = sums.entry(key).or_default();
                    *sum = (sum.0 + bytes, sum.1 + 1);
                }
            }
            if stat.is_dir() {
                walk(&entry.path(), &path, seen, sums);
            }
        }
    }
    let mut sums = BTreeMap::new();
    walk(at, "", &mut Vec::new(), &mut sums);
    sums
}

/// [S-308]
#[test]
fn counts_are_what_is_there_whatever_was_done_at_the_same_time() {
    let Some(volume) = Volume::up() else { return };
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: needs root to give files away");
    }
    let seed = std::env::var("ENTREPOT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_261_126);
    println!("ENTREPOT_SEED={seed}, {THREADS} threads, {STEPS} steps");
    fs::create_dir_all(volume.at.join("limited/inner")).expect("directories");
    fs::create_dir(volume.at.join("free")).expect("directory");
    let owners = OWNERS.iter().flat_map(|id| [format!("--user {id}"), format!("--group {id}")]);
    let all: Vec<String> = owners.chain(["limited", "limited/inner"].map(|dir| format!("--directory {dir}"))).collect();
    for of in &all {
        // Some are refused now and then, most never.
        let hard = if of.ends_with("inner") { "3MB" } else { "1TB" };
        volume.ok(&[
            "quota",
            "set",
            of.split_once(' ').expect("two").0,
            of.split_once(' ').expect("two").1,
            "--hard",
            hard,
        ]);
    }
    let counted = || {
        let told = volume.json(&["quota", "list"]);
        let rows = told["rows"].as_array().expect("rows").clone();
        let sum = |row: &serde_json::Value| {
            let of = row["of"].as_str().expect("a word");
            let name = row[of].as_str().map_or_else(|| row[of].to_string(), str::to_owned);
            Some((format!("--{of} {name}"), (row["bytes"]["used"].as_u64()?, row["files"]["used"].as_u64()?)))
        };
        rows.iter().map(sum).collect::<Option<BTreeMap<_, _>>>()
    };
    let are_scanned = || counted().is_some() && volume.json(&["quota", "list"])["looking"] == false;
    until("all names were scanned", are_scanned);
    let at = &volume.at;
    let mut scans = 0;
    std::thread::scope(|scope| {
        let worker = |thread: u64| {
            move || {
                let (mut dice, mut open) = (Dice(seed ^ (thread + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)), Vec::new());
                for _ in 0..STEPS {
                    drop(step(at, &mut dice, &mut open));
                }
            }
        };
        let workers: Vec<_> = (0..THREADS).map(|thread| scope.spawn(worker(thread))).collect();
        // Each new limit makes the daemon scan all names, beside the steps.
        while !workers.iter().all(|worker| worker.is_finished()) {
            volume.ok(&["quota", "set", "--user", "4711", "--hard", "1TB"]);
            until("all names were scanned", are_scanned);
            volume.ok(&["quota", "remove", "--user", "4711"]);
            scans += 1;
        }
    });
    println!("{scans} scans beside the steps");
    let mut expected = found(at);
    for of in &all {
        expected.entry(of.clone()).or_default();
    }
    let mut last = None;
    let within_a_while = (0..500).any(|_| {
        last = counted();
        // The daemon sees a close later than it returns.
        std::thread::sleep(std::time::Duration::from_millis(20));
        last.as_ref() == Some(&expected)
    });
    assert!(within_a_while, "counted {last:#?}\nthere are {expected:#?}");
    assert!(
        expected.values().any(|(bytes, files)| *bytes > 1_000_000 && *files > 5),
        "something was done: {expected:?}"
    );
}
