//! Sources through OpenDAL: s3 and ftp, and the listings of webdav.

use crate::address::{Address, Scheme};
use crate::answer;
use crate::client::Client;
use crate::credentials::{Credentials, Secret};
use crate::entries::Entries;
use crate::failure;
use crate::guard::Guard;
use crate::runtime::{Moved, Runtime, while_moving};
use crate::transport;
use engine::source::{Entry, EntryKind, Result, Source, SourceError, Upload, Version};
use futures_util::StreamExt;
use opendal::{Builder, Metadata, Operator, services};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;

/// Part size of an upload to s3, in bytes; 10 000 parts are allowed, so files up to 312 GiB.
const S3_PART_BYTES: usize = 32 << 20;

const DAY_NS: u64 = 86_400_000_000_000;

/// One session with a server on behalf of one user.
pub struct DalSession {
    operator: Operator,
    scheme: Scheme,
    slots: Semaphore,
    /// Queries have slots of their own: otherwise a slow transfer would delay a query for a size.
    question_slots: Semaphore,
    runtime: Arc<Runtime>,
}

impl DalSession {
    /// Creates a session; nothing is sent yet. On an ftp server its paths count from the directory `root`: OpenDAL
    /// writes uploads under a temporary name there, so this is the directory of the destination.
    pub fn new(address: &Address, who: &Credentials, runtime: Arc<Runtime>, root: &str) -> Result<DalSession> {
        let operator = operator(address, who, root, runtime.timeout)?;
        // Connections of ftp are expensive (a login each), and servers limit their number.
        let (transfers, questions) = if address.scheme == Scheme::Ftp { (3, 2) } else { (8, 8) };
        let (slots, question_slots) = (Semaphore::new(transfers), Semaphore::new(questions));
        Ok(DalSession { operator, scheme: address.scheme, slots, question_slots, runtime })
    }

    async fn stat(&self, path: &str) -> Result<Version> {
        let _slot = self.question_slots.acquire().await.expect("the slots are never closed");
        let meta = self.operator.stat(path).await.map_err(failure::of_opendal)?;
        if meta.is_dir() {
            return Err(SourceError::Permanent("it is a directory, not a file".into()));
        }
        Ok(self.version(&meta))
    }

    fn version(&self, meta: &Metadata) -> Version {
        let etag = meta.etag().and_then(answer::guarding);
        let modified = meta.last_modified().map(SystemTime::from);
        let mut modified_ns = modified.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map(|d| d.as_nanos() as u64);
        if self.scheme == Scheme::Ftp {
            // A listing has hour and minute only for the last half year, and only the day for older files.
            modified_ns = modified_ns.map(|ns| ns - ns % DAY_NS);
        }
        Version { size: meta.content_length(), etag, modified_ns }
    }

    /// Streams a range (all of it if `range` is `None`) to `each`, which returns whether to go on.
    async fn stream(
        &self,
        path: &str,
        version: &Version,
        range: Option<std::ops::Range<u64>>,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        let _slot = self.slots.acquire().await.expect("the slots are never closed");
        let moved = Moved::default();
        let transfer = async {
            let mut reader = self.operator.reader_with(path);
            if let Some(tag) = version.etag.as_deref().filter(|_| self.guards_by_tag()) {
                reader = reader.if_match(tag);
            }
            let reader = reader.await.map_err(failure::of_opendal)?;
            let stream = match range {
                Some(range) => reader.into_bytes_stream(range).await,
                None => reader.into_bytes_stream(..).await,
            };
            let mut stream = stream.map_err(failure::of_opendal)?;
            while let Some(bytes) = stream.next().await {
                let bytes = bytes.map_err(of_stream)?;
                moved.add(bytes.len());
                if !moved.hand_over(|| each(&bytes)) {
                    break;
                }
            }
            Ok(())
        };
        while_moving("read", self.runtime.timeout, &moved, transfer).await
    }

    fn guards_by_tag(&self) -> bool {
        self.operator.info().capability().read_with_if_match
    }

