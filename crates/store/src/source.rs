//! Where staged data came from: the trait that a remote source implements, and the record of it that a file keeps.
//!
//! The implementations live in the crate `source`; this module knows no protocol.

#[cfg(test)]
pub mod memory;
mod record;
pub mod rights;

pub use record::{FORMAT, Place, Record, RecordError, SOURCES_MAX, SUM_BYTES, check_uri};

use std::sync::Arc;

/// Why a source gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// It may work when tried again: network, timeout, server busy.
    #[error("{0}")]
    Passing(String),
    /// It will not work: not found, bad URI, no range support.
    #[error("{0}")]
    Permanent(String),
    /// The user may not, or has not said who they are.
    #[error("{0}")]
    Denied(String),
    /// It is not what was staged in: size, ETag or modification time differ.
    #[error("the source changed since it was staged in: {0}")]
    Changed(String),
}

impl SourceError {
    /// The same in other words.
    pub fn map(self, say: impl FnOnce(String) -> String) -> SourceError {
        match self {
            SourceError::Passing(text) => SourceError::Passing(say(text)),
            SourceError::Permanent(text) => SourceError::Permanent(say(text)),
            SourceError::Denied(text) => SourceError::Denied(say(text)),
            SourceError::Changed(text) => SourceError::Changed(say(text)),
        }
    }
}

/// What identifies a version of the data at a source.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Version {
    /// Size in bytes.
    pub size: u64,
    /// Entity tag, where the protocol has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// Modification time in nanoseconds since 1970, where the protocol tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_ns: Option<u64>,
}

impl Version {
    /// Whether other bytes of the same size would be another version.
    pub fn tells_apart(&self) -> bool {
        self.etag.is_some() || self.modified_ns.is_some()
    }
}

/// Bytes of one range when a whole file is read. A guess: few round trips, little memory.
const READ_BYTES: usize = 8 << 20;

/// One file at one source, over one session. Blocking; called from several threads at once.
pub trait Source: Send + Sync {
    /// What is there now.
    fn stat(&self) -> Result<Version, SourceError>;
    /// Fills `buf` from `offset`, all of it. Fails with `Changed` where the protocol lets it guard by `version`.
    fn read_at(&self, version: &Version, offset: u64, buf: &mut [u8]) -> Result<(), SourceError>;
    /// Reads from the start, in order: `each` gets the bytes and says whether to go on. Sources without ranges have
    /// their own way; all others are read range by range.
    fn read_all(&self, version: &Version, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), SourceError> {
        let mut buf = vec![0; READ_BYTES.min(version.size as usize)];
        let mut offset = 0;
        while offset < version.size {
            let len = (version.size - offset).min(buf.len() as u64) as usize;
            self.read_at(version, offset, &mut buf[..len])?;
            offset += len as u64;
            if !each(&buf[..len]) {
                break;
            }
        }
        Ok(())
    }
    /// Whether ranges are served: found out with a one-byte read, once.
    fn has_ranges(&self) -> Result<bool, SourceError>;
    /// Whether it would be noticed that other bytes of the same size take the place of this version from now on. Where
    /// not, several ranges could be of several versions.
    fn notices_replacement(&self, version: &Version) -> bool {
        version.tells_apart()
    }
}

/// A file being written at a destination. Becomes visible under its name only with [`Upload::finish`].
pub trait Upload: Send {
    /// Appends bytes.
    fn append(&mut self, data: &[u8]) -> Result<(), SourceError>;
    /// Sends what is left and compares the size that arrived, before it has its name where the protocol allows. From
    /// then on it can be read back at [`Started::at`].
    fn complete(&mut self, expect_size: u64) -> Result<(), SourceError>;
    /// Gives it its name, completed before if need be. What failed is removed.
    fn finish(self: Box<Self>, expect_size: u64) -> Result<Version, SourceError>;
    /// Gives up and removes what was written, completed or not.
    fn abort(self: Box<Self>);
}

