//! Files whose bytes are known: what is done to one is done by one node at a time, each time another, and known only
//! when it was acknowledged.

use crate::hosts::USER;
use crate::random::Random;
use crate::volume::Node;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Result, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The directory of the mount that has them.
pub const DIRECTORY: &str = "soak";
/// No file is longer.
const SIZE_MAX: u64 = 3_000_000;
/// Time after which the work of a dead daemon is over.
const LATE: Duration = Duration::from_millis(500);
/// Time after a failed write in which it may still take effect: until its node is over, and a slow machine has noticed.
const UNSETTLED: Duration = Duration::from_secs(15);
/// Bytes that stay in a stub, records, bytes of several stripes.
const LENGTHS: [usize; 5] = [1, 700, 5000, 47_008, 1_300_000];
/// The last steps of a file are shown with what is wrong.
const STEPS_SHOWN: usize = 12;

/// A file and its expected content.
pub struct Known {
    number: usize,
    name: String,
    bytes: Vec<u8>,
    doubt: Option<Doubt>,
    kept: Option<Kept>,
    renames: u64,
    steps: Vec<String>,
}

/// Handle of one node, which goes on after another has replaced the file.
struct Kept {
    file: File,
    node: String,
    /// Content of the file when it was replaced.
    replaced: Option<Vec<u8>>,
}

/// Possible states after a failed call.
enum Doubt {
    /// Each byte is as before or as it was to be; since the call.
    Mixed(Vec<u8>, Instant),
    /// All bytes are as before, or all as they were to be.
    Replaced(Vec<u8>),
    Named(String),
}

#[derive(Debug)]
enum Step {
    Write { offset: u64, bytes: Vec<u8> },
    Append(Vec<u8>),
    Truncate(u64),
    Replace(Vec<u8>),
    Rename(String),
    Read { offset: usize, len: usize },
}

/// Hosts that do not reach each brick. There names are absent, and a name that is created or replaced may exist twice
/// afterwards. Both are GlusterFS's. No step starts on such a host.
static APART: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

/// Whether a node's host does not reach each brick.
pub fn is_apart(node: &Node<'_>) -> bool {
    APART[node.host.number - 1].load(Ordering::SeqCst)
}

/// Sets whether a node's host reaches each brick.
pub fn set_apart(node: &Node<'_>, is_apart: bool) {
    APART[node.host.number - 1].store(is_apart, Ordering::SeqCst);
}

/// Makes the file system calls of this thread those of [`USER`]. The thread stays allowed to reach the hosts' mounts.
pub fn act_as_user() {
    // SAFETY: both calls change numbers of this thread alone.
    unsafe {
        libc::setfsgid(USER);
        libc::setfsuid(USER);
    }
}