    /// Lists all entries below a directory. Directory by directory if the service lists that way anyway: OpenDAL's own
    /// walk omits empty ones.
    async fn list(&self, path: &str) -> Result<Vec<Entry>> {
        let dir = if path.ends_with('/') { path.to_string() } else { format!("{path}/") };
        let prefix = dir.trim_start_matches('/').to_string();
        let at_once = self.scheme != Scheme::Ftp;
        let (mut entries, mut waiting) = (Entries::default(), vec![dir]);
        while let Some(dir) = waiting.pop() {
            let mut lister = self.operator.lister_with(&dir).recursive(at_once).await.map_err(failure::of_opendal)?;
            while let Some(entry) = lister.next().await {
                let (full, meta) = entry.map_err(failure::of_opendal)?.into_parts();
                if full.trim_matches('/') == dir.trim_matches('/') {
                    continue; // the directory itself
                }
                let Some(name) = full.strip_prefix(&prefix).map(|name| name.trim_end_matches('/').to_string()) else {
                    let why = format!("its listing names {full:?}, which is not below the directory");
                    return Err(SourceError::Permanent(why));
                };
                let kind = if meta.is_dir() { EntryKind::Directory } else { EntryKind::File(meta.content_length()) };
                if meta.is_dir() && !at_once {
                    waiting.push(full);
                }
                entries.add(name, kind)?;
            }
        }
        Ok(entries.sorted())
    }
}

fn of_stream(e: std::io::Error) -> SourceError {
    match e.downcast::<opendal::Error>() {
        Ok(e) => failure::of_opendal(e),
        Err(e) => SourceError::Passing(e.to_string()),
    }
}

fn operator(address: &Address, who: &Credentials, root: &str, timeout: Duration) -> Result<Operator> {
    let user = who.user.as_deref().unwrap_or("");
    let password = who.password.as_ref().map_or("", Secret::reveal);
    let token = who.token.as_ref().map_or("", Secret::reveal);
    match address.scheme {
        Scheme::Webdav => {
            let mut service = services::Webdav::default().endpoint(&address.http_endpoint()).disable_create_dir(true);
            if !user.is_empty() {
                service = service.username(user).password(password);
            }
            if !token.is_empty() {
                service = service.token(token);
            }
            over_http(service, timeout)
        }
        Scheme::S3 => over_http(s3(address, who), timeout),
        Scheme::Ftp => {
            let endpoint = format!("{}://{}", if address.secure { "ftps" } else { "ftp" }, address.authority());
            let (user, password) = if user.is_empty() { ("anonymous", "anonymous@") } else { (user, password) };
            let service = services::Ftp::default().endpoint(&endpoint).user(user).password(password).root(root);
            Operator::new(service).map_err(failure::of_opendal)
        }
        _ => Err(SourceError::Permanent("not through OpenDAL".into())),
    }
}

fn over_http(service: impl Builder, timeout: Duration) -> Result<Operator> {
    let operator = Operator::new(service).map_err(failure::of_opendal)?;
    Ok(operator.with_context(transport::checked(Client::new(timeout)?)))
}

/// The daemon's own configuration, environment and machine role are never used on behalf of a user.
fn s3(address: &Address, who: &Credentials) -> services::S3 {
    let mut service = services::S3::default()
        .bucket(&address.host)
        .region(who.region.as_deref().unwrap_or("us-east-1"))
        .disable_config_load()
        .disable_ec2_metadata();
    if let Some(endpoint) = &who.endpoint {
        service = service.endpoint(endpoint);
    }
    match (&who.access_key_id, &who.secret_access_key) {
        (Some(id), Some(secret)) => {
            service = service.access_key_id(id).secret_access_key(secret.reveal());
            if let Some(token) = &who.session_token {
                service = service.session_token(token.reveal());
            }
            service
        }
        _ => service.skip_signature(),
    }
}

/// One file at one server.
pub struct DalSource {
    session: Arc<DalSession>,
    path: String,
    guard: Guard,
}

impl DalSource {
    /// Creates the file; nothing is sent yet.
    pub fn new(session: Arc<DalSession>, path: &str) -> DalSource {
        DalSource { session, path: path.to_string(), guard: Guard::default() }
    }

    fn check(&self, version: &Version) -> Result<()> {
        if version.etag.is_some() && self.session.guards_by_tag() {
            return Ok(());
        }
        self.guard.check(version, || self.stat())
    }
}

impl Source for DalSource {
    fn stat(&self) -> Result<Version> {
        self.session.runtime.wait("stat", 0, self.session.stat(&self.path))
    }

