//! `file://`: files opened with the rights of the requesting user, never inside the volume's own directories.

use crate::entries::Entries;
use crate::failure;
use crate::guard::same;
use crate::runtime::Runtime;
use engine::rights::with_rights_of;
use engine::source::{Entry, EntryKind, Identity, Source, SourceError, Upload, Version};
use object::host::rename_durably;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{Result as IoResult, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of one read: small enough for a processor's cache.
const BLOCK_BYTES: usize = 1 << 20;

/// Opens with the user's rights, and refuses what lies inside `refused`, by whatever links it was reached.
fn open_as(
    who: &Identity,
    refused: &Arc<Vec<PathBuf>>,
    path: &Path,
    flags: OFlags,
    mode: u32,
) -> Result<File, SourceError> {
    opened_as(who, refused, path, flags, mode)?.map_err(|e| failure::of_io(&path.display().to_string(), &e))
}

/// Opens as `who`; the caller maps the error.
fn opened_as(
    who: &Identity,
    refused: &Arc<Vec<PathBuf>>,
    path: &Path,
    flags: OFlags,
    mode: u32,
) -> Result<IoResult<File>, SourceError> {
    let (target, refused) = (path.to_path_buf(), refused.clone());
    let opened = with_rights_of(who, move || -> IoResult<Result<File, String>> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(rustix::fs::open(&target, flags, Mode::from_raw_mode(mode))?);
        let real = std::fs::read_link(object::host::descriptor_path(&file))?;
        if refused.iter().any(|inner| real.starts_with(inner)) {
            return Ok(Err(real.display().to_string()));
        }
        Ok(Ok(file))
    })?;
    match opened {
        Ok(Ok(file)) => Ok(Ok(file)),
        Ok(Err(real)) => Err(SourceError::Permanent(format!(
            "{real} is inside the volume's own directories; name the file below the mount point instead"
        ))),
        Err(e) => Ok(Err(e)),
    }
}

/// Whether the path is a directory, with the rights of the user.
pub fn is_directory(who: &Identity, path: &str) -> Result<bool, SourceError> {
    let path = PathBuf::from(path);
    with_rights_of(who, move || path.is_dir())
}

/// The file that a result for this path replaces: the path itself or, where a symbolic link is, the file that it leads
/// to. Everything that is there and is no plain file is refused: a rename would put a file in its place.
pub fn destination(who: &Identity, path: &str) -> Result<String, SourceError> {
    let at = PathBuf::from(path);
    let found = with_rights_of(who, move || -> IoResult<Result<PathBuf, &'static str>> {
        let Ok(entry) = std::fs::symlink_metadata(&at) else { return Ok(Ok(at)) };
        if !entry.is_symlink() {
            return Ok(kind_of_other(&entry).map_or(Ok(at), Err));
        }
        match std::fs::metadata(&at) {
            Ok(behind) => match kind_of_other(&behind) {
                Some(kind) => Ok(Err(kind)),
                None => std::fs::canonicalize(&at).map(Ok),
            },
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Err("a symbolic link that leads nowhere")),
            Err(e) => Err(e),
        }
    })?;
    match found.map_err(|e| failure::of_io(path, &e))? {
        Ok(at) => at.into_os_string().into_string().map_err(|at| {
            SourceError::Permanent(format!("the link leads to {}, which is no UTF-8; name a file", at.display()))
        }),
        Err(kind) => Err(SourceError::Permanent(format!("it is {kind}, which no file replaces; name a plain file"))),
    }
}

/// The kind of an entry that is no plain file.
fn kind_of_other(entry: &std::fs::Metadata) -> Option<&'static str> {
    let kind = entry.file_type();
    match () {
        () if kind.is_file() => None,
        () if kind.is_dir() => Some("a directory"),
        () if kind.is_fifo() => Some("a named pipe"),
        () if kind.is_socket() => Some("a socket"),
        () => Some("a device"),
    }
}

