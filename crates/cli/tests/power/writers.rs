//! The processes that write, each in its own way, until the power goes.

use crate::blocks::{BLOCK, Block, Notes, Promise, block};
use crate::device::Random;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
use std::fs::{self, File};
use std::io::{self, Result};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// All interfaces that promise durability.
pub const WAYS: &[&str] = &[
    "o_sync",
    "o_dsync",
    "o_direct-o_sync",
    "o_direct-o_dsync",
    "o_direct-fdatasync",
    "fsync",
    "fdatasync",
    "append",
    "sync_file_range",
    "msync",
    "rename",
    "checkpoint",
];

/// Orders of a writer.
pub struct Writer {
    pub way: String,
    pub mount: PathBuf,
    pub notes: PathBuf,
    pub seed: u64,
}

impl Writer {
    /// Writes until an error ends it.
    pub fn run(self) -> io::Error {
        let (way, seed) = (self.way.clone(), self.seed);
        let number = WAYS.iter().position(|known| *known == way).expect("a known way") as u64;
        let at = At { dir: self.mount.join(&way), below: way.clone(), notes: Notes::new(&self.notes), number };
        let mut random = Random(seed ^ number);
        let done = match &*way {
            "rename" => at.rename(&mut random),
            "checkpoint" => at.checkpoints(&self.mount),
            "append" => at.append(&mut random),
            "msync" => at.mapped(&mut random),
            "fsync" | "fdatasync" => at.together(&mut random),
            _ => at.places(&mut random),
        };
        done.err().unwrap_or_else(|| io::Error::other("it ended by itself"))
    }
}

/// A file that is written at random places.
struct Place {
    name: &'static str,
    blocks: u64,
}

/// A large one that is striped, one on a single target, one that is kept with its name, one with two mirrors.
const PLACES: &[Place] = &[
    Place { name: "striped", blocks: 512 },
    Place { name: "single", blocks: 48 },
    Place { name: "small", blocks: 8 },
    Place { name: "mirrored/file", blocks: 256 },
];

/// Threads at one file.
const TOGETHER: u64 = 4;

/// State of a writer at work.
struct At {
    dir: PathBuf,
    below: String,
    notes: Notes,
    number: u64,
}

fn sync_directory(path: &Path) -> Result<()> {
    File::open(path)?.sync_all()
}

fn bytes(blocks: &[Block]) -> &[u8] {
    // SAFETY: a block is its bytes and nothing else.
    unsafe { std::slice::from_raw_parts(blocks.as_ptr().cast(), blocks.len() * BLOCK) }
}

impl At {
    fn file(&self, k: u64) -> u64 {
        self.number << 32 | k
    }

    fn content(&self, k: u64, from: u64, to: u64, version: u64) -> Vec<Block> {
        (from..to).map(|n| block(self.file(k), n, version)).collect()
    }

    fn promised(&self, k: u64, name: &str, (from, to): (u64, u64), version: u64) {
        let path = format!("{}/{name}", self.below);
        self.notes.note(&Promise::Blocks { path, file: self.file(k), from, to, version });
    }

    /// Flags of the open, and whether they make each write durable by itself.
    fn flags(&self) -> (i32, bool) {
        match &*self.below {
            "o_sync" => (libc::O_SYNC, true),
            "o_dsync" => (libc::O_DSYNC, true),
            "o_direct-o_sync" => (libc::O_DIRECT | libc::O_SYNC, true),
            "o_direct-o_dsync" => (libc::O_DIRECT | libc::O_DSYNC, true),
            "o_direct-fdatasync" => (libc::O_DIRECT, false),
            "append" => (libc::O_APPEND | libc::O_DSYNC, true),
            _ => (0, false),
        }
    }

    /// Makes a file with a durable name.
    fn make(&self, name: &str) -> Result<File> {
        let path = self.dir.join(name);
        let file = File::options().read(true).write(true).create(true).custom_flags(self.flags().0).open(&path)?;
        file.sync_all()?;
        sync_directory(path.parent().expect("a directory"))?;
        Ok(file)
    }

