//! Threads that replace, link, rename and remove the same few names, while others read them: each file is read whole,
//! through a name or through a descriptor of before, and no error but the absence of a name is seen.

use super::steps::Random;
use super::volume;
use policy::cache::LevelConfig;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs::{self, File};
use std::io::{ErrorKind, Result};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const THREADS: u64 = 6;
/// Within the stub, and in objects.
const SIZES: [usize; 4] = [20, 3_000, 100_000, 300_000];

/// A name of few, so that threads meet.
fn name(random: &mut Random, at: &Path) -> PathBuf {
    at.join(["one", "two"][random.below(2) as usize]).join(["a", "b", "c"][random.below(3) as usize])
}

/// Content that shows its length.
fn content(random: &mut Random) -> Vec<u8> {
    let len = SIZES[random.below(4) as usize] + random.below(10) as usize;
    let mut bytes = vec![random.below(256) as u8; len];
    bytes[..8].copy_from_slice(&(len as u64).to_le_bytes());
    bytes
}

fn is_whole(bytes: &[u8]) -> bool {
    let says = bytes.first_chunk::<8>().map(|len| u64::from_le_bytes(*len));
    says == Some(bytes.len() as u64) && bytes[8..].iter().all(|byte| *byte == bytes[8])
}

fn read_held(file: &File) -> Result<Vec<u8>> {
    let mut bytes = vec![0; SIZES[3] + 20];
    let mut len = 0;
    loop {
        match file.read_at(&mut bytes[len..], len as u64)? {
            0 => break,
            read => len += read,
        }
    }
    bytes.truncate(len);
    Ok(bytes)
}

fn step(at: &Path, thread: u64, random: &mut Random, held: &mut Vec<File>) -> Result<()> {
    let (path, other) = (name(random, at), name(random, at));
    match random.below(16) {
        0..4 => {
            let new = at.join(format!("new{thread}"));
            fs::write(&new, content(random))?;
            fs::rename(new, path)?;
        }
        4 => fs::remove_file(path)?,
        5 => fs::hard_link(path, other)?,
        6 => fs::rename(path, other)?,
        7 => renameat_with(CWD, &path, CWD, &other, RenameFlags::EXCHANGE)?,
        8..12 => {
            let bytes = fs::read(&path)?;
            assert!(is_whole(&bytes), "{path:?}: {} bytes, {:?}", bytes.len(), &bytes[..bytes.len().min(8)]);
        }
        12 if held.len() < 20 => held.push(File::open(path)?),
        12 | 13 if !held.is_empty() => {
            let file = held.swap_remove(random.below(held.len() as u64) as usize);
            let bytes = read_held(&file)?;
            assert!(is_whole(&bytes), "held: {} bytes, {:?}", bytes.len(), &bytes[..bytes.len().min(8)]);
        }
        14 => assert!(fs::symlink_metadata(path)?.len() >= SIZES[0] as u64),
        _ => drop(fs::read_dir(at.join("one"))?.collect::<Result<Vec<_>>>()?),
    }
    Ok(())
}

fn races(wanted: volume::Wanted) {
    if volume::cannot_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let volume = volume::Volume::start(dir.path(), wanted);
    let seed = std::env::var("ENTREPOT_SEED").map_or(20_261_129, |seed| seed.parse().expect("a number"));
    let seconds = std::env::var("ENTREPOT_SECONDS").map_or(4, |seconds| seconds.parse().expect("a number"));
    let at = &volume.at;
    ["one", "two"].iter().for_each(|name| fs::create_dir(at.join(name)).unwrap());
    let began = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let (mut random, mut held) =
                    (Random(seed ^ (thread + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)), Vec::new());
                while began.elapsed() < Duration::from_secs(seconds) {
                    if let Err(error) = step(at, thread, &mut random, &mut held) {
                        let is_expected = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists);
                        assert!(is_expected, "seed {seed}: {error}");
                    }
                }
            });
        }
    });
}

/// [S-003] [S-428]
#[test]
fn files_are_whole_or_absent_whatever_is_done_to_their_names() {
    races(volume::Wanted::default());
}

/// [S-003] [S-428]
#[test]
fn so_are_files_with_mirrors_behind_a_block_cache() {
    let cache = LevelConfig::new(64, policy::words::prefetch("stream").unwrap());
    let mut wanted = volume::Wanted { cache: Some(cache), ..volume::Wanted::default() };
    wanted.placement.mirrors = 2;
    races(wanted);
}
