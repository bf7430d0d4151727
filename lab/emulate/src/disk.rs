//! An emulated disk from start to unmount.

use crate::device::Device;
use crate::extents::{BLOCK_BYTES, Extents, Run};
use crate::figures::Figures;
use crate::options::Options;
use crate::pace::Pace;
use crate::serve::Shared;
use crate::spindle::{Arrival, Spindle};
use fuser::BackgroundSession;
use meta::namespace::Namespace;
use node::mount::front::{Mounting, serve};
use node::mount::mountpoint::{clear_stale, detach, unmount_unused};
use parking_lot::Mutex;
use policy::time::Time;
use rustix::fs::{Mode, OFlags, SeekFrom, open, seek};
use sim::setup::SetupError;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// FUSE threads. Few suffice, since they never wait for the device.
const THREADS: usize = 4;

/// Reason why an emulated disk cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The device cannot be made.
    #[error("{} `{}`: {}; nothing was mounted", .0.what, .0.value, .0.why)]
    Setup(#[from] SetupError),
    /// A number is out of its range.
    #[error("{0}; nothing was mounted")]
    Number(String),
    /// A directory cannot be used.
    #[error("{path} cannot be used: {error}; nothing was mounted. Give two directories, of which neither lies in the other", path = .path.display())]
    Directory {
        /// Path of the directory.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The existing files do not fit.
    #[error(
        "the files in {path} need {need_bytes} bytes and the emulated device has {have_bytes}; nothing was mounted. Remove some, or give a larger --capacity or model", path = .path.display()
    )]
    TooSmall {
        /// The backing directory.
        path: PathBuf,
        /// Bytes that the files need.
        need_bytes: u64,
        /// Capacity of the device.
        have_bytes: u64,
    },
    /// The kernel refused.
    #[error("mounting at {path} was refused: {error}; nothing was mounted. As an ordinary user you need `fusermount3` (package fuse3) and access to /dev/fuse", path = .path.display())]
    Refused {
        /// Path of the mount point.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
}

/// A running emulated disk. Dropping it detaches it.
pub struct EmulatedDisk {
    path: PathBuf,
    shared: Arc<Shared>,
    options: Options,
    pace: Pace,
    session: Mutex<Option<BackgroundSession>>,
}

impl EmulatedDisk {
    /// Serves `backing` at `mountpoint`. Existing files are placed one after the other in the order of their paths.
    pub fn start(backing: &Path, mountpoint: &Path, options: Options) -> Result<EmulatedDisk, StartError> {
        let pace = Pace::new(options.speedup)
            .ok_or_else(|| StartError::Number(format!("the speedup {} is not a number above 0", options.speedup)))?;
        let device = Device::new(options.setup.storage()?, options.queue_depth);
        let device_bytes = device.sectors() / 8 * BLOCK_BYTES;
        let bytes = options.capacity_bytes.unwrap_or(device_bytes);
        if bytes > device_bytes || bytes < BLOCK_BYTES {
            let model = &options.setup.disk;
            return Err(StartError::Number(format!(
                "a capacity of {bytes} bytes was asked for, and {model} has {device_bytes}"
            )));
        }
        let unusable = |path: &Path, error| StartError::Directory { path: path.to_path_buf(), error };
        clear_stale(mountpoint).map_err(|error| unusable(mountpoint, error))?;
        let path = mountpoint.canonicalize().map_err(|error| unusable(mountpoint, error))?;
        let backing = backing.canonicalize().map_err(|error| unusable(backing, error))?;
        if path.starts_with(&backing) || backing.starts_with(&path) {
            return Err(unusable(&path, io::Error::other(format!("it and {} lie in each other", backing.display()))));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(&backing, flags, Mode::empty()).map_err(|error| unusable(&backing, error.into()))?;
        let namespace = Namespace::new(root).map_err(|error| unusable(&backing, error.into()))?;
        let mut extents = Extents::new(bytes / 512, options.extent_bytes / BLOCK_BYTES);
        lay_out(&backing, &mut extents)?;
        let refused = |error| StartError::Refused { path: path.clone(), error };
        let spindle = Spindle::start(device, pace).map_err(refused)?;
        let shared = Arc::new(Shared::new(namespace, extents, spindle, &options));
        let mounting = Mounting {
            path: &path,
            subtype: "entrepot-disk",
            name: &format!("disk:{}", backing.display()),
            allow_other: rustix::process::geteuid().is_root(),
            threads: THREADS,
        };
        let session = serve(shared.clone(), &mounting).map_err(refused)?;
        Ok(EmulatedDisk { path, shared, options, pace, session: Mutex::new(Some(session)) })
    }

    /// Path of the mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Options of the emulation.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Ratio of the device's time to real time.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// Current time of the device.
    pub fn now(&self) -> Time {
        self.shared.spindle.now()
    }

    /// Returns the figures since the start.
    pub fn figures(&self) -> Figures {
        self.shared.figures()
    }

    /// Begins to record requests as they reach the device.
    pub(crate) fn record(&self) {
        self.shared.spindle.record();
    }

    /// Ends the recording and returns it.
    pub(crate) fn recorded(&self) -> Vec<Arrival> {
        self.shared.spindle.recorded()
    }

    /// Returns the sectors of a range of a file, which is given by its inode.
    pub fn place(&self, inode: u64, offset: u64, length: u64) -> Vec<Run> {
        self.shared.extents.lock().find(inode, offset, length)
    }

    /// Unmounts: `EBUSY` while it is in use.
    pub fn unmount(&self) -> io::Result<()> {
        unmount_unused(&self.path)
    }

    /// Detaches the mount point from the tree; the mount ends with its last user.
    pub fn detach(&self) -> io::Result<()> {
        detach(&self.path)
    }

    /// Waits until it is unmounted, and returns the figures.
    pub fn wait(&self) -> io::Result<Figures> {
        if let Some(session) = self.session.lock().take() {
            session.join()?;
        }
        let figures = self.shared.figures();
        self.shared.spindle.end();
        Ok(figures)
    }
}

impl Drop for EmulatedDisk {
    fn drop(&mut self) {
        if self.session.lock().is_some()
            && let Err(error) = detach(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "an emulated disk that is not needed any more cannot be detached");
        }
    }
}