    /// A few blocks somewhere in a file.
    fn somewhere(&self, random: &mut Random, blocks: u64) -> (u64, u64) {
        let from = random.below(blocks);
        (from, (from + 1 + random.below(20)).min(blocks))
    }

    /// Random places of all kinds of files, durable by the open's flags or by a call after some writes.
    fn places(&self, random: &mut Random) -> Result<()> {
        let files = PLACES.iter().map(|place| self.make(place.name)).collect::<Result<Vec<_>>>()?;
        let (_, by_itself) = self.flags();
        for version in 1.. {
            let k = random.below(PLACES.len() as u64);
            let (place, file) = (&PLACES[k as usize], &files[k as usize]);
            let mut written = Vec::new();
            for _ in 0..if by_itself { 1 } else { 1 + random.below(4) } {
                let (from, to) = self.somewhere(random, place.blocks);
                file.write_all_at(bytes(&self.content(k, from, to, version)), from * BLOCK as u64)?;
                written.push((from, to));
            }
            match &*self.below {
                "o_direct-fdatasync" => file.sync_data()?,
                "sync_file_range" => {
                    sync_file_range(file)?;
                    if random.below(2) == 0 {
                        continue; // by itself it promises nothing
                    }
                    file.sync_data()?;
                }
                _ => {}
            }
            written.into_iter().for_each(|range| self.promised(k, place.name, range, version));
        }
        Ok(())
    }

    /// Threads that write parts of the same file and sync it, each by itself: a sync meets one that is under way.
    fn together(&self, random: &mut Random) -> Result<()> {
        let files = PLACES.iter().map(|place| self.make(place.name)).collect::<Result<Vec<_>>>()?;
        let version = AtomicU64::new(0);
        let part = |n: u64, mut random: Random| -> Result<()> {
            loop {
                // Mostly the same one.
                let k = random.below(PLACES.len() as u64 * 3).saturating_sub(PLACES.len() as u64 * 2);
                let (place, file) = (&PLACES[k as usize], &files[k as usize]);
                let blocks = place.blocks / TOGETHER;
                let (from, to) = self.somewhere(&mut random, blocks);
                let (from, to) = (from + n * blocks, to + n * blocks);
                let version = version.fetch_add(1, Ordering::Relaxed) + 1;
                file.write_all_at(bytes(&self.content(k, from, to, version)), from * BLOCK as u64)?;
                if self.below == "fsync" {
                    file.sync_all()?
                } else {
                    file.sync_data()?
                }
                self.promised(k, place.name, (from, to), version);
            }
        };
        let seeds: Vec<u64> = (0..TOGETHER).map(|_| random.next()).collect();
        std::thread::scope(|scope| {
            let start = |(n, seed): (usize, &u64)| {
                let (part, seed) = (&part, *seed);
                scope.spawn(move || part(n as u64, Random(seed)))
            };
            let parts: Vec<_> = seeds.iter().enumerate().map(start).collect();
            parts.into_iter().try_for_each(|part| part.join().expect("no panic"))
        })
    }

    fn append(&self, random: &mut Random) -> Result<()> {
        for k in 0.. {
            let name = format!("log-{k}");
            let file = self.make(&name)?;
            let (mut end, blocks) = (0, 64 + random.below(256));
            while end < blocks {
                let to = end + 1 + random.below(8);
                io::Write::write_all(&mut &file, bytes(&self.content(k, end, to, 1)))?;
                self.promised(k, &name, (end, to), 1);
                end = to;
            }
        }
        Ok(())
    }