/// An upload that was begun.
pub struct Started {
    /// The upload.
    pub upload: Box<dyn Upload>,
    /// Where it can be read back once it is completed: its temporary name; for s3 and ftp, which know none, its own.
    pub at: String,
}

/// What a directory at a source holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path below the directory, with `/` between its parts; never absolute, never with `..`.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
}

/// The kind of an [`Entry`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A file of that many bytes.
    File(u64),
    /// A directory.
    Directory,
    /// A symbolic link and where it points (only sources that are local directories know them).
    Symlink(String),
}

/// A file of a record of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deposited {
    /// Where it is.
    pub uri: String,
    /// Its name below the record, as the repository says it: hostile input.
    pub path: String,
    /// How large it is.
    pub size: u64,
    /// Its checksum, `ALGORITHM:HEX`, where the repository has one.
    pub checksum: Option<String>,
}

/// Whether a URI can only mean a directory: it ends in a slash, or names a record of a repository.
pub fn means_directory(uri: &str) -> bool {
    uri.ends_with('/') || uri.starts_with("zenodo:") || uri.starts_with("doi:")
}

/// On whose behalf a source is opened: decides where credentials are looked for.
#[derive(Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Identity {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// A file of mode 0600 with credentials, or nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_file: Option<std::path::PathBuf>,
    /// Credential variables of the user's environment that the client passed on. Never logged.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub environment: std::collections::BTreeMap<String, String>,
    /// File mode creation mask, for what is made on their behalf; [`UMASK`] where the client does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// The job whose command it is, as the client says: bytes are counted for it if it is the user's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

/// The variable by which the commands of a job know it.
pub const JOB_VARIABLE: &str = "ENTREPOT_JOB_ACCOUNT";

/// The mask of a client that does not tell its own: what systems come with.
pub const UMASK: u32 = 0o022;

impl Identity {
    /// The mask to use.
    pub fn mask(&self) -> u32 {
        self.umask.unwrap_or(UMASK) & 0o777
    }
}

impl std::fmt::Debug for Identity {
    /// Says which credential variables there are, not what is in them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity")
            .field("uid", &self.uid)
            .field("gid", &self.gid)
            .field("credentials_file", &self.credentials_file)
            .field("environment", &self.environment.keys().collect::<Vec<_>>())
            .field("umask", &self.umask)
            .finish()
    }
}

/// Opens sources by URI. Implemented by the crate `source`; in tests by memory.
pub trait Opener: Send + Sync {
    /// A file to read.
    fn open(&self, uri: &str, who: &Identity) -> Result<Arc<dyn Source>, SourceError>;
    /// Where a file of that name (as it stands in a URI) goes that is sent to `uri`: into it where it is a directory,
    /// or says so with a `/` at its end.
    fn named(&self, uri: &str, name: &str, _who: &Identity) -> Result<String, SourceError> {
        Ok(if uri.ends_with('/') { format!("{uri}{name}") } else { uri.to_string() })
    }
    /// A file to write.
    fn create(&self, uri: &str, who: &Identity) -> Result<Started, SourceError>;
    /// The files of a record of a repository; nothing where the URI names none.
    fn record(&self, _uri: &str, _who: &Identity) -> Result<Option<Vec<Deposited>>, SourceError> {
        Ok(None)
    }
    /// The tree below a directory, parents before children.
    fn list(&self, uri: &str, who: &Identity) -> Result<Vec<Entry>, SourceError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [S-047]
    #[test]
    fn an_identity_shows_no_secret() {
        let environment = [("AWS_SECRET_ACCESS_KEY".to_string(), "hush".to_string())].into();
        let shown = format!("{:?}", Identity { environment, ..Default::default() });
        assert!(shown.contains("AWS_SECRET_ACCESS_KEY") && !shown.contains("hush"), "{shown}");
    }
}
