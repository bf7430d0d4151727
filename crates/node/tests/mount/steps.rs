//! Random operations on a mount and on a plain local directory, which must give the same answers and the same tree.

use rustix::fs::{FallocateFlags, RenameFlags, XattrFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// A few names in a few directories, so that operations meet.
fn name(random: &mut Random) -> String {
    let file = ["a", "b", "c", "d", "e"][random.below(5) as usize];
    match random.below(4) {
        0 => format!("d1/{file}"),
        1 => format!("d2/{file}"),
        _ => file.to_string(),
    }
}

/// Sizes around where a file changes its shape: in the stub, one object, striped.
fn offset(random: &mut Random) -> u64 {
    let near = [0, 4096, 16 << 10, 64 << 10, 256 << 10, 320 << 10, 700 << 10][random.below(7) as usize];
    near + random.below(5000)
}

#[derive(Clone, Debug)]
enum Step {
    Write(String, u64, Vec<u8>),
    Append(String, Vec<u8>),
    Map(String, Vec<u8>),
    Truncate(String, u64),
    Punch(String, u64, u64),
    Zero(String, u64, u64),
    Copy(String, String, u64, u64, u64),
    Seek(String, u64),
    Rename(String, String, u32),
    Link(String, String),
    Symlink(String, String),
    Unlink(String),
    MakeDirectory(String),
    RemoveDirectory(String),
    Mode(String, u32),
    Attribute(String, bool),
    Hold(String),
    WriteHeld(u64, Vec<u8>),
    Drop,
    Sync(String),
}

fn step(random: &mut Random) -> Step {
    let (a, b) = (name(random), name(random));
    let fill = random.below(255) as u8 + 1;
    let data = vec![fill; 1 + random.below(90_000) as usize];
    match random.below(24) {
        0..=4 => Step::Write(a, offset(random), data),
        5 => Step::Append(a, data),
        6 => Step::Map(a, data),
        7..=8 => Step::Truncate(a, offset(random)),
        9 => Step::Punch(a, offset(random), 1 + random.below(100_000)),
        10 => Step::Zero(a, offset(random), 1 + random.below(100_000)),
        11 => Step::Copy(a, b, offset(random), offset(random), 1 + random.below(300_000)),
        12 => Step::Seek(a, offset(random)),
        13..=14 => Step::Rename(a, b, [0, 0, 1, 2][random.below(4) as usize]),
        15 => Step::Link(a, b),
        16 => Step::Symlink(a, b),
        17 => Step::Unlink(a),
        18 => Step::MakeDirectory(["d1", "d2", "a"][random.below(3) as usize].into()),
        19 => Step::RemoveDirectory(["d1", "d2", "a"][random.below(3) as usize].into()),
        20 => Step::Mode(a, [0o600, 0o644, 0o4755, 0o2750][random.below(4) as usize]),
        21 => Step::Attribute(a, random.below(3) > 0),
        22 => Step::Hold(a),
        _ => match random.below(3) {
            0 => Step::Drop,
            1 => Step::Sync(a),
            _ => Step::WriteHeld(offset(random), data),
        },
    }
}

/// One of the two trees, with the files held open in it.
struct Side {
    root: PathBuf,
    held: Vec<File>,
}

/// Result of an operation: a comparable value, or the error's number.
type Answer = Result<String, i32>;

impl Side {
    fn run(&mut self, step: &Step) -> Answer {
        self.try_run(step).map_err(|error| error.raw_os_error().unwrap_or(-1))
    }

    fn open(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(self.root.join(name))
    }

    fn try_run(&mut self, step: &Step) -> io::Result<String> {
        let at = |name: &str| self.root.join(name);
        let done = |()| "done".to_string();
        match step {
            Step::Write(name, offset, data) => {
                let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(at(name))?;
                file.write_all_at(data, *offset).map(done)
            }
            Step::Append(name, data) => {
                io::Write::write_all(&mut OpenOptions::new().append(true).open(at(name))?, data).map(done)
            }
            Step::Map(name, data) => write_mapped(&self.open(name)?, data),
            Step::Truncate(name, size) => self.open(name)?.set_len(*size).map(done),
            Step::Punch(name, offset, len) => {
                let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                Ok(rustix::fs::fallocate(self.open(name)?, how, *offset, *len).map(done)?)
            }
            Step::Zero(name, offset, len) => {
                Ok(rustix::fs::fallocate(self.open(name)?, FallocateFlags::ZERO_RANGE, *offset, *len).map(done)?)
            }
            Step::Copy(from, to, in_offset, out_offset, len) => {
                let (from, to) = (self.open(from)?, self.open(to)?);
                let (mut source, mut destination, mut left) = (*in_offset, *out_offset, *len as usize);
                while left > 0 {
                    let copied =
                        rustix::fs::copy_file_range(&from, Some(&mut source), &to, Some(&mut destination), left)?;
                    if copied == 0 {
                        break;
                    }
                    left -= copied;
                }
                Ok(format!("{left} left"))
            }
            Step::Seek(name, offset) => {
                // Where holes begin is the file system's choice; that there is data after an offset is not.
                let file = self.open(name)?;
                let past = *offset >= file.metadata()?.len();
                let found = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(*offset));
                Ok(format!("{}", found.is_ok() != past))
            }
            Step::Rename(from, to, flags) => {
                let flags = RenameFlags::from_bits_retain(*flags);
                Ok(rustix::fs::renameat_with(rustix::fs::CWD, at(from), rustix::fs::CWD, at(to), flags).map(done)?)
            }
            Step::Link(from, to) => {
                let flags = rustix::fs::AtFlags::empty();
                Ok(rustix::fs::linkat(rustix::fs::CWD, at(from), rustix::fs::CWD, at(to), flags).map(done)?)
            }
            Step::Symlink(target, name) => std::os::unix::fs::symlink(target, at(name)).map(done),
            Step::Unlink(name) => fs::remove_file(at(name)).map(done),
            Step::MakeDirectory(name) => fs::create_dir(at(name)).map(done),
            Step::RemoveDirectory(name) => fs::remove_dir(at(name)).map(done),
            Step::Mode(name, mode) => fs::set_permissions(at(name), PermissionsExt::from_mode(*mode)).map(done),
            Step::Attribute(name, true) => {
                Ok(rustix::fs::setxattr(at(name), "user.colour", b"blue", XattrFlags::empty()).map(done)?)
            }
            Step::Attribute(name, false) => Ok(rustix::fs::removexattr(at(name), "user.colour").map(done)?),
            Step::Hold(name) => {
                let file = self.open(name)?;
                self.held.push(file);
                Ok("held".into())
            }
            Step::WriteHeld(offset, data) => match self.held.last() {
                Some(file) => {
                    file.write_all_at(data, *offset)?;
                    let stat = file.metadata()?;
                    Ok(format!("{} bytes, {} links", stat.len(), stat.nlink()))
                }
                None => Ok("none".into()),
            },
            Step::Drop => Ok(format!("{}", self.held.pop().is_some())),
            Step::Sync(name) => self.open(name)?.sync_all().map(done),
        }
    }

    /// Everything that a user can see, in order.
    fn tree(&self) -> Vec<String> {
        let mut lines = Vec::new();
        describe(&self.root, Path::new(""), &mut lines);
        lines
    }
}