    fn mapped(&self, random: &mut Random) -> Result<()> {
        let map = |place: &Place| -> Result<*mut Block> {
            let (file, len) = (self.make(place.name)?, place.blocks as usize * BLOCK);
            file.set_len(len as u64)?;
            file.sync_all()?;
            // SAFETY: a new mapping, of a file that is never truncated.
            let map = unsafe {
                let protection = ProtFlags::READ | ProtFlags::WRITE;
                rustix::mm::mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, &file, 0)?
            };
            Ok(map.cast())
        };
        let maps = PLACES.iter().map(map).collect::<Result<Vec<_>>>()?;
        for version in 1.. {
            let k = random.below(PLACES.len() as u64);
            let (place, map) = (&PLACES[k as usize], maps[k as usize]);
            let (from, to) = self.somewhere(random, place.blocks);
            for (n, block) in (from..to).zip(self.content(k, from, to, version)) {
                // SAFETY: within the mapping, which stays.
                unsafe { map.add(n as usize).write_volatile(block) };
            }
            // SAFETY: the same.
            let from_map = unsafe { map.add(from as usize) };
            // SAFETY: the same.
            unsafe { rustix::mm::msync(from_map.cast(), (to - from) as usize * BLOCK, MsyncFlags::SYNC)? };
            self.promised(k, place.name, (from, to), version);
        }
        Ok(())
    }

    /// New content under old names, and names that go.
    fn rename(&self, random: &mut Random) -> Result<()> {
        for version in 1.. {
            let k = random.below(6);
            let blocks = [3, 30, 130][k as usize % 3];
            let (new, name) = (self.dir.join(format!("new-{version}")), format!("name-{k}"));
            let file = File::create(&new)?;
            file.write_all_at(bytes(&self.content(k, 0, blocks, version)), 0)?;
            file.sync_all()?;
            fs::rename(&new, self.dir.join(&name))?;
            sync_directory(&self.dir)?;
            let path = format!("{}/{name}", self.below);
            self.notes.note(&Promise::Name { path, file: self.file(k), blocks, version });
            if version % 8 == 0 {
                let name = format!("gone-{version}");
                fs::write(self.dir.join(&name), bytes(&self.content(99, 0, 40, version)))?;
                sync_directory(&self.dir)?;
                fs::remove_file(self.dir.join(&name))?;
                sync_directory(&self.dir)?;
                self.notes.note(&Promise::Gone { path: format!("{}/{name}", self.below) });
            }
        }
        Ok(())
    }

    fn checkpoints(&self, mount: &Path) -> Result<()> {
        let binary = std::env::var_os("ENTREPOT_POWER_BINARY").expect("the binary");
        let entrepot = |words: &[&str]| {
            let done = Command::new(&binary).args(words).current_dir(mount).output()?;
            let said = || io::Error::other(String::from_utf8_lossy(&done.stderr).into_owned());
            if done.status.success() { Ok(()) } else { Err(said()) }
        };
        for version in 1.. {
            let path = format!("{}/{version}", self.below);
            fs::create_dir(mount.join(&path))?;
            entrepot(&["checkpoint", "begin", "wave", "--path", &path, "--version", &version.to_string()])?;
            let file = File::create(mount.join(&path).join("state"))?;
            file.write_all_at(bytes(&self.content(0, 0, CHECKPOINT_BLOCKS, version)), 0)?;
            // The commit's own sync meets one of the application's.
            std::thread::scope(|scope| {
                scope.spawn(|| file.sync_all());
                entrepot(&["checkpoint", "commit", "wave"])
            })?;
            self.notes.note(&Promise::Checkpoint { app: "wave".into(), version });
        }
        Ok(())
    }
}

/// Blocks of a checkpoint.
pub const CHECKPOINT_BLOCKS: u64 = 200;
/// The file number of checkpoints.
pub fn checkpoint_file() -> u64 {
    (WAYS.iter().position(|way| *way == "checkpoint").expect("a way") as u64) << 32
}

/// Writes back what is in memory, and asks no device to flush.
pub fn sync_file_range(file: &File) -> Result<()> {
    use std::os::fd::AsRawFd;
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: the descriptor is open.
    let done = unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, flags) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