/// Creates a directory and its missing parents, as the user.
fn make_directories(who: &Identity, refused: &Arc<Vec<PathBuf>>, dir: &Path) -> Result<(), SourceError> {
    // The nearest existing parent shows whether this path leads into the volume.
    for above in dir.ancestors() {
        match opened_as(who, refused, above, OFlags::PATH | OFlags::DIRECTORY, 0)? {
            Ok(_) if above == dir => return Ok(()),
            Ok(_) => break,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(failure::of_io(&above.display().to_string(), &e)),
        }
    }
    let made = dir.to_path_buf();
    let done = with_rights_of(who, move || std::fs::create_dir_all(made))?;
    done.map_err(|e| failure::of_io(&format!("make the directory {}", dir.display()), &e))
}

fn version_of(file: &File) -> Result<Version, SourceError> {
    let meta = file.metadata().map_err(|e| failure::of_io("stat", &e))?;
    if !meta.is_file() {
        return Err(SourceError::Permanent("it is not a plain file".into()));
    }
    let modified_ns = meta.mtime() as i128 * 1_000_000_000 + i128::from(meta.mtime_nsec());
    Ok(Version { size: meta.len(), etag: None, modified_ns: u64::try_from(modified_ns).ok() })
}

/// A local file.
pub struct LocalSource {
    file: Arc<File>,
    runtime: Arc<Runtime>,
}

impl LocalSource {
    /// Opens the file as `who`.
    pub fn open(
        who: &Identity,
        refused: &Arc<Vec<PathBuf>>,
        path: &str,
        runtime: Arc<Runtime>,
    ) -> Result<LocalSource, SourceError> {
        let file = open_as(who, refused, Path::new(path), OFlags::RDONLY, 0)?;
        version_of(&file)?;
        Ok(LocalSource { file: Arc::new(file), runtime })
    }

    /// Fills a buffer, which is returned for reuse: a new one of this size costs more than the read into it.
    fn read_into(&self, mut bytes: Vec<u8>, offset: u64, len: usize) -> Result<Vec<u8>, SourceError> {
        let file = self.file.clone();
        let read = async move {
            let task = tokio::task::spawn_blocking(move || {
                bytes.truncate(len);
                file.read_exact_at(&mut bytes, offset).map(|()| bytes)
            });
            let bytes = task.await.map_err(|e| SourceError::Passing(e.to_string()))?;
            bytes.map_err(|e| match e.kind() {
                std::io::ErrorKind::UnexpectedEof => SourceError::Changed("the file ended early".into()),
                _ => failure::of_io("read", &e),
            })
        };
        self.runtime.wait("read", len as u64, read)
    }
}

impl Source for LocalSource {
    fn stat(&self) -> Result<Version, SourceError> {
        version_of(&self.file)
    }

    fn fetch_at(&self, version: &Version, offset: u64, buf: &mut [u8], arrived: &AtomicU64) -> Result<(), SourceError> {
        same(version, &self.stat()?)?;
        let mut block = vec![0; BLOCK_BYTES.min(buf.len())];
        for (part, at) in buf.chunks_mut(BLOCK_BYTES).zip((offset..).step_by(BLOCK_BYTES)) {
            block = self.read_into(block, at, part.len())?;
            part.copy_from_slice(&block);
            arrived.fetch_add(part.len() as u64, Ordering::Relaxed);
        }
        same(version, &self.stat()?)
    }

    fn read_all(&self, version: &Version, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), SourceError> {
        same(version, &self.stat()?)?;
        let mut offset = 0;
        let mut block = vec![0; BLOCK_BYTES.min(version.size as usize)];
        while offset < version.size {
            let len = (version.size - offset).min(BLOCK_BYTES as u64) as usize;
            block = self.read_into(block, offset, len)?;
            offset += len as u64;
            if !each(&block) {
                return Ok(());
            }
        }
        same(version, &self.stat()?)
    }

    fn has_ranges(&self) -> Result<bool, SourceError> {
        Ok(true)
    }
}

/// A local file being written under a temporary name.
pub struct LocalUpload {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
    who: Identity,
}