fn noise(random: &mut Random, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| random.next().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

impl Known {
    /// An empty one, to be made by a node that answers.
    pub fn make(node: &Node<'_>, number: usize) -> Known {
        let known = Known {
            number,
            name: format!("file{number}"),
            bytes: Vec::new(),
            doubt: None,
            kept: None,
            renames: 0,
            steps: Vec::new(),
        };
        drop(File::create_new(known.path(node)).expect("a new file"));
        std::os::unix::fs::chown(known.path(node), Some(USER), Some(USER)).expect("chown");
        known
    }

    fn path(&self, node: &Node<'_>) -> PathBuf {
        node.path(&format!("{DIRECTORY}/{}", self.name))
    }

    /// Does something to it on a node. The error of a call that failed, if one did.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn step(
        &mut self,
        node: &Node<'_>,
        random: &mut Random,
    ) -> std::result::Result<Option<std::io::Error>, String> {
        if self.doubt.is_some() {
            match self.settle(node) {
                Ok(()) if self.doubt.is_some() => return Ok(None),
                Ok(()) => self.note(node, "looked", "settled"),
                Err(Trouble::Failed(error)) => return Ok(Some(error)),
                Err(Trouble::Wrong(what)) => return Err(self.shown(node, &what)),
            }
        }
        self.read_kept(random).map_err(|what| self.shown(node, &what))?;
        let step = self.choose(random);
        let words = step.shown();
        match self.carry(node, &step) {
            Ok(()) => {
                self.note(node, &words, "done");
                if matches!(step, Step::Read { .. }) && self.kept.is_none() {
                    let file = File::open(self.path(node)).ok();
                    self.kept = file.map(|file| Kept { file, node: node.name(), replaced: None });
                }
                self.done(step);
                Ok(None)
            }
            Err(Trouble::Failed(error)) => {
                self.note(node, &words, &error.to_string());
                std::thread::sleep(LATE);
                self.doubt = self.doubt_of(step);
                Ok(Some(error))
            }
            Err(Trouble::Wrong(what)) => {
                self.note(node, &words, "wrong");
                Err(self.shown(node, &what))
            }
        }
    }

    /// Checks the replaced file that a node still has open, and closes it now and then. A node that was over may fail.
    fn read_kept(&mut self, random: &mut Random) -> std::result::Result<(), String> {
        let Some(Kept { file, node, replaced: Some(wanted) }) = &self.kept else { return Ok(()) };
        let mut read = vec![0; wanted.len() + 1];
        let mut done = 0;
        while done < read.len() {
            match file.read_at(&mut read[done..], done as u64) {
                Ok(0) => break,
                Ok(len) => done += len,
                Err(_) => {
                    self.kept = None;
                    return Ok(());
                }
            }
        }
        if read[..done] != wanted[..] {
            return Err(format!("replaced, open on {node}: {}", differs(&read[..done], wanted, 0)));
        }
        self.kept = self.kept.take().filter(|_| random.below(4) > 0);
        Ok(())
    }

    /// Closes the handle of a node, and checks that the whole file is as expected on a node that answers.
    ///
    /// # Errors
    /// The difference that was found.
    pub fn is_whole(&mut self, node: &Node<'_>) -> std::result::Result<(), String> {
        self.kept = None;
        if let Some(Doubt::Mixed(_, since)) = &self.doubt {
            std::thread::sleep(UNSETTLED.saturating_sub(since.elapsed()));
        }
        let whole = if self.doubt.is_some() { self.settle(node) } else { self.read(node, 0, usize::MAX) };
        whole.map_err(|trouble| {
            let what = match trouble {
                Trouble::Failed(error) => error.to_string(),
                Trouble::Wrong(what) => what,
            };
            self.shown(node, &what)
        })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    fn choose(&self, random: &mut Random) -> Step {
        let size = self.bytes.len() as u64;
        let len = random.one_of(&LENGTHS);
        match random.below(16) {
            0..4 => {
                let offset = random.below(size + size / 8 + 1).min(SIZE_MAX);
                let len = len.min((SIZE_MAX - offset) as usize);
                Step::Write { offset, bytes: noise(random, len) }
            }
            4..6 if size < SIZE_MAX => {
                let len = len.min((SIZE_MAX - size) as usize);
                Step::Append(noise(random, len))
            }
            6 => Step::Truncate(random.below(size + size / 8 + 1).min(SIZE_MAX)),
            7 => Step::Replace(noise(random, len)),
            8 => Step::Rename(format!("file{}-{}", self.number, self.renames + 1)),
            _ => {
                let offset = random.below(size + 1) as usize;
                Step::Read { offset, len: if random.below(3) == 0 { usize::MAX } else { len } }
            }
        }
    }

    fn carry(&self, node: &Node<'_>, step: &Step) -> std::result::Result<(), Trouble> {
        let path = self.path(node);
        let at = |name: &str| node.path(&format!("{DIRECTORY}/{name}"));
        let open = || OpenOptions::new().write(true).to_owned();
        let done = match step {
            Step::Write { offset, bytes } => open().open(&path).and_then(|file| file.write_all_at(bytes, *offset)),
            Step::Append(bytes) => open().append(true).open(&path).and_then(|mut file| file.write_all(bytes)),
            Step::Truncate(len) => open().open(&path).and_then(|file| file.set_len(*len)),
            Step::Replace(bytes) => {
                let part = at(&format!("part{}", self.number));
                replace(&part, &path, bytes)
            }
            Step::Rename(to) => std::fs::rename(&path, at(to)),
            Step::Read { offset, len } => return self.read(node, *offset, *len),
        };
        done.map_err(|error| self.failed(node, error))
    }

    /// Records the effect of a successful step.
    fn done(&mut self, step: Step) {
        match step {
            Step::Rename(to) => (self.name, self.renames) = (to, self.renames + 1),
            Step::Replace(bytes) => {
                let old = std::mem::replace(&mut self.bytes, bytes);
                if let Some(Kept { replaced: replaced @ None, .. }) = &mut self.kept {
                    *replaced = Some(old);
                }
            }
            other => self.bytes = other.applied(&self.bytes),
        }
    }

    fn doubt_of(&mut self, step: Step) -> Option<Doubt> {
        if matches!(step, Step::Replace(_)) {
            self.kept = None;
        }
        match step {
            Step::Read { .. } => None,
            Step::Rename(to) => {
                self.renames += 1;
                Some(Doubt::Named(to))
            }
            Step::Replace(bytes) => Some(Doubt::Replaced(bytes)),
            other => Some(Doubt::Mixed(other.applied(&self.bytes), Instant::now())),
        }
    }

    fn read(&self, node: &Node<'_>, offset: usize, len: usize) -> std::result::Result<(), Trouble> {
        let end = offset.saturating_add(len).min(self.bytes.len());
        let bytes = self.read_all_from(node, offset, len)?;
        let wanted = &self.bytes[offset.min(end)..end];
        if bytes == wanted {
            return Ok(());
        }
        Err(Trouble::Wrong(differs(&bytes, wanted, offset)))
    }

    fn read_all_from(&self, node: &Node<'_>, offset: usize, len: usize) -> std::result::Result<Vec<u8>, Trouble> {
        let read = || -> Result<Vec<u8>> {
            let mut file = File::open(self.path(node))?;
            std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(offset as u64))?;
            let mut bytes = Vec::new();
            file.take(len as u64).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        read().map_err(|error| self.failed(node, error))
    }

    /// An error; it is wrong when a name is gone though the mount is there. Where the mount is away, no name is there.
    fn failed(&self, node: &Node<'_>, error: std::io::Error) -> Trouble {
        let is_gone = || {
            std::thread::sleep(LATE);
            let is_mounted = || std::fs::symlink_metadata(node.path(DIRECTORY)).is_ok();
            let none = |path: PathBuf| std::fs::symlink_metadata(path).is_err_and(|e| e.kind() == ErrorKind::NotFound);
            is_mounted() && none(self.path(node)) && is_mounted()
        };
        let absent = error.kind() == ErrorKind::NotFound && !is_apart(node);
        if absent && (0..4).all(|_| is_gone()) && !is_apart(node) {
            return Trouble::Wrong(format!("{} is gone", self.name));
        }
        Trouble::Failed(error)
    }

    /// Checks what became of a call that failed. A write stays in doubt for a while.
    fn settle(&mut self, node: &Node<'_>) -> std::result::Result<(), Trouble> {
        match self.doubt.take() {
            Some(Doubt::Named(to)) => {
                let before = std::mem::replace(&mut self.name, to.clone());
                match std::fs::symlink_metadata(self.path(node)) {
                    Ok(_) => {}
                    Err(error) => {
                        self.name = before;
                        if error.kind() != ErrorKind::NotFound || std::fs::symlink_metadata(self.path(node)).is_err() {
                            self.doubt = Some(Doubt::Named(to));
                            return Err(Trouble::Failed(error));
                        }
                    }
                }
                self.read(node, 0, usize::MAX)
            }
            Some(Doubt::Mixed(new, since)) => {
                let is_settled = since.elapsed() >= UNSETTLED;
                let read = self.read_all_from(node, 0, usize::MAX);
                let read = read.inspect_err(|_| self.doubt = Some(Doubt::Mixed(new.clone(), since)))?;
                let (least, most) = (self.bytes.len().min(new.len()), self.bytes.len().max(new.len()));
                let may_be = |(at, byte): (usize, &u8)| self.bytes.get(at) == Some(byte) || new.get(at) == Some(byte);
                if !(least..=most).contains(&read.len()) || !read.iter().enumerate().all(may_be) {
                    let before = differs(&read, &self.bytes, 0);
                    return Err(Trouble::Wrong(format!(
                        "neither as before ({before}) nor as it was to be ({})",
                        differs(&read, &new, 0)
                    )));
                }
                match is_settled {
                    true => self.bytes = read,
                    false => self.doubt = Some(Doubt::Mixed(new, since)),
                }
                Ok(())
            }
            Some(Doubt::Replaced(new)) => {
                let read = self.read_all_from(node, 0, usize::MAX);
                let read = read.inspect_err(|_| self.doubt = Some(Doubt::Replaced(new.clone())))?;
                if read != new && read != self.bytes {
                    return Err(Trouble::Wrong(format!(
                        "neither the old file nor the new one: {}",
                        differs(&read, &new, 0)
                    )));
                }
                self.bytes = read;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn note(&mut self, node: &Node<'_>, step: &str, ended: &str) {
        if self.steps.len() == STEPS_SHOWN {
            self.steps.remove(0);
        }
        self.steps.push(format!("{}: {step}: {ended}", node.name()));
    }

    fn shown(&self, node: &Node<'_>, what: &str) -> String {
        format!("{} on {}: {what}\n  {}", self.name, node.name(), self.steps.join("\n  "))
    }
}

/// Why a step did not succeed.
enum Trouble {
    Failed(std::io::Error),
    Wrong(String),
}

fn replace(part: &std::path::Path, path: &std::path::Path, bytes: &[u8]) -> Result<()> {
    let mut file = File::create(part)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(part, path)
}

fn differs(read: &[u8], wanted: &[u8], offset: usize) -> String {
    let at = read.iter().zip(wanted).position(|(a, b)| a != b);
    let many = read.iter().zip(wanted).filter(|(a, b)| a != b).count();
    let zeros = at.is_some_and(|at| read[at] == 0);
    let place =
        at.map_or("no other byte".into(), |at| format!("{many} other bytes from {} on, zeros {zeros}", offset + at));
    format!("{} bytes of {}, {place}", read.len(), wanted.len())
}

impl Step {
    fn applied(self, bytes: &[u8]) -> Vec<u8> {
        let mut after = bytes.to_vec();
        match self {
            Step::Write { offset, bytes } if !bytes.is_empty() => {
                let (from, to) = (offset as usize, offset as usize + bytes.len());
                after.resize(after.len().max(to), 0);
                after[from..to].copy_from_slice(&bytes);
            }
            Step::Append(bytes) => after.extend(bytes),
            Step::Truncate(len) => after.resize(len as usize, 0),
            Step::Replace(bytes) => after = bytes,
            Step::Write { .. } | Step::Rename(_) | Step::Read { .. } => {}
        }
        after
    }

    /// Without the bytes.
    fn shown(&self) -> String {
        match self {
            Step::Write { offset, bytes } => format!("write of {} bytes at {offset}", bytes.len()),
            Step::Append(bytes) => format!("append of {} bytes", bytes.len()),
            Step::Replace(bytes) => format!("replaced by {} bytes", bytes.len()),
            other => format!("{other:?}"),
        }
    }
}