fn write_mapped(file: &File, data: &[u8]) -> io::Result<String> {
    let len = (file.metadata()?.len() as usize).min(data.len());
    if len == 0 {
        return Ok("empty".into());
    }
    // SAFETY: the mapping is used only here, within its length, and the file is not truncated during its life.
    unsafe {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let map = rustix::mm::mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, file, 0)?;
        std::slice::from_raw_parts_mut(map.cast::<u8>(), len).copy_from_slice(&data[..len]);
        rustix::mm::msync(map, len, MsyncFlags::SYNC)?;
        rustix::mm::munmap(map, len)?;
    }
    Ok(format!("{len} mapped"))
}

fn describe(root: &Path, below: &Path, lines: &mut Vec<String>) {
    let mut entries: Vec<_> = fs::read_dir(root.join(below)).unwrap().map(|e| e.unwrap().file_name()).collect();
    entries.sort();
    for entry in entries {
        let path = below.join(entry);
        let full = root.join(&path);
        let stat = fs::symlink_metadata(&full).unwrap();
        let kind = stat.file_type();
        let mut line = format!("{} {:o} {}:{}", path.display(), stat.mode(), stat.uid(), stat.gid());
        if kind.is_file() {
            let bytes = fs::read(&full).unwrap();
            assert_eq!(bytes.len() as u64, stat.len(), "{path:?}");
            let sum = blake3::hash(&bytes);
            let mut value = [0; 16];
            let colour = rustix::fs::getxattr(&full, "user.colour", &mut value).map_err(|e| e == Errno::NODATA);
            line += &format!(" {} links, {} bytes, {sum}, colour {colour:?}", stat.nlink(), stat.len());
        } else if kind.is_symlink() {
            line += &format!(" -> {}", fs::read_link(&full).unwrap().display());
        }
        lines.push(line);
        if kind.is_dir() {
            describe(root, &path, lines);
        }
    }
}

/// Does `steps` random operations below `root` and in a local directory.
#[allow(dead_code)]
pub fn same_as_local(seed: u64, steps: usize, root: &Path) {
    let plain = tempfile::tempdir().unwrap();
    same(seed, steps, root, plain.path());
}

/// Does `steps` random operations in two empty directories.
pub fn same(seed: u64, steps: usize, root: &Path, plain: &Path) {
    eprintln!("seed {seed}, {steps} steps");
    let mut mounted = Side { root: root.to_path_buf(), held: Vec::new() };
    let mut local = Side { root: plain.to_path_buf(), held: Vec::new() };
    let mut random = Random(seed.max(1));
    for number in 0..steps {
        let step = step(&mut random);
        let (ours, theirs) = (mounted.run(&step), local.run(&step));
        let brief = format!("{step:.200?}");
        assert_eq!(ours, theirs, "seed {seed}, step {number}: {}", &brief[..brief.len().min(120)]);
        if number % 64 == 63 {
            assert_eq!(mounted.tree(), local.tree(), "seed {seed}, after step {number}");
        }
    }
    assert_eq!(mounted.tree(), local.tree(), "seed {seed}, at the end");
}