/// Places the existing files: in the order of their paths, without holes, each inode once.
fn lay_out(backing: &Path, extents: &mut Extents) -> Result<(), StartError> {
    let mut seen = HashSet::new();
    let mut need_bytes = 0;
    let mut fits = true;
    let device =
        fs::metadata(backing).map_err(|error| StartError::Directory { path: backing.to_path_buf(), error })?.dev();
    // A stack: names pushed in descending order are popped in ascending order.
    let mut ahead = vec![backing.to_path_buf()];
    while let Some(path) = ahead.pop() {
        let wrong = |error| StartError::Directory { path: path.clone(), error };
        let found = fs::symlink_metadata(&path).map_err(wrong)?;
        if found.dev() != device {
            continue;
        }
        if found.is_dir() {
            let names = fs::read_dir(&path).map_err(wrong)?;
            let mut below =
                names.map(|entry| entry.map(|e| e.path())).collect::<io::Result<Vec<_>>>().map_err(wrong)?;
            below.sort_unstable_by(|a, b| b.cmp(a));
            ahead.extend(below);
        } else if found.is_file() && found.len() > 0 && seen.insert(found.ino()) {
            for (offset, length) in data(&path, &found).map_err(wrong)? {
                need_bytes += length.next_multiple_of(BLOCK_BYTES);
                fits = fits && extents.place(found.ino(), offset, length).is_ok();
            }
            extents.close(found.ino());
        }
    }
    if fits {
        return Ok(());
    }
    Err(StartError::TooSmall { path: backing.to_path_buf(), need_bytes, have_bytes: extents.bytes() })
}

/// Returns the ranges of a file that are not holes; the whole file if they cannot be determined.
fn data(path: &Path, found: &fs::Metadata) -> io::Result<Vec<(u64, u64)>> {
    let size = found.len();
    if found.blocks() * 512 >= size {
        return Ok(vec![(0, size)]);
    }
    let Ok(file) = File::open(path) else { return Ok(vec![(0, size)]) };
    let mut parts = Vec::new();
    let mut at = 0;
    while at < size {
        let Ok(start) = seek(&file, SeekFrom::Data(at)) else { break };
        let end = seek(&file, SeekFrom::Hole(start))?;
        parts.push((start, end - start));
        at = end;
    }
    Ok(parts)
}
