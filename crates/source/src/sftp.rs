//! Sources over sftp, through the user's own `ssh`: their keys, known hosts and configuration.
//!
//! One `ssh` child per server and user carries all requests of it. When root runs the daemon, the child runs with the
//! user's ids and no privilege that a setuid program could give back, and finds their `~/.ssh` by the password file.
//! The daemon's own keys are never used on behalf of other users.

use crate::address::Address;
use crate::credentials::Credentials;
use crate::entries::Entries;
use crate::failure;
use crate::guard::Guard;
use crate::runtime::{Moved, Runtime, while_moving};
use bytes::BytesMut;
use engine::rights;
use engine::source::{Entry, EntryKind, Identity, Result, Source, SourceError, Version};
use futures_util::StreamExt;
use futures_util::future::try_join_all;
use openssh_sftp_client::{Sftp, SftpOptions, file::File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::AsyncSeekExt;
use tokio::sync::{Mutex, Semaphore};

/// Ranges in flight over one session.
const IN_FLIGHT_MAX: usize = 8;

/// Temporary files that are remembered because they could not be removed.
const LEFT_MAX: usize = 1000;

/// Bytes of a line of `ssh` that are kept.
const LINE_BYTES_MAX: usize = 300;

/// Bytes of one request: every server supports this size.
const REQUEST_BYTES: usize = 32 << 10;

/// Bytes that are requested at once to read a whole file.
const BLOCK_BYTES: usize = 2 << 20;

/// One `ssh` child, started at the first use and again after its death.
pub struct SftpSession {
    arguments: Vec<String>,
    who: Identity,
    agent: Option<PathBuf>,
    live: Mutex<Option<Arc<Live>>>,
    /// Destinations, each with a temporary file beside it that could not be removed.
    left: parking_lot::Mutex<Vec<(String, String)>>,
    slots: Semaphore,
    pub(crate) runtime: Arc<Runtime>,
}

/// A running child. Killed when the last user drops it.
pub(crate) struct Live {
    pub(crate) sftp: Sftp,
    _child: tokio::process::Child,
}

impl SftpSession {
    /// Creates a session; nothing is started yet.
    pub fn new(address: &Address, found: &Credentials, who: &Identity, runtime: Arc<Runtime>) -> SftpSession {
        SftpSession {
            arguments: arguments(address, found),
            who: who.clone(),
            agent: found.agent.clone(),
            live: Mutex::new(None),
            left: parking_lot::Mutex::default(),
            slots: Semaphore::new(IN_FLIGHT_MAX),
            runtime,
        }
    }

    /// The running child, a new one if there is none.
    pub(crate) async fn live(&self) -> Result<Arc<Live>> {
        let mut live = self.live.lock().await;
        if let Some(live) = &*live {
            return Ok(live.clone());
        }
        let started = Arc::new(self.start().await?);
        *live = Some(started.clone());
        Ok(started)
    }

    async fn start(&self) -> Result<Live> {
        let mut command = rights::command("ssh", &self.who)?;
        command.args(&self.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(agent) = &self.agent {
            command.env("SSH_AUTH_SOCK", agent);
        }
        let mut command = tokio::process::Command::from(command);
        let spawned = command.kill_on_drop(true).spawn();
        let mut child = spawned.map_err(|e| SourceError::Permanent(format!("cannot start ssh: {e}; install it")))?;
        let (stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let stderr = child.stderr.take().expect("piped");
        let last_line = tokio::spawn(last_words(stderr));
        match Sftp::new(stdin, stdout, SftpOptions::default()).await {
            Ok(sftp) => Ok(Live { sftp, _child: child }),
            Err(e) => {
                drop(child);
                let last_line = last_line.await.unwrap_or_default();
                Err(failure::of_ssh(&last_line, &e.to_string()))
            }
        }
    }

    /// Forgets a child that no longer answers, so that the next call starts another.
    pub(crate) async fn forget(&self, dead: &Arc<Live>) {
        let mut live = self.live.lock().await;
        if live.as_ref().is_some_and(|l| Arc::ptr_eq(l, dead)) {
            *live = None;
        }
    }

    /// Records a temporary file that could not be removed: the next upload to the same destination tries again.
    pub(crate) fn remember_left(&self, path: &str, temporary: &str) {
        let mut left = self.left.lock();
        if left.len() < LEFT_MAX {
            left.push((path.to_owned(), temporary.to_owned()));
        }
    }

    /// Removes the temporary files of failed uploads to that destination.
    pub(crate) fn remove_left(&self, path: &str) {
        let left: Vec<_> = self.left.lock().extract_if(.., |(of, _)| of == path).collect();
        for (path, temporary) in left {
            match self.remove(&temporary) {
                Ok(()) => tracing::info!("{temporary} of an upload that failed is removed"),
                Err(SourceError::Permanent(_)) => {} // it is gone
                Err(_) => self.remember_left(&path, &temporary),
            }
        }
    }

    /// Removes a file, over another child if the present one is dead.
    pub(crate) fn remove(&self, path: &str) -> Result<()> {
        let remove = || {
            self.run("remove", 0, async |sftp| {
                sftp.fs().remove_file(path).await.map_err(|e| failure::of_sftp("remove", e))
            })
        };
        remove().or_else(|e| if matches!(e, SourceError::Passing(_)) { remove() } else { Err(e) })
    }

    /// Runs an operation over the child; after a temporary failure the child is not used again.
    pub(crate) fn run<T>(&self, what: &str, bytes: u64, work: impl AsyncFnOnce(&Sftp) -> Result<T>) -> Result<T> {
        self.run_over(what, bytes, work).map(|(_, done)| done)
    }

    /// [`Self::run`], returning also the child that it ran over.
    pub(crate) fn run_over<T>(
        &self,
        what: &str,
        bytes: u64,
        work: impl AsyncFnOnce(&Sftp) -> Result<T>,
    ) -> Result<(Arc<Live>, T)> {
        let result = self.runtime.wait(what, bytes, async {
            let _slot = self.slots.acquire().await.expect("the slots are never closed");
            let live = self.live().await?;
            let result = work(&live.sftp).await;
            if matches!(result, Err(SourceError::Passing(_))) {
                self.forget(&live).await;
            }
            result.map(|done| (live, done))
        });
        if matches!(result, Err(SourceError::Passing(_))) {
            // This also covers a deadline, at which the operation above did not end.
            let _ = self.runtime.wait("forget", 0, async {
                self.live.lock().await.take();
                Ok(())
            });
        }
        result
    }
}

/// Arguments of `ssh`. No word from a user is unchecked, and `--` ends the options.
fn arguments(address: &Address, found: &Credentials) -> Vec<String> {
    let mut words: Vec<String> = vec!["-x".into(), "-a".into(), "-T".into()];
    let mut option = |text: String| words.extend(["-o".to_string(), text]);
    option("BatchMode=yes".into());
    option("ConnectTimeout=10".into());
    option("ServerAliveInterval=15".into());
    option("ServerAliveCountMax=2".into());
    option("ClearAllForwardings=yes".into());
    option("PermitLocalCommand=no".into());
    option("StrictHostKeyChecking=yes".into());
    if let Some(file) = &found.known_hosts {
        option(format!("UserKnownHostsFile=\"{}\"", file.display()));
    }
    if let Some(key) = &found.key {
        option("IdentitiesOnly=yes".into());
        option(format!("IdentityFile=\"{}\"", key.display()));
    }
    if let Some(port) = address.port {
        words.extend(["-p".to_string(), port.to_string()]);
    }
    if let Some(user) = &found.user {
        words.extend(["-l".to_string(), user.clone()]);
    }
    words.extend(["-s", "--", address.host.trim_matches(['[', ']']), "sftp"].map(String::from));
    words
}

/// Keeps the last line of `ssh`; the rest is read and dropped, so that `ssh` never blocks.
async fn last_words(mut stderr: tokio::process::ChildStderr) -> String {
    use tokio::io::AsyncReadExt;
    let (mut words, mut buf) = (LastLine::default(), [0u8; 4096]);
    while let Ok(n) = stderr.read(&mut buf).await
        && n > 0
    {
        words.add(&buf[..n]);
    }
    words.add(b"\n");
    words.last
}

/// The last line of an output that is not blank. Lines are cut, since a server may send one without an end.
#[derive(Default)]
struct LastLine {
    line: Vec<u8>,
    last: String,
}

impl LastLine {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if *byte != b'\n' {
                if self.line.len() < LINE_BYTES_MAX {
                    self.line.push(*byte);
                }
                continue;
            }
            let line = String::from_utf8_lossy(&self.line).trim_end().to_string();
            if !line.is_empty() {
                self.last = line;
            }
            self.line.clear();
        }
    }
}

/// The path for the server: `/~/x` is `x` in the home directory.
pub fn remote_path(path: &str) -> &str {
    path.strip_prefix("/~/").unwrap_or(path)
}

/// Version of a file as sftp reports it.
pub(crate) async fn stat(sftp: &Sftp, path: &str) -> Result<Version> {
    let meta = sftp.fs().metadata(path).await.map_err(|e| failure::of_sftp("stat", e))?;
    if meta.file_type().is_some_and(|t| !t.is_file()) {
        return Err(SourceError::Permanent("it is not a plain file".into()));
    }
    let size = meta.len().ok_or_else(|| SourceError::Permanent("the server does not report the size".into()))?;
    let modified_ns = meta.modified().map(|at| u64::from(at.into_raw()) * 1_000_000_000);
    Ok(Version { size, etag: None, modified_ns })
}

/// One file at one server.
pub struct SftpSource {
    session: Arc<SftpSession>,
    path: String,
    guard: Guard,
}

impl SftpSource {
    /// Creates the file; nothing is sent yet.
    pub fn new(session: Arc<SftpSession>, path: &str) -> SftpSource {
        SftpSource { session, path: remote_path(path).to_string(), guard: Guard::default() }
    }
}

/// Fills one request's part of the buffer. The library advances its offset by the requested bytes, not the received
/// ones, so it is set before every request.
async fn read_part(mut file: File, offset: u64, part: &mut [u8], came: &impl Fn(usize)) -> Result<()> {
    let mut filled = 0;
    while filled < part.len() {
        let from = std::io::SeekFrom::Start(offset + filled as u64);
        file.seek(from).await.map_err(|e| SourceError::Passing(e.to_string()))?;
        let wanted = (part.len() - filled) as u32;
        let got = file.read(wanted, BytesMut::new()).await.map_err(|e| failure::of_sftp("read", e))?;
        let Some(got) = got.filter(|g| !g.is_empty() && g.len() <= part.len() - filled) else {
            return Err(SourceError::Changed("the file ended early".into()));
        };
        part[filled..filled + got.len()].copy_from_slice(&got);
        filled += got.len();
        came(got.len());
    }
    Ok(())
}

/// Several requests at once over one open file.
async fn read_range(file: &File, offset: u64, buf: &mut [u8], came: &impl Fn(usize)) -> Result<()> {
    let parts = buf.chunks_mut(REQUEST_BYTES).enumerate();
    let reads = parts.map(|(k, part)| read_part(file.clone(), offset + (k * REQUEST_BYTES) as u64, part, came));
    try_join_all(reads).await.map(drop)
}

impl SftpSource {
    /// Opens the file and reads while bytes arrive.
    fn read(&self, version: &Version, bytes: u64, work: impl AsyncFnOnce(&File, &Moved) -> Result<()>) -> Result<()> {
        self.guard.check(version, || self.stat())?;
        let (moved, timeout) = (Moved::default(), self.session.runtime.timeout);
        let (moved, path) = (&moved, &self.path);
        let transfer = async |sftp: &Sftp| {
            let file = sftp.open(path).await.map_err(|e| failure::of_sftp("open", e))?;
            work(&file, moved).await?;
            file.close().await.map_err(|e| failure::of_sftp("close", e))
        };
        self.session.run("read", bytes, async |sftp| while_moving("read", timeout, moved, transfer(sftp)).await)
    }
}

impl Source for SftpSource {
    fn stat(&self) -> Result<Version> {
        self.session.run("stat", 0, async |sftp| stat(sftp, &self.path).await)
    }

    fn fetch_at(&self, version: &Version, offset: u64, buf: &mut [u8], arrived: &AtomicU64) -> Result<()> {
        self.read(version, buf.len() as u64, async |file, moved| {
            let came = |bytes| {
                moved.add(bytes);
                arrived.fetch_add(bytes as u64, Ordering::Relaxed);
            };
            read_range(file, offset, buf, &came).await
        })
    }

    /// One open file serves the whole read, so a file that replaces it is not mixed in.
    fn read_all(&self, version: &Version, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        self.read(version, version.size, async |file, moved| {
            let mut buf = vec![0; BLOCK_BYTES.min(version.size as usize)];
            let mut offset = 0;
            while offset < version.size {
                let len = (version.size - offset).min(buf.len() as u64) as usize;
                read_range(file, offset, &mut buf[..len], &|bytes| moved.add(bytes)).await?;
                offset += len as u64;
                if !moved.hand_over(|| each(&buf[..len])) {
                    break;
                }
            }
            Ok(())
        })
    }

    fn has_ranges(&self) -> Result<bool> {
        Ok(true) // offsets are part of every read request
    }
}

/// Name of an entry. A name with a slash is refused: it could lead through a link that an earlier stage-in made.
fn name_of<'a>(name: &'a Path, directory: &str) -> Result<&'a str> {
    let Some(name) = name.to_str().filter(|name| !name.contains('\u{fffd}')) else {
        return Err(SourceError::Permanent(format!("a name in {directory} is no UTF-8")));
    };
    if name.contains('/') {
        return Err(SourceError::Permanent(format!("its listing has a name that cannot be used: {name:?}")));
    }
    Ok(name)
}