impl LocalUpload {
    /// Creates the temporary file beside the destination, and the missing directories.
    pub fn start(
        who: &Identity,
        refused: &Arc<Vec<PathBuf>>,
        path: &str,
        temporary: &str,
    ) -> Result<LocalUpload, SourceError> {
        let temporary = PathBuf::from(temporary);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        if let Some(parent) = temporary.parent() {
            make_directories(who, refused, parent)?;
        }
        // The message names the user's destination, not the temporary file in its place.
        let started = opened_as(who, refused, &temporary, flags, 0o666)
            .and_then(|opened| opened.map_err(|e| failure::of_io(path, &e)));
        if let Err(SourceError::Permanent(why)) = &started
            && why.contains("inside the volume")
        {
            let inner = temporary.clone();
            let _ = with_rights_of(who, move || std::fs::remove_file(inner));
        }
        Ok(LocalUpload { file: started?, temporary, path: path.into(), who: who.clone() })
    }

    fn arrive(&self, expect_size: u64) -> Result<Version, SourceError> {
        self.file.sync_all().map_err(|e| failure::of_io("sync", &e))?;
        let version = version_of(&self.file)?;
        failure::same_size(version.size, expect_size)?;
        Ok(version)
    }

    fn rename(&self, version: Version) -> Result<Version, SourceError> {
        let (from, to) = (self.temporary.clone(), self.path.clone());
        let renamed = with_rights_of(&self.who, move || rename_durably(&from, &to))?;
        renamed.map_err(|e| failure::of_io(&format!("rename to {}", self.path.display()), &e))?;
        Ok(version)
    }

    fn remove(&self) -> Result<(), SourceError> {
        let temporary = self.temporary.clone();
        let removed = with_rights_of(&self.who, move || std::fs::remove_file(temporary))?;
        removed.map_err(|e| failure::of_io("remove", &e))
    }
}

impl Upload for LocalUpload {
    fn append(&mut self, data: &[u8]) -> Result<(), SourceError> {
        self.file.write_all(data).map_err(|e| failure::of_io("write", &e))
    }

    fn complete(&mut self, expect_size: u64) -> Result<(), SourceError> {
        self.arrive(expect_size).map(drop)
    }

    fn finish(self: Box<Self>, expect_size: u64) -> Result<Version, SourceError> {
        let result = self.arrive(expect_size).and_then(|version| self.rename(version));
        result.map_err(|e| failure::left(e, self.remove(), &self.temporary.display().to_string()))
    }

    fn abort(self: Box<Self>) -> Option<String> {
        failure::lies(self.remove(), &self.temporary.display().to_string())
    }
}

/// The tree below a directory, links as they are.
pub fn list(who: &Identity, refused: &Arc<Vec<PathBuf>>, path: &str) -> Result<Vec<Entry>, SourceError> {
    // Opening refuses the volume's own directories before any read.
    open_as(who, refused, Path::new(path), OFlags::RDONLY | OFlags::DIRECTORY, 0)?;
    let root = PathBuf::from(path);
    let walked = with_rights_of(who, move || walk(&root))?;
    walked.map_err(|e| failure::of_io(path, &e))
}

fn walk(root: &Path) -> IoResult<Vec<Entry>> {
    let mut entries = Entries::default();
    let mut todo = vec![String::new()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(root.join(&dir))? {
            let entry = entry?;
            let name = entry.file_name().into_string();
            let name = name.map_err(|n| std::io::Error::other(format!("the name {n:?} is no UTF-8")))?;
            let path = if dir.is_empty() { name } else { format!("{dir}/{name}") };
            let meta = entry.metadata()?; // of the link itself, if it is one
            let kind = if meta.is_dir() {
                todo.push(path.clone());
                EntryKind::Directory
            } else if meta.is_symlink() {
                EntryKind::Symlink(std::fs::read_link(entry.path())?.to_string_lossy().into_owned())
            } else if meta.is_file() {
                EntryKind::File(meta.len())
            } else {
                continue; // devices and sockets are no data
            };
            entries.add(path, kind).map_err(std::io::Error::other)?;
        }
    }
    Ok(entries.sorted())
}