    fn fetch_at(&self, version: &Version, offset: u64, buf: &mut [u8], arrived: &AtomicU64) -> Result<()> {
        self.check(version)?;
        let (len, mut filled, mut too_much) = (buf.len(), 0, false);
        let mut each = |bytes: &[u8]| {
            too_much = bytes.len() > len - filled;
            if !too_much {
                buf[filled..filled + bytes.len()].copy_from_slice(bytes);
                filled += bytes.len();
                arrived.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            }
            !too_much
        };
        let range = offset..offset + len as u64;
        let session = &self.session;
        session.runtime.wait("read", len as u64, session.stream(&self.path, version, Some(range), &mut each))?;
        if too_much {
            return Err(SourceError::Permanent("the server sent more than the range asked for".into()));
        }
        if filled < len {
            return Err(failure::short(filled as u64, len as u64));
        }
        Ok(())
    }

    fn read_all(&self, version: &Version, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        self.check(version)?;
        let session = &self.session;
        session.runtime.wait("read", version.size, session.stream(&self.path, version, None, each))
    }

    fn has_ranges(&self) -> Result<bool> {
        Ok(true) // s3 and ftp's REST are ranges by definition; a server without REST fails the read
    }

    /// Times of ftp are whole days. So a replacement on the day of the file, or the next one in another zone, goes
    /// unnoticed.
    fn notices_replacement(&self, version: &Version) -> bool {
        match (self.session.scheme, version.modified_ns) {
            (Scheme::Ftp, Some(at)) => UNIX_EPOCH + Duration::from_nanos(at + 2 * DAY_NS) < SystemTime::now(),
            _ => version.tells_apart(),
        }
    }
}

/// The tree below a directory.
pub fn list(session: &DalSession, path: &str) -> Result<Vec<Entry>> {
    session.runtime.wait("list", 64 << 20, session.list(path))
}

/// An upload to s3 or ftp, whose writers show the file only when they are closed.
pub struct DalUpload {
    session: Arc<DalSession>,
    writer: opendal::Writer,
    path: String,
    written: u64,
    arrived: Option<Version>,
}

impl DalUpload {
    /// Starts an upload.
    pub fn start(session: Arc<DalSession>, path: &str) -> Result<DalUpload> {
        let open = async {
            let writer = session.operator.writer_with(path);
            let writer = if session.scheme == Scheme::S3 { writer.chunk(S3_PART_BYTES) } else { writer };
            writer.await.map_err(failure::of_opendal)
        };
        let writer = session.runtime.wait("create", 0, open)?;
        Ok(DalUpload { session, writer, path: path.to_string(), written: 0, arrived: None })
    }

    fn remove(&mut self) {
        let runtime = self.session.runtime.clone();
        let (operator, path) = (&self.session.operator, &self.path);
        let gone = runtime.wait("remove", 0, async { operator.delete(path).await.map_err(failure::of_opendal) });
        if let Err(e) = gone {
            tracing::warn!("an upload that failed could not be removed again: {e}");
        }
    }
}

impl Upload for DalUpload {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let runtime = self.session.runtime.clone();
        let bytes = bytes::Bytes::copy_from_slice(data);
        let written = async { self.writer.write(bytes).await.map_err(failure::of_opendal) };
        runtime.wait("write", data.len() as u64, written)?;
        self.written += data.len() as u64;
        Ok(())
    }

    fn complete(&mut self, expect_size: u64) -> Result<()> {
        if self.written != expect_size {
            let why = format!("{} bytes were handed over, {expect_size} expected", self.written);
            return Err(SourceError::Permanent(why));
        }
        if expect_size == 0 && self.session.scheme == Scheme::Ftp {
            return Err(SourceError::Permanent("an empty file cannot be sent over ftp; use sftp".into()));
        }
        let runtime = self.session.runtime.clone();
        let closed = async { self.writer.close().await.map_err(failure::of_opendal) };
        runtime.wait("close", S3_PART_BYTES as u64, closed)?;
        self.arrived = Some(Version::default()); // from now on it is there to be removed
        let version = runtime.wait("stat", 0, self.session.stat(&self.path))?;
        failure::same_size(version.size, expect_size)?;
        self.arrived = Some(version);
        Ok(())
    }

    fn finish(mut self: Box<Self>, expect_size: u64) -> Result<Version> {
        if self.arrived.is_none()
            && let Err(e) = self.complete(expect_size)
        {
            self.abort();
            return Err(e);
        }
        Ok(self.arrived.expect("it was completed"))
    }

    fn abort(mut self: Box<Self>) -> Option<String> {
        if self.arrived.is_some() {
            self.remove();
            return None;
        }
        let runtime = self.session.runtime.clone();
        let aborted = runtime.wait("abort", 0, async { self.writer.abort().await.map_err(failure::of_opendal) });
        aborted.err().map(|e| format!("the upload that was given up may have left parts behind ({e})"))
    }
}