/// The tree below a directory, links as they are.
pub fn list(session: &SftpSession, path: &str) -> Result<Vec<Entry>> {
    let root = remote_path(path).trim_end_matches('/').to_string();
    session.run("list", 64 << 20, async |sftp| {
        let mut entries = Entries::default();
        let mut todo = vec![String::new()];
        while let Some(dir) = todo.pop() {
            let here = if dir.is_empty() { format!("{root}/") } else { format!("{root}/{dir}") };
            let opened = sftp.fs().open_dir(&here).await.map_err(|e| failure::of_sftp("list", e))?;
            let mut listing = Box::pin(opened.read_dir());
            while let Some(entry) = listing.next().await {
                let entry = entry.map_err(|e| failure::of_sftp("list", e))?;
                let name = name_of(entry.filename(), &here)?;
                if name == "." || name == ".." {
                    continue;
                }
                let path = if dir.is_empty() { name.to_string() } else { format!("{dir}/{name}") };
                let kind = match entry.file_type() {
                    Some(t) if t.is_dir() => {
                        todo.push(path.clone());
                        EntryKind::Directory
                    }
                    Some(t) if t.is_symlink() => {
                        let link = sftp.fs().read_link(format!("{root}/{path}")).await;
                        let link = link.map_err(|e| failure::of_sftp("read link", e))?;
                        EntryKind::Symlink(link.to_string_lossy().into_owned())
                    }
                    Some(t) if t.is_file() => EntryKind::File(entry.metadata().len().unwrap_or(0)),
                    _ => continue, // devices and sockets are no data
                };
                entries.add(path, kind)?;
            }
        }
        Ok(entries.sorted())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_ends_its_options_before_the_host() {
        let address = Address::parse("sftp://alice@host:2222/x").expect("good");
        let found = Credentials { user: address.user.clone(), ..Default::default() };
        let words = arguments(&address, &found);
        assert_eq!(&words[words.len() - 4..], ["-s", "--", "host", "sftp"]);
        assert!(words.contains(&"StrictHostKeyChecking=yes".to_string()));
        assert!(words.contains(&"BatchMode=yes".to_string()));
    }

    /// [S-052]
    #[test]
    fn a_name_with_a_slash_is_refused() {
        assert_eq!(name_of(Path::new("a b"), "/x/"), Ok("a b"));
        for bad in ["a/b", "/a", "../a", "a\u{fffd}"] {
            assert!(matches!(name_of(Path::new(bad), "/x/"), Err(SourceError::Permanent(_))), "{bad}");
        }
    }

    #[test]
    fn a_line_without_an_end_takes_no_memory() {
        let mut words = LastLine::default();
        words.add(b"first\n\xff\nlast\r\n \n");
        assert_eq!(words.last, "last");
        (0..1000).for_each(|_| words.add(&[b'x'; 4096]));
        assert_eq!(words.line.len(), LINE_BYTES_MAX);
        words.add(b"\n");
        assert_eq!(words.last, "x".repeat(LINE_BYTES_MAX));
    }

    #[test]
    fn home_paths() {
        assert_eq!(remote_path("/~/data/x"), "data/x");
        assert_eq!(remote_path("/data/x"), "/data/x");
    }
}
