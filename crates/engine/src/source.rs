//! Sources of staged data: the trait that a remote source implements, and the record that a file keeps of its sources.
//!
//! The crate `source` has the implementations; this module contains no protocol.

#[cfg(any(test, feature = "doubles"))]
pub mod memory;
mod record;

pub use record::{FORMAT, Place, Record, RecordError, SOURCES_MAX, SUM_BYTES, check_uri};

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Result of a request to a source.
pub type Result<T, E = SourceError> = std::result::Result<T, E>;

/// Failure of a source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// A retry may succeed: network, timeout, busy server.
    #[error("{0}")]
    Passing(String),
    /// A retry cannot succeed: not found, bad URI, no range support.
    #[error("{0}")]
    Permanent(String),
    /// The user has no permission, or sent no credentials.
    #[error("{0}")]
    Denied(String),
    /// The source differs from the staged version in size, ETag or modification time.
    #[error("the source changed since it was staged in: {0}")]
    Changed(String),
}

impl SourceError {
    /// Replaces the text and keeps the kind.
    pub fn map(self, say: impl FnOnce(String) -> String) -> SourceError {
        match self {
            SourceError::Passing(text) => SourceError::Passing(say(text)),
            SourceError::Permanent(text) => SourceError::Permanent(say(text)),
            SourceError::Denied(text) => SourceError::Denied(say(text)),
            SourceError::Changed(text) => SourceError::Changed(say(text)),
        }
    }
}

/// Identity of a version of the data at a source.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Version {
    /// Size in bytes.
    pub size: u64,
    /// Entity tag, where the protocol has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// Modification time in nanoseconds since 1970, where the protocol has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_ns: Option<u64>,
}

impl Version {
    /// Whether a replacement of the same size would have another `Version`.
    pub fn tells_apart(&self) -> bool {
        self.etag.is_some() || self.modified_ns.is_some()
    }
}

/// Bytes per range when a whole file is read. A guess: few round trips, little memory.
const READ_BYTES: usize = 8 << 20;

/// One file at one source, over one session. Calls block, and several threads call at once.
pub trait Source: Send + Sync {
    /// Returns the present version.
    fn stat(&self) -> Result<Version>;
    /// Fills `buf` from `offset` completely, and adds the bytes to `arrived` while they arrive. Fails with `Changed` if
    /// the version differs and the protocol can detect that.
    fn fetch_at(&self, version: &Version, offset: u64, buf: &mut [u8], arrived: &AtomicU64) -> Result<()>;
    /// As [`Source::fetch_at`], without progress.
    fn read_at(&self, version: &Version, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.fetch_at(version, offset, buf, &AtomicU64::new(0))
    }
    /// Reads from the start, in order; `each` takes the bytes and returns whether to go on. Sources without ranges
    /// override this method; the default reads range by range.
    fn read_all(&self, version: &Version, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
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
    /// Whether ranges are served: probed once with a one-byte read.
    fn has_ranges(&self) -> Result<bool>;
    /// Whether a replacement of the same size would be detected from now on. If not, ranges fetched one by one may
    /// belong to several versions.
    fn notices_replacement(&self, version: &Version) -> bool {
        version.tells_apart()
    }
}

/// A file being written at a destination. [`Upload::finish`] makes it visible under its name.
pub trait Upload: Send {
    /// Appends bytes to the upload.
    fn append(&mut self, data: &[u8]) -> Result<()>;
    /// Sends the rest and compares the size that arrived, if possible before the file gets its name. The copy can then
    /// be read back at [`Started::at`].
    fn complete(&mut self, expect_size: u64) -> Result<()>;
    /// Gives the file its name, after [`Upload::complete`] if that was not called. Removes the upload on failure.
    fn finish(self: Box<Self>, expect_size: u64) -> Result<Version>;
    /// Removes the upload, completed or not. Returns the location of remains that could not be removed.
    fn abort(self: Box<Self>) -> Option<String>;
}

/// An upload in progress.
pub struct Started {
    /// The open upload.
    pub upload: Box<dyn Upload>,
    /// Location where the completed copy can be read back: its temporary name. For s3 and ftp, which have none, it is
    /// the final name.
    pub at: String,
}

/// An entry of a directory at a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path below the directory, with `/` between its parts; never absolute, never with `..`.
    pub path: String,
    /// File, directory or link.
    pub kind: EntryKind,
}

/// The kind of an [`Entry`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A file and its size in bytes.
    File(u64),
    /// A directory of the source.
    Directory,
    /// A symbolic link and its target path (only for sources that are local directories).
    Symlink(String),
}

/// A file of a repository's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deposited {
    /// URI of the file.
    pub uri: String,
    /// Path below the record as the repository sends it: hostile input.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
    /// Its checksum, `ALGORITHM:HEX`, where the repository has one.
    pub checksum: Option<String>,
}

/// Whether a URI always names a directory: it ends in a slash, or names a repository's record.
pub fn means_directory(uri: &str) -> bool {
    uri.ends_with('/') || uri.starts_with("zenodo:") || uri.starts_with("doi:")
}

/// Percent-encodes a path for a URI.
pub fn encoded(path: &str) -> String {
    let keep = |b: u8| b.is_ascii_alphanumeric() || b"/-._~+@,=:".contains(&b);
    path.bytes().map(|b| if keep(b) { (b as char).to_string() } else { format!("%{b:02X}") }).collect()
}

/// The user for whom a source is opened. It decides where credentials are searched.
#[derive(Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Identity {
    /// Numeric user id.
    pub uid: u32,
    /// Numeric group id.
    pub gid: u32,
    /// A file of mode 0600 with credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_file: Option<std::path::PathBuf>,
    /// Credential variables of the user's environment that the client passed on. Never logged.
    #[serde(default, skip_serializing_if = "std::collections::BTreeMap::is_empty")]
    pub environment: std::collections::BTreeMap<String, String>,
    /// File mode creation mask for files made for the user; `None`: [`UMASK`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// The job that runs the command, as the client reports it. Its bytes are accounted to the job if the user owns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
}

/// Environment variable with the job's name for commands that run in it.
pub const JOB_VARIABLE: &str = "ENTREPOT_JOB_ACCOUNT";

/// Mask for clients that send none: the usual default of Linux systems.
pub const UMASK: u32 = 0o022;

impl Identity {
    /// The mask to use: the client's, or [`UMASK`].
    pub fn mask(&self) -> u32 {
        self.umask.unwrap_or(UMASK) & 0o777
    }
}

impl std::fmt::Debug for Identity {
    /// Prints the names of credential variables, never their values.
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

/// Opens sources by URI. The crate `source` implements it; tests use sources in memory.
pub trait Opener: Send + Sync {
    /// Opens a file for reading.
    fn open(&self, uri: &str, who: &Identity) -> Result<Arc<dyn Source>>;
    /// The URI of a file named `name` (URI-encoded) that is sent to `uri`: below `uri` if that is a directory or ends
    /// in `/`.
    fn named(&self, uri: &str, name: &str, _who: &Identity) -> Result<String> {
        Ok(if uri.ends_with('/') { format!("{uri}{name}") } else { uri.to_string() })
    }
    /// Creates a file at a destination.
    fn create(&self, uri: &str, who: &Identity) -> Result<Started>;
    /// Files of a repository's record; `None` if the URI names no record.
    fn record(&self, _uri: &str, _who: &Identity) -> Result<Option<Vec<Deposited>>> {
        Ok(None)
    }
    /// Lists the tree below a directory, parents before children.
    fn list(&self, uri: &str, who: &Identity) -> Result<Vec<Entry>>;
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
