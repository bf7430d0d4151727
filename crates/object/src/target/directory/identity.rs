//! The identity file of a target: an unmounted or wrong device is seen as failed, never as empty.

use super::{DIRECTORY, PRIVATE_FILE};
use crate::host::sync_directory;
use crate::newer::newer_than;
use crate::volume_id::VolumeId;
use policy::TargetId;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::io::{Read, Write};
use std::path::Path;

/// Name of the identity file in a target's directory.
const NAME: &str = "target.id";
const NEW_NAME: &str = "target.id.new";
/// Newest format of a target that this program can read.
const FORMAT: u32 = 1;
/// Size limit of an identity file: an identity has some hundred bytes, a larger file is not ours.
const BYTES_MAX: u64 = 4096;

/// Content of the identity file of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Volume that owns the directory.
    pub volume: VolumeId,
    /// Its number in the volume.
    pub target: TargetId,
    /// Its name when it was formatted.
    pub name: String,
}

/// Reason why a directory has no identity of ours.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// There is no identity file.
    #[error("there is no {NAME}")]
    Missing,
    /// The identity is of another target.
    #[error("it is target {} ({}) of volume {}", found.target, found.name, found.volume)]
    Foreign {
        /// The identity that was found.
        found: Box<Identity>,
    },
    /// The identity file is malformed.
    #[error("{NAME} is damaged: {cause}")]
    Unreadable {
        /// Cause, for the message.
        cause: String,
    },
    /// The format is newer than this program can read.
    #[error("{}", newer_than(NAME, *format, FORMAT))]
    Newer {
        /// Format of the file.
        format: u32,
    },
    /// Error of a system call.
    #[error("{0}")]
    Io(#[from] Errno),
}

/// Format of the rest of the file; 1 if missing.
#[derive(serde::Deserialize)]
struct Head {
    format: Option<u32>,
}

/// Text of the identity file, as TOML.
#[derive(serde::Serialize, serde::Deserialize)]
struct Text {
    #[serde(default)]
    format: u32,
    volume: String,
    target: u16,
    name: String,
}

impl Identity {
    /// Reads the identity of the target in a directory.
    pub fn read(directory: &Path) -> Result<Identity, IdentityError> {
        Identity::read_at(&rustix::fs::open(directory, DIRECTORY, Mode::empty())?)
    }

    /// Reads the identity of the target in an open directory.
    pub fn read_at(directory: impl AsFd) -> Result<Identity, IdentityError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = match rustix::fs::openat(directory, NAME, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Err(IdentityError::Missing),
            other => other?,
        };
        let mut bytes = Vec::new();
        std::fs::File::from(fd).take(BYTES_MAX).read_to_end(&mut bytes).map_err(from_io)?;
        Identity::parse(&String::from_utf8_lossy(&bytes))
    }

    fn parse(text: &str) -> Result<Identity, IdentityError> {
        let wrong = |error: toml::de::Error| IdentityError::Unreadable { cause: error.message().to_owned() };
        let head: Head = toml::from_str(text).map_err(wrong)?;
        if let Some(format) = head.format.filter(|&format| format > FORMAT) {
            return Err(IdentityError::Newer { format });
        }
        let text: Text = toml::from_str(text).map_err(wrong)?;
        let volume = u128::from_str_radix(&text.volume, 16);
        let volume = volume.map_err(|_| IdentityError::Unreadable { cause: "the volume is no number".to_owned() })?;
        Ok(Identity { volume: VolumeId(volume), target: TargetId(text.target), name: text.name })
    }

    /// Removes the identity file durably.
    pub(super) fn remove(directory: &OwnedFd) -> Result<(), Errno> {
        rustix::fs::unlinkat(directory, NAME, AtFlags::empty())?;
        sync_directory(directory)
    }

    /// Writes it durably, in one step.
    pub(super) fn write(&self, directory: &OwnedFd) -> Result<(), IdentityError> {
        let text =
            Text { format: FORMAT, volume: self.volume.to_string(), target: self.target.0, name: self.name.clone() };
        let text = toml::to_string(&text).map_err(|error| IdentityError::Unreadable { cause: error.to_string() })?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let fd = rustix::fs::openat(directory, NEW_NAME, flags, PRIVATE_FILE)?;
        let mut file = std::fs::File::from(fd);
        file.write_all(text.as_bytes()).map_err(from_io)?;
        file.sync_all().map_err(from_io)?;
        rustix::fs::renameat(directory, NEW_NAME, directory, NAME)?;
        Ok(sync_directory(directory)?)
    }
}

fn from_io(error: std::io::Error) -> IdentityError {
    IdentityError::Io(error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))
}
